"""The proof that nothing was lost can fail, and does not fail for what the client did itself."""

from __future__ import annotations

import pytest

from integration.rigs.traffic import UNKNOWN_OFFSET, Record, audit

FIRST, SECOND = Record("t", 0, 0, 10), Record("t", 0, 1, 11)

pytestmark = pytest.mark.acceptance


def test_what_is_where_it_was_acknowledged_is_clean() -> None:
    """Unacknowledged records may be there, too."""
    found = audit([FIRST], [FIRST, SECOND])
    assert found.is_clean
    assert (found.acknowledged, found.readable) == (1, 2)


def test_what_is_elsewhere_or_gone_is_missing() -> None:
    """The offset is part of what was acknowledged."""
    moved = FIRST._replace(offset=7)
    assert audit([FIRST, SECOND], [moved]).missing == (FIRST, SECOND)


def test_what_was_acknowledged_without_an_offset_may_be_anywhere_in_its_partition() -> None:
    """A leader that had it already returns no offset (DUPLICATE_SEQUENCE_NUMBER)."""
    unacknowledged = FIRST._replace(offset=UNKNOWN_OFFSET)
    assert audit([unacknowledged], [FIRST]).is_clean
    assert audit([unacknowledged], [SECOND]).missing == (unacknowledged,)
    assert audit([unacknowledged], [FIRST._replace(partition=1)]).missing == (unacknowledged,)


def test_what_is_there_twice_is_excused_only_by_a_new_epoch_of_the_producer() -> None:
    """Then what was in flight is sent again under another number."""
    again = FIRST._replace(offset=1)
    assert not audit([FIRST], [FIRST, again]).is_clean
    assert audit([FIRST], [FIRST, again], restarts=1).is_clean
    assert not audit([FIRST], [FIRST, again], restarts=1).is_exact
    assert not audit([FIRST, SECOND], [FIRST, again], restarts=1).is_clean
