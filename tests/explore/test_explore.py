"""The smallest shapes, explored to the end; and that the explorer sees what is broken."""

from __future__ import annotations

import pytest

from tests.explore.search import explore, scenario, stuck
from tests.explore.shapes import SMALL
from tests.explore.system import Shape


@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: shape.name)
def test_no_law_is_broken_and_nothing_is_stuck(shape: Shape) -> None:
    """A violation is printed as the shortest history that leads to it."""
    result = explore(shape, seconds=100)
    assert result.violation is None, scenario(result)
    assert result.is_complete
    lost = stuck(result)
    assert not lost, scenario(result, lost[0])
