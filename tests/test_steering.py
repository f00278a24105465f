"""What the status page asks for is written as the command line writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from controller.core.controls import Pause, Pauses
from controller.core.model import RequestId, ZkVersion, Zxid
from controller.core.submissions import Cancellation, Submission
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.steering import BY, PageSteering

NAME = RequestId("request_0000000001")
WAITING = RequestId("request_0000000002")


class FakeOperator:
    """Znodes in memory."""

    def __init__(self) -> None:
        """Begin with one accepted request and one that waits to be."""
        self.pauses = Pauses()
        self.cancellation: Cancellation | None = None
        self.connections = 0

    @contextmanager
    def connect(self, settings: Settings) -> Iterator[FakeOperator]:
        """Connect."""
        assert settings.zookeeper == "zk:2181"
        self.connections += 1
        yield self

    def request_ids(self) -> dict[RequestId, bool]:
        """Return the accepted ones."""
        return {NAME: False}

    def submission_names(self) -> list[str]:
        """Return the others."""
        return [WAITING]

    def read_submissions(self, names: Iterable[str]) -> dict[str, Submission | None]:
        """Return them; one is gone meanwhile."""
        read: dict[str, Submission | None] = {
            n: Submission(n, {}, ZkVersion(0), Zxid(1), 0) for n in names
        }
        return {**read, "request_0000000003": None}

    def cancelled(self) -> tuple[frozenset[RequestId], str]:
        """Return what is cancelled, and by whom."""
        assert self.cancellation is not None
        return self.cancellation.requests, self.cancellation.requested_by

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """Change them."""
        self.pauses = change(self.pauses)
        return self.pauses

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """Change what is there."""
        self.cancellation = join(self.cancellation)
        return self.cancellation


def steering(operator: FakeOperator) -> PageSteering:
    """Return a page's steering of this operator, at a fixed time."""
    settings = load_settings({"zookeeper": "zk:2181"}, environ={})
    return PageSteering(settings, connect=operator.connect, now_ms=lambda: 77)


def test_request_is_paused_and_resumed() -> None:
    """With who and when; a pause that stands is not overwritten; others stay."""
    operator = FakeOperator()
    operator.pauses = Pauses(requests={RequestId("other"): Pause("lunch")})
    page = steering(operator)
    page.pause(NAME)
    page.pause(WAITING)
    assert operator.pauses.requests[NAME] == Pause(by=BY, since_ms=77)
    operator.pauses = Pauses(requests={**operator.pauses.requests, NAME: Pause("mine")})
    page.pause(NAME)
    assert operator.pauses.requests[NAME] == Pause("mine")
    page.resume(NAME)
    assert operator.pauses.requests.keys() == {"other", WAITING}
    assert operator.connections == 4


def test_everything_is_paused_and_resumed() -> None:
    """Pauses of single requests stay as they are."""
    operator = FakeOperator()
    page = steering(operator)
    page.pause(None)
    page.pause(NAME)
    assert operator.pauses.everything == Pause(by=BY, since_ms=77)
    page.resume(None)
    assert operator.pauses == Pauses(requests={NAME: Pause(by=BY, since_ms=77)})


def test_request_is_cancelled_or_everything() -> None:
    """One cancellation at a time."""
    operator = FakeOperator()
    steering(operator).cancel(NAME)
    assert operator.cancelled() == (frozenset({NAME}), BY)
    with pytest.raises(ReassignmentConflictError, match="is being carried out"):
        steering(operator).cancel(None)
    operator.cancellation = None
    steering(operator).cancel(None)
    assert operator.cancelled() == (frozenset(), BY)


def test_unknown_request_is_refused() -> None:
    """A pause of something that is not there would only wait to surprise somebody."""
    operator = FakeOperator()
    for turn in (steering(operator).pause, steering(operator).cancel):
        with pytest.raises(InvalidInputError, match="nothing is known of request nonsense"):
            turn(RequestId("nonsense"))
    assert operator.pauses == Pauses()
    assert operator.cancellation is None
