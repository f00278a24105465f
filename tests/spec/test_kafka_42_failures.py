"""
KAFKA-42, section 3, "Partition Reassignment failure cases": one test or two for each of them.

The ticket's steps: 1 listen to ISR changes, 2 start the new replicas, 3 wait until they are in
sync, 4 elect a leader among them, 5 stop the old ones, 6 write the new assignment, 7 take the
partition out of ``/admin/reassign_partitions``.
"""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.effects import SendStopReplica
from controller.core.model import (
    BlockedBy,
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsRead
from controller.znodes import paths
from integration.rigs.failpoints import Failpoint
from tests.core.builders import Driver, broker, replicas, tp
from tests.sim.recoveries import Cell
from tests.sim.shapes import AT_ONCE, STEPWISE, Hand, Shape

TARGET = replicas(3, 4)


def found(isr: Replicas, leader: int, *, live: tuple[int, ...] = (1, 2, 3, 4)) -> Driver:
    """Return a controller that found the move (1,2) -> (3,4) begun by one before it."""
    driver = Driver(
        {tp(): (1, 2, 3, 4)},
        options=Options(preferred_election=False),
        leaders={tp(): leader},
    )
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in live}))
    driver.change_isr(tp(), isr)
    driver.states[tp()].clear()
    driver.sent.clear()
    begun = PartitionAssignment(replicas(3, 4, 1, 2), TARGET, replicas(1, 2))
    driver.fold(TopicsRead({"t": TopicAssignment({0: begun}, ZkVersion(5), Zxid(9))}))
    spec = ReassignmentSpec(TARGET, replicas(1, 2), RequestId("r"), Route.LEGACY, ZkVersion(0))
    driver.adopt({tp(): spec})
    return driver


def is_ended(driver: Driver) -> bool:
    """Whether the move is carried out and nothing of it is left."""
    return (
        tp() not in driver.view.reassignments.by_partition
        and driver.view.topics.assignment(tp()) == PartitionAssignment(TARGET)
        and set(driver.view.leadership.states[tp()].isr) == set(TARGET)
    )


@pytest.mark.parametrize("shape", [STEPWISE, AT_ONCE], ids=lambda shape: shape.name)
def test_failure_case_1_what_was_only_accepted_begins_from_scratch(shape: Shape) -> None:
    """The controller fails over between steps 1 and 2."""
    cell = Cell(shape, Failpoint.ACCEPTED, Hand.RESTARTED)
    assert set(cell.left.values()) == {replicas(*shape.replicas)}
    cell.take_over()
    assert cell.replicas() == cell.targets()


@pytest.mark.parametrize("failpoint", [Failpoint.A2_FOLLOWER_NOTIFIED, Failpoint.SYNCED])
@pytest.mark.parametrize("shape", [STEPWISE, AT_ONCE], ids=lambda shape: shape.name)
def test_failure_case_2a_started_replicas_are_resumed_in_sync_or_not(
    shape: Shape, failpoint: Failpoint
) -> None:
    """The controller fails over between steps 2 and 3, or when they are in sync just then."""
    cell = Cell(shape, failpoint, Hand.RESTARTED)
    assert any(cell.world.assignment(p).adding_replicas for p in cell.partitions)
    cell.take_over()
    assert cell.replicas() == cell.targets()


def test_failure_case_2b_a_replica_that_does_not_start_holds_up_its_partition_only() -> None:
    """Nothing is dropped for it, it is said what is waited for, and others go on."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    driver.submit({tp(0): (3, 4), tp(1): (1, 5)})
    driver.run(tp(1))
    waiting = driver.view.reassignments.by_partition[tp(0)]
    assert waiting.blocked is not None
    assert waiting.blocked.by is BlockedBy.REPLICA_NOT_IN_ISR
    assert waiting.is_copying
    stopped = [e for e in driver.sent if isinstance(e, SendStopReplica) and e.partition == tp(0)]
    assert stopped == []
    assert set(driver.view.leadership.states[tp(0)].isr) == set(replicas(1, 2))
    driver.run(tp(0))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(3, 4))


def test_failure_case_3_a_leader_among_the_new_replicas_is_not_elected_again() -> None:
    """The controller fails over between steps 4 and 5; the new replicas are in sync."""
    driver = found(replicas(1, 2, 3, 4), leader=4)
    assert {state.leader for state in driver.states[tp()]} == {BrokerId(4)}
    assert is_ended(driver)


@pytest.mark.parametrize("leader", [1, 3])
def test_failure_case_3_another_leader_is_elected_among_the_live_new_replicas(leader: int) -> None:
    """The leader is an old replica, or a new one that died with its controller."""
    driver = found(replicas(1, 2, 3, 4), leader=leader, live=(1, 2, 4))
    assert driver.view.leadership.states[tp()].leader != BrokerId(3)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (1, 2, 3, 4)}))
    driver.run(tp())
    assert driver.view.leadership.states[tp()].leader in TARGET
    assert is_ended(driver)


def test_failure_case_4a_half_stopped_replicas_are_stopped_again() -> None:
    """The controller fails over between steps 5 and 6: step 4 onwards is repeated."""
    driver = found(TARGET, leader=3)
    stopped = {(e.broker, e.delete) for e in driver.sent if isinstance(e, SendStopReplica)}
    assert stopped == {(BrokerId(b), delete) for b in (1, 2) for delete in (False, True)}
    assert is_ended(driver)


@pytest.mark.parametrize("shape", [STEPWISE, AT_ONCE], ids=lambda shape: shape.name)
def test_failure_case_4a_no_directory_is_left_where_only_some_were_deleted(shape: Shape) -> None:
    """The same on healthy brokers: one of the dropped replicas got the request, the other not."""
    cell = Cell(shape, Failpoint.B5_DELETE_SENT, Hand.RESTARTED)
    cell.take_over()
    assert {p.partition: cell.world.holders(p) for p in cell.partitions} == {
        n: set(target) for n, target in cell.targets().items()
    }


def test_failure_case_4b_nothing_is_deleted_before_the_new_leader_says_that_it_leads() -> None:
    """The ticket accepts an offline partition here; we wait for the acknowledgement."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    driver.acknowledges = False
    for _ in range(3):
        driver.catch_up(tp())
    stuck = driver.view.reassignments.by_partition[tp()]
    assert stuck.blocked is not None
    assert stuck.blocked.by is BlockedBy.LEADER_ACK
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)
    driver.acknowledges = True
    driver.acknowledge(tp(), replicas(1, 2, 3, 4))
    driver.settle()
    driver.run(tp())
    assert is_ended(driver)


def test_failure_case_5_a_partition_that_is_where_it_should_be_only_leaves_the_list() -> None:
    """The controller fails over between steps 6 and 7: no write to the partition, nothing sent."""
    driver = Driver({tp(): (3, 4)})
    driver.submit({tp(): (3, 4)})
    assert driver.view.requests.legacy is None
    assert tp() not in driver.view.reassignments.by_partition
    assert (driver.history[tp()], driver.states[tp()]) == ([], [])


def test_failure_case_5_the_list_goes_with_its_last_partition() -> None:
    """The same on a whole cluster, where the predecessor died before it deleted the znode."""
    cell = Cell(STEPWISE, Failpoint.B6_WRITTEN, Hand.RESTARTED, nth=3)
    assert cell.world.zookeeper.get(paths.LEGACY_PLAN) is not None
    assert cell.left == cell.targets()
    cell.take_over()
    assert cell.world.zookeeper.get(paths.LEGACY_PLAN) is None
