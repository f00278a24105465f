"""The debug hook that kills or stops the daemon at a named boundary."""

from __future__ import annotations

import signal

import pytest

from controller.debug_failpoints import VARIABLE, FailpointAction, FailpointHook, action_of
from controller.errors import InvalidInputError
from controller.reactor.failpoints import Failpoint


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}])
def test_without_the_variable_nothing_lies_in_wait(environ: dict[str, str]) -> None:
    """Off is the default."""
    assert action_of(environ) is None


@pytest.mark.parametrize(
    ("text", "ambush"),
    [
        ("die:A1-written", FailpointAction("die", Failpoint.A1_WRITTEN)),
        ("freeze:B3-written:4", FailpointAction("freeze", Failpoint.B3_WRITTEN, 4)),
    ],
)
def test_the_variable_names_action_boundary_and_time(text: str, ambush: FailpointAction) -> None:
    """The first time is meant where none is given."""
    assert action_of({VARIABLE: text}) == ambush


def test_an_unknown_boundary_is_refused_with_the_list() -> None:
    """A misspelt one would never be reached, and prove nothing."""
    with pytest.raises(InvalidInputError) as refused:
        action_of({VARIABLE: "die:A1-writen"})
    assert all(failpoint.value in str(refused.value) for failpoint in Failpoint)


@pytest.mark.parametrize(
    "text", ["explode:A1-written", "die", "die:A1-written:0", "die:A1-written:x", "A1-written"]
)
def test_anything_else_is_refused(text: str) -> None:
    """Each part is checked."""
    with pytest.raises(InvalidInputError, match=VARIABLE):
        action_of({VARIABLE: text})


def test_the_trap_springs_once_at_the_nth_time() -> None:
    """It announces itself before it strikes; whoever was frozen goes on afterwards."""
    happened: list[object] = []
    trap = FailpointHook(
        FailpointAction("freeze", Failpoint.SYNCED, 2), happened.append, happened.append
    )
    for reached in ({Failpoint.SYNCED}, {Failpoint.DROPPED}, set(), {Failpoint.SYNCED}, {"synced"}):
        trap.reached([Failpoint(b) for b in reached])
    assert happened == [FailpointAction("freeze", Failpoint.SYNCED, 2), signal.SIGSTOP]
