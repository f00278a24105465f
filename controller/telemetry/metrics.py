"""
The metrics by name: which exist; ``measurements`` says when they change.

Names follow Kafka's with the prefix ``reassigner_``. Labels have bounded values (phases, reasons,
kinds, broker ids); topics and partitions are in logs and on the status page. ``gauges`` has the
metrics that are computed at each scrape.
"""

from __future__ import annotations

from collections import Counter as Tally
from enum import StrEnum
from functools import partial
from typing import Final

import prometheus_client as prometheus

from controller.core.model import BlockedBy, RefusalReason
from controller.core.reassignments.phases import LABELS
from controller.reactor.ports import WriteError
from controller.telemetry.cluster_counts import UNNOTED
from controller.telemetry.gauges import SnapshotGauges
from controller.telemetry.rpc_names import ALTER_ERRORS, OTHER
from controller.telemetry.status_publisher import StatusSnapshot

NAMESPACE: Final = "reassigner"
"""Begins every name, as Prometheus recommends."""
LOOP_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
STALL_LABELS: Final = (*(by.value for by in BlockedBy), UNNOTED)
RPC_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PHASE_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
TARGETS: Final = ("webhook", "slack", "exec")
OPERATIONS: Final = ("ping", "commit")
RESULTS: Final = ("delivered", "failed", "dropped")


