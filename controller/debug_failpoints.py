"""
A debug hook, off unless its environment variable is set: die or freeze at a named boundary.

For the proof of recovery on real brokers. Not part of the public interface: neither an option nor
a key of the settings file, and no promise that a name stays.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from controller.errors import InvalidInputError
from controller.reactor.failpoints import Failpoint

VARIABLE: Final = "REASSIGNER_DEBUG_BOUNDARY"
SIGNALS: Final[Mapping[str, signal.Signals]] = {
    "die": signal.SIGKILL,
    "freeze": signal.SIGSTOP,
}
"""What a process does to itself: nothing of it runs on, no ``finally`` and no other thread."""
FORM: Final = f"{VARIABLE} must be {'|'.join(SIGNALS)}:<boundary>[:<nth>]"


@dataclass(frozen=True, slots=True)
class FailpointAction:
    """What to do, and where: when the boundary is reached for the nth time."""

    action: str
    failpoint: Failpoint
    nth: int = 1


def action_of(environ: Mapping[str, str]) -> FailpointAction | None:
    """
    Return what the environment asks for, None in any normal life.

    Raises:
        PlanInvalidError: it cannot be understood; the message lists the boundaries.

    """
    text = environ.get(VARIABLE)
    if not text:
        return None
    action, _, where = text.partition(":")
    name, _, times = where.partition(":")
    if action not in SIGNALS:
        raise InvalidInputError(f"{FORM}, not {text!r}")
    if name not in set(Failpoint):
        raise InvalidInputError(
            f"{VARIABLE}: no boundary {name!r}; there are {', '.join(Failpoint)}"
        )
    if times and not (times.isascii() and times.isdigit() and int(times) > 0):
        raise InvalidInputError(f"{FORM}, not {text!r}")
    return FailpointAction(action, Failpoint(name), int(times or 1))


def signal_ourselves(number: signal.Signals) -> None:
    """Send a signal to this process."""
    os.kill(os.getpid(), number)


class FailpointHook:
    """Counts how often the boundary is reached, and springs at the nth time."""

    def __init__(
        self,
        ambush: FailpointAction,
        announce: Callable[[FailpointAction], None],
        strike: Callable[[signal.Signals], None] = signal_ourselves,
    ) -> None:
        """Announce before striking: afterwards it may be too late."""
        self._ambush = ambush
        self._announce = announce
        self._strike = strike
        self._left = ambush.nth

    def reached(self, failpoints: Collection[Failpoint]) -> None:
        """Strike if it is time."""
        if self._ambush.failpoint not in failpoints:
            return
        self._left -= 1
        if self._left == 0:
            self._announce(self._ambush)
            self._strike(SIGNALS[self._ambush.action])
