"""The Spark session, created here or by ``spark-submit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

DEFAULT_MEMORY: Final = "4g"
LOCALHOST: Final = "127.0.0.1"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
QUIET: Final = Path(__file__).with_name("log4j2.properties")
"""Logs errors only: Spark's other messages would hide the progress of the command."""
BRIEFLY: Final = "-XX:TieredStopAtLevel=1"
"""Use the C1 compiler only: in a short run, C2 costs more time than it saves."""
OPTIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
}


def open_session(
    master: str | None,
    *,
    memory: str = DEFAULT_MEMORY,
    shuffles: int | None = None,
    is_brief: bool = False,
) -> Any:
    """
    Create a Spark session, or return the one of ``spark-submit``.

    Args:
        master: Spark's master; None: that of ``spark-submit``, else ``local[*]``.
        memory: Memory of the driver, in Spark's notation.
        shuffles: Shuffle partitions; None: two per core.
        is_brief: Optimize the driver's JVM for a short run.

    """
    options = dict(OPTIONS)
    if SparkSession.getActiveSession() is None:
        java = [f"-Dlog4j2.configurationFile={QUIET.as_uri()}", *([BRIEFLY] if is_brief else [])]
        options |= {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": " ".join(java)}
    # `spark-submit` sets the port of its JVM in the environment.
    is_local = SUBMITTED not in os.environ if master is None else master.startswith("local")
    if is_local:
        # Large results pass through this address even on a single machine.
        options |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), LOCALHOST)
    builder = SparkSession.builder.appName("reassigner-pipeline").config(map=options)
    if master is not None:
        builder = builder.master(master)
    session = builder.getOrCreate()
    parts = shuffles or max(4, 2 * session.sparkContext.defaultParallelism)
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    session.sparkContext.setLogLevel("ERROR")
    return session
