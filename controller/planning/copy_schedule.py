"""
Play the steps of a plan ahead in time: when copies end, and how full log directories become.

Copies share the rates of their brokers evenly; a copy gets the lesser of what its leader and its
receiver have left. A dropped log keeps its bytes for ``DELETE_DELAY_S`` after its step. Steps begin
in the order of the plan, as limits and the space guard permit; partitions between two steps go
first. Brokers place new logs in the directory with the fewest.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from controller.core.disks.log_volumes import DELETE_DELAY_S, volume_of
from controller.core.model import BrokerId, LogDir, MinFree, Replicas, TopicPartition
from controller.core.reassignments.steps import Step, steps_to

LOOKED_AT_MAX: Final = 1_000
"""Blocked partitions that are looked at before the next event."""
SHARED_TIMES: Final = 3
"""How often what some copies leave of their brokers' rates is shared among the others."""
EVEN: Final = 1e-9
"""Relative differences of rates and bytes below this are rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastMove:
    """One entry of a plan that changes replicas, and what is known of its partition."""

    partition: TopicPartition
    before: Replicas
    target: Replicas
    leader: BrokerId
    """-1: it has none."""
    size: int = 0
    """Bytes of its largest replica; 0 where it is unknown."""
    growth: float = 0.0
    """Bytes per second that producers add."""
    isr: Replicas | None = None
    """None: all its replicas."""
    directories: Mapping[BrokerId, str] = field(default_factory=dict)
    """Where its replicas are, as far as it is known."""
    wanted: Mapping[BrokerId, str] = field(default_factory=dict)
    """Where its entry wants replicas to be; elsewhere the broker chooses."""

    @property
    def relocations(self) -> Replicas:
        """The brokers that move it to another directory of theirs, after the last step."""
        places = self.directories
        return tuple(
            b
            for b, path in self.wanted.items()
            if b in self.before and b in self.target and places.get(b, path) != path
        )

    @property
    def source(self) -> BrokerId:
        """The broker that serves its copies: its leader, which is dropped last."""
        return self.leader if self.leader >= 0 else self.before[0]

    @property
    def copies(self) -> Replicas:
        """The brokers that copy it."""
        return tuple(b for b in self.target if b not in self.before)

    def steps(self, step_size: int | None) -> tuple[Step, ...]:
        """Return the steps to its target."""
        isr = self.before if self.isr is None else self.isr
        return steps_to(self.before, self.target, self.leader, step_size, isr.__contains__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLimits:
    """What bounds how many copies there are at a time."""

    step_size: int | None = 1
    partitions: int = 100
    incoming: int = 10
    outgoing: int = 10
    bytes: int | None = None
    min_free: MinFree | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What bounds how fast copies are."""

    rate: RateOf | None = None
    """None: they take no time, and only the space guard limits them."""
    step_s: float = 0.0
    """Seconds that a step takes besides its copies."""


class CopyRole(Enum):
    """What a broker does with a copy; each has a rate of its own."""

    RECEIVES = auto()
    SERVES = auto()
    RELOCATES = auto()
    """It copies from one directory of its own to another."""


RateOf = Callable[[BrokerId, CopyRole], float]
"""Returns the bytes per second of a broker, each way."""


class Place(NamedTuple):
    """A log directory of a broker."""

    broker: BrokerId
    path: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """The result of playing a plan."""

    seconds: float
    """Until its last step ends; infinite if a step never does."""
    steps: int
    peaks: Mapping[Place, int]
    """The most bytes in use on the volume of a directory, as far as they are known."""
    ends: Mapping[Place, int]
    """The bytes in use when all is done and deleted."""
    received: Mapping[Place, int]
    freed: Mapping[Place, int]
    delayed: Mapping[TopicPartition, str]
    """The partitions for which there is no room at first, with the directory that has none."""
    stuck: Mapping[TopicPartition, str]
    """Those for which there never is."""
    limited: int
    """Partitions that wait for a limit at first."""


def play(
    moves: Iterable[ForecastMove],
    disks: Mapping[BrokerId, tuple[LogDir, ...]],
    limits: ForecastLimits,
    pace: Pace,
) -> Schedule:
    """Play the steps of moves of live brokers, in this order; disks are those that are known."""
    return _Play(moves, disks, limits, pace).run()


# --- disks ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Volume:
    """The volume of one or more directories."""

    used: int
    usable: int | None
    floor: int
    peak: int = 0

    def take(self, size: int) -> None:
        self.used += size
        self.peak = max(self.peak, self.used)
        if self.usable is not None:
            self.usable -= size

    def has_room(self, size: int) -> bool:
        return self.usable is None or self.usable - size >= self.floor


@dataclass(slots=True)
class _Directory:
    place: Place
    volume: _Volume
    logs: int
    received: int = 0
    freed: int = 0


