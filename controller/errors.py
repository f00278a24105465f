"""
Errors, in families by what has to happen next: retry, refuse, resign, quarantine or crash.

Errors of kazoo, the operating system and the Kafka client are translated into these where they
enter, chained with ``from``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Verdict(StrEnum):
    """The reaction of the program's one broad handler to an error."""

    RETRY = "retry"
    REFUSE = "refuse"
    RESIGN = "resign"
    QUARANTINE = "quarantine"
    CRASH = "crash"


class ControllerError(Exception):
    """Base of all errors of this package; only its families are instantiated."""

    verdict = Verdict.CRASH

    def __init__(self, message: str) -> None:
        if type(self) is ControllerError:
            raise TypeError("raise one of the families, not ControllerError itself")
        super().__init__(message)


class TransientError(ControllerError):
    """A retry may succeed: retry with a deadline and jitter."""

    verdict = Verdict.RETRY


class SessionSuspendedError(TransientError):
    """The connection to ZooKeeper broke; the session may still be alive."""


class BrokerUnreachableError(TransientError):
    """No connection to a broker."""


class RequestTimeoutError(TransientError):
    """No answer in time."""


class RefusedError(ControllerError):
    """The request will not be carried out, and repeating it does not help."""

    verdict = Verdict.REFUSE


class TokenNeededError(RefusedError):
    """A daemon answers only with a token, and none or a wrong one was sent."""


class InvalidInputError(RefusedError):
    """A plan, option or setting is malformed."""


class ReassignmentConflictError(RefusedError):
    """Another reassignment is in the way."""


class CancellationPendingError(ReassignmentConflictError):
    """An earlier cancellation has not selected its partitions yet: a later retry succeeds."""


class NotApprovedError(RefusedError):
    """A plan is not the one that was approved."""


class NativeRefusedError(RefusedError):
    """The native engine is not safe on this cluster, or for this broker."""


class FencedError(ControllerError):
    """The claim or the session that allows writing is lost: stop at once."""

    verdict = Verdict.RESIGN


class ControllerMovedError(FencedError):
    """The controller epoch increased: there is another controller (ControllerMovedException)."""


class SessionLostError(FencedError):
    """The ZooKeeper session expired, and its ephemeral znodes were deleted."""


class CommitUnknownError(FencedError):
    """The connection broke during a write: a read has to show what is durable."""


class ProtocolError(ControllerError):
    """Data from a peer or a znode is invalid: set it aside and report it."""

    verdict = Verdict.QUARANTINE


class RemoteProtocolError(ProtocolError):
    """The peer sent invalid data."""


class InvariantError(ControllerError):
    """A bug of the program: end the process, so that a standby takes over."""


def ensure(condition: bool, why: str) -> None:  # noqa: FBT001 - reads as a sentence at the call
    """
    Raise InvariantError unless ``condition`` holds.

    Unlike ``assert``, ``python -O`` does not remove it.
    """
    if not condition:
        raise InvariantError(why)


def verdict_of(error: BaseException) -> Verdict:
    """Return what has to happen next; an unknown error is a bug, as in Kafka's controller."""
    return error.verdict if isinstance(error, ControllerError) else Verdict.CRASH


@contextmanager
def errors_about(subject: object) -> Iterator[None]:
    """Name a file or a text in the ``InvalidInputError`` about it, or about access to it."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"{subject}: {error.strerror or error}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{subject}: {error}") from error
