"""The measurement of latency by itself, without a daemon, on a real cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from controller.brokers.connection_settings import connection_settings_of
from controller.brokers.latencies import MeasuredLatencies
from controller.brokers.produce_probe import ProduceProbe
from controller.clocks import MonotonicClock
from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.core.pacing.records import LatencyMeasured
from controller.core.records import Event
from controller.setting_sources import load_settings
from controller.zk.operator_client import OperatorClient
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.probe_topic_writes import ProbeTopicWrites
from integration.rigs.cluster import Cluster
from integration.rigs.waiting import eventually

OBJECTIVE_S: Final = 0.5
LONG_S: Final = 3600.0


class Measurement:
    """An inbox that keeps what was measured, in turn."""

    def __init__(self) -> None:
        self.events: list[LatencyMeasured] = []
        self.records: list[str] = []
        """The result of each record."""

    def put(self, event: Event) -> None:
        """Add an event; the probe puts no other kind."""
        assert isinstance(event, LatencyMeasured)
        self.events.append(event)

    @property
    def problems(self) -> Mapping[SignalKind, str]:
        """What could not be measured last."""
        return self.events[-1].problems if self.events else {}

    @property
    def expected(self) -> frozenset[SignalKind]:
        """The kinds that were expected last."""
        return self.events[-1].expected if self.events else frozenset()

    def since(self, begun: float) -> list[Signal]:
        """Return the readings of records that were sent after an instant."""
        return [r for e in self.events[:] for r in e.readings if r.since >= begun]

    def leaders(self, begun: float) -> set[BrokerId | None]:
        """Return the leaders of these records."""
        return {r.broker for r in self.since(begun)}

    def await_leaders(self, leaders: set[int], *, within_s: float = 60.0) -> None:
        """Wait for readings of all these leaders, all of them begun from now on."""
        begun = MonotonicClock().now()
        eventually(
            lambda: self.leaders(begun) >= leaders,
            within_s=within_s,
            what=lambda: f"{leaders} are measured; {self.leaders(begun)} are: {self.problems}",
        )


@contextmanager
def measuring(
    cluster: Cluster, hosts: set[int], settings: Mapping[str, str] | None = None
) -> Iterator[Measurement]:
    """Measure with the settings of a daemon; ``hosts`` are the brokers of the probe's topic."""
    environ = {**os.environ, "REASSIGNER_ZOOKEEPER": cluster.zookeeper_connect, **(settings or {})}
    loaded = load_settings({}, environ, None)
    measurement = Measurement()
    probe = ProduceProbe(
        connection_settings_of(loaded),
        ProbeTopicWrites(lambda: ZooKeeperConnection(loaded)).provide,
        objective_s=OBJECTIVE_S,
        count=measurement.records.append,
    )
    with OperatorClient(loaded) as operator:
        probe.update_brokers(operator.cluster.brokers().values())
    clock = MonotonicClock()
    latencies = MeasuredLatencies(measurement, clock, probe, None)
    latencies.start()
    latencies.measure(Instant(clock.now() + LONG_S), frozenset(map(BrokerId, hosts)))
    try:
        yield measurement
    finally:
        latencies.stop()
    assert not latencies.is_alive


def quantiles(readings: list[Signal]) -> Mapping[BrokerId | None, tuple[float, float]]:
    """Return the median and the greatest of the values, by leader."""
    found: dict[BrokerId | None, list[float]] = {}
    for reading in readings:
        found.setdefault(reading.broker, []).append(reading.value)
    return {b: (sorted(v)[len(v) // 2], max(v)) for b, v in found.items()}