class SessionStatus(StrEnum):
    """The states of a ZooKeeper session, as kazoo names them."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Metrics:
    """Every metric of the daemon, in one registry."""

    def __init__(self) -> None:  # noqa: PLR0915 - one statement per metric
        self.registry = registry = prometheus.CollectorRegistry()
        counter = partial(prometheus.Counter, namespace=NAMESPACE, registry=registry)
        gauge = partial(prometheus.Gauge, namespace=NAMESPACE, registry=registry)
        histogram = partial(prometheus.Histogram, namespace=NAMESPACE, registry=registry)
        loop = partial(histogram, buckets=LOOP_BUCKETS)
        rpc = partial(histogram, buckets=RPC_BUCKETS)
        phase = partial(histogram, buckets=PHASE_BUCKETS)
        # --- the loop
        self.event_queue = loop(
            "event_queue_seconds", "Time from the arrival of an event until it is handled"
        )
        self.event_processing = loop(
            "event_processing_seconds", "Time to update the view from one event", ["event"]
        )
        self.event_queue_depth = gauge("event_queue_depth", "Events that wait to be handled")
        self.turn = loop(
            "turn_seconds", "Time of one cycle of the loop, by part: decide, commit, send", ["part"]
        )
        self.write_rejections = counter(
            "write_rejections_total",
            "Changes that the store rejected; they are decided again",
            ["error"],
        )
        # --- reassignments
        self.partitions = gauge("partitions", "Reassignments by phase", ["phase"])
        self.blocked = gauge(
            "blocked_partitions",
            "Blocked reassignments by reason; copying is not blocked",
            ["reason"],
        )
        self.copying = gauge(
            "copying_partitions",
            "Reassignments whose added replicas are not in the ISR yet and that are not blocked",
        )
        self.stalled = gauge(
            "stalled_partitions",
            "Reassignments without progress for longer than stalled_after, by reason",
            ["reason"],
        )
        self.isr_wait = gauge(
            "isr_wait_oldest_seconds",
            "Age of the oldest copy in flight that is not in the ISR; 0 without one",
        )
        self.isr_shrinks = counter(
            "isr_shrinks_total",
            "Times that a partition in flight lost replicas from its ISR that were not dropped",
        )
        self.copy_seconds = phase(
            "replica_copy_seconds",
            "Time from the start of a step until an added replica was in the ISR",
        )
        self.copied_bytes = counter(
            "copied_bytes_total", "Bytes copied to brokers, from DescribeLogDirs"
        )
        self.copies_abandoned = counter(
            "copies_abandoned_total",
            "Copies that were cancelled, or unfinished when the tenure ended",
        )
        self.progress_age = gauge(
            "progress_age_seconds",
            "Seconds since any reassignment last made progress; 0 without reassignments",
        )
        self.under_min_isr = gauge(
            "under_min_isr_partitions",
            "Partitions without a reassignment below min.insync.replicas",
        )
        self.slow_throttles = gauge(
            "throttles_below_produce_rate",
            "Throttles below the rate at which producers write to the partitions that are copied",
        )
        self.throttled = gauge(
            "throttled_entities", "Topics and brokers with a throttle set by the daemon"
        )
        self.throttle = gauge(
            "throttle_bytes_per_second",
            "The live throttle of all reassignments, per broker; 0: none",
        )
        self.paused = gauge("paused", "1 while everything is paused")
        self.disabled = gauge("disabled", "1 while new reassignments are disabled (kill switch)")
        self.orphans = gauge("orphans", "Dropped replicas whose deletion is not confirmed")
        self.pace = gauge(
            "pace_partitions", "The adaptive limit of partitions in flight; 0 without one"
        )
        self.accepted = counter("accepted_total", "Reassignments accepted")
        self.ended = counter("ended_total", "Reassignments ended")
        self.steps = counter(
            "steps_total", "Steps begun, or requested from the cluster's controller"
        )
        self.phase_seconds = phase(
            "phase_seconds", "Time that a partition spent in a phase", ["phase"]
        )
        self.refusals = counter("refusals_total", "Refused entries by reason", ["reason"])
        self.last_progress = gauge(
            "last_progress_timestamp_seconds", "When a reassignment last made progress (Unix time)"
        )
        # --- the controller role
        self.leader = gauge("leader", "1 while this daemon is the leader of the daemons")
        self.tenure_held = gauge("tenure_held", "1 while this daemon is the cluster's controller")
        self.controller_epoch = gauge(
            "controller_epoch", "The controller epoch of the latest claim"
        )
        self.tenure_seconds = gauge(
            "tenure_seconds",
            "Seconds since this daemon became the cluster's controller; 0 while it is not",
        )
        self.recoveries = counter(
            "recoveries_total", "Tenures that started with steps in flight of another process"
        )
        self.recovered = counter(
            "recovered_partitions_total", "Steps in flight when a tenure started"
        )
        self.claims = counter("claims_total", "Successful claims of the controller role")
        self.claim_failures = counter("claim_failures_total", "Failed claims")
        self.resignations = counter(
            "resignations_total", "Tenures that ended, by resignation or by loss"
        )
        self.session = prometheus.Enum(
            "zookeeper_session",
            "State of the ZooKeeper session",
            states=[s.value for s in SessionStatus],
            registry=registry,
            namespace=NAMESPACE,
        )
        self.zookeeper = rpc(
            "zookeeper_seconds",
            "Response time of ZooKeeper: ping (a small read), commit (all multis of a cycle)",
            ["operation"],
        )
        # --- brokers
        self.brokers = gauge("brokers", "Registered brokers")
        self.unreachable = gauge(
            "unreachable_brokers",
            "Registered brokers that cannot be reached; only while the daemon is the controller",
        )
        self.rpcs_sent = counter(
            "rpcs_sent_total",
            "Controller requests handed to a broker's channel",
            ["broker", "kind"],
        )
        self.rpc_seconds = rpc(
            "rpc_seconds",
            "Time from the first sending of a controller request to its response",
            ["broker", "kind"],
        )
        self.rpc_errors = counter(
            "rpc_errors_total",
            "Errors in responses of brokers, of whole requests and of single partitions",
            ["broker", "kind", "error"],
        )
        self.effects_in_flight = gauge(
            "effects_inflight",
            "Controller requests sent to a broker without a response yet",
            ["broker"],
        )
        # --- the controller endpoint
        self.endpoint_peers = gauge(
            "endpoint_connections", "Open connections to the controller endpoint"
        )
        self.endpoint_requests = counter(
            "endpoint_requests_total",
            "Requests to the controller by the error of the answer as a whole",
            ["request", "result"],
        )
        self.endpoint_closed = counter(
            "endpoint_closed_total",
            "Connections that the controller endpoint closed, by reason",
            ["reason"],
        )
        self.endpoint_unreached = counter(
            "endpoint_unreached_total",
            "Tenures given up because this broker sent no ISR change to the controller endpoint",
            ["broker"],
        )
        # --- the delegated engine
        self.alter_entries = counter(
            "orders_total",
            "Partitions of alter requests by the controller's response (delegated engine)",
            ["result"],
        )
        self.alter_entry_seconds = rpc(
            "order_seconds", "Response time of alter requests, changes of the controller included"
        )
        self.alter_entries_unanswered = gauge(
            "orders_unanswered", "Partitions of alter requests without a response yet"
        )
        # --- journal and notifications
        self.journal_dropped = counter(
            "journal_dropped_total", "Journal lines lost because the disk was slow or full"
        )
        self.notifications = counter(
            "notifications_total",
            "Notifications by target (webhook, slack, exec) and result "
            "(delivered, failed, dropped)",
            ["target", "result"],
        )
        self.build = prometheus.Info(
            "build", "Version and engine", registry=registry, namespace=NAMESPACE
        )
        prometheus.ProcessCollector(namespace=NAMESPACE, registry=registry)
        self._gauges = SnapshotGauges()
        registry.register(self._gauges)
        self._journal_lost = 0
        self._create_series()

    def _create_series(self) -> None:
        """Export the series whose label values are known before anything happens."""
        self.session.state(SessionStatus.LOST.value)
        for metric, values in (
            (self.partitions, LABELS.values()),
            (self.blocked, [by.value for by in BlockedBy]),
            (self.stalled, STALL_LABELS),
            (self.refusals, [reason.value for reason in RefusalReason]),
            (self.zookeeper, OPERATIONS),
            (self.alter_entries, [*ALTER_ERRORS.values(), OTHER]),
            (self.write_rejections, [error.value for error in WriteError]),
        ):
            for value in values:
                metric.labels(value)
        for target in TARGETS:
            for result in RESULTS:
                self.notifications.labels(target, result)

    def session_is(self, state: SessionStatus) -> None:
        """Set the state of the ZooKeeper session; safe from any thread."""
        self.session.state(state.value)

    def zookeeper_took(self, operation: str, seconds: float) -> None:
        """Observe a response time of ZooKeeper; safe from any thread."""
        self.zookeeper.labels(operation).observe(seconds)

    def count_notification(self, target: str, result: str) -> None:
        """Count a notification; safe from any thread."""
        self.notifications.labels(target, result).inc()

    def endpoint_connections(self, count: int) -> None:
        """Set the number of connections to the controller endpoint; safe from any thread."""
        self.endpoint_peers.set(count)

    def endpoint_answered(self, request: str, result: str) -> None:
        """Count an answer of the controller endpoint; safe from any thread."""
        self.endpoint_requests.labels(request, result).inc()

    def endpoint_refused(self, reason: str) -> None:
        """Count a connection that the controller endpoint closed; safe from any thread."""
        self.endpoint_closed.labels(reason).inc()

    def show(self, snapshot: StatusSnapshot) -> None:
        """Set the gauges that a snapshot counts."""
        work, health, role = snapshot.work, snapshot.health, snapshot.role
        for label in LABELS.values():
            self.partitions.labels(label).set(work.phases[label])
        for by in BlockedBy:
            self.blocked.labels(by.value).set(work.blocked[by.value])
        stalled = Tally(work.stalled.values())
        for label in STALL_LABELS:
            self.stalled.labels(label).set(stalled[label])
        for gauge, value in (
            (self.unreachable, len(snapshot.unreachable)),
            (self.copying, work.copying),
            (self.under_min_isr, health.under_min_isr),
            (self.slow_throttles, len(health.slow)),
            (self.throttled, health.throttled),
            (self.pace, health.pace or 0),
            (self.throttle, role.throttle),
            (self.paused, role.paused),
            (self.disabled, role.disabled),
            (self.orphans, role.orphans),
            (self.alter_entries_unanswered, role.alter_entries_unanswered),
            (self.brokers, role.brokers),
            (self.tenure_seconds, role.tenure_s),
            (self.isr_wait, role.oldest_isr_wait_s),
        ):
            gauge.set(value)
        self._gauges.snapshot = snapshot

    def lost_lines(self, total: int) -> None:
        """Count the lines that the journal lost since the last call, of so many in all."""
        self.journal_dropped.inc(max(0, total - self._journal_lost))
        self._journal_lost = max(total, self._journal_lost)

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return prometheus.generate_latest(self.registry)
