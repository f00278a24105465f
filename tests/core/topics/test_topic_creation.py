"""Topics are created and extended as Kafka's controller does it, with its errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller.core.calls import client_calls
from controller.core.calls.client_requests import (
    ClientAnswer,
    CreatePartitions,
    CreatePartitionsAnswer,
    CreateTopics,
    CreateTopicsAnswer,
    MorePartitions,
    NewTopic,
    RequestFromClient,
    TopicDefaults,
)
from controller.core.calls.records import ClientRequestReceived
from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ReadTopics, ResignController, Respond, SendLeaderAndIsr
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Drain, Drains
from controller.core.pacing.records import ControlsRead
from controller.core.records import Change, TimerFired
from controller.core.role import invalidation
from controller.core.topics.model import TopicResult
from controller.core.topics.records import (
    AssignmentRecord,
    TopicCreatedRecord,
    TopicGrownRecord,
    TopicsListed,
    TopicsRead,
)
from controller.core.topics.topic_creation import WRITE_S
from controller.core.wakeups import PENDING_REQUESTS_TIMER
from tests.core.builders import Driver, replicas, tp

DEFAULTS = TopicDefaults(3, 2, uses_topic_ids=False)
ID = "AAAAAAAAAAAAAAAAAAAAAg"
TIMEOUT_S = 20.0


def new(name: str = "new", partitions: int = 2, factor: int = 2, **rest: object) -> NewTopic:
    """Return a topic to be created."""
    return replace(NewTopic(name, partitions, factor, (), (), ID), **rest)  # type: ignore[arg-type]


def manual(**assignments: Iterable[int]) -> NewTopic:
    """Return a topic with these replicas, by ``pN``."""
    listed = tuple((int(key[1:]), replicas(*ids)) for key, ids in assignments.items())
    return new(partitions=-1, factor=-1, assignments=listed)


def creation(*topics: NewTopic, timeout_s: float = TIMEOUT_S, only: bool = False) -> CreateTopics:
    """Return a client's request."""
    return CreateTopics(topics, DEFAULTS, timeout_s, only)


def growth(
    name: str, count: int, *assignments: Iterable[int], only: bool = False
) -> CreatePartitions:
    """Return a client's request."""
    listed = tuple(replicas(*ids) for ids in assignments) or None
    return CreatePartitions((MorePartitions(name, count, listed),), TIMEOUT_S, only)


def send(driver: Driver, request: RequestFromClient, ticket: int = 1) -> None:
    """Let a client ask."""
    driver.observe(ClientRequestReceived(ticket, request, driver.permission))


def answers(driver: Driver, ticket: int = 1) -> list[ClientAnswer]:
    """Return the answers to a ticket."""
    found = [e.response for e in driver.sent if isinstance(e, Respond) and e.ticket == ticket]
    return [r for r in found if isinstance(r, CreateTopicsAnswer | CreatePartitionsAnswer)]


def results(driver: Driver, ticket: int = 1) -> dict[str, TopicResult]:
    """Return the results in the only answer."""
    (answer,) = answers(driver, ticket)
    assert isinstance(answer, CreateTopicsAnswer | CreatePartitionsAnswer)
    assert answer.error == 0
    return {r.name: r for r in answer.results}


def refusal(driver: Driver, request: CreateTopics | CreatePartitions) -> tuple[int, str | None]:
    """Return the error of a request about one topic, which writes nothing."""
    before = len(driver.changes)
    send(driver, request)
    (result,) = results(driver).values()
    written = [r for c in driver.changes[before:] for r in c.records]
    assert not any(isinstance(r, TopicCreatedRecord | AssignmentRecord) for r in written)
    return result.error, result.message


def created(driver: Driver) -> list[TopicCreatedRecord]:
    """Return the topics that were written."""
    written = (r for c in driver.changes for r in c.records)
    return [r for r in written if isinstance(r, TopicCreatedRecord)]


