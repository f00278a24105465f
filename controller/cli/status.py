"""``status`` and ``watch``: what the leading daemon does, once or continuously."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controller.actions.work_control import request_ids
from controller.cli import options, status_text
from controller.cli.context import CommandContext
from controller.cli.failover import LeaderSearch
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_line, print_lines
from controller.cli.progress_display import Display, display_of, json_lines
from controller.cli.request_state import exit_of_request, problem_lines, read_request
from controller.cli.status_screen import status_screen
from controller.core.model import RequestId, request_text
from controller.errors import InvalidInputError, TransientError

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

INTERVAL_S: Final = 1.0

QueryStatus = Callable[[], Mapping[str, Any]]
"""Return the status of a daemon; raise ``TransientError`` if it does not answer."""


@command("failover", "all_rows", "verbose", "as_json")
def status(
    context: CommandContext,
    *,
    http: str | None = options.HTTP,
    failover: float = option(
        "SECONDS",
        "Maximum time to wait during a failover, until another daemon leads.",
        "--timeout",
        default=20.0,
        least=0,
    ),
) -> Exit:
    """
    Print the status of the leading daemon.

    Example: reassigner status --zookeeper zk1:2181/kafka

    Exit code: 0 no work, 1 error, 2 partitions are in flight or waiting.
    """
    with _leader(context, http) as query:
        if isinstance(query, LeaderSearch):
            document = _judged(query.operator, query.await_status(failover))
        else:
            document = query()
    lines = status_text.status_lines(document, verbose=context.verbose)
    tables = status_screen(document, verbose=context.verbose)
    context.print_result(lambda: document, lines, tables)
    return Exit.IN_PROGRESS if status_text.is_busy(document) else Exit.DONE


def _judged(operator: OperatorClient, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status with the present verdict on each evacuated broker."""
    if not document.get("evacuations"):
        return document
    from controller.previews.evacuation_preview import verdicts  # noqa: PLC0415 - rarely needed

    found = verdicts(operator)
    evacuations = [{**e, "verdict": found.get(e["broker"])} for e in document["evacuations"]]
    return {**document, "evacuations": evacuations}


@command("verbose", "as_json")
def watch(
    context: CommandContext,
    request: str | None = argument("REQUEST", "Show only this request, until it ends."),
    *,
    http: str | None = options.HTTP,
    until_idle: bool = flag("--until-idle", "Exit when no work is left."),
) -> Exit:
    """
    Show progress continuously, as tables on a terminal and as lines elsewhere.

    Example: reassigner watch --zookeeper zk1:2181/kafka

    Ctrl-C ends the display. With --json, each change is one line of JSON. Exit code: 0 no work is
    left, 2 work is in progress; of a request: 0 done, 2 interrupted, 3 refused in part,
    4 cancelled.
    """
    display = json_lines() if context.as_json else display_of(context)
    if request is not None:
        if http is not None:
            raise InvalidInputError(
                "--http cannot be used with REQUEST: its outcome is in ZooKeeper"
            )
        (named,) = request_ids([request])
        with context.connected() as operator:
            return watch_request(context, operator, named, display)
    with _leader(context, http) as query:
        return watch_leader(context, query, display, until_idle=until_idle)


@contextmanager
def _leader(context: CommandContext, http: str | None) -> Iterator[QueryStatus | LeaderSearch]:
    """Connect to the daemon at the given address, or to the leader that ZooKeeper names."""
    if http is not None:
        # No address of ZooKeeper is needed.
        access = context.settings(zookeeper="unused:2181").http_access
        yield partial(context.fetch, options.address_of(http), access)
        return
    with context.connected() as operator:
        yield LeaderSearch(context=context, operator=operator)


def watch_leader(
    context: CommandContext, query: QueryStatus, display: Display, *, until_idle: bool
) -> Exit:
    """Show the status every second until Ctrl-C or, with ``until_idle``, the end of the work."""
    document: Mapping[str, Any] | None = None
    try:
        with display as show:
            while True:
                try:
                    document = query()
                except TransientError as error:
                    # A standby takes over from a dead leader.
                    show(str(error), 0, 0, None)
                else:
                    show("", 0, 0, document)
                    if until_idle and not status_text.is_busy(document):
                        return Exit.DONE
                context.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        pass
    is_busy = document is not None and status_text.is_busy(document)
    return Exit.IN_PROGRESS if is_busy else Exit.DONE


def watch_request(
    context: CommandContext, operator: OperatorClient, request: RequestId, display: Display
) -> Exit:
    """Show one request until it has ended or Ctrl-C, then print its outcome."""
    state = read_request(operator, request)
    try:
        with display as show:
            while not state.has_ended and operator.outcomes.outcome(request) is None:
                found = context.status_of_leader(operator)
                headline = "no leading reassigner answers" if found is None else ""
                show(headline, 0, 0, status_text.status_about(found, request))
                context.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        return Exit.IN_PROGRESS
    state = read_request(operator, request)
    if not context.as_json:
        print_lines(problem_lines(state))
        print_line(f"{request_text(request)} has ended: {state.sentence()}")
    return exit_of_request(state)
