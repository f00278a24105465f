"""
What is copied and left, how fast, and until when: by copy, partition, request, broker, and in all.

Made once for each snapshot, from the bytes of the reassignments (``volumes``), the rates of their
copies (``rates``) and the one function for estimates (``planning.estimates``). Every screen and
metric shows these figures.

The share of a bar never becomes less, and is None while it is unknown. What an earlier process
copied is known from this daemon's own journal, or not at all.

Metrics name a request by its slot, a small number, as ids would not be a bounded set. A slot is
reused after its request has ended.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

from controller.core.blocked_reasons import BlockedReasons
from controller.core.disks.disk_budget import throttle_rate
from controller.core.model import NO_LEADER, BrokerId, RequestId, TopicPartition
from controller.core.pacing import limits_in_force
from controller.core.pacing.operator_holds import step_hold
from controller.core.pacing.throttle_settings import COPY_RATES
from controller.core.reason_kinds import LASTING
from controller.core.reassignments.model import Reassignment
from controller.core.requests.model import Request
from controller.core.view import ClusterView
from controller.planning.estimates import Estimate, WorkLeft, time_left
from controller.planning.forecast import START_HIGH_S
from controller.telemetry.cluster_counts import (
    Incremental,
    WorkCounts,
    copying_to,
    in_slices,
    undrained_count,
    unjudged_entries,
)
from controller.telemetry.copies import Copies, CopyEvent, FollowedCopy, Received
from controller.telemetry.copy_volumes import (
    BrokerVolume,
    RequestVolume,
    Volumes,
    partition_volume,
    steps_left,
    volumes_of,
)
from controller.telemetry.json_values import Clocks
from controller.telemetry.rates import MeasuredRates, window_s

SLOTS: Final = 10
IDLE: Final[Mapping[str, Any]] = {
    "incoming": 0,
    "incoming_blocked": 0,
    "outgoing": 0,
    "outgoing_blocked": 0,
    "in_bytes_remaining": 0,
    "out_bytes_remaining": 0,
    "in_bytes_per_s": 0,
    "out_bytes_per_s": 0,
    "throttle_bytes_per_s": None,
}
"""The load of a broker without a part in the work."""
NOTHING_LEFT: Final[Mapping[str, Any]] = {"eta_s": None, "no_estimate": None}


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """A partition whose step copies."""

    document: Mapping[str, Any]
    """Its part of the partition in the status document."""
    part: float | None
    """The share of the step's bytes that is copied; None: unknown."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the status document shows of bytes, rates and estimates."""

    partitions: Mapping[TopicPartition, PartitionFigures] = field(default_factory=dict)
    requests: Mapping[RequestId, Mapping[str, Any]] = field(default_factory=dict)
    brokers: list[dict[str, Any]] = field(default_factory=list)
    routes: list[dict[str, int]] = field(default_factory=list)
    total: Mapping[str, Any] = field(default_factory=dict)


class LoggedProgress(NamedTuple):
    """The last words of this daemon's journal about a request that an earlier process began."""

    entries: int
    refused: int
    cancelled: int
    bytes_total: int
    share: float | None