def read(driver: Driver, record: TopicCreatedRecord) -> None:
    """Let what was written be listed and read: the partitions have no state yet."""
    name = record.result.name
    assigned = {n: PartitionAssignment(rs) for n, rs in enumerate(record.replicas)}
    driver.observe(TopicsListed(frozenset({*driver.view.topics.by_name, name})))
    found = TopicAssignment(assigned, ZkVersion(0), Zxid(70), record.result.topic_id)
    driver.observe(TopicsRead({name: found}))
    driver.observe(StatesRead({TopicPartition(name, n): None for n in assigned}))


def later(driver: Driver, seconds: float) -> None:
    """Let the timer of waiting requests fire."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(TimerFired(PENDING_REQUESTS_TIMER))


# --- CreateTopics --------------------------------------------------------------------------------


def drained(driver: Driver, *brokers: int) -> None:
    """Let brokers be drained."""
    drains = Drains({BrokerId(b): Drain() for b in brokers}, czxid=Zxid(5))
    driver.observe(ControlsRead(Controls(drains=drains)))


def test_new_partitions_avoid_drained_brokers() -> None:
    """They would be moved at once."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 5))
    drained(driver, 3)
    send(driver, creation(new(partitions=8)))
    (record,) = created(driver)
    assert {int(r) for rs in record.replicas for r in rs} == {1, 2, 4}
    send(driver, growth("t", 9), ticket=2)
    added = [
        r.assignment.replicas
        for c in driver.changes
        for r in c.records
        if isinstance(r, AssignmentRecord) and r.partition.topic == "t"
    ]
    assert len(added) == 8
    assert {int(r) for rs in added for r in rs} == {1, 2, 4}


def test_a_drained_broker_is_used_where_there_are_too_few_others_or_the_client_says_so() -> None:
    """A creation is not refused for a drain."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 4))
    drained(driver, 3)
    send(driver, creation(new(factor=3)))
    send(driver, creation(replace(manual(p0=(1, 3)), name="by_hand")), ticket=2)
    few, by_hand = created(driver)
    assert {int(r) for r in few.replicas[0]} == {1, 2, 3}
    assert by_hand.replicas == (replicas(1, 3),)


def test_of_a_setting_or_partition_sent_twice_the_last_counts() -> None:
    """What is checked is what is written."""
    driver = Driver({tp(): (1, 2)})
    configs = (("cleanup.policy", "delete"), ("a", "1"), ("cleanup.policy", "compact"))
    listed = ((0, replicas(1, 1)), (1, replicas(2, 3)), (0, replicas(1, 2)))
    topic = new(partitions=-1, factor=-1, assignments=listed, configs=configs)
    send(driver, creation(topic))
    (record,) = created(driver)
    assert record.configs == topic.settings == (("a", "1"), ("cleanup.policy", "compact"))
    assert record.replicas == (replicas(1, 2), replicas(2, 3))


def test_setting_without_a_value_is_refused_though_its_name_has_one_later() -> None:
    """As with Kafka; an empty value is one."""
    configs = (("a", None), ("a", "1"), ("b", None))
    assert refusal(Driver({tp(): (1, 2)}), creation(new(configs=configs))) == (
        40,
        "Null value not supported for topic configs: a,b",
    )
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(new(configs=(("a", ""), ("A", "1")))))
    assert created(driver)[0].configs == (("A", "1"), ("a", ""))


def test_topic_is_answered_when_its_leaders_acknowledged() -> None:
    """Settings and assignment are one change; the states follow as a duty."""
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(new(configs=(("retention.ms", "1000"),))))
    (record,) = created(driver)
    assert record.configs == (("retention.ms", "1000"),)
    assert not record.replaces_configs
    assert [len(set(rs)) for rs in record.replicas] == [2, 2]
    assert not answers(driver)
    read(driver, record)
    sent = {e.partition.topic for e in driver.sent if isinstance(e, SendLeaderAndIsr)}
    assert "new" in sent
    assert results(driver) == {"new": TopicResult("new", 0, None, 2, 2)}
    assert len(created(driver)) == 1


def test_topic_without_an_acknowledgement_times_out() -> None:
    """It exists nevertheless."""
    driver = Driver({tp(): (1, 2)}, acknowledges=False)
    send(driver, creation(new(), new("refused", 0)))
    (record,) = created(driver)
    read(driver, record)
    later(driver, TIMEOUT_S - 1)
    assert not answers(driver)
    later(driver, 1)
    assert {name: r.error for name, r in results(driver).items()} == {"new": 7, "refused": 37}


def test_topic_of_a_client_that_does_not_wait_is_created() -> None:
    """Kafka's controller answers at once that the time is over."""
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(new(), timeout_s=0))
    assert len(created(driver)) == 1
    later(driver, 1)
    assert results(driver)["new"].error == 7


