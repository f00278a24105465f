"""Brokers are queried for directories as often as decisions wait for their reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core import effects
from controller.core.core_settings import Options
from controller.core.cycle import apply, observe, record_effect
from controller.core.disks.known_directories import unknown_brokers
from controller.core.disks.log_dir_queries import (
    AWAITED_POLL_S,
    POLL_S,
    query_log_dirs,
    query_named,
)
from controller.core.disks.records import (
    DirectoryResult,
    LogDirEventsRead,
    LogDirsAltered,
    LogDirsDescribed,
)
from controller.core.model import (
    BrokerDisks,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    PartitionAssignment,
    PlacedReplica,
    ReassignmentSpec,
    RequestId,
    Route,
    ZkVersion,
)
from controller.core.pacing.controls import QueueOrder
from controller.core.reassignments.phases import Pending, Placing
from controller.core.reassignments.records import PendingSortedRecord, PhaseRecord, SpecRecord
from controller.core.role.records import BrokersRead
from controller.core.topics.records import AssignmentRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import replicas, tp
from tests.core.tenure_views import NOW, a_tenure

HERE, THERE, ELSEWHERE = "/data/a", "/data/b", "/data/c"
TWO = BrokerId(2)
PARTITION = tp(0)


def a_placing(options: Options = Options()) -> ClusterView:  # noqa: B008 - it is immutable
    """Return a view with a replica that its broker is to move to another directory."""
    view = a_tenure({"t": [(1, 2), (2, 1)]}, options)
    spec = ReassignmentSpec(
        replicas(1, 2), replicas(1, 2), RequestId("r"), Route.REQUEST, log_dirs=((TWO, THERE),)
    )
    apply(view, SpecRecord(PARTITION, spec), NOW)
    apply(view, PhaseRecord(PARTITION, Placing(), NOW, "in place"), NOW)
    return view


def describes(view: ClusterView, seconds: float) -> bool:
    """Return whether the broker is queried so long after the begin, and note that it is."""
    at = Instant(NOW + seconds)
    queried = False
    for effect in query_log_dirs(view, Worklist(log_dirs=True), at).effects:
        record_effect(view, effect, at)
        if isinstance(effect, effects.DescribeLogDirs):
            queried = queried or effect.purpose is effects.DescribePurpose.PLACEMENTS
    return queried


def report(view: ClusterView, seconds: float, future: str | None = None) -> None:
    """Let the broker report its replica so long after the begin."""
    at = Instant(NOW + seconds)
    placed = PlacedReplica(HERE, 50, future)
    read = LogDirsDescribed(
        TWO,
        view.cluster.brokers[TWO].epoch,
        at,
        frozenset({PARTITION}),
        (LogDir(HERE), LogDir(THERE)),
        {PARTITION: placed},
    )
    observe(view, read, at)


def answer(view: ClusterView, seconds: float, directory: str) -> None:
    """Let the broker acknowledge a directory so long after the begin."""
    at = Instant(NOW + seconds)
    epoch = view.cluster.brokers[TWO].epoch
    record_effect(view, effects.PlaceReplica(PARTITION, TWO, directory), at)
    result = DirectoryResult(PARTITION, directory, kafka_errors.NONE)
    observe(view, LogDirsAltered(TWO, epoch, (result,)), at)


def test_a_broker_is_queried_from_time_to_time_while_it_moves_replicas() -> None:
    """Their progress changes slowly."""
    view = a_placing()
    assert describes(view, 0)
    report(view, 0.1)
    answer(view, 0.2, THERE)
    assert describes(view, 0.2 + AWAITED_POLL_S)
    report(view, 0.3 + AWAITED_POLL_S, THERE)
    assert not describes(view, 0.1 + POLL_S)
    assert describes(view, 0.2 + AWAITED_POLL_S + POLL_S)


def test_a_report_from_before_the_last_answer_is_soon_replaced() -> None:
    """It does not show whether the broker began the move."""
    view = a_placing()
    assert describes(view, 0)
    report(view, 0.1)
    answer(view, 0.2, THERE)
    assert not describes(view, 0.5 * AWAITED_POLL_S)
    assert describes(view, AWAITED_POLL_S)


def test_a_report_from_before_a_cancellation_is_soon_replaced() -> None:
    """The move it shows has to be stopped before it ends."""
    view = a_placing()
    assert describes(view, 0)
    report(view, 0.1, THERE)
    running = view.reassignments.by_partition[PARTITION].spec
    back = running.rolled_back(replicas(1, 2), RequestId("c"))
    apply(view, SpecRecord(PARTITION, back), Instant(NOW + 0.2))
    assert describes(view, AWAITED_POLL_S)
    report(view, AWAITED_POLL_S + 0.1, THERE)
    assert not describes(view, 2 * AWAITED_POLL_S)


def put_off(view: ClusterView) -> None:
    """Give the slot back because the moves have no room."""
    apply(view, PhaseRecord(PARTITION, Pending(Instant(NOW + 15), "full"), NOW, "wait"), NOW)


def a_put_off(order: QueueOrder = QueueOrder.SUBMITTED) -> ClusterView:
    """Return a view in which the moves of partition 0 were put off; partition 1 waits as well."""
    view = a_placing(Options(order=order))
    spec = ReassignmentSpec(replicas(1, 2), replicas(2, 1), RequestId("r"), Route.REQUEST)
    apply(view, SpecRecord(tp(1), spec), NOW)
    put_off(view)
    return view


def test_moves_that_were_put_off_go_behind_what_may_make_room() -> None:
    """They would take the slots again and again; other partitions of the request come first."""
    view = a_put_off()
    assert not view.pacing.resumed
    assert list(view.pacing.waiting) == [tp(1), PARTITION]


def test_moves_that_were_put_off_stay_behind_when_partitions_are_sorted() -> None:
    """Whatever their size."""
    view = a_put_off(QueueOrder.SMALL_FIRST)
    view.disks_process.sizes.update({PARTITION: 1, tp(1): 9})
    apply(view, PendingSortedRecord(), NOW)
    assert list(view.pacing.waiting) == [tp(1), PARTITION]


def test_rollback_that_was_put_off_keeps_its_precedence() -> None:
    """It moves nothing, but may wait for a broker."""
    view = a_placing()
    running = view.reassignments.by_partition[PARTITION].spec
    apply(view, SpecRecord(PARTITION, running.rolled_back(replicas(1, 2), RequestId("c"))), NOW)
    put_off(view)
    assert list(view.pacing.resumed) == [PARTITION]


def reserved(view: ClusterView) -> dict[str, int]:
    """Return the bytes that copies still take in each directory of the broker."""
    disk = view.disks.brokers[TWO]
    return {path: known.bytes for path, known in disk.reserved.items()}


def free_space(view: ClusterView, seconds: float) -> None:
    """Let the broker report its free space so long after the begin."""
    dirs = tuple(LogDir(path, 1000, 500, 1) for path in (HERE, THERE, ELSEWHERE))
    measured = BrokerDisks(view.cluster.brokers[TWO].epoch, Instant(NOW + seconds), dirs)
    view.disks.brokers[TWO].take_report(measured, {}, {})


def is_moving(view: ClusterView) -> bool:
    """Return whether the broker may move the replica."""
    return PARTITION in view.disks.brokers[TWO].copies


def a_move(directory: str = THERE) -> ClusterView:
    """Return a view in which the broker moves a replica of 50 bytes to another directory."""
    view = a_placing(Options(min_free=MinFree(bytes=1)))
    view.disks_process.sizes[PARTITION] = 50
    moving = Placing(((TWO, directory),))
    apply(view, PhaseRecord(PARTITION, moving, NOW, "moves"), Instant(NOW + 0.2))
    report(view, 1.0, directory)
    assert reserved(view) == {directory: 50}
    return view


def retarget(view: ClusterView, seconds: float, target: tuple[int, ...], where: str) -> None:
    """Let a later entry with other replicas take the partition over, while it is placed."""
    at = Instant(NOW + seconds)
    running = view.reassignments.by_partition[PARTITION].spec
    log_dirs = ((TWO, where),) if TWO in target else ()
    spec = replace(
        running,
        target=replicas(*target),
        log_dirs=log_dirs,
        unplaced=running.unplaced_by(log_dirs),
        version=ZkVersion(0),
    )
    apply(view, SpecRecord(PARTITION, spec), at)
    apply(view, PhaseRecord(PARTITION, Pending(), at, "the target changed"), at)


@pytest.mark.parametrize("where", [HERE, THERE])
def test_move_that_a_later_entry_finds_under_way_takes_its_space_until_it_ends(where: str) -> None:
    """The broker continues, whether the entry wants the replica there or elsewhere."""
    view = a_move()
    retarget(view, 2.0, (3, 2), where)
    free_space(view, 3.0)
    assert reserved(view) == {THERE: 50}
    assert describes(view, 7.0)
    report(view, 7.1, THERE)
    assert reserved(view) == {THERE: 50}
    assert describes(view, 13.0)
    report(view, 13.1)
    assert not is_moving(view)
    free_space(view, 14.0)
    assert reserved(view) == {}
    assert not describes(view, 30.0)


def test_report_from_before_a_later_entry_does_not_end_the_reservation() -> None:
    """It may precede the begin of the move."""
    view = a_move()
    retarget(view, 2.0, (3, 2), THERE)
    report(view, 1.9)
    assert reserved(view) == {THERE: 50}


def test_move_of_a_replica_that_is_dropped_takes_no_space() -> None:
    """The broker deletes both of its logs."""
    view = a_move()
    retarget(view, 2.0, (3, 1), HERE)
    assert reserved(view) == {THERE: 50}
    apply(view, AssignmentRecord(PARTITION, PartitionAssignment(replicas(3, 1))), NOW)
    apply(view, PhaseRecord(PARTITION, Placing(), NOW, "in place"), NOW)
    assert not is_moving(view)


def test_move_to_another_directory_takes_its_space_there() -> None:
    """The former one is over by then."""
    view = a_move()
    retarget(view, 2.0, (1, 2), ELSEWHERE)
    apply(view, PhaseRecord(PARTITION, Placing(), NOW, "in place"), Instant(NOW + 3))
    assert reserved(view) == {THERE: 50}
    elsewhere = Placing(((TWO, ELSEWHERE),))
    apply(view, PhaseRecord(PARTITION, elsewhere, NOW, "moves"), Instant(NOW + 4))
    assert reserved(view)[ELSEWHERE] == 50


def known(view: ClusterView, seconds: float, since: float = 0.0) -> bool:
    """Let the broker describe its directories so long after the begin; return if they are known."""
    epoch = view.cluster.brokers[TWO].epoch
    read = LogDirsDescribed(TWO, epoch, Instant(NOW + seconds), dirs=(LogDir(HERE),))
    observe(view, read, Instant(NOW + max(seconds, since)))
    return unknown_brokers(view, ((TWO, HERE),)) == set()


def test_directories_are_not_known_from_a_report_that_precedes_a_failure() -> None:
    """The notification does not say which of them failed."""
    view = a_placing()
    assert known(view, 1.0)
    observe(view, LogDirEventsRead(("log_dir_event_1",), frozenset({TWO})), Instant(NOW + 2.0))
    assert unknown_brokers(view, ((TWO, HERE),)) == {TWO}
    assert not known(view, 1.5, since=3.0)
    assert known(view, 3.0)


def test_directories_are_not_known_from_before_the_claim() -> None:
    """The query may have been of an earlier tenure."""
    view = a_placing()
    assert not known(view, -1.0, since=1.0)
    assert known(view, 1.0)


def test_entry_that_waits_for_a_broker_is_judged_again_when_it_leaves() -> None:
    """No report of it will come."""
    view = a_placing()
    for effect in query_named(view, [TWO], NOW):
        record_effect(view, effect, NOW)
    assert query_named(view, [TWO], NOW) == []
    live = {b: known for b, known in view.cluster.brokers.items() if b != TWO}
    view.due.submissions = view.due.plan = view.due.queue = False
    observe(view, BrokersRead(live), NOW)
    assert view.due.submissions
    assert view.due.plan
    assert view.due.queue
