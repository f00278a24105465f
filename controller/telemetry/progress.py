"""
Bytes copied and to be copied, by request and by broker; rates and estimated ends; traffic.

The size of a partition is that of its largest replica. Partitions of unknown size count in
``unknown`` and ``uncounted`` only. A request that made no progress in the window of its samples has
no rate and no estimate.

Metrics name a request by its slot, a small number, as ids would not be a bounded set. A slot is
reused after its request has ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from controller.core.model import NO_LEADER, BrokerId, Instant, Replicas, RequestId, TopicPartition
from controller.core.reassignments.model import Reassignment
from controller.core.requests.model import Request
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import Incremental, unjudged_entries, visit_all
from controller.telemetry.copies import CopyEvent, Received
from controller.telemetry.rates import Samples, eta_of

SLOTS: Final = 10
BROKER_WINDOW_S: Final = 120.0

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
def _difference(original: Replicas, target: Replicas) -> tuple[Replicas, Replicas]:
    """Return the brokers that gain a replica, and those that lose one."""
    coming = tuple(b for b in target if b not in original)
    return coming, tuple(b for b in original if b not in target)


class _Counting:
    def __init__(self, view: ClusterView, held: Held) -> None:
        self._view = view
        self._held = held
        self.requests = defaultdict[RequestId, RequestVolume](RequestVolume)
        self.brokers = defaultdict[BrokerId, BrokerVolume](
            BrokerVolume, {b: BrokerVolume() for b in view.cluster.brokers}
        )
        self.routes = Counter[tuple[BrokerId, BrokerId]]()

    def add(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        spec = reassignment.spec
        volume = self.requests[spec.request]
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
                self.brokers[broker].in_remaining += size
            for broker in going:
                self.brokers[broker].out_remaining += size
            return
        wanted, copied = self._copies(partition, reassignment)
        held = self._held(partition) if wanted else {}
        for broker in wanted:
            part = min(size, held.get(broker, 0))
            volume.moved += part
            volume.remaining += size - part
            self.brokers[broker].in_remaining += size - part
        volume.moved += size * len(copied)
        assignment = self._view.topics.known_assignment(partition)
        for broker in () if assignment is None else assignment.replicas:
            if broker not in spec.target:
                self.brokers[broker].out_remaining += size

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
        self.brokers[state.leader].outgoing += 1
        for broker in receivers:
            self.brokers[broker].incoming += 1
            self.routes[state.leader, broker] += 1


# --- rates and estimates --------------------------------------------------------------------------


@dataclass(slots=True)
class _RequestSamples:
    moved: Samples = field(default_factory=Samples)
    ended: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class Traffic:
    """Bytes copied to and from a broker since the daemon started."""

    received: int = 0
    served: int = 0
    received_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))
    served_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))


class ProgressTracker:
    """Keeps samples of requests and brokers."""

    def __init__(self) -> None:
        self.volumes = Volumes()
        self.traffic: dict[BrokerId, Traffic] = {}
        self._samples: dict[RequestId, _RequestSamples] = {}
        self._slots: dict[int, RequestId] = {}

    def count(self, events: Iterable[CopyEvent], now: Instant) -> None:
        """Count the bytes that brokers reported."""
        for event in events:
            if isinstance(event, Received):
                into = self.traffic.setdefault(event.replica, Traffic())
                out_of = self.traffic.setdefault(event.leader, Traffic())
                into.received += event.bytes
                out_of.served += event.bytes
                into.received_samples.add(now, into.received)
                out_of.served_samples.add(now, out_of.served)

    def add(self, view: ClusterView, volumes: Volumes, now: Instant) -> None:
        """Add the volumes of one moment."""
        requests = view.requests
        self.volumes = volumes
        unjudged = unjudged_entries(view)
        for name in [n for n in self._samples if not _is_open(requests.by_id.get(n))]:
            del self._samples[name]
        for name, request in requests.by_id.items():
            if not _is_open(request):
                continue
            samples = self._samples.setdefault(name, _RequestSamples())
            volume = volumes.requests.get(name)
            samples.moved.add(now, 0 if volume is None else volume.moved)
            samples.ended.add(now, request.total - request.open - unjudged[name])
            self._give_slot(name, view)
        for traffic in self.traffic.values():
            traffic.received_samples.add(now, traffic.received)
            traffic.served_samples.add(now, traffic.served)

    def of(self, name: RequestId, request: Request, unjudged: int = 0) -> dict[str, Any]:
        """
        Return the progress of a request for the status document.

        ``unjudged`` of its entries are neither accepted nor refused yet. Bytes are None where no
        size is known and nothing was copied; they omit the partitions of unknown size.
        """
        volume, samples = self.volumes.requests.get(name), self._samples.get(name)
        unknown = request.uncounted if volume is None else volume.unknown + volume.uncounted
        if volume is not None and not (volume.known or volume.moved):
            volume = None
        rate = eta = None
        if not request.open or samples is None:
            moved = request.moved_bytes
            volume = None if moved is None else RequestVolume(moved=moved)
            unknown = request.uncounted
        else:
            rate = samples.moved.rate()
            if volume is not None and volume.remaining:
                guess = volume.remaining / max(1, volume.known) * volume.unknown
                eta = eta_of(rate, volume.remaining + guess)
            else:
                eta = eta_of(samples.ended.rate(), request.open + unjudged)
        return {
            "slot": next((s for s, n in self._slots.items() if n == name), None),
            "bytes": None
            if volume is None
            else {
                "total": volume.moved + volume.remaining,
                "moved": volume.moved,
                "remaining": volume.remaining,
            },
            "sizes_unknown": unknown,
            "bytes_per_s": None if rate is None else round(rate.mean),
            "eta_s": None if eta is None else [round(eta.low), round(eta.high)],
        }

    def broker(self, broker: BrokerId) -> dict[str, Any]:
        """Return one broker for the status document."""
        volume = self.volumes.brokers.get(broker, BrokerVolume())
        traffic = self.traffic.get(broker, Traffic())
        into, out_of = traffic.received_samples.rate(), traffic.served_samples.rate()
        return {
            "broker": broker,
            "incoming": volume.incoming,
            "outgoing": volume.outgoing,
            "in_bytes_remaining": volume.in_remaining,
            "out_bytes_remaining": volume.out_remaining,
            "in_bytes_per_s": 0 if into is None else round(into.mean),
            "out_bytes_per_s": 0 if out_of is None else round(out_of.mean),
        }

    def brokers(self, live: Iterable[BrokerId]) -> list[dict[str, Any]]:
        """Return the live brokers and those with copies, for the status document."""
        return [self.broker(b) for b in sorted({*live, *self.volumes.brokers})]

    def routes(self) -> list[dict[str, int]]:
        """Return the copies in progress by leader and receiving broker."""
        return [
            {"from": leader, "to": replica, "replicas": count}
            for (leader, replica), count in sorted(self.volumes.routes.items())
        ]

    def _give_slot(self, name: RequestId, view: ClusterView) -> None:
        taken = self._slots
        if name in taken.values():
            return
        unused = (s for s in range(SLOTS) if s not in taken)
        ended = (s for s, n in taken.items() if not _is_open(view.requests.by_id.get(n)))
        slot = next(chain(unused, ended), None)
        if slot is not None:
            self._slots.pop(slot, None)
            self._slots[slot] = name


def _is_open(request: Request | None) -> bool:
    return request is not None and bool(request.open)