def test_defaults_are_those_of_brokers() -> None:
    """As of 2.4 clients need not name numbers; as of 2.8 topics have an id."""
    driver = Driver({tp(): (1, 2)})
    requested = creation(new(partitions=-1, factor=-1))
    send(driver, requested)
    send(driver, creation(new("other")), ticket=2)
    ids = TopicDefaults(5, 4, uses_topic_ids=True)
    send(driver, replace(creation(new("third", -1, -1)), defaults=ids), ticket=3)
    first, second, third = created(driver)
    assert [len(rs) for rs in first.replicas] == [2] * 3
    assert [len(rs) for rs in third.replicas] == [4] * 5
    assert [r.result.topic_id for r in (first, second, third)] == [None, None, ID]


def test_assignments_of_the_client_are_written_as_they_are() -> None:
    """Also with a broker that is not live, as Kafka's controller does."""
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(manual(p1=(9, 3), p0=(1, 2))))
    (record,) = created(driver)
    assert record.replicas == (replicas(1, 2), replicas(9, 3))


def test_validation_writes_nothing() -> None:
    """The answer has the numbers that the topic would have."""
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(new(), only=True))
    assert results(driver) == {"new": TopicResult("new", 0, None, 2, 2)}
    assert not created(driver)


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (new("t"), 36, "Topic 't' already exists."),
        (new("a_b"), 17, "Topic 'a_b' collides with existing topics: a.b"),
        (new(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (new(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (new("x" * 250), 17, "longer than the max allowed length 249"),
        (new("ä"), 17, "characters other than ASCII"),
        (new("a\n"), 17, "characters other than ASCII"),
        (new("__cluster_metadata"), 42, "prohibited"),
        (new(partitions=0), 37, "Number of partitions must be larger than 0."),
        (new(partitions=2**31 - 1), 37, "exceed the largest znode"),
        (new(factor=0), 38, "Replication factor must be larger than 0."),
        (new(factor=8), 38, "Replication factor: 8 larger than available brokers: 7."),
        (new(configs=(("x", None), ("y", "1"))), 40, "Null value not supported for topic configs"),
        (new(config_problem="Unknown topic config name: x"), 40, "Unknown topic config name: x"),
        (replace(manual(p0=(1, 2)), num_partitions=1), 42, "Both numPartitions or"),
        (manual(p0=(1, 2), p1=(1,)), 39, "All partitions should have the same number"),
        (manual(p0=(1, 1)), 39, "Duplicate replica assignment found"),
        (manual(p0=(1, 2), p2=(1, 2)), 39, "consecutive 0-based integer sequence"),
        (manual(p0=()), 39, "No broker can hold the replicas"),
        (manual(p0=(-1,)), 39, "No broker can hold the replicas"),
        (manual(p0=(1, 1_000_000)), 39, "No broker can hold the replicas"),
    ],
)
def test_invalid_topic_is_refused(topic: NewTopic, error: int, text: str) -> None:
    """With Kafka's error, in Kafka's order of checks."""
    driver = Driver({tp(): (1, 2), tp(0, "a.b"): (1, 2)})
    code, message = refusal(driver, creation(topic))
    assert code == error
    assert text in (message or "")


def test_topics_of_one_request_are_judged_together() -> None:
    """Two of the same name, and two whose metrics would collide."""
    driver = Driver({tp(): (1, 2)})
    send(driver, creation(new("twice"), new("twice"), new("c.d"), new("c_d")))
    (record,) = created(driver)
    assert record.result.name == "c.d"
    read(driver, record)
    found = {name: r.error for name, r in results(driver).items()}
    assert found == {"twice": 42, "c.d": 0, "c_d": 17}


def test_settings_of_a_former_topic_are_replaced() -> None:
    """A controller that died between the two writes of a creation leaves them."""
    driver = Driver({tp(): (1, 2)}, acknowledges=False)
    view, now = driver.view, driver.now
    rejected: list[Change] = []
    driver.commit = rejected.append  # type: ignore[method-assign,assignment]
    send(driver, creation(new()))
    for _ in range(3):
        assert invalidation.invalidate(view, rejected[-1]) == []
        later(driver, 1)
    replaced = [c.records[0].replaces_configs for c in rejected]  # type: ignore[union-attr]
    assert replaced == [False, True, False, True]
    later(driver, TIMEOUT_S)
    assert results(driver)["new"].error == 7
    assert now + TIMEOUT_S > WRITE_S


def test_topic_that_appears_meanwhile_exists() -> None:
    """Another client was faster, by a broker that creates topics by itself."""
    driver = Driver({tp(): (1, 2)})
    rejected: list[Change] = []
    driver.commit, commit = rejected.append, driver.commit  # type: ignore[method-assign,assignment]
    send(driver, creation(new()))
    driver.commit = commit  # type: ignore[method-assign]
    invalidation.invalidate(driver.view, rejected[0])
    driver.observe(TopicsListed(frozenset({"t", "new"})))
    later(driver, 1)
    assert results(driver)["new"].error == 36


def test_topic_whose_creation_is_rejected_exists_though_its_listing_is_late() -> None:
    """Otherwise the creation would be rejected in every cycle until the listing is read."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    rejected: list[Change] = []
    driver.commit, commit = rejected.append, driver.commit  # type: ignore[method-assign,assignment]
    send(driver, creation(new()))
    driver.commit = commit  # type: ignore[method-assign]
    invalidation.invalidate(driver.view, rejected[0], "new")
    driver.settle()
    assert results(driver)["new"].error == 36
    assert ReadTopics(("new",)) in driver.sent


def test_write_that_zookeeper_rejects_otherwise_is_an_error() -> None:
    """It would be rejected again."""
    driver = Driver({tp(): (1, 2)})
    rejected: list[Change] = []
    driver.commit, commit = rejected.append, driver.commit  # type: ignore[method-assign,assignment]
    send(driver, creation(new()))
    driver.commit = commit  # type: ignore[method-assign]
    invalidation.set_aside(driver.view, rejected[0], "/config/topics/new", "NO_AUTH", driver.now)
    later(driver, 1)
    result = results(driver)["new"]
    assert (result.error, "NO_AUTH" in (result.message or "")) == (-1, True)


def test_client_that_waits_keeps_the_role() -> None:
    """The daemon creates what it wrote, before it gives the role back for want of work."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=0.5))
    send(driver, creation(new()))
    driver.now = Instant(driver.now + 5)
    driver.observe(TimerFired("linger"), TimerFired(PENDING_REQUESTS_TIMER))
    assert not any(isinstance(e, ResignController) for e in driver.sent)
    read(driver, created(driver)[0])
    assert results(driver)["new"].error == 0


def test_role_that_is_lost_is_not_answered_by_us() -> None:
    """The client asks the next controller."""
    driver = Driver({tp(): (1, 2)})
    driver.view.tenure.fenced = "a test"
    send(driver, creation(new()))
    (answer,) = answers(driver)
    assert answer.error == 41
    assert not created(driver)


# --- CreatePartitions ----------------------------------------------------------------------------


def test_partitions_are_added_and_answered_when_led() -> None:
    """Partition 0 says how many replicas, and where the turn continues."""
    driver = Driver({tp(): (1, 2), tp(1): (2, 3)})
    send(driver, growth("t", 4))
    added = driver.view.topics.by_name["t"].partitions
    assert set(added) == {0, 1, 2, 3}
    assert all(len(added[n].replicas) == 2 for n in (2, 3))
    assert results(driver) == {"t": TopicResult("t", 0, None, 4, first_new=2)}
    assert {p.partition for p in driver.view.leadership.states} == {0, 1, 2, 3}
    assert any(isinstance(r, TopicGrownRecord) for c in driver.changes for r in c.records)


def test_partitions_go_where_the_client_wants_them() -> None:
    """In the order of the request."""
    driver = Driver({tp(): (1, 2)})
    send(driver, growth("t", 3, (4, 5), (6, 0)))
    found = driver.view.topics.by_name["t"].partitions
    assert [found[n].replicas for n in (1, 2)] == [replicas(4, 5), replicas(6, 0)]


def test_two_requests_for_one_topic_follow_each_other() -> None:
    """The second is judged by what the first left."""
    driver = Driver({tp(): (1, 2)})
    driver.fold(ClientRequestReceived(1, growth("t", 3), driver.permission))
    send(driver, growth("t", 2), ticket=2)
    later(driver, 1)
    assert results(driver, 1)["t"].error == 0
    assert results(driver, 2)["t"].error == 37


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (growth("t", 2), 37, "Topic already has 2 partitions."),
        (growth("t", 1), 37, "Topic currently has 2 partitions, which is higher than the requ"),
        (growth("t", 2**31 - 1), 37, "exceed the largest znode"),
        (growth("unknown", 3), 3, "The topic 'unknown' does not exist."),
        (growth("t", 3, (1, 9)), 39, "Unknown broker(s) in replica assignment: 9."),
        (growth("t", 4, (1, 2)), 39, "Increasing the number of partitions by 2 but 1 assignments"),
        (growth("t", 3, (1, 1)), 39, "Duplicate brokers not allowed"),
        (growth("t", 3, (1, 2, 3)), 39, "Inconsistent replication factor between partitions"),
    ],
)
def test_invalid_growth_is_refused(request_: CreatePartitions, error: int, text: str) -> None:
    """With Kafka's error."""
    code, message = refusal(Driver({tp(): (1, 2), tp(1): (2, 3)}), request_)
    assert code == error
    assert text in (message or "")


