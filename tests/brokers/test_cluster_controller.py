"""Alter entries to the cluster's controller, each sent once and answered; elections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse, ElectLeadersResponse
from kafka.protocol.api_key import ApiKey

from controller.brokers.cluster_controller import (
    FRESH_S,
    VOUCHED_S,
    ClusterController,
)
from controller.brokers.connection_settings import ConnectionSettings
from controller.core.cluster.model import LiveBroker
from controller.core.model import AlterOutcome, BrokerId, TopicPartition
from controller.core.reassignments.records import ReassignmentsAltered
from controller.core.role.records import ReassignmentsProbed
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REPLICA_ASSIGNMENT,
    NOT_CONTROLLER,
    UNKNOWN_SERVER_ERROR,
)
from controller.reactor.ports import AlterEntry
from tests.brokers.fakes import (
    KAFKA_2_6,
    Answer,
    CollectingInbox,
    Drop,
    FakeBroker,
    Hold,
    Reaction,
    Received,
)

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVE = AlterEntry(FIRST, (BrokerId(2), BrokerId(3)))
CANCEL = AlterEntry(SECOND, (BrokerId(1), BrokerId(2)), cancels=True)
UNDERSTOOD: Mapping[int, tuple[int, int]] = {
    **KAFKA_2_6,
    ApiKey.ElectLeaders: (0, 2),
    ApiKey.AlterPartitionReassignments: (0, 1),
}
ELECTED = Answer(ElectLeadersResponse(version=1, throttle_time_ms=0, error_code=0))
NO_MORE_S = 1.5
"""How long the test watches for further requests."""

Errors = Mapping[int, tuple[int, str | None]]
"""What is answered to a partition of the topic: a code and a message."""


def answer(errors: Errors, whole: tuple[int, str | None] = (0, None)) -> Answer:
    """Return the answer of a controller."""
    rows = [(number, code, message) for number, (code, message) in errors.items()]
    return Answer(
        AlterPartitionReassignmentsResponse(
            version=0,
            throttle_time_ms=0,
            error_code=whole[0],
            error_message=whole[1],
            responses=[("orders", rows)] if rows else [],
        )
    )


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def orders(inbox: CollectingInbox) -> Iterator[ClusterController]:
    """Return a client that knows no controller yet; it is stopped when the test ends."""
    made = ClusterController(inbox, ConnectionSettings())
    made.start()
    yield made
    made.stop()
    assert not made.is_alive


def registered(fake: FakeBroker, broker: int) -> LiveBroker:
    """Return the fake's registration under this id."""
    known = fake.registration()
    return LiveBroker(BrokerId(broker), known.epoch, known.endpoints)


def led_by(orders: ClusterController, *fakes: FakeBroker) -> None:
    """Let these be the brokers, from id 1 on, and the first of them the controller."""
    orders.update_brokers([registered(fake, n + 1) for n, fake in enumerate(fakes)])
    orders.update_controller(BrokerId(1))


def altered(inbox: CollectingInbox) -> ReassignmentsAltered:
    """Return the next answer."""
    event = inbox.next()
    assert isinstance(event, ReassignmentsAltered)
    return event


