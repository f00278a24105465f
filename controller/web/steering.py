"""
Actions of the status page, decided and written as by the commands.

Each action opens a connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, assert_never

from controller.actions import pauses
from controller.actions.cancelling import submit_cancellation
from controller.actions.limits import LimitChanges, change_limits
from controller.actions.named_requests import request_ids
from controller.core.pacing.controls import Pause, UnderMinIsr
from controller.core.requests.submissions import new_cancellation
from controller.errors import ReassignmentConflictError
from controller.settings import Settings
from controller.web.access import author
from controller.zk.operator_client import OperatorClient

_CONNECT_S: Final = 5.0
_SELECTION_S: Final = 2.0
"""The seconds that a browser waits until an earlier cancellation has selected its partitions."""

Connect = Callable[[], AbstractContextManager[OperatorClient]]


class PageAction(StrEnum):
    """An action of the page: of a request, of everything, or of a setting."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    WARN = "warn"
    WAIT = "wait"

    @property
    def meaning(self) -> str:
        """What it does, as the form says it."""
        match self:
            case PageAction.PAUSE:
                return "No new step begins. Steps in flight continue to their end."
            case PageAction.RESUME:
                return "Steps begin again. Other pauses stay."
            case PageAction.CANCEL:
                return (
                    "Partitions in flight go back to their original replicas, or to the nearest "
                    "assignment that is safe. Partitions that are done stay where they are."
                )
            case PageAction.WARN:
                return (
                    "Steps begin although other partitions are below min.insync.replicas; these "
                    "are only reported. It holds until it is changed, also for the next leader."
                )
            case PageAction.WAIT:
                return (
                    "No step begins whose copies could harm partitions below min.insync.replicas."
                )

    @property
    def is_brake(self) -> bool:
        """Whether it is a value of ``under_min_isr``, of no single request."""
        return self in (PageAction.WARN, PageAction.WAIT)


PAGE_ACTIONS: Final = {action.value: action for action in PageAction}


def connection_of(settings: Settings) -> OperatorClient:
    """Return a connection to ZooKeeper for one action of a page."""
    return OperatorClient(settings, connect_s=_CONNECT_S)


class Steering:
    """Carries out the actions of the page; safe from any thread."""

    def __init__(
        self,
        connect: Connect,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """
        Prepare; nothing is connected yet.

        Args:
            connect: Opens a connection to ZooKeeper.
            now_ms: Milliseconds since 1970.

        """
        self._connect = connect
        self._now_ms = now_ms

    def carry_out(self, action: PageAction, request: str, by: str) -> None:
        """
        Carry out an action.

        Args:
            action: The action.
            request: The id of its request; empty for everything.
            by: The name of the token.

        Raises:
            InvalidInputError: the request has ended, is not known, or cannot be the id of one.
            ReassignmentConflictError: there is nothing to cancel, or an earlier cancellation has
                not selected its partitions yet.

        """
        named = request_ids([request] if request else [])
        with self._connect() as operator:
            match action:
                case PageAction.PAUSE:
                    pauses.pause(operator, Pause(by=author(by), since_ms=self._now_ms()), named)
                case PageAction.RESUME:
                    pauses.resume(operator, named)
                case PageAction.CANCEL:
                    wanted = new_cancellation(requests=named, requested_by=author(by))
                    done = submit_cancellation(operator, wanted, wait_s=_SELECTION_S)
                    if isinstance(done, str):
                        raise ReassignmentConflictError(done)
                case PageAction.WARN | PageAction.WAIT:
                    values = {"under-min-isr": UnderMinIsr(action.value)}
                    change_limits(operator, LimitChanges(values=values))
                case unknown:
                    assert_never(unknown)