def test_topic_in_motion_or_in_deletion_does_not_grow() -> None:
    """A reassignment and new partitions write the same znode."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    assert refusal(driver, growth("t", 2))[0] == 60
    driver = Driver({tp(): (1, 2)}, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(DeletionsRead(frozenset({"t"})))
    assert refusal(driver, growth("t", 2))[0] == 17


def test_topic_that_was_read_before_the_claim_is_read_again_before_it_grows() -> None:
    """Another topic of that name may have been created with the same version."""
    driver = Driver({tp(): (1, 2)}, acknowledges=False, answers_topics=False)
    driver.view.topics.by_name["t"].invalidate(driver.view.tenure.claim_generation)
    send(driver, growth("t", 2))
    assert not any(isinstance(r, TopicGrownRecord) for c in driver.changes for r in c.records)
    other = TopicAssignment({0: PartitionAssignment(replicas(2, 1))}, ZkVersion(0), Zxid(90))
    driver.observe(TopicsRead({"t": other}))
    later(driver, 1)
    grown = [c for c in driver.changes if isinstance(c.records[0], TopicGrownRecord)]
    assert len(grown) == 1
    assert driver.view.topics.by_name["t"].partitions[0] == PartitionAssignment(replicas(2, 1))


@pytest.mark.parametrize("written", [set(), {"t"}])
def test_topic_does_not_grow_in_the_cycle_in_which_a_step_of_it_begins(written: set[str]) -> None:
    """The step is not in the view yet; afterwards the topic has a reassignment in progress."""
    driver = Driver({tp(): (1, 2)})
    driver.view.topics.by_name["t"].read_in = driver.view.tenure.claim_generation
    driver.fold(ClientRequestReceived(1, growth("t", 2), driver.permission))
    decided = client_calls.answer_clients(driver.view, driver.now, written)
    grows = any(isinstance(c.records[0], TopicGrownRecord) for c in decided.changes)
    assert grows is not bool(written)


def test_validation_of_growth_writes_nothing() -> None:
    """A client may only ask whether it is possible."""
    assert refusal(Driver({tp(): (1, 2)}), growth("t", 2, only=True)) == (0, None)
