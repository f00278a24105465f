"""
The leadership among simulated daemons: one lock, and an epoch that every new leader raises.

As in the real store (``controller.zk.daemon_election``): the lock is an ephemeral znode, its owner
raises ``/reassigner/epoch``, and the version of that fences every multi of the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.core.model import ZkVersion
from controller.reactor.ports import SetData
from controller.znodes import paths
from tests.sim.sessions import SimSession
from tests.sim.zookeeper import Make, SimZooKeeper

LEADER_LOCK: Final = f"{paths.LEADER}/lock"


def stand_for_leadership(
    zookeeper: SimZooKeeper, session: SimSession, won: Callable[[ZkVersion], None]
) -> None:
    """Wait for the lock, raise the epoch, and report its version, while the session lasts."""

    def stand() -> Callable[[], None]:
        zookeeper.ensure(paths.LEADER)
        zookeeper.ensure(paths.EPOCH, b"0")
        holder = zookeeper.get(LEADER_LOCK)
        if holder is not None and holder.ephemeral_owner != session.id:
            watch = session.watch("leader", lambda: session.send(stand))
            zookeeper.get(LEADER_LOCK, watch)
            return lambda: None
        epoch = zookeeper.get(paths.EPOCH)
        version = ZkVersion(0 if epoch is None else epoch.version)
        if holder is None and epoch is not None:
            bump = SetData(paths.EPOCH, str(int(epoch.data) + 1).encode(), version)
            zookeeper.transact(session.id, [Make(LEADER_LOCK, ephemeral=True), bump])
            version = ZkVersion(version + 1)
        return lambda: won(version)

    session.send(stand)
