"""
What the daemons of a history say of themselves: refusals, and what each reassignment waits for.

``Blocked is visible`` is a rule about the daemon's view, which no znode shows: a reassignment that
has not moved for a while must say what it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from controller.core.events import Event
from controller.core.model import BrokerId
from controller.core.phases import Ended
from controller.core.records import Change, Decision, RefusalRecord
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, WriteError

if TYPE_CHECKING:
    from tests.sim.wishes import Wishes
    from tests.sim.world import World

SILENT_S: Final = 35.0
"""How long a reassignment may stand still in a tenure without a reason."""


class HistoryObserver:
    """The observer of every daemon of a history."""

    def __init__(self, world: World, wishes: Wishes) -> None:
        self._world = world
        self._wishes = wishes

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Do nothing."""

    def on_committed(self, change: Change, view: ClusterView) -> None:  # noqa: ARG002 - the port's
        """Take note of refusals."""
        for record in change.records:
            if isinstance(record, RefusalRecord):
                for refusal in record.refusals:
                    self._wishes.refused(refusal)

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Do nothing."""

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:  # noqa: ARG002
        """Judge that nothing is sent that is not durable."""
        if isinstance(request, LeaderAndIsr):
            self._world.invariants.told(request)

    def on_turn(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:  # noqa: ARG002
        """Judge that whatever stands still says why."""
        if view.tenure is None:
            return
        judge = self._world.invariants.judge
        for partition, reassignment in view.reassignments.items():
            begin = max(view.tenure.since, reassignment.since, reassignment.phase_since)
            judge.ensure(
                reassignment.blocked is not None
                or isinstance(reassignment.phase, Ended)
                or self._world.now - begin < SILENT_S,
                f"{partition}: stands still in {reassignment.phase} since {begin:.1f} s and does "
                "not say why",
            )
