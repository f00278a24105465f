"""
``Store`` on a real cluster: ZooKeeper for the loop.

A facade of ``multis`` for writes, ``watches`` for reads and ``claims`` for the controller role. It
adds the fence: every write is led by checks of the daemon's right to it. For paperwork, that right
is the leadership of the daemons.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from controller.core.core_settings import REQUEST_BYTES
from controller.core.model import BrokerId
from controller.core.role.records import ClaimFailed
from controller.errors import ControllerMovedError
from controller.reactor.ports import Committed, Inbox, Operation, Rejected
from controller.reactor.znode_operations import is_paperwork
from controller.zk.claims import GRACE_S, Claims
from controller.zk.daemon_election import Leadership
from controller.zk.multis import Fence, Multis, claim_check, epoch_check
from controller.zk.sessions import Session
from controller.zk.watches import Watches
from controller.zk.workers import Latency


class ZkStore:
    """Implements ``controller.reactor.ports.Store``."""

    def __init__(  # noqa: PLR0913 - the parts it is composed of, by name
        self,
        session: Session,
        inbox: Inbox,
        *,
        controller_id: BrokerId,
        now_ms: Callable[[], int],
        leadership: Leadership | None = None,
        latency: Latency | None = None,
        grace_s: float = GRACE_S,
        request_bytes: int = REQUEST_BYTES,
    ) -> None:
        """
        Build it on a session that may not be started yet.

        ``controller_id`` is never that of a broker. ``leadership`` is the election among several
        daemons; None when there can be only one.
        """
        self._leadership = leadership
        self._latency = latency
        self._session = session
        self._inbox = inbox
        self._multis = Multis(session, request_bytes=request_bytes)
        self._watches = Watches(session, inbox)
        self._claims = Claims(
            session,
            inbox,
            controller_id=controller_id,
            now_ms=now_ms,
            leadership=self._leadership_fence,
            grace_s=grace_s,
        )
        self.read = self._watches.read
        self.read_topics = self._watches.read_topics
        self.read_states = self._watches.read_states
        self.read_topic_trees = self._watches.read_topic_trees
        self.read_submissions = self._watches.read_submissions
        self.read_accepted = self._watches.read_accepted
        self.read_entity_configs = self._watches.read_entity_configs
        self.claim_controller = self._claims.claim
        self.resign_controller = self._claims.resign
        session.add_listener(self._claims)
        session.add_listener(self._watches)
        if leadership is not None:
            leadership.attach(
                # A read in progress may be older than the last write of the former leader.
                before_gain=self._watches.former_leader_fenced,
                # A daemon that does not lead must not keep the role from a broker.
                after_loss=self._claims.resign_if_held,
            )

    def threads(self) -> Iterator[tuple[str, bool]]:
        """Yield the name of every thread that must never end, and whether it is alive."""
        for worker in (*self._watches.threads(), *self._claims.threads()):
            yield worker.name, worker.is_alive
        if self._leadership is not None:
            yield self._leadership.name, self._leadership.is_alive
        yield "zookeeper connection", self._session.is_usable

    def stop(self) -> None:
        """End the threads; the owner of the session ends it."""
        self._watches.stop()
        self._claims.stop()

    # --- Store -----------------------------------------------------------------------------------

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Write the multis, pipelined and in order, and wait for all; see ``Store.commit``."""
        begun = time.monotonic()
        try:
            return self._multis.commit(self._fence(multis), multis)
        finally:
            if self._latency is not None:
                self._latency("commit", time.monotonic() - begun)

    def begin_tenure(self) -> None:
        """Begin a tenure as the leading daemon, which may write paperwork only."""
        if self._leadership is None:
            self._inbox.put(ClaimFailed("there is no election among daemons"))
        else:
            self._leadership.begin_tenure()

    # --- fences ----------------------------------------------------------------------------------

    def _fence(self, multis: Sequence[Sequence[Operation]]) -> Fence:
        claim, leadership = self._claims.held, self._leadership_fence()
        if leadership is None:
            raise ControllerMovedError("another daemon leads")
        if claim is None:
            if not is_paperwork(multis):
                raise ControllerMovedError("the controller role is not ours")
            return leadership
        return (claim_check(claim.version), *leadership)

    def _leadership_fence(self) -> Fence | None:
        if self._leadership is None:
            return ()
        version = self._leadership.version
        return None if version is None else (epoch_check(version),)
