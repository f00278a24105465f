"""Events and records of the cluster, the leadership among the daemons, and the controller role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core import core_settings
from controller.core.bases import Fact, Volatile
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerEpoch, BrokerId, ControllerEpoch, Instant


@dataclass(frozen=True, slots=True)
class BrokersRead(Fact, wakes=("tenure",)):
    """All registrations under ``/brokers/ids``."""

    brokers: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True)
class BrokerSettingsRead(Fact, wakes=("tenure", "plan", "capacity", "deletions")):
    """Settings of a broker that change with a restart only, and matter to a controller."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    """A broker reads the settings when it starts."""
    deletes_topics: bool | None
    """``delete.topic.enable``; None: it did not answer."""
    problem: str = ""
    """Why it did not answer."""
    protocol: str | None = None
    """``inter.broker.protocol.version``; None: it did not answer, or with none."""


@dataclass(frozen=True, slots=True)
class ClaimGuardsRead(Fact, wakes=("tenure",)):
    """The facts that decide whether the native engine may claim the role in this cluster."""

    controller_broker: BrokerId | None
    """The broker in ``/controller``; None when the znode does not exist."""
    controller_is_ephemeral: bool
    kraft_controller_epoch: int
    feature_enabled: bool
    migration: str | None
    """The reason for which ``/migration`` forbids a claim; None when it permits one."""


@dataclass(frozen=True, slots=True)
class LeadershipGained(Fact, wakes=("tenure", "deletions")):
    """This daemon leads among the daemons."""


@dataclass(frozen=True, slots=True)
class LeadershipLost(Fact, wakes=("tenure", "listed_topics")):
    """Another daemon leads, or the leader is unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerClaimed(Fact, wakes=("claimed", "plan", "capacity", "tenure", "deletions")):
    """``/controller`` is ours at this epoch."""

    epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class ClaimFailed(Fact, wakes=("tenure",)):
    """The claim failed; it may be tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deposed(Fact, wakes=("tenure", "listed_topics")):
    """The claim is lost or given up: no write or request is allowed any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested(Fact, wakes=("tenure",)):
    """The process has to stop: resign and end."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered(Fact, wakes=()):
    """A broker's answer to UpdateMetadata."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: int
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReassignmentsProbed(Fact, wakes=("tenure",)):
    """Whether the controller supports AlterPartitionReassignments; ``problem`` None if so."""

    problem: str | None
    is_final: bool = False
    """Whether the problem is permanent: its release does not know the request."""


@dataclass(frozen=True, slots=True)
class EngineRecord(Volatile, wakes=("tenure",)):
    """The engine from now on, and why."""

    engine: core_settings.EngineName
    why: str


@dataclass(frozen=True, slots=True)
class StatesPolledRecord(Volatile, wakes=(), is_journaled=False):
    """Some states are being read again; when the next follow, and from which on."""

    again: Instant
    next_from: int


@dataclass(frozen=True, slots=True)
class IdleRecord(Volatile, wakes=(), is_journaled=False):
    """Since when there has been nothing to do; None when there is."""

    since: Instant | None


@dataclass(frozen=True, slots=True)
class YieldedRecord(Volatile, wakes=()):
    """The role is given up so that these topics can be deleted."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class RoleCededRecord(Volatile, wakes=()):
    """The role is given up so that a broker carries out this request of a client."""

    request: str


@dataclass(frozen=True, slots=True)
class UpdateRefusedRecord(Volatile, wakes=()):
    """The role is given up because brokers refuse the requests of the tenure."""

    why: str


@dataclass(frozen=True, slots=True)
class EndpointUnreachedRecord(Volatile, wakes=()):
    """The role is given up because brokers cannot reach the controller endpoint."""

    brokers: frozenset[BrokerId]
    why: str


RoleEvent = (
    BrokersRead
    | BrokerSettingsRead
    | ClaimGuardsRead
    | LeadershipGained
    | LeadershipLost
    | ControllerClaimed
    | ClaimFailed
    | Deposed
    | ShutdownRequested
    | UpdateMetadataAnswered
    | ReassignmentsProbed
)


RoleRecord = (
    EngineRecord
    | StatesPolledRecord
    | IdleRecord
    | YieldedRecord
    | RoleCededRecord
    | UpdateRefusedRecord
    | EndpointUnreachedRecord
)
