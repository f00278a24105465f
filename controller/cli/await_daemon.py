"""Waiting for the daemon to take something up: as long as asked for, and while anybody leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from controller.cli.context import CommandContext
from controller.cli.ports import OperatorPort
from controller.cli.report_text import tell
from controller.core.submissions import RequestOptions

POLL_S: Final = 0.25
FOLLOW_S: Final = 0.5
LEADERLESS_S: Final = 15.0
"""A standby takes over within a session timeout; without a leader for longer there is none."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the person asked for besides what is to be done."""

    additional: bool = False
    wait: bool = False
    dry_run: bool = False
    as_json: bool = False
    timeout_s: float = 60.0
    options: RequestOptions = field(default_factory=RequestOptions)
    """How a request is to be carried out."""


def await_daemon(
    around: CommandContext,
    operator: OperatorPort,
    is_taken_up: Callable[[], bool],
    *,
    timeout_s: float,
) -> bool:
    """Wait until something is taken up; False where it is not in time, or where nobody leads."""
    started = around.now()
    leaderless_since: float | None = None
    while not is_taken_up():
        now = around.now()
        if operator.leader_address() is not None:
            leaderless_since = None
        elif leaderless_since is None:
            leaderless_since = now
            tell("No reassigner leads just now; waiting for one.")
        elif now - leaderless_since >= LEADERLESS_S:
            return False
        if now - started >= timeout_s:
            return False
        around.sleep(POLL_S)
    return True
