"""
The metrics, by name: what exists, not when it moves (that is ``measurements``).

All live in a registry of their own. Labels are bounded sets (phases, reasons, kinds, broker ids);
topics and partitions belong in logs and the status page. Names follow Kafka's ideas under
``reassigner_``. What is counted anew at every scrape is in ``gauges``.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Enum,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from controller.core.model import BlockedBy, RefusalReason
from controller.core.phases import LABELS
from controller.reactor.ports import WriteError
from controller.telemetry.cluster_counts import UNNOTED
from controller.telemetry.gauges import BrokerGauges, ControllerGauges, RequestGauges
from controller.telemetry.rpc_names import ORDER_ERRORS, OTHER
from controller.telemetry.status_publisher import Snapshot

LOOP_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
STALL_LABELS: Final = (*(by.value for by in BlockedBy), UNNOTED)
RPC_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PHASE_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)


TARGETS: Final = ("webhook", "slack", "exec")
OPERATIONS: Final = ("ping", "commit")
RESULTS: Final = ("delivered", "failed", "dropped")


class SessionState(StrEnum):
    """What kazoo says of our ZooKeeper session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Metrics:
    """Every metric of the daemon, in one registry."""

    def __init__(self) -> None:  # noqa: PLR0915 - one statement per metric
        """Make them all, at zero where a label set is known."""
        self.registry = registry = CollectorRegistry()
        # --- the loop
        self.event_queue = Histogram(
            "reassigner_event_queue_seconds",
            "Time from the arrival of an event until the loop has taken it up",
            registry=registry,
            buckets=LOOP_BUCKETS,
        )
        self.event_processing = Histogram(
            "reassigner_event_processing_seconds",
            "Time to fold one event into the view",
            ["event"],
            registry=registry,
            buckets=LOOP_BUCKETS,
        )
        self.event_queue_depth = Gauge(
            "reassigner_event_queue_depth",
            "Events that arrived and were not taken up yet",
            registry=registry,
        )
        self.turn = Histogram(
            "reassigner_turn_seconds",
            "Time of one decision, by part: decide, commit, send",
            ["part"],
            registry=registry,
            buckets=LOOP_BUCKETS,
        )
        self.write_rejections = Counter(
            "reassigner_write_rejections_total",
            "Changes the store refused, which were decided anew",
            ["error"],
            registry=registry,
        )
        # --- the work
        self.partitions = Gauge(
            "reassigner_partitions", "Reassignments by phase", ["phase"], registry=registry
        )
        self.blocked = Gauge(
            "reassigner_blocked_partitions",
            "Reassignments that wait, by what for; copying is not waiting",
            ["reason"],
            registry=registry,
        )
        self.unreachable = Gauge(
            "reassigner_unreachable_brokers",
            "Registered brokers that cannot be reached; only while we are the controller",
            registry=registry,
        )
        self.copying = Gauge(
            "reassigner_copying_partitions",
            "Reassignments whose new replicas copy and are not in sync yet; these do not wait",
            registry=registry,
        )
        self.stalled = Gauge(
            "reassigner_stalled_partitions",
            "Partitions without progress for too long, by what they wait for",
            ["reason"],
            registry=registry,
        )
        self.isr_wait = Gauge(
            "reassigner_isr_wait_oldest_seconds",
            "How long the oldest copy in flight has been awaited in its ISR; 0 when there is none",
            registry=registry,
        )
        self.isr_shrinks = Counter(
            "reassigner_isr_shrinks_total",
            "Times that a partition in flight lost replicas from its ISR, not by our doing",
            registry=registry,
        )
        self.copy_seconds = Histogram(
            "reassigner_replica_copy_seconds",
            "Time from the begin of a step until a new replica was in the ISR",
            registry=registry,
            buckets=PHASE_BUCKETS,
        )
        self.copied_bytes = Counter(
            "reassigner_copied_bytes_total",
            "Bytes of copies that came to brokers, as DescribeLogDirs tells",
            registry=registry,
        )
        self.copies_abandoned = Counter(
            "reassigner_copies_abandoned_total",
            "Replicas that were being copied and were given up, or lost sight of",
            registry=registry,
        )
        self.progress_age = Gauge(
            "reassigner_progress_age_seconds",
            "Time since a reassignment last came on; 0 when there is none",
            registry=registry,
        )
        self.under_min_isr = Gauge(
            "reassigner_under_min_isr_partitions",
            "Partitions outside the work known to be below min.insync.replicas",
            registry=registry,
        )
        self.slow_throttles = Gauge(
            "reassigner_throttles_below_produce_rate",
            "Throttles that copies under them cannot keep up with",
            registry=registry,
        )
        self.throttled = Gauge(
            "reassigner_throttled_entities",
            "Topics and brokers with a throttle of ours in their settings",
            registry=registry,
        )
        self.throttle = Gauge(
            "reassigner_throttle_bytes_per_second",
            "The throttle of everything, per broker, as an operator turned it; 0: none",
            registry=registry,
        )
        self.paused = Gauge(
            "reassigner_paused", "1 while an operator paused everything", registry=registry
        )
        self.disabled = Gauge(
            "reassigner_disabled", "1 while the kill switch is on", registry=registry
        )
        self.orphans = Gauge(
            "reassigner_orphans",
            "Replicas that were dropped and could not be deleted",
            registry=registry,
        )
        self.pace = Gauge(
            "reassigner_pace_partitions",
            "Partitions that may be in flight by the adaptive pace; 0 while there is none",
            registry=registry,
        )
        self.accepted = Counter(
            "reassigner_accepted_total", "Reassignments accepted", registry=registry
        )
        self.ended = Counter("reassigner_ended_total", "Reassignments ended", registry=registry)
        self.steps = Counter("reassigner_steps_total", "Steps begun", registry=registry)
        self.phase_seconds = Histogram(
            "reassigner_phase_seconds",
            "Time a partition spent in a phase",
            ["phase"],
            registry=registry,
            buckets=PHASE_BUCKETS,
        )
        self.refusals = Counter(
            "reassigner_refusals_total", "Entries refused, by reason", ["reason"], registry=registry
        )
        self.last_progress = Gauge(
            "reassigner_last_progress_timestamp_seconds",
            "When a reassignment last came on (Unix time)",
            registry=registry,
        )
        # --- the role
        self.leader = Gauge(
            "reassigner_leader", "1 while this daemon leads among the daemons", registry=registry
        )
        self.tenure_held = Gauge(
            "reassigner_tenure_held", "1 while we are the cluster's controller", registry=registry
        )
        self.controller_epoch = Gauge(
            "reassigner_controller_epoch", "The epoch of our latest claim", registry=registry
        )
        self.tenure_seconds = Gauge(
            "reassigner_tenure_seconds",
            "How long we have been the cluster's controller; 0 while we are not",
            registry=registry,
        )
        self.recoveries = Counter(
            "reassigner_recoveries_total",
            "Tenures that began with steps in flight that somebody else began",
            registry=registry,
        )
        self.recovered = Counter(
            "reassigner_recovered_partitions_total",
            "Steps in flight that a tenure began with",
            registry=registry,
        )
        self.claims = Counter(
            "reassigner_claims_total", "Successful claims of /controller", registry=registry
        )
        self.claim_failures = Counter(
            "reassigner_claim_failures_total", "Claims that did not succeed", registry=registry
        )
        self.resignations = Counter(
            "reassigner_resignations_total",
            "Tenures that ended, given back or lost",
            registry=registry,
        )
        self.session = Enum(
            "reassigner_zookeeper_session",
            "State of the ZooKeeper session",
            states=[s.value for s in SessionState],
            registry=registry,
        )
        self.zookeeper = Histogram(
            "reassigner_zookeeper_seconds",
            "How long ZooKeeper took to answer: ping (a small read), commit (all multis of a turn)",
            ["operation"],
            registry=registry,
            buckets=RPC_BUCKETS,
        )
        # --- brokers
        self.brokers = Gauge("reassigner_brokers", "Brokers that are registered", registry=registry)
        self.rpcs_sent = Counter(
            "reassigner_rpcs_sent_total",
            "Controller requests handed to a broker's channel",
            ["broker", "kind"],
            registry=registry,
        )
        self.rpc_seconds = Histogram(
            "reassigner_rpc_seconds",
            "Time from the first sending of a controller request to its answer",
            ["broker", "kind"],
            registry=registry,
            buckets=RPC_BUCKETS,
        )
        self.rpc_errors = Counter(
            "reassigner_rpc_errors_total",
            "Errors in brokers' answers, of whole requests and of single partitions",
            ["broker", "kind", "error"],
            registry=registry,
        )
        self.effects_in_flight = Gauge(
            "reassigner_effects_inflight",
            "Controller requests sent to a broker and not answered yet",
            ["broker"],
            registry=registry,
        )
        # --- the delegated engine
        self.orders = Counter(
            "reassigner_orders_total",
            "Partitions that the cluster's controller was told of, by its answer (delegated)",
            ["result"],
            registry=registry,
        )
        self.order_seconds = Histogram(
            "reassigner_order_seconds",
            "Time until the cluster's controller answered, changes of the controller included",
            registry=registry,
            buckets=RPC_BUCKETS,
        )
        self.orders_unanswered = Gauge(
            "reassigner_orders_unanswered",
            "Partitions that the cluster's controller was told of and has not answered yet",
            registry=registry,
        )
        # --- what we tell
        self.journal_dropped = Counter(
            "reassigner_journal_dropped_total",
            "Journal lines lost because the disk did not keep up, or was full",
            registry=registry,
        )
        self.notifications = Counter(
            "reassigner_notifications_total",
            "Notifications by where to (webhook, slack, exec) and what became of them "
            "(delivered, failed, dropped)",
            ["target", "result"],
            registry=registry,
        )
        self.build = Info("reassigner_build", "What runs here", registry=registry)
        ProcessCollector(namespace="reassigner", registry=registry)
        self._collected = (ControllerGauges(), RequestGauges(), BrokerGauges())
        for collector in self._collected:
            registry.register(collector)
        self._journal_lost = 0
        self._at_zero()

    def _at_zero(self) -> None:
        self.session.state(SessionState.LOST.value)
        for label in LABELS.values():
            self.partitions.labels(label)
        for by in BlockedBy:
            self.blocked.labels(by.value)
        for label in STALL_LABELS:
            self.stalled.labels(label)
        for reason in RefusalReason:
            self.refusals.labels(reason.value)
        for target in TARGETS:
            for result in RESULTS:
                self.notifications.labels(target, result)
        for operation in OPERATIONS:
            self.zookeeper.labels(operation)
        for result in (*ORDER_ERRORS.values(), OTHER):
            self.orders.labels(result)
        for error in WriteError:
            self.write_rejections.labels(error.value)

    def session_is(self, state: SessionState) -> None:
        """Note what became of the ZooKeeper session; safe from any thread."""
        self.session.state(state.value)

    def zookeeper_took(self, operation: str, seconds: float) -> None:
        """Note how long ZooKeeper took; safe from any thread."""
        self.zookeeper.labels(operation).observe(seconds)

    def notified(self, target: str, result: str) -> None:
        """Count a notification's fate; safe from any thread."""
        self.notifications.labels(target, result).inc()

    def show(self, snapshot: Snapshot) -> None:
        """Set the gauges that are counted, not incremented."""
        for label in LABELS.values():
            self.partitions.labels(label).set(snapshot.work.phases[label])
        for by in BlockedBy:
            self.blocked.labels(by.value).set(snapshot.work.blocked[by.value])
        self.unreachable.set(len(snapshot.unreachable))
        self.copying.set(snapshot.work.copying)
        stalled = Tally(snapshot.work.stalled.values())
        for label in STALL_LABELS:
            self.stalled.labels(label).set(stalled[label])
        self.under_min_isr.set(snapshot.strain.under_min_isr)
        self.slow_throttles.set(len(snapshot.strain.slow))
        self.throttled.set(snapshot.strain.throttled)
        self.pace.set(snapshot.strain.pace or 0)
        role = snapshot.role
        self.throttle.set(role.throttle)
        self.paused.set(role.paused)
        self.disabled.set(role.disabled)
        self.orphans.set(role.orphans)
        self.orders_unanswered.set(role.orders_unanswered)
        self.brokers.set(role.brokers)
        self.tenure_seconds.set(role.tenure_s)
        self.isr_wait.set(role.oldest_isr_wait_s)
        for collector in self._collected:
            collector.snapshot = snapshot

    def lost_lines(self, total: int) -> None:
        """Note how many lines the journal has lost so far."""
        self.journal_dropped.inc(max(0, total - self._journal_lost))
        self._journal_lost = max(total, self._journal_lost)

    def watch_queue(self, depth: Callable[[], int]) -> None:
        """Look here for how many events wait."""
        self.event_queue_depth.set_function(depth)

    def labels_of(self, family: Metric) -> tuple[str, ...]:
        """Return the names of a family's labels, whether it has samples or not."""
        own = getattr(family, "_labelnames", None)
        if own is None:
            wrapped = (m for m in vars(self).values() if isinstance(m, MetricWrapperBase))
            own = next((m._labelnames for m in wrapped if m._name == family.name), ())  # noqa: SLF001 - not told otherwise
        return tuple(own)

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)
