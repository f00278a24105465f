"""
The observer of the daemons of a history: refusals, blocked reasons, stale writes.

No znode shows these. A reassignment without progress for a while must have a blocked reason
(``Rule.BLOCKED_IS_VISIBLE``). A stale write is retried only after a new read, which makes the next
attempt succeed or needless (``Rule.STALE_WRITES_RARE``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from controller.core.model import BrokerId
from controller.core.reassignments.phases import Ended
from controller.core.records import Change, Decision, Event
from controller.core.view import ClusterView
from controller.reactor.commits import RACES
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, WriteError
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.world import World

SILENT_S: Final = 5.0
"""The time that a reassignment may make no progress in a tenure without a reason."""
STALE_MAX: Final = 40
"""The number of cycles within a second, of all daemons, that may have stale writes."""


class HistoryObserver:
    """The observer of every daemon of a history."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._was_refused = False
        """True if a write of the present cycle was stale."""
        self._stale_at: deque[float] = deque()
        """The times of the cycles with stale writes, within the last second."""

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Do nothing."""

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """Do nothing."""

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:  # noqa: ARG002
        """Note a stale write; other errors are injected faults."""
        self._was_refused |= error in RACES

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Judge that every state in a LeaderAndIsr is durable."""
        if isinstance(request, LeaderAndIsr):
            self._world.invariants.sent(broker, request)

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:  # noqa: ARG002
        """Judge blocked reasons, and the number of stale writes."""
        if self._was_refused:
            self._note_stale_write(decision)
        if view.tenure.held is None:
            return
        judge = self._world.invariants.judge
        since = self._world.now - SILENT_S
        if view.tenure.held.since > since:
            return
        for partition, reassignment in view.reassignments.by_partition.items():
            begin = max(reassignment.since, reassignment.phase_since)
            if begin <= since and not isinstance(reassignment.phase, Ended):
                judge.ensure(
                    reassignment.blocked is not None,
                    f"{partition}: no progress in {reassignment.phase} since {begin:.1f} s, "
                    "and no blocked reason",
                    Rule.BLOCKED_IS_VISIBLE,
                )

    def _note_stale_write(self, decision: Decision) -> None:
        self._was_refused = False
        now = self._world.now
        self._stale_at.append(now)
        while self._stale_at[0] < now - 1.0:
            self._stale_at.popleft()
        self._world.invariants.judge.ensure(
            len(self._stale_at) <= STALE_MAX,
            f"{len(self._stale_at)} cycles with stale writes within a second: {decision.changes}",
            Rule.STALE_WRITES_RARE,
        )
