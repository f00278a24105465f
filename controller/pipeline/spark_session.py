"""The Spark session, whether it is made here or by ``spark-submit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

DEFAULT_MEMORY: Final = "4g"
LOCALHOST: Final = "127.0.0.1"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
QUIET: Final = Path(__file__).with_name("log4j2.properties")
"""Only errors: what Spark has to say besides would hide what we tell."""
BRIEFLY: Final = "-XX:TieredStopAtLevel=1"
"""Java's quick compiler alone: the thorough one costs more than it saves in a minute's work."""


def open_session(
    master: str | None,
    *,
    memory: str = DEFAULT_MEMORY,
    shuffles: int | None = None,
    is_brief: bool = False,
) -> Any:
    """
    Open a Spark session, or join the one that ``spark-submit`` made.

    Args:
        master: Spark's master; None leaves it to ``spark-submit``, and is ``local[*]`` without it.
        memory: Of the driver, as Spark writes it.
        shuffles: Into how many parts data is shuffled; None: two per core.
        is_brief: Most of the work is done once, such as reading and writing; concerns the driver,
            and with it all of a local Spark.

    """
    builder = SparkSession.builder.appName("reassigner-pipeline")
    if SparkSession.getActiveSession() is None:
        java = [f"-Dlog4j2.configurationFile={QUIET.as_uri()}", *([BRIEFLY] if is_brief else [])]
        builder = builder.config("spark.driver.memory", memory).config(
            "spark.driver.extraJavaOptions", " ".join(java)
        )
    if master is not None:
        builder = builder.master(master)
    if _is_local(master):
        # Results that are large go by way of this address, also within one machine.
        builder = builder.config("spark.driver.host", LOCALHOST).config(
            "spark.driver.bindAddress", LOCALHOST
        )
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    parts = shuffles or max(4, 2 * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    session.sparkContext.setLogLevel("ERROR")
    return session


def _is_local(master: str | None) -> bool:
    if master is None:
        # `spark-submit` says in its environment where its own JVM listens.
        return SUBMITTED not in os.environ
    return master.startswith("local")
