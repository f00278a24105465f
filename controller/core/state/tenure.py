"""
The facts that are only valid in one tenure.

A claim replaces it, and so does the end of a tenure (``tenure_reset``). Outside a tenure it holds
little: the claim under way, what came meanwhile, and the pending reassignments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from controller.core import model
from controller.core.cluster.model import BEFORE_FEATURES
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import BrokerId, Instant


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time in which the daemon is the cluster's controller."""

    epoch: model.ControllerEpoch
    since: Instant


@dataclass(slots=True)
class TenureState(Ledger):
    """The reads, writes and findings of this tenure; outside a tenure, the basis of the next."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    held: Tenure | None = None
    """The tenure that is held; None outside a tenure."""
    claim_generation: int = 0
    """The generation of the claim: a read that began before it is not valid in the tenure."""
    claiming: bool = False
    """Whether a claim is under way; only its own answer ends it, also where the session is lost."""
    is_void: bool = False
    """Whether the leadership was lost since that claim was requested."""
    resigning: bool = False
    probing: bool = False
    fenced: str | None = None
    """Why the role is not used, as a sentence: a newer controller exists, or its claim is void."""
    accepted_by_broker: bool = False
    """
    Whether a broker accepted an UpdateMetadata of this tenure; nothing is changed before that.
    """
    protocol: str = BEFORE_FEATURES
    """The inter-broker protocol that the requests of this tenure follow."""
    refusers: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that refuse the requests of this tenure, by error code, until they accept again."""
    idle_since: Instant | None = None
