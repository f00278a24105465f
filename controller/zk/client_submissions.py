"""
The znodes of requests and cancellations, written for clients of the controller endpoint.

They are written as an operator's command writes them, over a connection of their own: a request is
no write of the controller, and whichever daemon leads when it is read carries it out. One thread
writes, in the order in which clients asked, so that the later of two targets wins.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

from controller.background_threads import BackgroundThread
from controller.core.calls.client_requests import SubmittedReassignments
from controller.core.calls.records import ReassignmentsSubmitted
from controller.core.effects import SubmitReassignments
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.errors import ControllerError, RequestTimeoutError
from controller.reactor.ports import Clock, Inbox
from controller.zk.operator_client import OperatorClient
from controller.znodes.json_documents import TEXT_MAX

REASON: Final = "AlterPartitionReassignments"


class ClientSubmissions(BackgroundThread):
    """Implements ``ports.Submissions``."""

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        connect: Callable[[], AbstractContextManager[OperatorClient]],
    ) -> None:
        """Prepare to write; ``inbox`` receives ``ReassignmentsSubmitted``."""
        super().__init__("client submissions")
        self._inbox = inbox
        self._clock = clock
        self._connect = connect
        self._wanted: queue.SimpleQueue[SubmitReassignments | None] = queue.SimpleQueue()

    def stop(self) -> None:
        """End the thread; what is queued is not written."""
        self.forget()
        self._wanted.put(None)
        self._join()

    def submit(self, wanted: SubmitReassignments) -> None:
        """Write a request and a cancellation in the background."""
        self._wanted.put(wanted)

    def forget(self) -> None:
        """Drop what is not written yet: the clients were answered NOT_CONTROLLER."""
        with suppress(queue.Empty):
            while True:
                self._wanted.get_nowait()

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            try:
                with self._connect() as operator:
                    submitted = self._write(operator, wanted)
            except ControllerError as error:
                submitted = SubmittedReassignments(None, None, str(error))
            self._inbox.put(ReassignmentsSubmitted(wanted.ticket, submitted))

    def _write(
        self, operator: OperatorClient, wanted: SubmitReassignments
    ) -> SubmittedReassignments:
        self._check_time(wanted)
        request = cancellation = problem = None
        client = wanted.client[:TEXT_MAX]
        if wanted.targets:
            options = RequestOptions(reason=REASON, requested_by=client, keep_leaders=True)
            request = operator.writes.submit_plan(wanted.targets, options).request
        if wanted.cancelled:
            chosen = Cancellation(partitions=wanted.cancelled, reason=REASON, requested_by=client)
            try:
                self._check_time(wanted)
                written = operator.writes.cancel(chosen, wait_s=wanted.until - self._clock.now())
            except ControllerError as error:
                if request is None:
                    raise
                problem = str(error)
            else:
                cancellation = written.request
        return SubmittedReassignments(request, cancellation, problem)

    def _check_time(self, wanted: SubmitReassignments) -> None:
        """Write nothing that the client may have repeated elsewhere, or changed, since."""
        if self._clock.now() >= wanted.until:
            raise RequestTimeoutError("the client was told that its time is over")
