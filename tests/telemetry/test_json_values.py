"""Tests of ``controller.telemetry.json_values``."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from controller.core.model import (
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    Refusal,
    RefusalReason,
    RequestId,
)
from controller.core.reassignments.phases import Starting
from controller.core.reassignments.records import PhaseRecord
from controller.core.requests.records import RefusalRecord
from controller.core.topics.records import AssignmentRecord
from controller.telemetry.json_values import iso_time, json_fields, json_value
from tests.core.builders import replicas, tp


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("text", "text"),
        (RefusalReason.MALFORMED, "malformed"),
        (b"\x00\xff", "AP8="),
        (tp(3, "orders"), {"topic": "orders", "partition": 3}),
        (replicas(1, 2), [1, 2]),
        (frozenset({BrokerId(2), BrokerId(1)}), [1, 2]),
        ({1: (2,)}, {"1": [2]}),
        (Starting(LeaderEpoch(1), None), "A2"),
    ],
)
def test_values_become_json_values(value: object, expected: object) -> None:
    """Each type of value has one form."""
    assert json_value(value) == expected


def test_a_partition_becomes_two_fields() -> None:
    """A record's partition can be searched by topic and by number."""
    record = AssignmentRecord(tp(1), PartitionAssignment(replicas(1, 2), replicas(2)))
    assert json_fields(record) == {
        "topic": "t",
        "partition": 1,
        "assignment": {"replicas": [1, 2], "adding_replicas": [2], "removing_replicas": []},
    }


def test_records_can_be_written_as_json() -> None:
    """Nested records, enumerations and phases all survive."""
    refusal = Refusal(RequestId("r"), "t-0", RefusalReason.MALFORMED, "no")
    phase = PhaseRecord(tp(), Starting(LeaderEpoch(1), None), Instant(1.0), "begin")
    for record in (RefusalRecord((refusal,)), phase):
        assert json.loads(json.dumps(json_fields(record))) == json_fields(record)


def test_times_are_iso_8601_in_utc() -> None:
    """Milliseconds are enough, and the zone is written short."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert iso_time(moment) == "2026-01-02T03:04:05.678Z"
