"""The Spark session of ``pipeline`` commands, and the options that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from controller.cli.context import CommandContext
from controller.cli.output import print_note
from controller.errors import InvalidInputError

EXTRA: Final = "kafka-reassigner[pipeline]"

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Spark master. Default: that of spark-submit, or local[*]."
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--driver-memory",
        metavar="SIZE",
        help="Memory of the Spark driver, if the command starts it.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory to write.")]


@contextmanager
def spark_session(
    context: CommandContext, master: str | None, memory: str, *, is_brief: bool = False
) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """
    Start Spark for one command.

    Yields:
        The session, and a function that prints a stage of the work with its time.

    Raises:
        InvalidInputError: the extra ``pipeline`` is not installed.

    """
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