class _Disks:
    """All log directories."""

    def __init__(
        self, disks: Mapping[BrokerId, tuple[LogDir, ...]], min_free: MinFree | None
    ) -> None:
        self.of: dict[BrokerId, list[_Directory]] = {}
        self._is_guarded = min_free is not None
        for broker, found in disks.items():
            good = [d for d in found if not d.is_failed]
            volumes: dict[str, _Volume] = {}
            for directory in good:
                if directory.path not in volumes:
                    shared = _volume(directory, min_free or MinFree())
                    volumes |= dict.fromkeys(volume_of(directory, good), shared)
            self.of[broker] = [
                _Directory(Place(broker, d.path), volumes[d.path], d.logs or 0) for d in good
            ]

    def choice(self, broker: BrokerId, move: ForecastMove) -> _Directory | None:
        """Return the directory that takes a replica: the wanted one, or that of fewest logs."""
        found = self.of.get(broker, [])
        wanted = move.wanted.get(broker)
        named = [d for d in found if d.place.path == wanted]
        return next(iter(named), None) or min(found, key=lambda d: d.logs, default=None)

    def where(self, broker: BrokerId, move: ForecastMove) -> _Directory | None:
        """Return the directory of a present replica, if it is known."""
        found = self.of.get(broker, [])
        if len(found) == 1:
            return found[0]
        path = move.directories.get(broker)
        return next((d for d in found if d.place.path == path), None)

    def full(self, wanted: Iterable[_Directory | None], size: int) -> _Directory | None:
        """Return a directory without room for a copy."""
        known = (d for d in wanted if d is not None and self._is_guarded)
        return next((d for d in known if not d.volume.has_room(size)), None)


def _volume(directory: LogDir, min_free: MinFree) -> _Volume:
    used = 0
    if directory.total is not None and directory.usable is not None:
        used = directory.total - directory.usable
    return _Volume(used, directory.usable, min_free.of(directory.total), used)


# --- the play ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Flight:
    """A move between its first step and its end."""

    move: ForecastMove
    steps: tuple[Step, ...]
    done: int = 0
    copying: int = 0

    @property
    def step(self) -> Step | None:
        """The next step; None: it is at its target, or its replicas change directories."""
        return self.steps[self.done] if self.done < len(self.steps) else None


_End = tuple[BrokerId, CopyRole]
"""One end of a copy."""


@dataclass(slots=True, eq=False)
class _Copy:
    flight: _Flight
    left: float
    growth: float
    ends: tuple[_End, ...]
    rate: float = 0.0

    @property
    def seconds(self) -> float:
        net = self.rate - self.growth
        if self.left <= 0 or net == math.inf:
            return 0.0
        return self.left / net if net > 0 else math.inf


