"""
Errors by what has to happen next.

Each family answers one question: retry, refuse, resign, quarantine or crash. Errors of kazoo, the
operating system and the Kafka client are translated into these where they enter, chained with
``from``.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What the one broad handler of the program does with an error."""

    RETRY = "retry"
    REFUSE = "refuse"
    RESIGN = "resign"
    QUARANTINE = "quarantine"
    CRASH = "crash"


class ControllerError(Exception):
    """Base of all errors raised here; only its families are instantiated."""

    verdict = Verdict.CRASH

    def __init__(self, message: str) -> None:
        if type(self) is ControllerError:
            raise TypeError("raise one of the families, not ControllerError itself")
        super().__init__(message)


class TransientError(ControllerError):
    """It may work later: retry with a deadline and jitter."""

    verdict = Verdict.RETRY


class SessionSuspendedError(TransientError):
    """The connection to ZooKeeper broke; the session may still be alive."""


class BrokerUnreachableError(TransientError):
    """No connection to a broker."""


class RequestTimeoutError(TransientError):
    """No answer in time."""


class RefusedError(ControllerError):
    """The caller asked for something that will not be done; asking again changes nothing."""

    verdict = Verdict.REFUSE


class InvalidInputError(RefusedError):
    """A plan, option or setting is malformed."""


class ReassignmentConflictError(RefusedError):
    """Somebody else's reassignment stands in the way."""


class NativeRefusedError(RefusedError):
    """Being the controller of this cluster would not be safe."""


class FencedError(ControllerError):
    """We no longer hold what entitles us to write: stop at once."""

    verdict = Verdict.RESIGN


class ControllerMovedError(FencedError):
    """The controller epoch moved on: another one is in charge (Kafka: ControllerMovedException)."""


class SessionLostError(FencedError):
    """The ZooKeeper session expired and took our ephemeral znodes with it."""


class CommitUnknownError(FencedError):
    """The connection broke during a write: what became durable has to be read anew."""


class ProtocolError(ControllerError):
    """A peer or a znode says something that cannot be understood: set it aside and tell."""

    verdict = Verdict.QUARANTINE


class RemoteProtocolError(ProtocolError):
    """The other side sent it."""


class InvariantError(ControllerError):
    """Our own bug: fail over rather than go on."""

    verdict = Verdict.CRASH


def ensure(condition: bool, why: str) -> None:  # noqa: FBT001 - reads as a sentence at the call
    """
    Raise InvariantError unless ``condition`` holds.

    Unlike ``assert`` it is still there under ``python -O``.
    """
    if not condition:
        raise InvariantError(why)


def verdict_of(error: BaseException) -> Verdict:
    """Return what has to happen next; what we do not know is our bug (Kafka: unknown = fault)."""
    return error.verdict if isinstance(error, ControllerError) else Verdict.CRASH
