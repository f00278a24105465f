"""The reads that a watch causes, and when."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError

from controller.core.leadership.records import StateChanged, StatesRead
from controller.core.model import PartitionState, TopicAssignment, TopicPartition
from controller.core.pacing.records import EntityConfigsRead
from controller.core.pacing.throttle_settings import EntityConfig, topic_entity
from controller.core.reassignments.records import SpecsRead
from controller.core.requests.records import LegacyPlanRead, SubmissionsRead
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsRead
from controller.reactor.ports import ZnodeFamily
from controller.reactor.reads import OWN_RECORDS
from controller.zk import watches
from controller.zk.watches import CHUNK, FIRST_CHUNK, Watches
from controller.znodes import paths
from tests.zk.fakes import SESSION, WITHIN_S, FakeClient, FakeInbox, connected_session

P = TopicPartition("t", 0)
STATE = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'
TOPIC = b'{"version":1,"partitions":{"0":[1]}}'


def test_every_family_has_one_reader_and_own_records_have_no_watch() -> None:
    """A family without one would stop the thread that reads it."""
    assert watches._WATCHED.keys() | watches._OURS.keys() == set(ZnodeFamily)
    assert watches._OURS.keys() == set(OWN_RECORDS)
    assert watches._WATCHED.keys().isdisjoint(OWN_RECORDS)


class _Bench:
    """Watches on a fake client."""

    def __init__(self) -> None:
        self.client = FakeClient()
        self.inbox = FakeInbox()
        session = connected_session(self.client)
        self.watches = Watches(session, self.inbox)
        session.add_listener(self.watches)

    def hold(self) -> threading.Event:
        """Keep both threads busy until the event is set."""
        free = threading.Event()
        for worker in self.watches.threads():
            worker.put(lambda: assert_(free.wait(WITHIN_S)))
        return free


def assert_(holds: bool) -> None:  # noqa: FBT001 - an assertion as an expression
    """Assert, where only an expression can stand."""
    assert holds


@pytest.fixture
def bench() -> Iterator[_Bench]:
    """Give a bench whose threads are ended."""
    bench = _Bench()
    yield bench
    bench.watches.stop()


def test_many_changes_are_read_once(bench: _Bench) -> None:
    """However often it changed before its turn came."""
    bench.watches.read(ZnodeFamily.LEGACY_PLAN)
    bench.inbox.wait_for(LegacyPlanRead)
    free = bench.hold()
    for _ in range(5):
        bench.client.put(paths.LEGACY_PLAN, b"{}")
        bench.watches.read(ZnodeFamily.LEGACY_PLAN)
    bench.watches.read(ZnodeFamily.BROKERS)
    free.set()
    bench.inbox.wait_for(BrokersRead)
    assert len(bench.inbox.of(LegacyPlanRead)) == 2


def test_many_topics_are_read_together(bench: _Bench) -> None:
    """A batch that rewrites a hundred topics fires a hundred watches."""
    names = [f"t{n}" for n in range(100)]
    for name in names:
        bench.client.put(paths.topic_path(name), TOPIC)
    bench.watches.read_topics(names, read_generation=1)
    bench.inbox.wait_for(TopicsRead)
    free = bench.hold()
    for name in names:
        bench.client.put(paths.topic_path(name), TOPIC)
    free.set()
    assert bench.inbox.wait_for(TopicsRead, count=2).topics.keys() == set(names)


def test_what_is_requested_is_read_in_that_order(bench: _Bench) -> None:
    """What a partition's state is to be judged by is there before it."""
    bench.client.put(paths.topic_path("t"), TOPIC)
    free = bench.hold()
    bench.watches.read_topics(["t"], read_generation=1)
    bench.watches.read_states([P], watch=False, read_generation=1)
    free.set()
    bench.inbox.wait_for(StatesRead)
    assert [type(e) for e in bench.inbox.events] == [TopicsRead, StatesRead]


def test_what_is_requested_goes_before_what_is_looked_at_again(bench: _Bench) -> None:
    """After a broken connection that is every topic, and a claim waits for its own."""
    for name in ("t", "u"):
        bench.client.put(paths.topic_path(name), TOPIC)
    bench.watches.read_topics(["t", "u"], read_generation=1)
    bench.inbox.wait_for(TopicsRead)
    free = bench.hold()
    bench.client.reconnect()
    bench.watches.read_topics(["u"], read_generation=2)
    free.set()
    bench.inbox.wait_for(TopicsRead, count=3)
    assert [set(e.topics) for e in bench.inbox.of(TopicsRead)] == [{"t", "u"}, {"u"}, {"t"}]


