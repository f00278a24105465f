"""Gauges of requests and brokers vanish with them."""

from __future__ import annotations

from controller.core.core_settings import EngineName
from controller.telemetry import gauges
from controller.telemetry.metrics import Metrics
from controller.telemetry.status_publisher import StatusPublisher
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, FixedClock, a_view
from tests.telemetry.test_copy_volumes import two_to_copy


def test_request_is_exported_by_slot_until_it_is_gone(engine: EngineName) -> None:
    """Its id is in one metric alone, which has as many series as there are slots."""
    clock, metrics = FixedClock(), Metrics()
    publisher = StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0
    )

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"reassigner_{name}", labels)

    view = two_to_copy(engine).view
    snapshot = publisher.tend(view)
    assert snapshot is not None
    metrics.show(snapshot)
    assert value("request_bytes", slot="0", state="remaining") == 2000
    assert value("request_partitions", slot="0", state="in_flight") == 1
    assert value("bytes", state="remaining") == 2000
    assert value("requests", state="in_flight") == 1
    assert value("requests", state="held") == 0
    assert value("broker_incoming_replicas", broker="4") == 1
    assert value("broker_outgoing_partitions", broker="1") == 1
    assert value("broker_in_remaining_bytes", broker="5") == 1000
    assert value("broker_out_remaining_bytes", broker="2") == 1000
    assert value("brokers") == 5
    assert value("request_info", slot="0", request=REQUEST) == 1
    assert metrics.exposition().count(REQUEST.encode()) == 1
    assert value("request_progress_ratio", slot="0") == 0
    view.reassignments.by_partition.clear()
    view.requests.by_id.clear()
    view.cluster.brokers = a_view(1).view.cluster.brokers
    clock.go(60)
    snapshot = publisher.tend(view)
    assert snapshot is not None
    metrics.show(snapshot)
    assert value("request_bytes", slot="0", state="remaining") is None
    assert value("request_info", slot="0", request=REQUEST) is None
    assert value("broker_incoming_replicas", broker="4") is None
    assert value("bytes", state="remaining") == 0


def test_oldest_wait_for_an_isr_is_exported(engine: EngineName) -> None:
    """Of copies; pending partitions do not count."""
    clock, metrics = FixedClock(), Metrics()
    publisher = StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0
    )
    built = two_to_copy(engine)
    built.with_partition(tp(1), (1, 2, 3)).with_reassignment(tp(1), (4, 5, 1), since=100)
    built.view.pacing.in_flight = 1
    snapshot = publisher.tend(built.view)
    assert snapshot is not None
    metrics.show(snapshot)
    assert metrics.registry.get_sample_value("reassigner_isr_wait_oldest_seconds") == 10


def test_every_gauge_without_labels_has_a_text_and_a_value(engine: EngineName) -> None:
    """One without a value would be zero for ever, and one without a text is not exported."""
    clock = FixedClock()
    publisher = StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0
    )
    snapshot = publisher.tend(two_to_copy(engine).view)
    assert snapshot is not None
    assert gauges._counts_of(snapshot).keys() == gauges.COUNTS.keys()
