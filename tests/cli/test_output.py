"""Tests of ``controller.cli.output``."""

from __future__ import annotations

import pytest

from controller.cli.output import Exit, exit_of
from controller.errors import (
    ControllerError,
    InvalidInputError,
    NativeRefusedError,
    ReassignmentConflictError,
    SessionSuspendedError,
)


def test_codes_are_what_scripts_rely_on() -> None:
    """Changing one would break them."""
    assert [int(e) for e in Exit] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInputError("x"), Exit.ERROR),
        (SessionSuspendedError("x"), Exit.ERROR),
        (ReassignmentConflictError("x"), Exit.REFUSED),
        (NativeRefusedError("x"), Exit.REFUSED),
    ],
)
def test_an_error_decides_the_code(error: ControllerError, code: Exit) -> None:
    """What is in the way is refused; what is wrong is an error."""
    assert exit_of(error) is code