class ProgressTracker:
    """Makes the figures, and keeps what has to last from one snapshot to the next."""

    def __init__(self) -> None:
        self.received = Counter[BrokerId]()
        """Bytes copied to brokers since the daemon started."""
        self.served = Counter[BrokerId]()
        """Bytes copied from brokers."""
        self.logged: dict[str, LoggedProgress] = {}
        """By request."""
        self._earlier: dict[RequestId, int] = {}
        """Bytes copied for partitions that ended before this process led."""
        self._shares: dict[Hashable, float] = {}
        self._slots: dict[int, RequestId] = {}
        self.latest = Progress()
        """Of the latest snapshot."""

    def count(self, events: Iterable[CopyEvent]) -> None:
        """Count the bytes that brokers received."""
        for event in events:
            if isinstance(event, Received):
                self.received[event.replica] += event.bytes
                self.served[event.leader] += event.bytes

    def measure(
        self, view: ClusterView, copies: Copies, work: WorkCounts, clocks: Clocks
    ) -> Incremental[None]:
        """Make the figures of this moment the latest."""
        volumes = yield from volumes_of(view, copies.held)
        rates = copies.rates(clocks.now, window_s(view.options), view.cluster.brokers)
        figures = _Figures(self, view, clocks, copies, work, volumes, rates)
        for add in (figures.share_brokers, figures.add_partition):
            for partitions in in_slices(work.in_flight):
                for partition in partitions:
                    add(partition)
                yield
        self._give_slots(view)
        requests, by_partition = view.requests.by_id, view.reassignments.by_partition
        for key in [*self._shares]:
            if (key[0] not in by_partition) if isinstance(key, tuple) else (key not in requests):
                del self._shares[key]
        self.latest = figures.progress()

    def never_back(self, key: Hashable, share: float | None) -> float | None:
        """Return the largest share so far; ``key`` is a request, or begins with a partition."""
        if share is not None:
            logged = self.logged.get(key) if isinstance(key, str) else None
            before = self._shares.get(key, (logged and logged.share) or 0.0)
            share = self._shares[key] = max(share, before)
        return share

    def slot_of(self, name: RequestId) -> int | None:
        """Return the slot of a request; None: there are too many."""
        return next((slot for slot, known in self._slots.items() if known == name), None)

    def _give_slots(self, view: ClusterView) -> None:
        taken, known = self._slots, view.requests.by_id
        for name in [n for n, r in known.items() if r.open and n not in taken.values()]:
            unused = (s for s in range(SLOTS) if s not in taken)
            ended = (s for s, n in taken.items() if n not in known or not known[n].open)
            slot = next(chain(unused, ended), None)
            if slot is not None:
                taken.pop(slot, None)
                taken[slot] = name

    def earlier_bytes(self, name: RequestId, request: Request, total: int | None) -> int | None:
        """
        Return the bytes of partitions that ended before this process led; None: unknown.

        ``total`` is what this process knows of the request's bytes; None: not all sizes are known.
        """
        found = request.counts()
        counts = tuple(found[key] for key in ("total", "refused", "cancelled"))
        logged = self.logged.get(name)
        if logged is not None and total is not None and logged[:3] == counts:
            self._earlier.setdefault(name, max(0, logged.bytes_total - total))
        return self._earlier.get(name)


