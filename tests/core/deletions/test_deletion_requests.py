"""The deletion of topics is requested for clients, once and only of topics that exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from controller.core import wakeups
from controller.core.calls.client_requests import (
    AwaitDeletions,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    TopicAnswer,
    TopicDefaults,
    TopicToDelete,
)
from controller.core.calls.records import ClientRequestReceived
from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.model import EPOCH_DURING_DELETE
from controller.core.deletions.records import DeletionRequestedRecord, DeletionsRead
from controller.core.effects import ReadTopics, Respond
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.records import StopReplicaAnswered, StopReplicaResult
from controller.core.records import Change, TimerFired
from controller.core.role import invalidation
from controller.core.role.records import ControllerClaimed, Deposed
from controller.core.topics.model import TopicResult
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.core.topics.topic_creation import WRITE_S
from tests.core.builders import EPOCH, Driver, broker, replicas, tp
from tests.core.leadership.test_duties import live

ID = "AAAAAAAAAAAAAAAAAAAAAg"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAw"
TIMEOUT_S = 20.0


def driver_of(assignments: Mapping[TopicPartition, Sequence[int]], *, reads: bool = True) -> Driver:
    """Return a driver whose role lasts, whatever is to be deleted."""
    options = Options(
        tenure=TenurePolicy.PERMANENT, endpoint=broker(1_000_000), serves_clients=True
    )
    return Driver(assignments, options=options, answers_topics=reads)


def deletion(*topics: str, topic_id: str | None = None, timeout_s: float = 20.0) -> DeleteTopics:
    """Return a client's request."""
    return DeleteTopics(tuple(TopicToDelete(name, topic_id) for name in topics), timeout_s)


def send(driver: Driver, request: DeleteTopics, ticket: int = 1) -> None:
    """Let a client ask."""
    driver.observe(ClientRequestReceived(ticket, request, driver.permission))


def answers(driver: Driver, ticket: int = 1) -> list[TopicAnswer]:
    """Return the answers to a ticket."""
    found = [e.response for e in driver.sent if isinstance(e, Respond) and e.ticket == ticket]
    return [r for r in found if isinstance(r, CreateTopicsAnswer | DeleteTopicsAnswer)]


def results(driver: Driver, ticket: int = 1) -> dict[str, int]:
    """Return the errors in the only answer."""
    (answer,) = answers(driver, ticket)
    assert isinstance(answer, DeleteTopicsAnswer)
    assert answer.error == 0
    return {r.name: r.error for r in answer.results}


def requested(driver: Driver) -> list[str]:
    """Return the topics whose deletion was requested."""
    written = (r for c in driver.changes for r in c.records)
    return [r.result.name for r in written if isinstance(r, DeletionRequestedRecord)]


