"""
``reassigner`` with a failpoint: the process kills or stops itself at a named instant.

``python -m integration.rigs.failpoint_daemon ACTION:FAILPOINT[:NTH] run ...`` takes the options of
``reassigner`` after the failpoint, for example ``die:A1-written run --zookeeper ...``. ``die``
sends SIGKILL, ``freeze`` sends SIGSTOP, when the failpoint is reached for the NTH time (by default
the first).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from controller.cli.app import build_app
from controller.cli.context import CommandContext
from controller.daemon import run
from integration.rigs.failpoint_names import NamedFailpoints
from integration.rigs.failpoints import Failpoint

SIGNALS: Final[Mapping[str, signal.Signals]] = {
    "die": signal.SIGKILL,
    "freeze": signal.SIGSTOP,
}
"""Signals that no handler, ``finally`` or other thread of the process can delay."""
FORM: Final = f"a failpoint is {'|'.join(SIGNALS)}:NAME[:NTH]"
REACHED: Final = "failpoint_reached"
"""The log event that precedes the signal."""


@dataclass(frozen=True, slots=True)
class FailpointAction:
    """An action of the process on itself, at the nth occurrence of a failpoint."""

    action: str
    failpoint: Failpoint
    nth: int = 1


def action_of(text: str) -> FailpointAction:
    """
    Parse ``ACTION:FAILPOINT[:NTH]``.

    Raises:
        ValueError: the text has another form, or the failpoint does not exist; the message lists
            those that do.

    """
    action, _, where = text.partition(":")
    name, _, times = where.partition(":")
    if action not in SIGNALS:
        raise ValueError(f"{FORM}, not {text!r}")
    if name not in set(Failpoint):
        raise ValueError(f"no failpoint {name!r}; there are {', '.join(Failpoint)}")
    if times and not (times.isascii() and times.isdigit() and int(times) > 0):
        raise ValueError(f"{FORM}, not {text!r}")
    return FailpointAction(action, Failpoint(name), int(times or 1))


class FailpointHook:
    """Counts how often the failpoint is reached and signals the process at the nth time."""

    def __init__(
        self,
        action: FailpointAction,
        announce: Callable[[FailpointAction], None],
        strike: Callable[[signal.Signals], None],
    ) -> None:
        """
        Prepare to count.

        Args:
            action: What to do, and where.
            announce: Called before the signal: a process that is killed cannot log it.
            strike: Sends the signal to this process.

        """
        self._action = action
        self._announce = announce
        self._strike = strike
        self._left = action.nth

    def reached(self, failpoints: Collection[Failpoint]) -> None:
        """Strike if this is the nth time that the failpoint is among those reached."""
        if self._action.failpoint not in failpoints:
            return
        self._left -= 1
        if self._left == 0:
            self._announce(self._action)
            self._strike(SIGNALS[self._action.action])


def _announce(reached: FailpointAction) -> None:
    log = structlog.stdlib.get_logger("controller")
    log.warning(REACHED, action=reached.action, failpoint=reached.failpoint.value)
    for handler in logging.getLogger().handlers:
        handler.flush()


def _strike(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def main(arguments: list[str]) -> None:
    """Run the command line with a daemon that has the failpoint of the first argument."""
    hook = FailpointHook(action_of(arguments[0]), _announce, _strike)
    context = CommandContext(
        environ=os.environ,
        run_daemon=lambda settings: run(settings, NamedFailpoints(hook.reached)),
    )
    build_app(context)(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