class _Figures:
    """The figures of one moment in the making."""

    def __init__(  # noqa: PLR0913, PLR0917 - what they are made of
        self,
        tracker: ProgressTracker,
        view: ClusterView,
        clocks: Clocks,
        copies: Copies,
        work: WorkCounts,
        volumes: Volumes,
        rates: MeasuredRates,
    ) -> None:
        self._tracker = tracker
        self._view = view
        self._clocks = clocks
        self._copies = copies
        self._work = work
        self._volumes = volumes
        self._rates = rates
        self._reasons = BlockedReasons(view, clocks.now)
        self._unjudged = unjudged_entries(view)
        self._undone = view.requests.undone
        self._partitions: dict[TopicPartition, PartitionFigures] = {}
        self._parts = defaultdict[RequestId, list[Estimate]](list)
        self._growth = defaultdict[RequestId, float](float)
        self._unread: set[RequestId] = set()
        """Requests with a copy that an earlier tenure began, and that was not read since."""
        self._sharing = defaultdict[tuple[BrokerId, bool], list[int]](list)
        """The bytes left of each throttled copy that a broker receives (True) or serves."""

    # --- partitions and their copies --------------------------------------------------------------

    def add_partition(self, partition: TopicPartition) -> None:
        """Add a partition in flight."""
        view, copies = self._view, self._copies.of(partition)
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None:
            return
        name, held = reassignment.spec.request, self._copies.held(partition)
        if reassignment.inherited and any(b not in held for b in lacking(view, partition)):
            self._unread.add(name)
        held_back = self._hold(partition, reassignment)
        if not copies:
            if held_back:
                self._parts[name].append(Estimate(why=held_back, is_lasting=True))
            return
        reason = self._reasons.of(reassignment)
        blocked = reason.detail if reason is not None and reason.by in LASTING else ""
        stalled = f"{partition} is stalled" if partition in self._work.stalled else ""
        blocked, running = blocked or stalled, copying_to(view, partition, reassignment)
        growth = view.disks_process.growth.get(partition, 0.0)
        state = view.leadership.states.get(partition)
        leader = NO_LEADER if state is None else state.leader
        found = [
            # A copy beside a dead replica goes on.
            self._copy(copy, leader, growth, stalled if copy.replica in running else blocked)
            for copy in copies
        ]
        own = [self._rates.copies.get((partition, copy.replica)) for copy in copies]
        known = [rate for rate in own if rate is not None]
        self._growth[name] += growth * len(known)
        volume = partition_volume(view, partition, self._copies.held)
        work = WorkLeft(
            bytes=None if volume is None else sum(volume.left.values()),
            rate=sum(known) if known else None,
            growth=growth * len(known),
            steps=steps_left(
                view, partition, step_size=limits_in_force.step_size_of(view, reassignment.spec)
            ),
            blocked=blocked or held_back,
        )
        estimate = time_left(work, [estimate for _, estimate, _ in found])
        self._parts[name].append(estimate)
        parts = [part for _, _, part in found if part is not None]
        self._partitions[partition] = PartitionFigures(
            {
                "copies": [document for document, _, _ in found],
                "bytes_per_s": sum(known) if known else None,
                **estimate.document(),
            },
            sum(parts) / len(parts) if len(parts) == len(found) else None,
        )

    def _hold(self, partition: TopicPartition, reassignment: Reassignment) -> str:
        """Return what keeps the step after the one in flight from beginning; empty: nothing."""
        view, spec = self._view, reassignment.spec
        assignment = view.topics.known_assignment(partition)
        present = () if assignment is None else assignment.target_replicas
        if not reassignment.in_flight or assignment is None or set(present) == set(spec.target):
            return ""
        to_add = tuple(b for b in spec.target if b not in assignment.replicas)
        state = view.leadership.states.get(partition)
        leader = () if state is None or not to_add else (state.leader,)
        hold = step_hold(view, reassignment, (*leader, *to_add), self._clocks.now)
        return "" if hold is None else hold.detail

    def share_brokers(self, partition: TopicPartition) -> None:
        """Note the throttled copies of a partition in flight: those of a broker share its rate."""
        view = self._view
        reassignment = view.reassignments.by_partition.get(partition)
        state, size = view.leadership.states.get(partition), view.disks_process.sizes.get(partition)
        if reassignment is None or state is None or size is None:
            return
        if limits_in_force.throttle_of(view, reassignment.spec.request) is None:
            return
        running = copying_to(view, partition, reassignment)
        for copy in self._copies.of(partition):
            if copy.replica in running and copy.held is not None:
                left = max(0, size - copy.held)
                self._sharing[copy.replica, True].append(left)
                self._sharing[state.leader, False].append(left)

    def _throttled_s(
        self, request: RequestId, left: int, replica: BrokerId, leader: BrokerId
    ) -> float:
        """Return how long a copy takes at least, as throttled copies of a broker share its rate."""
        found = [0.0]
        for broker, receives in ((replica, True), (leader, False)):
            rate = throttle_in_force(self._view, request, broker)
            if rate:
                others = self._sharing.get((broker, receives)) or [left]
                # The shorter ones end before it, and leave it their share.
                found.append(sum(min(left, other) for other in others) / rate)
        return max(found)

    def _copy(
        self, copy: FollowedCopy, leader: BrokerId, growth: float, blocked: str
    ) -> tuple[dict[str, Any], Estimate, float | None]:
        """Return a copy in the status document, its estimate, and its share of the size."""
        size, held = self._view.disks_process.sizes.get(copy.partition), copy.held
        last = copy.readings.last
        rate = self._rates.copies.get((copy.partition, copy.replica))
        # It may have changed since the last report.
        leader = copy.leader if leader == NO_LEADER else leader
        throttle = throttle_in_force(self._view, copy.request, copy.replica, leader)
        left = part = None
        if size is not None and held is not None:
            left = max(0, size - held)
            part = (size - left) / size if size else 1.0
        work = WorkLeft(
            bytes=left,
            rate=rate,
            growth=growth,
            throttled_s=self._throttled_s(copy.request, left or 0, copy.replica, leader),
            blocked=blocked,
        )
        estimate = time_left(work)
        document = {
            "broker": copy.replica,
            "from": leader,
            "bytes": held,
            "total_bytes": size,
            "share": self._tracker.never_back((copy.partition, copy.replica, copy.begun), part),
            "bytes_per_s": rate,
            "rate_estimated": (copy.partition, copy.replica) in self._rates.estimated,
            **estimate.document(),
            "throttle_bytes_per_s": throttle,
            "read_at": None if last is None else self._clocks.at(last.at),
            "inherited": copy.inherited,
        }
        return document, estimate, part

    # --- requests, brokers, and everything --------------------------------------------------------

    def progress(self) -> Progress:
        """Return all figures."""
        view, known = self._view, self._view.requests.by_id
        estimates = {n: self._estimate(n) for n, r in known.items() if r.open or self._unjudged[n]}
        left = [self._left(name) for name in estimates]
        work = WorkLeft(
            bytes=None if None in left else sum(b or 0.0 for b in left),
            rate=self._rates.pace,
            growth=sum(self._growth.values()),
            steps=sum(self._steps(name) for name in estimates),
            at_once=limits_in_force.in_flight_max(view),
        )
        whole = time_left(work, estimates.values()).document() if estimates else NOTHING_LEFT
        rate = self._rates.total if view.role.leading else None
        return Progress(
            self._partitions,
            {name: self._request(name, r, estimates.get(name)) for name, r in known.items()},
            [self._broker(b) for b in sorted(self._brokers())],
            [
                {"from": leader, "to": replica, "replicas": count}
                for (leader, replica), count in sorted(self._volumes.routes.items())
            ],
            {"bytes_per_s": rate, "window_s": window_s(view.options), **whole},
        )

    def _brokers(self) -> set[BrokerId]:
        rates = self._rates
        return {
            *self._view.cluster.brokers,
            *self._volumes.brokers,
            *rates.received,
            *rates.served,
        }

    def _volume(self, name: RequestId) -> RequestVolume:
        return self._volumes.requests.get(name, RequestVolume())

    def _left(self, name: RequestId) -> float | None:
        """Return the bytes left of a request; partitions of unknown size count as the others."""
        volume = self._volume(name)
        unknown = volume.unknown + self._unjudged[name]
        if unknown and not volume.known:
            return None
        return volume.remaining * (1 + unknown / max(1, volume.known))

    def _steps(self, name: RequestId) -> int:
        """Return the steps to come of a request; an entry to be accepted counts as one."""
        return self._volume(name).steps + self._unjudged[name]

    def _estimate(self, name: RequestId) -> Estimate:
        view, wait = self._view, self._work.waits.get(name)
        at_once = limits_in_force.in_flight_max_of(view, name)
        throttled = [
            (left, throttle_in_force(view, name, broker))
            for broker, left in self._volume(name).to_brokers.items()
        ]
        is_held = wait is not None and (wait.by in LASTING or name not in self._rates.paces)
        work = WorkLeft(
            bytes=self._left(name),
            rate=self._rates.paces.get(name),
            growth=self._growth[name],
            throttled_s=max((left / rate for left, rate in throttled if rate), default=0.0),
            steps=self._steps(name),
            at_once=min(limits_in_force.in_flight_max(view), at_once or sys.maxsize),
            ending_s=START_HIGH_S,
            blocked=wait.detail if wait is not None and is_held else "",
        )
        return time_left(work, self._parts[name])

    def _request(
        self, name: RequestId, request: Request, estimate: Estimate | None
    ) -> Mapping[str, Any]:
        """
        Return a request in the status document, with its estimate while it is open.

        Bytes are None where no size is known and nothing was copied; they omit the partitions of
        unknown size, and those that ended before ``bytes_since``. The share of one that ended is
        that of the entries which reached their target; one that was undone, also in part, has none,
        nor has one that is moved back.
        """
        volume, unjudged = self._volume(name), self._unjudged[name]
        is_measured = not (volume.unknown or unjudged or name in self._unread)
        moved, total = volume.moved, volume.moved + volume.remaining
        earlier: int | None = 0
        if request.done_elsewhere > unjudged:
            earlier = self._tracker.earlier_bytes(name, request, total if is_measured else None)
        moved, total = moved + (earlier or 0), total + (earlier or 0)
        share: float | None = None
        if estimate is None:
            if self._view.reassignments_leadership.specs_read:
                entries = request.total + undrained_count(self._view, name)
                done = request.counts(0)["done"]
                share = done / entries if entries else 1.0
                if self._undone.get(name) is not None:
                    share = None
        elif request.open and self._work.rolling_back[name] == request.open:
            share = None
        elif earlier is not None and (is_measured or not request.is_inherited):
            whole = moved + (self._left(name) or 0.0)
            share = moved / whole if whole else None
            if not (whole or volume.unknown or unjudged):
                share = (request.total - request.open) / max(1, request.total)
        rate = None if estimate is None else self._rates.requests.get(name, 0)
        bytes_ = {"total": total, "moved": moved, "remaining": volume.remaining}
        return {
            "slot": self._tracker.slot_of(name),
            "bytes": bytes_ if volume.known or moved else None,
            "bytes_since": self._clocks.at(request.since) if earlier is None else None,
            "sizes_unknown": volume.unknown + volume.uncounted,
            "share": share if estimate is None else self._tracker.never_back(name, share),
            "bytes_per_s": rate,
            **(NOTHING_LEFT if estimate is None else estimate.document()),
        }

    def _broker(self, broker: BrokerId) -> dict[str, Any]:
        volume = self._volumes.brokers.get(broker, BrokerVolume())
        unknown = 0 if self._view.role.leading else None
        return {
            "broker": broker,
            "incoming": volume.incoming,
            "incoming_blocked": volume.incoming_blocked,
            "outgoing": volume.outgoing,
            "outgoing_blocked": volume.outgoing_blocked,
            "in_bytes_remaining": volume.in_remaining,
            "out_bytes_remaining": volume.out_remaining,
            "in_bytes_per_s": self._rates.received.get(broker, unknown),
            "out_bytes_per_s": self._rates.served.get(broker, unknown),
            "throttle_bytes_per_s": lowest_throttle(self._view, broker),
        }


def lacking(view: ClusterView, partition: TopicPartition) -> list[BrokerId]:
    """Return the replicas that the step in flight adds and that are not in sync."""
    reassignment = view.reassignments.by_partition[partition]
    assignment = view.topics.known_assignment(partition)
    state = view.leadership.states.get(partition)
    isr = () if state is None else state.isr
    added = () if assignment is None else reassignment.receivers(assignment)
    return [broker for broker in added if broker not in isr]


def throttle_in_force(view: ClusterView, request: RequestId, *brokers: BrokerId) -> int | None:
    """Return the throttle of a request's copies between brokers; None: they have none."""
    is_throttled = limits_in_force.throttle_of(view, request) is not None
    return lowest_throttle(view, *brokers) if is_throttled else None


def lowest_throttle(view: ClusterView, *brokers: BrokerId) -> int | None:
    """Return the lowest throttle in the settings of brokers, as far as the daemon reads them."""
    found = (throttle_rate(view, broker, key) for broker in brokers for key in COPY_RATES)
    return min((rate for rate in found if rate is not None), default=None)
