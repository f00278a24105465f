"""Pause and resume everything, requests or brokers."""

from __future__ import annotations

from collections.abc import Iterable

from controller.actions.named_requests import check_open
from controller.core.model import BrokerId, RequestId
from controller.core.pacing.controls import Pause, Pauses
from controller.zk.operator_client import OperatorClient


def pause(
    operator: OperatorClient,
    new: Pause,
    requests: Iterable[RequestId] = (),
    brokers: Iterable[BrokerId] = (),
    *,
    dry_run: bool = False,
) -> Pauses:
    """
    Pause requests and brokers, or everything; return all pauses.

    Raises:
        InvalidInputError: a request has ended or is not known, or the pause is not valid.
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    check_open(operator, requests)
    return operator.writes.edit_pauses(
        lambda found: found.adding(new, requests, brokers), dry_run=dry_run
    )


def resume(
    operator: OperatorClient,
    requests: Iterable[RequestId] = (),
    brokers: Iterable[BrokerId] = (),
    *,
    dry_run: bool = False,
) -> Pauses:
    """
    Remove the pauses of requests and brokers, or the general pause; return the others.

    Raises:
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    return operator.writes.edit_pauses(
        lambda found: found.removing(requests, brokers), dry_run=dry_run
    )


def resume_all(operator: OperatorClient, *, dry_run: bool = False) -> Pauses:
    """
    Remove every pause.

    Raises:
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    return operator.writes.edit_pauses(lambda _: Pauses(), dry_run=dry_run)
