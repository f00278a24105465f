"""
The forms of the status page write the same znodes as the command line.

``tests.actions.test_surfaces`` compares both.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from controller.core.model import RequestId, Zxid
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.web.access import author
from controller.web.steering import MEANINGS, PageAction, Steering
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator

NAME = RequestId("request_0000000001")
BY_ALICE = Pause(by=author("alice"), since_ms=77)


class Page:
    """A status page's steering of a cluster with one open request, at a fixed time."""

    def __init__(self) -> None:
        """Begin without a pause."""
        history = RequestHistory(request=NAME, czxid=Zxid(1))
        self.cluster = FakeCluster(histories={NAME: history})
        self._steering = Steering(lambda: nullcontext(FakeOperator(self.cluster)), lambda: 77)

    def act(self, action: PageAction, request: str = "") -> Pauses:
        """Carry out an action; return the pauses after it."""
        self._steering.carry_out(action, request, "alice")
        return self.cluster.controls.pauses

    def end(self) -> None:
        """Let the request end."""
        summary = Summary(request=NAME, kind="request", total=1, done=1)
        history = RequestHistory(request=NAME, czxid=Zxid(1), summary=summary)
        self.cluster.histories[NAME] = history


def test_pause_names_its_author() -> None:
    """With the time; one that stands is not overwritten."""
    page = Page()
    assert page.act(PageAction.PAUSE, NAME).requests == {NAME: BY_ALICE}
    assert page.act(PageAction.PAUSE).everything == BY_ALICE
    page.cluster.controls = Controls(Pauses(requests={NAME: Pause("mine")}))
    assert page.act(PageAction.PAUSE, NAME).requests == {NAME: Pause("mine")}


def test_pause_of_an_ended_request_is_refused_and_removed() -> None:
    """It would stay for nothing."""
    page = Page()
    page.end()
    with pytest.raises(InvalidInputError, match=f"{NAME} has ended"):
        page.act(PageAction.PAUSE, NAME)
    page.cluster.controls = Controls(Pauses(requests={NAME: Pause("mine")}))
    assert page.act(PageAction.RESUME, NAME) == Pauses()
    with pytest.raises(InvalidInputError, match=f"{NAME} has ended"):
        page.act(PageAction.RESUME, NAME)


def test_nothing_is_written_where_there_is_nothing_to_cancel() -> None:
    """The operator reads why."""
    page = Page()
    for request in (NAME, ""):
        with pytest.raises(ReassignmentConflictError, match="There is nothing to cancel"):
            page.act(PageAction.CANCEL, request)
    assert page.cluster.cancellation is None


def test_every_action_says_what_it_does() -> None:
    """The form that asks again shows it."""
    assert MEANINGS.keys() == set(PageAction)
