"""
The reports of the daemons of a history: refusals, reasons of waits, races.

``Blocked is visible`` is a rule about the daemon's view, which no znode shows: a reassignment that
has not moved for a while must say what it waits for. Nor does one show how often a daemon tries in
vain: a race is lost once, and what was read then makes the next attempt succeed or needless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from controller.core.events import Event
from controller.core.model import BrokerId
from controller.core.phases import Ended
from controller.core.records import Change, Decision, RefusalRecord
from controller.core.view import ClusterView
from controller.reactor.commits import RACES
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, WriteError
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.wishes import Wishes
    from tests.sim.world import World

SILENT_S: Final = 5.0
"""How long a reassignment may stand still in a tenure without a reason."""
VAIN_MAX: Final = 40
"""In how many turns of one second, of all daemons together, writes may be refused."""


class HistoryObserver:
    """The observer of every daemon of a history."""

    def __init__(self, world: World, wishes: Wishes) -> None:
        self._world = world
        self._wishes = wishes
        self._was_refused = False
        """Whether a write of the turn under way was refused."""
        self._in_vain: deque[float] = deque()
        """When turns had a write refused, within the last second."""

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Do nothing."""

    def on_committed(self, change: Change, view: ClusterView) -> None:  # noqa: ARG002 - the port's
        """Take note of refusals."""
        for record in change.records:
            if isinstance(record, RefusalRecord):
                for refusal in record.refusals:
                    self._wishes.refused(refusal)

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:  # noqa: ARG002
        """Take note of a race that was lost; what else is refused is another's fault."""
        self._was_refused |= error in RACES

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Judge that nothing is sent that is not durable."""
        if isinstance(request, LeaderAndIsr):
            self._world.invariants.sent(broker, request)

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:  # noqa: ARG002
        """Judge that whatever stands still says why, and that nothing is tried in vain for long."""
        if self._was_refused:
            self._tried_in_vain(decision)
        if view.tenure.held is None:
            return
        judge = self._world.invariants.judge
        since = self._world.now - SILENT_S
        if view.tenure.held.since > since:
            return
        for partition, reassignment in view.work.reassignments.items():
            begin = max(reassignment.since, reassignment.phase_since)
            if begin <= since and not isinstance(reassignment.phase, Ended):
                judge.ensure(
                    reassignment.blocked is not None,
                    f"{partition}: stands still in {reassignment.phase} since {begin:.1f} s and "
                    "does not say why",
                    Rule.BLOCKED_IS_VISIBLE,
                )

    def _tried_in_vain(self, decision: Decision) -> None:
        self._was_refused = False
        now = self._world.now
        self._in_vain.append(now)
        while self._in_vain[0] < now - 1.0:
            self._in_vain.popleft()
        self._world.invariants.judge.ensure(
            len(self._in_vain) <= VAIN_MAX,
            f"daemons try in vain, {len(self._in_vain)} times within a second: {decision.changes}",
            Rule.RARELY_IN_VAIN,
        )
