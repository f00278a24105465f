"""The gates of steps, and their sentences: what an operator reads of a partition that waits."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.model import IDS_MAX, BrokerId, ids
from controller.core.reassignments.gates import is_deleted
from controller.core.view import ClusterView
from tests.core.builders import tp


@pytest.mark.parametrize("count", [0, 1, IDS_MAX, IDS_MAX + 1, 10 * IDS_MAX])
def test_a_sentence_names_a_limited_number_of_brokers(count: int) -> None:
    """A jump may concern every broker of a large cluster."""
    named = ids(BrokerId(n) for n in range(count)).split(",")
    expected = [str(n) for n in range(min(count, IDS_MAX))] or [""]
    assert named == ([*expected, "..."] if count > IDS_MAX else expected)


@pytest.mark.parametrize(("listed", "expected"), [(None, False), ({"t"}, False), (set(), True)])
def test_a_topic_is_deleted_only_where_topics_were_listed(
    listed: set[str] | None, *, expected: bool
) -> None:
    """A session begins without a listing."""
    view = ClusterView(Options())
    view.topics.listed = None if listed is None else frozenset(listed)
    assert is_deleted(view, tp()) == expected
