"""A broker that shuts down loses its leaderships first, as with Kafka's controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from controller import kafka_errors
from controller.core.calls.broker_requests import (
    AlterPartition,
    AlterPartitionAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrChange,
    Permission,
)
from controller.core.calls.records import BrokerRequestReceived
from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import (
    Effect,
    Respond,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from controller.core.leadership import duties
from controller.core.leadership.records import (
    PreferredElectionRead,
    StateCreatedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.core.reassignments.phases import Stopping, Syncing
from controller.core.role.records import BrokersRead
from tests.core.builders import EPOCH, Driver, broker, replicas, tp

ONE = BrokerId(1)


@dataclass(frozen=True)
class ShutdownDriver:
    """A driver, and the requests of its brokers."""

    driver: Driver

    def shutdown(self, broker_id: int, ticket: int = 1) -> None:
        """Let a broker ask for a controlled shutdown."""
        request = ControlledShutdown(BrokerId(broker_id), broker(broker_id).epoch)
        self.driver.observe(BrokerRequestReceived(ticket, request, self.driver.permission))

    def answer(self, ticket: int = 1) -> ControlledShutdownAnswer:
        """Return the only answer to a ticket."""
        (sent,) = self.answers(ticket)
        assert isinstance(sent, ControlledShutdownAnswer)
        return sent

    def answers(self, ticket: int = 1) -> list[object]:
        """Return the answers to a ticket."""
        return [
            e.response for e in self.driver.sent if isinstance(e, Respond) and e.ticket == ticket
        ]

    def stop(self, *broker_ids: int) -> None:
        """End the registrations of brokers."""
        left = {b: r for b, r in self.driver.view.cluster.brokers.items() if b not in broker_ids}
        self.driver.observe(BrokersRead(left))

    def state(self, partition: TopicPartition) -> tuple[int, Replicas, int]:
        """Return leader, ISR and leader epoch."""
        state = self.driver.view.leadership.states[partition]
        return state.leader, state.isr, state.leader_epoch


def driver_of(
    assignments: Mapping[TopicPartition, Sequence[int]], **options: object
) -> ShutdownDriver:
    """Return a cluster in a tenure."""
    return ShutdownDriver(Driver(assignments, **options))  # type: ignore[arg-type]


def test_request_without_an_epoch_ends_with_the_registration_that_made_it() -> None:
    """The broker is back when it is judged: it did not ask to shut down."""
    a = driver_of({tp(): (1, 2, 3)})
    a.driver.view.leadership.unseeded[tp()] = None
    a.driver.observe(BrokerRequestReceived(1, ControlledShutdown(ONE, None), a.driver.permission))
    assert not a.answers()
    a.driver.view.leadership.unseeded.clear()
    a.driver.observe(BrokersRead({**a.driver.view.cluster.brokers, ONE: broker(1, 900)}))
    assert a.answer() == ControlledShutdownAnswer(kafka_errors.STALE_BROKER_EPOCH)
    assert not a.driver.view.leadership.shutting_down


def stops(effects: list[Effect]) -> list[tuple[TopicPartition, int, int]]:
    """Return the replicas that were stopped without deletion, with the epoch."""
    return [
        (e.partition, e.broker, e.leader_epoch)
        for e in effects
        if isinstance(e, SendStopReplica) and not e.delete
    ]


def test_leaderships_move_to_the_first_replica_in_sync_and_brokers_hear_of_it() -> None:
    """The former leader hears that it follows, then stops to fetch."""
    a = driver_of({tp(): (1, 2, 3)})
    a.shutdown(1)
    assert a.state(tp()) == (2, replicas(2, 3), 1)
    assert a.answer() == ControlledShutdownAnswer(kafka_errors.NONE)
    sent = [
        e
        for e in a.driver.sent
        if isinstance(e, SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata | Respond)
    ]
    assert sent[-4:] == [
        SendLeaderAndIsr(tp(), replicas(1, 2, 3)),
        SendStopReplica(tp(), ONE, LeaderEpoch(1), delete=False),
        SendUpdateMetadata((tp(),)),
        Respond(1, ControlledShutdownAnswer(kafka_errors.NONE)),
    ]


def test_followers_leave_the_isr_and_stop() -> None:
    """The leader is sent the new ISR; the follower nothing but StopReplica."""
    a = driver_of({tp(): (2, 1, 3)})
    before = len(a.driver.sent)
    a.shutdown(1)
    assert a.state(tp()) == (2, replicas(2, 3), 1)
    sent = a.driver.sent[before:]
    assert SendLeaderAndIsr(tp(), replicas(2, 3)) in sent
    assert stops(sent) == [(tp(), 1, 1)]
    assert a.answer().remaining == ()


def test_follower_out_of_sync_stops_too() -> None:
    """It would enter the ISR otherwise, and leave it with its broker."""
    a = driver_of({tp(): (2, 1, 3)})
    known = a.driver.view.leadership.states[tp()]
    lagging = replace(known, isr=replicas(2, 3), version=ZkVersion(1))
    a.driver.observe(StatesRead({tp(): lagging}))
    a.shutdown(1)
    assert a.state(tp()) == (2, replicas(2, 3), 0)
    assert stops(a.driver.sent) == [(tp(), 1, 0)]


def test_leadership_that_no_other_replica_can_take_remains_and_is_named() -> None:
    """The broker tries again, and stops in any case."""
    a = driver_of({tp(): (1, 2), tp(1): (1,), tp(2): (1, 2)})
    known = a.driver.view.leadership.states[tp()]
    alone = replace(known, isr=replicas(1), version=ZkVersion(1))
    a.driver.observe(StatesRead({tp(): alone}))
    a.shutdown(1)
    assert a.state(tp()) == (1, replicas(1), 0)
    assert a.state(tp(2)) == (2, replicas(2), 1)
    # A partition with one replica is not named: no retry could move it.
    assert a.answer() == ControlledShutdownAnswer(kafka_errors.NONE, (tp(),))
    # The follower catches up: the leadership moves although the broker did not ask again.
    caught_up = replace(known, isr=replicas(1, 2), version=ZkVersion(2))
    a.driver.observe(StatesRead({tp(): caught_up}))
    assert a.state(tp()) == (2, replicas(2), 1)
    a.shutdown(1, ticket=2)
    assert a.answer(2).remaining == ()


def test_answer_waits_for_a_topic_that_is_read_again() -> None:
    """Until then its leadership cannot be moved, but it is not immovable."""
    it = driver_of({tp(): (1, 2, 3)})
    it.driver.answers_topics = False
    topic = it.driver.view.topics.by_name["t"]
    topic.stale = True
    it.shutdown(1)
    assert not it.answers()
    topic.stale = False
    it.driver.view.due.add((tp(),))
    it.driver.settle()
    assert it.answer().remaining == ()
    assert it.state(tp())[0] == 2


def test_two_brokers_that_shut_down_are_both_left_out() -> None:
    """Neither gets what the other gives up; the last of an ISR keeps its leadership."""
    a = driver_of({tp(): (1, 2, 3), tp(1): (1, 2)})
    a.shutdown(2)
    a.shutdown(1, ticket=2)
    assert a.state(tp())[:2] == (3, replicas(3))
    assert a.state(tp(1))[:2] == (1, replicas(1))
    assert a.answer(2).remaining == (tp(1),)


def test_broker_that_shuts_down_leads_again_where_all_others_are_dead() -> None:
    """It serves for a moment; without it the partition has no leader."""
    a = driver_of({tp(): (1, 2)})
    a.driver.view.leadership.shutting_down[BrokerId(2)] = broker(2).epoch
    a.stop(1)
    assert a.state(tp())[:2] == (2, replicas(2))


def test_broker_is_staying_again_after_its_restart() -> None:
    """A preferred leader is elected on it."""
    a = driver_of({tp(): (1, 2, 3)})
    a.shutdown(1)
    a.stop(1)
    assert not a.driver.view.leadership.shutting_down
    registered = replace(broker(1), epoch=BrokerEpoch(900))
    a.driver.observe(BrokersRead({**a.driver.view.cluster.brokers, ONE: registered}))
    known = a.driver.view.leadership.states[tp()]
    back = replace(known, isr=replicas(2, 3, 1), version=ZkVersion(known.version + 1))
    a.driver.observe(StatesRead({tp(): back}))
    a.driver.observe(PreferredElectionRead(frozenset({tp()}), ZkVersion(0)))
    assert a.state(tp())[0] == 1


def test_broker_that_shuts_down_is_not_elected_as_preferred_leader() -> None:
    """Its leaderships would move twice."""
    a = driver_of({tp(): (1, 2, 3)}, leaders={tp(): 2})
    assert duties.elect_preferred(a.driver.view, tp()) is not None
    a.driver.view.leadership.shutting_down[ONE] = broker(1).epoch
    assert duties.elect_preferred(a.driver.view, tp()) is None


def test_topic_that_is_to_be_deleted_is_left_alone() -> None:
    """Kafka's controller does not touch it either."""
    a = driver_of({tp(): (1, 2, 3)}, options=Options(tenure=TenurePolicy.PERMANENT))
    a.driver.observe(DeletionsRead(frozenset({"t"})))
    a.shutdown(1)
    assert a.state(tp()) == (1, replicas(1, 2, 3), 0)
    assert a.answer() == ControlledShutdownAnswer(kafka_errors.NONE)


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [
        (1, 1, kafka_errors.STALE_BROKER_EPOCH),
        (9, 109, kafka_errors.BROKER_NOT_AVAILABLE),
        (1, -1, kafka_errors.STALE_BROKER_EPOCH),
        (1, None, kafka_errors.NONE),
    ],
    ids=["an earlier registration", "unknown", "no registration", "a version without an epoch"],
)
def test_registration_is_checked(broker_id: int, epoch: int | None, error: int) -> None:
    """A request of an earlier process must not move the leaderships of the present one."""
    a = driver_of({tp(): (1, 2, 3)})
    request = ControlledShutdown(BrokerId(broker_id), None if epoch is None else BrokerEpoch(epoch))
    a.driver.observe(BrokerRequestReceived(1, request, a.driver.permission))
    assert a.answer().error == error
    assert (a.state(tp())[0] == 1) == (error != kafka_errors.NONE)


