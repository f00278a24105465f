"""
What the status page changes: actions, and plans; decided, previewed and written as by the commands.

Uses the functions of the commands, so that a page and a terminal cannot disagree. Each call opens a
connection of its own to ZooKeeper, and a plan asks brokers as ``generate`` and ``execute`` do. What
is refused raises ``InvalidInputError`` or ``ReassignmentConflictError``, as for a command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, assert_never

from controller.actions import draining, work_control
from controller.actions.draining import NewDrains
from controller.actions.submission import PlanSubmission, check
from controller.core.model import BrokerId, RequestId, count_text
from controller.core.pacing.controls import Pause, UnderMinIsr
from controller.core.requests.submissions import Cancellation, CancelScope
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
from controller.previews.drain_preview import preview_drains
from controller.previews.plan_facts import DryRun
from controller.previews.plan_files import PlanFile, plan_of
from controller.settings import Settings
from controller.units import MS_PER_S
from controller.web.access import author
from controller.web.http_messages import is_number
from controller.web.limits_form import ChangedLimits, values_of
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
    UNDO = "undo"
    STOP_DRAIN = "stop_drain"
    WARN = "warn"
    WAIT = "wait"

    @property
    def words(self) -> str:
        """The action in words, before its subject."""
        return "stop the drain of broker" if self is PageAction.STOP_DRAIN else self.value

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
    PageAction.UNDO: "Partitions get the replicas that they had before the request. One that "
    "another request or client has moved since is left alone.",
    PageAction.STOP_DRAIN: "New replicas may be placed on the broker again. What has not begun "
    "does not begin; what has begun continues.",
    PageAction.WARN: "Steps begin although other partitions are below min.insync.replicas; these "
    "are only reported. It holds until it is changed, also for the next leader.",
    PageAction.WAIT: "No step begins whose copies could harm partitions below min.insync.replicas.",
}
"""What each action does, as the form says it."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Steering:
    """Carries out the actions of the page; safe from any thread."""

    def __init__(
        self,
        connect: Connect,
        now_ms: Callable[[], int] = _now_ms,
        status: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._now_ms = now_ms
        self._status = status

    def limits(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Return the limits that operators set, and those in force as far as this daemon knows."""
        with self._connect() as operator:
            found = values_of(operator.requests.controls())
        return found, (self._status() or {}).get("limits", {})

    def change_limits(self, changed: ChangedLimits) -> None:
        """Change limits and the throttle, as ``limits`` and ``throttle`` do."""
        with self._connect() as operator:
            if changed.limits:
                work_control.change_limits(operator, changed.limits)
            if changed.is_throttle_changed:
                operator.writes.set_throttle(changed.throttle)

    def carry_out(self, action: PageAction, request: str, by: str) -> None:
        """
        Carry out an action of the token ``by``; an empty ``request`` means everything.

        That of a drain has the id of the broker in the place of a request.
        """
        if action is PageAction.STOP_DRAIN:
            with self._connect() as operator:
                draining.stop(operator, [_broker_of(request)])
            return
        named = work_control.request_ids([request] if request else [])
        with self._connect() as operator:
            match action:
                case PageAction.PAUSE:
                    work_control.pause(
                        operator, Pause(by=author(by), since_ms=self._now_ms()), named
                    )
                case PageAction.RESUME:
                    work_control.resume(operator, named)
                case PageAction.CANCEL | PageAction.UNDO:
                    is_undo = action is PageAction.UNDO
                    wanted = Cancellation(
                        requests=frozenset(named),
                        scope=CancelScope.ALL if is_undo else CancelScope.IN_FLIGHT,
                        requested_by=author(by),
                    )
                    done = work_control.submit_cancellation(operator, wanted, wait_s=_SELECTION_S)
                    if isinstance(done, str):
                        raise ReassignmentConflictError(done)
                case PageAction.WARN | PageAction.WAIT:
                    values = {"under-min-isr": UnderMinIsr(action.value)}
                    work_control.change_limits(operator, work_control.LimitChanges(values=values))
                case unknown:
                    assert_never(unknown)


def _broker_of(text: str) -> BrokerId:
    if not is_number(text):
        raise InvalidInputError(f"{text!r} is not the id of a broker")
    return BrokerId(int(text))


# --- plans ---------------------------------------------------------------------------------------

Wanted = PlanSubmission | NewDrains
"""What the form for plans asks for."""


class BrokerChoice(NamedTuple):
    """A broker that a form offers."""

    id: BrokerId
    about: str


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
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._connect = connect
        self._now_ms = now_ms
        self._status = status
        self._queries = ClusterQueries(
            settings=settings,
            status=lambda _: status(),
            query_brokers=query_brokers,
            query_min_insync=query_min_insync,
            sleep=sleep,
        )

    def parse(self, text: str) -> PlanFile:
        """Read a plan as ``execute`` reads a file."""
        return plan_of(text.encode(), "the plan")

    def brokers(self) -> Sequence[BrokerChoice]:
        """Return the brokers that forms offer, dead ones included."""
        status = self._status() or {}
        dead = status.get("dead_brokers", ())
        drained = {drain["broker"] for drain in status.get("drains", ())}
        return [
            BrokerChoice(b, ", ".join(filter(None, _about(load, b in dead, b in drained))))
            for load in status.get("broker_loads", ())
            for b in (load["broker"],)
        ]

    def propose(self, goal: proposal.Goal) -> PlanFile:
        """Return the plan that ``add`` or ``rebalance`` would submit for a goal."""
        with self._connect() as operator:
            basis = proposal.read_basis(operator, goal)
            disks = self._queries.log_dirs(operator.cluster.brokers().values())
        sizes = proposal.sizes_of(disks)
        found = propose_apart(basis.before, basis.goal, sizes)
        notes = (*proposal.silence_lines(disks), *proposal.summary_lines(found, basis, sizes))
        if not found.changed:
            raise InvalidInputError("\n".join((proposal.NOTHING, *notes)))
        return PlanFile(entries=found.changed, notes=notes)

    def preview(self, wanted: Wanted) -> PlanPreview:
        """Return what ``--dry-run`` shows of a plan, or of a drain."""
        with self._connect() as operator:
            if isinstance(wanted, PlanSubmission):
                found = check(operator, wanted).dry_run(operator, self._queries)
                return _shown(found, wanted.plan.notes)
            drains = draining.drain(operator, wanted, dry_run=True)
            shown = preview_drains(operator, self._queries, drains, self._now_ms() / MS_PER_S)
            return _shown(shown.found, shown.left)

    def submit(self, wanted: Wanted, by: str) -> RequestId:
        """Submit a plan as a request, or drain brokers; an error after a write has a note."""
        with self._connect() as operator:
            if isinstance(wanted, PlanSubmission):
                options = replace(wanted.options, requested_by=by)
                return check(operator, replace(wanted, options=options)).write(operator).request
            about = replace(wanted.about, by=by, since_ms=self._now_ms())
            return draining.drain(operator, replace(wanted, about=about)).request


def _about(load: Mapping[str, Any], is_dead: bool, is_drained: bool) -> Iterator[str]:  # noqa: FBT001 - both are words
    yield "dead" if is_dead else ""
    yield "drained" if is_drained else ""
    yield f"rack {load['rack']}" if load.get("rack") else ""
    yield "" if load.get("replicas") is None else count_text(load["replicas"], "replica")


def _shown(found: DryRun, notes: Sequence[str]) -> PlanPreview:
    """Return what a page shows of a dry run."""
    forecast, changes = found.preview.forecast, found.changes
    problems = found.validation.problems[:LINES_MAX]
    shown = PlanPreview(
        entries=len(found.entries),
        refused=len(found.refused),
        problems=(
            *(f"{e.partition} would be refused: {why}" for e, why in problems),
            *found.validation.unknown_lines(),
        ),
        conflicts=tuple(map(str, found.conflicts)),
        changes=tuple(changes[:LINES_MAX]),
        notes=tuple(notes),
    )
    if not forecast.changes:
        return shown
    brokers, directories = forecast_table.BROKER_HEADS, forecast_table.DIRECTORY_HEADS
    return replace(
        shown,
        summary=tuple(forecast_table.summary_lines(forecast)),
        tables=tuple(
            PreviewTable(title, heads, tuple(rows)[:LINES_MAX])
            for title, heads, rows in (
                ("Brokers", brokers, forecast_table.broker_rows(forecast)),
                ("Log directories", directories, forecast_table.directory_rows(forecast)),
            )
        ),
        waits=tuple(forecast_table.wait_line(w, forecast.changes) for w in forecast.waits),
        notes=(*notes, *found.preview.notes),
    )
