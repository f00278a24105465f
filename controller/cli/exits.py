"""Exit codes. Scripts rely on them."""

from __future__ import annotations

from enum import IntEnum

from controller.errors import (
    ControllerError,
    NativeRefusedError,
    NotApprovedError,
    ReassignmentConflictError,
)


class Exit(IntEnum):
    """Exit codes of every command but ``stock``."""

    DONE = 0
    """Done; of a submission: accepted."""
    ERROR = 1
    """Error or wrong usage."""
    IN_PROGRESS = 2
    """In progress, or not accepted yet."""
    FINDINGS = 2
    """``doctor`` has findings that need attention."""
    REFUSED = 3
    """Refused, at least in part."""
    CANCELLED = 4


def exit_of(error: ControllerError) -> Exit:
    """Return the exit code of a command that ended with an error."""
    if isinstance(error, ReassignmentConflictError | NativeRefusedError | NotApprovedError):
        return Exit.REFUSED
    return Exit.ERROR
