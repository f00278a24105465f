"""
What operators turn while the daemon runs: pauses, limits, throttle; durable, and the same for all.

Each is one znode below ``/reassigner/control`` that the command line edits and the daemon watches.
Whatever is not set there is as in the daemon's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from controller.core.model import BrokerId, RequestId
from controller.core.submissions import StepSize, Window

PAUSES: Final = "/reassigner/control/pauses"
LIMITS: Final = "/reassigner/control/limits"
THROTTLE: Final = "/reassigner/control/throttle"
UNTHROTTLED: Final = 2**63 - 1
"""A throttle that means none: Kafka's default of a rate, so that every release can read it."""


class QueueOrder(StrEnum):
    """Which of the waiting partitions of equal priority goes first."""

    SUBMITTED = "submitted"
    """In turn between requests, within a request as it lists them."""
    SMALL_FIRST = "small_first"
    LARGE_FIRST = "large_first"
    MOST_USEFUL_FIRST = "most_useful_first"
    """The one that frees the fullest broker."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A standstill: no new step begins, what is in flight ends."""

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """``/reassigner/control/pauses``."""

    everything: Pause | None = None
    requests: Mapping[RequestId, Pause] = field(default_factory=dict)
    brokers: Mapping[BrokerId, Pause] = field(default_factory=dict)
    """No step begins that copies to or from these brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """Limits of one broker; None: as for all."""

    max_incoming: int | None = None
    max_outgoing: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What was changed of one request after it was submitted; None: as submitted."""

    priority: int | None = None
    step_size: StepSize | None = None
    max_partitions_in_flight: int | None = None
    throttle: int | None = None
    """Bytes per second and broker; ``UNTHROTTLED`` lifts what the request or all have."""
    window: Window | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``/reassigner/control/limits``; None: as in the settings."""

    max_partitions_in_flight: int | None = None
    max_incoming_per_broker: int | None = None
    max_outgoing_per_broker: int | None = None
    max_bytes_in_flight: int | None = None
    max_leader_moves_per_broker_per_second: int | None = None
    step_size: StepSize | None = None
    order: QueueOrder | None = None
    window: Window | None = None
    """Hours for everything."""
    brokers: Mapping[BrokerId, BrokerLimits] = field(default_factory=dict)
    requests: Mapping[RequestId, RequestLimits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Controls:
    """Everything below ``/reassigner/control``."""

    pauses: Pauses = field(default_factory=Pauses)
    limits: Limits = field(default_factory=Limits)
    throttle: int | None = None
    """Bytes per second and broker for every request without a throttle of its own."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path and reason of what cannot be understood: as it stood before, it goes on to hold."""
