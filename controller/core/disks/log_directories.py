"""
Log directories that entries name: which brokers to ask, and what their answers show (KIP-113).

A broker is asked when an entry names one of its directories and is to be accepted, and while a
partition is in the phase ``Placing``: one request for all such partitions of the broker, now and
then, until all named replicas are where they are to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller import kafka_errors
from controller.core import effects, wakeups
from controller.core.disks import directory_ledger, disk_reservations, records
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Instant,
    LogDirs,
    PlacedReplica,
    TopicPartition,
)
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

POLL_S: Final = 5.0
"""How often a broker is asked where replicas are that it moves."""
SOON_S: Final = 1.0
"""How soon a broker is asked again where a decision waits for its next report."""
PATIENCE_S: Final = 30.0
"""How long an entry waits for a broker that does not report its directories."""
ENTRIES_TIMER: Final = "log_directories_of_entries"


def epoch_of(view: ClusterView, broker: BrokerId) -> BrokerEpoch | None:
    """Return the present registration of a broker; None: it is not live."""
    registered = view.cluster.brokers.get(broker)
    return None if registered is None else registered.epoch


# --- entries to be accepted ----------------------------------------------------------------------


def unknown_brokers(view: ClusterView, log_dirs: LogDirs) -> set[BrokerId]:
    """Return the live brokers whose directories have to be known to judge these."""
    ledger = view.tenure.directories
    found = set()
    for broker, _ in log_dirs:
        epoch = epoch_of(view, broker)
        known, silence = ledger.brokers.get(broker), ledger.silence_of(broker, epoch)
        is_known = known is not None and known.epoch == epoch
        if epoch is not None and not is_known and not (silence and silence.is_lasting):
            found.add(broker)
    return found


def problem_of(view: ClusterView, log_dirs: LogDirs) -> str | None:
    """Return why replicas cannot be in these directories, as far as it is known."""
    ledger = view.tenure.directories
    for broker, path in log_dirs:
        epoch = epoch_of(view, broker)
        known, silence = ledger.brokers.get(broker), ledger.silence_of(broker, epoch)
        if epoch is None:
            return f"broker {broker} is not live, so its log directory {path} cannot be used"
        if known is not None and known.epoch == epoch:
            if path not in known.dirs:
                return f"broker {broker} has no log directory {path}"
            if known.dirs[path]:
                return f"log directory {path} of broker {broker} is offline"
        elif silence is not None and silence.is_lasting:
            return f"broker {broker} does not report its log directories: {silence.why}"
    return None


def describe_log_dirs(
    view: ClusterView, brokers: Iterable[BrokerId], now: Instant
) -> list[effects.Effect]:
    """Return the requests for the directories that entries name, as far as none is under way."""
    ledger = view.tenure.directories
    following: list[effects.Effect] = [
        effects.DescribeLogDirs(b)
        for b in sorted(brokers)
        if not _is_awaited(view, b) and now >= ledger.requested.get(b, Instant(-SOON_S)) + SOON_S
    ]
    return [*following, effects.SetTimer(ENTRIES_TIMER, Instant(now + SOON_S))]


def _is_awaited(view: ClusterView, broker: BrokerId) -> bool:
    awaited = view.tenure.directories.awaited.get(broker)
    return awaited is not None and awaited == epoch_of(view, broker)


# --- partitions whose replicas are placed --------------------------------------------------------


def follow_directories(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Ask the brokers of replicas that are or may be moved, and silent ones; set the timer."""
    ledger = view.tenure.directories
    is_concerned = ledger.placing or ledger.gated or ledger.silent or ledger.left
    if not due.directories or not is_concerned:
        return Decision()
    wanted = _wanted(view)
    following: list[effects.Effect] = []
    at = now + POLL_S
    for broker, partitions in sorted(wanted.items()):
        if _is_awaited(view, broker):
            continue
        is_old = any(_is_outdated(view, broker, p) for p in partitions)
        pause = SOON_S if is_old and broker not in ledger.silent else POLL_S
        again = ledger.requested.get(broker, Instant(now - pause)) + pause
        if now >= again:
            following.append(effects.DescribeLogDirs(broker, tuple(partitions)))
        else:
            at = min(at, again)
    return Decision(effects=(*following, effects.SetTimer(wakeups.DIRECTORIES_TIMER, Instant(at))))


