"""
When the metrics move: each callback of the loop, as increments and observations.

Reads events and changes, keeps only what a duration or a count in flight needs, steers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from controller.core.controllership.engines import holds_role
from controller.core.controllership.responses import NONE, STALE_CONTROLLER_EPOCH
from controller.core.events import (
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    Event,
    LeaderAndIsrAnswered,
    LeadershipGained,
    LeadershipLost,
    ReassignmentsAltered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from controller.core.model import BrokerId
from controller.core.records import Change, RefusalRecord, SpecEndedRecord, SpecRecord
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.telemetry.copies import Copy, CopyEvent, IsrShrunk, Received
from controller.telemetry.metrics import Metrics
from controller.telemetry.phase_changes import PhaseChange
from controller.telemetry.rpc_names import error_name, order_result

Answer = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered

_KINDS: Final = {
    LeaderAndIsr: "leader_and_isr",
    UpdateMetadata: "update_metadata",
    StopReplica: "stop_replica",
    LeaderAndIsrAnswered: "leader_and_isr",
    UpdateMetadataAnswered: "update_metadata",
    StopReplicaAnswered: "stop_replica",
}

KIND_NAMES: Final = tuple(sorted(set(_KINDS.values())))


def is_error(answer: Answer, error: int) -> bool:
    """
    Return whether an error code of one partition means that something is wrong.

    "Stale" said of a partition by LeaderAndIsr means that the broker is at this leader epoch
    already, as it is whenever a new tenure tells it what it knows.
    """
    is_known = isinstance(answer, LeaderAndIsrAnswered) and error == STALE_CONTROLLER_EPOCH
    return error != NONE and not is_known


def kind_of(message: BrokerRequest | Answer) -> str:
    """Name the kind of a request or of its answer."""
    return _KINDS[type(message)]


class Measurements:
    """Moves the metrics."""

    def __init__(self, metrics: Metrics, unix_time: Callable[[], float]) -> None:
        """Measure into these metrics."""
        self._metrics = metrics
        self._unix_time = unix_time
        self._brokers: frozenset[BrokerId] = frozenset()

    def event(self, event: Event, view: ClusterView, *, had_tenure: bool) -> None:
        """Count an event that was folded into the view."""
        metrics = self._metrics
        match event:
            case ControllerClaimed(epoch=epoch):
                metrics.claims.inc()
                inherited = sum(r.inherited and r.in_flight for r in view.reassignments.values())
                metrics.recoveries.inc(inherited > 0)
                metrics.recovered.inc(inherited)
                metrics.controller_epoch.set(epoch)
            case ClaimFailed():
                metrics.claim_failures.inc()
            case LeadershipGained() | LeadershipLost() | Deposed():
                metrics.leader.set(view.leading)
            case LeaderAndIsrAnswered() | StopReplicaAnswered() | UpdateMetadataAnswered():
                self._answered(event)
            case ReassignmentsAltered(results=results, took_s=took_s):
                metrics.order_seconds.observe(took_s)
                for result in results:
                    metrics.orders.labels(order_result(result.error)).inc()
            case _:
                pass
        if had_tenure and view.tenure is None:
            metrics.resignations.inc()
            metrics.effects_in_flight.clear()
        metrics.tenure_held.set(holds_role(view))
        self._forget_brokers(view)

    def _answered(self, event: Answer) -> None:
        metrics, kind, broker = self._metrics, kind_of(event), str(event.broker)
        metrics.rpc_seconds.labels(broker, kind).observe(event.took_s)
        metrics.effects_in_flight.labels(broker).set(0)
        if event.error:
            metrics.rpc_errors.labels(broker, kind, error_name(event.error)).inc()
        if isinstance(event, UpdateMetadataAnswered):
            return
        for result in event.results:
            if is_error(event, result.error):
                metrics.rpc_errors.labels(broker, kind, error_name(result.error)).inc()

    def _forget_brokers(self, view: ClusterView) -> None:
        """Drop what is gone: a label for each broker that ever was would not be bounded."""
        if view.brokers.keys() == self._brokers:
            return
        for broker in self._brokers - view.brokers.keys():
            gone = {"broker": str(broker)}
            for metric in (
                self._metrics.effects_in_flight,
                self._metrics.rpcs_sent,
                self._metrics.rpc_seconds,
                self._metrics.rpc_errors,
            ):
                metric.remove_by_labels(gone)
        self._brokers = frozenset(view.brokers)

    def phase(self, change: PhaseChange) -> None:
        """Measure the phase that ended."""
        if change.seconds is not None:
            self._metrics.phase_seconds.labels(change.before).observe(change.seconds)
        if change.begins_step:
            self._metrics.steps.inc()
        self._metrics.last_progress.set(self._unix_time())

    def committed(self, change: Change) -> None:
        """Count what became durable."""
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
                case _:
                    pass

    def copied(self, events: Iterable[CopyEvent]) -> None:
        """Measure copies that are over, and what came to brokers."""
        for event in events:
            match event:
                case Received():
                    self._metrics.copied_bytes.inc(event.bytes)
                case Copy(is_whole=True):
                    self._metrics.copy_seconds.observe(event.seconds)
                case Copy():
                    self._metrics.copies_abandoned.inc()
                case IsrShrunk():
                    self._metrics.isr_shrinks.inc()

    def sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Count a request that was handed to a channel."""
        self._metrics.rpcs_sent.labels(str(broker), kind_of(request)).inc()
        self._metrics.effects_in_flight.labels(str(broker)).set(1)
