"""
Metrics that are computed from the newest snapshot at each scrape.

Requests have the label ``slot`` (see ``progress``), which ``request_info`` maps to ids; brokers
have their id. A request or broker that is gone is no longer exported: a gauge that kept its last
value would raise false alerts.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controller.core.model import BlockedBy
from controller.core.reassignments.phases import LABELS
from controller.telemetry.advice import REQUEST_STATES
from controller.telemetry.cluster_counts import UNNOTED
from controller.telemetry.status_publisher import StatusSnapshot

NAMESPACE: Final = "reassigner"
"""Begins the name of every metric."""
PARTITION_STATES: Final = (
    "done",
    "in_flight",
    "waiting",
    "refused",
    "cancelled",
    "superseded",
    "skipped",
    "undone",
)
BYTE_STATES: Final = ("moved", "remaining")
BOUNDS: Final = ("low", "high")
CLUSTER: Final = {
    "offline_partitions": "Partitions without a live leader",
    "preferred_replica_imbalance": "Partitions not led by their preferred leader",
    "topics": "Topics of the cluster",
    "cluster_partitions": "Partitions of the cluster",
}
"""The text of the gauges of Kafka's controller, by name."""
STALL_LABELS: Final = (*(by.value for by in BlockedBy), UNNOTED)
COUNTS: Final = {
    "brokers": "Registered brokers",
    "copying_partitions": "Reassignments of which a replica is being copied; one may be blocked "
    "besides",
    "dead_brokers": "Brokers with replicas that are not registered",
    "drained_replicas": "Replicas that are left on drained brokers",
    "disabled": "1 while new reassignments are refused: the kill switch, or a quiesce",
    "isr_wait_oldest_seconds": "Age of the oldest copy in flight that is not in the ISR; 0 "
    "without one",
    "orders_unanswered": "Partitions of alter requests without a response yet",
    "orphans": "Dropped replicas whose deletion is not confirmed",
    "governed_partitions_in_flight": "The limit of partitions in flight that a throttle auto sets; "
    "0 without one",
    "latency_objective_seconds": "The 99th percentile of acknowledgements that a throttle auto "
    "keeps; 0 without such a throttle",
    "paused": "1 while everything is paused",
    "tenure_seconds": "Seconds since this daemon became the cluster's controller; 0 while it is "
    "not",
    "throttle_bytes_per_second": "The live throttle of all reassignments, per broker; 0: none",
    "throttled_entities": "Topics and brokers with a throttle set by the daemon",
    "throttles_below_produce_rate": "Throttles below the rate at which producers write to the "
    "partitions that are copied",
    "under_min_isr_partitions": "Partitions without a reassignment below min.insync.replicas",
    "unreachable_brokers": "Registered brokers that cannot be reached; only while the daemon is "
    "the controller",
}
"""The text of the gauges without labels, by name; 0 before the first snapshot."""
LOADS: Final = {
    "incoming": ("broker_incoming_replicas", "Replicas that a broker copies now"),
    "outgoing": (
        "broker_outgoing_partitions",
        "Partitions that a broker serves to copying brokers now",
    ),
    "in_bytes_remaining": (
        "broker_in_remaining_bytes",
        "Bytes that a broker has to receive for the accepted reassignments",
    ),
    "out_bytes_remaining": (
        "broker_out_remaining_bytes",
        "Bytes of replicas that the accepted reassignments drop from a broker",
    ),
}
"""Name and text, by the key of ``broker_loads`` in the status."""
RATES: Final = {
    "in_bytes_per_s": (
        "broker_in_bytes_per_second",
        "Rate at which a broker receives copies; absent while it is unknown",
    ),
    "out_bytes_per_s": (
        "broker_out_bytes_per_second",
        "Rate at which a broker serves copies; absent while it is unknown",
    ),
    "throttle_bytes_per_s": (
        "broker_throttle_bytes_per_second",
        "Lowest replication throttle in the settings of a broker; absent without one",
    ),
}
"""The same for what may be unknown."""
QUANTILES: Final = {"0.5": "p50_s", "0.99": "p99_s"}
"""The key of a measured latency in ``governor`` of the status, by quantile."""
ROOM: Final = {
    "total_bytes": "Size of the volume of a log directory",
    "usable_bytes": "Free bytes of the volume of a log directory",
    "reserved_bytes": "Bytes that copies in progress still take in a log directory",
}
"""The text, by the key of ``log_dirs`` in the status."""

