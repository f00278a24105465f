"""
``pipeline snapshot``: write the state of a cluster as Parquet tables; and a Spark session.

Rates at which topics are written come from one instant query of Prometheus' HTTP API. Each series
has the label ``topic``, and ``partition`` if it is known; series with the same labels are added.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from controller.cli.context import CommandContext
from controller.cli.options import command, option
from controller.cli.output import print_note
from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.core.model import count_text
from controller.errors import InvalidInputError
from controller.previews.cluster_queries import broker_connections
from controller.units import MS_PER_S
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.brokers.surveys import Holdings
    from controller.pipeline.snapshot_writer import DirectoryRow
    from controller.settings import Settings
    from controller.zk.operator_client import OperatorClient


QUERY: Final = 'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[1h]))'
"""The metric has the name that the JMX exporter's rules for Kafka give it."""
WITHIN_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 512 << 20
SHOWN_MAX: Final = 5
SAID_MAX: Final = 300

TopicRates = Mapping[tuple[str, int | None], float]
"""Bytes per second by topic and partition; None: of the whole topic."""
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
    prometheus: str | None = option(
        "URL", "Read the write rates of topics from this server. Default: no rates."
    ),
    prometheus_query: str = option("PROMQL", "Query of bytes in per second.", default=QUERY),
    master: str | None = MASTER,
    driver_memory: str = MEMORY,
) -> None:
    """
    Write the state of a cluster as Parquet tables.

    Example: reassigner pipeline snapshot --zookeeper zk1:2181/kafka --out snapshot

    Reads ZooKeeper and queries every broker for its log directories. With --from, reads a file of
    Kafka's tool and needs no cluster. With --prometheus, adds the write rates of topics; the query
    must yield a vector with the label topic, and with the label partition if it is known. Exit
    code: 0 written, 1 error.
    """
    if stock is None and (sizes is not None or brokers is not None):
        raise InvalidInputError("--sizes and --brokers need --from")
    # Read before Spark starts, so that a wrong query fails at once.
    rates = {} if prometheus is None else read_rates(prometheus, prometheus_query)
    rated = tuple((topic, n, rate) for (topic, n), rate in sorted(rates.items(), key=str))
    taken_at = datetime.fromtimestamp(context.wall_ms() / MS_PER_S, UTC).isoformat()
    with spark_session(context, master, driver_memory, is_brief=True) as (spark, note):
        from controller.pipeline.snapshot_tables import Manifest  # noqa: PLC0415 - as above
        from controller.pipeline.snapshot_writer import (  # noqa: PLC0415 - the extra may not be installed
            SnapshotSource,
            snapshot_of_files,
            write_snapshot,
        )

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
                held, led, assigned, rows.topic_rows(), rated, rows.log_dir_rows()
            )
            manifest = Manifest(rows.cluster_id, taken_at, "cluster")
            tables = write_snapshot(spark, source, rows.broker_rows(), manifest, out)
        counted = tables.counts()
    nouns = ("broker", "topic", "partition", "replica")
    amounts = ", ".join(count_text(counted[f"{noun}s"], noun) for noun in nouns)
    context.print_result(lambda: counted, [f"{amounts}, {counted['bytes']} bytes: {out}"])


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
    capacities: dict[model.BrokerId, int | None] = field(default_factory=dict)
    dirs: list[DirectoryRow] = field(default_factory=list)

    def held_rows(self) -> Iterator[tuple[str, int, int, int, str]]:
        """Yield topic, partition, broker, bytes and log directory."""
        for holdings in self.query_holdings():
            self.capacities[holdings.broker] = holdings.capacity
            broker, volumes = int(holdings.broker), holdings.volumes
            self.dirs += [
                (broker, d.path, volumes[d.path], d.total, d.usable, d.is_failed)
                for d in holdings.dirs
            ]
            for replica in holdings.replicas:
                topic, partition = replica.partition
                yield topic, partition, holdings.broker, replica.size, replica.log_dir

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
    return ClusterRows(holdings, brokers, topics, least, own, states, cluster_id)


# --- write rates from Prometheus -----------------------------------------------------------------


def read_rates(server: str, query: str = QUERY, *, within_s: float = WITHIN_S) -> TopicRates:
    """Return the vector of a PromQL query, in bytes per second by topic."""
    if urlsplit(server).scheme not in {"http", "https"}:
        raise InvalidInputError(
            f"--prometheus takes a URL such as http://prometheus:9090: {server}"
        )
    document = _response_to(server, query, within_s)
    data = document.get("data")
    found = data.get("result") if isinstance(data, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind != "vector" or not isinstance(found, list):
        raise InvalidInputError(f"{server}: {query} is not a vector but {kind or 'something else'}")
    if not found:
        raise InvalidInputError(
            f"{server}: {query} has no series; name another metric with --prometheus-query"
        )
    return _sum_of(found, f"{server}: {query}")


def _response_to(server: str, query: str, within_s: float) -> Mapping[str, Any]:
    url = f"{server.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=within_s) as response:  # noqa: S310 - checked above
            document = json.loads(response.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            said = _message_of(error)
        raise InvalidInputError(f"{server} answers {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InvalidInputError(f"{server} is not a Prometheus that answers: {reason}") from error
    if not isinstance(document, dict) or document.get("status") != "success":
        raise InvalidInputError(f"{server} is not a Prometheus that answers queries")
    return document


def _message_of(error: urllib.error.HTTPError) -> str:
    body = error.read(1 << 16).decode(errors="replace").strip()
    try:
        document = json.loads(body)
    except ValueError:
        return body[:SAID_MAX] or error.reason
    said = document.get("error") if isinstance(document, dict) else None
    return str(said or body)[:SAID_MAX]


def _sum_of(series: list[Any], about: str) -> TopicRates:
    found: dict[tuple[str, int | None], float] = {}
    problems: list[str] = []
    for row in series:
        try:
            key, rate = _parse_row(row)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            problems.append(f"  {error}: {json.dumps(row)[:SAID_MAX]}")
        else:
            found[key] = found.get(key, 0.0) + rate
    if problems:
        shown = "\n".join(problems[:SHOWN_MAX])
        raise InvalidInputError(
            f"{about}: {len(problems)} of {len(series)} series are wrong:\n{shown}"
        )
    return found


def _parse_row(row: Any) -> tuple[tuple[str, int | None], float]:  # noqa: ANN401 - JSON
    labels, rate = row["metric"], float(row["value"][1])
    if not labels.get("topic"):
        raise ValueError("no label topic")
    if not math.isfinite(rate) or rate < 0:
        raise ValueError("not a rate")
    partition = labels.get("partition")
    return (str(labels["topic"]), None if partition is None else int(partition)), rate
