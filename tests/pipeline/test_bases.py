"""A plan meets a cluster that changed since."""

from __future__ import annotations

import pytest

from controller.core.model import BrokerId, Replicas
from controller.previews.plan_files import Basis, Rebase, rebase


def on(*brokers: int) -> Replicas:
    """Return replicas."""
    return tuple(map(BrokerId, brokers))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (on(1, 2, 3), Rebase(Basis.UNCHANGED, on(4, 2, 3))),
        (on(4, 2, 3), Rebase(Basis.DONE, None)),
        (None, Rebase(Basis.GONE, None)),
        (on(2, 1, 3), Rebase(Basis.REBASED, on(2, 4, 3))),
        (on(1, 5, 3), Rebase(Basis.REBASED, on(4, 5, 3))),
        (on(5, 2, 3), Rebase(Basis.CONFLICTING, None)),
        (on(1, 4, 3), Rebase(Basis.CONFLICTING, None)),
    ],
    ids=[
        "as it was",
        "done",
        "gone",
        "reordered",
        "another replica moved",
        "left",
        "there already",
    ],
)
def test_an_entry_is_kept_where_its_change_is_still_clear(
    now: Replicas | None, expected: Rebase
) -> None:
    """Planned from 1,2,3 to 4,2,3: broker 1 has to be there yet, and 4 not."""
    assert rebase(on(1, 2, 3), on(4, 2, 3), now) == expected


def test_an_entry_that_changes_directories_alone_is_kept_where_its_replicas_are_the_same() -> None:
    """Whether they are in the directories already is for the daemon to see."""
    assert rebase(on(1, 2), on(1, 2), on(1, 2)) == Rebase(Basis.UNCHANGED, on(1, 2))
    assert rebase(on(1, 2), on(1, 2), on(1, 3)) == Rebase(Basis.CONFLICTING, None)


def test_an_order_that_was_planned_is_dropped_when_the_replicas_changed() -> None:
    """A change of leaders alone says nothing about other replicas."""
    assert rebase(on(1, 2), on(2, 1), on(1, 3)) == Rebase(Basis.CONFLICTING, None)
