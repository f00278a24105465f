"""
The copies in progress: each starts with its step and is whole when the replica is in the ISR.

Remembers the copies and the bytes that brokers reported (``LogDirsDescribed``). With the delegated
engine a copy is expected from the request on, as the cluster's controller may begin and end a step
before its topic znode is read; it starts when the topic znode shows it, or when a broker reports
bytes. A request that is not carried out leaves no trace. The end of the tenure abandons all:
another controller may continue them unobserved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.core.disks.records import LogDirsDescribed
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    Instant,
    PartitionAssignment,
    PartitionState,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.pacing.limits_in_force import throttle_of
from controller.core.reassignments.phases import LABELS, AwaitingController, Expanding, Syncing
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.records import Change, Event
from controller.core.topics.records import TopicsRead
from controller.core.view import ClusterView
from controller.telemetry.phase_changes import AWAITING, STARTING, EnteredPhase
from controller.telemetry.rates import MeasuredCopy, MeasuredRates, Reading, rates_of, window_s

EXPANDING: Final = LABELS[Expanding]
SYNCING: Final = LABELS[Syncing]
COMPARED: Final = 6
"""Reports with which the gain of a copy is compared."""


@dataclass(slots=True, kw_only=True)
class FollowedCopy(MeasuredCopy):
    """A copy of this tenure."""

    begun: Instant
    inherited: bool
    """Whether it may have had bytes before this tenure."""
    is_throttled: bool = False
    """Whether its request had a throttle when it began."""
    is_requested: bool = False
    """Whether the cluster's controller was requested to start it, and it is not seen yet."""
    left: tuple[int, ...] = ()
    """The bytes that it lacked in the latest reports."""
    gained_at: Instant | None = None
    """When it last lacked fewer bytes than in the reports before."""

    @property
    def held(self) -> int | None:
        """Its bytes as last reported, 0 at the begin; None for one that was found and not read."""
        return None if self.readings.last is None else self.readings.last.size

    def take(self, at: Instant, size: int, now: Instant, window: float) -> Iterator[Received]:
        """Take a reading of its bytes, unless it is older than the last."""
        last = self.readings.last
        if last is not None and at <= last.at:
            return
        if size and not self.inherited and len(self.readings) == 1:
            self.gained_at = now  # It began with none.
        if self.size is not None:
            left = max(0, self.size - size)
            if self.left and left < min(self.left):
                self.gained_at = now
            self.left = (*self.left, left)[-COMPARED:]
        yield from self.receive(at, size, window)

    def receive(self, at: Instant, size: int | None, window: float) -> Iterator[Received]:
        """Count the bytes that it received since the last reading, if they are known."""
        if size is None:
            return
        if self.held is not None and size > self.held:
            yield Received(self.leader, self.replica, size - self.held)
        self.readings.add(Reading(at, size), window)

    def end(
        self, now: Instant, size: int | None, *, is_whole: bool, growth: float | None = None
    ) -> CopyEnded:
        """Return its end with this many bytes, and how fast the partition grows."""
        self.ended = now
        return CopyEnded(
            partition=self.partition,
            request=self.request,
            leader=self.leader,
            replica=self.replica,
            begun=self.begun,
            seconds=round(now - self.begun, 3),
            bytes=size,
            is_whole=is_whole,
            is_throttled=self.is_throttled,
            growth=None if growth is None else round(growth, 1),
        )

    def start(self, leader: BrokerId, now: Instant) -> None:
        """Note that it starts, with no bytes."""
        self.leader, self.begun, self.is_requested = leader, now, False
        self.readings.add(Reading(now, 0), 0.0)


