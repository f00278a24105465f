"""
Live controls of operators: pauses, limits, throttle, drains; durable and shared by all daemons.

Each is one znode below ``/reassigner/control`` that the command line edits and the daemon watches.
A value that is not set there is taken from the daemon's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from zlib import crc32

from controller.core.model import (
    BrokerId,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
    ids,
)
from controller.core.requests.submissions import (
    FIRST_VERSION,
    UNASKED,
    RequestOptions,
    StepSize,
    Throttle,
    Window,
    drain_request_id,
)

PAUSES: Final = "/reassigner/control/pauses"
LIMITS: Final = "/reassigner/control/limits"
THROTTLE: Final = "/reassigner/control/throttle"
DRAINS: Final = "/reassigner/control/drains"
DISABLED: Final = "reassignments are disabled: /admin/reassign_cancel exists"
"""The reason for which an entry is refused while the kill switch is on."""
TEXT_MAX: Final = 1000
"""The most characters of a reason that is put together: as many as one may have."""
AT_ONCE: Final = 0
"""The deadline of a quiesce that lets nothing end first."""
UNTHROTTLED: Final = 2**63 - 1
"""A throttle that means none: Kafka's default rate, which every release can read."""


class QueueOrder(StrEnum):
    """The order among pending partitions of equal priority."""

    SUBMITTED = "submitted"
    """Round robin between requests, within a request as it lists them."""
    SMALL_FIRST = "small_first"
    LARGE_FIRST = "large_first"
    MOST_USEFUL_FIRST = "most_useful_first"
    """First the one that relieves the fullest broker."""