def test_request_of_a_registration_that_is_not_read_yet_waits() -> None:
    """The broker restarted, and our view is older."""
    a = driver_of({tp(): (1, 2, 3)})
    a.driver.observe(
        BrokerRequestReceived(1, ControlledShutdown(ONE, BrokerEpoch(900)), a.driver.permission)
    )
    assert not a.answers()
    registered = replace(broker(1), epoch=BrokerEpoch(900))
    a.driver.observe(BrokersRead({**a.driver.view.cluster.brokers, ONE: registered}))
    assert a.answer().remaining == ()


def test_new_partition_is_not_led_by_a_broker_that_shuts_down() -> None:
    """It is created with the replicas that stay."""
    a = driver_of({tp(): (1, 2, 3)})
    a.shutdown(1)
    a.driver.view.leadership.states.pop(tp())
    a.driver.observe(StatesRead({tp(): None}))
    (created,) = [
        r for c in a.driver.changes for r in c.records if isinstance(r, StateCreatedRecord)
    ]
    assert (created.leader, created.isr) == (2, replicas(2, 3))


def test_step_does_not_add_a_replica_on_a_broker_that_shuts_down() -> None:
    """It begins when the broker is back."""
    a = driver_of({tp(): (1, 2, 3)})
    a.shutdown(4)
    a.driver.submit({tp(): (1, 2, 4)})
    blocked = a.driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.detail == "broker 4 of the target is shutting down"
    registered = replace(broker(4), epoch=BrokerEpoch(900))
    a.driver.observe(BrokersRead({**a.driver.view.cluster.brokers, BrokerId(4): registered}))
    assert isinstance(a.driver.view.reassignments.by_partition[tp()].phase, Syncing)


