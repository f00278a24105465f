"""
Find the leading daemon, also while another one takes over from it.

A leader that died stays in ZooKeeper until its session ends; then a standby leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.cli.context import NO_DAEMON, CommandContext
from controller.cli.output import print_note
from controller.errors import RefusedError, SessionSuspendedError, TransientError
from controller.units import show_duration

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

LOOK_S: Final = 1.0
"""Between two queries of a daemon that does not answer."""


@dataclass(kw_only=True)
class LeaderSearch:
    """Queries the leading daemon, and says what is happening while none answers."""

    context: CommandContext
    operator: OperatorClient
    _noted: str = field(default="", init=False)

    def __call__(self) -> Mapping[str, Any]:
        """
        Return the status of the leading daemon.

        Raises:
            SessionSuspendedError: none leads or answers; the text says what to expect.
            RefusedError: it refuses the command, for example without a token.

        """
        leader, *standbys = self.operator.cluster.daemons() or (None,)
        if leader is None:
            raise SessionSuspendedError(NO_DAEMON)
        try:
            document = self.context.fetch(leader, self.operator.http_access)
        except TransientError as error:
            then = "a standby takes over when its session with ZooKeeper ends"
            raise SessionSuspendedError(
                f"the leading reassigner: {error}; {then if standbys else 'no standby runs'}"
            ) from error
        if document.get("role") == "standby":
            raise SessionSuspendedError(f"the reassigner at {leader} is taking over")
        return document

    def await_status(self, timeout_s: float) -> Mapping[str, Any]:
        """
        Return the status of the leading daemon, of the next one during a failover.

        Raises:
            SessionSuspendedError: there is no daemon, or none answers in time.
            RefusedError: as above.

        """
        until = self.context.now() + timeout_s
        while True:
            try:
                return self()
            except SessionSuspendedError as error:
                if str(error) == NO_DAEMON or self.context.now() >= until:
                    raise
                self._note(f"{error}; waiting up to {show_duration(timeout_s)}")
            self.context.sleep(LOOK_S)

    def note_problem(self) -> None:
        """Print what is happening if no daemon answers, once for each change."""
        try:
            self()
        except SessionSuspendedError as error:
            self._note(str(error))
        except RefusedError:
            pass  # It answers.

    def _note(self, why: str) -> None:
        if why != self._noted:
            self._noted = why
            print_note(f"reassigner: {why}")