def test_topic_whose_watch_fired_is_read_before_a_state_requested_later(bench: _Bench) -> None:
    """Otherwise the state of a topic that was created again is judged by the former topic."""
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.client.put(paths.state_path(P), STATE)
    bench.watches.read_topics(["t"], read_generation=1)
    bench.inbox.wait_for(TopicsRead)
    free = bench.hold()
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.watches.read_states([P], watch=False, read_generation=2)
    free.set()
    bench.inbox.wait_for(StatesRead)
    assert [type(e) for e in bench.inbox.events] == [TopicsRead, TopicsRead, StatesRead]
    bench.watches.read_states([P], watch=False, read_generation=2)
    bench.inbox.wait_for(StatesRead, count=2)
    assert len(bench.inbox.of(TopicsRead)) == 2


def test_topics_of_large_clusters_are_read_before_their_states_after_an_interruption(
    bench: _Bench,
) -> None:
    """Of thousands of topics that are read again, those of a claim's work come first."""
    names = [f"t{n:05}" for n in range(3 * CHUNK)]
    for name in names:
        bench.client.put(paths.topic_path(name), TOPIC)
    bench.watches.read_topics(names, read_generation=1)
    bench.inbox.wait_for(TopicsRead, count=3)
    bench.inbox.events.clear()
    last = [TopicPartition(name, 0) for name in names[-2:]]
    free = bench.hold()
    bench.client.reconnect()
    bench.watches.read_states(last, watch=False, read_generation=2)
    free.set()
    bench.inbox.wait_for(TopicsRead, count=4)
    seen = [e for e in bench.inbox.events if isinstance(e, TopicsRead | StatesRead)]
    states_at = next(n for n, e in enumerate(seen) if isinstance(e, StatesRead))
    before = {t for e in seen[:states_at] if isinstance(e, TopicsRead) for t in e.topics}
    assert {p.topic for p in last} <= before
    again = [t for e in seen if isinstance(e, TopicsRead) for t in e.topics]
    assert sorted(again) == names


def test_marked_topic_is_read_again_where_its_read_failed(bench: _Bench) -> None:
    """A state whose topic cannot be read yet waits for it."""
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.client.put(paths.state_path(P), STATE)
    bench.watches.read_topics(["t"], read_generation=1)
    bench.inbox.wait_for(TopicsRead)
    free = bench.hold()
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.client.failures.append(ConnectionLoss())
    bench.watches.read_states([P], watch=False, read_generation=2)
    free.set()
    bench.inbox.wait_for(StatesRead)
    assert [type(e) for e in bench.inbox.events] == [TopicsRead, TopicsRead, StatesRead]


def test_a_read_carries_the_read_generation_of_its_begin(bench: _Bench) -> None:
    """What was asked for while it waited counts, what is asked for later does not."""
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.client.put(paths.state_path(P), STATE)
    free = bench.hold()
    bench.watches.read_topics(["t"], read_generation=1)
    bench.watches.read_states([P], watch=True, read_generation=2)
    free.set()
    assert bench.inbox.wait_for(TopicsRead).read_generation == 2
    assert bench.inbox.wait_for(StatesRead).read_generation == 2
    bench.watches.read_topics(["t"], read_generation=3)
    assert bench.inbox.wait_for(TopicsRead, count=2).read_generation == 3
    assert bench.inbox.of(TopicsRead)[0].read_generation == 2


def test_very_many_states_come_in_parts(bench: _Bench) -> None:
    """No turn of the loop becomes long for having read much, and the first ones are short."""
    partitions = [TopicPartition("t", n) for n in range(3 * CHUNK)]
    bench.watches.read_states(partitions, watch=False, read_generation=1)
    bench.inbox.wait_for(StatesRead, count=6)
    sizes = [len(e.states) for e in bench.inbox.of(StatesRead)]
    assert sizes == [FIRST_CHUNK, 500, 1000, CHUNK, CHUNK, 250]


def test_a_read_that_failed_is_done_again(bench: _Bench) -> None:
    """The loop asks only once."""
    bench.client.put(paths.state_path(P), STATE)
    bench.client.failures.append(ConnectionLoss())
    bench.watches.read_states([P], watch=False, read_generation=1)
    assert bench.inbox.wait_for(StatesRead).states[P] is not None


def test_what_zookeeper_refuses_to_show_holds_up_nothing_else(bench: _Bench) -> None:
    """Missing permissions of one znode do not hide the others that are read with it."""
    other = TopicPartition("t", 1)
    for partition in (P, other):
        bench.client.put(paths.state_path(partition), STATE)
    bench.client.put(paths.topic_path("u"), TOPIC)
    bench.client.failures.append(NoAuthError())
    bench.watches.read_states([P, other], watch=True, read_generation=1)
    read = bench.inbox.wait_for(StatesRead)
    assert read.states[P] == "ZooKeeper does not show it: NoAuthError"
    assert isinstance(read.states[other], PartitionState)
    assert read.armed == frozenset({other})
    bench.client.failures.append(NoAuthError())
    bench.watches.read_topics(["t", "u"], read_generation=1)
    topics = bench.inbox.wait_for(TopicsRead).topics
    assert isinstance(topics["t"], str)
    assert isinstance(topics["u"], TopicAssignment)


