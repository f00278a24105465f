"""Tests of ``controller.telemetry.partition_documents``."""

from __future__ import annotations

import json
from typing import Any

from controller.core.core_settings import EngineName
from controller.core.model import Blocked, BlockedBy, TopicPartition, ZkVersion, Zxid
from controller.core.reassignments.phases import AwaitingController, Syncing
from controller.core.requests.model import PlanNode
from controller.core.view import ClusterView
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.partition_documents import (
    IN_FLIGHT,
    ROWS,
    Filter,
    PartitionDocuments,
)
from tests.core.builders import replicas, tp
from tests.telemetry.builders import NOW, REQUEST, START, a_view, measured, partition_state

CLOCKS = Clocks(NOW, START)


def documents(view: ClusterView, stalled_after_s: float = 300.0) -> PartitionDocuments:
    """Return the documents of a view without known copies."""
    return PartitionDocuments(view, CLOCKS, Copies(), measured(view, CLOCKS), stalled_after_s)


def explained(view: ClusterView, partition: TopicPartition | None = None) -> dict[str, Any]:
    """Return the explanation as a client reads it."""
    requested = tp() if partition is None else partition
    document = json.loads(json.dumps(documents(view).explanation(requested)))
    assert isinstance(document, dict)
    return document


def test_partition_in_flight_has_its_reason_and_the_steps_to_come(engine: EngineName) -> None:
    """KAFKA-6794: the steps after the one in flight."""
    built = a_view(0, 1, 2, 3, 4, 5).with_partition(
        tp(), (0, 2, 3, 4, 1), adding=(4,), removing=(1,), state=partition_state(0, (0, 2, 3))
    )
    view = built.with_reassignment(
        tp(), (3, 4, 5), Syncing(), original=(0, 1, 2), since=600.0, step=2
    ).view
    view.role.engine = engine
    view.reassignments.by_partition[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "replica 4")
    assert explained(view)["reassignment"]["size_bytes"] is None
    view.disks_process.sizes[tp()] = 7_000_000
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


def test_bar_begins_with_the_step_and_not_with_its_request() -> None:
    """Delegated: the topic znode shows the step later; a restarted daemon knows no more."""
    built = a_view(1, 2, 3, 4).with_partition(tp(), (1, 2), state=partition_state(1, (1, 2)))
    built.view.role.engine = EngineName.DELEGATED
    requested = AwaitingController(replicas(1, 2, 4), NOW)
    built.with_reassignment(tp(), (1, 4), requested, original=(1, 2), step=1)

    def share() -> float | None:
        moved = explained(built.view)["reassignment"]["share"]
        assert moved is None or isinstance(moved, float)
        return moved

    assert share() == 0.0
    built.with_partition(tp(), (1, 2, 4), adding=(4,))
    built.view.reassignments.by_partition[tp()].phase = Syncing()
    assert share() == 0.0
    built.view.leadership.states[tp()] = partition_state(1, (1, 2, 4))
    assert share() == 0.5
    built.with_partition(tp(), (1, 2, 4))
    assert share() == 0.5
    built.with_partition(tp(), (1, 4))
    assert share() == 1.0


def test_a_partition_without_a_reassignment_says_so() -> None:
    """Known or not."""
    view = a_view(1).with_partition(tp(), (1,)).view
    known = explained(view)
    assert (known["known"], known["reassignment"], known["steps_to_come"]) == (True, None, [])
    assert explained(view, tp(7))["known"] is False


def test_entry_that_is_not_accepted_has_its_reason() -> None:
    """It stands in the plan, and nowhere else."""
    view = a_view(1).with_partition(tp(), (1,)).view
    view.requests.legacy = PlanNode({tp(): replicas(4)}, ZkVersion(0), Zxid(3))
    assert explained(view)["not_accepted_because"]["by"] == "config_unknown"


def many(count: int, moving: int) -> ClusterView:
    """Return a view of so many reassignments, the last few of them in flight."""
    built = a_view(1, 2, 3, 4)
    for number in range(count):
        built.with_partition(tp(number), (1, 2), state=partition_state(1, (1, 2)))
        phase = Syncing() if number >= count - moving else None
        built.with_reassignment(tp(number), (1, 3), phase, step=int(phase is not None), since=900.0)
    return built.view


def listed(view: ClusterView, wanted: Filter) -> tuple[int, int, list[int]]:
    """Return how many there are, which page it is, and the partitions on it."""
    found = documents(view).page(wanted)
    return found["total"], found["page"], [p["partition"] for p in found["partitions"]]


def test_partitions_in_flight_come_first() -> None:
    """It is what people look for."""
    view = many(120, moving=3)
    total, page, shown = listed(view, Filter())
    assert (total, page, len(shown)) == (120, 1, ROWS)
    assert shown[:4] == [117, 118, 119, 0]


def test_pages_follow_each_other_without_gap_or_repetition() -> None:
    """A number beyond the last is the last."""
    view = many(120, moving=60)
    pages = [listed(view, Filter(page=n)) for n in (1, 2, 3)]
    shown = [number for _, _, numbers in pages for number in numbers]
    assert sorted(shown) == list(range(120))
    assert listed(view, Filter(page=1000)) == pages[2]
    assert listed(view, Filter(page=0)) == pages[0]


def test_filters_select_partitions() -> None:
    """By part of the topic, request, phase, and broker of a present or target replica."""
    view = many(10, moving=2)
    assert listed(view, Filter(topic="t"))[0] == 10
    assert listed(view, Filter(topic="x"))[0] == 0
    assert listed(view, Filter(request=REQUEST))[0] == 10
    assert listed(view, Filter(request="other"))[0] == 0
    assert listed(view, Filter(phase="A2-syncing"))[2] == [8, 9]
    assert listed(view, Filter(phase=IN_FLIGHT))[2] == [8, 9]
    assert listed(view, Filter(phase="pending"))[0] == 8
    assert listed(view, Filter(phase="nonsense"))[0] == 0
    assert [listed(view, Filter(broker=b))[0] for b in (1, 2, 3, 4)] == [10, 10, 10, 0]


def test_nothing_is_one_empty_page() -> None:
    """Not an error."""
    assert documents(a_view(1).view).page(Filter()) == {
        "total": 0,
        "page": 1,
        "pages": 1,
        "partitions": [],
    }


def test_stalled_ones_are_marked() -> None:
    """As in the status."""
    view = many(1, moving=1)
    found = documents(view, stalled_after_s=50.0).page(Filter())
    assert found["partitions"][0]["stalled"]
