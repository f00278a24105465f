"""The daemon's store: fences, claims, leadership, and what it reads."""

from __future__ import annotations

import pytest

from controller.core.leadership.records import StateChanged, StatesRead
from controller.core.model import (
    BrokerId,
    PartitionState,
    RequestId,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import (
    BrokersRead,
    ClaimFailed,
    ClaimGuardsRead,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    LeadershipLost,
)
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.errors import CommitUnknownError, ControllerMovedError, SessionLostError
from controller.reactor.ports import (
    Committed,
    Create,
    Delete,
    Rejected,
    SetData,
    WriteError,
    ZnodeFamily,
)
from controller.zk.claims import GRACE_S
from controller.znodes import paths
from tests.sim.builders import Recorder
from tests.sim.store import SimStore
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Make, Put

P = TopicPartition("t", 0)
ID = BrokerId(1000000)


class _Bench:
    """Three brokers with Kafka's controller, and a daemon's store."""

    def __init__(self, *, competes: bool = True) -> None:
        self.world = World(1, brokers=3)
        self.world.create_topic("t", {0: [1, 2, 3]})
        self.world.settle()
        self.inbox = Recorder()
        self.store = self.another(self.inbox, competes=competes)

    def another(self, inbox: Recorder, *, competes: bool = True) -> SimStore:
        store = SimStore(
            self.world.zookeeper,
            self.world.schedule,
            inbox,
            controller_id=ID,
            competes=competes,
        )
        if competes:
            store.compete()
        return store

    def claim(self) -> None:
        self.world.run_for(1.0)
        self.store.claim_controller()
        self.world.run_for(GRACE_S + 0.1)

    def data(self, path: str) -> bytes | None:
        znode = self.world.zookeeper.get(path)
        return None if znode is None else znode.data


@pytest.fixture
def bench() -> _Bench:
    """Return a store that holds the claim."""
    bench = _Bench()
    bench.claim()
    return bench


def test_a_claim_replaces_the_controller_and_moves_the_epoch_by_one(bench: _Bench) -> None:
    """Our znode exists from the first multi on: no broker is elected in between."""
    assert bench.inbox.of(ControllerClaimed) == [ControllerClaimed(2)]  # type: ignore[arg-type]
    assert bench.data(paths.CONTROLLER_EPOCH) == b"2"
    controller = bench.world.zookeeper.get(paths.CONTROLLER)
    assert controller is not None
    assert controller.ephemeral_owner == bench.store.session.id


def test_a_claim_whose_answer_was_lost_is_found_again() -> None:
    """A claim is not made twice, whichever of its two multis was under way."""
    moments_ms = [begin + n for begin in (0, int(GRACE_S * 1000)) for n in range(1, 12)]
    for moment_ms in moments_ms:
        bench = _Bench()
        bench.world.run_for(1.0)
        bench.store.claim_controller()
        bench.world.run_for(moment_ms / 1000)
        bench.store.session.suspend()
        bench.world.run_for(1.0)
        bench.store.session.resume()
        bench.world.run_for(1.0)
        assert bench.inbox.of(ControllerClaimed) == [ControllerClaimed(2)]  # type: ignore[arg-type]
        assert bench.data(paths.CONTROLLER_EPOCH) == b"2"


def test_a_claim_whose_session_ends_is_answered_once() -> None:
    """The loop claims again only after the answer."""
    for moment_ms in (1, 3, 5, 8, 20, int(GRACE_S * 1000) + 3):
        bench = _Bench()
        bench.world.run_for(1.0)
        bench.store.claim_controller()
        bench.world.run_for(moment_ms / 1000)
        bench.store.session.expire()
        bench.world.run_for(GRACE_S + 5.0)
        answers = [*bench.inbox.of(ClaimFailed), *bench.inbox.of(ControllerClaimed)]
        assert len(answers) == 1, moment_ms


def test_resigning_lets_a_broker_take_over(bench: _Bench) -> None:
    """The store cannot write any more."""
    bench.store.resign_controller()
    bench.world.run_for(2.0)
    assert bench.inbox.of(Deposed) == [Deposed("resigned")]
    assert bench.data(paths.CONTROLLER_EPOCH) == b"3"
    with pytest.raises(ControllerMovedError):
        bench.store.commit([[Create("/x", b"")]])


def test_a_deposed_daemon_writes_nothing_though_it_does_not_know(bench: _Bench) -> None:
    """Neither the multi with the failed fence nor a later one takes effect."""
    bench.world.remove_controller()
    while bench.data(paths.CONTROLLER_EPOCH) == b"2":
        bench.world.step()
    with pytest.raises(ControllerMovedError):
        bench.store.commit([[Create("/x", b"")], [Create("/y", b"")]])
    assert bench.data("/x") is None
    assert bench.data("/y") is None
    bench.world.run_for(1.0)
    assert len(bench.inbox.of(Deposed)) == 1


def test_without_a_claim_nothing_is_written() -> None:
    """An unfenced write cannot be spelled."""
    with pytest.raises(ControllerMovedError):
        _Bench().store.commit([[Create("/x", b"")]])


def test_paperwork_is_fenced_by_the_leadership_alone(bench: _Bench) -> None:
    """The leader writes without being the controller; a former leader does not."""
    bench.world.run_for(1.0)
    first, second = (Create(paths.outcome_path(RequestId(name)), b"") for name in ("r1", "r2"))
    assert bench.store.commit([[first]]) == [Committed()]
    epoch = bench.data(paths.EPOCH)
    assert epoch is not None
    bench.world.zookeeper.transact(NO_SESSION, [Put(paths.EPOCH, str(int(epoch) + 1).encode())])
    with pytest.raises(ControllerMovedError):
        bench.store.commit([[second]])
    assert bench.data(second.path) is None


def test_a_standby_does_no_paperwork(bench: _Bench) -> None:
    """A standby is not the leader of the daemons."""
    bench.world.run_for(1.0)
    standby = bench.another(Recorder())
    bench.world.run_for(1.0)
    with pytest.raises(ControllerMovedError):
        standby.commit([[Create(paths.outcome_path(RequestId("r")), b"")]])


def test_multis_are_all_or_nothing_and_independent(bench: _Bench) -> None:
    """The index of a refused operation counts the caller's operations only."""
    results = bench.store.commit(
        [
            [Create("/x", b"1")],
            [Create("/y", b""), SetData("/x", b"2", ZkVersion(5))],
            [SetData("/x", b"3", ZkVersion(0))],
            [Delete("/nowhere", None)],
        ]
    )
    assert results == [
        Committed(),
        Rejected(1, WriteError.BAD_VERSION),
        Committed(),
        Rejected(0, WriteError.NO_NODE),
    ]
    assert bench.data("/x") == b"3"
    assert bench.data("/y") is None


def test_missing_parents_are_made(bench: _Bench) -> None:
    """The parents are persistent and empty."""
    assert bench.store.commit([[Create("/a/b/c", b"1")]]) == [Committed()]
    assert bench.data("/a/b") == b""


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_commit_may_break_with_any_part_of_it_durable(bench: _Bench, after: int) -> None:
    """The daemon has to read again which multis are durable."""
    bench.store.faults.break_commit(after=after)
    with pytest.raises(CommitUnknownError):
        bench.store.commit([[Create("/x", b"")], [Create("/y", b"")]])
    durable = [bench.data(path) is not None for path in ("/x", "/y")]
    assert durable == [after > 0, after > 1]
    bench.world.run_for(2.0)
    assert bench.store.commit([[Create("/z", b"")]]) == [Committed()]


def test_an_expired_session_takes_claim_and_leadership(bench: _Bench) -> None:
    """The store continues with a new session and competes for the leadership again."""
    bench.store.session.expire()
    with pytest.raises(SessionLostError):
        bench.store.commit([[Create("/x", b"")]])
    bench.world.run_for(3.0)
    assert len(bench.inbox.of(Deposed)) == 1
    assert len(bench.inbox.of(LeadershipLost)) == 1
    assert len(bench.inbox.of(LeadershipGained)) == 2
    bench.store.claim_controller()
    bench.world.run_for(1.0)
    assert bench.store.claim is not None


def test_one_daemon_leads_and_fences_the_one_before(bench: _Bench) -> None:
    """The fence holds while the former leader still believes that it leads."""
    inbox = Recorder()
    other = bench.another(inbox)
    bench.world.run_for(1.0)
    assert inbox.of(LeadershipGained) == []
    bench.store.session.suspend()
    bench.world.run_for(11.0)
    assert len(inbox.of(LeadershipGained)) == 1
    other.claim_controller()
    bench.world.run_for(GRACE_S + 0.1)
    assert other.commit([[Create("/x", b"")]]) == [Committed()]
    with pytest.raises(CommitUnknownError):
        bench.store.commit([[Create("/y", b"")]])


def test_reading_watches_and_reads_again_at_every_change(bench: _Bench) -> None:
    """A read returns the present state, also of a znode that does not exist yet."""
    bench.store.read(ZnodeFamily.LEGACY_PLAN)
    bench.world.run_for(0.1)
    bench.world.submit_plan({P: [2, 3, 1]})
    bench.world.run_for(0.1)
    bench.world.zookeeper.transact(NO_SESSION, [Put(paths.LEGACY_PLAN, b"?")])
    bench.world.run_for(0.1)
    first, second, third = (e.plan for e in bench.inbox.of(LegacyPlanRead))
    assert first is None
    assert second is not None
    assert third is not None
    assert second.entries == {P: (2, 3, 1)}
    assert third.unreadable is not None
    assert third.version == 1


def test_a_bounced_broker_has_another_epoch(bench: _Bench) -> None:
    """A late reader sees another epoch, though it never saw the id absent."""
    bench.store.read(ZnodeFamily.BROKERS)
    bench.world.run_for(0.1)
    broker = bench.world.brokers[BrokerId(2)]
    broker.kill()
    broker.start()
    bench.world.run_for(0.1)
    reads = bench.inbox.of(BrokersRead)
    assert reads[0].brokers.keys() == reads[-1].brokers.keys() == {1, 2, 3}
    assert reads[0].brokers[broker.id].epoch < reads[-1].brokers[broker.id].epoch == broker.epoch


def test_topics_are_listed_and_read(bench: _Bench) -> None:
    """An absent topic is None, a malformed one a text."""
    bench.world.zookeeper.transact(NO_SESSION, [Make(paths.topic_path("odd"), b"[]")])
    bench.store.read(ZnodeFamily.TOPICS)
    bench.store.read_topics(["t", "odd", "none"], read_generation=1)
    bench.world.run_for(0.1)
    assert bench.inbox.of(TopicsListed) == [TopicsListed(frozenset({"t", "odd"}))]
    (read,) = bench.inbox.of(TopicsRead)
    assert isinstance(read.topics["t"], TopicAssignment)
    assert isinstance(read.topics["odd"], str)
    assert read.topics["none"] is None
    bench.world.zookeeper.remove_tree(paths.topic_path("odd"))
    bench.world.run_for(0.1)
    assert bench.inbox.of(TopicsRead)[-1] == TopicsRead({"odd": None}, read_generation=1)


def test_a_watched_state_is_reported_once(bench: _Bench) -> None:
    """A watch fires once: the next change needs another read."""
    bench.store.read_states([P, TopicPartition("t", 9)], watch=True, read_generation=1)
    bench.world.run_for(0.1)
    (read,) = bench.inbox.of(StatesRead)
    assert isinstance(read.states[P], PartitionState)
    assert read.states[TopicPartition("t", 9)] is None
    leader = bench.world.state(P)
    assert leader is not None
    for broker in (1, 2, 3):
        if broker != leader.leader:
            bench.world.brokers[BrokerId(broker)].kill()
    bench.world.producer.start()
    bench.world.run_for(10.0)
    assert bench.inbox.of(StateChanged) == [StateChanged(P)]


def test_everything_watched_is_read_again_with_a_new_session(bench: _Bench) -> None:
    """The watches ended with the old session."""
    bench.store.read(ZnodeFamily.GUARDS)
    bench.world.run_for(0.1)
    bench.store.session.expire()
    bench.world.run_for(2.0)
    guards = bench.inbox.of(ClaimGuardsRead)
    assert guards[0].controller_broker == ID
    assert guards[-1].controller_broker in bench.world.brokers
    assert guards[-1].controller_is_ephemeral
