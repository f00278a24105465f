"""Changes of znodes that others change as well."""

from __future__ import annotations

from typing import Final

from controller.errors import ReassignmentConflictError

RACES_MAX: Final = 20
"""Attempts to change a znode that others change as well."""


def contention_error(path: str) -> ReassignmentConflictError:
    """Return the error for a znode that others change all the time."""
    return ReassignmentConflictError(f"{path} changes all the time; try again")