class _Play:
    """The state of a play."""

    def __init__(
        self,
        moves: Iterable[ForecastMove],
        disks: Mapping[BrokerId, tuple[LogDir, ...]],
        limits: ForecastLimits,
        pace: Pace,
    ) -> None:
        self._limits = limits
        self._pace = pace
        self._now = 0.0
        self._end = 0.0
        self._disks = _Disks(disks, limits.min_free)
        flights = [_Flight(m, m.steps(limits.step_size)) for m in moves]
        self._waiting = [f for f in flights if f.steps or f.move.relocations]
        self._steps = sum(len(f.steps) for f in flights)
        self._copies: list[_Copy] = []
        self._in_flight: set[_Flight] = set()
        self._incoming: dict[BrokerId, int] = {}
        self._outgoing: dict[BrokerId, int] = {}
        self._bytes = 0
        self._is_changed = True
        """Whether copies began or ended since rates were shared."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._delayed: dict[TopicPartition, str] = {}
        self._limited = 0

    def run(self) -> Schedule:
        """Play until nothing happens any more."""
        directories = [directory for found in self._disks.of.values() for directory in found]
        sized = [d for d in directories if d.volume.usable is not None]
        self._begin()
        while True:
            self._share()
            first = min((c.seconds for c in self._copies), default=math.inf)
            at = min(self._now + first, self._events[0][0] if self._events else math.inf)
            if at == math.inf:
                break
            self._advance(at)
            self._begin()
        left = [*self._waiting, *(c.flight for c in self._copies)]
        return Schedule(
            math.inf if left else self._end,
            self._steps,
            {d.place: d.volume.peak for d in sized},
            {d.place: d.volume.used for d in sized},
            {d.place: d.received for d in directories},
            {d.place: d.freed for d in directories},
            self._delayed,
            {
                p: self._delayed[p]
                for f in self._waiting
                if (p := f.move.partition) in self._delayed
            },
            self._limited,
        )

    # --- time ----------------------------------------------------------------------------------

    def _after(self, seconds: float, happens: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self._now + seconds, self._number, happens))

    def _advance(self, at: float) -> None:
        elapsed, self._now = at - self._now, at
        going = []
        for copy in self._copies:
            is_over = copy.seconds <= elapsed * (1 + EVEN) + EVEN
            copy.left -= 0.0 if is_over else (copy.rate - copy.growth) * elapsed
            if is_over:
                self._end_copy(copy)
            else:
                going.append(copy)
        self._copies = going
        while self._events and self._events[0][0] <= at:
            heapq.heappop(self._events)[2]()

    def _share(self) -> None:
        """Share the rates of brokers among their copies, then what some of them leave to others."""
        if not self._is_changed:
            return
        self._is_changed = False
        rate_of = self._pace.rate
        if rate_of is None:
            for copy in self._copies:
                copy.rate = math.inf
            return
        numbers: dict[_End, int] = {}
        for copy in self._copies:
            copy.rate = 0.0
            for end in copy.ends:
                numbers[end] = numbers.get(end, 0) + 1
        left = {end: rate_of(*end) for end in numbers}
        for _ in range(SHARED_TIMES):
            shares = {end: left[end] / number for end, number in numbers.items()}
            for copy in self._copies:
                more = min(shares[end] for end in copy.ends)
                copy.rate += more
                for end in copy.ends:
                    left[end] -= 0.0 if more == math.inf else more

    # --- steps ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin the steps that may begin; those that may not stay in their order."""
        blocked: list[_Flight] = []
        for number, flight in enumerate(self._waiting):
            if len(blocked) >= LOOKED_AT_MAX or not self._has_slot:
                blocked += self._waiting[number:]
                break
            if not self._try(flight):
                blocked.append(flight)
        self._waiting = blocked
        if not self._now:
            self._limited = sum(f.move.partition not in self._delayed for f in blocked)

    @property
    def _has_slot(self) -> bool:
        return self._pace.rate is None or len(self._in_flight) < self._limits.partitions

    def _try(self, flight: _Flight) -> bool:
        """Begin the next step, or the moves to other directories; return whether it may."""
        move, step = flight.move, flight.step
        adding = move.relocations if step is None else step.adding
        if step is not None and self._is_limited(move, adding):
            return False
        chosen = [(b, self._disks.choice(b, move)) for b in adding]
        full = self._disks.full((directory for _, directory in chosen), move.size)
        if full is not None:
            self._delayed.setdefault(
                move.partition, f"broker {full.place.broker}, {full.place.path}"
            )
            return False
        self._in_flight.add(flight)
        self._is_changed = True
        flight.copying = len(adding)
        for broker, directory in chosen:
            if directory is not None:
                directory.logs += 1
                directory.received += move.size
                directory.volume.take(move.size)
            ends: tuple[_End, ...] = ((broker, CopyRole.RELOCATES),)
            if step is not None:
                ends = ((move.leader, CopyRole.SERVES), (broker, CopyRole.RECEIVES))
            self._copies.append(_Copy(flight, move.size, move.growth, ends))
        if step is not None:
            self._count(move, adding, 1)
        if not adding:
            self._end_copies(flight)
        return True

    def _count(self, move: ForecastMove, adding: Replicas, change: int) -> None:
        """Count the copies of a step against the limits."""
        self._bytes += change * move.size * len(adding)
        for broker in adding:
            self._incoming[broker] = self._incoming.get(broker, 0) + change
        if adding:
            self._outgoing[move.leader] = self._outgoing.get(move.leader, 0) + change

    def _is_limited(self, move: ForecastMove, adding: Replicas) -> bool:
        limits = self._limits
        if self._pace.rate is None or not adding:
            return False
        size = move.size * len(adding)
        return (
            any(self._incoming.get(b, 0) >= limits.incoming for b in adding)
            or self._outgoing.get(move.leader, 0) >= limits.outgoing
            or (limits.bytes is not None and self._bytes > 0 and self._bytes + size > limits.bytes)
        )

    def _end_copy(self, copy: _Copy) -> None:
        self._is_changed = True
        copy.flight.copying -= 1
        if not copy.flight.copying:
            self._end_copies(copy.flight)

    def _end_copies(self, flight: _Flight) -> None:
        if flight.step is not None:
            self._count(flight.move, flight.step.adding, -1)
        self._after(self._pace.step_s, lambda: self._end_step(flight))

    def _end_step(self, flight: _Flight) -> None:
        move, step = flight.move, flight.step
        for broker in move.relocations if step is None else step.dropping:
            directory = self._disks.where(broker, move)
            if directory is not None:
                directory.logs -= 1
                directory.freed += move.size
                self._after(DELETE_DELAY_S, partial(directory.volume.take, -move.size))
        flight.done += 1
        self._end = self._now
        self._in_flight.discard(flight)
        if flight.step is not None or (step is not None and move.relocations):
            self._waiting.insert(0, flight)
