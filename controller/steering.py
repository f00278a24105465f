"""What the status page may turn, written as the command line writes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, Protocol

from controller.core.controls import Pause, Pauses
from controller.core.model import RequestId, ZkVersion, Zxid
from controller.core.submissions import Cancellation, Submission
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.settings import Settings
from controller.zk.operator_client import OperatorClient

BY: Final = "the status page"
CONNECT_S: Final = 5.0


class Operates(Protocol):
    """What of ``zk.operator_client.OperatorClient`` is used."""

    def request_ids(self) -> Mapping[RequestId, bool]:
        """Return the requests of which anything is kept."""
        ...

    def submission_names(self) -> list[str]:
        """Return the submitted requests that were not accepted yet."""
        ...

    def read_submissions(self, names: Iterable[str]) -> Mapping[str, Submission | None]:
        """Return submitted requests."""
        ...

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """Change the pauses."""
        ...

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """Write a cancellation, or change what is there."""
        ...


def _connected(settings: Settings) -> AbstractContextManager[Operates]:
    return OperatorClient(settings, connect_s=CONNECT_S)


class PageSteering:
    """Implements ``web.control_form.Steering``, over a connection of its own each time."""

    def __init__(
        self,
        settings: Settings,
        *,
        connect: Callable[[Settings], AbstractContextManager[Operates]] = _connected,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """
        Prepare; nothing is connected yet.

        Args:
            settings: Where ZooKeeper is.
            connect: Opens a connection.
            now_ms: Milliseconds since 1970.

        """
        self._settings = settings
        self._connect = connect
        self._now_ms = now_ms

    def pause(self, request: RequestId | None) -> None:
        """
        Let no new step begin.

        Raises:
            PlanInvalidError: nothing is known of the request.

        """
        pause = Pause(by=BY, since_ms=self._now_ms())

        def change(found: Pauses) -> Pauses:
            if request is None:
                return replace(found, everything=found.everything or pause)
            return replace(found, requests={request: pause, **found.requests})

        with self._connect(self._settings) as operator:
            _check(operator, request)
            operator.edit_pauses(change)

    def resume(self, request: RequestId | None) -> None:
        """Let steps begin again; None lifts the pause of everything, not those of requests."""

        def change(found: Pauses) -> Pauses:
            if request is None:
                return replace(found, everything=None)
            left = {name: pause for name, pause in found.requests.items() if name != request}
            return replace(found, requests=left)

        with self._connect(self._settings) as operator:
            operator.edit_pauses(change)

    def cancel(self, request: RequestId | None) -> None:
        """
        Call off what is in progress.

        Raises:
            PlanInvalidError: nothing is known of the request.
            ReassignmentConflictError: another cancellation is being carried out.

        """
        chosen = frozenset() if request is None else frozenset({request})

        def join(found: Cancellation | None) -> Cancellation:
            if found is not None:
                raise ReassignmentConflictError(f"{found.request} is being carried out; wait")
            return Cancellation(ZkVersion(0), Zxid(0), 0, requests=chosen, requested_by=BY)

        with self._connect(self._settings) as operator:
            _check(operator, request)
            operator.cancel(join)


def _check(operator: Operates, request: RequestId | None) -> None:
    if request is None or request in operator.request_ids():
        return
    submitted = operator.read_submissions(operator.submission_names()).values()
    if request not in {s.request for s in submitted if s is not None}:
        raise InvalidInputError(f"nothing is known of request {request}")
