"""
Waiting for kazoo's answers, in our own words.

What became of the connection is translated (``errors``); what ZooKeeper says of an operation, for
example that a znode does not exist, is left as kazoo's exception for the caller to judge.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from kazoo.handlers.threading import KazooTimeoutError

from controller.errors import SessionLostError, SessionSuspendedError

_BROKEN: Final = (
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
    ThrottledOpError,
)
"""The answer is not known; the session may be alive."""

_ENDED: Final = (AuthFailedError, SessionExpiredError)


class Pending(Protocol):
    """An answer of kazoo that may not be there yet."""

    def get(self, block: bool = ..., timeout: float | None = ...) -> Any:  # noqa: ANN401, FBT001 - kazoo's signature
        """Wait for it."""
        ...


def answer(pending: Pending, timeout_s: float) -> Any:  # noqa: ANN401 - kazoo has no types
    """
    Wait for an answer.

    Raises:
        SessionSuspendedError: no answer came, in time or at all; it may have happened.
        SessionLostError: the session is over.
        ZookeeperError: ZooKeeper's word on the operation itself.

    """
    try:
        return pending.get(timeout=timeout_s)
    except (
        _BROKEN
    ) as error:  # before SessionExpiredError, which kazoo derives ConnectionClosedError from
        raise SessionSuspendedError(f"no answer from ZooKeeper: {type(error).__name__}") from error
    except _ENDED as error:
        raise SessionLostError(f"the ZooKeeper session is over: {type(error).__name__}") from error
