"""The Spark session, whether it is made here or by ``spark-submit``."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"
DEFAULT_MEMORY: Final = "4g"


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
        builder = builder.config("spark.driver.memory", memory)
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
