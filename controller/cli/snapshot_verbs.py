"""The verb ``pipeline snapshot``: what a cluster holds, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.prometheus import QUERY, read_rates
from controller.cli.report_text import say, say_json, tell
from controller.cli.snapshot_rows import survey_fleet
from controller.cli.spark_verbs import MasterOption, MemoryOption, OutOption, SparkVerbs
from controller.errors import InvalidInputError


class SnapshotVerbs(SparkVerbs):
    """Reading a cluster as a whole."""

    def snapshot(  # noqa: PLR0913 - the options of the verb
        self,
        out: OutOption,
        *,
        stock: Annotated[
            Path | None,
            typer.Option("--from", metavar="CURRENT.json", help="Instead of a running cluster."),
        ] = None,
        sizes: Annotated[
            Path | None,
            typer.Option("--sizes", metavar="CSV", help="topic,partition,size_bytes; with --from."),
        ] = None,
        brokers: Annotated[
            Path | None,
            typer.Option(
                "--brokers", metavar="CSV", help="broker,rack,capacity_bytes; with --from."
            ),
        ] = None,
        prometheus: Annotated[
            str | None,
            typer.Option("--prometheus", metavar="URL", help="Rates of topics from this server."),
        ] = None,
        prometheus_query: Annotated[
            str, typer.Option("--prometheus-query", metavar="PROMQL", help="Bytes in per second.")
        ] = QUERY,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        master: MasterOption = None,
        driver_memory: MemoryOption = "4g",
        as_json: JsonOption = False,
    ) -> None:
        """
        Write down what a cluster holds, as Parquet tables.

        Example: reassigner pipeline snapshot --zookeeper zk1:2181/kafka --out snapshot

        Reads ZooKeeper and asks every broker for its log directories. With --from, what a stock
        JSON says, and no cluster is needed. With --prometheus, also what is written to topics: the
        query has to yield a vector with the label topic, and partition where that is known. Exit
        code: 0 written, 1 error.
        """
        if stock is None and (sizes is not None or brokers is not None):
            raise InvalidInputError("--sizes and --brokers go with --from")
        # Asked for first: what is wrong with it is known before anything takes long.
        rates = {} if prometheus is None else read_rates(prometheus, prometheus_query)
        rated = tuple((topic, n, rate) for (topic, n), rate in sorted(rates.items(), key=str))
        taken_at = datetime.fromtimestamp(self._around.wall_ms() / 1000, UTC).isoformat()
        with self._spark(master, driver_memory, is_brief=True) as (spark, course):
            from controller.pipeline import commands  # noqa: PLC0415 - the extra may not be installed
            from controller.pipeline.snapshot_writer import SnapshotSource  # noqa: PLC0415 - as above
            from controller.pipeline.tables import Manifest  # noqa: PLC0415 - as above

            if stock is not None:
                counted = commands.snapshot_of_files(
                    spark, stock, sizes, brokers, taken_at, out, rates=rated
                )
            else:
                settings = self._around.settings({"zookeeper": zookeeper}, config)
                course("reading the cluster")
                with self._around.inspect(settings) as inspector:
                    rows = survey_fleet(settings, inspector)
                if rows.reassigning:
                    tell(f"Note: {rows.reassigning} partitions are being reassigned just now")
                told = SnapshotSource(
                    rows.held_rows(),
                    rows.led_rows(),
                    rows.assigned_rows(),
                    rows.topic_rows(),
                    rated,
                )
                manifest = Manifest(rows.cluster_id, taken_at, "cluster")
                counted = commands.snapshot_of_cluster(
                    spark, told, rows.broker_rows(), manifest, out
                )
        if as_json:
            say_json(counted)
        else:
            say(
                f"{counted['brokers']} brokers, {counted['topics']} topics, "
                f"{counted['partitions']} partitions, {counted['replicas']} replicas, "
                f"{counted['bytes']} bytes: {out}"
            )