def later(driver: Driver, seconds: float) -> None:
    """Let the timer of waiting requests fire."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(TimerFired(wakeups.PENDING_REQUESTS_TIMER))


def identified(driver: Driver, topic_id: str = ID, generation: int | None = None) -> None:
    """Let the topic be read with an id."""
    found = TopicAssignment(
        {0: PartitionAssignment(replicas(1, 2))}, ZkVersion(1), Zxid(9), topic_id
    )
    now = driver.view.role.read_generation if generation is None else generation
    driver.observe(replace(TopicsRead({"t": found}), read_generation=now))


def rejections(driver: Driver) -> tuple[list[Change], Callable[[], None]]:
    """Reject every write from now on; return the changes, and what ends that."""
    rejected: list[Change] = []
    commit = driver.commit
    driver.commit = rejected.append  # type: ignore[method-assign,assignment]

    def end() -> None:
        driver.commit = commit  # type: ignore[method-assign]

    return rejected, end


def test_request_is_answered_when_it_is_durable() -> None:
    """Nothing waits for the topic to disappear: any controller deletes it from then on."""
    driver = driver_of({tp(): (1, 2), tp(0, "u"): (2, 3)})
    send(driver, deletion("t", "u"))
    assert requested(driver) == ["t", "u"]
    assert results(driver) == {"t": 0, "u": 0}
    created = {r.name: r.czxid for r in answers(driver)[0].results}
    assert created == {name: driver.view.topics.by_name[name].czxid for name in ("t", "u")}
    assert not driver.view.calls.pending_client_requests


def test_deletion_that_is_pending_is_not_requested_again() -> None:
    """As Kafka does: several clients may wait for it."""
    driver = driver_of({tp(): (1, 2)})
    driver.observe(DeletionsRead(frozenset({"t"})))
    send(driver, deletion("t"))
    assert results(driver) == {"t": 0}
    assert not requested(driver)


def deleting(*, acknowledges: bool = True) -> Driver:
    """Return a cluster that deletes a topic, with replicas on a dead and on two live brokers."""
    options = Options(
        tenure=TenurePolicy.PERMANENT, endpoint=broker(1_000_000), serves_clients=True
    )
    assignments = {tp(): (1, 3), tp(0, "u"): (1, 2)}
    driver = Driver(assignments, options=options, deletes_topics=True, acknowledges=acknowledges)
    driver.observe(live(1, 2))
    driver.observe(DeletionsRead(frozenset({"t"})))
    return driver


def awaited(driver: Driver, czxid: int, ticket: int, timeout_s: float = TIMEOUT_S) -> None:
    """Let the endpoint wait for the end of a topic."""
    wanted = AwaitDeletions({"t": Zxid(czxid)}, timeout_s)
    driver.observe(ClientRequestReceived(ticket, wanted, driver.permission))


def confirmed(driver: Driver, to: int, *, delete: bool) -> None:
    """Let a broker answer that it stopped, or deleted, its replica, which follows the metadata."""
    result = StopReplicaResult(tp(), EPOCH_DURING_DELETE, delete, 0)
    epoch = driver.epoch(BrokerId(to))
    driver.observe(StopReplicaAnswered(BrokerId(to), epoch, 0, (result,), resent=False))


def test_topic_is_dropped_when_every_live_broker_dropped_it_from_its_metadata() -> None:
    """Although a broker with a replica is dead, and before the logs are deleted."""
    driver = deleting(acknowledges=False)
    czxid = driver.view.topics.by_name["t"].czxid
    awaited(driver, czxid, 1)
    confirmed(driver, 1, delete=False)
    assert not answers(driver)
    confirmed(driver, 2, delete=False)
    assert results(driver) == {"t": 0}
    assert "t" in driver.view.topics.by_name
    send(driver, deletion("t"), ticket=2)
    assert results(driver, 2) == {"t": 3}, "as brokers know it"
    defaults = TopicDefaults(1, 1, uses_topic_ids=False)
    again = CreateTopics(
        (NewTopic("t", 1, 1, (), (), ID),), defaults, TIMEOUT_S, validate_only=False
    )
    driver.observe(ClientRequestReceived(3, again, driver.permission))
    assert answers(driver, 3)[0].results[0].error == 36


def test_topic_that_is_gone_or_replaced_is_dropped() -> None:
    """Also where it was gone before the question."""
    driver = deleting()
    former = driver.view.topics.by_name["t"].czxid
    driver.observe(live(1, 2, 3))
    assert "t" not in driver.view.topics.by_name
    awaited(driver, former, 1)
    assert results(driver, 1) == {"t": 0}
    anew = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(77))
    driver.observe(TopicsListed(frozenset({"t", "u"})), TopicsRead({"t": anew}))
    awaited(driver, former, 2)
    assert results(driver, 2) == {"t": 0}
    awaited(driver, 77, 3)
    assert not answers(driver, 3)


def test_topic_that_is_not_dropped_in_time_has_timed_out() -> None:
    """Its deletion goes on."""
    driver = deleting(acknowledges=False)
    awaited(driver, driver.view.topics.by_name["t"].czxid, 1, timeout_s=3.0)
    later(driver, 2.0)
    assert not answers(driver)
    later(driver, 1.0)
    assert results(driver) == {"t": 7}


def test_unknown_topics_are_refused_and_nothing_is_written_for_them() -> None:
    """Neither by their name nor by an id that is not the topic's; others are deleted."""
    driver = driver_of({tp(): (1, 2)})
    identified(driver)
    send(driver, deletion("none", "t"))
    assert results(driver) == {"none": 3, "t": 0}
    send(driver, deletion("none", topic_id=OTHER_ID), ticket=2)
    send(driver, deletion("t", topic_id=OTHER_ID), ticket=3)
    assert results(driver, 2) == {"none": 100}
    assert results(driver, 3) == {"t": 100}
    assert requested(driver) == ["t"]


def test_topic_that_is_not_read_yet_is_awaited() -> None:
    """It may be new; one that cannot be read at all is left alone."""
    driver = driver_of({tp(): (1, 2)}, reads=False)
    driver.observe(TopicsListed(frozenset({"t", "new", "odd"})))
    driver.observe(TopicsRead({"odd": "no JSON"}))
    send(driver, deletion("new", "odd"))
    assert not answers(driver)
    found = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(70), None)
    driver.observe(TopicsRead({"new": found}))
    later(driver, 1)
    assert results(driver) == {"new": 0, "odd": -1}
    assert requested(driver) == ["new"]


def test_topic_named_by_an_id_is_read_in_the_tenure_first() -> None:
    """A controller before the claim may have replaced it by another of the same name."""
    driver = driver_of({tp(): (1, 2)}, reads=False)
    identified(driver)
    driver.restart()
    assert driver.view.topics.by_name["t"].read_in < driver.view.tenure.claim_generation
    send(driver, deletion("t", topic_id=ID))
    assert ReadTopics(("t",)) in driver.sent
    assert not requested(driver)
    identified(driver, ID, generation=driver.view.tenure.claim_generation - 1)
    later(driver, 1)
    assert not requested(driver)
    identified(driver, OTHER_ID)
    later(driver, 1)
    assert results(driver) == {"t": 100}
    assert not requested(driver)
    send(driver, deletion("t", topic_id=OTHER_ID), ticket=2)
    assert results(driver, 2) == {"t": 0}


