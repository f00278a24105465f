"""Tests of ``controller.telemetry.metrics``."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from controller.core.model import BrokerId, TopicPartition
from controller.telemetry import metrics
from controller.telemetry.cluster_counts import WorkCounts
from controller.telemetry.cluster_health import ClusterHealth
from controller.telemetry.metrics import Metrics, SessionStatus
from controller.telemetry.status_publisher import StatusSnapshot
from tests.core.builders import tp


def snapshot(cluster: Mapping[str, int] | None) -> StatusSnapshot:
    """Return a snapshot with one partition that waits for the limit and one that stalls."""
    work = work_of(phases={"pending": 1, "A2": 1}, blocked={"limit": 1}, stalled={tp(): "none"})
    return StatusSnapshot({}, work, cluster)


def counts(*values: int) -> dict[str, int]:
    """Return topics, partitions, offline ones, and those without their preferred leader."""
    names = ("topics", "cluster_partitions", "offline_partitions", "preferred_replica_imbalance")
    return dict(zip(names, values, strict=True))


def work_of(
    phases: Mapping[str, int] | None = None,
    blocked: Mapping[str, int] | None = None,
    stalled: Mapping[TopicPartition, str] | None = None,
    copying: int = 0,
) -> WorkCounts:
    """Return counts of work."""
    return WorkCounts(
        phases=Counter(phases or {}),
        blocked=Counter(blocked or {}),
        copying=copying,
        stalled=dict(stalled or {}),
    )


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return a sample."""
    return metrics.registry.get_sample_value(name, labels)


def test_every_metric_has_our_prefix_and_none_is_global() -> None:
    """Other registries stay unchanged."""
    before = list(REGISTRY.collect())
    names = {m.name for m in Metrics().registry.collect()}
    assert names
    assert all(n.startswith("reassigner_") for n in names)
    assert [m.name for m in REGISTRY.collect()] == [m.name for m in before]


