"""The checker itself: each rule is broken on purpose, and the violation is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Reassignment
from controller.core.records import Change, Decision
from controller.core.role.model import Tenure
from controller.core.role.records import ControllerClaimed
from controller.core.view import ClusterView
from controller.reactor.ports import Check, Create, Delete, LeaderAndIsr, WriteError
from controller.zk.claims import GRACE_S
from controller.znodes import paths
from controller.znodes.reassignments import encode_spec
from controller.znodes.topics import encode_state, encode_topic
from tests.sim.brokers import SimBroker
from tests.sim.builders import Recorder, ids, leader_and_isr, stop_replica, update_metadata
from tests.sim.judges import InvariantViolationError
from tests.sim.logs import Log
from tests.sim.state_rules import KNOWN_S
from tests.sim.store import SimStore
from tests.sim.witnesses import SILENT_S, STALE_MAX, HistoryObserver
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Put

P = TopicPartition("t", 0)


class _Bench:
    """A cluster with data whose controller is a daemon: the test writes in its name."""

    def __init__(self) -> None:
        self.world = World(5, brokers=4)
        self.world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=2)
        self.world.producer.start()
        self.world.settle()
        self.world.run_for(25.0)
        inbox = Recorder()
        self.store = SimStore(
            self.world.zookeeper,
            self.world.schedule,
            inbox,
            controller_id=BrokerId(1000000),
            competes=False,
        )
        self.store.claim_controller()
        self.world.run_for(GRACE_S + 0.1)
        self.epoch = inbox.of(ControllerClaimed)[0].epoch
        self.world.fabric.accepted_epochs.add(self.epoch)

    def broker(self, number: int) -> SimBroker:
        return self.world.brokers[BrokerId(number)]

    def write_state(
        self,
        isr: Sequence[int],
        *,
        leader: int = 1,
        bump: int = 1,
        epoch_offset: int = 0,
        session: int | None = None,
        fenced: bool = True,
    ) -> None:
        before = self.world.state(P)
        assert before is not None
        data = encode_state(
            leader=leader,
            leader_epoch=before.leader_epoch + bump,
            isr=ids(isr),
            controller_epoch=self.epoch + epoch_offset,
            leader_recovery_state=0,
        )
        claim = self.store.claim
        assert claim is not None
        fence = [Check(paths.CONTROLLER_EPOCH, claim.version)] if fenced else []
        by = self.store.session.id if session is None else session
        self.world.zookeeper.transact(by, [*fence, Put(paths.state_path(P), data)])

    def isr_changes(self, isr: Sequence[int]) -> None:
        """Let the leader write another ISR, as it does when followers lag or catch up."""
        before = self.world.state(P)
        assert before is not None
        data = encode_state(
            leader=before.leader,
            leader_epoch=before.leader_epoch,
            isr=ids(isr),
            controller_epoch=before.controller_epoch,
            leader_recovery_state=0,
        )
        session = self.broker(before.leader).session_id
        self.world.zookeeper.transact(session, [Put(paths.state_path(P), data)])

    def write_topic(self, *assignments: PartitionAssignment) -> None:
        topic = TopicAssignment(dict(enumerate(assignments)), ZkVersion(0), Zxid(0))
        write = Put(paths.topic_path("t"), encode_topic(topic))
        self.world.zookeeper.transact(self.store.session.id, [write])

    def write_spec(self, spec: ReassignmentSpec | None, *, fenced: bool = True) -> None:
        """Write the spec of the partition, or delete it if None."""
        zookeeper, path = self.world.zookeeper, paths.reassignment_path(P)
        zookeeper.ensure(paths.reassignment_topic_path("t"))
        claim = self.store.claim
        assert claim is not None
        fence = [Check(paths.CONTROLLER_EPOCH, claim.version)] if fenced else []
        write = Delete(path, None) if spec is None else Create(path, encode_spec(spec))
        zookeeper.transact(self.store.session.id, [*fence, write])

    def stop(self, broker: int, *, leader_epoch: int = 99) -> None:
        self.world.fabric.witnesses[0].daemon_stops(
            BrokerId(broker),
            stop_replica(
                P, leader_epoch=leader_epoch, delete=True, controller_epoch=int(self.epoch)
            ),
        )


@pytest.fixture
def bench() -> _Bench:
    """Return a healthy cluster."""
    return _Bench()


def test_a_healthy_history_breaks_no_rule(bench: _Bench) -> None:
    """Rules are applied throughout the history."""
    bench.isr_changes([1, 2])
    bench.world.run_for(5.0)
    assert bench.world.invariants.checks > 100


@pytest.mark.parametrize(
    ("after_s", "is_late", "is_broken"),
    [(0.5, False, False), (2.5, False, True), (2.5, True, False)],
)
def test_who_came_back_counts_as_live_once_a_daemon_had_to_hear_of_it(
    bench: _Bench, *, after_s: float, is_late: bool, is_broken: bool
) -> None:
    """A daemon that was paused, or hears late, may still take the broker for dead."""
    bench.isr_changes([1, 3])
    bench.broker(3).stop()
    bench.broker(3).start()
    bench.isr_changes([1])
    bench.write_state([1])
    bench.isr_changes([1, 3])
    bench.world.run_for(after_s)
    if is_late:
        bench.world.invariants.follow(lambda _: bench.world.now)
    with pytest.raises(InvariantViolationError) if is_broken else nullcontext():
        bench.write_state([1])


def test_who_came_back_is_not_trusted_in_a_leader_epoch_before_its_registration(
    bench: _Bench,
) -> None:
    """The leader may have decided before the restart: a daemon may take the replica out again."""
    bench.isr_changes([1, 3])
    bench.broker(3).stop()
    bench.broker(3).start()
    bench.isr_changes([1])
    bench.isr_changes([1, 3])
    bench.world.run_for(2.5)
    bench.write_state([1])


@pytest.mark.parametrize(
    ("unclean", "down", "isr", "leader", "is_broken"),
    [
        pytest.param(True, 2, [3], 3, False, id="the last resort"),
        pytest.param(False, 2, [3], 3, True, id="not allowed"),
        pytest.param(True, 2, [4], 4, True, id="no replica"),
        pytest.param(True, 2, [3, 1], 3, True, id="not alone"),
        pytest.param(True, 1, [3], 3, True, id="a member of the ISR lives"),
    ],
)
def test_an_unclean_leader_is_the_last_resort(
    bench: _Bench,
    *,
    unclean: bool,
    down: int,
    isr: Sequence[int],
    leader: int,
    is_broken: bool,
) -> None:
    """The topic has to permit the election, and no ISR member may be live."""
    bench.world.fabric.configs["t"] = TopicConfig(1, unclean)
    bench.isr_changes([1, 2])
    for number in range(1, down + 1):
        bench.broker(number).stop()
    bench.world.run_for(KNOWN_S)
    bench.write_state([1, 2], leader=-1)
    with pytest.raises(InvariantViolationError) if is_broken else nullcontext():
        bench.write_state(isr, leader=leader)


def test_an_unclean_election_before_it_is_durable_that_there_is_no_leader_is_noticed(
    bench: _Bench,
) -> None:
    """The setting has to be read after the state without a leader is durable."""
    bench.world.fabric.configs["t"] = TopicConfig(1, unclean_leader_election=True)
    bench.isr_changes([1])
    bench.broker(1).stop()
    bench.world.run_for(KNOWN_S)
    with pytest.raises(InvariantViolationError):
        bench.write_state([3], leader=3)


@pytest.mark.parametrize(("forbidden_at", "is_broken"), [(1.0, True), (5.0, False)])
def test_an_unclean_election_by_what_was_permitted_earlier_is_noticed(
    bench: _Bench, forbidden_at: float, *, is_broken: bool
) -> None:
    """Only settings since the loss of the leader count."""
    fabric = bench.world.fabric
    fabric.configs["t"] = TopicConfig(1, unclean_leader_election=True)
    bench.isr_changes([1])
    bench.broker(1).stop()
    bench.world.run_for(KNOWN_S)
    forbids = TopicConfig(1, unclean_leader_election=False)
    bench.world.schedule.call_between(
        forbidden_at, forbidden_at, lambda: fabric.change_config("t", forbids)
    )
    bench.world.run_for(3.0)
    bench.write_state([1], leader=-1)
    bench.world.run_for(3.0)
    with pytest.raises(InvariantViolationError) if is_broken else nullcontext():
        bench.write_state([3], leader=3)


def test_what_was_acknowledged_counts_where_no_unclean_election_took_it(bench: _Bench) -> None:
    """A topic that permits unclean elections loses nothing until there is one."""
    bench.world.fabric.configs["t"] = TopicConfig(1, unclean_leader_election=True)
    bench.world.run_for(5.0)
    assert bench.world.invariants.committed(P)
    bench.broker(1).logs[P].truncate(0)
    with pytest.raises(InvariantViolationError):
        bench.write_state([1])


@pytest.mark.parametrize(("raised_before_s", "is_broken"), [(10.0, True), (1.0, False)])
def test_a_target_below_min_isr_is_noticed(
    bench: _Bench, raised_before_s: float, *, is_broken: bool
) -> None:
    """The lowest setting that a daemon may know is decisive."""
    world = bench.world
    world.fabric.configs["t"] = TopicConfig(1, unclean_leader_election=False)
    world.invariants.trust_settings_for(5.0)
    world.fabric.change_config("t", TopicConfig(2, unclean_leader_election=False))
    world.run_for(raised_before_s)
    spec = ReassignmentSpec(ids([1]), ids([1, 2, 3]), RequestId("r"), Route.REQUEST)
    with pytest.raises(InvariantViolationError) if is_broken else nullcontext():
        bench.write_spec(spec)


@pytest.mark.parametrize(
    ("isr", "leader", "bump", "epoch_offset"),
    [
        pytest.param([2, 3], 1, 1, 0, id="leader not in ISR"),
        pytest.param([], -1, 1, 0, id="empty ISR"),
        pytest.param([1, 2, 3], 1, 0, 0, id="leader epoch not bumped"),
        pytest.param([1, 2, 3], 1, 2, 0, id="leader epoch bumped twice"),
        pytest.param([1, 2, 3, 4], 1, 1, 0, id="ISR grown by a controller"),
        pytest.param([1, 2], 1, 1, 1, id="another controller epoch"),
        pytest.param([1], 1, 1, 0, id="below min.insync.replicas"),
    ],
)
def test_a_wrong_state_is_noticed(
    bench: _Bench, isr: list[int], leader: int, bump: int, epoch_offset: int
) -> None:
    """The write itself is judged."""
    with pytest.raises(InvariantViolationError):
        bench.write_state(isr, leader=leader, bump=bump, epoch_offset=epoch_offset)


def test_a_dead_replica_may_leave_an_isr_that_gets_too_small(bench: _Bench) -> None:
    """Only live replicas count."""
    for number in (2, 3):
        bench.broker(number).stop()
    bench.write_state([1])


def test_a_good_copy_that_is_still_needed_is_noticed_when_it_leaves(bench: _Bench) -> None:
    """The target has three replicas, and the replacement of 3 is not in sync yet."""
    bench.write_spec(_spec([1, 2, 4]))
    bench.write_topic(PartitionAssignment(ids([1, 2, 4, 3]), ids([4]), ids([3])))
    with pytest.raises(InvariantViolationError, match="good copies"):
        bench.write_state([1, 2])


def test_a_good_copy_may_leave_where_the_replication_factor_shrinks(bench: _Bench) -> None:
    """The plan itself has fewer replicas."""
    bench.write_spec(_spec([1, 2]))
    bench.write_topic(PartitionAssignment(ids([1, 2, 3]), removing_replicas=ids([3])))
    bench.write_state([1, 2])


def test_what_was_out_of_sync_when_its_step_began_is_a_good_copy_once_it_is_back(
    bench: _Bench,
) -> None:
    """The replica is back in the ISR, and its replacement is not in sync yet."""
    bench.write_spec(_spec([1, 2, 4]))
    bench.isr_changes([1, 2])
    bench.write_topic(PartitionAssignment(ids([1, 2, 4, 3]), ids([4]), ids([3])))
    bench.isr_changes([1, 2, 3])
    with pytest.raises(InvariantViolationError, match="good copies"):
        bench.write_state([1, 2])


@pytest.mark.parametrize("is_treated", [True, False])
def test_a_replica_whose_broker_restarted_may_leave_once(
    bench: _Bench, *, is_treated: bool
) -> None:
    """A restarted broker counts as failed until a controller keeps it in the ISR."""
    bench.isr_changes([1, 3])
    bench.broker(3).stop()
    bench.broker(3).start()
    bench.world.run_for(2.5)
    if is_treated:
        bench.write_state([1, 3])
    with pytest.raises(InvariantViolationError) if is_treated else nullcontext():
        bench.write_state([1])


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_dead_original_may_leave_no_room_for_a_good_copy(bench: _Bench, *, is_dead: bool) -> None:
    """Original 4 is added while 2 is dropped; original 3 is dead, or catches up."""
    bench.world.fabric.configs["t"] = TopicConfig(1, unclean_leader_election=False)
    bench.write_spec(replace(_spec([4, 3], [4, 3]), cancelled_by=RequestId("cancel")))
    bench.isr_changes([1, 2])
    if is_dead:
        bench.broker(3).stop()
    bench.world.run_for(2.5)
    bench.isr_changes([1, 2])
    bench.broker(4).logs[P] = Log(0)
    bench.write_topic(PartitionAssignment(ids([3, 1, 4, 2]), ids([4]), ids([2])))
    with nullcontext() if is_dead else pytest.raises(InvariantViolationError, match="good copies"):
        bench.write_state([1])


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_rollback_waits_for_live_originals_only(bench: _Bench, *, is_dead: bool) -> None:
    """A dead original may never come back; a live one is about to catch up."""
    back = replace(_spec([4, 2, 3], [4, 2, 3]), cancelled_by=RequestId("cancel"))
    bench.write_spec(back)
    bench.world.brokers[BrokerId(4)].logs[P] = Log(0)
    bench.write_topic(PartitionAssignment(ids([4, 2, 3, 1]), ids([1]), ids([1])))
    if is_dead:
        bench.broker(4).stop()
        bench.world.run_for(KNOWN_S)
    with nullcontext() if is_dead else pytest.raises(InvariantViolationError, match="good copies"):
        bench.write_state([2, 3], leader=2)


def test_two_writers_with_one_epoch_are_noticed(bench: _Bench) -> None:
    """One controller epoch has one writer, whatever the write."""
    bench.write_state([1, 2, 3])
    with pytest.raises(InvariantViolationError, match="two writers"):
        bench.write_state([1, 2, 3], session=NO_SESSION)


def test_an_unfenced_write_of_a_state_is_noticed(bench: _Bench) -> None:
    """Only leaders write without a fence, and they keep the epoch."""
    with pytest.raises(InvariantViolationError, match="a broker wrote"):
        bench.write_state([1, 2, 3], fenced=False)


@pytest.mark.parametrize(
    "assignments",
    [
        pytest.param((), id="partition lost"),
        pytest.param((PartitionAssignment(()),), id="no replicas"),
        pytest.param((PartitionAssignment(ids([1, 1])),), id="a broker twice"),
        pytest.param(
            (PartitionAssignment(ids([1, 2, 3]), adding_replicas=ids([4])),),
            id="AR not within RS",
        ),
        pytest.param(
            (PartitionAssignment(ids([1, 2]), removing_replicas=ids([1, 2])),),
            id="everything removed",
        ),
        pytest.param((PartitionAssignment(ids([1, 2])),), id="forgotten with its log"),
    ],
)
def test_a_wrong_topic_znode_is_noticed(
    bench: _Bench, assignments: tuple[PartitionAssignment, ...]
) -> None:
    """The write itself is judged."""
    with pytest.raises(InvariantViolationError):
        bench.write_topic(*assignments)


def test_a_replica_may_be_forgotten_with_an_orphan_record(bench: _Bench) -> None:
    """The record names the log that is left."""
    bench.isr_changes([1, 2])
    bench.world.zookeeper.ensure(paths.orphan_path(BrokerId(3), P), b"{}")
    bench.write_topic(PartitionAssignment(ids([1, 2])))


def test_deleting_an_isr_member_is_noticed(bench: _Bench) -> None:
    """The request and the deletion itself are both judged."""
    with pytest.raises(InvariantViolationError, match="which is in ISR"):
        bench.stop(3)
    broker = bench.broker(3)
    request = stop_replica(P, leader_epoch=99, delete=True, controller_epoch=99)
    with pytest.raises(InvariantViolationError, match="ISR member 3"):
        broker.handle(request, broker.epoch)


def test_deleting_a_replica_that_is_to_stay_is_noticed(bench: _Bench) -> None:
    """A replica out of the ISR must also leave the assignment."""
    bench.isr_changes([1, 2])
    with pytest.raises(InvariantViolationError, match="which is to stay"):
        bench.stop(3)


def test_deleting_before_the_leader_knows_is_noticed(bench: _Bench) -> None:
    """The leader could still take the replica back into the ISR."""
    bench.isr_changes([1, 2])
    removing = PartitionAssignment(ids([1, 2, 3]), removing_replicas=ids([3]))
    bench.write_topic(removing)
    with pytest.raises(InvariantViolationError, match="counts it among"):
        bench.stop(3)


def test_losing_an_acknowledged_record_is_noticed(bench: _Bench) -> None:
    """Every member of the ISR is judged."""
    assert bench.world.invariants.committed(P) > 10
    bench.broker(3).logs[P].records.pop(0)
    with pytest.raises(InvariantViolationError, match="lacks some of"):
        bench.world.run_for(5.0)


# --- records and what is left behind --------------------------------------------------------------


def _spec(target: Sequence[int], original: Sequence[int] = (1, 2, 3)) -> ReassignmentSpec:
    return ReassignmentSpec(ids(target), ids(original), RequestId("r"), Route.LEGACY)


def test_a_record_written_without_the_claim_is_noticed(bench: _Bench) -> None:
    """A deposed daemon could write it."""
    with pytest.raises(InvariantViolationError, match="without a check of the claim"):
        bench.write_spec(_spec([1, 2, 4]), fenced=False)


def test_a_record_that_ends_too_early_is_noticed(bench: _Bench) -> None:
    """The topic znode still has removing replicas when the record ends."""
    bench.write_spec(_spec([1, 2]))
    bench.write_topic(PartitionAssignment(ids([1, 2, 3]), removing_replicas=ids([3])))
    with pytest.raises(InvariantViolationError, match="our record ended while"):
        bench.write_spec(None)


def test_more_replicas_than_the_bound_are_noticed(bench: _Bench) -> None:
    """The bound is max(|ORS|, |FTR|) + step_size, here four."""
    bench.world.invariants.records.step_size = 1
    bench.write_spec(_spec([1, 2, 4]))
    bench.write_topic(PartitionAssignment(ids([1, 2, 3, 4]), ids([4])))
    with pytest.raises(InvariantViolationError, match="at most 4 are allowed"):
        bench.write_topic(PartitionAssignment(ids([1, 2, 3, 4, 5]), ids([4, 5])))


def test_dropping_beside_adding_before_the_exclusion_is_noticed(bench: _Bench) -> None:
    """Beyond the bound a dropped replica must have left the ISR in the same transaction."""
    bench.world.invariants.records.step_size = 1
    bench.write_spec(_spec([4, 5]))
    both = PartitionAssignment(ids([1, 2, 4, 5, 3]), ids([4]), ids([3]))
    with pytest.raises(InvariantViolationError, match="are still in ISR"):
        bench.write_topic(both)
    bench.write_state([1, 2])
    bench.write_topic(both)


def test_the_floor_is_that_of_the_final_target(bench: _Bench) -> None:
    """A target of one replica may shrink the ISR to one, though min.insync.replicas is two."""
    bench.world.fabric.configs["t"] = TopicConfig(1, unclean_leader_election=False)
    bench.write_spec(_spec([1]))
    bench.world.fabric.configs["t"] = TopicConfig(2, unclean_leader_election=False)
    bench.write_state([1])


def test_a_log_without_an_assignment_or_record_is_noticed_at_the_end(bench: _Bench) -> None:
    """A log with an orphan record is allowed."""
    bench.broker(4).logs[P] = Log(0)
    with pytest.raises(InvariantViolationError, match="no record names it"):
        bench.world.invariants.judge_end({})
    bench.world.zookeeper.ensure(paths.orphan_path(BrokerId(4), P), b"{}")
    bench.world.invariants.judge_end({})


@pytest.mark.parametrize("is_proven", [False, True])
def test_what_kafka_alone_left_behind_is_not_ours(bench: _Bench, is_proven: bool) -> None:  # noqa: FBT001
    """Only an original replica of a spec needs an orphan record."""
    if is_proven:
        bench.write_spec(_spec([1, 2]))
    bench.isr_changes([1, 2])
    bench.world.assign("t", {0: PartitionAssignment(ids([1, 2]))})
    with pytest.raises(InvariantViolationError) if is_proven else nullcontext():
        bench.world.invariants.judge_end({})


def test_a_lost_entry_is_noticed_at_the_end(bench: _Bench) -> None:
    """The entry was neither refused nor carried out."""
    with pytest.raises(InvariantViolationError, match="was requested"):
        bench.world.invariants.judge_end({P: ids([4, 5])})


def test_sending_what_is_not_durable_is_noticed(bench: _Bench) -> None:
    """The LeaderAndIsr has an epoch or an ISR that ZooKeeper does not have."""
    state = bench.world.state(P)
    assert state is not None
    send = bench.world.invariants.sent

    def request(isr: Sequence[int]) -> LeaderAndIsr:
        return leader_and_isr(
            P,
            leader=state.leader,
            replicas=isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.version,
            is_new=False,
        )

    send(BrokerId(1), request(state.isr))
    with pytest.raises(InvariantViolationError, match="ZooKeeper says"):
        send(BrokerId(1), request([1]))
    newer = leader_and_isr(P, leader=1, replicas=[1, 2, 3], leader_epoch=state.leader_epoch + 1)
    with pytest.raises(InvariantViolationError, match="ZooKeeper says"):
        send(BrokerId(1), newer)


def test_a_member_of_the_isr_that_is_to_make_its_log_anew_is_noticed(bench: _Bench) -> None:
    """A replica outside the ISR may be called new, at any leader epoch."""

    def request() -> LeaderAndIsr:
        state = bench.world.state(P)
        assert state is not None
        return leader_and_isr(
            P,
            leader=state.leader,
            replicas=state.isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.version,
        )

    send = bench.world.invariants.sent
    with pytest.raises(InvariantViolationError, match="create its log as new"):
        send(BrokerId(1), request())
    bench.write_state([1, 2, 3])
    bench.isr_changes([1, 2])
    send(BrokerId(3), request())
    with pytest.raises(InvariantViolationError, match="create its log as new"):
        send(BrokerId(1), request())


@pytest.mark.parametrize("leader_epoch", [0, 1])
@pytest.mark.parametrize(
    ("had_a_log", "isr", "is_broken"),
    [
        pytest.param(False, [1, 2], False, id="the leader removed it from the ISR meanwhile"),
        pytest.param(True, [1, 2], True, id="its log may be on a failed disk"),
        pytest.param(False, [1, 2, 3], True, id="it is in the ISR, and records are acknowledged"),
    ],
)
def test_the_first_state_is_sent_late_only_to_a_replica_that_never_had_a_log(
    bench: _Bench, *, had_a_log: bool, isr: Sequence[int], is_broken: bool, leader_epoch: int
) -> None:
    """The request was queued while its receiver was in the ISR, and names it there."""
    if leader_epoch:
        bench.write_state([1, 2, 3])
    queued = bench.world.state(P)
    assert queued is not None
    bench.isr_changes(isr)
    receiver = bench.broker(3)
    if not had_a_log:
        receiver.discard_strays("t")
    request = leader_and_isr(
        P,
        leader=queued.leader,
        replicas=[1, 2, 3],
        leader_epoch=queued.leader_epoch,
        partition_epoch=queued.version,
        controller_epoch=bench.epoch,
    )
    with pytest.raises(InvariantViolationError, match="as new") if is_broken else nullcontext():
        bench.world.invariants.sent(receiver.id, request)


@pytest.mark.parametrize(
    ("offset", "has_heard", "isr", "is_broken"),
    [
        pytest.param(-1, True, [1, 2], False, id="a replaced daemon, which the broker refuses"),
        pytest.param(
            -1, False, [1, 2], True, id="a replaced daemon, whose requests the broker accepts"
        ),
        pytest.param(-1, True, [1, 2, 3], True, id="a replaced daemon that knew of the member"),
        pytest.param(0, True, [1, 2], True, id="the present daemon"),
    ],
)
def test_what_was_queued_before_a_replica_entered_the_isr_is_sent_late_only_to_be_refused(
    bench: _Bench, *, offset: int, has_heard: bool, isr: Sequence[int], is_broken: bool
) -> None:
    """A daemon whose session ended hears of it later than its successor."""
    bench.isr_changes([1, 2])
    bench.write_state([1, 2])
    queued = bench.world.state(P)
    assert queued is not None
    bench.write_state([1, 2])
    bench.isr_changes([1, 2, 3])
    if has_heard:
        broker = bench.broker(3)
        broker.handle(update_metadata([1, 2, 3], controller_epoch=bench.epoch), broker.epoch)
    request = leader_and_isr(
        P,
        leader=queued.leader,
        replicas=[1, 2, 3],
        isr=isr,
        leader_epoch=queued.leader_epoch,
        partition_epoch=queued.version,
        controller_epoch=bench.epoch + offset,
    )
    with pytest.raises(InvariantViolationError, match="as new") if is_broken else nullcontext():
        bench.world.invariants.sent(BrokerId(3), request)


@pytest.mark.parametrize("says_why", [False, True])
def test_no_progress_without_a_reason_is_noticed(bench: _Bench, says_why: bool) -> None:  # noqa: FBT001
    """Operators need the reason why a reassignment waits."""
    view = ClusterView(Options())
    view.tenure.held = Tenure(ControllerEpoch(1), Instant(0.0))
    waiting = Reassignment(spec=_spec([4]), since=Instant(0.0))
    waiting.blocked = Blocked(BlockedBy.LIMIT, "1 partition is in flight") if says_why else None
    view.reassignments.by_partition[P] = waiting
    bench.world.run_for(SILENT_S)
    observer = HistoryObserver(bench.world)
    with nullcontext() if says_why else pytest.raises(InvariantViolationError, match="no progress"):
        observer.on_cycle(Decision(), view, {})


@pytest.mark.parametrize(
    ("error", "pause_s", "is_noticed"),
    [
        (WriteError.BAD_VERSION, 0.0, True),
        (WriteError.BAD_VERSION, 0.1, False),
        (WriteError.OTHER, 0.0, False),
    ],
)
def test_stale_writes_again_and_again_are_noticed(
    bench: _Bench, error: WriteError, pause_s: float, *, is_noticed: bool
) -> None:
    """Stale writes count if they follow at once; a refusal by permissions is not stale."""
    observer = HistoryObserver(bench.world)
    view, change = ClusterView(Options()), Change(())
    with pytest.raises(InvariantViolationError, match="stale") if is_noticed else nullcontext():
        for _ in range(STALE_MAX + 1):
            observer.on_rejected(change, error, view)
            observer.on_cycle(Decision((change,)), view, {})
            bench.world.run_for(pause_s)


def test_skipping_a_controller_epoch_is_noticed(bench: _Bench) -> None:
    """The controller epoch goes up by one."""
    with pytest.raises(InvariantViolationError, match="controller_epoch went"):
        bench.world.zookeeper.transact(NO_SESSION, [Put(paths.CONTROLLER_EPOCH, b"9")])


def test_a_violation_lists_what_happened_before(bench: _Bench) -> None:
    """A failing seed can be read without running it again."""
    with pytest.raises(InvariantViolationError) as caught:
        bench.write_state([1])
    text = str(caught.value)
    assert "/controller_epoch = " in text
    assert "before that:" in text
