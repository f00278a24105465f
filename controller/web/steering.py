"""
What the status page changes: actions, and plans; decided, previewed and written as by the commands.

Uses the functions of the commands, so that a page and a terminal cannot disagree. Each call opens a
connection of its own to ZooKeeper, and a plan asks brokers as ``generate`` and ``execute`` do. What
is refused raises ``InvalidInputError`` or ``ReassignmentConflictError``, as for a command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, assert_never

from controller.actions import work_control
from controller.actions.submission import PlanSubmission, check
from controller.core.model import BrokerId, RequestId
from controller.core.pacing.controls import Pause, UnderMinIsr
from controller.core.requests.submissions import Cancellation
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews import forecast_table, proposal
from controller.previews.cluster_queries import (
    ClusterQueries,
    QueryBrokers,
    QueryMinInsync,
    query_brokers,
    query_min_insync,
)
from controller.previews.drafts import propose_apart
from controller.previews.plan_files import PlanFile, plan_of
from controller.settings import Settings
from controller.web.access import author
from controller.zk.operator_client import OperatorClient

LINES_MAX: Final = 100
"""Changes, refusals and rows of a table on a page; the counts are of all."""
CONNECT_S: Final = 5.0
"""The longest wait of one action of a page for ZooKeeper."""
_SELECTION_S: Final = 2.0
"""The seconds that a browser waits until an earlier cancellation has selected its partitions."""

Connect = Callable[[], AbstractContextManager[OperatorClient]]


class PageAction(StrEnum):
    """An action of the page: of a request, of everything, or of a setting."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    WARN = "warn"
    WAIT = "wait"

    @property
    def is_brake(self) -> bool:
        """Whether it is a value of ``under_min_isr``, of no single request."""
        return self in (PageAction.WARN, PageAction.WAIT)


PAGE_ACTIONS: Final = {action.value: action for action in PageAction}
MEANINGS: Final[Mapping[PageAction, str]] = {
    PageAction.PAUSE: "No new step begins. Steps in flight continue to their end.",
    PageAction.RESUME: "Steps begin again. Other pauses stay.",
    PageAction.CANCEL: "Partitions in flight go back to their original replicas, or to the nearest "
    "assignment that is safe. Partitions that are done stay where they are.",
    PageAction.WARN: "Steps begin although other partitions are below min.insync.replicas; these "
    "are only reported. It holds until it is changed, also for the next leader.",
    PageAction.WAIT: "No step begins whose copies could harm partitions below min.insync.replicas.",
}
"""What each action does, as the form says it."""


class Steering:
    """Carries out the actions of the page; safe from any thread."""

    def __init__(
        self, connect: Connect, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._connect = connect
        self._now_ms = now_ms

    def carry_out(self, action: PageAction, request: str, by: str) -> None:
        """Carry out an action of the token ``by``; an empty ``request`` means everything."""
        named = work_control.request_ids([request] if request else [])
        with self._connect() as operator:
            match action:
                case PageAction.PAUSE:
                    work_control.pause(
                        operator, Pause(by=author(by), since_ms=self._now_ms()), named
                    )
                case PageAction.RESUME:
                    work_control.resume(operator, named)
                case PageAction.CANCEL:
                    wanted = Cancellation(requests=frozenset(named), requested_by=author(by))
                    done = work_control.submit_cancellation(operator, wanted, wait_s=_SELECTION_S)
                    if isinstance(done, str):
                        raise ReassignmentConflictError(done)
                case PageAction.WARN | PageAction.WAIT:
                    values = {"under-min-isr": UnderMinIsr(action.value)}
                    work_control.change_limits(operator, work_control.LimitChanges(values=values))
                case unknown:
                    assert_never(unknown)


# --- plans ---------------------------------------------------------------------------------------


class PreviewTable(NamedTuple):
    """One table of a forecast."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """What a plan would do; long lists are cut, counts are not."""

    entries: int
    refused: int
    """Entries that would be refused."""
    summary: Sequence[str] = ()
    problems: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    changes: Sequence[str] = ()
    tables: Sequence[PreviewTable] = ()
    waits: Sequence[str] = ()
    notes: Sequence[str] = ()


class PagePlans:
    """Drafts, previews and submits plans; ``status`` is that of this daemon if it leads."""

    def __init__(  # noqa: PLR0913 - what it asks, replaced by tests
        self,
        settings: Settings,
        connect: Connect,
        status: Callable[[], Mapping[str, Any] | None],
        *,
        query_brokers: QueryBrokers = query_brokers,
        query_min_insync: QueryMinInsync = query_min_insync,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect = connect
        self._queries = ClusterQueries(
            settings=settings,
            status=lambda _: status(),
            query_brokers=query_brokers,
            query_min_insync=query_min_insync,
            sleep=sleep,
        )

    def drain(self, broker: BrokerId) -> PlanFile:
        """Propose a plan that moves all replicas off a broker and copies as few as possible."""
        goal = proposal.Goal(all_topics=True, removed=frozenset({broker}))
        with self._connect() as operator:
            basis = proposal.read_basis(operator, goal)
            disks = self._queries.log_dirs(operator.cluster.brokers().values())
        sizes = proposal.sizes_of(disks)
        found = propose_apart(basis.before, basis.goal, sizes)
        notes = (*proposal.silence_lines(disks), *proposal.summary_lines(found, basis, sizes))
        changed = found.changed
        if not changed:
            raise InvalidInputError("\n".join((proposal.NOTHING, *notes)))
        return PlanFile(entries=changed, notes=notes)

    def parse(self, text: str) -> PlanFile:
        """Read a plan as ``execute`` reads a file."""
        return plan_of(text.encode(), "the plan")

    def preview(self, wanted: PlanSubmission) -> PlanPreview:
        """Return what ``execute --dry-run`` shows of a plan."""
        plan = wanted.plan
        with self._connect() as operator:
            found = check(operator, wanted).dry_run(operator, self._queries)
        forecast, changes = found.preview.forecast, found.changes
        problems = found.validation.problems[:LINES_MAX]
        shown = PlanPreview(
            entries=len(plan.entries),
            refused=len(found.refused),
            problems=(
                *(f"{e.partition} would be refused: {why}" for e, why in problems),
                *found.validation.unknown_lines(),
            ),
            conflicts=tuple(map(str, found.conflicts)),
            changes=tuple(changes[:LINES_MAX]),
            notes=plan.notes,
        )
        if not forecast.changes:
            return shown
        return replace(
            shown,
            summary=tuple(forecast_table.summary_lines(forecast)),
            tables=tuple(
                PreviewTable(title, heads, tuple(rows)[:LINES_MAX])
                for title, heads, rows in (
                    ("Brokers", forecast_table.BROKER_HEADS, forecast_table.broker_rows(forecast)),
                    (
                        "Log directories",
                        forecast_table.DIRECTORY_HEADS,
                        forecast_table.directory_rows(forecast),
                    ),
                )
            ),
            waits=tuple(forecast_table.wait_line(w, forecast.changes) for w in forecast.waits),
            notes=(*plan.notes, *found.preview.notes),
        )

    def submit(self, wanted: PlanSubmission) -> RequestId:
        """Submit a plan as a request; an error after a write has a note."""
        with self._connect() as operator:
            return check(operator, wanted).write(operator).request
