"""``status`` and ``watch``: what the leading daemon says of itself, once or all the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.cli.displays import DisplayOpener
from controller.cli.exits import Exit
from controller.cli.ports import OperatorPort
from controller.cli.reports import is_busy, say, say_json, status_lines, work_line
from controller.cli.surroundings import Surroundings
from controller.errors import SessionSuspendedError, TransientError

INTERVAL_S: Final = 1.0


class LeaderStatus:
    """Asks whoever leads, at an address that was given or that ZooKeeper knows."""

    def __init__(
        self, surroundings: Surroundings, operator: OperatorPort | None, address: str | None
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
    surroundings: Surroundings, leader: LeaderStatus, display: DisplayOpener, *, until_idle: bool
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
