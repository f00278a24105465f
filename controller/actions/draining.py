"""Drain brokers, and end that."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controller.actions.submission import check_quiesced
from controller.core.model import BrokerId
from controller.core.pacing.controls import Drain, Drains
from controller.core.requests.submissions import Throttle, Window
from controller.errors import InvalidInputError
from controller.previews.entries import check_brokers
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDrains:
    """Brokers to drain, and options for the request of all drains; None: unchanged."""

    brokers: Collection[BrokerId]
    about: Drain
    throttle: Throttle | None = None
    window: Window | None = None

    def changed(self, found: Drains) -> Drains:
        """Return the drains with these."""
        changed = found.adding(self.about, self.brokers)
        if self.throttle is not None:
            changed = replace(changed, throttle=self.throttle)
        return changed if self.window is None else replace(changed, window=self.window)


def drain(operator: OperatorClient, new: NewDrains, *, dry_run: bool = False) -> Drains:
    """
    Drain brokers besides those that are drained; return all drains.

    Raises:
        InvalidInputError: the cluster does not have a broker, or an option is not valid.
        ReassignmentConflictError: the reassigner is quiesced, the drains are unreadable, or others
            change them all the time.

    """
    check_quiesced(operator)
    # A dead one that is drained already may have no replica any more.
    check_brokers(operator, set(new.brokers) - operator.requests.controls().drains.brokers.keys())
    return operator.writes.edit_drains(new.changed, dry_run=dry_run)


def stop(
    operator: OperatorClient, brokers: Iterable[BrokerId], *, dry_run: bool = False
) -> tuple[Drains, Drains]:
    """
    End the drains of brokers, or of all if none is named; return those before, and those left.

    Raises:
        InvalidInputError: a broker is not drained.
        ReassignmentConflictError: the drains are unreadable, or others change them all the time.

    """
    named, before = list(brokers), [Drains()]

    def change(found: Drains) -> Drains:
        before[0] = found
        missing = sorted(set(named) - found.brokers.keys())
        if missing:
            raise InvalidInputError(f"broker {ids(missing)} is not drained")
        return found.removing(named or found.brokers)

    left = operator.writes.edit_drains(change, dry_run=dry_run)
    return before[0], left
