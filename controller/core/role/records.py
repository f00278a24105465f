"""Events and records of the leadership among the daemons, and of the controller role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from controller.core import model, options
from controller.core.bases import Fact, Flags, Volatile
from controller.core.model import BrokerId, Instant


@dataclass(frozen=True, slots=True)
class ClaimGuardsRead(Fact):
    """The facts that decide whether the native engine may claim the role in this cluster."""

    wakes: ClassVar[Flags] = ("tenure",)

    controller_broker: BrokerId | None
    """The broker in ``/controller``; None when the znode does not exist."""
    controller_is_ephemeral: bool
    kraft_controller_epoch: int
    feature_enabled: bool
    migration: str | None
    """The reason for which ``/migration`` forbids a claim; None when it permits one."""


@dataclass(frozen=True, slots=True)
class LeadershipGained(Fact):
    """This daemon leads among the daemons."""

    wakes: ClassVar[Flags] = ("tenure", "deletions")


@dataclass(frozen=True, slots=True)
class LeadershipLost(Fact):
    """Another daemon leads, or the leader is unknown."""

    wakes: ClassVar[Flags] = ("tenure", "listed_topics")

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerClaimed(Fact):
    """``/controller`` is ours at this epoch."""

    wakes: ClassVar[Flags] = ("claimed", "plan", "capacity", "tenure", "deletions")

    epoch: model.ControllerEpoch


@dataclass(frozen=True, slots=True)
class ClaimFailed(Fact):
    """The claim failed; it may be tried again."""

    wakes: ClassVar[Flags] = ("tenure",)

    reason: str


@dataclass(frozen=True, slots=True)
class Deposed(Fact):
    """The claim is lost or given up: no write or request is allowed any more."""

    wakes: ClassVar[Flags] = ("tenure", "listed_topics")

    reason: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested(Fact):
    """The process has to stop: resign and end."""

    wakes: ClassVar[Flags] = ("tenure",)


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered(Fact):
    """A broker's answer to UpdateMetadata."""

    wakes: ClassVar[Flags] = ()

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReassignmentsProbed(Fact):
    """Whether the controller supports AlterPartitionReassignments; ``problem`` None if so."""

    wakes: ClassVar[Flags] = ("tenure",)

    problem: str | None
    is_final: bool = False
    """Whether the problem is permanent: its release does not know the request."""


@dataclass(frozen=True, slots=True)
class EngineRecord(Volatile):
    """The engine from now on, and why."""

    wakes: ClassVar[Flags] = ("tenure",)

    engine: options.EngineName
    why: str


@dataclass(frozen=True, slots=True)
class StatesPolledRecord(Volatile):
    """Some states are being read again; when the next follow, and from which on."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    again: Instant
    next_from: int


@dataclass(frozen=True, slots=True)
class IdleRecord(Volatile):
    """Since when there has been nothing to do; None when there is."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    since: Instant | None


@dataclass(frozen=True, slots=True)
class YieldedRecord(Volatile):
    """The role is given up so that these topics can be deleted."""

    wakes: ClassVar[Flags] = ()

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class RoleCededRecord(Volatile):
    """The role is given up so that a broker carries out this request of a client."""

    wakes: ClassVar[Flags] = ()

    request: str


@dataclass(frozen=True, slots=True)
class UpdateRefusedRecord(Volatile):
    """The role is given up because brokers refuse the requests of the tenure."""

    wakes: ClassVar[Flags] = ()

    why: str


@dataclass(frozen=True, slots=True)
class EndpointUnreachedRecord(Volatile):
    """The role is given up because brokers cannot reach the controller endpoint."""

    wakes: ClassVar[Flags] = ()

    brokers: frozenset[BrokerId]
    why: str


RoleEvent = (
    ClaimGuardsRead
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
