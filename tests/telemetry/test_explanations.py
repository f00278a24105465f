"""Tests of ``controller.telemetry.explanations``."""

from __future__ import annotations

import json
from typing import Any

from controller.core.cached_znodes import PlanNode
from controller.core.model import Blocked, BlockedBy, Instant, TopicPartition, ZkVersion, Zxid
from controller.core.phases import Syncing
from controller.core.view import ClusterView
from controller.telemetry.explanations import explanation_of
from controller.telemetry.status import Clocks
from tests.core.builders import replicas, tp
from tests.telemetry.builders import START, a_view, partition_state

NOW = Clocks(Instant(1000.0), START)


def explained(view: ClusterView, partition: TopicPartition | None = None) -> dict[str, Any]:
    """Return the explanation as a client reads it."""
    asked = tp() if partition is None else partition
    document = json.loads(json.dumps(explanation_of(view, asked, NOW, stalled_after_s=300.0)))
    assert isinstance(document, dict)
    return document


def test_a_partition_in_flight_tells_its_wait_and_the_steps_to_come() -> None:
    """KAFKA-6794: what follows the step in flight, as it stands now."""
    built = a_view(0, 1, 2, 3, 4, 5).with_partition(
        tp(), (0, 2, 3, 4, 1), adding=(4,), removing=(1,), state=partition_state(0, (0, 2, 3))
    )
    view = built.with_reassignment(
        tp(), (3, 4, 5), Syncing(), original=(0, 1, 2), since=600.0, step=2
    ).view
    view.reassignments[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "replica 4")
    assert explained(view)["reassignment"]["size_bytes"] is None
    view.sizes[tp()] = 7_000_000
    document = explained(view)
    assert document["reassignment"]["size_bytes"] == 7_000_000
    assert document["reassignment"]["stalled"] is True
    assert document["reassignment"]["route"] == "legacy"
    assert document["reassignment"]["blocked_on"]["by"] == "broker_dead"
    assert document["reassignment"]["state"] == "blocked"
    assert document["steps_to_come"] == [
        {"target": [0, 3, 4, 5], "adding": [5], "dropping": [2]},
        {"target": [3, 4, 5], "adding": [], "dropping": [0]},
    ]


def test_a_partition_without_a_reassignment_says_so() -> None:
    """Known or not."""
    view = a_view(1).with_partition(tp(), (1,)).view
    known = explained(view)
    assert (known["known"], known["reassignment"], known["steps_to_come"]) == (True, None, [])
    assert explained(view, tp(7))["known"] is False


def test_an_entry_that_is_not_accepted_says_why() -> None:
    """It stands in the plan, and nowhere else."""
    view = a_view(1).with_partition(tp(), (1,)).view
    view.legacy = PlanNode({tp(): replicas(4)}, ZkVersion(0), Zxid(3))
    assert explained(view)["not_accepted_because"]["by"] == "config_unknown"
