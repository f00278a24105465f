"""
What all verbs share: their surroundings, a connection, a display; and the options many take.

A verb parses, calls and ends with an exit code; what it does is in the module of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from controller.cli.context import CommandContext
from controller.cli.plan_preview import AskMinInsync
from controller.cli.ports import InspectorPort, OperatorPort
from controller.cli.progress_display import DisplayOpener, bars, lines, nothing
from controller.cli.report_text import say
from controller.cli.watch import LeaderStatus
from controller.core.model import RequestId, TopicPartition
from controller.errors import InvalidInputError
from controller.setting_values import parse_address
from controller.znodes.paths import parse_topic_partition, valid_request, valid_topic

PlanArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.json",
        help='A plan as Kafka\'s own tool takes it: {"version":1,"partitions":[{"topic":"t",'
        '"partition":0,"replicas":[1,2,3]}]}',
        show_default=False,
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Ask this daemon instead of the leader that ZooKeeper names.",
        show_default=False,
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change and write nothing.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Follow to the end instead of to the acceptance.")
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for the daemon."),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the outcome.")
]
ByOption = Annotated[
    str | None,
    typer.Option("--requested-by", metavar="NAME", help="Who; else user@host.", show_default=False),
]
RequestsOption = Annotated[
    list[str] | None,
    typer.Option("--request", metavar="ID", help="This request; may be repeated."),
]


class Commands:
    """A family of verbs, within their surroundings."""

    def __init__(self, around: CommandContext) -> None:
        """Act in these surroundings."""
        self._around = around

    def _connected(
        self, zookeeper: str | None, config: Path | None
    ) -> AbstractContextManager[OperatorPort]:
        return self._around.connect(self._around.settings({"zookeeper": zookeeper}, config))

    @contextmanager
    def _inspecting(
        self, zookeeper: str | None, config: Path | None
    ) -> Iterator[tuple[InspectorPort, AskMinInsync]]:
        """Connect to judge a plan as well: it asks brokers for the settings of its topics."""
        settings = self._around.settings({"zookeeper": zookeeper}, config)
        with self._around.inspect(settings) as inspector:
            yield inspector, partial(self._around.ask_min_insync, settings)

    @contextmanager
    def _leader(
        self, zookeeper: str | None, config: Path | None, http: str | None
    ) -> Iterator[LeaderStatus]:
        if http is not None:
            yield LeaderStatus(self._around, None, address_of(http))
            return
        with self._connected(zookeeper, config) as operator:
            yield LeaderStatus(self._around, operator, None)

    def _display(self) -> DisplayOpener:
        if self._around.is_terminal():
            return lambda: bars(Console())
        return lambda: lines(say)

    def _display_or_nothing(self, *, as_json: bool) -> DisplayOpener:
        return nothing if as_json else self._display()

    def _name(self, given: str | None) -> str:
        return self._around.name_of_user() if given is None else given


def address_of(text: str) -> str:
    """
    Read ``HOST:PORT``.

    Raises:
        PlanInvalidError: it is something else.

    """
    try:
        return str(parse_address(text))
    except ValueError as error:
        raise InvalidInputError(f"--http: {error}, not {text!r}") from error


def request_ids(texts: Iterable[str] | None) -> list[RequestId]:
    """
    Read ids of requests.

    Raises:
        PlanInvalidError: one could not be an id.

    """
    found = list(texts or ())
    for text in found:
        if not valid_request(text):
            raise InvalidInputError(f"{text!r} is not the id of a request")
    return [RequestId(text) for text in found]


def partitions_of(texts: Iterable[str] | None) -> list[TopicPartition]:
    """
    Read partitions as Kafka's tools write them.

    Raises:
        PlanInvalidError: one is something else.

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
    Read names of topics.

    Raises:
        PlanInvalidError: one could not be a topic.

    """
    found = list(texts or ())
    for text in found:
        if not valid_topic(text):
            raise InvalidInputError(f"{text!r} is not the name of a topic")
    return found