def test_entries_of_a_call_are_sent_together_and_answered_one_by_one(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """A cancellation is sent as in Kafka: without replicas."""
    refused = {0: (0, None), 1: (INVALID_REPLICA_ASSIGNMENT, "broker 9 is dead")}
    with FakeBroker(script=lambda _: answer(refused), understood=UNDERSTOOD) as fake:
        led_by(orders, fake)
        orders.alter([MOVE, CANCEL])
        event = altered(inbox)
        (topic,) = fake.received.get(timeout=10).message.topics
        rows = [(p.partition_index, p.replicas) for p in topic.partitions]
        assert rows == [(0, [2, 3]), (1, None)]
    moved, cancelled = event.results
    assert event.controller == 1
    assert (moved.partition, moved.target, moved.error) == (FIRST, MOVE.target, 0)
    assert cancelled.error == INVALID_REPLICA_ASSIGNMENT
    assert "broker 9 is dead" in cancelled.why


def test_an_error_of_the_whole_request_is_everybodys(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """Without permission nothing is made."""
    whole = (CLUSTER_AUTHORIZATION_FAILED, "Alter on Cluster is needed")
    with FakeBroker(script=lambda _: answer({}, whole), understood=UNDERSTOOD) as fake:
        led_by(orders, fake)
        orders.alter([MOVE, CANCEL])
        assert {r.error for r in altered(inbox).results} == {CLUSTER_AUTHORIZATION_FAILED}


def test_what_the_controller_says_nothing_of_is_an_error(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """Every entry is answered."""
    with FakeBroker(script=lambda _: answer({0: (0, None)}), understood=UNDERSTOOD) as fake:
        led_by(orders, fake)
        orders.alter([MOVE, CANCEL])
        assert [r.error for r in altered(inbox).results] == [0, UNKNOWN_SERVER_ERROR]


def test_who_is_not_the_controller_is_not_the_one_to_make_it_later(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """It is not sent to the next controller either: by then another entry may be due."""
    with ExitStack() as stack:

        def moved(_: Received) -> Answer:
            orders.update_controller(BrokerId(2))
            return answer({}, (NOT_CONTROLLER, None))

        former = stack.enter_context(FakeBroker(script=moved, understood=UNDERSTOOD))
        later = stack.enter_context(FakeBroker(understood=UNDERSTOOD))
        led_by(orders, former, later)
        orders.alter([MOVE])
        assert [r.fate for r in altered(inbox).results] == [AlterOutcome.UNSENT]
        orders.vouch()
        time.sleep(NO_MORE_S)
        assert later.received.empty()


def test_an_entry_without_an_answer_is_not_sent_again(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """It may have been carried out, or may still be: the loop gets UNKNOWN at once."""
    with (
        FakeBroker(script=lambda _: Drop(), understood=UNDERSTOOD) as dying,
        FakeBroker(understood=UNDERSTOOD) as later,
    ):
        led_by(orders, dying, later)
        orders.alter([CANCEL])
        event = altered(inbox)
        assert event.controller is None
        assert [(r.partition, r.target, r.fate) for r in event.results] == [
            (CANCEL.partition, CANCEL.target, AlterOutcome.UNKNOWN)
        ]
        orders.update_controller(BrokerId(2))
        orders.vouch()
        time.sleep(NO_MORE_S)
        assert dying.received.qsize() == 1
        assert later.received.empty()


def test_an_entry_that_reaches_no_controller_is_answered_at_once(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """There is no controller, or its address refuses connections."""
    orders.alter([MOVE])
    assert [r.fate for r in altered(inbox).results] == [AlterOutcome.UNSENT]
    with FakeBroker(understood=UNDERSTOOD) as gone:
        led_by(orders, gone)
    orders.alter([MOVE])
    assert [r.fate for r in altered(inbox).results] == [AlterOutcome.UNSENT]


@contextmanager
def electing(orders: ClusterController) -> Iterator[tuple[FakeBroker, threading.Event]]:
    """Give a controller that is busy with an election until released."""
    released = threading.Event()
    reactions: Iterator[Reaction] = chain([Hold(released, ELECTED)], repeat(answer({0: (0, None)})))
    with FakeBroker(script=lambda _: next(reactions), understood=UNDERSTOOD) as fake:
        led_by(orders, fake)
        orders.elect([FIRST])
        fake.received.get(timeout=10)
        yield fake, released


def test_a_forgotten_entry_is_not_sent(orders: ClusterController, inbox: CollectingInbox) -> None:
    """What is asked for afterwards is."""
    with electing(orders) as (fake, released):
        orders.alter([MOVE])
        orders.forget()
        orders.alter([MOVE._replace(target=(BrokerId(4),))])
        released.set()
        assert altered(inbox).results[0].target == (4,)
        assert fake.received.qsize() == 1


def test_an_entry_that_waited_too_long_is_not_sent(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """It stood on what was known then; the connection is there for the next."""
    with electing(orders) as (fake, released):
        orders.alter([MOVE])
        time.sleep(FRESH_S + 0.2)
        orders.vouch()
        released.set()
        assert [r.fate for r in altered(inbox).results] == [AlterOutcome.UNSENT]
        assert fake.received.empty()
        orders.alter([MOVE])
        assert [r.fate for r in altered(inbox).results] == [AlterOutcome.ANSWERED]
        assert fake.connections == 1


def test_a_loop_that_stood_still_sends_nothing_more(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """When it wakes up it hears that, and decides anew."""
    with electing(orders) as (fake, released):
        orders.alter([MOVE])
        time.sleep(VOUCHED_S + 0.2)
        released.set()
        (result,) = altered(inbox).results
        assert result.fate is AlterOutcome.UNSENT
        assert "lead" in result.why
        assert fake.received.empty()


def test_an_election_is_requested_again_and_keeps_no_alter_entry_waiting(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """The controller checks the ISR itself, so the election may go to the next controller."""
    with FakeBroker(script=lambda _: ELECTED, understood=UNDERSTOOD) as fake:
        orders.elect([FIRST])
        orders.alter([MOVE])
        assert [r.fate for r in altered(inbox).results] == [AlterOutcome.UNSENT]
        led_by(orders, fake)
        assert fake.received.get(timeout=10).api_key == ApiKey.ElectLeaders


@pytest.mark.parametrize(
    ("understood", "problem"), [(UNDERSTOOD, None), (KAFKA_2_6, "older than Kafka 2.4")]
)
def test_the_controller_says_whether_it_understands_alter_entries(
    orders: ClusterController,
    inbox: CollectingInbox,
    understood: Mapping[int, tuple[int, int]],
    problem: str | None,
) -> None:
    """By its list of requests; what it will never know is said to be final."""
    with FakeBroker(understood=understood) as fake:
        led_by(orders, fake)
        orders.probe()
        event = inbox.next()
    assert isinstance(event, ReassignmentsProbed)
    assert event.is_final == (problem is not None)
    assert (problem or "") in (event.problem or "")


def test_without_a_controller_there_is_a_problem_of_the_moment(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """It is asked again later."""
    orders.probe()
    event = inbox.next()
    assert isinstance(event, ReassignmentsProbed)
    assert event.problem is not None
    assert not event.is_final


def test_preferred_leaders_are_elected_by_the_controller(
    orders: ClusterController, inbox: CollectingInbox
) -> None:
    """Nothing follows; the next call is another matter."""

    def script(received: Received) -> Answer:
        if received.api_key == ApiKey.ElectLeaders:
            elected = ElectLeadersResponse(
                version=received.version, throttle_time_ms=0, error_code=0
            )
            return Answer(elected)
        return answer({0: (0, None)})

    with FakeBroker(script=script, understood=UNDERSTOOD) as fake:
        led_by(orders, fake)
        orders.elect([FIRST, SECOND])
        orders.alter([MOVE])
        assert [r.error for r in altered(inbox).results] == [0]
        received = fake.received.get(timeout=10)
    assert received.api_key == ApiKey.ElectLeaders
    (topic,) = received.message.topic_partitions
    assert (topic.topic, list(topic.partitions)) == ("orders", [0, 1])
