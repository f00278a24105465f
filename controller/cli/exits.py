"""What the command's exit codes mean; scripts rely on them."""

from __future__ import annotations

from enum import IntEnum

from controller.errors import ControllerError, NativeRefusedError, ReassignmentConflictError


class Exit(IntEnum):
    """Exit codes of every verb."""

    DONE = 0
    """Done, or accepted where that was asked for."""
    ERROR = 1
    """An error, or wrong usage."""
    IN_PROGRESS = 2
    """Something is under way, or not accepted yet."""
    FINDINGS = 2
    """``doctor`` found something that somebody should look at."""
    REFUSED = 3
    """At least a part of what was asked for will not be done."""
    CANCELLED = 4


def exit_of(error: ControllerError) -> Exit:
    """Return the exit code of an error that ended a command."""
    if isinstance(error, ReassignmentConflictError | NativeRefusedError):
        return Exit.REFUSED
    return Exit.ERROR
