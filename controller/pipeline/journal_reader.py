"""
The journals of one or several daemons as a DataFrame (docs/reference/journal.md, version 1).

Lines of unknown kinds are ignored, as that document requires. Lines that are not JSON are counted:
a crash can truncate the last line of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from controller.errors import InvalidInputError

VERSION: Final = 1
PATTERN: Final = "journal.jsonl*"
SCHEMA: Final = (
    "v INT, at STRING, kind STRING, request STRING, topic STRING, partition INT, state STRING, "
    "entries INT, done INT, refused INT, cancelled INT, bytes_total BIGINT, bytes_moved BIGINT, "
    "bytes_remaining BIGINT, eta_low_s DOUBLE, eta_high_s DOUBLE, phase STRING, before STRING, "
    "seconds DOUBLE, leader INT, replica INT, begun STRING, bytes BIGINT, copies INT, "
    "lost ARRAY<INT>, `by` STRING, broken STRING"
)


def read_journals(spark: Any, directories: Sequence[Path]) -> tuple[Any, int]:
    """
    Return the lines of journals, and the number of lines that are not JSON.

    Args:
        spark: The session.
        directories: The journal directory of each daemon that led.

    Raises:
        InvalidInputError: there is no journal, or one of another version.

    """
    paths: list[str] = []
    for directory in directories:
        found = sorted(str(path) for path in directory.glob(PATTERN))
        if not found:
            raise InvalidInputError(f"{directory}: there is no {PATTERN}")
        paths += found
    lines = (
        spark.read.schema(SCHEMA)
        .option("columnNameOfCorruptRecord", "broken")
        .json(paths)
        .withColumn("file", F.input_file_name())
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    other = lines.where(F.col("broken").isNull() & (F.col("v") != VERSION)).limit(3).collect()
    if other:
        row = other[0]
        raise InvalidInputError(
            f"{row.file}: column v is {row.v} in a line of {row.at}; this version reads {VERSION}"
        )
    broken = lines.where("broken IS NOT NULL").count()
    # A restarted daemon appends to the same file; no line is written twice.
    good = lines.where("broken IS NULL AND kind IS NOT NULL").drop("broken", "v")
    return good.withColumn("moment", F.to_timestamp("at")), broken