def test_deletion_waits_for_the_leader_that_took_over() -> None:
    """The exclusion is acknowledged at the epoch of the move, by the new leader."""
    a = driver_of({tp(): (1, 2, 3)}, acknowledges=False)
    a.driver.submit({tp(): (1, 2)})
    excluded = a.driver.states[tp()][-1]
    assert excluded.isr == replicas(1, 2)
    a.shutdown(1)
    assert a.state(tp()) == (2, replicas(2), excluded.leader_epoch + 1)
    a.driver.acknowledge(tp(), replicas(1))
    assert not isinstance(a.driver.view.reassignments.by_partition[tp()].phase, Stopping)
    a.driver.acknowledge(tp(), replicas(2))
    a.driver.settle()
    assert isinstance(a.driver.view.reassignments.by_partition[tp()].phase, Stopping)


def test_every_write_of_a_shutdown_raises_the_leader_epoch() -> None:
    """Brokers ignore an epoch that they have."""
    a = driver_of({tp(n): ((1, 2, 3), (2, 3, 1), (3, 1, 2))[n % 3] for n in range(9)})
    a.shutdown(1)
    written = [r for c in a.driver.changes for r in c.records if isinstance(r, StateRecord)]
    assert len(written) == 9
    assert {r.leader_epoch for r in written} == {1}
    assert all(ONE not in r.isr for r in written)


def test_leader_that_shuts_down_takes_others_into_the_isr() -> None:
    """Only then can its leadership move."""
    a = driver_of({tp(): (1, 2)})
    known = a.driver.view.leadership.states[tp()]
    alone = replace(known, isr=replicas(1), version=ZkVersion(1))
    a.driver.observe(StatesRead({tp(): alone}))
    a.shutdown(1)
    change = IsrChange("t", None, 0, known.leader_epoch, replicas(1, 2), 0, ZkVersion(1))
    a.driver.observe(
        BrokerRequestReceived(
            2, AlterPartition(ONE, broker(1).epoch, 1, (change,)), a.driver.permission
        )
    )
    assert a.state(tp()) == (2, replicas(2), 1)
    back = IsrChange("t", None, 0, LeaderEpoch(1), replicas(2, 1), 0, ZkVersion(3))
    a.driver.observe(
        BrokerRequestReceived(
            3, AlterPartition(BrokerId(2), broker(2).epoch, 1, (back,)), a.driver.permission
        )
    )
    (refused,) = a.answers(3)
    assert isinstance(refused, AlterPartitionAnswer)
    assert refused.results[0].error == kafka_errors.OPERATION_NOT_ATTEMPTED


def test_request_that_was_permitted_in_another_tenure_moves_nothing() -> None:
    """Rights are checked in the tenure in which the request has its effect, or not at all."""
    a = driver_of({tp(n): (1, 2, 3) for n in range(6)})
    before = dict(a.driver.view.leadership.states)
    other = Permission("a peer", None, ControllerEpoch(EPOCH - 1))
    for broker_id in (1, 2, 3):
        request = ControlledShutdown(BrokerId(broker_id), broker(broker_id).epoch)
        a.driver.observe(BrokerRequestReceived(broker_id, request, other))
    assert a.driver.view.leadership.states == before
    assert not a.driver.view.calls.heard
    assert not a.driver.view.leadership.shutting_down
