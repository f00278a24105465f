"""A topic is its czxid and its id: a later one of the same name has nothing of the former."""

from __future__ import annotations

from controller import kafka_errors
from controller.core.calls.broker_requests import (
    AlterPartition,
    AlterPartitionAnswer,
    IsrChange,
    IsrResult,
)
from controller.core.calls.records import BrokerRequestReceived
from controller.core.core_settings import Options
from controller.core.effects import ReadStates, ReadTopics
from controller.core.leadership import isr_changes
from controller.core.leadership.cluster_loading import SEED_TIMER
from controller.core.leadership.leader_selection import state_record
from controller.core.leadership.records import (
    IsrRecord,
    StateCreatedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicConfig,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.throttle_settings import EntityConfig, topic_entity
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import SpecRecord, SpecsRead
from controller.core.records import Change, Record, TimerFired
from controller.core.role.invalidation import invalidate
from controller.core.role.records import BrokersRead, ControllerClaimed, Deposed
from controller.core.topics.records import (
    AssignmentRecord,
    TopicConfigsRead,
    TopicsListed,
    TopicsRead,
)
from tests.core.builders import EPOCH, Driver, broker, replicas, tp
from tests.core.counting_dicts import Walked
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit

ONE = {0: PartitionAssignment(replicas(1, 2, 3))}
LEADER = BrokerId(1)


def refused(topic_id: str) -> IsrResult:
    """Return the refusal of an ISR change, as leaders from version 2 on get it."""
    return IsrResult(
        topic=None,
        topic_id=topic_id,
        partition=0,
        error=kafka_errors.INELIGIBLE_REPLICA,
        leader=LEADER,
        leader_epoch=LeaderEpoch(0),
        isr=(),
        leader_recovery_state=0,
        partition_epoch=ZkVersion(1),
    )


def test_name_of_an_id_is_looked_up_whatever_the_number_of_topics() -> None:
    """An answer has thousands of partitions, and a cluster thousands of topics."""
    driver = Driver({tp(): (1, 2, 3)})
    ids = {f"t{n}": f"{n:022}" for n in range(50)}
    driver.observe(
        TopicsListed(frozenset(ids)),
        TopicsRead({n: TopicAssignment(ONE, ZkVersion(0), Zxid(9), i) for n, i in ids.items()}),
    )
    driver.view.topics.by_name = topics = Walked(driver.view.topics.by_name)
    request = AlterPartition(LEADER, broker(1).epoch, 3, ())
    answer = AlterPartitionAnswer(0, tuple(map(refused, ids.values())))
    isr_changes.record_answer(driver.view, request, answer, driver.now)
    assert driver.view.leadership.told_ineligible.keys() == {tp(0, name) for name in ids}
    assert not topics.walked


def test_id_of_a_topic_that_is_gone_or_another_names_none() -> None:
    """The index follows what is known of topics."""
    driver = Driver({tp(): (1, 2, 3)})
    topics = driver.view.topics
    for czxid, topic_id in ((9, "first"), (50, "second")):
        found = TopicAssignment(ONE, ZkVersion(1), Zxid(czxid), topic_id)
        driver.observe(TopicsRead({"t": found}))
        assert topics.names_by_id == {topic_id: "t"}
    assert topics.name_of(None, "first") is None
    driver.observe(TopicsListed(frozenset()))
    assert not topics.names_by_id


# --- a topic that is created again around a claim ------------------------------------------------

NEXT = ControllerEpoch(EPOCH + 1)
AGAIN = TopicAssignment({0: PartitionAssignment(replicas(4, 5))}, ZkVersion(0), Zxid(50), "new")
"""The topic that was created again: other replicas, fewer partitions, the same version."""


def claimed_again() -> Driver:
    """Return a tenure whose claim came before the read of the topic that was created again."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 1)}, answers_topics=False)
    driver.observe(Deposed("idle"), *driver.own_records()[1:])
    driver.sent.clear()
    driver.observe(ControllerClaimed(NEXT))
    driver.changes.clear()
    return driver


def written(driver: Driver) -> list[Record]:
    """Return what was written that depends on the assignment."""
    kinds = AssignmentRecord | StateRecord | StateCreatedRecord | SpecRecord
    return [r for c in driver.changes for r in c.records if isinstance(r, kinds)]


def state_of(leader: int, *isr: int) -> PartitionState:
    """Return the first state of a partition."""
    return PartitionState(
        BrokerId(leader), LeaderEpoch(0), replicas(*isr), ControllerEpoch(EPOCH), ZkVersion(0)
    )


def test_no_first_state_is_written_from_a_topic_that_was_read_before_the_claim() -> None:
    """The former controller may have created it again without a state, and been deposed."""
    driver = claimed_again()
    driver.observe(StatesRead({tp(0): None, tp(1): None}))
    assert not written(driver)
    driver.observe(TopicsRead({"t": AGAIN}), StatesRead({tp(0): None}))
    (made,) = written(driver)
    assert made == StateCreatedRecord(tp(0), BrokerId(4), replicas(4, 5), NEXT)


def test_settings_of_the_former_topic_are_not_written_to_the_later_one() -> None:
    """Both may be at the same version."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 1)})
    entity = topic_entity("t")
    known = driver.view.pacing_leadership.entity_configs
    known[entity] = EntityConfig({"retention.ms": "1"}, ZkVersion(0))
    driver.observe(TopicsRead({"t": AGAIN}))
    assert entity not in known


def test_no_step_is_written_from_a_topic_that_was_read_before_the_claim() -> None:
    """Its version tells nothing: it would get back the former partitions and id."""
    driver = claimed_again()
    driver.observe(
        StatesRead({tp(0): state_of(1, 1, 2), tp(1): None}),
        TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}),
    )
    driver.submit({tp(0): (1, 3)})
    assert not written(driver)


