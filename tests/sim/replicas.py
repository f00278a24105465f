"""
One replica as its broker holds it in memory.

Facts only; what follows from them is ``replication``. Everything but the log is gone when the
broker's process ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.core.model import NO_LEADER, BrokerId, Replicas

if TYPE_CHECKING:
    from tests.sim.logs import Log

Answer = Callable[[int], None]
"""Called with the error code that ends a producer's request."""


@dataclass(slots=True)
class HostedReplica:
    """A replica on a running broker."""

    log: Log
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    controller_epoch: int = 0
    partition_epoch: int = -1
    isr: Replicas = ()
    replicas: Replicas = ()
    is_fetching: bool = False
    """A follower's fetcher runs."""
    fetch_due: bool = False

    epoch_start: int = 0
    """The end of a leader's log when it got its present epoch."""
    ends: dict[BrokerId, int] = field(default_factory=dict)
    """A leader's knowledge of the followers' logs, since its present epoch."""
    caught_up_at: dict[BrokerId, float] = field(default_factory=dict)
    joining: set[BrokerId] = field(default_factory=set)
    """Followers whose entry into the ISR is about to be written."""
    wanted: Replicas | None = None
    """The ISR that the leader asked for; it may be durable, so its members count, too."""
    waiting: deque[tuple[int, Answer]] = field(default_factory=deque)
    """Producers that wait for an offset to be committed."""

    def leads(self, broker: BrokerId) -> bool:
        """Return whether ``broker``, which holds this replica, believes that it leads."""
        return self.leader == broker

    def fail_waiting(self, error: int) -> None:
        """Answer every waiting producer with an error."""
        while self.waiting:
            self.waiting.popleft()[1](error)
