"""
``doctor --fix``: lifts the throttles that a daemon set and that nobody needs, and nothing else.

Where a daemon leads it does that itself, and may need them again at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.cli.ports import OperatorPort
from controller.core.applied_throttles import Entity
from controller.doctor.snapshot import Snapshot
from controller.doctor.unneeded_throttles import unneeded_throttles

MENDABLE: Final = "orphan_throttle"
"""The check whose findings are mended."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One throttle of ours that was lifted, would be, or could not be."""

    entity: Entity
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    """What stands now in the settings that were changed; None: there is no such setting."""
    is_done: bool = False

    def __str__(self) -> str:
        stands = (f"{k} {'is gone' if v is None else f'is {v}'}" for k, v in self.restored.items())
        return ", ".join((f"{self.what} {self.entity}", *stands))


def clean_throttles(
    snapshot: Snapshot, operator: OperatorPort, *, dry_run: bool
) -> Iterator[Cleaned]:
    """
    Lift what was left behind, one after the other.

    Raises:
        ReassignmentConflictError: settings cannot be read.

    """
    if snapshot.znodes.daemons:
        return
    for lease in unneeded_throttles(snapshot):
        stands = None if dry_run else operator.lift_throttle(lease)
        if stands is not None:
            yield Cleaned(lease.entity, "lifted the throttle of", stands, is_done=True)
        elif dry_run:
            yield Cleaned(lease.entity, "would lift the throttle of")
        else:
            yield Cleaned(lease.entity, "left alone, as somebody was faster:")


def nothing_mended(snapshot: Snapshot) -> str:
    """Say why nothing was mended."""
    if snapshot.znodes.daemons:
        return "Nothing was fixed: a daemon leads, and lifts the throttles it set by itself."
    if snapshot.znodes.hidden:
        return "Nothing was fixed: what may not be read may need the throttles that stand."
    return "Nothing was fixed: there is no throttle that a daemon set and nobody needs."
