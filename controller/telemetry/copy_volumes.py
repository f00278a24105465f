"""
The bytes of reassignments, copied and to be copied: by partition, request and broker.

The size of a partition is that of its leader. Partitions of unknown size count in ``unknown`` and
``uncounted`` only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from controller.core.model import NO_LEADER, BrokerId, Replicas, RequestId, TopicPartition
from controller.core.pacing.limits_in_force import step_size_of
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import Incremental, copying_to, visit_all

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
    steps: int = 0
    """Steps to come of all open partitions, those in flight included."""
    to_brokers: Counter[BrokerId] = field(default_factory=Counter)
    """The remaining bytes, by receiving broker."""


@dataclass(slots=True)
class BrokerVolume:
    """Copies to and from one broker."""

    incoming: int = 0
    """Replicas that it copies now."""
    incoming_blocked: int = 0
    """Those among them that are not copied now, as their partition is blocked."""
    outgoing: int = 0
    """Partitions that it serves to copying brokers now."""
    outgoing_blocked: int = 0
    """Those among them of which nothing is copied now."""
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
    """Compute the volumes of all reassignments, a pure function of the view."""
    counting = _Counting(view, held)
    yield from visit_all(view.reassignments.by_partition, counting.add)
    for name, request in view.requests.by_id.items():
        if request.moved_bytes is not None or request.uncounted:
            volume = counting.requests[name]
            volume.moved += request.moved_bytes or 0
            volume.uncounted = request.uncounted
    return Volumes(counting.requests, counting.brokers, counting.routes)


@lru_cache(maxsize=20_000)
def _without(replicas: Replicas, others: Replicas) -> Replicas:
    return tuple(b for b in replicas if b not in others)


class PartitionVolume(NamedTuple):
    """The bytes of all steps of a reassignment."""

    moved: int
    left: Mapping[BrokerId, int]
    """To be copied to each broker."""


def partition_volume(
    view: ClusterView, partition: TopicPartition, held: Held
) -> PartitionVolume | None:
    """Return what a reassignment copied and has to copy; None: its size is unknown."""
    reassignment = view.reassignments.by_partition[partition]
    size, spec = view.disks_process.sizes.get(partition), reassignment.spec
    if size is None:
        return None
    if reassignment.step == 0 and spec.original is not None and not reassignment.in_flight:
        # Most reassignments of a large plan are pending: their volume needs no state.
        return PartitionVolume(0, dict.fromkeys(_without(spec.target, spec.original), size))
    assignment = view.topics.known_assignment(partition)
    if assignment is None:
        return PartitionVolume(0, {})
    state = view.leadership.states.get(partition)
    isr = () if state is None else state.isr
    found, moved = held(partition), 0
    left: dict[BrokerId, int] = {}
    for broker in spec.target:
        is_there = broker in assignment.replicas
        if not is_there or (broker in assignment.adding_replicas and broker not in isr):
            part = min(size, found.get(broker, 0))
            moved, left[broker] = moved + part, size - part
        elif spec.original is not None and broker not in spec.original:
            moved += size
    return PartitionVolume(moved, left)


def steps_left(view: ClusterView, partition: TopicPartition, *, step_size: int | None) -> int:
    """Return how many steps a reassignment still takes, one in flight included."""
    reassignment = view.reassignments.by_partition[partition]
    assignment = view.topics.known_assignment(partition)
    if assignment is None or step_size is None:
        return 1
    missing = len(_without(reassignment.spec.target, assignment.replicas))
    return max(1, ceil(missing / step_size) + bool(assignment.adding_replicas))


class _Counting:
    def __init__(self, view: ClusterView, held: Held) -> None:
        self._view = view
        self._held = held
        self._step_sizes: dict[RequestId, int | None] = {}
        self.requests = defaultdict[RequestId, RequestVolume](RequestVolume)
        self.brokers = defaultdict[BrokerId, BrokerVolume](
            BrokerVolume, {b: BrokerVolume() for b in view.cluster.brokers}
        )
        self.routes = Counter[tuple[BrokerId, BrokerId]]()

    def add(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        spec = reassignment.spec
        volume = self.requests[spec.request]
        if spec.request not in self._step_sizes:
            self._step_sizes[spec.request] = step_size_of(self._view, spec)
        step_size = self._step_sizes[spec.request]
        volume.steps += steps_left(self._view, partition, step_size=step_size)
        self._load(partition, reassignment)
        found = partition_volume(self._view, partition, self._held)
        if found is None:
            volume.unknown += 1
            return
        volume.known += 1
        volume.moved += found.moved
        for broker, left in found.left.items():
            volume.remaining += left
            self.brokers[broker].in_remaining += left
            volume.to_brokers[broker] += left
        assignment = self._view.topics.known_assignment(partition)
        for broker in () if assignment is None else _without(assignment.replicas, spec.target):
            self.brokers[broker].out_remaining += self._view.disks_process.sizes[partition]

    def _load(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        """Count the copies of the step in flight, also of one that no limit counts."""
        if not reassignment.in_flight:
            return
        assignment = self._view.topics.known_assignment(partition)
        state = self._view.leadership.states.get(partition)
        if assignment is None or state is None or state.leader == NO_LEADER:
            return
        # What is in sync has been copied, though the step may wait for another replica.
        receivers = _without(reassignment.receivers(assignment), state.isr)
        if not receivers:
            return
        self.brokers[state.leader].outgoing += 1
        blocked = reassignment.blocked
        is_blocked = blocked is not None and not blocked.is_copying
        running = copying_to(self._view, partition, reassignment) if is_blocked else ()
        self.brokers[state.leader].outgoing_blocked += is_blocked and not running
        for broker in receivers:
            self.brokers[broker].incoming += 1
            self.brokers[broker].incoming_blocked += is_blocked and broker not in running
            self.routes[state.leader, broker] += 1