def test_request_of_a_former_tenure_is_dropped() -> None:
    """It was permitted in that tenure only, and the endpoint answered it when that ended."""
    driver = driver_of({tp(): (1, 2)}, reads=False)
    identified(driver)
    former = driver.permission
    driver.observe(Deposed("a new controller"), *driver.own_records())
    driver.sent.clear()
    driver.fold(ClientRequestReceived(2, deletion("t", topic_id=ID), former))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.fold(ClientRequestReceived(3, deletion("t", topic_id=ID), former))
    identified(driver)
    later(driver, 1)
    assert not requested(driver)
    assert not [e for e in driver.sent if isinstance(e, Respond)]


def test_request_of_a_client_that_does_not_wait_is_written() -> None:
    """The endpoint says that its time is over; a topic that cannot be read is given up."""
    driver = driver_of({tp(): (1, 2)}, reads=False)
    send(driver, deletion("t", timeout_s=0))
    assert results(driver) == {"t": 0}
    driver.observe(TopicsListed(frozenset({"t", "new"})))
    send(driver, deletion("new", timeout_s=2), ticket=2)
    later(driver, 1)
    assert not answers(driver, 2)
    later(driver, 1)
    assert results(driver, 2) == {"new": 7}


def test_topic_that_is_gone_meanwhile_is_unknown() -> None:
    """The write is rejected, and decided again by what is read then."""
    driver = driver_of({tp(): (1, 2)})
    rejected, end = rejections(driver)
    send(driver, deletion("t"))
    end()
    assert invalidation.invalidate(driver.view, rejected[0]) == [ReadTopics(("t",))]
    driver.observe(TopicsListed(frozenset()))
    later(driver, 1)
    assert results(driver) == {"t": 3}


def test_deletion_that_was_just_requested_is_no_error() -> None:
    """By another client, whose request is not read yet."""
    driver = driver_of({tp(): (1, 2)})
    rejected, end = rejections(driver)
    send(driver, deletion("t"))
    end()
    invalidation.invalidate(driver.view, rejected[0])
    driver.observe(DeletionsRead(frozenset({"t"})))
    identified(driver)
    later(driver, 1)
    assert results(driver) == {"t": 0}
    assert not requested(driver)


def test_write_that_zookeeper_rejects_otherwise_is_an_error() -> None:
    """It would be rejected again."""
    driver = driver_of({tp(): (1, 2)})
    rejected, end = rejections(driver)
    send(driver, deletion("t"))
    end()
    invalidation.set_aside(
        driver.view, rejected[0], "/admin/delete_topics/t", "NO_AUTH", driver.now
    )
    later(driver, 1)
    (answer,) = answers(driver)
    assert isinstance(answer, DeleteTopicsAnswer)
    text = "ZooKeeper rejects /admin/delete_topics/t: NO_AUTH"
    assert answer.results == (TopicResult("t", -1, text),)


def test_role_that_is_lost_is_not_answered_by_us() -> None:
    """The client asks the next controller."""
    driver = driver_of({tp(): (1, 2)})
    driver.view.tenure.fenced = "a test"
    send(driver, deletion("t"))
    (answer,) = answers(driver)
    assert answer == DeleteTopicsAnswer(41, (TopicResult("t", 41),))
    assert not requested(driver)


def test_name_of_a_deleted_topic_is_free_when_the_topic_is_gone() -> None:
    """Not before; a request to delete it does not reserve it."""
    driver = driver_of({tp(): (1, 2), tp(0, "u"): (1, 2)}, reads=False)
    defaults = TopicDefaults(1, 1, uses_topic_ids=False)
    again = CreateTopics(
        (NewTopic("t", 1, 1, (), (), ID),), defaults, TIMEOUT_S, validate_only=True
    )
    driver.observe(TopicsListed(frozenset({"t", "u", "new"})))
    send(driver, deletion("t", "new"))
    driver.observe(ClientRequestReceived(2, again, driver.permission))
    assert answers(driver, 2)[0].results[0].error == 36
    assert not answers(driver, 1)
    driver.observe(TopicsListed(frozenset({"u", "new"})), TopicsRead({"t": None}))
    driver.observe(ClientRequestReceived(3, again, driver.permission))
    assert answers(driver, 3)[0].results[0].error == 0
    later(driver, TIMEOUT_S + WRITE_S)
    assert results(driver) == {"t": 0, "new": 7}


@pytest.mark.parametrize("timeout_s", [0.0, TIMEOUT_S])
def test_request_is_answered_once(timeout_s: float) -> None:
    """Also if the topic disappears in the same moment."""
    driver = driver_of({tp(): (1, 2)})
    driver.fold(ClientRequestReceived(1, deletion("t", timeout_s=timeout_s), driver.permission))
    driver.observe(TopicsListed(frozenset()), TopicsRead({"t": None}))
    assert results(driver) == {"t": 3}
    later(driver, TIMEOUT_S)
    assert len(answers(driver)) == 1
