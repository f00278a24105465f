"""What verbs on Spark share: its options, and a session for the time that a verb takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from controller.cli.commands import Commands
from controller.cli.report_text import tell
from controller.errors import InvalidInputError

EXTRA: Final = "kafka-reassigner[pipeline]"

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master; local[*] unless spark-submit gives one.",
        show_default=False,
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option("--driver-memory", metavar="SIZE", help="Of Spark's driver, when started here."),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where it is written.")]


class SparkVerbs(Commands):
    """Verbs that need the extra ``pipeline``."""

    @contextmanager
    def _spark(
        self, master: str | None, memory: str, *, is_brief: bool = False
    ) -> Iterator[tuple[Any, Callable[[str], None]]]:
        """Open Spark, and a course of things that is told on the terminal."""
        try:
            from controller.pipeline.spark_session import open_session  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            raise InvalidInputError(
                f"{error.name} is not installed: pip install '{EXTRA}'"
            ) from error
        begun = self._around.now()

        def course(what: str) -> None:
            tell(f"[{self._around.now() - begun:6.1f} s] {what}")

        course("starting Spark")
        spark = open_session(master, memory=memory, is_brief=is_brief)
        try:
            yield spark, course
        finally:
            spark.stop()