def test_no_leader_is_elected_from_a_topic_that_was_read_before_the_claim() -> None:
    """Its replicas may be others."""
    driver = claimed_again()
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (2, 3, 4, 5)}))
    driver.observe(StatesRead({tp(0): state_of(1, 1, 2), tp(1): state_of(2, 2, 1)}))
    assert not written(driver)


def test_no_isr_is_changed_from_a_topic_that_was_read_before_the_claim() -> None:
    """A leader's request is judged by the replicas."""
    driver = claimed_again()
    driver.observe(StatesRead({tp(0): state_of(1, 1), tp(1): state_of(2, 2, 1)}))
    requested = IsrChange("t", None, 0, LeaderEpoch(0), replicas(1, 2), 0, ZkVersion(0))
    request = AlterPartition(LEADER, broker(1).epoch, 1, (requested,))
    driver.observe(BrokerRequestReceived(1, request, driver.permission))
    assert not any(isinstance(r, IsrRecord) for c in driver.changes for r in c.records)


def test_states_of_a_claim_are_read_after_their_topics() -> None:
    """Each topic once, and those with work before all others."""
    partitions = {tp(n, name): (1, 2) for name in ("t", "u", "v") for n in range(2)}
    driver = Driver(partitions, options=Options(seed_chunk=2))
    spec = ReassignmentSpec(
        replicas(1, 3), replicas(1, 2), RequestId("r"), Route.REQUEST, ZkVersion(0)
    )
    driver.observe(Deposed("idle"), SpecsRead({tp(0, "v"): spec}, {}), *driver.own_records()[1:])
    driver.sent.clear()
    driver.observe(ControllerClaimed(NEXT))
    driver.now = Instant(driver.now + 1.0)
    driver.observe(TimerFired(SEED_TIMER))
    while driver.view.leadership.seeding:
        driver.observe(StatesRead({p: state_of(1, 1, 2) for p in driver.view.leadership.seeding}))
    read: list[str] = []
    for effect in driver.sent:
        if isinstance(effect, ReadTopics):
            read += effect.topics
        elif isinstance(effect, ReadStates):
            assert {p.topic for p in effect.partitions} <= set(read)
    assert read == ["v", "t", "u"]
    assert not any(topic.stale for topic in driver.view.topics.by_name.values())


def test_topic_without_partitions_is_read_at_a_claim() -> None:
    """No read of a state leads to it."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(
        TopicsListed(frozenset({"t", "empty"})),
        TopicsRead({"empty": TopicAssignment({}, ZkVersion(0), Zxid(9))}),
        Deposed("idle"),
        *driver.own_records()[1:],
    )
    driver.observe(ControllerClaimed(NEXT))
    assert not driver.view.topics.by_name["empty"].stale


def test_request_that_comes_during_a_tenure_has_its_topics_read_at_once() -> None:
    """The background may take a minute to come to them."""
    driver = Driver({tp(0, f"t{n}"): (1, 2) for n in range(4)}, options=Options(seed_chunk=1))
    driver.observe(Deposed("idle"), *driver.own_records()[1:])
    driver.observe(ControllerClaimed(NEXT))
    assert driver.view.topics.by_name["t3"].stale
    driver.sent.clear()
    driver.submit({tp(0, "t3"): (1, 3)})
    assert ReadTopics(("t3",)) in driver.sent
    assert not driver.view.topics.by_name["t3"].stale


def test_identity_that_changed_resets_everything_known_of_a_topic() -> None:
    """The states, acknowledgements and failed disks of the former one say nothing of it."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 1)})
    leadership = driver.view.leadership
    leadership.offline.add((BrokerId(2), tp(0)))
    driver.view.reassignments_tenure.confirmed[tp(0)] = leadership.acked[tp(0)] = (
        BrokerId(1),
        LeaderEpoch(0),
    )
    leadership.watched[tp(0)] = True
    driver.observe(TopicsRead({"t": AGAIN}))
    assert driver.view.topics.by_name["t"].partitions == AGAIN.partitions
    assert tp(0) not in leadership.states
    assert tp(0) in leadership.seeding
    assert not any(
        (
            leadership.offline,
            driver.view.reassignments_tenure.confirmed,
            leadership.acked,
            leadership.watched,
        )
    )


