"""
What else of refused multis was overtaken, told in two round trips.

ZooKeeper names the first operation of a multi that fails and looks no further. Where somebody wrote
many of the znodes meanwhile, as leaders do when their followers come back, trying again without
that one would be a round trip for each of them. So what expects a version is asked for in multis
that only check, all under way at once: a few operations together, and alone whatever followed the
culprit of those that were refused. They write nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from controller.core.records import Change
from controller.reactor.group_commit import Batch
from controller.reactor.ports import Check, Delete, Rejected, SetData

PROBED_TOGETHER: Final = (20, 1)
"""Operations in one multi: a request for each is work for both sides, where most of them hold."""


@dataclass(frozen=True, slots=True)
class StaleCheck:
    """An operation of a refused multi, and what to check for it."""

    batch: Batch
    index: int
    check: Check

    @property
    def owners(self) -> tuple[Change, ...]:
        """Return the changes it belongs to."""
        return self.batch.owners[self.index]


def stale_checks(batch: Batch, refused: Rejected, moved: Collection[str]) -> Iterator[StaleCheck]:
    """
    Yield what to check of a multi that was refused; the operations before the culprit held.

    Args:
        batch: What was refused.
        refused: Its culprit.
        moved: Paths that we wrote since, which are not at the version that the multi expects.

    """
    seen = set(moved)
    for index, operation in enumerate(batch.operations):
        if operation.path in seen:
            continue  # It expects what another operation would have left.
        seen.add(operation.path)
        if index <= refused.index or not isinstance(operation, Check | SetData | Delete):
            continue
        if operation.version is not None:
            yield StaleCheck(batch, index, Check(operation.path, operation.version))
