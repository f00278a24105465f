"""Changes after a rejected write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.cycle import observe, take_due
from controller.core.decide import decide
from controller.core.effects import Effect
from controller.core.leadership.records import NotificationsDeletedRecord, StatesRead
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    OutcomeKind,
    PartitionAssignment,
    PartitionOutcome,
    RequestId,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.records import Change, TimerFired
from controller.core.requests.cancellation import follow_cancellation
from controller.core.requests.outcomes import OpenHistory, Part
from controller.core.requests.records import (
    CancellationEndedRecord,
    CancellationRead,
    HistoryRead,
    LegacyEntryRecord,
    PartitionOutcomeRecord,
    PartRecord,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.core.role.records import BrokersRead
from controller.core.topics.records import AssignmentRecord, TopicsListed, TopicsRead
from controller.core.view import ClusterView
from controller.reactor.commits import RETRY_TIMER, Commits
from controller.reactor.ports import (
    Committed,
    Failpoints,
    Operation,
    Rejected,
    WriteError,
    ZnodeFamily,
)
from controller.reactor.reads import LOST_MAX
from controller.znodes import paths
from tests.core.builders import Driver, broker, plan, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit
from tests.reactor.stores import NotingStore
from tests.sim.histories import SilentObserver

MAX_OPERATIONS = Options().multi_operations
NOW = Instant(0.0)
CZXID = Zxid(100)
CANCEL = RequestId(f"cancel-{CZXID:016x}")


class Cancelling:
    """A daemon whose cancellation has nothing left to lead back: it is to end."""

    def __init__(self) -> None:
        self.store = NotingStore()
        self.carried_out: list[Effect] = []
        self._view = ClusterView(Options())
        part = Part("0", 0, 0, RequestOptions())
        observe(self._view, HistoryRead({CANCEL: OpenHistory({"0": part}, accepted=0)}, {}), NOW)
        self._commits = Commits(
            self._view,
            self.store,
            SilentObserver(),
            Failpoints(),
            lambda effect, _now: self.carried_out.append(effect),
        )

    def read(self, version: int) -> None:
        """Report the present content of the znode."""
        observe(self._view, CancellationRead(Cancellation(ZkVersion(version), CZXID, 0)), NOW)

    def turn(self) -> list[type]:
        """Return the records of the cancellation in this cycle, and try to write them."""
        changes = follow_cancellation(self._view, NOW).changes
        self._commits.commit(changes, NOW)
        return [type(change.records[0]) for change in changes]

    def retry(self) -> None:
        """Let the back-off of refused writes pass."""
        self._commits.try_again()


@pytest.mark.parametrize("error", [WriteError.BAD_VERSION, WriteError.NO_NODE])
def test_a_changed_cancellation_does_not_end_before_it_is_read(
    error: WriteError,
) -> None:
    """Each earlier attempt would be refused; the next choice has the added partitions."""
    daemon = Cancelling()
    daemon.read(0)
    daemon.store.refused = {paths.CANCEL: error}
    assert daemon.turn() == [CancellationEndedRecord]
    assert daemon.store.znodes == [ZnodeFamily.CANCELLATION]
    assert daemon.turn() == []
    daemon.read(1)
    assert daemon.turn() == [PartRecord]


def test_a_cancellation_that_an_overtaken_read_shows_unchanged_is_read_again() -> None:
    """The read began before the other write, so each attempt requests another, for a while."""
    daemon = Cancelling()
    daemon.store.refused = {paths.CANCEL: WriteError.BAD_VERSION}
    for _ in range(LOST_MAX):
        daemon.read(0)
        assert daemon.turn() == [CancellationEndedRecord]
        assert daemon.turn() == []
    assert len(daemon.store.znodes) == LOST_MAX - 1
    assert [getattr(e, "name", None) for e in daemon.carried_out] == [RETRY_TIMER]
    daemon.retry()
    assert len(daemon.store.znodes) == LOST_MAX


@pytest.mark.parametrize(
    "refused",
    [
        {paths.CANCEL: WriteError.OTHER},
        {paths.outcome_path(CANCEL): WriteError.NODE_EXISTS},
    ],
)
def test_an_unchanged_cancellation_ends_without_being_read(
    refused: dict[str, WriteError],
) -> None:
    """The known content is current, and no read of it is under way."""
    daemon = Cancelling()
    daemon.read(0)
    daemon.store.refused = refused
    assert daemon.turn() == [CancellationEndedRecord]
    assert ZnodeFamily.CANCELLATION not in daemon.store.znodes
    daemon.store.refused = {}
    assert daemon.turn() == [CancellationEndedRecord]
    assert daemon.turn() == []


def test_what_shares_a_refused_write_ends_though_its_topic_is_gone() -> None:
    """No later read of the topic would examine the partition again."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({tp(0): (2, 3), tp(1): (2, 3)})
    store = NotingStore()
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    store.refused = {paths.reassignment_path(tp(0)): WriteError.OTHER}
    driver.fold(TopicsListed(frozenset()))
    driver.fold(TopicsRead({"t": None}))
    commits.commit(decide(driver.view, take_due(driver.view), driver.now).changes, driver.now)
    assert set(driver.view.reassignments.by_partition) == {tp(0)}
    store.refused = {}
    commits.try_again()
    commits.commit(decide(driver.view, take_due(driver.view), driver.now).changes, driver.now)
    assert driver.view.reassignments.by_partition == {}


