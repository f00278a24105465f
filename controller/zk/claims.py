"""
The controller role: taking ``/controller``, noticing its loss, giving it back.

A claim is one multi: ``/controller_epoch`` set to the next epoch under its version, ``/controller``
deleted under its version and created as our ephemeral
(``KafkaZkClient.registerControllerAndIncrementControllerEpoch``). From then on every write of ours
is fenced by the version ``/controller_epoch`` got. Whether to claim is decided elsewhere.

Invariants: a claim never outlives the session it was made in; every claim ends with exactly one
``Deposed``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
from kazoo.exceptions import KazooException

from controller.core.events import ClaimFailed, ControllerClaimed, Deposed
from controller.core.model import BrokerId, ControllerEpoch, ZkVersion
from controller.errors import FencedError, SessionLostError, SessionSuspendedError
from controller.reactor.ports import Inbox
from controller.zk.multis import Fence, Refused, claim_check, multi_answer
from controller.zk.readers import Reader, Znode, watch
from controller.zk.sessions import Session
from controller.zk.workers import Worker
from controller.znodes import paths
from controller.znodes.controllers import (
    NOT_KRAFT,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
)

ATTEMPTS: Final = 5
"""A claim races with brokers only while the role is vacant; to lose more often is no race."""

BACKOFF_S: Final = (0.02, 0.1)

NOT_OURS: Final = "the controller role was not ours"


class Claim(NamedTuple):
    """What entitles us to write."""

    epoch: ControllerEpoch
    version: ZkVersion
    """The version ``/controller_epoch`` got by the claim."""
    session: int


class _Tried(NamedTuple):
    """A claim whose answer never came."""

    epoch: ControllerEpoch


class Claims:
    """Holds at most one claim."""

    def __init__(
        self,
        session: Session,
        inbox: Inbox,
        *,
        controller_id: BrokerId,
        now_ms: Callable[[], int],
        leadership: Callable[[], Fence | None],
    ) -> None:
        """
        Begin without a claim; whoever builds it makes it a listener of the session.

        Args:
            session: Whose ephemeral ``/controller`` will be.
            inbox: Where it is told.
            controller_id: What ``/controller`` will name.
            now_ms: Milliseconds since 1970, for ``/controller``.
            leadership: The fence of the role among our daemons; None when another leads.

        """
        self._session = session
        self._inbox = inbox
        self._controller_id = controller_id
        self._now_ms = now_ms
        self._leadership = leadership
        self._reader = Reader(session)
        self._worker = Worker("zk-claims", session)
        self._lock = threading.Lock()
        self._held: Claim | None = None
        self._losses = 0
        """Lost sessions: tells a claim that was made while its session ended."""
        self._watch = watch(lambda: self._worker.put(self._look))
        self._log = structlog.stdlib.get_logger(__name__)

    @property
    def held(self) -> Claim | None:
        """The claim, if we have one."""
        return self._held

    def threads(self) -> tuple[Worker]:
        """Return the thread, which must never end by itself."""
        return (self._worker,)

    def claim(self) -> None:
        """Try to take the role: ``ControllerClaimed`` or ``ClaimFailed`` follows."""
        self._worker.put(self._claim)

    def resign(self) -> None:
        """Give the role back: nothing can be written from now on, and ``Deposed`` follows."""
        with self._lock:
            held, self._held = self._held, None
        if held is None:
            self._inbox.put(Deposed(NOT_OURS))
        else:
            self._worker.put(lambda: self._resign(held))

    def stop(self) -> None:
        """End the thread; the session's end takes ``/controller`` away."""
        self._worker.stop()

    def resign_if_held(self) -> None:
        """Give the role back, if we have it, because we may not use it any more."""
        with self._lock:
            is_held = self._held is not None
        if is_held:
            self.resign()

    # --- told by the session -------------------------------------------------------------------

    def connected(self, *, is_new: bool) -> None:  # noqa: ARG002 - a claim ends with its session
        """Look whether the claim still stands: the watch on it is gone."""
        self._worker.put(self._look)

    def lost(self, reason: str) -> None:
        """Drop the claim with its session."""
        with self._lock:
            self._losses += 1
            held, self._held = self._held, None
            if held is not None:
                self._inbox.put(Deposed(reason))
        if held is not None:
            # If ZooKeeper was only silent for too long, session and znode may still live.
            self._worker.put(self._tidy)

    # --- claiming ------------------------------------------------------------------------------

    def _claim(self) -> None:
        with self._lock:
            losses, held = self._losses, self._held
        if held is not None:
            self._inbox.put(ControllerClaimed(held.epoch))
            return
        try:
            outcome = self._attempts()
        except (SessionSuspendedError, FencedError, KazooException) as error:
            outcome = f"the claim failed: {error!r}"
        with self._lock:
            if isinstance(outcome, Claim):
                if losses != self._losses:
                    outcome = "the session ended meanwhile"
                elif self._leadership() is None:
                    outcome = "another daemon leads"
            if isinstance(outcome, Claim):
                self._held = outcome
                self._inbox.put(ControllerClaimed(outcome.epoch))
            else:
                self._inbox.put(ClaimFailed(outcome))
        self._worker.put(self._tidy if self._held is None else self._look)

    def _attempts(self) -> Claim | str:
        tried: _Tried | None = None
        for _ in range(ATTEMPTS):
            outcome: Claim | _Tried | str | None = None
            if tried is not None:
                if not self._session.wait(self._session.timeout_s):
                    return "the connection to ZooKeeper is gone"
                outcome = self._found(tried)
            outcome = outcome or self._try()
            if isinstance(outcome, Claim | str):
                return outcome
            tried = outcome
            self._worker.pause(random.uniform(*BACKOFF_S))  # noqa: S311 - spreads candidates only
        return f"others claimed the role at the same time, {ATTEMPTS} times over"

    def _try(self) -> Claim | _Tried | str | None:  # noqa: PLR0911 - one return per reason
        """Try once: the claim, what was tried without an answer, why not, or None after a race."""
        leadership = self._leadership()
        if leadership is None:
            return "another daemon leads"
        session = self._session.id
        if session is None:
            return "there is no connection to ZooKeeper"
        controller = self._reader.get(paths.CONTROLLER)
        epoch = self._reader.get(paths.CONTROLLER_EPOCH)
        if epoch is None:
            return f"{paths.CONTROLLER_EPOCH} does not exist: this cluster never had a controller"
        known = decode_controller_epoch(epoch.data)
        if isinstance(known, str):
            return f"{paths.CONTROLLER_EPOCH} cannot be understood: {known}"
        refusal = None if controller is None else _refusal(controller)
        if refusal is not None:
            return refusal
        tried = ControllerEpoch(known + 1)
        try:
            results = self._write(leadership, controller, epoch, tried)
        except Refused as refused:
            if refused.index < len(leadership.checks):
                return "another daemon leads"
            return None if refused.is_race else f"ZooKeeper refuses the claim: {refused.reason}"
        except SessionSuspendedError:
            return _Tried(tried)
        return Claim(tried, ZkVersion(results[len(leadership.checks)].version), session)

    def _write(
        self, leadership: Fence, controller: Znode | None, epoch: Znode, tried: ControllerEpoch
    ) -> list[Any]:
        multi = self._session.client.transaction()
        leadership.lead(multi)
        multi.set_data(paths.CONTROLLER_EPOCH, str(tried).encode("ascii"), epoch.version)
        if controller is not None:
            multi.delete(paths.CONTROLLER, controller.version)
        data = encode_controller(self._controller_id, self._now_ms())
        multi.create(paths.CONTROLLER, data, ephemeral=True)
        return multi_answer(multi.commit_async(), self._session.timeout_s)

    def _found(self, tried: _Tried) -> Claim | None:
        """Return the claim whose answer was lost on the way, if it was made."""
        controller = self._reader.get(paths.CONTROLLER)
        epoch = self._reader.get(paths.CONTROLLER_EPOCH)
        session = self._session.id
        if controller is None or epoch is None or session is None or controller.owner != session:
            return None
        if decode_controller_epoch(epoch.data) != tried.epoch:
            return None
        return Claim(tried.epoch, epoch.version, session)

    # --- losing it and giving it back ----------------------------------------------------------

    def _look(self) -> None:
        """Watch ``/controller``, and drop the claim if it is not ours any more."""
        held = self._held
        if held is None:
            return
        try:
            controller = self._reader.get_watched(paths.CONTROLLER, self._watch)
        except (SessionSuspendedError, SessionLostError):
            return  # Asked again when connected; until then a hand-back must not wait behind this.
        if controller is not None and controller.owner == held.session:
            return
        with self._lock:
            if self._held is held:
                self._held = None
                self._inbox.put(Deposed("/controller is not ours any more"))

    def _resign(self, held: Claim) -> None:
        reason = "resigned"
        try:
            controller = self._reader.get(paths.CONTROLLER)
            if controller is not None and controller.owner == held.session:
                self._delete(controller, Fence(claim_check(held.version)))
        except Refused as refused:
            reason = f"resigned, but the role was already lost: {refused.reason}"
        except (SessionSuspendedError, FencedError, KazooException) as error:
            reason = f"resigned, but ZooKeeper may not have heard: {error!r}"
            self._worker.put(self._tidy)
        self._inbox.put(Deposed(reason))

    def _tidy(self) -> None:
        """Delete a ``/controller`` of ours that no claim stands behind: brokers wait for that."""
        if self._held is not None:
            return
        controller = self._reader.get(paths.CONTROLLER)
        if controller is None or controller.owner != self._session.id:
            return
        try:
            self._delete(controller, Fence())
        except Refused as refused:
            self._log.warning("left-over controller znode not deleted", reason=refused.reason)

    def _delete(self, controller: Znode, fence: Fence) -> None:
        multi = self._session.client.transaction()
        fence.lead(multi)
        multi.delete(paths.CONTROLLER, controller.version)
        multi_answer(multi.commit_async(), self._session.timeout_s)


def _refusal(controller: Znode) -> str | None:
    """Return why whoever holds ``/controller`` must not be deposed."""
    named = decode_controller(controller.data)
    if isinstance(named, str):
        return f"{paths.CONTROLLER} cannot be understood: {named}"
    if controller.owner == 0 or named.kraft_controller_epoch != NOT_KRAFT:
        return f"{paths.CONTROLLER} belongs to a KRaft controller ({named.broker_id})"
    return None
