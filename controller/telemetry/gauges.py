"""
Metrics that are made for each scrape from the newest snapshot, so that what is gone vanishes.

Requests appear by slot (``progress``), brokers by id. A label set that nobody has any more is not
exported: a gauge that stayed at its last value would be an alert about nothing.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from controller.telemetry.status_publisher import Snapshot

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
    """The gauges of a Kafka controller's JMX; but for the first, only while we are in charge."""

    def __init__(self) -> None:
        """Begin with nothing to show."""
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return what a controller would say."""
        counts = None if self.snapshot is None else self.snapshot.cluster
        yield GaugeMetricFamily(
            "reassigner_active_controller",
            "1 while we are the active controller; brokers then report none",
            value=0 if counts is None else 1,
        )
        for name, text, value in (
            (
                "offline_partitions",
                "Partitions without a live leader; only while we are the controller",
                None if counts is None else counts.offline_partitions,
            ),
            (
                "preferred_replica_imbalance",
                "Partitions not led by their preferred replica; only while we are the controller",
                None if counts is None else counts.preferred_replica_imbalance,
            ),
            (
                "topics",
                "Topics of the cluster; only while we are the controller",
                None if counts is None else counts.topics,
            ),
            (
                "cluster_partitions",
                "Partitions of the cluster; only while we are the controller",
                None if counts is None else counts.partitions,
            ),
        ):
            yield GaugeMetricFamily(f"reassigner_{name}", text, value=value)


class RequestGauges(Collector):
    """How far the requests are, by slot."""

    def __init__(self) -> None:
        """Begin with nothing to show."""
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges of the requests that the status names."""
        requests = [] if self.snapshot is None else self.snapshot.status.get("requests", [])
        states = Tally(r["state"] for r in requests)
        by_state = GaugeMetricFamily(
            "reassigner_requests",
            "Requests by state, the ended ones as long as the status names them",
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
            "Bytes that the request in a slot has to copy, moved and remaining",
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
            "How fast the request in a slot copies, over the last minutes",
            ("slot",),
            (((str(r["slot"]),), r["bytes_per_s"]) for r in slotted if r["bytes_per_s"]),
        )
        yield self._family(
            "request_eta_seconds",
            "When the request in a slot will end by its rate: at best (low) and at worst (high)",
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
            "Bytes that all requests have to copy, moved and remaining, as far as sizes are known",
            ("state",),
            (
                ((state,), sum(r["bytes"].get(state, 0) for r in requests if r["bytes"]))
                for state in BYTE_STATES
            ),
        )
        yield self._family(
            "sizes_unknown_partitions",
            "Open partitions whose size no broker told",
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
    """What brokers copy and serve just now, and have copied and served."""

    def __init__(self) -> None:
        """Begin with nothing to show."""
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Return the gauges of the brokers that the status names."""
        snapshot = self.snapshot
        loads: list[Mapping[str, Any]] = (
            [] if snapshot is None else snapshot.status.get("broker_loads", [])
        )
        for name, key, text in (
            ("broker_incoming_replicas", "incoming", "Replicas a broker copies just now"),
            (
                "broker_outgoing_partitions",
                "outgoing",
                "Partitions a broker serves copies of just now",
            ),
            (
                "broker_in_remaining_bytes",
                "in_bytes_remaining",
                "Bytes a broker has still to receive by what was accepted",
            ),
            (
                "broker_out_remaining_bytes",
                "out_bytes_remaining",
                "Bytes of replicas that are to leave a broker by what was accepted",
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
                "Bytes of copies that came to a broker, as DescribeLogDirs tells",
            ),
            (
                "broker_served_bytes",
                {} if snapshot is None else snapshot.served,
                "Bytes of copies that a broker served, as DescribeLogDirs of the receiver tells",
            ),
        ):
            counter = CounterMetricFamily(f"reassigner_{name}", text, labels=["broker"])
            for broker, count in sorted(counts.items()):
                counter.add_metric([str(broker)], count)
            yield counter
