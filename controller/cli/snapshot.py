"""``pipeline snapshot``: write the state of a cluster as Parquet tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import options
from controller.cli.context import context_of
from controller.cli.output import print_json, print_line, print_note
from controller.cli.prometheus import QUERY, read_rates
from controller.cli.spark import MasterOption, MemoryOption, OutOption, spark_session
from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.errors import InvalidInputError
from controller.previews.access import broker_survey
from controller.settings import Settings
from controller.units import MS_PER_S
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.brokers.cluster_survey import ClusterSurvey
    from controller.pipeline.snapshot_writer import DirectoryRow


def snapshot(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    out: OutOption,
    *,
    stock: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CURRENT.json",
            help="Read this file of Kafka's tool instead of a running cluster. "
            "Default: the cluster.",
        ),
    ] = None,
    sizes: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="With --from: sizes, as topic,partition,size_bytes. Default: unknown.",
        ),
    ] = None,
    brokers: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="With --from: brokers, as broker,rack,capacity_bytes. Default: those of the file.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Read the write rates of topics from this server. Default: no rates.",
        ),
    ] = None,
    prometheus_query: Annotated[
        str, typer.Option(metavar="PROMQL", help="Query of bytes in per second.")
    ] = QUERY,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    master: MasterOption = None,
    driver_memory: MemoryOption = "4g",
    as_json: options.JsonOption = False,
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
    context = context_of(ctx)
    # Read before Spark starts, so that a wrong query fails at once.
    rates = {} if prometheus is None else read_rates(prometheus, prometheus_query)
    rated = tuple((topic, n, rate) for (topic, n), rate in sorted(rates.items(), key=str))
    taken_at = datetime.fromtimestamp(context.wall_ms() / MS_PER_S, UTC).isoformat()
    with spark_session(context, master, driver_memory, is_brief=True) as (spark, note):
        from controller.pipeline import commands  # noqa: PLC0415 - the extra may not be installed
        from controller.pipeline.snapshot_writer import SnapshotSource  # noqa: PLC0415 - as above
        from controller.pipeline.tables import Manifest  # noqa: PLC0415 - as above

        if stock is not None:
            counted = commands.snapshot_of_files(
                spark, stock, sizes, brokers, taken_at, out, progress=_print_note, rates=rated
            )
        else:
            settings = context.settings({"zookeeper": zookeeper}, config)
            note("reading the cluster")
            with context.connect(settings) as operator:
                rows = survey_cluster(settings, operator)
            if rows.reassigning:
                print_note(f"Note: {rows.reassigning} partitions are being reassigned.")
            source = SnapshotSource(
                rows.held_rows(),
                rows.led_rows(),
                rows.assigned_rows(),
                rows.topic_rows(),
                rated,
                rows.log_dir_rows(),
            )
            manifest = Manifest(rows.cluster_id, taken_at, "cluster")
            counted = commands.snapshot_of_cluster(spark, source, rows.broker_rows(), manifest, out)
    if as_json:
        print_json(counted)
    else:
        print_line(
            f"{counted['brokers']} brokers, {counted['topics']} topics, "
            f"{counted['partitions']} partitions, {counted['replicas']} replicas, "
            f"{counted['bytes']} bytes: {out}"
        )


def _print_note(text: str) -> None:
    print_note(f"Note: {text}")


@dataclass(slots=True)
class ClusterRows:
    """The state of a cluster as rows; ``held_rows`` completes ``capacities`` and ``dirs``."""

    survey: ClusterSurvey
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
        for holdings in self.survey.holdings(self.brokers.values()):
            self.capacities[holdings.broker] = holdings.capacity
            self.dirs += [
                (int(holdings.broker), d.path, volume, d.total, d.usable, d.is_failed)
                for d in holdings.dirs
                for volume in (holdings.volumes[d.path],)
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
    """
    Read ZooKeeper and the topics' settings; brokers are asked for sizes row by row.

    Args:
        settings: Addresses and credentials.
        operator: The connection to ZooKeeper.

    """
    from controller.brokers.cluster_survey import ClusterSurvey  # noqa: PLC0415 - only this needs brokers
    from controller.brokers.disk_capacities import DiskCapacities  # noqa: PLC0415 - as above
    from controller.brokers.endpoints import listeners_of, security_of  # noqa: PLC0415 - as above
    from controller.brokers.log_dirs import no_capacities  # noqa: PLC0415 - as above

    topic_survey = broker_survey(settings)
    path = settings.disk_capacities
    capacities = no_capacities if path is None else DiskCapacities(path, print_note)
    survey = ClusterSurvey(security_of(settings), listeners_of(settings), capacities)
    brokers = operator.cluster.brokers()
    topics = operator.survey_topics()
    states = operator.survey_states(topics)
    least = topic_survey.min_insync(brokers.values(), topics)
    own = operator.throttles.settings(paths.TOPIC_CONFIGS)
    cluster_id = operator.cluster.cluster_id() or ""
    return ClusterRows(survey, brokers, topics, least, own, states, cluster_id)