def test_every_metric_is_measured() -> None:
    """One that is only declared stays at zero: ``measurements`` or ``Metrics.show`` sets it."""
    used: set[str] = set()
    room = Path(metrics.__file__).parent
    for path in (*room.glob("*.py"), room.parent / "daemon.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name != "_create_series":
                used |= {
                    node.attr
                    for node in ast.walk(function)
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
                    if ast.unparse(node.value) in {"self", "metrics", "self._metrics"}
                }
    declared = {n for n, m in vars(Metrics()).items() if isinstance(m, MetricWrapperBase)}
    assert declared - used == set()


def test_labels_are_bounded() -> None:
    """No metric has a label for topics or partitions."""
    metrics = Metrics()
    metrics.show(snapshot(counts(1, 1, 0, 0)))
    labels = {k for m in metrics.registry.collect() for s in m.samples for k in s.labels}
    assert not labels & {"topic", "partition"}


def test_known_labels_are_zero_from_the_start() -> None:
    """An alert finds zero, not nothing."""
    metrics = Metrics()
    assert value(metrics, "reassigner_refusals_total", reason="malformed") == 0
    assert value(metrics, "reassigner_partitions", phase="A2-syncing") == 0
    assert value(metrics, "reassigner_blocked_partitions", reason="limit") == 0
    assert value(metrics, "reassigner_stalled_partitions", reason="broker_dead") == 0
    assert value(metrics, "reassigner_write_rejections_total", error="bad_version") == 0


def test_other_labelled_metrics_are_without_series_on_purpose() -> None:
    """Histograms, which are no alerts, and what a broker or a connection has to cause."""
    labelled = {
        name: metric
        for name, metric in vars(Metrics()).items()
        if isinstance(metric, MetricWrapperBase) and metric._labelnames
    }
    assert {name for name, metric in labelled.items() if not metric._metrics} == {
        *("event_processing", "turn", "phase_seconds", "rpc_seconds"),
        *("rpcs_sent", "rpc_errors", "effects_in_flight", "objective_missed"),
        *("endpoint_requests", "endpoint_closed", "endpoint_unreached"),
    }


def test_gauges_show_the_snapshot_and_fall_back_to_zero() -> None:
    """An empty phase is zero."""
    metrics = Metrics()
    metrics.show(snapshot(None))
    assert value(metrics, "reassigner_partitions", phase="A2") == 1
    assert value(metrics, "reassigner_blocked_partitions", reason="limit") == 1
    assert value(metrics, "reassigner_stalled_partitions", reason="none") == 1
    metrics.show(StatusSnapshot({}, work_of(), None))
    assert value(metrics, "reassigner_partitions", phase="A2") == 0
    assert value(metrics, "reassigner_stalled_partitions", reason="none") == 0


def test_controller_gauges_exist_only_during_a_tenure() -> None:
    """Afterwards a broker exports them."""
    metrics = Metrics()
    assert value(metrics, "reassigner_active_controller") == 0
    assert value(metrics, "reassigner_offline_partitions") is None
    metrics.show(snapshot(counts(2, 10, 3, 4)))
    assert value(metrics, "reassigner_active_controller") == 1
    assert value(metrics, "reassigner_offline_partitions") == 3
    assert value(metrics, "reassigner_preferred_replica_imbalance") == 4
    assert value(metrics, "reassigner_topics") == 2
    assert value(metrics, "reassigner_cluster_partitions") == 10
    metrics.show(snapshot(None))
    assert value(metrics, "reassigner_active_controller") == 0
    assert value(metrics, "reassigner_offline_partitions") is None


@pytest.mark.parametrize("state", list(SessionStatus))
def test_the_session_is_in_one_state(state: SessionStatus) -> None:
    """Exactly one of the states is set."""
    metrics = Metrics()
    metrics.session_is(state)
    name = "reassigner_zookeeper_session"
    found = {s: metrics.registry.get_sample_value(name, {name: s.value}) for s in SessionStatus}
    assert found == {s: float(s is state) for s in SessionStatus}


def test_the_exposition_is_prometheus_text() -> None:
    """What /metrics serves can be scraped."""
    assert b"# TYPE reassigner_steps_total counter" in Metrics().exposition()


def test_unreachable_brokers_are_counted() -> None:
    """An alert can be made of it."""
    metrics = Metrics()
    metrics.show(StatusSnapshot({}, work_of(), None, unreachable={BrokerId(4): "refused"}))
    assert value(metrics, "reassigner_unreachable_brokers") == 1.0


def test_copies_are_counted_apart_from_what_is_blocked() -> None:
    """A partition that copies needs no attention."""
    metrics = Metrics()
    metrics.show(StatusSnapshot({}, work_of(copying=3), None))
    assert value(metrics, "reassigner_copying_partitions") == 3.0
    assert value(metrics, "reassigner_blocked_partitions", reason="replica_not_in_isr") == 0.0


def test_health_is_exported_and_falls_back_to_zero() -> None:
    """A gauge that stayed would be an alert about nothing."""
    metrics = Metrics()
    strain = ClusterHealth(under_min_isr=3, pace=7, throttled=5, slow={"4": "broker 4"})
    metrics.show(StatusSnapshot({}, work_of(), None, strain))
    assert value(metrics, "reassigner_under_min_isr_partitions") == 3
    assert value(metrics, "reassigner_throttles_below_produce_rate") == 1
    assert value(metrics, "reassigner_throttled_entities") == 5
    assert value(metrics, "reassigner_governed_partitions_in_flight") == 7
    metrics.show(StatusSnapshot({}, work_of(), None))
    assert value(metrics, "reassigner_governed_partitions_in_flight") == 0


def test_governed_rates_are_exported_with_what_is_measured() -> None:
    """A broker whose probe is silent has a rate and no latency."""
    metrics = Metrics()
    measured = {"bytes_per_s": 7, "p50_s": 0.1, "p99_s": 0.4}
    silent = {"bytes_per_s": 5, "p50_s": None, "p99_s": None}
    governor = {"objective_s": 0.5, "brokers": {"1": measured, "2": silent}}
    metrics.show(StatusSnapshot({"governor": governor}, work_of(), None))
    assert value(metrics, "reassigner_latency_objective_seconds") == 0.5
    assert value(metrics, "reassigner_broker_governed_bytes_per_second", broker="2") == 5
    latency = "reassigner_broker_latency_seconds"
    assert value(metrics, latency, broker="1", quantile="0.99") == 0.4
    assert value(metrics, latency, broker="2", quantile="0.99") is None
    metrics.show(StatusSnapshot({"governor": None}, work_of(), None))
    assert value(metrics, "reassigner_latency_objective_seconds") == 0
    assert value(metrics, "reassigner_broker_governed_bytes_per_second", broker="2") is None


def test_room_of_log_directories_is_exported_as_far_as_it_is_known() -> None:
    """A directory without a report has no gauge: 0 would be a full disk."""
    metrics = Metrics()
    known = {"broker": 4, "path": "/a", "total_bytes": 9, "usable_bytes": 5, "reserved_bytes": 2}
    unknown = {**known, "path": "/b", "total_bytes": None, "usable_bytes": None}
    disks = {"log_dirs": [known, unknown], "unguarded": {"4": "why"}}
    metrics.show(StatusSnapshot({"disks": disks}, work_of(), None))
    usable = "reassigner_log_dir_usable_bytes"
    assert value(metrics, usable, broker="4", log_dir="/a") == 5
    assert value(metrics, usable, broker="4", log_dir="/b") is None
    assert value(metrics, "reassigner_log_dir_reserved_bytes", broker="4", log_dir="/b") == 2
    assert value(metrics, "reassigner_disks_unguarded") == 1
