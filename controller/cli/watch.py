"""``status`` and ``watch``: what the leading daemon says, once, all the time, or of one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.ports import OperatorPort
from controller.cli.progress_display import DisplayOpener
from controller.cli.report_text import is_busy, say, say_json, status_about, status_lines, work_line
from controller.cli.request_standing import exit_of_standing, stand_of, standing_lines
from controller.core.model import RequestId
from controller.errors import SessionSuspendedError, TransientError

INTERVAL_S: Final = 1.0


class LeaderStatus:
    """Asks whoever leads, at an address that was given or that ZooKeeper knows."""

    def __init__(
        self, surroundings: CommandContext, operator: OperatorPort | None, address: str | None
    ) -> None:
        """Ask at ``address``, or else at the one ``operator`` finds each time."""
        self._around = surroundings
        self._operator = operator
        self._address = address

    def get(self) -> Mapping[str, Any]:
        """
        Return the status.

        Raises:
            TransientError: nobody leads, or the leader does not answer.

        """
        address = self._address
        if address is None and self._operator is not None:
            address = self._operator.leader_address()
        if address is None:
            raise SessionSuspendedError("no reassigner leads: start one with `reassigner run`")
        return self._around.fetch(address)


def print_status(leader: LeaderStatus, *, as_json: bool) -> Exit:
    """Print the status once."""
    document = leader.get()
    if as_json:
        say_json(document)
    else:
        for line in status_lines(document):
            say(line)
    return Exit.IN_PROGRESS if is_busy(document) else Exit.DONE


def watch_leader(
    surroundings: CommandContext, leader: LeaderStatus, display: DisplayOpener, *, until_idle: bool
) -> Exit:
    """Show the status again and again, until interrupted or, if so wished, nothing is left."""
    document: Mapping[str, Any] | None = None
    try:
        with display() as shown:
            while True:
                try:
                    document = leader.get()
                except TransientError as error:
                    # A leader that dies is followed by another; watching goes on.
                    shown.show(str(error), 0, 0, None)
                else:
                    shown.show(work_line(document), 0, 0, document)
                    if until_idle and not is_busy(document):
                        return Exit.DONE
                surroundings.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        pass
    return Exit.IN_PROGRESS if document is not None and is_busy(document) else Exit.DONE


def watch_request(
    surroundings: CommandContext,
    operator: OperatorPort,
    request: RequestId,
    display: DisplayOpener,
    *,
    as_json: bool,
) -> Exit:
    """
    Show one request until it has ended, and then how; Ctrl-C ends it sooner.

    Raises:
        PlanInvalidError: nothing is known of it.

    """
    standing = stand_of(operator, request)
    try:
        with display() as shown:
            while not standing.has_ended and operator.read_outcome(request) is None:
                status = surroundings.status_of_leader(operator)
                shown.show(_no_leader(status), 0, 0, status_about(status, request))
                surroundings.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        return Exit.IN_PROGRESS
    standing = stand_of(operator, request)
    if not as_json:
        for line in standing_lines(standing):
            say(line)
        say(f"Request {request} has ended: {standing.sentence()}")
    return exit_of_standing(standing)


def _no_leader(status: Mapping[str, Any] | None) -> str:
    return "no reassigner that leads answers" if status is None else ""
