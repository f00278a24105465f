"""
The rules about the duration of a tenure while topic deletions are pending.

Only deletions that the daemon leaves to Kafka's controller. A daemon hears of one with a delay,
which is longer if the daemon was paused, and the writes that precede its resignation may be refused
for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.core.deletions.model import DELETION_PATIENCE_S
from controller.znodes import paths
from tests.sim.rules import Rule
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.world import World

BOUND_S: Final = 20.0
"""The time that a daemon may need to give the role back, for example if writes are refused."""


class TenureRules:
    """The pending deletions over time; judges that the role is given back for them."""

    def __init__(self, world: World) -> None:
        """Judge every daemon of a world; all of them are to hold the role on demand."""
        self._world = world
        self._session: int | None = None
        """The session of the daemon that holds the role."""
        self._since = 0.0
        """The time since which it holds the role."""
        self._pending: dict[str, float] = {}
        """Topics to be deleted, with the time of each request."""
        world.zookeeper.listeners.append(self._transacted)

    def _transacted(self, transaction: Transaction) -> None:
        now = self._world.now
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["controller"]:
                    owner = None if written.after is None else written.after.ephemeral_owner
                    is_ours = owner is not None and self._world.invariants.is_daemon(owner)
                    self._session, self._since = (owner if is_ours else None), now
                case ["admin", "delete_topics", topic] if written.after is None:
                    self._pending.pop(topic, None)
                case ["admin", "delete_topics", topic]:
                    self._pending.setdefault(topic, now)
                case _:
                    pass
        self._given_back_for_deletions()

    def _given_back_for_deletions(self) -> None:
        """Judge each pending deletion, except those that were pending long before the claim."""
        if self._session is None or self._world.fabric.deletes_topics:
            return
        for topic, at in self._pending.items():
            if self._since >= at + DELETION_PATIENCE_S - BOUND_S:
                continue
            due = max(self._since, at) + DELETION_PATIENCE_S
            self._world.invariants.judge.ensure(
                not self._world.invariants.had_to_hear(self._session, due + BOUND_S),
                f"the daemon is the controller since {self._since:.1f} s though {topic} is to be "
                f"deleted since {at:.1f} s: {paths.CONTROLLER} was to be given back at {due:.1f} s",
                Rule.ROLE_FOR_DELETIONS,
            )
