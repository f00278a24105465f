"""
Actions of the status page without a preview, and limits; decided and written as by the commands.

Uses the functions of the commands, so that a page and a terminal cannot disagree. Each call opens a
connection of its own to ZooKeeper. What is refused raises ``InvalidInputError`` or
``ReassignmentConflictError``, as for a command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Final, assert_never

from controller.actions import draining, work_control
from controller.core.model import BrokerId, RequestId
from controller.core.pacing.controls import Pause, UnderMinIsr
from controller.core.requests.submissions import Cancellation
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.web.access import author
from controller.web.http_messages import is_number
from controller.web.limits_form import ChangedLimits, values_of
from controller.zk.operator_client import OperatorClient

CONNECT_S: Final = 5.0
"""The longest wait of one action of a page for ZooKeeper."""
_SELECTION_S: Final = 2.0
"""The seconds that a browser waits until an earlier cancellation has selected its partitions."""

Connect = Callable[[], AbstractContextManager[OperatorClient]]


class PageAction(StrEnum):
    """An action of the page: of a request, of everything, or of a setting."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    STOP_DRAIN = "stop_drain"
    WARN = "warn"
    WAIT = "wait"

    @property
    def words(self) -> str:
        """The action in words, before its subject."""
        return "stop the drain of broker" if self is PageAction.STOP_DRAIN else self.value

    @property
    def is_brake(self) -> bool:
        """Whether it is a value of ``under_min_isr``, of no single request."""
        return self in (PageAction.WARN, PageAction.WAIT)


PAGE_ACTIONS: Final = {action.value: action for action in PageAction}
MEANINGS: Final[Mapping[PageAction, str]] = {
    PageAction.PAUSE: "No new step begins. Steps in flight continue to their end.",
    PageAction.RESUME: "Steps begin again, and a quiesce ends. Other pauses stay.",
    PageAction.CANCEL: "Partitions in flight go back to their original replicas, or to the nearest "
    "assignment that is safe. Partitions that are done stay where they are.",
    PageAction.STOP_DRAIN: "New replicas may be placed on the broker again. What has not begun "
    "does not begin; what has begun continues.",
    PageAction.WARN: "Steps begin although other partitions are below min.insync.replicas; these "
    "are only reported. It holds until it is changed, also for the next leader.",
    PageAction.WAIT: "No step begins whose copies could harm partitions below min.insync.replicas.",
}
"""What each action does, as the form says it."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Steering:
    """Carries out the actions of the page; safe from any thread."""

    def __init__(
        self,
        connect: Connect,
        now_ms: Callable[[], int] = now_ms,
        status: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._now_ms = now_ms
        self._status = status

    def limits(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Return the limits that operators set, and those in force as far as this daemon knows."""
        with self._connect() as operator:
            found = values_of(operator.requests.controls())
        return found, (self._status() or {}).get("limits", {})

    def change_limits(self, changed: ChangedLimits) -> bool:
        """Change limits and the throttle, as ``limits`` and ``throttle``; as ``carry_out``."""
        with self._connect() as operator:
            if changed.limits:
                work_control.change_limits(operator, changed.limits)
            if changed.is_throttle_changed:
                operator.writes.set_throttle(changed.throttle)
            return work_control.await_shown(operator, self._status)

    def carry_out(self, action: PageAction, request: str, by: str) -> bool:
        """
        Carry out an action of the token ``by``; an empty ``request`` means everything.

        That of a drain has the id of the broker in the place of a request. Return whether the
        status shows it, which is awaited for a moment.
        """
        with self._connect() as operator:
            cancelled = self._carry_out(operator, action, request, by)
            return work_control.await_shown(operator, self._status, cancelled)

    def _carry_out(
        self, operator: OperatorClient, action: PageAction, request: str, by: str
    ) -> RequestId | None:
        if action is PageAction.STOP_DRAIN:
            draining.stop(operator, [_broker_of(request)])
            return None
        named = work_control.request_ids([request] if request else [])
        match action:
            case PageAction.PAUSE:
                new = Pause(by=author(by), since_ms=self._now_ms())
                work_control.pause(operator, new, named)
            case PageAction.RESUME:
                work_control.resume(operator, named)
            case PageAction.CANCEL:
                wanted = Cancellation(requests=frozenset(named), requested_by=author(by))
                return cancel(operator, wanted)
            case PageAction.WARN | PageAction.WAIT:
                values = {"under-min-isr": UnderMinIsr(action.value)}
                work_control.change_limits(operator, work_control.LimitChanges(values=values))
            case unknown:
                assert_never(unknown)
        return None


def cancel(operator: OperatorClient, wanted: Cancellation) -> RequestId:
    """Write a cancellation, or an undo; return its id. One that selects nothing is refused."""
    done = work_control.submit_cancellation(operator, wanted, wait_s=_SELECTION_S)
    if isinstance(done, str):
        raise ReassignmentConflictError(done)
    return done.written.request


def _broker_of(text: str) -> BrokerId:
    if not is_number(text):
        raise InvalidInputError(f"{text!r} is not the id of a broker")
    return BrokerId(int(text))
