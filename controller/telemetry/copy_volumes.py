"""
Bytes copied and to be copied, by request and by broker: a pure function of the view.

The size of a partition is that of its largest replica. Partitions of unknown size count in
``unknown`` and ``uncounted`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from controller.core.model import NO_LEADER, BrokerId, Replicas, RequestId, TopicPartition
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView
from controller.telemetry.incremental import Incremental, visit_all

Held = Callable[[TopicPartition], Mapping[BrokerId, int]]
"""Returns the bytes of a partition's unfinished replicas."""


@dataclass(slots=True)
class RequestVolume:
    """The bytes of one request."""

    moved: int = 0
    remaining: int = 0
    known: int = 0
    """Open partitions whose size is known."""
    unknown: int = 0
    """Open partitions whose size is not."""
    uncounted: int = 0
    """Partitions that were copied and ended before a broker reported their size."""

    @property
    def total(self) -> int:
        """Bytes to copy in all."""
        return self.moved + self.remaining


@dataclass(slots=True)
class BrokerVolume:
    """Copies to and from one broker."""

    incoming: int = 0
    """Replicas that it copies now."""
    outgoing: int = 0
    """Partitions that it serves to copying brokers now."""
    in_remaining: int = 0
    """Bytes that it has to receive."""
    out_remaining: int = 0
    """Bytes of replicas that are to be dropped from it."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes at one moment."""

    requests: Mapping[RequestId, RequestVolume] = field(default_factory=dict)
    brokers: Mapping[BrokerId, BrokerVolume] = field(default_factory=dict)
    routes: Mapping[tuple[BrokerId, BrokerId], int] = field(default_factory=dict)
    """Replicas that are copied now, by serving and receiving broker."""


def volumes_of(view: ClusterView, held: Held) -> Incremental[Volumes]:
    """Compute the volumes of all reassignments."""
    counting = _Counting(view, held)
    yield from visit_all(view.reassignments.by_partition, counting.add)
    for name, request in view.requests.by_id.items():
        if request.moved_bytes is not None or request.uncounted:
            volume = counting.requests.setdefault(name, RequestVolume())
            volume.moved += request.moved_bytes or 0
            volume.uncounted = request.uncounted
    return Volumes(counting.requests, counting.brokers, counting.routes)


@lru_cache(maxsize=20_000)
def _difference(original: Replicas, target: Replicas) -> tuple[Replicas, Replicas]:
    """Return the brokers that gain a replica, and those that lose one."""
    coming = tuple(b for b in target if b not in original)
    return coming, tuple(b for b in original if b not in target)


class _Counting:
    """The volumes in the making."""

    def __init__(self, view: ClusterView, held: Held) -> None:
        self._view = view
        self._held = held
        self.requests: dict[RequestId, RequestVolume] = {}
        self.brokers: dict[BrokerId, BrokerVolume] = {
            b: BrokerVolume() for b in view.cluster.brokers
        }
        self.routes: dict[tuple[BrokerId, BrokerId], int] = {}

    def add(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        spec = reassignment.spec
        volume = self.requests.setdefault(spec.request, RequestVolume())
        self._load(partition, reassignment)
        size = self._view.disks_process.sizes.get(partition)
        if size is None:
            volume.unknown += 1
            return
        volume.known += 1
        if reassignment.step == 0 and spec.original is not None and not reassignment.in_flight:
            # Most reassignments of a large plan are pending: their volume needs no state.
            coming, going = _difference(spec.original, spec.target)
            volume.remaining += size * len(coming)
            for broker in coming:
                self._of(broker).in_remaining += size
            for broker in going:
                self._of(broker).out_remaining += size
            return
        wanted, copied = self._copies(partition, reassignment)
        held = self._held(partition) if wanted else {}
        for broker in wanted:
            part = min(size, held.get(broker, 0))
            volume.moved += part
            volume.remaining += size - part
            self._of(broker).in_remaining += size - part
        volume.moved += size * len(copied)
        assignment = self._view.topics.known_assignment(partition)
        for broker in () if assignment is None else assignment.replicas:
            if broker not in spec.target:
                self._of(broker).out_remaining += size

    def _copies(
        self, partition: TopicPartition, reassignment: Reassignment
    ) -> tuple[Replicas, Replicas]:
        """Return the target replicas that must still be copied, and those that were."""
        spec = reassignment.spec
        assignment = self._view.topics.known_assignment(partition)
        if assignment is None:
            return (), ()
        state = self._view.leadership.states.get(partition)
        isr = () if state is None else state.isr
        wanted, copied = [], []
        for broker in spec.target:
            is_new = spec.original is not None and broker not in spec.original
            is_there = broker in assignment.replicas
            if not is_there or (broker in assignment.adding_replicas and broker not in isr):
                wanted.append(broker)
            elif is_new:
                copied.append(broker)
        return tuple(wanted), tuple(copied)

    def _load(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        """Count the copies of the step in flight, also of one that no limit counts."""
        if not reassignment.in_flight:
            return
        assignment = self._view.topics.known_assignment(partition)
        state = self._view.leadership.states.get(partition)
        receivers = () if assignment is None else reassignment.receivers(assignment)
        if state is None or state.leader == NO_LEADER or not receivers:
            return
        self._of(state.leader).outgoing += 1
        for broker in receivers:
            self._of(broker).incoming += 1
            route = (state.leader, broker)
            self.routes[route] = self.routes.get(route, 0) + 1

    def _of(self, broker: BrokerId) -> BrokerVolume:
        found = self.brokers.get(broker)
        if found is None:
            found = self.brokers[broker] = BrokerVolume()
        return found