def test_a_state_that_changed_while_others_were_read_is_not_reported_as_watched(
    bench: _Bench,
) -> None:
    """Its change was reported before, and the next read is requested again."""
    bench.client.put(paths.state_path(P), STATE)
    other = TopicPartition("t", 1)
    bench.client.after_read[paths.state_path(other)] = lambda: bench.client.put(
        paths.state_path(P), STATE
    )
    bench.watches.read_states([P, other], watch=True, read_generation=1)
    assert bench.inbox.wait_for(StatesRead).armed == frozenset()
    assert bench.inbox.of(StateChanged) == [StateChanged(P)]


def test_a_watched_state_is_reported_once(bench: _Bench) -> None:
    """Then it has to be asked for again."""
    bench.client.put(paths.state_path(P), STATE)
    bench.watches.read_states([P], watch=True, read_generation=1)
    bench.inbox.wait_for(StatesRead)
    bench.client.put(paths.state_path(P), STATE)
    bench.client.put(paths.state_path(P), STATE)
    assert bench.inbox.of(StateChanged) == [StateChanged(P)]


def test_after_an_interruption_everything_watched_is_looked_at(bench: _Bench) -> None:
    """It may have changed meanwhile; our own records are written only by us."""
    bench.client.put(paths.state_path(P), STATE)
    bench.client.put(paths.topic_path("t"), TOPIC)
    bench.watches.read(ZnodeFamily.LEGACY_PLAN)
    bench.watches.read(ZnodeFamily.SPECS)
    bench.watches.read_topics(["t"], read_generation=1)
    bench.watches.read_states([P], watch=True, read_generation=1)
    bench.inbox.wait_for(LegacyPlanRead)
    bench.inbox.wait_for(StatesRead)
    bench.client.reconnect()
    bench.inbox.wait_for(LegacyPlanRead, count=2)
    bench.inbox.wait_for(TopicsRead, count=2)
    assert bench.inbox.of(StateChanged) == [StateChanged(P)]
    assert len(bench.inbox.of(SpecsRead)) == 1


def test_after_a_new_session_our_own_records_are_read_too(bench: _Bench) -> None:
    """Another daemon may have led in between."""
    bench.watches.read(ZnodeFamily.SPECS)
    bench.inbox.wait_for(SpecsRead)
    bench.client.reconnect(session=SESSION + 1)
    bench.inbox.wait_for(SpecsRead, count=2)


def test_records_read_before_the_former_leader_was_fenced_are_not_reported(bench: _Bench) -> None:
    """It may have written once more after we read; a new leader begins with what it left."""
    path = paths.reassignment_path(P)

    def written_and_fenced() -> None:
        del bench.client.nodes[path]
        bench.watches.former_leader_fenced()

    bench.client.put(path, b"written before")
    bench.client.after_read[path] = written_and_fenced
    bench.watches.read(ZnodeFamily.SPECS)
    bench.inbox.wait_for(SpecsRead)
    assert bench.inbox.of(SpecsRead) == [SpecsRead({}, {})]


def test_what_is_requested_once_is_read_again_where_it_failed(bench: _Bench) -> None:
    """The loop waits for every answer."""
    entity = topic_entity("t")
    bench.client.failures.append(ConnectionLoss())
    bench.watches.read_submissions(["request_1"])
    bench.inbox.wait_for(SubmissionsRead)
    bench.client.failures.append(ConnectionLoss())
    bench.watches.read_entity_configs([entity])
    bench.inbox.wait_for(EntityConfigsRead)
    assert bench.inbox.of(SubmissionsRead) == [SubmissionsRead({"request_1": None})]
    assert bench.inbox.of(EntityConfigsRead) == [
        EntityConfigsRead({entity: EntityConfig({}, None)})
    ]


def test_a_registration_that_cannot_be_read_is_not_a_dead_broker(bench: _Bench) -> None:
    """It counts as one that forbids being its controller."""
    bench.client.put(f"{paths.BROKER_IDS}/1", b"garbage")
    bench.client.put(f"{paths.BROKER_IDS}/x", b"")
    bench.watches.read(ZnodeFamily.BROKERS)
    (broker,) = bench.inbox.wait_for(BrokersRead).brokers.values()
    assert broker.has_features
