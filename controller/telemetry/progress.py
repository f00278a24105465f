"""
How far requests and brokers are, how fast they come on, and when that may end.

Remembers the last minutes of what was counted; a request that waits has no rate, and no end is
guessed for it. Requests have slots, small numbers that metrics can use as a label where an id would
not be bounded: a slot is given again when the request that had it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controller.core.model import BrokerId, Instant, RequestId
from controller.core.reassignments import Request
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import unjudged_entries
from controller.telemetry.copies import CopyEvent, Received
from controller.telemetry.copy_volumes import BrokerVolume, Volume, Volumes
from controller.telemetry.rates import Range, Rate, Samples, eta_of

SLOTS: Final = 10
BROKER_WINDOW_S: Final = 120.0


@dataclass(slots=True)
class _Course:
    """The last minutes of one open request."""

    moved: Samples = field(default_factory=Samples)
    ended: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class Traffic:
    """Bytes of copies that came to a broker, and went out of it, since the daemon began."""

    received: int = 0
    served: int = 0
    received_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))
    served_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one request is."""

    slot: int | None = None
    volume: Volume | None = None
    """None: no size is known, and nothing was copied."""
    rate: Rate | None = None
    """Bytes per second."""
    eta: Range | None = None
    unknown: int = 0
    """Open partitions whose size is not known."""

    def as_status(self) -> dict[str, Any]:
        """Return what the status document says of it."""
        volume = self.volume
        return {
            "slot": self.slot,
            "bytes": None
            if volume is None
            else {
                "total": volume.total,
                "moved": volume.moved,
                "remaining": volume.remaining,
            },
            "sizes_unknown": self.unknown,
            "bytes_per_s": None if self.rate is None else round(self.rate.mean),
            "eta_s": None if self.eta is None else [round(self.eta.low), round(self.eta.high)],
        }


class ProgressTracker:
    """Keeps the counts of the last minutes."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.volumes = Volumes()
        self.traffic: dict[BrokerId, Traffic] = {}
        self._courses: dict[RequestId, _Course] = {}
        self._slots: dict[int, RequestId] = {}
        self._ended: dict[RequestId, Volume] = {}
        """What was counted of requests with a slot before they ended."""

    def count(self, events: Iterable[CopyEvent], now: Instant) -> None:
        """Count bytes that brokers told of."""
        for event in events:
            if isinstance(event, Received):
                into = self.traffic.setdefault(event.replica, Traffic())
                out_of = self.traffic.setdefault(event.leader, Traffic())
                into.received += event.bytes
                out_of.served += event.bytes
                into.received_samples.note(now, into.received)
                out_of.served_samples.note(now, out_of.served)

    def note(self, view: ClusterView, volumes: Volumes, now: Instant) -> None:
        """Take what was counted at a moment."""
        self.volumes = volumes
        unjudged = unjudged_entries(view)
        for name in [n for n in self._courses if not _is_open(view.requests.get(n))]:
            del self._courses[name]
        for name, request in view.requests.items():
            if not _is_open(request):
                continue
            course = self._courses.setdefault(name, _Course())
            volume = volumes.requests.get(name)
            course.moved.note(now, 0 if volume is None else volume.moved)
            course.ended.note(now, request.total - request.open - unjudged[name])
            self._give_slot(name, view)
        for traffic in self.traffic.values():
            traffic.received_samples.note(now, traffic.received)
            traffic.served_samples.note(now, traffic.served)

    def of(self, name: RequestId, request: Request, unjudged: int = 0) -> Progress:
        """Return how far a request is, so many entries of which were not judged yet."""
        slot = next((s for s, n in self._slots.items() if n == name), None)
        volume = self.volumes.requests.get(name)
        unknown = 0 if volume is None else volume.unknown
        if volume is not None and not (volume.known or volume.moved):
            volume = None
        course = self._courses.get(name)
        if not request.open or course is None:
            moved = request.moved_bytes
            ended = None if moved is None else Volume(moved=moved)
            return Progress(slot, ended)
        rate = course.moved.rate()
        eta = None
        if volume is not None and volume.remaining:
            guess = volume.remaining / max(1, volume.known) * volume.unknown
            eta = eta_of(rate, volume.remaining + guess)
        if eta is None and (volume is None or not volume.remaining):
            eta = eta_of(course.ended.rate(), request.open + unjudged)
        return Progress(slot, volume, rate, eta, unknown)

    def broker(self, broker: BrokerId) -> dict[str, Any]:
        """Return what the status document says of one broker."""
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
        """Return every broker that is live or has a part in the work."""
        return [self.broker(b) for b in sorted({*live, *self.volumes.brokers})]

    def routes(self) -> list[dict[str, int]]:
        """Return who copies from whom just now."""
        return [
            {"from": leader, "to": replica, "replicas": count}
            for (leader, replica), count in sorted(self.volumes.routes.items())
        ]

    def _give_slot(self, name: RequestId, view: ClusterView) -> None:
        taken: Mapping[int, RequestId] = self._slots
        if name in taken.values():
            return
        unused = (s for s in range(SLOTS) if s not in taken)
        ended = (s for s, n in taken.items() if not _is_open(view.requests.get(n)))
        slot = next(unused, None)
        slot = next(ended, None) if slot is None else slot
        if slot is not None:
            self._slots.pop(slot, None)
            self._slots[slot] = name


def _is_open(request: Request | None) -> bool:
    return request is not None and bool(request.open)