def test_a_refused_write_is_the_reason_of_a_wait_until_it_succeeds() -> None:
    """Permissions are changed by hand: an operator has to see the reason."""
    driver = Driver({tp(): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({tp(): (2, 3)})
    driver.view.options = Options()
    driver.fold(TimerFired("anything"))
    store = NotingStore()
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    store.refused = {paths.topic_path("t"): WriteError.NO_AUTH}
    commits.commit(decide(driver.view, take_due(driver.view), driver.now).changes, driver.now)
    moved = driver.view.reassignments.by_partition[tp()]
    words = "ZooKeeper rejects the write of /brokers/topics/t: no_auth"
    assert moved.blocked == Blocked(BlockedBy.WRITE_REFUSED, words)
    store.refused = {}
    commits.try_again()
    commits.commit(decide(driver.view, take_due(driver.view), driver.now).changes, driver.now)
    assert moved.in_flight
    assert moved.blocked is None


def test_what_a_refused_write_was_to_have_is_given_to_others() -> None:
    """Other topics get the slots for as long as the permission is missing."""
    before = {tp(n, "a"): (0, 1) for n in range(3)}
    driver = Driver({**before, tp(0, "b"): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({**dict.fromkeys(before, (2, 3)), tp(0, "b"): (2, 3)})
    driver.view.options = Options(max_partitions_in_flight=2)
    driver.fold(TimerFired("anything"))
    driver.view.due.capacity = True
    store = NotingStore()
    store.refused = {paths.topic_path("a"): WriteError.TOO_LARGE}
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    for _ in range(10):
        if driver.view.due:
            decision = decide(driver.view, take_due(driver.view), driver.now)
            commits.commit(decision.changes, driver.now)
    assert not driver.view.due
    assert driver.view.reassignments.by_partition[tp(0, "b")].in_flight
    assert not any(driver.view.reassignments.by_partition[p].in_flight for p in before)


def commits_of(driver: Driver, refused: str | None = None) -> tuple[Commits, NotingStore]:
    """Return the writes of a driver's daemon, and the store, which rejects those of a znode."""
    store = NotingStore()
    store.refused = {} if refused is None else {refused: WriteError.NO_AUTH}
    return Commits(driver.view, store, SilentObserver(), Failpoints(), lambda *_: None), store


def run_cycle(driver: Driver, commits: Commits) -> None:
    """Decide and write until nothing is due."""
    for _ in range(20):
        if not driver.view.due:
            return
        decision = decide(driver.view, take_due(driver.view), driver.now)
        commits.commit(decision.changes, driver.now)
    raise AssertionError("the same is decided again and again")


def retry(driver: Driver, commits: Commits) -> None:
    """Let the timer of rejected writes fire."""
    commits.try_again()
    driver.fold(TimerFired(RETRY_TIMER))
    run_cycle(driver, commits)


def blocked_by(driver: Driver) -> BlockedBy | None:
    """Return the reason for which the only reassignment waits."""
    (reassignment,) = driver.view.reassignments.by_partition.values()
    return None if reassignment.blocked is None else reassignment.blocked.by


@pytest.mark.parametrize("by_queue", [False, True])
def test_a_pending_one_waits_for_its_new_target_that_is_not_written(*, by_queue: bool) -> None:
    """No step begins towards a target that is to be replaced, and an operator sees the reason."""
    driver = Driver({tp(): (0, 1)}, options=Options(max_partitions_in_flight=0))
    submit(driver, submission("request_0000000001", {tp(): (2, 3)}))
    path = paths.QUEUE if by_queue else paths.reassignment_path(tp())
    commits, store = commits_of(driver, path)
    if by_queue:
        driver.fold(QueueRead(plan({tp(): (4, 5)}, czxid=61)))
    else:
        later = submission("request_0000000002", {tp(): (4, 5)}, czxid=61)
        driver.fold(SubmissionsListed(frozenset({later.name})))
        driver.fold(SubmissionsRead({later.name: later}))
        run_cycle(driver, commits)
    driver.view.options = Options()
    moved = driver.view.reassignments.by_partition[tp()]
    words = f"ZooKeeper rejects the write of {path}: no_auth"
    for _ in range(2):
        retry(driver, commits)
        assert moved.blocked == Blocked(BlockedBy.WRITE_REFUSED, words)
        assert not moved.in_flight
    store.refused = {}
    retry(driver, commits)
    assert moved.spec.target == replicas(4, 5)
    assert moved.in_flight


def test_a_step_in_flight_continues_though_its_new_target_is_not_written() -> None:
    """It would stand still for as long as the daemon may not write the queue."""
    driver = Driver({tp(): (0, 1)})
    submit(driver, submission("request_0000000001", {tp(): (0, 1, 2)}))
    commits, _ = commits_of(driver, paths.QUEUE)
    driver.fold(QueueRead(plan({tp(): (4, 5)}, czxid=61)))
    run_cycle(driver, commits)
    state = driver.view.leadership.states[tp()]
    in_sync = replace(state, isr=replicas(0, 1, 2), version=ZkVersion(state.version + 1))
    driver.fold(StatesRead({tp(): in_sync}))
    retry(driver, commits)
    assert driver.view.reassignments.by_partition == {}
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(0, 1, 2))


def test_a_first_state_that_is_not_written_is_the_reason_of_a_wait() -> None:
    """The reassignment is not examined while its partition is to get a state."""
    driver = Driver({tp(): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({tp(): (2, 3)})
    commits, _ = commits_of(driver, paths.state_path(tp()))
    driver.fold(StatesRead({tp(): None}))
    driver.view.reassignments.by_partition[tp()].blocked = None
    run_cycle(driver, commits)
    assert blocked_by(driver) is BlockedBy.WRITE_REFUSED


def test_a_lost_copy_that_is_not_recorded_is_the_reason_of_a_wait() -> None:
    """Delegated: whatever else is waited for is noted with the record only."""
    driver = DelegatedDriver({tp(): (0, 1, 2)}, answers=False)
    submit(driver, submission("request_0000000001", {tp(): (0, 1, 3)}))
    moved = driver.view.reassignments.by_partition[tp()]
    moved.lost, moved.blocked = frozenset(replicas(4)), None
    commits, store = commits_of(driver, paths.orphan_path(BrokerId(4), tp()))
    driver.view.due.add((tp(),))
    run_cycle(driver, commits)
    assert blocked_by(driver) is BlockedBy.WRITE_REFUSED
    store.refused = {}
    retry(driver, commits)
    assert blocked_by(driver) is BlockedBy.CONTROLLER_ANSWER


class OvertakenStore(NotingStore):
    """A store whose topic znode another client writes after some of our writes."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.written: list[tuple[Operation, ...]] = []
        self.refusals = 0
        self._after = after

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Accept writes before the other client's."""
        results: list[Committed | Rejected] = []
        for multi in multis:
            if len(self.written) == self._after:
                self.refusals += 1
                results.append(Rejected(0, WriteError.BAD_VERSION))
            else:
                self.written.append(tuple(multi))
                results.append(Committed())
        return results


@pytest.mark.parametrize("after", [0, 1, 2])
def test_what_builds_on_a_refused_write_is_not_written(after: int) -> None:
    """Of steps on one topic in several multis, those before are written, the others wait."""
    everywhere = {tp(n): (0, 1) for n in range(MAX_OPERATIONS + 10)}
    driver = Driver(everywhere, options=Options(max_partitions_in_flight=0))
    driver.submit(dict.fromkeys(everywhere, (0, 2)))
    most = 10_000
    driver.view.options = Options(
        max_partitions_in_flight=most, max_incoming_per_broker=most, max_outgoing_per_broker=most
    )
    driver.fold(TimerFired("anything"))
    store = OvertakenStore(after)
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    commits.commit(decide(driver.view, take_due(driver.view), driver.now).changes, driver.now)
    begun = [p for p in everywhere if driver.view.reassignments.by_partition[p].in_flight]
    states = [op for multi in store.written for op in multi if op.path.endswith("/state")]
    assert (len(store.written), store.refusals) == (after, int(after < 2))
    assert len(begun) == len(states)
    assert (len(begun) == len(everywhere)) == (after == 2)
    assert driver.view.topics.by_name["t"].stale == (after < 2)


def test_a_bounce_is_kept_where_its_write_waits_for_a_topic_that_was_overtaken() -> None:
    """A step of another partition of the topic is refused with it: both are decided anew."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)})
    driver.fold(BrokersRead({**driver.view.cluster.brokers, BrokerId(1): broker(1, epoch=500)}))
    driver.view.due.partitions.pop(tp(1), None)
    changes = list(decide(driver.view, take_due(driver.view), driver.now).changes)
    wanted = PartitionAssignment(replicas(2, 3, 4), replicas(4))
    changes.append(Change((AssignmentRecord(tp(1), wanted),), partition=tp(1)))
    store = NotingStore()
    store.refused = {paths.topic_path("t"): WriteError.BAD_VERSION}
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    commits.commit(changes, driver.now)
    assert driver.view.topics.by_name["t"].stale
    assert driver.view.leadership.states[tp(0)].leader == 1
    assert driver.view.leadership.bounced == {tp(0): {1}}


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_entry_follows_only_an_end_that_was_written(*, is_refused: bool) -> None:
    """The plan does not fit beside the topic; an entry taken out first would be a withdrawal."""
    everywhere = {tp(n): (0, 1) for n in range(9_000)}
    driver = Driver({tp(0): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({tp(0): (0, 2)})
    view = driver.view
    assert view.requests.legacy is not None
    view.topics.by_name["t"].partitions = {
        p.partition: PartitionAssignment(replicas(*ids)) for p, ids in everywhere.items()
    }
    view.requests.legacy.entries = dict.fromkeys(everywhere, replicas(0, 2))
    spec = view.reassignments.by_partition[tp(0)].spec
    end = Change(
        (
            AssignmentRecord(tp(0), PartitionAssignment(replicas(0, 2))),
            LegacyEntryRecord(tp(0), None),
            SpecEndedRecord(tp(0), spec.version, spec.request, "done"),
        ),
        partition=tp(0),
    )
    store = OvertakenStore(0 if is_refused else 2)
    commits = Commits(view, store, SilentObserver(), Failpoints(), lambda *_: None)
    commits.commit([end], driver.now)
    written = [op.path for multi in store.written for op in multi]
    plans = [path for path in written if path == paths.LEGACY_PLAN]
    assert plans == ([] if is_refused else [paths.LEGACY_PLAN])
    assert store.refusals == int(is_refused)
    assert (tp(0) in view.requests.legacy.entries) == is_refused


def test_races_count_from_the_last_write_that_succeeded() -> None:
    """Races that were lost before do not show whether a read is current."""
    view, store = ClusterView(Options()), NotingStore()
    commits = Commits(view, store, SilentObserver(), Failpoints(), lambda *_: None)
    end = Change((CancellationEndedRecord(ZkVersion(0)),))
    for rounds in (1, 2):
        store.refused = {paths.CANCEL: WriteError.BAD_VERSION}
        for _ in range(LOST_MAX - 1):
            commits.commit([end], NOW)
        assert len(store.znodes) == rounds * (LOST_MAX - 1)
        store.refused = {}
        commits.commit([end], NOW)


def test_a_plan_in_doubt_is_read_again_when_refused_writes_are_tried_again() -> None:
    """The requested read may have failed, and no write uses a stale plan."""
    driver = Driver({tp(): (0, 1)}, options=Options(max_partitions_in_flight=0))
    driver.submit({tp(): (2, 3)})
    store = NotingStore()
    commits = Commits(
        driver.view, store, SilentObserver(), Failpoints(), lambda _effect, _now: None
    )
    commits.try_again()
    assert store.znodes == []
    assert driver.view.requests.legacy is not None
    driver.view.requests.legacy.stale = True
    commits.try_again()
    assert store.znodes == [ZnodeFamily.LEGACY_PLAN]


class RefusalObserver(SilentObserver):
    """Notes the refused changes."""

    def __init__(self) -> None:
        self.refused: list[tuple[Change, WriteError]] = []

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Note it."""
        del view
        self.refused.append((change, error))


def test_what_shares_a_multi_with_a_refused_change_is_written_without_it() -> None:
    """The change concerns no partition, so that no read of a topic would decide it anew."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(max_partitions_in_flight=0))
    view = driver.view
    view.leadership_process.notifications["isr_notifications"] = ("one",)
    alone = Change((NotificationsDeletedRecord("isr_notifications", ("one",)),))
    wanted = PartitionAssignment(replicas(1, 2, 3, 4), replicas(4))
    refused = Change((AssignmentRecord(tp(), wanted),), partition=tp())
    store, observer = NotingStore(), RefusalObserver()
    store.refused = {paths.topic_path("t"): WriteError.BAD_VERSION}
    commits = Commits(view, store, observer, Failpoints(), lambda _effect, _now: None)
    commits.commit([refused, alone], driver.now)
    assert not view.leadership_process.notifications["isr_notifications"]
    assert observer.refused == [(refused, WriteError.BAD_VERSION)]


class UsedShards(NotingStore):
    """The first shards exist: another tenure of the same epoch wrote them."""

    def __init__(self, used: int) -> None:
        super().__init__()
        self.created: list[int] = []
        self._used = used

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Refuse what creates one of them."""
        return [self._create(multi) for multi in multis]

    def _create(self, multi: Sequence[Operation]) -> Committed | Rejected:
        for index, operation in enumerate(multi):
            shard = paths.parse_shard(operation.path.rpartition("/")[2])
            if shard is None:
                continue
            assert len(self.created) < 10
            self.created.append(shard.number)
            if shard.number < self._used:
                return Rejected(index, WriteError.NODE_EXISTS)
        return Committed()


def test_numbers_of_shards_that_exist_are_passed_over() -> None:
    """The rows are written at once under the next free number, without a new read."""
    driver = Driver({tp(): (1, 2)})
    request = RequestId("request_0000000001")
    ended = Change(
        (PartitionOutcomeRecord(PartitionOutcome(request, tp(), OutcomeKind.CANCELLED, "by hand")),)
    )
    store, observer = UsedShards(2), RefusalObserver()
    commits = Commits(driver.view, store, observer, Failpoints(), lambda _effect, _now: None)
    commits.commit([ended], driver.now)
    assert store.created == [0, 1, 2]
    assert not observer.refused
    assert driver.view.requests_tenure.shards == 3
