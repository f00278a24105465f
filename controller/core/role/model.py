"""The ledgers of the controller role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from controller import kafka_errors
from controller.core import core_settings
from controller.core.bases import Ledger, Lifetime
from controller.core.cluster.model import BEFORE_FEATURES
from controller.core.model import START, BrokerId, ControllerEpoch, Instant

if TYPE_CHECKING:
    from controller.core.role.records import ClaimGuardsRead

LASTING_REFUSALS: Final = {
    kafka_errors.CLUSTER_AUTHORIZATION_FAILED: (
        "CLUSTER_AUTHORIZATION_FAILED (the daemon's principal lacks ClusterAction on the cluster)"
    ),
    kafka_errors.UNSUPPORTED_VERSION: "UNSUPPORTED_VERSION",
}
"""Errors of whole requests that a repeated request meets again, with their reason."""


@dataclass(slots=True)
class RoleLedger(Ledger):
    """The leadership of this daemon, its engine, and the grounds for the next claim."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    leading: bool = False
    leading_since: Instant = START
    """When this daemon became the leader, the last time."""
    stopping: bool = False
    engine: core_settings.EngineName | None = None
    """The engine at work; None before it is chosen."""
    engine_why: str | None = None
    delegable: bool = False
    """Whether the cluster's controller supports AlterPartitionReassignments."""
    undelegable: str | None = None
    """Why the cluster's controller does not support it; None where it may."""
    claimed_at: Instant = START
    """When the role was last claimed: bounces since then are left to this daemon."""
    claiming: bool = False
    """Whether a claim is under way; only its own answer ends it, also where the session is lost."""
    is_void: bool = False
    """Whether the leadership was lost since that claim was requested."""
    retry_claim_at: Instant = START
    rejected_by_brokers: str | None = None
    """The reason for which brokers refused the last tenure, until one accepts a request."""
    unreached: str | None = None
    """
    The reason for which brokers could not reach the endpoint in the last tenure: with ``native``
    until the next claim, with ``auto`` as long as the process lasts.
    """
    read_generation: int = 0
    """
    How often cached reads were invalidated, by a claim or a rejected write. A read carries the
    generation in which it began, so that an answer that was under way at that is recognised.
    """
    round_at: Instant = START
    """When the next round reads states that others change."""
    round_from: int = 0
    missing_at: Instant = START
    """When missing or unreadable states of reassignments may be read again."""


@dataclass(slots=True)
class RoleSession(Ledger):
    """The facts that decide whether the native engine may claim the role."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    guards: ClaimGuardsRead | None = None


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time in which the daemon is the cluster's controller."""

    epoch: ControllerEpoch
    since: Instant


@dataclass(slots=True)
class TenureLedger(Ledger):
    """The tenure: the role as held, and what brokers make of its requests."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    held: Tenure | None = None
    """The tenure that is held; None outside a tenure."""
    claim_generation: int = 0
    """The generation of the claim: a read that began before it is not valid in the tenure."""
    resigning: bool = False
    probing: bool = False
    fenced: str | None = None
    """Why the role is not used, as a sentence: a newer controller exists, or its claim is void."""
    accepted_by_broker: bool = False
    """Whether a broker accepted an UpdateMetadata in this tenure; nothing is changed before."""
    protocol: str = BEFORE_FEATURES
    """The inter-broker protocol that the requests of this tenure follow."""
    refusers: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that refuse the requests of this tenure, by error code, until they accept again."""
    idle_since: Instant | None = None