Document = Mapping[str, Any]
Samples = Iterable[tuple[tuple[object, ...], float]]
"""Values of labels, and the value of the metric."""


class SnapshotGauges(Collector):
    """The metrics of the newest snapshot."""

    def __init__(self) -> None:
        self.snapshot: StatusSnapshot | None = None

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        snapshot = self.snapshot
        status = {} if snapshot is None else snapshot.status
        values = {} if snapshot is None else _counts_of(snapshot)
        for name, text in COUNTS.items():
            yield _gauge(name, text, (), [((), values.get(name, 0))])
        yield from _of_work(snapshot)
        yield from _of_controller(None if snapshot is None else snapshot.cluster)
        yield from _of_requests(status.get("requests", ()))
        yield from _of_total(status.get("total", {}))
        yield from _of_brokers(status.get("broker_loads", ()))
        for name, counts, text in (
            (
                "broker_received_bytes",
                {} if snapshot is None else snapshot.received,
                "Bytes copied to a broker, from DescribeLogDirs",
            ),
            (
                "broker_served_bytes",
                {} if snapshot is None else snapshot.served,
                "Bytes copied from a broker, from DescribeLogDirs of the receivers",
            ),
        ):
            counter = CounterMetricFamily(f"{NAMESPACE}_{name}", text, labels=["broker"])
            for broker, count in sorted(counts.items()):
                counter.add_metric([str(broker)], count)
            yield counter
        yield from _of_governor(status.get("governor") or {})
        yield from _of_disks(status.get("disks", {}))


def _gauge(name: str, text: str, labels: Sequence[str], rows: Samples) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{NAMESPACE}_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric([str(v) for v in values], value)
    return family


def _tallied(
    name: str, text: str, label: str, values: Iterable[str], tally: Mapping[str, int]
) -> GaugeMetricFamily:
    """Return a gauge with a series for each of these values, also where it is 0."""
    return _gauge(name, text, (label,), (((value,), tally.get(value, 0)) for value in values))


def _counts_of(s: StatusSnapshot) -> Mapping[str, float]:
    return {
        **s.role,
        "copying_partitions": s.work.copying,
        "dead_brokers": len(s.dead),
        "drained_replicas": sum(drain["replicas"] for drain in s.status.get("drains", ())),
        "governed_partitions_in_flight": s.health.pace or 0,
        "latency_objective_seconds": (s.status.get("governor") or {}).get("objective_s", 0),
        "throttled_entities": s.health.throttled,
        "throttles_below_produce_rate": len(s.health.slow),
        "under_min_isr_partitions": s.health.under_min_isr,
        "unreachable_brokers": len(s.unreachable),
    }


def _of_governor(governor: Document) -> Iterator[Metric]:
    rates = governor.get("brokers", {})
    yield _gauge(
        "broker_governed_bytes_per_second",
        "Rate that a throttle auto gives a broker; absent without such a throttle",
        ("broker",),
        [((broker,), rate["bytes_per_s"]) for broker, rate in rates.items()],
    )
    yield _gauge(
        "broker_latency_seconds",
        "Acknowledgement of the produce probe's records by the broker that leads them, in the last "
        "ten seconds, by quantile (0.5, 0.99); absent where it is not measured",
        ("broker", "quantile"),
        [
            ((broker, quantile), rate[key])
            for broker, rate in rates.items()
            for quantile, key in QUANTILES.items()
            if rate[key] is not None
        ],
    )


def _of_work(snapshot: StatusSnapshot | None) -> Iterator[Metric]:
    phases, blocked, stalled = Tally[str](), Tally[str](), Tally[str]()
    if snapshot is not None:
        work = snapshot.work
        phases, blocked, stalled = work.phases, work.blocked, Tally(work.stalled.values())
    yield _tallied("partitions", "Reassignments by phase", "phase", LABELS.values(), phases)
    text = "Blocked reassignments by reason; copying is not blocked"
    yield _tallied("blocked_partitions", text, "reason", STALL_LABELS[:-1], blocked)
    text = "Reassignments without progress for longer than stalled_after, by reason"
    yield _tallied("stalled_partitions", text, "reason", STALL_LABELS, stalled)