class UnderMinIsr(StrEnum):
    """The effect of partitions below min.insync.replicas, without a reassignment, on new steps."""

    WAIT = "wait"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: no new step begins, steps in flight run to their end."""

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Quiesce:
    """
    The end of all work, until it is resumed.

    Nothing new is accepted, and what has not begun is cancelled. What has begun ends, or is rolled
    back at the deadline.
    """

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""
    deadline_ms: int | None = None
    """Milliseconds since 1970, ``AT_ONCE``, or None: what has begun ends in its own time."""

    @property
    def request(self) -> RequestId:
        """The id under which it cancels reassignments."""
        return RequestId(f"quiesce-{self.since_ms}")

    def __str__(self) -> str:
        """Return the reason for which an entry is refused meanwhile."""
        by = f" by {self.by}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"the reassigner is quiesced{by}{reason} (`reassigner resume` ends that)"


@dataclass(frozen=True, slots=True)
class Pauses:
    """``/reassigner/control/pauses``."""

    everything: Pause | None = None
    requests: Mapping[RequestId, Pause] = field(default_factory=dict)
    brokers: Mapping[BrokerId, Pause] = field(default_factory=dict)
    """No step begins that copies to or from these brokers."""
    quiesce: Quiesce | None = None

    def adding(
        self, new: Pause, requests: Iterable[RequestId] = (), brokers: Iterable[BrokerId] = ()
    ) -> Pauses:
        """Pause requests and brokers, or everything; pauses that exist stay as they are."""
        own, of_brokers = dict.fromkeys(requests, new), dict.fromkeys(brokers, new)
        if not own and not of_brokers:
            return replace(self, everything=self.everything or new)
        return replace(
            self, requests={**own, **self.requests}, brokers={**of_brokers, **self.brokers}
        )

    def quiescing(self, new: Quiesce) -> Pauses:
        """
        Quiesce, or change the deadline if the new one has any.

        The general pause ends: it would hold what is to end.
        """
        found = self.quiesce or new
        if new.deadline_ms is not None:
            found = replace(found, deadline_ms=new.deadline_ms)
        return replace(self, everything=None, quiesce=found)

    def removing(
        self, requests: Iterable[RequestId] = (), brokers: Iterable[BrokerId] = ()
    ) -> Pauses:
        """Remove the pauses of requests and brokers, or the general pause and the quiesce."""
        ended, free = frozenset(requests), frozenset(brokers)
        if not ended and not free:
            return replace(self, everything=None, quiesce=None)
        return replace(
            self,
            requests={r: pause for r, pause in self.requests.items() if r not in ended},
            brokers={b: pause for b, pause in self.brokers.items() if b not in free},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """Limits of one broker; None: the limit of all brokers."""

    max_incoming: int | None = None
    max_outgoing: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Options of a request that were changed after submission; None: as submitted."""

    priority: int | None = None
    step_size: StepSize | None = None
    max_partitions_in_flight: int | None = None
    throttle: Throttle | None = None
    """Bytes per second and broker; ``UNTHROTTLED`` lifts any throttle of the request or of all."""
    window: Window | None = None
    tolerate_lagging: Replicas | None = None
    """Brokers whose replicas are not waited for where they stay and are not in sync."""


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
    under_min_isr: UnderMinIsr | None = None
    window: Window | None = None
    """The window of all requests."""
    brokers: Mapping[BrokerId, BrokerLimits] = field(default_factory=dict)
    requests: Mapping[RequestId, RequestLimits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drain:
    """The drain of a broker: its replicas go elsewhere, and new ones too, as long as it stands."""

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""
    approved_by: str = ""
    """Who approved it, which ``require_approval`` demands."""


@dataclass(frozen=True, slots=True)
class Drains:
    """
    ``/reassigner/control/drains``: the drained brokers, and the options of their one request.

    The creation of the znode identifies the request. Before it is written, its version and czxid
    have no meaning.
    """

    brokers: Mapping[BrokerId, Drain] = field(default_factory=dict)
    throttle: Throttle | None = None
    """Bytes per second and broker for its copies; None: no throttle of its own."""
    window: Window | None = None
    version: ZkVersion = FIRST_VERSION
    czxid: Zxid = UNASKED

    @property
    def request(self) -> RequestId:
        """The id of the request with which the replicas are moved."""
        return drain_request_id(self.czxid)

    @property
    def text(self) -> str:
        """What that request is for, where no drain has a reason."""
        return f"drain of broker {ids(sorted(self.brokers))}"

    @property
    def options(self) -> RequestOptions:
        """The options of that request; the author is that of the last broker."""
        last = max(self.brokers.values(), key=lambda d: d.since_ms, default=Drain())
        return RequestOptions(
            reason=self._reasons(),
            requested_by=last.by,
            approved_by=last.approved_by,
            throttle=self.throttle,
            window=self.window,
        )

    def _reasons(self) -> str:
        """Return the reason of all drains, or of each if they differ."""
        reasons = {drain.reason for drain in self.brokers.values()}
        if len(reasons) == 1:
            return reasons.pop()
        each = (f"broker {b}: {d.reason}" for b, d in sorted(self.brokers.items()) if d.reason)
        return "; ".join(each)[:TEXT_MAX]

    def adding(self, new: Drain, brokers: Iterable[BrokerId]) -> Drains:
        """Drain brokers; of drains that exist, only a missing approval is added."""
        found = {b: self.brokers.get(b, new) for b in brokers}
        approved = {
            b: drain if drain.approved_by else replace(drain, approved_by=new.approved_by)
            for b, drain in found.items()
        }
        return replace(self, brokers={**self.brokers, **approved})

    def removing(self, brokers: Iterable[BrokerId]) -> Drains:
        """End the drains of brokers."""
        ended = frozenset(brokers)
        kept = {b: drain for b, drain in self.brokers.items() if b not in ended}
        return replace(self, brokers=kept)


@dataclass(frozen=True, slots=True)
class Evacuation:
    """The evacuation of a broker from leaderships."""

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""
    returning: bool = False
    """Whether its leaderships are on their way back."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Everything below ``/reassigner/control``."""

    pauses: Pauses = field(default_factory=Pauses)
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle | None = None
    """Bytes per second and broker for every request without a throttle of its own."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path and reason of each unreadable control; its former value stays in force."""
    drains: Drains = field(default_factory=Drains)
    evacuated: Mapping[BrokerId, Evacuation] | None = field(default_factory=dict)
    """The brokers evacuated from leaderships, which are only shown; None: they are unreadable."""

    @property
    def digest(self) -> str:
        """A short text that changes with them: whether a daemon has read what was written."""
        return f"{crc32(repr(self).encode()):08x}"


@dataclass(frozen=True, slots=True)
class Evacuations:
    """``/reassigner/control/evacuations``; the way back is for commands, the daemon ignores it."""

    brokers: Mapping[BrokerId, Evacuation] = field(default_factory=dict)
    former: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    """The order of the replicas before the first evacuation that changed it."""

    @property
    def away(self) -> frozenset[BrokerId]:
        """The brokers that are to lead nothing."""
        return frozenset(b for b, about in self.brokers.items() if not about.returning)
