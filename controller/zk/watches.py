"""
Reads for the loop, repeated whenever a watch fires: the reading half of the store.

A watch that fires only marks its znode, and a thread of this room reads it. Marks coalesce: a znode
that changed several times before its read is read once. Levels are read on one thread, and topics,
states and the daemons' records on another, so that a plan is read at once even during the read of a
large cluster. A level is a znode, a directory or a tree, read as a whole; each read sets the watch
that causes the next.

The loop's reads happen in the order of its calls. Repeated reads wait behind them, as those of
every topic do after a broken connection. But a state is read after its topic: marked topics of the
partitions are read first.

Invariant: a znode that the loop reads stays watched over broken connections and new sessions, and a
marked one is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.disks.records import LogDirEventsRead
from controller.core.leadership.records import (
    IsrNotificationsRead,
    PreferredElectionRead,
    StateChanged,
    StatesRead,
)
from controller.core.model import PartitionState, RequestId, TopicAssignment, TopicPartition
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead, EntityConfigsRead
from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments.records import OrphansRead
from controller.core.records import Event
from controller.core.requests.records import (
    CancellationRead,
    KillSwitchRead,
    LegacyPlanRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.errors import SessionLostError, SessionSuspendedError
from controller.reactor.ports import Inbox, ZnodeFamily
from controller.reactor.reads import CANCELLABLE, OWN_RECORDS
from controller.zk.cluster_znodes import (
    ClusterZnodes,
    PartitionZnodes,
    ThrottleZnodes,
    state_of,
    topic_of,
)
from controller.zk.event_reads import (
    RecordReads,
    read_guards,
    read_producer_ids,
    read_specs,
    read_trees,
)
from controller.zk.readers import ZnodeReads, decode_children
from controller.zk.request_znodes import RequestZnodes
from controller.zk.session_reads import Reader, Watch, refusal, watch
from controller.zk.sessions import Session
from controller.zk.workers import REFUSED_S, Worker
from controller.znodes import paths, topics

CHUNK: Final = 2000
"""Topics or states per event: bounds the loop's work for one event."""
FIRST_CHUNK: Final = 250
"""States in the first event of many."""
NEW_AT_ONCE: Final = 10
"""New requests that are read together with their list."""

Item = TypeVar("Item")
Value = TypeVar("Value")


