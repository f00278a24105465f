"""The six unit cases of KAFKA-42 and its refusals, one test each."""

from __future__ import annotations

import pytest

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RefusalReason,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.requests.records import LegacyPlanRead
from controller.core.topics.records import TopicsRead
from tests.core.builders import Driver, plan, replicas, tp


def test_leader_in_the_new_list_stays_leader() -> None:
    """Case 1: the leader is among the new replicas and is not moved by the reassignment."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 3))
    assert {s.leader for s in driver.states[tp()]} == {BrokerId(1)}


def test_leader_outside_the_new_list_is_replaced() -> None:
    """Case 2: the leader is not among the new replicas; one of them is elected."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (2, 3)})
    driver.run(tp())
    assert driver.view.leadership.states[tp()].leader in replicas(2, 3)
    assert set(driver.view.leadership.states[tp()].isr) == set(replicas(2, 3))


def test_new_list_without_overlap() -> None:
    """Case 3: nothing of the old list is in the new one."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 4))


def test_unknown_partition_is_refused() -> None:
    """Case 4: the partition does not exist; the entry is removed and the reason kept."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({TopicPartition("nowhere", 0): (1, 2), tp(5): (1, 2)})
    assert driver.view.requests.legacy is None
    (tally,) = driver.view.requests.by_id.values()
    assert [r.reason for r in tally.refused] == [RefusalReason.UNKNOWN_PARTITION] * 2


def test_partition_finished_up_to_step_6_needs_only_the_bookkeeping() -> None:
    """Case 5: the predecessor wrote the final assignment but not the end of its record."""
    driver = Driver({tp(): (3, 4)})
    spec = ReassignmentSpec(
        replicas(3, 4), replicas(1, 2), RequestId("r"), Route.LEGACY, ZkVersion(0)
    )
    before = dict(driver.view.leadership.states)
    driver.adopt({tp(): spec})
    assert tp() not in driver.view.reassignments.by_partition
    ended = [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]
    assert [e.partition for e in ended] == [tp()]
    assert driver.view.leadership.states == before
    assert driver.history[tp()] == []


def test_partition_finished_up_to_step_3_elects_and_ends() -> None:
    """Case 6: the new replicas are in sync, the leader is still an old one."""
    driver = Driver({tp(): (1, 2, 3, 4)})
    found = PartitionAssignment(replicas(3, 4, 1, 2), replicas(3, 4), replicas(1, 2))
    spec = ReassignmentSpec(
        replicas(3, 4), replicas(1, 2), RequestId("r"), Route.LEGACY, ZkVersion(0)
    )
    driver.view.reassignments.by_partition.clear()
    driver.fold(TopicsRead({"t": TopicAssignment({0: found}, ZkVersion(5), Zxid(9))}))
    driver.adopt({tp(): spec})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 4))
    assert driver.view.leadership.states[tp()].leader == BrokerId(3)
    assert set(driver.view.leadership.states[tp()].isr) == set(replicas(3, 4))


def test_same_replicas_are_done_not_refused() -> None:
    """A target equal to the current assignment ends at once without a write to the partition."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 2)})
    (tally,) = driver.view.requests.by_id.values()
    assert (tally.done, tally.refused) == (1, [])
    assert driver.states[tp()] == []
    assert driver.view.requests.legacy is None


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ((1, 9), RefusalReason.UNKNOWN_BROKER),
        ((3, 3), RefusalReason.DUPLICATE_REPLICAS),
        ((), RefusalReason.EMPTY_REPLICAS),
        ((3,), RefusalReason.BELOW_MIN_ISR),
    ],
)
def test_invalid_entries_are_refused_and_the_others_continue(
    target: tuple[int, ...], reason: RefusalReason
) -> None:
    """Invalid entries are removed with their reason; good ones beside them are carried out."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, min_isr=2)
    driver.submit({tp(0): target, tp(1): (1, 3)})
    driver.run(tp(1))
    (tally,) = driver.view.requests.by_id.values()
    assert [r.reason for r in tally.refused] == [reason]
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(1, 2))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(1, 3))
    assert driver.view.requests.legacy is None


def test_a_dead_broker_that_is_merely_kept_is_no_refusal() -> None:
    """It shows as what the partition waits for instead."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 3))
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2, 3)})))
    assert tp() in driver.view.reassignments.by_partition
