"""
Progress, rates and estimated ends of requests, and traffic of brokers.

A rate comes from samples of the last minutes: the window is divided into slices, and the spread of
their rates (twice the standard error) gives the range of the estimate. A request that made no
progress in the window has no rate and no estimate.

Metrics name a request by its slot, a small number, as ids would not be a bounded set. A slot is
reused after its request has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, Final, NamedTuple

from controller.core.model import BrokerId, Instant, RequestId
from controller.core.requests.model import Request
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import unjudged_entries
from controller.telemetry.copies import CopyEvent, Received
from controller.telemetry.copy_volumes import BrokerVolume, RequestVolume, Volumes

SLOTS: Final = 10
BROKER_WINDOW_S: Final = 120.0
WINDOW_S: Final = 600.0
"""Older samples are dropped."""
SAMPLE_EVERY_S: Final = 2.0
"""A sample that follows sooner replaces the last one."""
SPAN_MIN_S: Final = 5.0
"""A shorter span gives no rate."""
SLICES_MAX: Final = 6
SLOWEST: Final = 0.25
"""The lowest rate is at least this part of the mean."""
UNCERTAIN: Final = 0.5
"""The margin, as a part of the mean, with only one slice."""


class Sample(NamedTuple):
    """A count at one moment."""

    at: Instant
    total: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Amount per second, with its range."""

    mean: float
    low: float
    high: float


class Range(NamedTuple):
    """Seconds to the end, at best and at worst."""

    low: float
    high: float


class Samples:
    """Samples of a growing count within a window."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """Start without samples."""
        self._window_s = window_s
        self._kept: deque[Sample] = deque()

    def add(self, at: Instant, total: float) -> None:
        """
        Add a sample.

        A count below the last one (a size that shrank, a daemon that restarted) drops the earlier
        samples: a rate across the gap would be wrong.
        """
        kept = self._kept
        if kept and total < kept[-1].total:
            kept.clear()
        if len(kept) > 1 and at - kept[-2].at < SAMPLE_EVERY_S:
            kept.pop()
        kept.append(Sample(at, total))
        while len(kept) > 1 and kept[1].at <= at - self._window_s:
            kept.popleft()

    def rate(self) -> Rate | None:
        """Return the rate of the window; None if it cannot be computed."""
        return rate_of(self._kept)


def rate_of(samples: Sequence[Sample]) -> Rate | None:
    """Return the rate with its range; None for a short span or a count that did not grow."""
    if len(samples) < 2:  # noqa: PLR2004 - a rate is between two
        return None
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    if span < SPAN_MIN_S or last.total <= first.total:
        return None
    slices = min(SLICES_MAX, len(samples) - 1)
    edges = [first.at + span * n / slices for n in range(slices + 1)]
    counts = [_count_at(samples, edge) for edge in edges]
    rates = [(b - a) * slices / span for a, b in pairwise(counts)]
    mean = (last.total - first.total) / span
    margin = mean * UNCERTAIN if slices == 1 else 2 * pstdev(rates, fmean(rates)) / sqrt(slices)
    return Rate(mean, max(mean - margin, mean * SLOWEST), mean + margin)


def eta_of(rate: Rate | None, remaining: float) -> Range | None:
    """Return the estimated seconds until ``remaining`` is done; None without a rate."""
    if remaining <= 0:
        return Range(0.0, 0.0)
    if rate is None:
        return None
    return Range(remaining / rate.high, remaining / rate.low)


def _count_at(samples: Sequence[Sample], at: float) -> float:
    """Return the count between two samples, interpolated linearly."""
    for before, after in pairwise(samples):
        if at <= after.at:
            share = (at - before.at) / (after.at - before.at) if after.at > before.at else 1.0
            return before.total + (after.total - before.total) * min(1.0, max(0.0, share))
    return samples[-1].total


@dataclass(slots=True)
class _RequestSamples:
    """Samples of one open request."""

    moved: Samples = field(default_factory=Samples)
    ended: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class Traffic:
    """Bytes copied to and from a broker since the daemon started."""

    received: int = 0
    served: int = 0
    received_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))
    served_samples: Samples = field(default_factory=lambda: Samples(BROKER_WINDOW_S))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one request."""

    slot: int | None = None
    volume: RequestVolume | None = None
    """None: no size is known, and nothing was copied."""
    rate: Rate | None = None
    """Bytes per second."""
    eta: Range | None = None
    unknown: int = 0
    """Partitions of unknown size, open or ended: ``volume`` omits them."""

    def as_status(self) -> dict[str, Any]:
        """Return it for the status document."""
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
    """Keeps samples of requests and brokers."""

    def __init__(self) -> None:
        """Start without samples."""
        self.volumes = Volumes()
        self.traffic: dict[BrokerId, Traffic] = {}
        self._samples: dict[RequestId, _RequestSamples] = {}
        self._slots: dict[int, RequestId] = {}
        self._ended: dict[RequestId, RequestVolume] = {}
        """Volumes of requests with a slot before they ended."""

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

    def of(self, name: RequestId, request: Request, unjudged: int = 0) -> Progress:
        """Return the progress of a request with so many entries neither accepted nor refused."""
        slot = next((s for s, n in self._slots.items() if n == name), None)
        volume = self.volumes.requests.get(name)
        unknown = request.uncounted if volume is None else volume.unknown + volume.uncounted
        if volume is not None and not (volume.known or volume.moved):
            volume = None
        samples = self._samples.get(name)
        if not request.open or samples is None:
            moved = request.moved_bytes
            ended = None if moved is None else RequestVolume(moved=moved)
            return Progress(slot, ended, unknown=request.uncounted)
        rate = samples.moved.rate()
        eta = None
        if volume is not None and volume.remaining:
            guess = volume.remaining / max(1, volume.known) * volume.unknown
            eta = eta_of(rate, volume.remaining + guess)
        if eta is None and (volume is None or not volume.remaining):
            eta = eta_of(samples.ended.rate(), request.open + unjudged)
        return Progress(slot, volume, rate, eta, unknown)

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
        taken: Mapping[int, RequestId] = self._slots
        if name in taken.values():
            return
        unused = (s for s in range(SLOTS) if s not in taken)
        ended = (s for s, n in taken.items() if not _is_open(view.requests.by_id.get(n)))
        slot = next(unused, None)
        slot = next(ended, None) if slot is None else slot
        if slot is not None:
            self._slots.pop(slot, None)
            self._slots[slot] = name


def _is_open(request: Request | None) -> bool:
    return request is not None and bool(request.open)
