"""The seeds of tests that play histories: a few for ``make test``, all for ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def seeds(played: Iterable[int], *, first: int = 1) -> list[ParameterSet]:
    """
    Return the seeds as parameters of a test.

    Args:
        played: All seeds.
        first: How many of them ``make test`` plays; the others are marked ``exhaustive``.

    """
    return [
        pytest.param(seed, marks=[pytest.mark.exhaustive] if nth >= first else [])
        for nth, seed in enumerate(played)
    ]