class Watches:
    """Reads znodes for the loop, and again at every change."""

    def __init__(self, session: Session, inbox: Inbox) -> None:
        """Start without watches; the caller adds it to the session's listeners."""
        self._inbox = inbox
        self._reader = Reader(session)
        self._requests = RequestZnodes(self._reader)
        self._outcomes = RecordReads(self._reader)
        self._throttles = ThrottleZnodes(self._reader)
        self._levels_worker = Worker("zk-levels", session, again_s=REFUSED_S)
        self._bulk_worker = Worker("zk-bulk", session, again_s=REFUSED_S)
        self._lock = threading.Lock()
        self._changed = self._state_fired
        """For every watch of a state the same."""
        self._wanted: dict[ZnodeFamily, Watch] = {}
        self._marked: set[ZnodeFamily] = set()
        self._topics: dict[str, Watch] = {}
        """Watched topics."""
        self._marked_topics: dict[str, None] = {}
        """Topics to be read again; one is removed when its read begins."""
        self._has_marked_job = False
        """Whether the job that reads them is queued."""
        self._read_generation = 0
        """The loop's read generation at its latest call."""
        self._states: dict[TopicPartition, Watch] = {}
        """Partitions whose state is watched and has not changed since."""
        self._listed: frozenset[str] = frozenset()
        """The requests that were there when they were last listed; for the thread of the levels."""
        self._fenced = 0
        """Counts former leaders that were fenced."""

    def threads(self) -> tuple[Worker, Worker]:
        """Return the threads, which must never end by themselves."""
        return self._levels_worker, self._bulk_worker

    # --- called by the loop ----------------------------------------------------------------------

    def read(self, znode: ZnodeFamily) -> None:
        """Read a level now and at every change."""
        with self._lock:
            if znode not in self._wanted:
                self._wanted[znode] = watch(lambda: self.read(znode))
            if znode in self._marked:
                return
            self._marked.add(znode)
        worker = self._bulk_worker if znode in OWN_RECORDS else self._levels_worker
        worker.put(lambda: self._read(znode))

    def read_topics(self, topics: Iterable[str], *, read_generation: int) -> None:
        """Read topic znodes now and at every change."""
        wanted = tuple(topics)
        with self._lock:
            self._read_generation = read_generation
            for topic in wanted:
                self._marked_topics.pop(topic, None)
        for chunk in _chunks(wanted):
            self._bulk_worker.put(partial(self._read_topics, chunk))

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Read partition states once; if watched, report the next change."""
        with self._lock:
            self._read_generation = read_generation
        for chunk in _growing_chunks(tuple(partitions)):
            self._bulk_worker.put(partial(self._read_states, chunk, watched=watch))

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """List the znodes of topics that are to be deleted."""
        read = partial(read_trees, self._reader, tuple(topics))
        self._bulk_worker.put(lambda: self._inbox.put(TopicTreesRead(read())))

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests as submitted; on the thread of the levels, to see them at once."""
        read = partial(self._requests.submissions, tuple(names))
        self._levels_worker.put(lambda: self._inbox.put(SubmissionsRead(read())))

    def read_accepted(self, request: RequestId) -> None:
        """Read the accepted entries of a request."""
        read = partial(self._outcomes.accepted_of, request)
        self._bulk_worker.put(partial(self._report_records, read))

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Read dynamic settings."""
        read = partial(self._throttles.entity_configs, tuple(entities))
        self._bulk_worker.put(partial(self._report_records, lambda: EntityConfigsRead(read())))

    def former_leader_fenced(self) -> None:
        """Drop reads of the daemons' records that began before now; safe from any thread."""
        with self._lock:
            self._fenced += 1

    # --- called by the session -------------------------------------------------------------------

    def connected(self, *, is_new: bool) -> None:
        """Read all watched znodes again: they may have changed while there was no connection."""
        with self._lock:
            levels = [z for z in self._wanted if is_new or z not in OWN_RECORDS]
            topics = list(self._topics)
            changed, self._states = list(self._states), {}
        for znode in levels:
            self.read(znode)
        self._mark_topics(topics)
        for partition in changed:
            self._inbox.put(StateChanged(partition))

    def lost(self, reason: str) -> None:
        """Nothing to do: the next session reads everything again."""

    def stop(self) -> None:
        """End the threads."""
        for worker in self.threads():
            worker.stop()

    # --- on the workers' threads -----------------------------------------------------------------

    def _report_records(self, read: Callable[[], Event]) -> None:
        """Read and report the daemons' records; again if a former leader was fenced meanwhile."""
        while True:
            with self._lock:
                fenced = self._fenced
            event = read()
            with self._lock:
                if fenced == self._fenced:
                    self._inbox.put(event)
                    return

    def _read(self, znode: ZnodeFamily) -> None:
        if znode in OWN_RECORDS:
            self._report_records(lambda: self._look(znode))
            return
        event = self._look(znode)
        if isinstance(event, SubmissionsListed):
            self._put_listed(event)
            return
        if isinstance(event, CancellationRead) and event.cancellation is not None:
            for other in CANCELLABLE:
                self._inbox.put(self._look(other))
        self._inbox.put(event)

    def _put_listed(self, event: SubmissionsListed) -> None:
        """Report the requests that are there, and the content of a few new ones with them."""
        new = sorted(event.names - self._listed)
        read = self._requests.submissions(new) if len(new) <= NEW_AT_ONCE else {}
        self._listed = event.names
        self._inbox.put(event)
        if read:
            self._inbox.put(SubmissionsRead(read))

    def _look(self, znode: ZnodeFamily) -> Event:
        with self._lock:
            # Before the read: a change from now on marks it again.
            self._marked.discard(znode)
            watcher = self._wanted.get(znode) or watch(lambda: self.read(znode))
        return read_level(self._reader, znode, watcher)

    def _mark_topics(self, topics: Iterable[str]) -> None:
        """Mark topics to be read again."""
        with self._lock:
            self._marked_topics.update(dict.fromkeys(topics))
            if self._has_marked_job or not self._marked_topics:
                return
            self._has_marked_job = True
        # Behind the reads that the loop requests until this job begins.
        self._bulk_worker.put(lambda: self._bulk_worker.put(self._read_marked_topics))

    def _read_marked_topics(self) -> None:
        """Read some marked topics; the loop's own reads go before the rest."""
        with self._lock:
            marked = tuple(islice(self._marked_topics, CHUNK))
            self._has_marked_job = False
        self._read_if_marked(marked)
        self._mark_topics(())

    def _read_if_marked(self, topics: Iterable[str]) -> None:
        """Read those of some topics that are marked."""
        with self._lock:
            # Before the read: a change from now on marks it again.
            marked = tuple(t for t in topics if t in self._marked_topics)
            for topic in marked:
                del self._marked_topics[topic]
        if not marked:
            return
        try:
            self._read_topics(marked)
        except (SessionSuspendedError, SessionLostError):
            self._mark_topics(marked)
            raise

    def _topic_watch(self, topic: str) -> Watch:
        with self._lock:
            return self._topics.setdefault(topic, watch(lambda: self._mark_topics((topic,))))

    def _read_topics(self, topics: tuple[str, ...]) -> None:
        read: dict[str, TopicAssignment | str | None] = {}
        with self._lock:
            read_generation = self._read_generation
        for topic, znode in self._reader.try_many(topics, paths.topic_path, self._topic_watch):
            if znode is None:
                read[topic] = None
                with self._lock:
                    self._topics.pop(topic, None)
            elif isinstance(znode, KazooException):
                read[topic] = refusal(znode)
            else:
                read[topic] = topic_of(topic, znode)
        self._inbox.put(TopicsRead(read, read_generation))

    def _read_states(self, partitions: tuple[TopicPartition, ...], *, watched: bool) -> None:
        self._read_if_marked(dict.fromkeys(p.topic for p in partitions))
        read: dict[TopicPartition, PartitionState | str | None] = {}
        with self._lock:
            read_generation = self._read_generation
        watch_of = self._state_watch if watched else None
        for partition, znode in self._reader.try_many(partitions, paths.state_path, watch_of):
            if znode is None or isinstance(znode, KazooException):
                read[partition] = None if znode is None else refusal(znode)
                with self._lock:
                    self._states.pop(partition, None)
            else:
                read[partition] = state_of(partition, znode)
        with self._lock:
            # Put under the lock: a watch that fires from now on is reported after it.
            armed = frozenset(p for p in partitions if p in self._states) if watched else None
            self._inbox.put(StatesRead(read, read_generation, armed))

    def _state_watch(self, partition: TopicPartition) -> Watch:
        watcher = _StateWatch(self._changed, partition)
        with self._lock:
            return self._states.setdefault(partition, watcher)

    def _state_fired(self, partition: TopicPartition, watcher: Watch) -> None:
        with self._lock:
            # A response in flight when it fired may have set it once more.
            if self._states.get(partition) is watcher:
                del self._states[partition]
        self._inbox.put(StateChanged(partition))


