"""Updates of the metrics by events, committed changes and sent requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerId
from controller.core.reassignments.records import (
    ReassignmentsAltered,
    SpecEndedRecord,
    SpecRecord,
    StopReplicaAnswered,
)
from controller.core.records import Change, Event
from controller.core.requests.records import RefusalRecord
from controller.core.role.records import (
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    EndpointUnreachedRecord,
    LeadershipGained,
    LeadershipLost,
    UpdateMetadataAnswered,
)
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest
from controller.telemetry import rpc_names
from controller.telemetry.copies import CopyEnded, CopyEvent, IsrShrunk, Received
from controller.telemetry.metrics import Metrics
from controller.telemetry.phase_changes import EnteredPhase


class Measurements:
    """Updates the metrics."""

    def __init__(self, metrics: Metrics, unix_time: Callable[[], float]) -> None:
        self._metrics = metrics
        self._unix_time = unix_time
        self._brokers: frozenset[BrokerId] = frozenset()

    def event(self, event: Event, view: ClusterView, *, had_tenure: bool) -> None:
        """Count an event; the view has it already."""
        metrics = self._metrics
        match event:
            case ControllerClaimed(epoch=epoch):
                metrics.claims.inc()
                inherited = sum(
                    r.inherited and r.in_flight for r in view.reassignments.by_partition.values()
                )
                metrics.recoveries.inc(inherited > 0)
                metrics.recovered.inc(inherited)
                metrics.controller_epoch.set(epoch)
            case ClaimFailed():
                metrics.claim_failures.inc()
            case LeadershipGained() | LeadershipLost() | Deposed():
                metrics.leader.set(view.role.leading)
            case LeaderAndIsrAnswered() | StopReplicaAnswered() | UpdateMetadataAnswered():
                self._count_answer(event)
            case ReassignmentsAltered(results=results, took_s=took_s):
                metrics.alter_entry_seconds.observe(took_s)
                for result in results:
                    metrics.alter_entries.labels(rpc_names.alter_result(result.error)).inc()
            case _:
                pass
        if had_tenure and view.tenure.held is None:
            metrics.resignations.inc()
            metrics.effects_in_flight.clear()
        metrics.tenure_held.set(view.is_controller)
        self._forget_brokers(view)

    def _count_answer(self, event: rpc_names.Answer) -> None:
        metrics, kind, broker = self._metrics, rpc_names.request_name(event), str(event.broker)
        metrics.rpc_seconds.labels(broker, kind).observe(event.took_s)
        metrics.effects_in_flight.labels(broker).set(0)
        if event.error:
            metrics.rpc_errors.labels(broker, kind, rpc_names.error_name(event.error)).inc()
        if isinstance(event, UpdateMetadataAnswered):
            return
        for result in event.results:
            if rpc_names.is_failure(event, result.error):
                metrics.rpc_errors.labels(broker, kind, rpc_names.error_name(result.error)).inc()

    def _forget_brokers(self, view: ClusterView) -> None:
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
            ):
                metric.remove_by_labels(gone)
        self._brokers = frozenset(view.cluster.brokers)

    def phase(self, change: EnteredPhase) -> None:
        """Observe the phase that ended."""
        if change.seconds is not None:
            self._metrics.phase_seconds.labels(change.before).observe(change.seconds)
        if change.begins_step:
            self._metrics.steps.inc()
        self._metrics.last_progress.set(self._unix_time())

    def count_change(self, change: Change) -> None:
        """Count the records of a durable change."""
        for record in change.records:
            match record:
                case SpecRecord(spec=spec) if spec.version is None:
                    self._metrics.accepted.inc()
                case SpecEndedRecord():
                    self._metrics.ended.inc()
                    self._metrics.last_progress.set(self._unix_time())
                case RefusalRecord(refusals=refusals):
                    for refusal in refusals:
                        self._metrics.refusals.labels(refusal.reason.value).inc()
                case EndpointUnreachedRecord(brokers=brokers):
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
