"""
The controller role: claim ``/controller``, detect its loss, resign.

A claim sets ``/controller_epoch`` to the next epoch under its version, in a multi that also takes
or checks ``/controller`` (``KafkaZkClient.registerControllerAndIncrementControllerEpoch``). From
then on the new version of ``/controller_epoch`` fences every write of the daemon. The core decides
when to claim.

A vacant role takes one multi, which also creates ``/controller``. A role that a broker holds takes
two, unless there is a race. The first replaces ``/controller`` and leaves the epoch, so that the
broker can still write the rest of its current event before it sees that it is no longer the
controller. The second is the claim. A broker that is fenced amid an event keeps the requests it had
prepared, and fails at every change of replicas when it is elected again (KAFKA-12315).

Invariants: a claim never outlives the session it was made in; every claim ends with exactly one
``Deposed``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
from kazoo.exceptions import KazooException
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_random

from controller.core.model import BrokerId, ControllerEpoch, ZkVersion
from controller.core.role.records import ClaimFailed, ControllerClaimed, Deposed
from controller.errors import FencedError, SessionLostError, SessionSuspendedError
from controller.reactor.ports import Inbox
from controller.zk.multis import Fence, claim_check
from controller.zk.pending_calls import MultiRejected, fill, multi_answer
from controller.zk.readers import Znode
from controller.zk.session_reads import Reader, watch
from controller.zk.sessions import Session
from controller.zk.workers import Worker
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    NOT_KRAFT,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
)

ATTEMPTS: Final = 5
"""A claim races with brokers only while the role is vacant; more losses are no race."""

BACKOFF: Final = wait_random(0.02, 0.1)
"""Spreads candidates."""

GRACE_S: Final = 0.25
"""
Seconds for a broker that lost ``/controller`` to write the rest of its current event.