class _StateWatch:
    """The watch of one state; a function for each would take ten times the memory."""

    __slots__ = ("_fired", "_partition")

    def __init__(
        self, fired: Callable[[TopicPartition, Watch], None], partition: TopicPartition
    ) -> None:
        self._fired = fired
        self._partition = partition

    def __call__(self, event: WatchedEvent) -> None:
        """Report a change; see ``session_reads.watch``."""
        if event.type != EventType.NONE:
            self._fired(self._partition, self)


def _chunks(items: tuple[Item, ...]) -> Iterable[tuple[Item, ...]]:
    return (items[i : i + CHUNK] for i in range(0, len(items), CHUNK))


def _growing_chunks(items: tuple[Item, ...]) -> Iterable[tuple[Item, ...]]:
    """Yield small chunks first: the loop begins with them while the others are read."""
    at, size = 0, FIRST_CHUNK
    while at < len(items):
        yield items[at : at + size]
        at, size = at + size, min(2 * size, CHUNK)


# --- levels --------------------------------------------------------------------------------------


def _topics(znodes: ZnodeReads) -> Event:
    return TopicsListed(frozenset(PartitionZnodes(znodes).topic_names()))


def _specs(znodes: ZnodeReads) -> Event:
    return read_specs(znodes, PartitionZnodes(znodes).list_specs())


