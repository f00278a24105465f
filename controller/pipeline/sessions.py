"""The Spark session, whether it is made here or by ``spark-submit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

DEFAULT_MEMORY: Final = "4g"
QUIET: Final = Path(__file__).with_name("log4j2.properties")
"""Only errors: what Spark has to say besides would hide what we tell."""


def open_session(
    master: str | None, *, memory: str = DEFAULT_MEMORY, shuffles: int | None = None
) -> Any:
    """
    Open a Spark session, or join the one that ``spark-submit`` made.

    Args:
        master: Spark's master; None leaves it to ``spark-submit``, and is ``local[*]`` without it.
        memory: Of the driver, as Spark writes it.
        shuffles: Into how many parts data is shuffled; None: two per core.

    """
    builder = SparkSession.builder.appName("reassigner-pipeline")
    if SparkSession.getActiveSession() is None:
        builder = builder.config("spark.driver.memory", memory).config(
            "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}"
        )
    if master is not None:
        builder = builder.master(master)
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1" if _is_local(master) else "0.0.0.0")  # noqa: S104 - executors elsewhere call back
        .getOrCreate()
    )
    parts = shuffles or max(4, 2 * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    session.sparkContext.setLogLevel("ERROR")
    return session


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")
