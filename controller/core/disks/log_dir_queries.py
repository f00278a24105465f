"""
When which brokers are queried for their log directories (DescribeLogDirs), and about what.

There is one query for all purposes (``DescribePurpose``), and each answer serves all of them, as it
has everything: the bytes of each replica, its directory and its move to another, the free space of
each directory and whether it failed. A purpose only says when to query, whom, and about what:

* sizes of all reassigning partitions from time to time, those of new ones soon;
* the progress of copies more often, and most often the room that copies wait for;
* replicas that are to be in named directories, and the directories that entries name;
* with the delegated engine, the logs of orphans.

A broker that does not answer is only queried again: nothing is concluded from its silence, but that
an entry that names its directories is refused after a while (``PATIENCE_S`` in ``fold``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, assert_never

from controller.core import wakeups
from controller.core.core_settings import EngineName
from controller.core.disks import disk_space
from controller.core.effects import DescribeLogDirs, DescribePurpose, Effect, SetTimer
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SOON_S: Final = 1.0
"""The delay in which new partitions are collected: requests are accepted in chunks."""
GUARDED_SOON_S: Final = 0.1
"""The time between two such queries where steps wait for sizes; the first has no delay."""
FEW: Final = 1_000
"""Of so many new partitions only the brokers are queried that have replicas, or are to."""
ROOM_REFRESH_S: Final = 2.0
"""Interval at which brokers without room for a copy are queried."""
STIRRED_S: Final = 120.0
"""
After so long without a copy or a deletion, such a broker is queried once per ``copy_refresh``.

That is twice the time for which brokers keep a deleted log, unless they are configured otherwise.
"""
POLL_S: Final = 5.0
"""How often a broker is queried where replicas are that it moves."""
AWAITED_POLL_S: Final = 1.0
"""How often it is where a decision waits for its next report."""


class _Queries(NamedTuple):
    """The queries of one purpose that are due, and when the next may be."""

    due: tuple[DescribeLogDirs, ...] = ()
    at: Instant | None = None


def query_log_dirs(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Query the log directories of brokers for all purposes that are due, and set the timer."""
    if not view.role.leading:
        return Decision()
    parts: list[_Queries] = []
    if due.log_dirs or due.timer:
        parts += [_sizes(view, now), _placements(view, now)]
    if due.log_dirs or due.timer or due.claimed or due.joined or due.orphans:
        parts.append(_orphans(view, due, now))
    times = [part.at for part in parts if part.at is not None]
    following: list[Effect] = [query for part in parts for query in part.due]
    if times:
        following.append(SetTimer(wakeups.LOG_DIRS_TIMER, min(times)))
    return Decision(effects=tuple(following))


# --- sizes ---------------------------------------------------------------------------------------


def _sizes(view: ClusterView, now: Instant) -> _Queries:
    times = view.disks_process.queries
    if not view.reassignments.by_partition:
        return _Queries()
    is_guarded = view.options.min_free is not None
    if now >= times.all_at:
        query = DescribeLogDirs(
            frozenset(view.cluster.brokers),
            tuple(view.reassignments.by_partition),
            DescribePurpose.ALL,
            is_whole=is_guarded,
        )
        return _Queries((query,), Instant(now + view.options.size_refresh_s))
    found = []
    copying = _copying(view) if now >= times.copies_at else {}
    if copying:
        brokers = frozenset(b for replicas in copying.values() for b in replicas)
        found.append(DescribeLogDirs(brokers, tuple(copying), DescribePurpose.COPIES))
    soon = Instant(times.new_since + SOON_S)
    if is_guarded:
        soon = Instant(times.new_queried_at + GUARDED_SOON_S)
    if times.new and now >= soon:
        found.append(DescribeLogDirs(_brokers_of_new(view), tuple(times.new), DescribePurpose.NEW))
    at = min(soon, times.all_at) if times.new and now < soon else times.all_at
    later = Instant(now + view.options.copy_refresh_s)
    return _Queries(tuple(found), min(at, times.copies_at if now < times.copies_at else later))


def _brokers_of_new(view: ClusterView) -> frozenset[BrokerId]:
    """Return the brokers of the replicas of new partitions; all brokers where there are many."""
    found: set[BrokerId] = set()
    new = view.disks_process.queries.new
    for partition in new:
        assignment = view.topics.assignment(partition)
        reassignment = view.reassignments.by_partition.get(partition)
        if len(new) > FEW or assignment is None or reassignment is None:
            return frozenset(view.cluster.brokers)
        found.update(assignment.replicas, reassignment.spec.target)
    return frozenset(found)


