"""
The metrics, by name: what exists, not when it moves (that is ``measurements``).

All live in a registry of their own. Labels are bounded sets (phases, reasons, kinds, broker ids);
topics and partitions belong in logs and the status page. Names follow Kafka's ideas under
``reassigner_``.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controller.core.model import BlockedBy, RefusalReason
from controller.core.phases import LABELS
from controller.reactor.ports import WriteError
from controller.telemetry.boards import Snapshot
from controller.telemetry.counts import UNNOTED, ClusterCounts

LOOP_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
STALL_LABELS: Final = (*(by.value for by in BlockedBy), UNNOTED)
PHASE_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)


class SessionState(StrEnum):
    """What kazoo says of our ZooKeeper session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Metrics:
    """Every metric of the daemon, in one registry."""

    def __init__(self) -> None:
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
            "Reassignments that wait, by what for",
            ["reason"],
            registry=registry,
        )
        self.stalled = Gauge(
            "reassigner_stalled_partitions",
            "Partitions without progress for too long, by what they wait for",
            ["reason"],
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
        # --- brokers
        self.requests_sent = Counter(
            "reassigner_requests_sent_total",
            "Requests handed to channels",
            ["kind"],
            registry=registry,
        )
        self.requests_answered = Counter(
            "reassigner_requests_answered_total", "Requests answered", ["kind"], registry=registry
        )
        self.request_errors = Counter(
            "reassigner_request_errors_total",
            "Errors in answers, of whole requests and of single partitions",
            ["kind", "error"],
            registry=registry,
        )
        self.effects_in_flight = Gauge(
            "reassigner_effects_inflight",
            "Requests sent and not answered yet",
            ["broker"],
            registry=registry,
        )
        self._controller = _ControllerGauges()
        registry.register(self._controller)
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
        for error in WriteError:
            self.write_rejections.labels(error.value)

    def session_is(self, state: SessionState) -> None:
        """Note what became of the ZooKeeper session; safe from any thread."""
        self.session.state(state.value)

    def show(self, snapshot: Snapshot) -> None:
        """Set the gauges that are counted, not incremented."""
        for label in LABELS.values():
            self.partitions.labels(label).set(snapshot.work.phases[label])
        for by in BlockedBy:
            self.blocked.labels(by.value).set(snapshot.work.blocked[by.value])
        stalled = Tally(snapshot.work.stalled.values())
        for label in STALL_LABELS:
            self.stalled.labels(label).set(stalled[label])
        self.under_min_isr.set(snapshot.strain.under_min_isr)
        self.slow_throttles.set(len(snapshot.strain.slow))
        self.throttled.set(snapshot.strain.throttled)
        self.pace.set(snapshot.strain.pace or 0)
        self._controller.counts = snapshot.cluster

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _ControllerGauges(Collector):
    """
    The gauges of a Kafka controller's JMX; but for the first, only while we are in charge.

    A gauge that stayed at its last value after the role was given back would be an alert about
    nothing.
    """

    def __init__(self) -> None:
        self.counts: ClusterCounts | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        counts = self.counts
        yield GaugeMetricFamily(
            "reassigner_active_controller",
            "1 while we are the active controller; brokers then report none",
            value=0 if counts is None else 1,
        )
        if counts is None:
            return
        for name, text, value in (
            ("offline_partitions", "Partitions without a live leader", counts.offline_partitions),
            (
                "preferred_replica_imbalance",
                "Partitions whose leader is not the preferred one",
                counts.preferred_replica_imbalance,
            ),
            ("topics", "Topics of the cluster", counts.topics),
            ("cluster_partitions", "Partitions of the cluster", counts.partitions),
        ):
            yield GaugeMetricFamily(f"reassigner_{name}", text, value=value)
