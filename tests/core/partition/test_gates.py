"""The sentences of gates: what an operator reads of a partition that waits."""

from __future__ import annotations

import pytest

from controller.core.model import BrokerId
from controller.core.partition.gates import IDS_MAX, ids


@pytest.mark.parametrize("count", [0, 1, IDS_MAX, IDS_MAX + 1, 10 * IDS_MAX])
def test_a_sentence_names_a_limited_number_of_brokers(count: int) -> None:
    """A jump may concern every broker of a large cluster."""
    named = ids(BrokerId(n) for n in range(count)).split(",")
    expected = [str(n) for n in range(min(count, IDS_MAX))] or [""]
    assert named == ([*expected, "..."] if count > IDS_MAX else expected)
