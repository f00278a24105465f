"""
Metrics that are computed from the newest snapshot at each scrape.

Requests have the label ``slot`` (see ``progress``), brokers their id. A request or broker that is
gone is no longer exported: a gauge that kept its last value would raise false alerts.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from controller.telemetry.status_publisher import StatusSnapshot

REQUEST_STATES: Final = ("in_flight", "waiting", "held", "done", "cancelled", "refused")
PARTITION_STATES: Final = (
    "done",
    "in_flight",
    "waiting",
    "refused",
    "cancelled",
    "superseded",
    "skipped",
)
BYTE_STATES: Final = ("moved", "remaining")
BOUNDS: Final = ("low", "high")


class ControllerGauges(Collector):
    """The gauges of Kafka's controller, exported only during a tenure (but for the first)."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self.snapshot: StatusSnapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges."""
        counts = None if self.snapshot is None else self.snapshot.cluster
        yield GaugeMetricFamily(
            "reassigner_active_controller",
            "1 while the daemon is the active controller; brokers then report none",
            value=0 if counts is None else 1,
        )
        for name, field, text in (
            ("offline_partitions", "offline_partitions", "Partitions without a live leader"),
            (
                "preferred_replica_imbalance",
                "preferred_replica_imbalance",
                "Partitions not led by their preferred leader",
            ),
            ("topics", "topics", "Topics of the cluster"),
            ("cluster_partitions", "partitions", "Partitions of the cluster"),
        ):
            help_text = f"{text}; only while the daemon is the controller"
            value = None if counts is None else getattr(counts, field)
            yield GaugeMetricFamily(f"reassigner_{name}", help_text, value=value)


class RequestGauges(Collector):
    """Progress of the requests, by slot."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self.snapshot: StatusSnapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges of the requests in the status."""
        requests = [] if self.snapshot is None else self.snapshot.status.get("requests", [])
        states = Tally(r["state"] for r in requests)
        by_state = GaugeMetricFamily(
            "reassigner_requests",
            "Requests in the status by state",
            labels=["state"],
        )
        for state in REQUEST_STATES:
            by_state.add_metric([state], states[state])
        yield by_state
        slotted = [r for r in requests if r.get("slot") is not None]
        yield self._family(
            "request_partitions",
            "Partitions of the request in a slot, by state",
            ("slot", "state"),
            (
                ((str(r["slot"]), state), r["partitions"][state])
                for r in slotted
                for state in PARTITION_STATES
            ),
        )
        yield self._family(
            "request_bytes",
            "Bytes that the request in a slot copied and has to copy, by state",
            ("slot", "state"),
            (
                ((str(r["slot"]), state), r["bytes"].get(state, 0))
                for r in slotted
                if r["bytes"] is not None
                for state in BYTE_STATES
            ),
        )
        yield self._family(
            "request_bytes_per_second",
            "Copy rate of the request in a slot over the last minutes",
            ("slot",),
            (((str(r["slot"]),), r["bytes_per_s"]) for r in slotted if r["bytes_per_s"]),
        )
        yield self._family(
            "request_eta_seconds",
            "Estimated time until the request in a slot ends, at best (low) and at worst (high)",
            ("slot", "bound"),
            (
                ((str(r["slot"]), bound), value)
                for r in slotted
                if r["eta_s"] is not None
                for bound, value in zip(BOUNDS, r["eta_s"], strict=True)
            ),
        )
        yield self._family(
            "bytes",
            "Bytes that all requests copied and have to copy, by state, as far as sizes are known",
            ("state",),
            (
                ((state,), sum(r["bytes"].get(state, 0) for r in requests if r["bytes"]))
                for state in BYTE_STATES
            ),
        )
        yield self._family(
            "sizes_unknown_partitions",
            "Partitions of unknown size, which reassigner_bytes omits",
            (),
            [((), sum(r.get("sizes_unknown", 0) for r in requests))],
        )

    @staticmethod
    def _family(name: str, text: str, labels: tuple[str, ...], rows: Any) -> GaugeMetricFamily:  # noqa: ANN401 - rows of labels and value
        family = GaugeMetricFamily(f"reassigner_{name}", text, labels=labels)
        for values, value in rows:
            family.add_metric(list(values), value)
        return family


class BrokerGauges(Collector):
    """Copies in progress by broker, and bytes copied so far."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self.snapshot: StatusSnapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Return the gauges and counters of the brokers in the status."""
        snapshot = self.snapshot
        loads: list[Mapping[str, Any]] = (
            [] if snapshot is None else snapshot.status.get("broker_loads", [])
        )
        for name, key, text in (
            ("broker_incoming_replicas", "incoming", "Replicas that a broker copies now"),
            (
                "broker_outgoing_partitions",
                "outgoing",
                "Partitions that a broker serves to copying brokers now",
            ),
            (
                "broker_in_remaining_bytes",
                "in_bytes_remaining",
                "Bytes that a broker has to receive for the accepted reassignments",
            ),
            (
                "broker_out_remaining_bytes",
                "out_bytes_remaining",
                "Bytes of replicas that the accepted reassignments drop from a broker",
            ),
        ):
            family = GaugeMetricFamily(f"reassigner_{name}", text, labels=["broker"])
            for load in loads:
                family.add_metric([str(load["broker"])], load[key])
            yield family
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
            counter = CounterMetricFamily(f"reassigner_{name}", text, labels=["broker"])
            for broker, count in sorted(counts.items()):
                counter.add_metric([str(broker)], count)
            yield counter


class DiskGauges(Collector):
    """The room in log directories, as last reported in this tenure."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self.snapshot: StatusSnapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges of the log directories in the status."""
        status = {} if self.snapshot is None else self.snapshot.status
        disks: Mapping[str, Any] = status.get("disks", {})
        for key, text in (
            ("total_bytes", "Size of the volume of a log directory"),
            ("usable_bytes", "Free bytes of the volume of a log directory"),
            ("reserved_bytes", "Bytes that copies in progress still take in a log directory"),
        ):
            family = GaugeMetricFamily(
                f"reassigner_log_dir_{key}", text, labels=["broker", "log_dir"]
            )
            for found in disks.get("log_dirs", ()):
                if found[key] is not None:
                    family.add_metric([str(found["broker"]), found["path"]], found[key])
            yield family
        yield GaugeMetricFamily(
            "reassigner_disks_unguarded",
            "Live brokers whose free space is unknown: copies to them are not held back",
            value=len(disks.get("unguarded", ())),
        )
