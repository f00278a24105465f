"""The daemon that kills or stops itself at a failpoint."""

from __future__ import annotations

import signal

import pytest

from integration.rigs.failpoint_daemon import FailpointAction, FailpointHook, action_of
from integration.rigs.failpoints import Failpoint


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("die:A1-written", FailpointAction("die", Failpoint.A1_WRITTEN)),
        ("freeze:B3-written:4", FailpointAction("freeze", Failpoint.B3_WRITTEN, 4)),
    ],
)
def test_the_argument_names_action_failpoint_and_occurrence(
    text: str, action: FailpointAction
) -> None:
    """The first occurrence counts where none is given."""
    assert action_of(text) == action


def test_an_unknown_failpoint_is_refused_with_the_list() -> None:
    """A misspelt one would never be reached, and prove nothing."""
    with pytest.raises(ValueError, match="no failpoint 'A1-writen'") as refused:
        action_of("die:A1-writen")
    assert all(failpoint.value in str(refused.value) for failpoint in Failpoint)


@pytest.mark.parametrize(
    "text", ["explode:A1-written", "die", "die:A1-written:0", "die:A1-written:x", "A1-written", ""]
)
def test_anything_else_is_refused(text: str) -> None:
    """Each part is checked."""
    with pytest.raises(ValueError, match="failpoint"):
        action_of(text)


def test_the_hook_strikes_once_at_the_nth_occurrence() -> None:
    """It announces itself before it strikes; a process that was frozen can be continued."""
    happened: list[object] = []
    hook = FailpointHook(
        FailpointAction("freeze", Failpoint.SYNCED, 2), happened.append, happened.append
    )
    for reached in ({Failpoint.SYNCED}, {Failpoint.DROPPED}, set(), {Failpoint.SYNCED}, {"synced"}):
        hook.reached([Failpoint(b) for b in reached])
    assert happened == [FailpointAction("freeze", Failpoint.SYNCED, 2), signal.SIGSTOP]