An event is a few round trips to ZooKeeper and rarely takes this long; from idle, the first request
is due 0.5 s after the claim began.
"""


class Claim(NamedTuple):
    """The right to write as the controller."""

    epoch: ControllerEpoch
    version: ZkVersion
    """The version of ``/controller_epoch`` that the claim wrote."""
    session: int


class _Tried(NamedTuple):
    """A multi of a claim whose answer never came."""

    epoch: ControllerEpoch | None
    """The epoch it would have set; None: it was to replace ``/controller`` only."""


class _Role(NamedTuple):
    """The role as read, and the right to claim it."""

    leadership: Fence
    session: int
    controller: Znode | None
    version: ZkVersion
    """Of ``/controller_epoch``."""
    next: ControllerEpoch

    @property
    def is_ours(self) -> bool:
        """Whether ``/controller`` belongs to this session."""
        return self.controller is not None and self.controller.owner == self.session


class Claims:
    """Holds at most one claim."""

    def __init__(  # noqa: PLR0913 - the parts it is composed of, by name
        self,
        session: Session,
        inbox: Inbox,
        *,
        controller_id: BrokerId,
        now_ms: Callable[[], int],
        leadership: Callable[[], Fence | None],
        grace_s: float = GRACE_S,
    ) -> None:
        """
        Begin without a claim; the caller adds it to the session's listeners.

        ``inbox`` receives ``ControllerClaimed``, ``ClaimFailed`` and ``Deposed``. ``leadership``
        returns the fence of the leading daemon; None when another leads.
        """
        self._session = session
        self._inbox = inbox
        self._controller_id = controller_id
        self._now_ms = now_ms
        self._leadership = leadership
        self._grace_s = grace_s
        self._reader = Reader(session)
        self._worker = Worker("zk-claims", session)
        self._lock = threading.Lock()
        self._held: Claim | None = None
        self._losses = 0
        """Counts lost sessions, to recognise a claim that was made while its session ended."""
        self._watching = self._reader.watching(watch(lambda: self._worker.put(self._look)))
        self._log = structlog.stdlib.get_logger(__name__)

    @property
    def held(self) -> Claim | None:
        """The claim; None without one."""
        return self._held

    def threads(self) -> tuple[Worker]:
        """Return the thread, which must never end by itself."""
        return (self._worker,)

    def claim(self, *, at_once: bool = False) -> None:
        """Try to claim the role, ``at_once`` without a grace for the broker that holds it."""
        self._worker.put(lambda: self._claim(at_once=at_once))

    def resign(self) -> None:
        """Resign: nothing can be written from now on, and ``Deposed`` follows."""
        with self._lock:
            held, self._held = self._held, None
        if held is None:
            self._inbox.put(Deposed("the controller role was not ours"))
        else:
            self._worker.put(lambda: self._resign(held))

    def stop(self) -> None:
        """End the thread; the end of the session deletes ``/controller``."""
        self._worker.stop()

    def resign_if_held(self) -> None:
        """Resign if the role is held: this daemon may no longer use it."""
        with self._lock:
            is_held = self._held is not None
        if is_held:
            self.resign()

    # --- called by the session -------------------------------------------------------------------

    def connected(self, *, is_new: bool) -> None:  # noqa: ARG002 - a claim ends with its session
        """Check whether the claim still holds: the watch on it is gone."""
        self._worker.put(self._look)

    def lost(self, reason: str) -> None:
        """Drop the claim with its session."""
        with self._lock:
            self._losses += 1
            held, self._held = self._held, None
            if held is not None:
                self._inbox.put(Deposed(reason))
        if held is not None:
            # If ZooKeeper was only silent for too long, session and znode may still exist.
            self._worker.put(self._tidy)

    # --- claiming --------------------------------------------------------------------------------

    def _claim(self, *, at_once: bool) -> None:
        with self._lock:
            losses, held = self._losses, self._held
        if held is not None:
            self._inbox.put(ControllerClaimed(held.epoch))
            return
        try:
            outcome = self._attempts(at_once=at_once)
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

    def _attempts(self, *, at_once: bool) -> Claim | str:
        tried: _Tried | None = None

        def attempt() -> Claim | str | None:
            nonlocal tried
            if tried is not None:
                if not self._session.wait(self._session.timeout_s):
                    return "the connection to ZooKeeper is gone"
                if (found := self._find_lost_claim(tried)) is not None:
                    return found
            outcome = self._try(at_once=at_once)
            tried = outcome if isinstance(outcome, _Tried) else None
            return None if isinstance(outcome, _Tried) else outcome

        def pause(seconds: float) -> None:
            self._worker.pause(seconds)

        outcome = Retrying(
            retry=retry_if_result(lambda result: result is None),
            stop=stop_after_attempt(ATTEMPTS),
            wait=BACKOFF,
            sleep=pause,
            retry_error_callback=lambda _: None,
        )(attempt)
        return outcome or f"others claimed the role at the same time, {ATTEMPTS} times over"

    def _try(  # noqa: PLR0911 - one return per reason
        self, *, at_once: bool
    ) -> Claim | _Tried | str | None:
        """Try once: the claim, an unanswered multi, the reason against it, or None after a race."""
        role = self._look_at_the_role()
        if isinstance(role, str):
            return role
        tried = _Tried(None)
        try:
            if role.controller is not None and not at_once:
                if not role.is_ours:
                    self._replace(role)
                # Also where it is ours already: perhaps since a moment ago, without an answer.
                if not self._worker.pause(self._grace_s):
                    return "the daemon is stopping"
                role = role._replace(controller=self._reader.get(paths.CONTROLLER))
                if not role.is_ours:
                    return None
            tried = _Tried(role.next)
            results = self._write(role)
        except MultiRejected as refused:
            if refused.index < len(role.leadership):
                return "another daemon leads"
            return None if refused.is_race else f"ZooKeeper refuses the claim: {refused.reason}"
        except SessionSuspendedError:
            return tried
        version = ZkVersion(results[len(role.leadership)].version)
        return Claim(role.next, version, role.session)

    def _look_at_the_role(self) -> _Role | str:
        """Read what a claim needs, or return the reason against it."""
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
            return f"{paths.CONTROLLER_EPOCH} cannot be decoded: {known}"
        refusal = None if controller is None else _refusal(controller)
        if refusal is not None:
            return refusal
        return _Role(leadership, session, controller, epoch.version, ControllerEpoch(known + 1))

    def _replace(self, role: _Role) -> None:
        """Take ``/controller`` and leave the epoch: the broker ends its current event."""
        multi = self._begin(role.leadership)
        multi.check(paths.CONTROLLER_EPOCH, role.version)
        self._create(multi, role)
        self._commit(multi)

    def _write(self, role: _Role) -> list[Any]:
        """Claim; a ``/controller`` of this session is only checked."""
        multi = self._begin(role.leadership)
        multi.set_data(paths.CONTROLLER_EPOCH, str(role.next).encode("ascii"), role.version)
        if role.controller is not None and role.is_ours:
            multi.check(paths.CONTROLLER, role.controller.version)
        else:
            self._create(multi, role)
        return self._commit(multi)

    def _create(self, multi: Any, role: _Role) -> None:  # noqa: ANN401 - kazoo has no types
        """Add the operations that take ``/controller`` to a multi."""
        if role.controller is not None:
            multi.delete(paths.CONTROLLER, role.controller.version)
        data = encode_controller(self._controller_id, self._now_ms())
        multi.create(paths.CONTROLLER, data, ephemeral=True)

    def _find_lost_claim(self, tried: _Tried) -> Claim | None:
        """Return the claim whose answer was lost, if it was made."""
        controller = self._reader.get(paths.CONTROLLER)
        epoch = self._reader.get(paths.CONTROLLER_EPOCH)
        session = self._session.id
        if controller is None or epoch is None or session is None or controller.owner != session:
            return None
        if decode_controller_epoch(epoch.data) != tried.epoch:
            return None
        return Claim(tried.epoch, epoch.version, session)

    # --- loss and resignation --------------------------------------------------------------------

    def _look(self) -> None:
        """Watch ``/controller``, and drop the claim if another session owns it."""
        held = self._held
        if held is None:
            return
        try:
            controller = self._watching.get(paths.CONTROLLER)
        except (SessionSuspendedError, SessionLostError):
            return  # Checked again when connected; until then a resignation must not wait.
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
                self._delete(controller, (claim_check(held.version),))
        except MultiRejected as refused:
            reason = f"resigned, but the role was already lost: {refused.reason}"
        except (SessionSuspendedError, FencedError, KazooException) as error:
            reason = f"resigned, but ZooKeeper may not have heard: {error!r}"
            self._worker.put(self._tidy)
        self._inbox.put(Deposed(reason))

    def _tidy(self) -> None:
        """Delete a ``/controller`` of this session without a claim: brokers wait for that."""
        if self._held is not None:
            return
        controller = self._reader.get(paths.CONTROLLER)
        if controller is None or controller.owner != self._session.id:
            return
        try:
            self._delete(controller, ())
        except MultiRejected as refused:
            self._log.warning("left-over controller znode not deleted", reason=refused.reason)

    def _delete(self, controller: Znode, fence: Fence) -> None:
        multi = self._begin(fence)
        multi.delete(paths.CONTROLLER, controller.version)
        self._commit(multi)

    # --- multis ----------------------------------------------------------------------------------

    def _begin(self, fence: Fence) -> Any:  # noqa: ANN401 - kazoo has no types
        multi = self._session.client.transaction()
        fill(multi, fence, self._session.acls)
        return multi

    def _commit(self, multi: Any) -> list[Any]:  # noqa: ANN401 - kazoo has no types
        return multi_answer(multi.commit_async(), self._session.timeout_s)


def _refusal(controller: Znode) -> str | None:
    """Return why the owner of ``/controller`` must not be deposed; None if it may."""
    named = decode_controller(controller.data)
    if isinstance(named, str):
        return f"{paths.CONTROLLER} cannot be decoded: {named}"
    if controller.owner == 0 or named.kraft_controller_epoch != NOT_KRAFT:
        return f"{paths.CONTROLLER} belongs to a KRaft controller ({named.broker_id})"
    return None