def _copying(view: ClusterView) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Return the replicas of what steps in flight copy, those of others included."""
    if not view.pacing.in_flight and not view.requests.foreign_count:
        return {}
    assigned = (
        (p, r, view.topics.known_assignment(p))
        for p, r in view.reassignments.by_partition.items()
        if r.in_flight
    )
    return {
        p: (*known.replicas, *r.receivers(known))
        for p, r, known in assigned
        if known is not None and r.receivers(known)
    }


def query_room(view: ClusterView, lacking: frozenset[BrokerId], now: Instant) -> Decision:
    """Query the brokers whose disks lack room for a copy: one may begin as soon as there is."""
    times, disks = view.disks_process.queries, view.disks.brokers
    # Logs are counted less often: a broker with several directories lists all of them for that.
    is_whole = now >= times.counts_at
    brokers = frozenset(
        b for b in lacking if is_whole or (b in disks and now < disks[b].stirred + STIRRED_S)
    )
    if now < times.room_at or not brokers:
        at = times.room_at if brokers else times.counts_at
        return Decision(effects=(SetTimer(wakeups.ROOM_TIMER, at),))
    copied = dict.fromkeys(p for b in sorted(brokers) if b in disks for p in disks[b].copies)
    query = DescribeLogDirs(brokers, tuple(copied), DescribePurpose.ROOM, is_whole=is_whole)
    again = Instant(now + _room_refresh_s(view))
    return Decision(effects=(query, SetTimer(wakeups.ROOM_TIMER, again)))


def _room_refresh_s(view: ClusterView) -> float:
    return min(ROOM_REFRESH_S, view.options.copy_refresh_s)


# --- named directories ---------------------------------------------------------------------------


def query_named(view: ClusterView, brokers: Iterable[BrokerId], now: Instant) -> list[Effect]:
    """Return the query for directories that entries name; it is repeated until it is answered."""
    missing = frozenset(b for b in brokers if b not in view.disks.named)
    if not missing:
        return []
    query = DescribeLogDirs(missing, (), DescribePurpose.ENTRIES)
    return [query, SetTimer(wakeups.LOG_DIRS_TIMER, Instant(now + AWAITED_POLL_S))]


def _placements(view: ClusterView, now: Instant) -> _Queries:
    """Return the queries of brokers whose directories, or replicas in them, are to be known."""
    ledger, tenure = view.disks, view.tenure
    placements = ledger.placements
    is_concerned = placements.placing or placements.gated or placements.left or ledger.named
    if not is_concerned or tenure.held is None or tenure.resigning:
        return _Queries()
    found = []
    at = Instant(now + POLL_S)
    for broker, partitions in sorted(_wanted_partitions(view).items()):
        if ledger.known(broker).awaited == view.registration_of(broker):
            continue
        again = Instant(ledger.known(broker).looked_at + _pause_s(view, broker, partitions))
        if now >= again:
            brokers = frozenset({broker})
            found.append(DescribeLogDirs(brokers, tuple(partitions), DescribePurpose.PLACEMENTS))
        else:
            at = min(at, again)
    return _Queries(tuple(found), at)


def _wanted_partitions(view: ClusterView) -> dict[BrokerId, list[TopicPartition]]:
    ledger, live = view.disks, view.cluster.brokers
    wanted: dict[BrokerId, list[TopicPartition]] = {b: [] for b in ledger.named if b in live}
    for partition in dict.fromkeys((*ledger.placements.placing, *ledger.placements.left)):
        for broker in disk_space.placing_brokers(view, partition).intersection(live):
            wanted.setdefault(broker, []).append(partition)
    return wanted


def _pause_s(view: ClusterView, broker: BrokerId, partitions: Iterable[TopicPartition]) -> float:
    ledger, epoch = view.disks, view.registration_of(broker)
    silence = ledger.silence_of(broker, epoch)
    if silence is None:
        is_awaited = broker in ledger.named or any(
            _is_outdated(view, broker, p) for p in partitions
        )
    else:
        is_awaited = broker in ledger.named and not silence.is_lasting
    return AWAITED_POLL_S if is_awaited else POLL_S


def _is_outdated(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> bool:
    # There is no report yet, or it precedes the last answer or the partition's present directories:
    # a move that has to be stopped may end before a later report.
    placements, epoch = view.disks.placements, view.registration_of(broker)
    since = placements.placing.get(partition)
    if since is None:
        return False
    known = placements.known(broker, partition, epoch)
    return not known.is_up_to_date or (known.report is not None and known.report.at < since)


# --- orphans -------------------------------------------------------------------------------------


def _orphans(view: ClusterView, due: Worklist, now: Instant) -> _Queries:
    # The cluster's controller has no request that deletes a log of which a broker is no replica: an
    # operator does it (``orphan_logs`` has the directory), and the record ends.
    if view.role.engine is not EngineName.DELEGATED or view.tenure.held is None:
        return _Queries()
    wanted = [o for o in view.reassignments.orphans.values() if view.is_in_reach(o)]
    if not wanted:
        return _Queries()
    again = view.disks.orphans_at
    if now < again and not due.joined:
        return _Queries(at=again)
    query = DescribeLogDirs(
        frozenset(o.broker for o in wanted),
        tuple(dict.fromkeys(o.partition for o in wanted)),
        DescribePurpose.ORPHANS,
        is_whole=True,
    )
    return _Queries((query,), Instant(now + view.options.size_refresh_s))


# --- what is folded into the view ----------------------------------------------------------------


def record_query(view: ClusterView, query: DescribeLogDirs, now: Instant) -> None:
    """Note that brokers were queried, and when they are next."""
    ledger, times = view.disks, view.disks_process.queries
    sizes_at = Instant(now + view.options.size_refresh_s)
    copies_at = Instant(now + view.options.copy_refresh_s)
    brokers = query.brokers.intersection(view.cluster.brokers)
    for broker in brokers:
        ledger.of(broker).awaited = view.registration_of(broker)
    match query.purpose:
        case DescribePurpose.ALL:
            times.all_at, times.copies_at = sizes_at, copies_at
            times.new_queried(query.partitions, now)
            ledger.measuring |= brokers
        case DescribePurpose.NEW:
            times.new_queried(query.partitions, now)
            ledger.measuring |= brokers
        case DescribePurpose.COPIES:
            times.copies_at = copies_at
        case DescribePurpose.ROOM:
            times.room_at = Instant(now + _room_refresh_s(view))
            times.counts_at = copies_at if query.is_whole else times.counts_at
        case DescribePurpose.ENTRIES:
            ledger.named = dict.fromkeys(brokers, now) | ledger.named
            ledger.mark_queried(brokers, now)
        case DescribePurpose.PLACEMENTS:
            ledger.mark_queried(brokers, now)
        case DescribePurpose.ORPHANS:
            ledger.orphans_at = sizes_at
        case _:
            assert_never(query.purpose)
