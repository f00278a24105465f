"""The settings that the core uses: values only, validated in ``controller.settings``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller.core.cluster.model import LiveBroker
from controller.core.model import MinFree
from controller.core.pacing.controls import QueueOrder, UnderMinIsr
from controller.core.requests.submissions import Throttle


class EngineName(StrEnum):
    """The engine that changes the replicas of partitions."""

    AUTO = "auto"
    """Native where it is safe, else delegated."""
    NATIVE = "native"
    """The daemon, as the cluster's controller while it works."""
    DELEGATED = "delegated"
    """The cluster's own controller, by AlterPartitionReassignments (KIP-455)."""


class ForeignMoves(StrEnum):
    """The effect of foreign reassignments on ours; the native engine carries them out itself."""

    WAIT = "wait"
    """No step of ours begins before they have ended."""
    BESIDE = "beside"
    """Ours continue beside them; only their partitions wait."""
    REFUSE = "refuse"
    """Requests submitted while there are any are refused."""
    ADOPT = "adopt"
    """
    They are treated as ours: they count in the limits and in "cancel everything", and a request may
    replace one.
    """


class TenurePolicy(StrEnum):
    """The time for which the daemon holds ``/controller``."""

    ON_DEMAND = "on_demand"
    """While there is work, and for ``tenure_linger`` afterwards."""
    PERMANENT = "permanent"


class LegacyMode(StrEnum):
    """The content of ``/admin/reassign_partitions`` while the daemon works."""

    ABSORB = "absorb"
    """Only what is in flight: a Kafka controller that takes over starts nothing else."""
    MIRROR = "mirror"
    """Every unfinished entry."""


REQUEST_BYTES: Final = 1_000_000
"""The largest request to a ZooKeeper with the default ``jute.maxbuffer``, including its frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of scheduling, and of holding the role."""

    engine: EngineName = EngineName.NATIVE
    foreign_moves: ForeignMoves = ForeignMoves.WAIT
    require_approval: bool = False
    """Whether only entries of approved plans are accepted."""
    controller_id: int = 1000000
    """Never a broker id."""
    endpoint: LiveBroker | None = None
    """Where brokers reach this daemon as their controller; None: nowhere."""
    id_seed: bytes = b""
    """Random bytes of this process, from which the ids of topics without one are derived."""
    serves_clients: bool = False
    """Whether clients may find the endpoint: what it does not answer is relayed to a broker."""
    step_size: int | None = 1
    """Replicas added per step; None is ``all``, the classic single jump."""
    tenure: TenurePolicy = TenurePolicy.ON_DEMAND
    tenure_linger_s: float = 30.0
    legacy_mode: LegacyMode = LegacyMode.ABSORB
    max_partitions_in_flight: int = 100
    max_incoming_per_broker: int = 10
    max_outgoing_per_broker: int = 10
    max_bytes_in_flight: int | None = None
    """As far as sizes are known; None: no limit."""
    min_free: MinFree | None = None
    """What copies leave free in each log directory; None: disks are not guarded."""
    max_leader_moves_per_broker_per_second: int = 50
    order: QueueOrder = QueueOrder.SUBMITTED
    outcomes_kept: int = 200
    """Ended requests whose outcome is kept."""
    under_min_isr: UnderMinIsr = UnderMinIsr.WAIT
    throttle: Throttle | None = None
    """Bytes per second and broker for every request without a throttle of its own; None: none."""
    latency_objective_s: float = 0.5
    """The 99th percentile of acknowledgements to producers that a throttle ``auto`` keeps."""
    throttle_min: int = 5_000_000
    throttle_max: int = 1_000_000_000
    """The bounds of a throttle ``auto``, in bytes per second and broker."""
    size_refresh_s: float = 60.0
    copy_refresh_s: float = 10.0
    stop_replica_timeout_s: float = 60.0
    config_refresh_s: float = 60.0
    preferred_election: bool = True
    preferred_elections_per_second: int = 20
    auto_leader_rebalance: bool = False
    """Whether preferred leaders are elected without a request, as Kafka's controller does."""
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_s: float = 300.0
    claim_retry_s: float = 2.0
    seed_chunk: int = 1000
    """States read per round trip while the view is filled in the background."""
    acceptance_chunk: int = 500
    """Entries of a plan accepted per cycle, so that a huge plan does not delay a small one."""
    look_chunk: int = 3000
    """Partitions examined per cycle, of new ones and of held ones each."""
    request_bytes: int = REQUEST_BYTES
    """The largest request to ZooKeeper, which closes connections that exceed ``jute.maxbuffer``."""
    multi_operations: int = 400
    """Operations per multi; a change that needs more has a multi of its own."""
