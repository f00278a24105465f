"""Phases A1 to B8 of Kafka's controller, and the six rows of its table."""

from __future__ import annotations

from itertools import pairwise

from controller.core.core_settings import Options
from controller.core.effects import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from controller.core.model import BrokerId, PartitionAssignment
from controller.core.reassignments.phases import Shrinking, Stopping, Syncing
from tests.core.builders import Driver, replicas, tp

ALL = Options(step_size=None)


def test_the_table_of_the_classic_jump() -> None:
    """{1,2,3} to {4,5,6}: RS / AR / RR / leader / ISR by row; leader move and shrink are one."""
    driver = Driver({tp(): (1, 2, 3)}, options=ALL, min_isr=2)
    driver.submit({tp(): (4, 5, 6)})
    jump = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
    assert driver.view.topics.assignment(tp()) == jump
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(1), replicas(1, 2, 3))

    driver.acknowledges = False
    driver.catch_up(tp())
    state = driver.view.leadership.states[tp()]
    assert driver.states[tp()][-2].isr == replicas(1, 2, 3, 4, 5, 6)
    assert (state.leader, state.isr) == (BrokerId(4), replicas(4, 5, 6))
    assert driver.view.topics.assignment(tp()) == jump
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Shrinking)

    driver.acknowledges = True
    driver.acknowledge(tp(), replicas(4))
    driver.settle()
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 5, 6))
    assert tp() not in driver.view.reassignments.by_partition


def test_an_overlapping_jump() -> None:
    """{1,0,2} to {2,3,5}: the new leader is the first of the target that is in sync."""
    driver = Driver({tp(): (1, 0, 2)}, options=ALL, min_isr=2)
    driver.submit({tp(): (2, 3, 5)})
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(
        replicas(2, 3, 5, 1, 0), replicas(3, 5), replicas(1, 0)
    )
    driver.run(tp())
    state = driver.view.leadership.states[tp()]
    assert (state.leader, set(state.isr)) == (BrokerId(2), set(replicas(2, 3, 5)))
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(2, 3, 5))


def test_no_replica_is_stopped_before_the_leader_acknowledged_its_exclusion() -> None:
    """StopReplica waits for the acknowledgement of the LeaderAndIsr that excludes the replica."""
    driver = Driver({tp(): (0, 1, 2, 3)}, min_isr=2)
    driver.acknowledges = False
    driver.submit({tp(): (0, 1, 2)})
    assert not [e for e in driver.sent if isinstance(e, SendStopReplica)]
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    assert not [e for e in driver.sent if isinstance(e, SendStopReplica)]
    driver.acknowledge(tp(), replicas(0))
    driver.settle()
    driver.acknowledge_stop(tp(), replicas(3))
    stops = [e for e in driver.sent if isinstance(e, SendStopReplica)]
    assert [(s.broker, s.delete) for s in stops] == [(BrokerId(3), False), (BrokerId(3), True)]
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)


def test_the_topic_znode_remembers_a_dropped_replica_until_its_deletion_is_acknowledged() -> None:
    """Only the topic znode remembers what is to be removed; it shrinks last."""
    driver = Driver({tp(): (0, 1, 2, 3)}, min_isr=2)
    driver.acknowledges = False
    driver.submit({tp(): (0, 1, 2)})
    driver.acknowledge(tp(), replicas(0))
    driver.settle()
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    assert assignment.removing_replicas == replicas(3)


def test_a_dropped_replica_gets_stop_replica_only() -> None:
    """From the write that excludes it on, a dropped replica gets no LeaderAndIsr."""
    driver = Driver({tp(): (0, 1, 2, 3)}, min_isr=2)
    driver.sent.clear()
    driver.submit({tp(): (0, 1, 2)})
    for effect in driver.sent:
        if isinstance(effect, SendLeaderAndIsr):
            assert BrokerId(3) not in effect.brokers


def test_every_state_write_bumps_the_leader_epoch_by_one() -> None:
    """A write without the bump could never be delivered."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    driver.submit({tp(): (3, 4, 5)})
    driver.run(tp())
    epochs = [s.leader_epoch for s in driver.states[tp()]]
    assert all(after - before in (0, 1) for before, after in pairwise(epochs))
    assert epochs[-1] > 0


def test_the_end_is_sent_to_every_broker() -> None:
    """B8: UpdateMetadata goes to all live brokers after the last write."""
    driver = Driver({tp(): (0, 1)}, min_isr=1)
    driver.submit({tp(): (0, 2)})
    driver.run(tp())
    last = [e for e in driver.sent if isinstance(e, SendUpdateMetadata)][-1]
    assert last.brokers is None
    assert tp() in last.partitions


def test_a_step_waits_for_the_isr() -> None:
    """The next step does not begin before the target of this one is within the ISR."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    driver.submit({tp(): (3, 4, 5)})
    reassignment = driver.view.reassignments.by_partition[tp()]
    assert isinstance(reassignment.phase, Syncing)
    assert reassignment.blocked is not None
    assert "replica 3 is not in ISR" in reassignment.blocked.detail
    assert driver.passed(tp()) == [replicas(0, 1, 2, 3)]
