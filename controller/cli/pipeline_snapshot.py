"""``pipeline snapshot``: write the state of a cluster as Parquet tables; and a Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from controller.cli import options, prometheus_rates
from controller.cli.context import CommandContext
from controller.cli.options import command, flag, option
from controller.cli.output import print_note
from controller.cli.prometheus_rates import read_rates
from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.core.model import count_text
from controller.errors import InvalidInputError
from controller.previews.cluster_queries import broker_connections
from controller.units import MS_PER_S, parse_duration
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.brokers.surveys import Holdings
    from controller.pipeline.snapshot_writer import DirectoryRow
    from controller.settings import Settings
    from controller.zk.operator_client import OperatorClient


EXTRA: Final = "kafka-reassigner[pipeline]"

MASTER: Final = option("URL", "Spark master. Default: that of spark-submit, or local[*].")
MEMORY: Final = option(
    "SIZE", "Memory of the Spark driver, if the command starts it.", default="4g"
)
OUT: Final = option("DIR", "Directory to write.", default=...)


@contextmanager
def spark_session(
    context: CommandContext, master: str | None, memory: str, *, is_brief: bool = False
) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """Start Spark for one command; yield it with a function that prints a stage and its time."""
    try:
        from controller.pipeline.spark_session import open_session  # noqa: PLC0415 - the extra may not be installed
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"{error.name} is not installed: pip install '{EXTRA}'") from error
    begun = context.now()

    def note(stage: str) -> None:
        print_note(f"[{context.now() - begun:6.1f} s] {stage}")

    note("starting Spark")
    spark = open_session(master, memory=memory, is_brief=is_brief)
    try:
        yield spark, note
    finally:
        spark.stop()


@command("zookeeper", "config", "master", "driver_memory", "as_json", connects=False)
def snapshot(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    out: Path = OUT,
    *,
    stock: Path | None = option(
        "CURRENT.json",
        "Read this file of Kafka's tool instead of a running cluster. Default: the cluster.",
        "--from",
    ),
    sizes: Path | None = option(
        "CSV", "With --from: sizes, as topic,partition,size_bytes. Default: unknown."
    ),
    brokers: Path | None = option(
        "CSV", "With --from: brokers, as broker,rack,capacity_bytes. Default: those of the file."
    ),
    rates: Path | None = option(
        "FILE",
        "Read rates from this file, CSV or Parquet: topic, partition, bytes_in_per_s, "
        "bytes_out_per_s. Default: none.",
    ),
    prometheus: str | None = option(
        "URL", "Read the rates of topics from this server. Default: none."
    ),
    prometheus_query: str = option(
        "PROMQL", "Query of bytes in per second.", default=prometheus_rates.BYTES_IN
    ),
    prometheus_query_out: str = option(
        "PROMQL",
        "Query of the bytes per second that consumers fetch; empty: none.",
        default=prometheus_rates.BYTES_OUT,
    ),
    prometheus_range: str | None = option(
        "DURATION", "Take the mean of the queries over the last DURATION. Default: now."
    ),
    measure_rates: str | None = option(
        "DURATION",
        "Read the log directories again after this time, and take bytes in from their growth. "
        "Default: once.",
    ),
    rates_journal: list[Path] | None = option(
        "DIR",
        "Read the rates of copied partitions from this journal; may be repeated. Default: none.",
    ),
    idle_if_missing: bool = flag(
        "--idle-if-missing",
        "Partitions that no source of rates names are idle. Default: their rates are unknown.",
    ),
    master: str | None = MASTER,
    driver_memory: str = MEMORY,
) -> None:
    """
    Write the state of a cluster as Parquet tables.

    Example: reassigner pipeline snapshot --zookeeper zk1:2181/kafka --out snapshot

    Reads ZooKeeper and queries every broker for its log directories. With --from, reads a file of
    Kafka's tool and needs no cluster. The rates of partitions come from a file, Prometheus, two
    readings of the log directories, or journals; the first of these that knows a rate counts.
    Queries must yield the label topic, and the label partition if it is known. Exit code: 0
    written, 1 error.
    """
    if stock is None and (sizes is not None or brokers is not None):
        raise InvalidInputError("--sizes and --brokers need --from")
    if stock is not None and measure_rates is not None:
        raise InvalidInputError("--measure-rates needs a cluster, not --from")
    again_after = options.parse(parse_duration, "--measure-rates", measure_rates)
    # Read before Spark starts, so that a wrong query fails at once.
    read = []
    if prometheus is not None:
        queries = prometheus_query, prometheus_query_out
        over = options.parse(parse_duration, "--prometheus-range", prometheus_range)
        read = _prometheus_rates(prometheus, queries, over, context.wall_ms() / MS_PER_S)
    taken_at = datetime.fromtimestamp(context.wall_ms() / MS_PER_S, UTC).isoformat()
    with spark_session(context, master, driver_memory, is_brief=True) as (spark, note):
        from controller.pipeline.snapshot_files import (  # noqa: PLC0415 - as above
            read_rate_file,
            snapshot_of_files,
        )
        from controller.pipeline.snapshot_tables import Manifest  # noqa: PLC0415 - as above
        from controller.pipeline.snapshot_writer import (  # noqa: PLC0415 - the extra may not be installed
            PROMETHEUS,
            RateRow,
            SnapshotSource,
            rate_notes,
            read_journal_rates,
            write_snapshot,
        )

        rated = chain(
            () if rates is None else read_rate_file(spark, rates),
            (RateRow(PROMETHEUS, *row) for row in read),
            read_journal_rates(spark, rates_journal) if rates_journal else (),
        )
        has_rates = any((rates, prometheus, measure_rates, rates_journal))

        if stock is not None:
            tables = snapshot_of_files(
                spark,
                stock,
                sizes,
                brokers,
                taken_at,
                out,
                progress=lambda text: print_note(f"Note: {text}"),
                rates=rated,
                is_idle=idle_if_missing,
            )
        else:
            settings = context.settings()
            note("reading the cluster")
            with context.connect(settings) as operator:
                rows = survey_cluster(settings, operator)
            if rows.reassigning:
                are = "is" if rows.reassigning == 1 else "are"
                reassigning = count_text(rows.reassigning, "partition")
                print_note(f"Note: {reassigning} {are} being reassigned.")
            held, led, assigned = rows.held_rows(), rows.led_rows(), rows.assigned_rows()
            source = SnapshotSource(
                held,
                led,
                assigned,
                rows.topic_rows(),
                held_again=() if again_after is None else rows.held_again_rows(again_after),
                rates=rated,
                is_idle=idle_if_missing,
                log_dirs=rows.log_dir_rows(),
            )
            manifest = Manifest(rows.cluster_id, taken_at, "cluster")
            tables = write_snapshot(spark, source, rows.broker_rows(), manifest, out)
        counted = tables.counts()
        if has_rates:
            for text in rate_notes(tables):
                print_note(f"Note: {text}")
    nouns = ("broker", "topic", "partition", "replica")
    amounts = ", ".join(count_text(counted[f"{noun}s"], noun) for noun in nouns)
    context.print_result(lambda: counted, [f"{amounts}, {counted['bytes']} bytes: {out}"])


def _prometheus_rates(
    server: str, queries: Sequence[str], over_s: float | None, now: float
) -> list[tuple[str, int | None, float | None, float | None]]:
    """Return topic, partition, bytes in and bytes out; what has one of them only has None."""
    span = None if over_s is None else (now - over_s, now)
    bytes_in, bytes_out = queries
    written = read_rates(server, bytes_in, span)
    # Not every exporter reports it; what is missing is said of the snapshot.
    fetched = read_rates(server, bytes_out, span, is_needed=False) if bytes_out else {}
    keys = sorted({*written, *fetched}, key=str)
    return [(*key, written.get(key), fetched.get(key)) for key in keys]


@dataclass(slots=True)
class ClusterRows:
    """The state of a cluster as rows; ``held_rows`` completes ``capacities`` and ``dirs``."""

    query_holdings: Callable[[], Iterator[Holdings]]
    brokers: Mapping[model.BrokerId, LiveBroker]
    topics: Mapping[str, model.TopicAssignment]
    min_insync: Mapping[str, int | str]
    settings: Mapping[str, Mapping[str, str]]
    """The overrides of topics."""
    states: Mapping[model.TopicPartition, model.PartitionState]
    cluster_id: str
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    capacities: dict[model.BrokerId, int | None] = field(default_factory=dict)
    dirs: list[DirectoryRow] = field(default_factory=list)
    read_at: dict[model.BrokerId, float] = field(default_factory=dict)
    """When each broker answered first."""

    def held_rows(self) -> Iterator[tuple[str, int, int, int, str]]:
        """Yield topic, partition, broker, bytes and log directory."""
        for holdings in self.query_holdings():
            self.read_at[holdings.broker] = self.monotonic()
            self.capacities[holdings.broker] = holdings.capacity
            broker, volumes = int(holdings.broker), holdings.volumes
            self.dirs += [
                (broker, d.path, volumes[d.path], d.total, d.usable, d.is_failed)
                for d in holdings.dirs
            ]
            for replica in holdings.replicas:
                topic, partition = replica.partition
                yield topic, partition, holdings.broker, replica.size, replica.log_dir

    def held_again_rows(self, after_s: float) -> Iterator[tuple[str, int, int, int, float]]:
        """Yield topic, partition, broker, bytes and the seconds since the first reading."""
        last = max(self.read_at.values(), default=0.0)
        self.sleep(max(0.0, last + after_s - self.monotonic()))
        for holdings in self.query_holdings():
            seconds = self.monotonic() - self.read_at[holdings.broker]
            for replica in holdings.replicas:
                topic, partition = replica.partition
                yield topic, partition, int(holdings.broker), replica.size, seconds

    def led_rows(self) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
        """Yield topic, partition, leader and ISR."""
        for (topic, partition), state in self.states.items():
            yield topic, partition, state.leader, state.isr

    def assigned_rows(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield topic, partition and replicas; of a reassigning partition, its target replicas."""
        for name, topic in self.topics.items():
            for partition, assignment in topic.partitions.items():
                yield name, partition, assignment.target_replicas

    def topic_rows(self) -> Iterator[tuple[str, int | None, Mapping[str, str]]]:
        """Yield topic, effective min.insync.replicas and overrides."""
        for name in self.topics:
            least = self.min_insync.get(name)
            yield name, least if isinstance(least, int) else None, self.settings.get(name, {})

    def broker_rows(self) -> Iterator[tuple[int, str | None, str | None, int | None, bool]]:
        """Yield every broker that is registered or has replicas."""
        assigned = {b for _, _, replicas in self.assigned_rows() for b in replicas}
        for broker in map(model.BrokerId, sorted(assigned | self.brokers.keys())):
            live = self.brokers.get(broker)
            host = live.endpoints[0].host if live is not None and live.endpoints else None
            rack = None if live is None else live.rack
            yield int(broker), rack, host, self.capacities.get(broker), live is not None

    def log_dir_rows(self) -> Iterator[DirectoryRow]:
        """Yield every log directory."""
        yield from sorted(self.dirs)

    @property
    def reassigning(self) -> int:
        """The number of reassigning partitions."""
        return sum(a.is_reassigning for t in self.topics.values() for a in t.partitions.values())


def survey_cluster(settings: Settings, operator: OperatorClient) -> ClusterRows:
    """Read ZooKeeper and the topics' settings; brokers are asked for sizes row by row."""
    from controller.brokers import log_dirs, surveys  # noqa: PLC0415 - only this needs brokers

    connections = broker_connections(settings)
    path = settings.disk_capacities
    capacities: log_dirs.Capacities = log_dirs.no_capacities
    if path is not None:
        capacities = log_dirs.DiskCapacities(path, print_note)
    brokers = operator.cluster.brokers()
    holdings = partial(surveys.query_holdings, connections, brokers.values(), capacities)
    topics = operator.partitions.readable_topics()
    states = operator.partitions.readable_states(topics)
    least = surveys.query_min_insync(connections, brokers.values(), topics)
    own = operator.throttles.settings(paths.TOPIC_CONFIGS)
    cluster_id = operator.cluster.cluster_id() or ""
    return ClusterRows(
        holdings, brokers, topics, least, own, states, cluster_id, time.monotonic, time.sleep
    )