def _isr_notifications(znodes: ZnodeReads) -> Event:
    names, read = _decode_all(znodes, paths.ISR_NOTIFICATIONS, topics.decode_partition_list)
    return IsrNotificationsRead(names, frozenset[TopicPartition]().union(*read))


def _log_dir_events(znodes: ZnodeReads) -> Event:
    names, read = _decode_all(znodes, paths.LOG_DIR_EVENTS, topics.decode_log_dir_event)
    return LogDirEventsRead(names, frozenset(read))


def _decode_all(
    znodes: ZnodeReads, directory: str, decode: Callable[[bytes], Value | str]
) -> tuple[tuple[str, ...], list[Value]]:
    """List a directory and decode its children; the names include unreadable ones."""
    found = dict(decode_children(znodes, directory, lambda _, znode: decode(znode.data)))
    read = [v for v in found.values() if v is not None and not isinstance(v, str)]
    return tuple(found), read


def _preferred_election(znodes: ZnodeReads) -> Event:
    znode = znodes.get(paths.PREFERRED_ELECTION)
    if znode is None:
        return PreferredElectionRead(None)
    read = topics.decode_partition_list(znode.data)
    if isinstance(read, str):
        znodes.unreadable(paths.PREFERRED_ELECTION, read)
        read = frozenset()
    return PreferredElectionRead(read, znode.version)


_WATCHED: Mapping[ZnodeFamily, Callable[[ZnodeReads], Event]] = {
    ZnodeFamily.BROKERS: lambda z: BrokersRead(ClusterZnodes(z).brokers()),
    ZnodeFamily.GUARDS: read_guards,
    ZnodeFamily.TOPICS: _topics,
    ZnodeFamily.DELETIONS: lambda z: DeletionsRead(PartitionZnodes(z).deletions()),
    ZnodeFamily.ISR_NOTIFICATIONS: _isr_notifications,
    ZnodeFamily.LOG_DIR_EVENTS: _log_dir_events,
    ZnodeFamily.PREFERRED_ELECTION: _preferred_election,
    ZnodeFamily.PRODUCER_IDS: read_producer_ids,
    ZnodeFamily.LEGACY_PLAN: lambda z: LegacyPlanRead(RequestZnodes(z).plan()),
    ZnodeFamily.QUEUE: lambda z: QueueRead(RequestZnodes(z).queue()),
    ZnodeFamily.SUBMISSIONS: lambda z: SubmissionsListed(frozenset(RequestZnodes(z).open())),
    ZnodeFamily.CANCELLATION: lambda z: CancellationRead(RequestZnodes(z).cancellation()),
    ZnodeFamily.KILL_SWITCH: lambda z: KillSwitchRead(RequestZnodes(z).is_disabled()),
    ZnodeFamily.CONTROLS: lambda z: ControlsRead(RequestZnodes(z).controls()),
}

_OURS: Mapping[ZnodeFamily, Callable[[ZnodeReads], Event]] = {
    ZnodeFamily.SPECS: _specs,
    ZnodeFamily.ORPHANS: lambda z: OrphansRead(PartitionZnodes(z).orphans()),
    ZnodeFamily.HISTORY: lambda z: RecordReads(z).history(),
    ZnodeFamily.APPLIED_THROTTLES: lambda z: AppliedThrottlesRead(
        ThrottleZnodes(z).applied_throttles()
    ),
}


def read_level(reader: Reader, level: ZnodeFamily, watcher: Watch) -> Event:
    """
    Read a level; set the watch on znodes that other clients change.

    Only the leading daemon writes the records of the daemons.
    """
    ours = _OURS.get(level)
    return _WATCHED[level](reader.watching(watcher)) if ours is None else ours(reader)