@dataclass(frozen=True, slots=True)
class CopyEnded:
    """A copy that ended."""

    partition: TopicPartition
    request: RequestId
    leader: BrokerId
    replica: BrokerId
    begun: Instant
    seconds: float
    bytes: int | None
    """None: no broker reported the size."""
    is_whole: bool
    is_throttled: bool = False
    growth: float | None = None
    """Bytes per second that producers write to the partition; None: not measured."""


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes that a broker received since the last report."""

    leader: BrokerId
    replica: BrokerId
    bytes: int


@dataclass(frozen=True, slots=True)
class IsrShrunk:
    """Replicas that left the ISR of a partition in flight without being dropped."""

    partition: TopicPartition
    request: RequestId
    lost: Replicas
    isr: Replicas
    leader: BrokerId


CopyEvent = CopyEnded | Received | IsrShrunk


class Copies:
    """Follows the copies of a tenure."""

    def __init__(self) -> None:
        self._copies: dict[TopicPartition, dict[BrokerId, FollowedCopy]] = {}
        self._ended: deque[FollowedCopy] = deque()
        """Those that ended in the window, the latest last."""
        self._isr: dict[TopicPartition, Replicas] = {}

    def held(self, partition: TopicPartition) -> Mapping[BrokerId, int]:
        """Return the bytes of a partition's unfinished replicas, as far as they are known."""
        copies = self._copies.get(partition, {})
        return {b: c.held for b, c in copies.items() if c.held is not None}

    def of(self, partition: TopicPartition) -> list[FollowedCopy]:
        """Return the copies in progress of a partition, not to be changed."""
        return [c for c in self._copies.get(partition, {}).values() if not c.is_requested]

    def rates(self, now: Instant, window: float, live: Container[BrokerId]) -> MeasuredRates:
        """Return the rates of all copies at this instant; see ``rates_of``."""
        while self._ended and (self._ended[0].ended or now) < now - window:
            self._ended.popleft()
        running = [c for copies in self._copies.values() for c in copies.values()]
        begun = [c for c in running if not c.is_requested]
        found = rates_of([*begun, *self._ended], now, window, live)
        for copy in running:
            # One that was requested has no bytes yet, but its request has a copy.
            found.paces.setdefault(copy.request, None)
        return found

    def gained_at(self, partition: TopicPartition) -> Instant | None:
        """Return when an unfinished copy of a partition last came closer to its leader."""
        copies = self._copies.get(partition, {}).values()
        return max((c.gained_at for c in copies if c.gained_at is not None), default=None)

    def forget(self, now: Instant) -> Iterator[CopyEvent]:
        """Abandon the unfinished copies at the end of a tenure."""
        for copies in list(self._copies.values()):
            yield from _abandon(copies.values(), now)
        self._copies.clear()
        self._ended.clear()
        self._isr.clear()

    def follow_change(
        self, change: Change, moved: Iterable[EnteredPhase], view: ClusterView, now: Instant
    ) -> Iterator[CopyEvent]:
        """Follow the steps that begin and end with a change."""
        for record in change.records:
            if isinstance(record, SpecEndedRecord):
                yield from self._settle(record.partition, view, now)
        for phase in moved:
            yield from self._settle(phase.partition, view, now)
            if phase.phase in {STARTING, AWAITING, SYNCING}:
                self._open(phase.partition, view, now, inherited=phase.before == EXPANDING)

    def follow_event(self, event: Event, view: ClusterView, now: Instant) -> Iterator[CopyEvent]:
        """Follow changes of an ISR, steps of the cluster's controller, and reported bytes."""
        match event:
            case StatesRead(states=states):
                for partition in states:
                    if partition in self._isr:
                        yield from self._settle(partition, view, now)
            case TopicsRead(topics=topics):
                for partition in [p for p in self._isr if p.topic in topics]:
                    yield from self._settle(partition, view, now)
                    self._open(partition, view, now, inherited=False)
            case LogDirsDescribed():
                yield from self._take_sizes(event, view, now)
            case _:
                pass

    def _take_sizes(
        self, event: LogDirsDescribed, view: ClusterView, now: Instant
    ) -> Iterator[CopyEvent]:
        """Record the bytes of unfinished replicas."""
        for partition in sorted(self._copies.keys() & event.replicas.keys()):
            total, size = view.disks_process.sizes.get(partition), event.replicas[partition].size
            self._follow_leader(partition, view)
            for known in self._copies[partition].values():
                known.size = known.size if total is None else total
            copy = self._copies[partition].get(event.broker)
            if copy is None or (copy.is_requested and not size):
                continue
            if copy.is_requested:
                copy.start(copy.leader, copy.begun)
            yield from copy.take(event.at, size, now, window_s(view.options))

    # --- one partition ----------------------------------------------------------------------------

    def _open(
        self, partition: TopicPartition, view: ClusterView, now: Instant, *, inherited: bool
    ) -> None:
        reassignment = view.reassignments.by_partition.get(partition)
        assignment = view.topics.known_assignment(partition)
        state = view.leadership.states.get(partition)
        if reassignment is None or assignment is None or state is None:
            return
        self._isr[partition] = state.isr
        if isinstance(reassignment.phase, Expanding):
            return  # It is continued next, and some of it may be copied.
        copies = self._copies.setdefault(partition, {})
        request = reassignment.spec.request
        is_throttled = throttle_of(view, request) is not None
        for broker in reassignment.receivers(assignment):
            is_shown = broker in assignment.adding_replicas
            copy = copies.get(broker)
            if copy is not None:
                if copy.is_requested and is_shown:
                    copy.start(state.leader, now)
            elif broker not in state.isr:
                copy = copies[broker] = FollowedCopy(
                    partition=partition,
                    replica=broker,
                    request=request,
                    leader=state.leader,
                    size=view.disks_process.sizes.get(partition),
                    begun=now,
                    inherited=inherited,
                    is_throttled=is_throttled,
                    is_requested=not is_shown,
                )
                if is_shown and not inherited:
                    copy.start(state.leader, now)

    def _settle(
        self, partition: TopicPartition, view: ClusterView, now: Instant
    ) -> Iterator[CopyEvent]:
        """End the copies that are in sync, and those that are no longer wanted."""
        state = view.leadership.states.get(partition)
        if state is not None:
            yield from self._shrinks(partition, state, view)
        if self._copies.get(partition):
            yield from self._end_copies(partition, state, view, now)
        if partition not in view.reassignments.by_partition:
            self._copies.pop(partition, None)
            self._isr.pop(partition, None)

    def _end_copies(
        self,
        partition: TopicPartition,
        state: PartitionState | None,
        view: ClusterView,
        now: Instant,
    ) -> Iterator[CopyEvent]:
        self._follow_leader(partition, view)
        copies = self._copies[partition]
        assignment = view.topics.known_assignment(partition)
        ended = _ended_by_others(view, assignment)
        in_sync = () if state is None else state.isr
        for broker in [b for b in copies if b in in_sync or b in ended]:
            copy = copies.pop(broker)
            if copy.is_requested:
                copy.start(copy.leader, copy.begun)
            size = view.disks_process.sizes.get(partition, copy.size)
            total = (copy.held or None) if size is None else size
            yield from copy.receive(now, total, window_s(view.options))
            growth = view.disks_process.growth.get(partition)
            yield copy.end(now, total, is_whole=True, growth=growth)
            self._ended.append(copy)
        reassignment = view.reassignments.by_partition.get(partition)
        wanted: set[BrokerId] = set()
        if assignment is not None and reassignment is not None:
            wanted |= {*assignment.replicas, *reassignment.receivers(assignment)}
            wanted -= {*assignment.removing_replicas}
        gone = [copies.pop(b) for b in [*copies] if b not in wanted]
        yield from _abandon(gone, now)
        self._ended += [c for c in gone if c.ended is not None]

    def _follow_leader(self, partition: TopicPartition, view: ClusterView) -> None:
        """Note from which broker the copies of a partition are fetched now."""
        state = view.leadership.states.get(partition)
        if state is not None and state.leader != NO_LEADER:
            for copy in self._copies.get(partition, {}).values():
                copy.leader = state.leader

    def _shrinks(
        self, partition: TopicPartition, state: PartitionState, view: ClusterView
    ) -> Iterator[CopyEvent]:
        before = self._isr.get(partition)
        if before is None:
            return
        self._isr[partition] = state.isr
        gone = [b for b in before if b not in state.isr]
        if not gone:
            return
        reassignment = view.reassignments.by_partition.get(partition)
        kept = _staying(partition, view)
        lost = tuple(b for b in gone if b in kept)
        if lost and reassignment is not None:
            request = reassignment.spec.request
            yield IsrShrunk(partition, request, lost, state.isr, state.leader)


def _abandon(copies: Iterable[FollowedCopy], now: Instant) -> Iterable[CopyEvent]:
    return [c.end(now, c.held or None, is_whole=False) for c in copies if not c.is_requested]


def _ended_by_others(view: ClusterView, assignment: PartitionAssignment | None) -> Replicas:
    """
    Return the replicas that are in sync because the cluster's controller ended their step.

    Its last write may be read before the state is, and the reassignment ends with it.
    """
    if assignment is None or view.is_controller:
        return ()
    unfinished = {*assignment.adding_replicas, *assignment.removing_replicas}
    return tuple(b for b in assignment.replicas if b not in unfinished)


def _staying(partition: TopicPartition, view: ClusterView) -> Replicas:
    """Return the replicas that are not to leave the ISR; the cluster's controller drops others."""
    assignment = view.topics.known_assignment(partition)
    if assignment is None or view.is_controller:
        return view.serving_replicas(partition)
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is not None and isinstance(reassignment.phase, AwaitingController):
        return tuple(b for b in assignment.target_replicas if b in reassignment.phase.target)
    return assignment.target_replicas
