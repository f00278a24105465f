"""Cancel reassignments, if there are any to cancel."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.requests.submissions import Cancellation
from controller.previews.cancel_preview import CancelPreview, cancel_preview
from controller.zk.operator_client import OperatorClient
from controller.zk.request_writes import SELECTION_S


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A cancellation that was written."""

    written: Cancellation
    preview: CancelPreview
    """The first partitions that it selects."""


def submit_cancellation(
    operator: OperatorClient, wanted: Cancellation, *, wait_s: float = SELECTION_S
) -> Cancelled | str:
    """
    Write a cancellation; return why not if it selects nothing.

    Args:
        operator: The connection to ZooKeeper.
        wanted: The cancellation.
        wait_s: Seconds to wait until the daemon has selected the partitions of an earlier one.

    Raises:
        InvalidInputError: a request is not known, or the cancellation is not valid.
        ReassignmentConflictError: an earlier one has not selected its partitions yet.

    """
    preview = cancel_preview(operator, wanted, is_whole=False)
    if not preview:
        return nothing_text(operator)
    return Cancelled(operator.writes.cancel(wanted, wait_s=wait_s), preview)


def nothing_text(operator: OperatorClient) -> str:
    """Return the text about a cancellation that selects nothing."""
    running = operator.requests.cancellation()
    more = "" if running is None else f"; {running.request} is in progress already"
    return f"There is nothing to cancel{more}."
