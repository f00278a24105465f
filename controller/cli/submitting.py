"""
Submission of plans: one run of a command, and the wait for the daemon.

What is submitted, and whether, is decided by ``actions.submission``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tenacity import RetryCallState, Retrying, retry_if_result, wait_random

from controller.actions.submission import CheckedSubmission, PlanSubmission, check
from controller.actions.work_control import check_tolerance
from controller.cli import plan_preview
from controller.cli.context import CommandContext
from controller.cli.failover import LeaderSearch
from controller.cli.output import Exit, print_note
from controller.cli.progress_display import display_of
from controller.cli.status_text import status_about
from controller.core.model import RequestId
from controller.core.requests.submissions import Window
from controller.errors import ControllerError
from controller.previews import holds
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.plan_changes import Conflict, conflicts_of, factor_lines, rollback_of
from controller.previews.plan_facts import present_dirs
from controller.previews.plan_files import Plan
from controller.units import MS_PER_S, show_duration
from controller.zk.request_writes import WrittenRequest

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

POLL: Final = wait_random(0.2, 0.3)
FOLLOW_S: Final = 0.5
LOOK_S: Final = 3.0
"""A daemon that takes nothing up for so long is asked whether it answers, as often as that."""
LEADERLESS_S: Final = 15.0
"""A standby takes over within a session timeout; after this time there is none."""


def write_submission(operator: OperatorClient, checked: CheckedSubmission) -> WrittenRequest:
    """Write a submission; after an error, print what may have been written."""
    try:
        return checked.write(operator)
    except (ControllerError, KeyboardInterrupt) as error:
        for note in getattr(error, "__notes__", ()):
            print_note(note)
        raise


def await_daemon(
    context: CommandContext, operator: OperatorClient, is_taken_up: Callable[[], bool]
) -> bool:
    """
    Return whether the daemon takes up a submission; ``LEADERLESS_S`` without a leader is no.

    While the leader does not answer, print what is happening: a standby may take over.
    """
    started = context.now()
    leaderless_since: float | None = None
    search, look_at = LeaderSearch(context=context, operator=operator), started + LOOK_S

    def is_in_vain(_: RetryCallState) -> bool:
        nonlocal leaderless_since, look_at
        now = context.now()
        if operator.cluster.leader_address() is not None:
            leaderless_since = None
            if now >= look_at:
                search.note_problem()
                look_at = context.now() + LOOK_S
        elif leaderless_since is None:
            leaderless_since = now
            print_note("No reassigner leads; waiting for one.")
        elif now - leaderless_since >= LEADERLESS_S:
            return True
        return now - started >= context.timeout

    return Retrying(
        retry=retry_if_result(lambda is_done: not is_done),
        stop=is_in_vain,
        wait=POLL,
        sleep=context.sleep,
        retry_error_callback=lambda _: False,
    )(is_taken_up)


def why_not_taken_up(operator: OperatorClient, timeout_s: float) -> str:
    """Return the likely reason why the daemon did not take up a submission."""
    if operator.cluster.leader_address() is None:
        return "no reassigner leads; the next leader takes it up"
    return f"not within {show_duration(timeout_s)}; see `reassigner status`"


def hold_lines(
    context: CommandContext,
    operator: OperatorClient,
    window: Window | None = None,
    *,
    names_clients: bool,
) -> Iterator[str]:
    """Describe what keeps a plan from beginning; ``names_clients``: and what clients wait for."""
    status = context.status_of_leader(operator) if names_clients else None
    return holds.hold_lines(operator, window, context.wall_ms() / MS_PER_S, status)


class PlanProgress(NamedTuple):
    """The progress of a plan."""

    headline: str
    ended: int
    """Entries that have ended."""
    is_over: bool


@dataclass(kw_only=True)
class PlanExecution(ABC):
    """One submission of a plan; a subclass knows what becomes of it."""

    context: CommandContext
    operator: OperatorClient
    wanted: PlanSubmission
    queries: ClusterQueries
    wait: bool = False
    out: Path | None = None
    """In a dry run: where the plan is written for approval."""
    answer: Callable[[OperatorClient | None], str] | None = None
    """The last line: what the cluster has now of what was wanted; in a dry run, what it gets."""
    request: RequestId = field(init=False)
    """The id of the request, once it is written."""
    names: tuple[str, ...] = field(init=False)
    """Its znodes, if it has its own."""
    rollback: dict[str, object] = field(init=False)
    conflicts: list[Conflict] = field(init=False)
    """What reassigned the partitions before."""

    @property
    def plan(self) -> Plan:
        """The target of each partition."""
        return self.wanted.plan.entries

    def run(self) -> Exit:
        """Preview or submit the plan, wait as the options say, and report."""
        operator, log_dirs = self.operator, self.wanted.plan.log_dirs
        if self.wanted.options.tolerate_lagging:
            check_tolerance(self.context.status_of_leader(operator))
        checked = check(operator, self.wanted)
        if self.context.dry_run:
            found, approval = checked.dry_run(operator, self.queries), None
            if self.out is not None:
                plan_preview.check_approvable(found)
                approval = plan_preview.write_for_approval(
                    operator, self.out, found.entries, log_dirs
                )
            told = None if self.answer is None else self.answer(None)
            return plan_preview.show_dry_run(self.context, found, approval=approval, answer=told)
        before = checked.entries
        conflicts = self.conflicts = conflicts_of(before, self.wanted.way.route)
        for line in (*factor_lines(before), *self._notes(conflicts)):
            print_note(f"Note: {line}")
        present = present_dirs(operator, before, self.queries, log_dirs)
        self.rollback = rollback_of(before, present)
        plan_preview.print_rollback(self.rollback, as_json=self.context.as_json)
        written = write_submission(operator, checked)
        self.request, self.names = written.request, written.names
        try:
            self._wait()
        except KeyboardInterrupt:
            return self._report_interrupt()
        return self._report()

    def _follow(self) -> None:
        with display_of(self.context) as show:
            while True:
                now = self._look()
                status = status_about(self.context.status_of_leader(self.operator), self.request)
                show(now.headline, now.ended, len(self.plan), status)
                if now.is_over:
                    return
                self.context.sleep(FOLLOW_S)

    def _superseded_lines(self) -> Iterable[str]:
        """Describe what the plan supersedes; what is refused is reported with the reason."""
        return (f"It {c.superseded_text()}" for c in self.conflicts if not c.is_refused)

    # --- what depends on the route -------------------------------------------------------------

    def _notes(self, conflicts: Sequence[Conflict]) -> Iterable[str]:
        """Return notes that are printed before the plan is written."""
        del conflicts
        return ()

    @abstractmethod
    def _wait(self) -> None:
        """Wait for acceptance and, as the options say, for the end."""

    @abstractmethod
    def _look(self) -> PlanProgress:
        """Read the progress."""

    @abstractmethod
    def _report_interrupt(self) -> Exit:
        """Report after Ctrl-C, which stops no reassignment."""

    @abstractmethod
    def _report(self) -> Exit:
        """Print the result; return the exit code."""
