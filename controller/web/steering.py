"""Actions of the status page, written to ZooKeeper as the commands write them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from controller.core.model import RequestId, ZkVersion, Zxid
from controller.core.pacing.controls import Pause, UnderMinIsr
from controller.core.requests.submissions import Cancellation
from controller.previews.validation import check_open
from controller.settings import Settings
from controller.web.access import author
from controller.zk.operator_client import OperatorClient

_CONNECT_S: Final = 5.0
_SELECTION_S: Final = 2.0


def connect(settings: Settings) -> OperatorClient:
    """Return a connection to ZooKeeper for one action of a page."""
    return OperatorClient(settings, connect_s=_CONNECT_S)


class PageSteering:
    """Implements ``web.control_form.Steering``; each action opens a connection of its own."""

    def __init__(
        self,
        settings: Settings,
        *,
        connect: Callable[[Settings], AbstractContextManager[OperatorClient]] = connect,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """
        Prepare; nothing is connected yet.

        Args:
            settings: The address of ZooKeeper, and the credentials for it.
            connect: Opens a connection.
            now_ms: Milliseconds since 1970.

        """
        self._settings = settings
        self._connect = connect
        self._now_ms = now_ms

    def pause(self, request: RequestId | None, by: str) -> None:
        """
        Pause a request; None pauses everything.

        Raises:
            InvalidInputError: the request has ended, or is not known.

        """
        pause = Pause(by=author(by), since_ms=self._now_ms())
        named = () if request is None else (request,)
        with self._connect(self._settings) as operator:
            check_open(operator, named)
            operator.writes.edit_pauses(lambda found: found.adding(pause, named))

    def resume(self, request: RequestId | None, by: str) -> None:  # noqa: ARG002 - a pause that is gone has no author
        """Remove the pause of a request; None removes the pause of everything, and no other."""
        named = () if request is None else (request,)
        with self._connect(self._settings) as operator:
            operator.writes.edit_pauses(lambda found: found.removing(named))

    def cancel(self, request: RequestId | None, by: str) -> None:
        """
        Cancel a request; None cancels everything.

        Raises:
            InvalidInputError: the request has ended, or is not known.
            ReassignmentConflictError: an earlier cancellation has not selected its partitions yet.

        """
        named = () if request is None else (request,)
        wanted = Cancellation(
            ZkVersion(0), Zxid(0), 0, requests=frozenset(named), requested_by=author(by)
        )
        with self._connect(self._settings) as operator:
            check_open(operator, named)
            operator.writes.cancel(wanted, wait_s=_SELECTION_S)

    def warn(self, request: RequestId | None, by: str) -> None:  # noqa: ARG002 - it is of the whole cluster, and has no author
        """Let steps begin although other partitions are below min ISR."""
        self._set_brake(UnderMinIsr.WARN)

    def wait(self, request: RequestId | None, by: str) -> None:  # noqa: ARG002 - as above
        """Let copies that could harm partitions below min ISR wait."""
        self._set_brake(UnderMinIsr.WAIT)

    def _set_brake(self, brake: UnderMinIsr) -> None:
        with self._connect(self._settings) as operator:
            operator.writes.edit_limits(lambda found: replace(found, under_min_isr=brake))