def _of_controller(counts: Mapping[str, int] | None) -> Iterator[Metric]:
    """Yield the gauges of Kafka's controller, with values only during a tenure (but the first)."""
    yield _gauge(
        "active_controller",
        "1 while the daemon is the active controller; brokers then report none",
        (),
        [((), 0 if counts is None else 1)],
    )
    for name, text in CLUSTER.items():
        rows = [] if counts is None else [((), counts[name])]
        yield _gauge(name, f"{text}; only while the daemon is the controller", (), rows)


def _of_requests(requests: Sequence[Document]) -> Iterator[Metric]:
    states = Tally(r["state"] for r in requests)
    yield _tallied("requests", "Requests in the status by state", "state", REQUEST_STATES, states)
    slotted = [r for r in requests if r.get("slot") is not None]
    yield _gauge(
        "request_info",
        "1: the request in a slot",
        ("slot", "request"),
        (((r["slot"], r["id"]), 1) for r in slotted),
    )
    yield _gauge(
        "request_progress_ratio",
        "Share of the request in a slot that is done, as its bar shows it; absent while it is "
        "unknown",
        ("slot",),
        (((r["slot"],), r["share"]) for r in slotted if r["share"] is not None),
    )
    yield _gauge(
        "request_partitions",
        "Partitions of the request in a slot, by state",
        ("slot", "state"),
        (((r["slot"], s), r["partitions"][s]) for r in slotted for s in PARTITION_STATES),
    )
    yield _gauge(
        "request_bytes",
        "Bytes that the request in a slot copied and has to copy, by state",
        ("slot", "state"),
        (
            ((r["slot"], state), r["bytes"].get(state, 0))
            for r in slotted
            if r["bytes"] is not None
            for state in BYTE_STATES
        ),
    )
    yield _gauge(
        "request_bytes_per_second",
        "Copy rate of the request in a slot; absent while it is unknown",
        ("slot",),
        (((r["slot"],), r["bytes_per_s"]) for r in slotted if r["bytes_per_s"] is not None),
    )
    yield _gauge(
        "request_eta_seconds",
        "Estimated time until the request in a slot ends, at best (low) and at worst (high); "
        "absent without an estimate",
        ("slot", "bound"),
        (((r["slot"], *bound), value) for r in slotted for bound, value in _bounds(r)),
    )
    yield _gauge(
        "bytes",
        "Bytes that all requests copied and have to copy, by state, as far as sizes are known",
        ("state",),
        (
            ((state,), sum(r["bytes"].get(state, 0) for r in requests if r["bytes"]))
            for state in BYTE_STATES
        ),
    )
    yield _gauge(
        "sizes_unknown_partitions",
        "Partitions of unknown size, which reassigner_bytes omits",
        (),
        [((), sum(r.get("sizes_unknown", 0) for r in requests))],
    )


def _of_total(total: Document) -> Iterator[Metric]:
    rate = total.get("bytes_per_s")
    text = "Copy rate of all requests; absent while it is unknown"
    yield _gauge("bytes_per_second", text, (), [] if rate is None else [((), rate)])
    text = "Estimated time until all requests end, at best (low) and at worst (high); absent "
    yield _gauge("eta_seconds", f"{text}without an estimate", ("bound",), _bounds(total))


def _bounds(document: Document) -> list[tuple[tuple[str], float]]:
    """Return the values of an estimate, with their label."""
    found = zip(BOUNDS, document.get("eta_s") or (), strict=False)
    return [((bound,), value) for bound, value in found]


def _of_brokers(loads: Sequence[Document]) -> Iterator[Metric]:
    for key, (name, text) in LOADS.items():
        yield _gauge(name, text, ("broker",), (((load["broker"],), load[key]) for load in loads))
    for key, (name, text) in RATES.items():
        known = (load for load in loads if load[key] is not None)
        yield _gauge(name, text, ("broker",), (((load["broker"],), load[key]) for load in known))


def _of_disks(disks: Document) -> Iterator[Metric]:
    """Yield the room in log directories, as last reported in this tenure."""
    found = disks.get("log_dirs", ())
    for key, text in ROOM.items():
        rows = (((d["broker"], d["path"]), d[key]) for d in found if d[key] is not None)
        yield _gauge(f"log_dir_{key}", text, ("broker", "log_dir"), rows)
    yield _gauge(
        "disks_unguarded",
        "Live brokers whose free space is unknown: copies to them are not held back",
        (),
        [((), len(disks.get("unguarded", ())))],
    )
