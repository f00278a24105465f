"""
The metrics by name, and what changes them: events, committed changes and sent requests.

Names follow Kafka's with the prefix ``reassigner_``. Labels have bounded values (phases, reasons,
kinds, broker ids); topics and partitions are in logs and on the status page. ``gauges`` has the
metrics that are computed at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache, partial
from typing import Final

import prometheus_client as prometheus

from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId, RefusalReason
from controller.core.pacing import records as pacing
from controller.core.pacing.model import Signal, SignalKind
from controller.core.reassignments import records as reassignments
from controller.core.records import Change, Event
from controller.core.requests.records import RefusalRecord
from controller.core.role import records as role
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, WriteError
from controller.telemetry import rpc_names
from controller.telemetry.copies import CopyEnded, CopyEvent, IsrShrunk, Received
from controller.telemetry.gauges import NAMESPACE, SnapshotGauges
from controller.telemetry.phase_changes import EnteredPhase
from controller.telemetry.status_publisher import StatusSnapshot

LOOP_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
RPC_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PHASE_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
TARGETS: Final = ("webhook", "slack", "exec")
OPERATIONS: Final = ("ping", "commit")
RESULTS: Final = ("delivered", "failed", "dropped")
PROBE_RESULTS: Final = ("acknowledged", "failed")


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
        # --- the produce probe
        self.probe_records = counter(
            "probe_records_total",
            "Records of the produce probe by result (acknowledged, failed)",
            ["result"],
        )
        self.objective_missed = counter(
            "objective_missed_seconds_total",
            "Seconds in which the acknowledgements of the produce probe's records missed the "
            "objective of a throttle auto, by the broker that leads them",
            ["broker"],
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
        self.page = prometheus.Info(
            "page",
            "Name of the cluster (cluster_name) and published address of the status page (url)",
            registry=registry,
            namespace=NAMESPACE,
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
            (self.refusals, [reason.value for reason in RefusalReason]),
            (self.zookeeper, OPERATIONS),
            (self.alter_entries, [*rpc_names.ALTER_ERRORS.values(), rpc_names.OTHER]),
            (self.write_rejections, [error.value for error in WriteError]),
            (self.probe_records, PROBE_RESULTS),
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

    def count_probe_record(self, result: str) -> None:
        """Count a record of the produce probe; safe from any thread."""
        self.probe_records.labels(result).inc()

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
        """Export this snapshot from now on."""
        self._gauges.snapshot = snapshot

    def lost_lines(self, total: int) -> None:
        """Count the lines that the journal lost since the last call, of so many in all."""
        self.journal_dropped.inc(max(0, total - self._journal_lost))
        self._journal_lost = max(total, self._journal_lost)

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return prometheus.generate_latest(self.registry)


class Measurements:
    """Updates the metrics."""

    def __init__(self, metrics: Metrics, unix_time: Callable[[], float]) -> None:
        self._metrics = metrics
        self._unix_time = unix_time
        self._phase_seconds = cache(metrics.phase_seconds.labels)
        self._brokers: frozenset[BrokerId] = frozenset()

    def event(self, event: Event, view: ClusterView, *, had_tenure: bool) -> None:
        """Count an event; the view has it already."""
        metrics = self._metrics
        match event:
            case role.ControllerClaimed(epoch=epoch):
                metrics.claims.inc()
                inherited = sum(
                    r.inherited and r.in_flight for r in view.reassignments.by_partition.values()
                )
                metrics.recoveries.inc(inherited > 0)
                metrics.recovered.inc(inherited)
                metrics.controller_epoch.set(epoch)
            case role.ClaimFailed():
                metrics.claim_failures.inc()
            case role.LeadershipGained() | role.LeadershipLost() | role.Deposed():
                metrics.leader.set(view.role.leading)
            case (
                LeaderAndIsrAnswered()
                | reassignments.StopReplicaAnswered()
                | role.UpdateMetadataAnswered()
            ):
                self._count_answer(event)
            case pacing.LatencyMeasured(readings=readings):
                self._count_missed(readings)
            case reassignments.ReassignmentsAltered(results=results, took_s=took_s):
                metrics.alter_entry_seconds.observe(took_s)
                for result in results:
                    metrics.alter_entries.labels(rpc_names.alter_result(result.error)).inc()
            case _:
                pass
        if had_tenure and view.tenure.held is None:
            metrics.resignations.inc()
            metrics.effects_in_flight.clear()
        metrics.tenure_held.set(view.is_controller)

    def _count_missed(self, readings: Iterable[Signal]) -> None:
        for reading in readings:
            if reading.kind is SignalKind.PROBE and reading.strain > 1.0:
                missed = self._metrics.objective_missed.labels(str(reading.broker))
                missed.inc(max(0.0, reading.at - reading.since))

    def _count_answer(self, event: rpc_names.Answer) -> None:
        metrics, kind, broker = self._metrics, rpc_names.request_name(event), str(event.broker)
        metrics.rpc_seconds.labels(broker, kind).observe(event.took_s)
        metrics.effects_in_flight.labels(broker).set(0)
        if event.error:
            metrics.rpc_errors.labels(broker, kind, rpc_names.error_name(event.error)).inc()
        if isinstance(event, role.UpdateMetadataAnswered):
            return
        for result in event.results:
            if rpc_names.is_failure(event, result.error):
                metrics.rpc_errors.labels(broker, kind, rpc_names.error_name(result.error)).inc()

    def forget_brokers(self, view: ClusterView) -> None:
        """Remove the labels of brokers that are no longer registered, so that they stay bounded."""
        if view.cluster.brokers.keys() == self._brokers:
            return
        for broker in self._brokers - view.cluster.brokers.keys():
            gone = {"broker": str(broker)}
            for metric in (
                self._metrics.effects_in_flight,
                self._metrics.rpcs_sent,
                self._metrics.rpc_seconds,
                self._metrics.rpc_errors,
                self._metrics.objective_missed,
            ):
                metric.remove_by_labels(gone)
        self._brokers = frozenset(view.cluster.brokers)

    def phase(self, change: EnteredPhase) -> None:
        """Observe the phase that ended."""
        if change.seconds is not None:
            self._phase_seconds(change.before).observe(change.seconds)
        if change.begins_step:
            self._metrics.steps.inc()
        self._metrics.last_progress.set(self._unix_time())

    def count_change(self, change: Change) -> None:
        """Count the records of a durable change."""
        for record in change.records:
            match record:
                case reassignments.SpecRecord(spec=spec) if spec.version is None:
                    self._metrics.accepted.inc()
                case reassignments.SpecEndedRecord():
                    self._metrics.ended.inc()
                    self._metrics.last_progress.set(self._unix_time())
                case RefusalRecord(refusals=refusals):
                    for refusal in refusals:
                        self._metrics.refusals.labels(refusal.reason.value).inc()
                case role.EndpointUnreachedRecord(brokers=brokers):
                    for broker in brokers:
                        self._metrics.endpoint_unreached.labels(str(broker)).inc()
                case _:
                    pass

    def count_copies(self, found: Iterable[CopyEvent]) -> None:
        """Count ended copies and received bytes."""
        for event in found:
            match event:
                case Received():
                    self._metrics.copied_bytes.inc(event.bytes)
                case CopyEnded(is_whole=True):
                    self._metrics.copy_seconds.observe(event.seconds)
                case CopyEnded():
                    self._metrics.copies_abandoned.inc()
                case IsrShrunk():
                    self._metrics.isr_shrinks.inc()

    def count_request(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Count a controller request that was handed to a channel."""
        self._metrics.rpcs_sent.labels(str(broker), rpc_names.request_name(request)).inc()
        self._metrics.effects_in_flight.labels(str(broker)).set(1)
