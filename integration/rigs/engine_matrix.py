"""
The tested combinations: a row is an engine, a Kafka release and its inter-broker protocol.

``docs/guide/engines.md`` lists the same rows; a row that is not here was not tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.kafka_jars import (
    KAFKA_2_3,
    KAFKA_2_4,
    KAFKA_2_7,
    KAFKA_2_8,
    KAFKA_3_2,
    KAFKA_3_5,
    KAFKA_3_9,
    Release,
)
from integration.rigs.servers import INTERNAL_LISTENER, BrokerOptions

SERVED_INTERNALLY: Final = (
    "--controller-endpoint",
    "private",
    "--endpoint-listen",
    "127.0.0.1:0",
    "--endpoint-listener",
    INTERNAL_LISTENER,
)
"""Serve brokers by the listener that clients do not use."""
PRIVATE_ENDPOINT: Final = (*SERVED_INTERNALLY, "--inter-broker-listener", INTERNAL_LISTENER)
"""Reach them by it, too."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    engine: str
    release: Release
    protocol: str | None
    """The inter-broker protocol; None: the highest that the release has."""
    wanted: str = "auto"
    """The value of ``--engine``; ``auto`` chooses by the cluster."""
    endpoint: bool = False
    """True if brokers have a listener of their own, and the daemon serves them there."""

    @property
    def name(self) -> str:
        """The name of the row in the ids of tests."""
        served = "-endpoint" if self.endpoint else ""
        return f"{self.engine}{served}-{self.release.kafka}-{self.protocol or 'full'}"

    @property
    def options(self) -> ClusterOptions:
        """The options of its cluster."""
        return ClusterOptions(
            broker=BrokerOptions(
                inter_broker_protocol=self.protocol, release=self.release, internal=self.endpoint
            )
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command-line options of its daemons."""
        return ("--engine", self.wanted, *(PRIVATE_ENDPOINT if self.endpoint else ()))

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        """Yield its cluster, which knows the options of its daemons."""
        with Cluster.running(self.options) as cluster:
            cluster.daemon_options = self.arguments
            yield cluster


NATIVE: Final = (
    Row("native", KAFKA_3_9, "2.6"),
    Row("native", KAFKA_3_9, None, wanted="native", endpoint=True),
)
"""Leaders change their ISR by themselves, as on the shared cluster, or ask the daemon."""
ROWS: Final = (
    Row("delegated", KAFKA_3_9, None),
    Row("delegated", KAFKA_3_9, "2.6", wanted="delegated"),
    Row("delegated", KAFKA_2_4, None, wanted="delegated"),
    Row("native", KAFKA_3_9, "2.6"),
    Row("native", KAFKA_2_4, None),
    Row("native", KAFKA_2_3, None),
    Row("native", KAFKA_3_9, None, endpoint=True),
    Row("native", KAFKA_3_5, None, endpoint=True),
    Row("native", KAFKA_3_2, None, endpoint=True),
    Row("native", KAFKA_2_8, None, endpoint=True),
    Row("native", KAFKA_2_7, None, endpoint=True),
)
ENGINES: Final = tuple(
    next(row for row in ROWS if row.engine == name) for name in ("native", "delegated")
)
"""The first row of each engine."""
