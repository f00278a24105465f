"""
Calls of ZooKeeper, for the daemon and for commands: the wait for an answer, and multis.

kazoo's errors of the connection are translated here; see ``sessions``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError

from controller import errors
from controller.zk.security import acl_at

if TYPE_CHECKING:
    from controller.reactor import ports

_ANY_VERSION: Final = -1

_BROKEN: Final = (
    exceptions.ConnectionClosedError,
    exceptions.ConnectionDropped,
    exceptions.ConnectionLoss,
    KazooTimeoutError,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
    exceptions.SessionMovedError,
    exceptions.ThrottledOpError,
)
"""The answer is unknown; the session may be alive."""

_ENDED: Final = (exceptions.AuthFailedError, exceptions.SessionExpiredError)


class PendingCall(Protocol):
    """kazoo's result of a call that may still be in flight."""

    def get(self, block: bool = ..., timeout: float | None = ...) -> Any:  # noqa: ANN401, FBT001 - kazoo's signature
        """Wait for it."""


def answer(pending: PendingCall, timeout_s: float) -> Any:  # noqa: ANN401 - kazoo has no types
    """
    Wait for an answer.

    Raises:
        SessionSuspendedError: no answer came in time; the operation may have happened.
        SessionLostError: the session is over.
        ZookeeperError: ZooKeeper refused the operation.
    """
    try:
        return pending.get(timeout=timeout_s)
    except _BROKEN as error:
        # Before SessionExpiredError, which kazoo derives ConnectionClosedError from.
        problem = f"no answer from ZooKeeper: {type(error).__name__}"
        raise errors.SessionSuspendedError(problem) from error
    except _ENDED as error:
        problem = f"the ZooKeeper session is over: {type(error).__name__}"
        raise errors.SessionLostError(problem) from error


class MultiRejected(Exception):  # noqa: N818 - a multi's outcome, not a fault
    """ZooKeeper refused a multi because of its ``index``-th operation."""

    def __init__(self, index: int, cause: Exception) -> None:
        self.index = index
        self.error = _error_of(cause)
        self.reason = f"{type(cause).__name__} at operation {index}"
        super().__init__(self.reason)

    @property
    def is_race(self) -> bool:
        """Whether another client was faster, so that it may be tried again."""
        return self.error not in (self.error.OTHER, self.error.NO_AUTH)


def _error_of(cause: Exception) -> ports.WriteError:
    from controller.reactor.ports import WriteError  # noqa: PLC0415 - most commands see none

    match cause:
        case exceptions.BadVersionError():
            return WriteError.BAD_VERSION
        case exceptions.NoAuthError():
            return WriteError.NO_AUTH
        case exceptions.NoNodeError():
            return WriteError.NO_NODE
        case exceptions.NodeExistsError():
            return WriteError.NODE_EXISTS
        case exceptions.NotEmptyError():
            return WriteError.NOT_EMPTY
        case _:
            return WriteError.OTHER


def multi_answer(pending: PendingCall, timeout_s: float) -> list[Any]:
    """
    Wait for a multi; return its results, one per operation.

    Raises:
        MultiRejected: nothing of it was written.
        SessionSuspendedError: its outcome is unknown.
        SessionLostError: the session is over, and its outcome is unknown.
    """
    try:
        results: list[Any] = answer(pending, timeout_s)
    except exceptions.KazooException as error:
        raise MultiRejected(0, error) from error
    for index, result in enumerate(results):
        # The operations before the culprit are "rolled back", those after it "inconsistent".
        if isinstance(result, Exception) and not isinstance(
            result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
        ):
            raise MultiRejected(index, result)
    return results


def fill(transaction: Any, multi: Iterable[ports.Operation], acls: list[Any]) -> None:  # noqa: ANN401 - kazoo has no types
    """Add operations to a multi; ``acls`` are the permissions of the cluster's ordinary znodes."""
    from controller.reactor import ports  # noqa: PLC0415 - few commands write several znodes at once

    for operation in multi:
        match operation:
            case ports.Check(path=path, version=version):
                transaction.check(path, version)
            case ports.Create(path=path, data=data):
                transaction.create(path, data, acl=acl_at(path, acls))
            case ports.CreateSequential(path=path, data=data):
                transaction.create(path, data, acl=acl_at(path, acls), sequence=True)
            case ports.SetData(path=path, data=data, version=version):
                transaction.set_data(path, data, version)
            case ports.Delete(path=path, version=version):
                transaction.delete(path, _ANY_VERSION if version is None else version)
