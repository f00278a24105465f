"""
The election among several daemons: kazoo's lock under ``/reassigner/leader``, and a fencing token.

The lock alone does not entitle to write: a new leader first raises ``/reassigner/epoch`` in a multi
that checks its own candidacy, and the new version of that znode fences every write. A candidacy
holds the address of the daemon's HTTP server, so that a command can find the leader.

Invariant: ``version`` is set exactly between ``LeadershipGained`` and ``LeadershipLost``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from controller.background_threads import BackgroundThread
from controller.core.model import ControllerEpoch, ZkVersion
from controller.core.role.records import (
    ClaimFailed,
    ControllerClaimed,
    LeadershipGained,
    LeadershipLost,
)
from controller.errors import SessionLostError, SessionSuspendedError
from controller.reactor.ports import Inbox
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.pending_calls import MultiRejected, multi_answer
from controller.zk.session_reads import Reader, watch
from controller.zk.sessions import Session
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_leader

_EPOCH: Final = re.compile(rb"[0-9]{1,18}")

AGAIN: Final = wait_random_exponential(multiplier=0.2, max=1.0, min=0.1)
"""Pauses after a candidacy that failed; a new connection ends them."""
_STOP_S: Final = 5.0


class Leadership(BackgroundThread):
    """One daemon's candidacy, on its own thread."""

    def __init__(self, session: Session, inbox: Inbox, *, http: str) -> None:
        """Listen to the session; the candidacy, which names ``http``, begins with ``start``."""
        super().__init__("zk-leadership")
        self._session = session
        self._inbox = inbox
        self._identifier = encode_leader(http).decode("ascii")
        self._before_gain: Callable[[], None] = lambda: None
        self._after_loss: Callable[[], None] = lambda: None
        self._guard = threading.Lock()
        self._version: ZkVersion | None = None
        self._losses = 0
        self._wake = threading.Event()
        self._reader = Reader(session)
        self._watching = self._reader.watching(watch(self._wake.set))
        self._stopping = False
        self._contending: Any = None
        self._log = structlog.stdlib.get_logger(__name__)
        session.add_listener(self)

    @property
    def version(self) -> ZkVersion | None:
        """The version of ``/reassigner/epoch`` that this leader wrote; None for a standby."""
        return self._version

    def leader_address(self) -> str | None:
        """
        Return the address of the leading daemon's HTTP server; safe from any thread.

        None where none leads, or ZooKeeper does not say.
        """
        if not self._session.is_connected:
            return None
        with suppress(SessionSuspendedError, SessionLostError, KazooException):
            return ClusterZnodes(self._reader).leader_address()
        return None

    def attach(self, *, before_gain: Callable[[], None], after_loss: Callable[[], None]) -> None:
        """
        Set what is called, and must not wait, when the role is gained or lost.

        ``before_gain`` is called on this thread once the former leader is fenced, before this
        daemon leads; ``after_loss`` on any thread once this daemon no longer leads.
        """
        self._before_gain = before_gain
        self._after_loss = after_loss

    def stop(self) -> None:
        """Withdraw, so that another daemon can lead at once."""
        self._stopping = True
        self._wake.set()
        contending = self._contending
        if contending is not None:
            contending.cancel()
        self._join(_STOP_S)

    def begin_tenure(self) -> None:
        """Report a tenure with the leader's epoch, never after its loss; or that another leads."""
        with self._guard:
            version = self._version
            if version is None:
                self._inbox.put(ClaimFailed("another daemon leads"))
            else:
                self._inbox.put(ControllerClaimed(ControllerEpoch(version)))

    # --- called by the session -------------------------------------------------------------------

    def connected(self, *, is_new: bool) -> None:  # noqa: ARG002 - both need the same check
        """Check whether this daemon still leads."""
        self._wake.set()

    def lost(self, reason: str) -> None:
        """Stop leading with the session."""
        self._lose(reason)

    # --- on the thread of the candidacy ----------------------------------------------------------

    def _run(self) -> None:
        retrying = Retrying(
            retry=retry_if_exception_type(
                (SessionSuspendedError, SessionLostError, MultiRejected, KazooException)
            ),
            wait=AGAIN,
            sleep=self._pause,
            stop=lambda _: self._stopping,
            before_sleep=self._failed,
            retry_error_callback=lambda _: None,
        )
        while not self._stopping:
            retrying(self._stand)

    def _failed(self, state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        self._log.warning("candidacy failed", error=repr(error))

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _stand(self) -> None:
        losses = self._losses
        self._withdraw()
        self._contending = lock = self._session.client.Lock(paths.LEADER, self._identifier)
        if self._stopping:
            return
        try:
            lock.acquire()
            version = self._raise_epoch(f"{paths.LEADER}/{lock.node}")
            self._before_gain()
            with self._guard:
                if losses == self._losses and not self._stopping:
                    self._version = version
                    self._inbox.put(LeadershipGained())
            self._lead()
        finally:
            self._lose("this daemon withdrew")
            self._withdraw()

    def _raise_epoch(self, candidacy: str) -> ZkVersion:
        """Fence the former leader; only while this daemon's candidacy exists."""
        epoch = self._reader.get(paths.EPOCH)
        if epoch is None:
            made = self._session.client.create_async(paths.EPOCH, b"0", makepath=True)
            with suppress(NodeExistsError):
                self._session.result_of(made)
            return self._raise_epoch(candidacy)
        known = int(epoch.data) if _EPOCH.fullmatch(epoch.data) else 0
        multi = self._session.client.transaction()
        multi.check(candidacy, 0)
        multi.set_data(paths.EPOCH, str(known + 1).encode("ascii"), epoch.version)
        _, stat = multi_answer(multi.commit_async(), self._session.timeout_s)
        return ZkVersion(stat.version)

    def _lead(self) -> None:
        """Return when this daemon no longer leads."""
        while not self._stopping:
            version = self._version
            if version is None:
                return
            self._wake.clear()
            epoch = self._watching.get(paths.EPOCH)
            if epoch is None or epoch.version != version:
                self._lose("another daemon raised the epoch")
                return
            if self._version is not None and not self._stopping:
                self._wake.wait()

    def _lose(self, reason: str) -> None:
        with self._guard:
            self._losses += 1
            led, self._version = self._version, None
            if led is not None:
                self._inbox.put(LeadershipLost(reason))
        if led is not None:
            self._after_loss()
        self._wake.set()

    def _withdraw(self) -> None:
        """Delete all candidacies of this session: the lock would wait for ever behind one."""
        self._contending = None
        names = self._reader.children(paths.LEADER)
        for path, znode in self._reader.try_many((f"{paths.LEADER}/{n}" for n in names), str):
            if isinstance(znode, KazooException):
                raise znode
            if znode is not None and znode.owner == self._session.id:
                with suppress(NoNodeError):
                    self._session.result_of(self._session.client.delete_async(path))
