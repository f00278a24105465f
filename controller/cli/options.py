"""Options and arguments that several commands share, and the parsers of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from controller.cli.output import print_note
from controller.core.model import TopicPartition
from controller.core.requests.submissions import PRIORITY_MAX, StepSize, Window
from controller.errors import InvalidInputError
from controller.previews.plan_files import PlanFile, read_plan
from controller.znodes.json_documents import read_window
from controller.znodes.paths import parse_topic_partition, valid_topic

ROWS_MAX: Final = 30
"""Rows of a table on a terminal, unless all are asked for."""
_Given = TypeVar("_Given")
_Parsed = TypeVar("_Parsed")
ZOOKEEPER_METAVAR: Final = "HOST:PORT[,HOST:PORT][/chroot]"

ZookeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar=ZOOKEEPER_METAVAR,
        help="ZooKeeper of the cluster. Default: REASSIGNER_ZOOKEEPER.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file with settings. Default: REASSIGNER_CONFIG."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Query this daemon. Default: the leader that ZooKeeper names.",
    ),
]
AllRowsOption = Annotated[
    bool,
    typer.Option(
        "--all-rows",
        help=f"Print every row. Default: on a terminal, the first {ROWS_MAX} of each table.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the changes, write nothing.")]
WaitOption = Annotated[
    bool,
    typer.Option("--wait", help="Show progress and wait for the end, not only for acceptance."),
]
StepSizeOption = Annotated[
    str | None,
    typer.Option(
        "--step-size",
        metavar="N|all",
        help="Replicas to add per step. Default: the limit in force.",
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="HOURS",
        help='Begin steps only in these hours, for example "22:00-05:00 Europe/Berlin". '
        "Default: the window in force.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, help="Maximum time to wait for the daemon."
    ),
]
ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Reason, recorded in ZooKeeper. Default: none."),
]
ByOption = Annotated[
    str | None,
    typer.Option(
        "--requested-by", metavar="NAME", help="Name of the requester. Default: user@host."
    ),
]
RequestsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        metavar="ID",
        help="Apply to this request; may be repeated. Default: everything.",
    ),
]
PlanArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.json",
        help='Plan in the format of Kafka\'s tool: {"version":1,"partitions":[{"topic":"t",'
        '"partition":0,"replicas":[1,2,3]}]}. Of the output of its --generate, the proposed '
        "plan is taken.",
    ),
]


def read_plan_argument(path: Path) -> PlanFile:
    """
    Read a plan; print a note if only a part of the file was taken.

    Raises:
        InvalidInputError: the file cannot be read, or has an error.

    """
    file = read_plan(path)
    for note in file.notes:
        print_note(f"Note: {note}")
    return file


def parse(
    parse: Callable[[str, _Given], _Parsed], option: str, value: _Given | None
) -> _Parsed | None:
    """Parse the value of an option, None if the option was not given."""
    return None if value is None else parse(option, value)


def address_of(text: str) -> str:
    """
    Parse the value of ``--http``, ``HOST:PORT`` or ``https://HOST:PORT``.

    Raises:
        InvalidInputError: ``text`` is not an address.

    """
    from controller.setting_values import parse_address  # noqa: PLC0415 - for this option alone

    is_tls = text.startswith("https://")
    try:
        address = parse_address(text.removeprefix("https://"))
    except ValueError as error:
        raise InvalidInputError(f"--http: {error}, not {text!r}") from error
    return f"https://{address}" if is_tls else str(address)


def partitions_of(texts: Iterable[str] | None) -> list[TopicPartition]:
    """
    Parse partitions as Kafka's tools write them, ``TOPIC-N``.

    Raises:
        InvalidInputError: a text is not a partition.

    """
    found: list[TopicPartition] = []
    for text in texts or ():
        partition = parse_topic_partition(text)
        if partition is None:
            raise InvalidInputError(f"{text!r} is not a partition such as topic-0")
        found.append(partition)
    return found


def topics_of(texts: Iterable[str] | None) -> list[str]:
    """
    Check the names of topics.

    Raises:
        InvalidInputError: a text cannot be the name of a topic.

    """
    found = list(texts or ())
    for text in found:
        if not valid_topic(text):
            raise InvalidInputError(f"{text!r} is not the name of a topic")
    return found


def parse_step_size(option: str, text: str) -> StepSize:
    """
    Parse a number of replicas, or ``all``.

    Raises:
        InvalidInputError: ``text`` is neither.

    """
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return int(text)
    raise InvalidInputError(f'{option}: a number of replicas, 1 or more, or "all", not {text!r}')


def parse_window(option: str, text: str) -> Window:
    """
    Parse hours such as ``22:00-05:00 Europe/Berlin``.

    Raises:
        InvalidInputError: ``text`` has another form, or the time zone does not exist.

    """
    window = read_window(text)
    if isinstance(window, str):
        raise InvalidInputError(f"{option}: {window}")
    return window


def check_priority(option: str, priority: int) -> int:
    """
    Return a priority that is within bounds.

    Raises:
        InvalidInputError: it is not.

    """
    if abs(priority) > PRIORITY_MAX:
        raise InvalidInputError(
            f"{option}: between -{PRIORITY_MAX} and {PRIORITY_MAX}, not {priority}"
        )
    return priority
