"""Events and records of limits and throttles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core import model
from controller.core.bases import Durable, Fact, Volatile
from controller.core.model import BrokerId, Instant
from controller.core.pacing import throttle_settings
from controller.core.pacing.controls import Controls
from controller.core.pacing.model import GovernedRate, Signal, SignalKind
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity, EntityConfig


@dataclass(frozen=True, slots=True)
class ControlsRead(
    Fact,
    wakes=(
        *("capacity", "tenure", "queue", "drains", "order", "throttles", "health"),
        *("submissions", "plan", "cancel", "endings"),
    ),
):
    """Everything below ``/reassigner/control``."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class AppliedThrottlesRead(Fact, wakes=("tenure", "throttles")):
    """Everything below ``/reassigner/throttles``."""

    applied_throttles: Mapping[Entity, AppliedThrottle]


@dataclass(frozen=True, slots=True)
class EntityConfigsRead(Fact, wakes=("throttles",)):
    """Dynamic settings of topics and brokers; a text where one cannot be decoded."""

    configs: Mapping[Entity, EntityConfig | str]


@dataclass(frozen=True, slots=True)
class WallClockRead(Fact, wakes=("capacity", "tenure")):
    """The present reading of the wall clock: the core has only a monotonic one."""

    unix_s: float


@dataclass(frozen=True, slots=True)
class LatencyMeasured(Fact, wakes=("throttles",)):
    """
    The probe and the query measured the latency that clients see; about once a second.

    ``expected`` are the kinds of which there is to be a reading at all times: the probe if its
    topic exists or is being created, the query if one is set. A measurement that fails is an event
    without readings, and a problem.
    """

    readings: tuple[Signal, ...]
    expected: frozenset[SignalKind]
    problems: Mapping[SignalKind, str] = field(default_factory=dict)
    """Why there are no readings of a kind."""


@dataclass(frozen=True, slots=True)
class AppliedThrottleRecord(Durable, wakes=("throttles",)):
    """
    A throttle is applied: its record, the entity's settings and their notification, in one multi.

    ``values`` are all settings of the entity; ``expected_version`` None creates the znode.
    """

    lease: throttle_settings.AppliedThrottle
    values: tuple[tuple[str, str], ...]
    expected_version: model.ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottleEndedRecord(Durable, wakes=("throttles",)):
    """
    A throttle is lifted: the restored settings, their notification, and the record is deleted.

    ``values`` None leaves the settings alone: none of them is ours any more. That holds at
    ``expected_version`` only; None: as long as the entity has no settings.
    """

    entity: throttle_settings.Entity
    applied_version: model.ZkVersion
    values: tuple[tuple[str, str], ...] | None
    expected_version: model.ZkVersion | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A topic or a broker whose throttle is settled, as of a note in ``Participants``."""

    entity: throttle_settings.Entity
    note: int
    kept: tuple[str, ...] = ()
    """Settings of others that are kept, as ``key=value``."""


@dataclass(frozen=True, slots=True)
class ThrottlesSettledRecord(Volatile, wakes=("throttles", "capacity"), is_journaled=False):
    """The effective throttles match the wanted ones."""

    settled: tuple[Settled, ...]


@dataclass(frozen=True, slots=True)
class LeaderMovedRecord(Volatile, wakes=(), is_journaled=False):
    """A step moved a leadership from one broker to another."""

    brokers: tuple[BrokerId, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class PaceRecord(Volatile, wakes=("capacity",)):
    """The governor's limit of partitions in flight from now on, and the evidence for it."""

    before: int | None
    """None: the configured limit held."""
    in_flight_max: int | None
    evidence: str
    at: Instant


@dataclass(frozen=True, slots=True)
class RateRecord(Volatile, wakes=("throttles",)):
    """The rate of a broker under a throttle ``auto`` from now on, and the evidence for it."""

    broker: BrokerId
    before: int | None
    """None for the first rate, in bytes per second."""
    bytes_per_s: int
    evidence: str
    signal: SignalKind | None
    """None: a bound was the reason."""
    value: float | None
    objective: float | None


@dataclass(frozen=True, slots=True)
class RatesJudgedRecord(Volatile, wakes=(), is_journaled=False):
    """The rates of all governed brokers, as they were judged; those of others are forgotten."""

    rates: Mapping[BrokerId, GovernedRate]
    at: Instant


@dataclass(frozen=True, slots=True)
class DrainsEndedRecord(Durable, wakes=("drains", "cancel", "endings", "tenure")):
    """``/reassigner/control/drains`` is deleted, if it is still at this version."""

    version: model.ZkVersion


PacingEvent = (
    ControlsRead | AppliedThrottlesRead | EntityConfigsRead | WallClockRead | LatencyMeasured
)


PacingRecord = (
    AppliedThrottleRecord
    | AppliedThrottleEndedRecord
    | ThrottlesSettledRecord
    | LeaderMovedRecord
    | PaceRecord
    | RateRecord
    | RatesJudgedRecord
    | DrainsEndedRecord
)