def _wanted(view: ClusterView) -> dict[BrokerId, list[TopicPartition]]:
    """Return the brokers to ask, and the partitions to ask each of them about."""
    ledger = view.tenure.directories
    # Entries are refused because of a silent broker only as long as it is silent.
    wanted: dict[BrokerId, list[TopicPartition]] = {
        b: [] for b in ledger.silent if ledger.silence_of(b, epoch_of(view, b)) is not None
    }
    for partition in dict.fromkeys((*ledger.placing, *ledger.left)):
        brokers = set(disk_reservations.moving_brokers(view, partition))
        if partition in ledger.placing:
            brokers.update(view.reassignments.by_partition[partition].spec.placed_brokers)
        for broker in brokers.intersection(view.cluster.brokers):
            wanted.setdefault(broker, []).append(partition)
    return wanted


def _is_outdated(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> bool:
    """
    Return whether a decision waits for the next report of a replica.

    There is none yet, or it precedes the last answer, or the partition's present directories: a
    move that has to be stopped may end before a later report.
    """
    ledger, replica, epoch = view.tenure.directories, (broker, partition), epoch_of(view, broker)
    report, answer = ledger.report_of(replica, epoch), ledger.answers.get(replica)
    if partition not in ledger.placing:
        return False
    if report is None or report.at < ledger.placing[partition]:
        return True
    return answer is not None and answer.epoch == epoch and report.at < answer.at


# --- what is folded into the view ----------------------------------------------------------------


def record_describe_request(
    view: ClusterView, effect: effects.DescribeLogDirs, now: Instant
) -> None:
    """Note that a broker is asked for its directories."""
    ledger, epoch = view.tenure.directories, epoch_of(view, effect.broker)
    ledger.requested[effect.broker] = now
    if epoch is not None:
        ledger.awaited[effect.broker] = epoch
    if not effect.partitions:
        ledger.unknown.add(effect.broker)


def record_placement_request(view: ClusterView, effect: effects.PlaceReplica, now: Instant) -> None:
    """Note that the directory of a replica is requested."""
    epoch = epoch_of(view, effect.broker)
    if epoch is not None:
        request = directory_ledger.DirectoryRequest(epoch, effect.directory, now)
        view.tenure.directories.requests[effect.broker, effect.partition] = request


def log_dirs_described(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    """Take a broker's report; one of an earlier registration says nothing."""
    ledger, broker = view.tenure.directories, event.broker
    if ledger.awaited.get(broker) == event.broker_epoch:
        del ledger.awaited[broker]
    if view.tenure.held is None or epoch_of(view, broker) != event.broker_epoch:
        return
    if event.problem is not None:
        former = ledger.silence_of(broker, event.broker_epoch)
        since = now if former is None else former.since
        ledger.silent[broker] = directory_ledger.Silence(
            event.broker_epoch, since, event.problem, is_lasting=now - since >= PATIENCE_S
        )
    else:
        ledger.silent.pop(broker, None)
        ledger.brokers[broker] = directory_ledger.BrokerDirs(event.broker_epoch, event.dirs)
    for partition in sorted(p for p in event.requested if p in ledger.placing or p in ledger.left):
        since = ledger.placing[partition] if partition in ledger.placing else ledger.left[partition]
        if event.problem is None and event.at >= since:
            _reported(view, partition, event, now)
        view.due.add((partition,))
    if broker in ledger.unknown:
        ledger.unknown.discard(broker)
        wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_KNOWN)


def _reported(
    view: ClusterView, partition: TopicPartition, event: records.LogDirsDescribed, now: Instant
) -> None:
    ledger, replica = view.tenure.directories, (event.broker, partition)
    placed = event.replicas.get(partition)
    ledger.reports[replica] = directory_ledger.Report(event.broker_epoch, event.at, placed)
    before = ledger.moves.get(replica)
    if partition in ledger.left:
        disk_reservations.reserve(view, partition, now)
    if placed is None or placed.future is None:
        if before is not None:
            del ledger.moves[replica]
            if _is_in(placed, before.directory):
                ledger.restarts.pop(replica, None)
            else:
                ledger.restarts[replica] = ledger.restarts.get(replica, 0) + 1
        return
    found = directory_ledger.Move(placed.future, placed.future_bytes, event.at)
    if before is None or (before.directory, before.size) != (found.directory, found.size):
        ledger.moves[replica] = found
        if partition in ledger.placing:
            view.note_progress(partition, now)


def _is_in(placed: PlacedReplica | None, directory: str) -> bool:
    return placed is not None and placed.directory == directory


def log_dirs_altered(view: ClusterView, event: records.LogDirsAltered, now: Instant) -> None:
    """Take the answers about directories of replicas."""
    ledger = view.tenure.directories
    for result in event.results:
        replica = event.broker, result.partition
        request = ledger.requests.get(replica)
        if request is None or (request.epoch, request.directory) != (
            event.broker_epoch,
            result.directory,
        ):
            continue
        del ledger.requests[replica]
        view.due.add(p for p in (result.partition,) if p in view.reassignments.by_partition)
        if epoch_of(view, event.broker) != event.broker_epoch:
            continue
        why: str | None = None
        if result.error != kafka_errors.NONE and result.error not in directory_ledger.NOT_THERE:
            known = directory_ledger.ERRORS.get(result.error, f"error {result.error}")
            why = result.why or known
        ledger.answers[replica] = directory_ledger.Answer(
            event.broker_epoch,
            result.directory,
            now,
            why,
            is_lost=result.error == directory_ledger.NO_ANSWER,
        )


def reflect_phase(view: ClusterView, partition: TopicPartition, at: Instant) -> None:
    """Follow a reassignment into the phase ``Placing`` and out of it."""
    ledger, reassignment = view.tenure.directories, view.reassignments.by_partition.get(partition)
    if reassignment is not None and isinstance(reassignment.phase, phases.Placing):
        if partition not in ledger.placing:
            ledger.placing[partition] = at
            ledger.forget(partition, reassignment.spec.placed_brokers)
            wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)
        return
    ledger.gated.pop(partition, None)
    if ledger.placing.pop(partition, None) is not None and reassignment is not None:
        spec = reassignment.spec
        ledger.forget(partition, {*spec.placed_brokers, *spec.unplaced})


def reflect_spec(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Have the replicas of a partition reported again: its directories may be others."""
    if partition in view.tenure.directories.placing:
        view.tenure.directories.placing[partition] = now
        wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)


def reflect_end(view: ClusterView, partition: TopicPartition, ended: Reassignment) -> None:
    """Forget the replicas of a reassignment that is gone."""
    ledger = view.tenure.directories
    ledger.placing.pop(partition, None)
    ledger.gated.pop(partition, None)
    ledger.forget(partition, ended.spec.placed_brokers)


def reflect_blocked(view: ClusterView, partition: TopicPartition) -> None:
    """Have a partition examined again that waits for a directory."""
    view.tenure.directories.gated[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)


def examine_waiting(view: ClusterView) -> None:
    """Have the partitions examined that wait for directories; forget the others."""
    ledger, reassignments = view.tenure.directories, view.reassignments
    ledger.gated = {p: None for p in ledger.gated if p in reassignments.by_partition}
    view.due.add(ledger.placing)
    view.due.add(ledger.gated)
