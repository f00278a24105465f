"""kazoo's errors in our own words."""

from __future__ import annotations

import pytest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from controller.errors import SessionLostError, SessionSuspendedError
from controller.zk.pending_calls import answer
from tests.zk.fakes import Answered


@pytest.mark.parametrize("error", [ConnectionLoss(), ConnectionClosedError(), KazooTimeoutError()])
def test_a_broken_connection_leaves_the_outcome_open(error: Exception) -> None:
    """The session may be alive; kazoo derives a closed connection from an expired session."""
    with pytest.raises(SessionSuspendedError):
        answer(Answered(error), 1.0)


@pytest.mark.parametrize("error", [SessionExpiredError(), AuthFailedError()])
def test_an_ended_session_is_lost(error: Exception) -> None:
    """Whatever hung on it is gone."""
    with pytest.raises(SessionLostError):
        answer(Answered(error), 1.0)


def test_what_zookeeper_says_of_the_operation_is_left_alone() -> None:
    """Only the caller knows what it means."""
    with pytest.raises(BadVersionError):
        answer(Answered(BadVersionError()), 1.0)


def test_an_answer_is_returned() -> None:
    """As it came."""
    assert answer(Answered((b"", 1)), 1.0) == (b"", 1)