def test_rejected_check_of_a_topic_has_it_read_before_the_state() -> None:
    """A client of an old release may have written it directly."""
    driver = Driver({tp(0): (1, 2)})
    state = driver.view.leadership.states[tp(0)]
    write = state_record(driver.view, tp(0), state, BrokerId(2), replicas(2))
    reads = invalidate(driver.view, Change((write,), partition=tp(0)), "t")
    assert driver.view.topics.by_name["t"].stale
    assert [type(effect) for effect in reads] == [ReadTopics, ReadStates]


def test_topics_of_a_request_are_read_before_it_is_accepted_with_the_delegated_engine() -> None:
    """Kafka's controller may delete a topic that is created again just before the request."""
    driver = DelegatedDriver({tp(0): (1, 2)})
    driver.answers_topics = False
    driver.changes.clear()
    driver.sent.clear()
    submit(driver, submission("request_0000000000", {tp(0): (1, 3)}))
    assert ReadTopics(("t",)) in driver.sent
    assert not written(driver)
    driver.observe(TopicsRead({"t": AGAIN}), StatesRead({tp(0): state_of(4, 4, 5)}))
    (accepted,) = (r for r in written(driver) if isinstance(r, SpecRecord))
    assert accepted.spec.topic_czxid == AGAIN.czxid
    assert accepted.spec.original == replicas(4, 5)


# --- a list of the topics that is late -----------------------------------------------------------

LACKS_IT = TopicsListed(frozenset())
"""Read while the topic was deleted and not yet created again."""


def is_read(driver: Driver) -> list[ReadTopics]:
    """Return the reads of topics since the last call."""
    found = [effect for effect in driver.sent if isinstance(effect, ReadTopics)]
    driver.sent.clear()
    return found


def present(driver: Driver) -> TopicsRead:
    """Return a read of every topic that shows what is known already."""
    topics = driver.view.topics.by_name.items()
    return TopicsRead(
        {n: TopicAssignment(dict(t.partitions), t.version, t.czxid, t.topic_id) for n, t in topics}
    )


def test_list_from_before_a_topic_was_created_again_ends_no_reassignment() -> None:
    """Another thread reads it: the topic may be read, and a step begin, before it arrives."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    driver.submit({tp(): (1, 3)})
    assert driver.view.reassignments.by_partition[tp()].in_flight
    is_read(driver)
    driver.observe(LACKS_IT)
    assert driver.view.reassignments.by_partition[tp()].in_flight
    assert is_read(driver) == [ReadTopics(("t",))]
    driver.observe(present(driver), TopicsListed(frozenset({"t"})))
    assert not is_read(driver)
    driver.run(tp())
    assert driver.history[tp()][-1].replicas == replicas(1, 3)


def test_topic_that_a_list_lacks_is_gone_when_one_read_shows_the_same() -> None:
    """What waits for the end of the topic continues then."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    driver.submit({tp(): (1, 3)})
    orphan = Orphan(BrokerId(4), tp(), driver.view.topics.by_name["t"].czxid, "not live")
    driver.view.reassignments.orphans[orphan.broker, tp()] = orphan
    driver.observe(LACKS_IT)
    is_read(driver)
    driver.observe(TopicsRead({"t": None}))
    assert not is_read(driver)
    assert not driver.view.topics.listed
    assert not driver.view.reassignments.by_partition
    assert not driver.view.reassignments.orphans


def test_topics_that_a_list_lacks_are_read_together() -> None:
    """Thousands may be deleted at once."""
    names = tuple(sorted(f"t{n}" for n in range(1000)))
    driver = Driver({tp(0, name): (1, 2) for name in names}, answers_topics=False)
    is_read(driver)
    driver.observe(LACKS_IT)
    assert is_read(driver) == [ReadTopics(names)]
    driver.observe(TopicsRead(dict.fromkeys(names)))
    assert not is_read(driver)
    assert not driver.view.topics.by_name


def test_list_ends_no_reassignment_of_a_topic_that_cannot_be_read() -> None:
    """It may exist, as one that was created again may."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    driver.submit({tp(): (1, 3)})
    driver.observe(TopicsRead({"t": None}), TopicsRead({"t": "no JSON"}), LACKS_IT)
    assert tp() in driver.view.reassignments.by_partition
    driver.observe(TopicsRead({"t": None}))
    assert tp() not in driver.view.reassignments.by_partition
    assert not driver.view.topics.unreadable


def test_list_from_before_the_claim_ends_no_reassignment() -> None:
    """Another daemon may have accepted it since, for a topic that was created since."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    new = tp(0, "new")
    spec = ReassignmentSpec(
        replicas(1, 3), replicas(1, 2), RequestId("r"), Route.REQUEST, ZkVersion(0)
    )
    driver.observe(Deposed("idle"), SpecsRead({new: spec}, {}), *driver.own_records()[1:])
    is_read(driver)
    driver.observe(ControllerClaimed(NEXT), TopicsListed(frozenset({"t"})))
    assert new in driver.view.reassignments.by_partition
    assert is_read(driver) == [ReadTopics(("new",))]
    driver.observe(TopicsRead({"new": None}))
    assert new not in driver.view.reassignments.by_partition
