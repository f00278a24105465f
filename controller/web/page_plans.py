"""
Tasks of the status page with a preview: plans, drains, undo, leaderships, and the quiesce.

Each is decided, previewed and written by the functions of its command, so that a page and a
terminal cannot disagree. Each call opens a connection of its own to ZooKeeper, and asks brokers as
the command does. What is refused raises ``InvalidInputError`` or ``ReassignmentConflictError``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, assert_never

from controller.actions import draining, work_control
from controller.actions.draining import NewDrains
from controller.actions.evacuating import LeadershipTask, LeadershipTaskKind
from controller.actions.submission import PlanSubmission, check
from controller.core.model import BrokerId, RequestId, count_text
from controller.core.pacing.controls import AT_ONCE, Drains, Quiesce
from controller.core.requests.submissions import Cancellation, RequestOptions, Window
from controller.errors import ControllerError, InvalidInputError, ReassignmentConflictError
from controller.previews import forecast_table, proposal
from controller.previews.cancel_preview import cancel_preview
from controller.previews.cluster_queries import (
    ClusterQueries,
    QueryBrokers,
    QueryMinInsync,
    query_brokers,
    query_min_insync,
)
from controller.previews.drafts import propose_apart
from controller.previews.drain_preview import preview_drains
from controller.previews.evacuation_preview import forecast_leaders, left_lines
from controller.previews.holds import by_reason, hold_lines, quiesce_line
from controller.previews.plan_facts import DryRun, undo_dry_run
from controller.previews.plan_files import PlanFile, plan_of
from controller.settings import Settings
from controller.units import MS_PER_S, ids, low_rate_text, names_text, show_throttle
from controller.web.steering import Connect, cancel, now_ms
from controller.zk.operator_client import OperatorClient

LINES_MAX: Final = 100
"""Changes, refusals and rows of a table on a page; the counts are of all."""
TOPICS_MAX: Final = 1_000
"""The most topics that a form lists; of more, their names are typed."""
RETURN_LOOKS: Final = 3
RETURN_LOOK_S: Final = 1.0
"""A form that returns leaderships waits so often, and so long each time, for them to be back."""


@dataclass(frozen=True, slots=True)
class NewQuiesce:
    """A quiesce; its deadline counts from the submission."""

    reason: str = ""
    deadline_s: float | None = None
    """None: what has begun ends in its own time, unless it is rolled back ``at_once``."""
    at_once: bool = False

    def begun(self, by: str, at_ms: int) -> Quiesce:
        """Return the quiesce that begins now."""
        due = None if self.deadline_s is None else at_ms + int(self.deadline_s * MS_PER_S)
        return Quiesce(self.reason, by, at_ms, AT_ONCE if self.at_once else due)


Wanted = PlanSubmission | NewDrains | Cancellation | LeadershipTask | NewQuiesce
"""What a form asks for."""


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
    heading: str = "Changes"
    """That of the changes."""
    tables: Sequence[PreviewTable] = ()
    waits: Sequence[str] = ()
    notes: Sequence[str] = ()


class PagePlans:
    """Previews and submits what forms ask for; ``status`` is that of this daemon if it leads."""

    def __init__(  # noqa: PLR0913 - what it asks, replaced by tests
        self,
        settings: Settings,
        connect: Connect,
        status: Callable[[], Mapping[str, Any] | None],
        *,
        query_brokers: QueryBrokers = query_brokers,
        query_min_insync: QueryMinInsync = query_min_insync,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._settings = settings
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
        marks = {
            "dead": status.get("dead_brokers", ()),
            "drained": [drain["broker"] for drain in status.get("drains", ())],
            "evacuated": [found["broker"] for found in status.get("evacuations", ())],
        }
        return [
            BrokerChoice(load["broker"], ", ".join(_about(load, marks)))
            for load in status.get("broker_loads", ())
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

    def topics(self) -> Sequence[str]:
        """Return the topics that forms offer; none if there are too many to choose from."""
        try:
            with self._connect() as operator:
                found = sorted(operator.partitions.topic_names())
        except ControllerError:
            return ()  # The form takes a name then.
        return found if len(found) <= TOPICS_MAX else ()

    def preview(self, wanted: Wanted) -> PlanPreview:
        """Return what ``--dry-run`` of the command shows."""
        with self._connect() as operator:
            match wanted:
                case PlanSubmission():
                    found = check(operator, wanted).dry_run(operator, self._queries)
                    return _shown(found, wanted.plan.notes)
                case NewDrains():
                    drains = draining.drain(operator, wanted, dry_run=True)
                    unix_s = self._now_ms() / MS_PER_S
                    shown = preview_drains(operator, self._queries, drains, unix_s)
                    return _shown(shown.found, shown.left)
                case Cancellation():
                    return self._undo(operator, wanted)
                case LeadershipTask():
                    return self._leaderships(operator, wanted)
                case NewQuiesce():
                    return self._quiesce(operator, wanted)
                case unknown:
                    assert_never(unknown)

    def submit(self, wanted: Wanted, by: str) -> tuple[RequestId | None, bool]:
        """
        Write what a form asks for; return the id of the request, and whether the status has it.

        The id is None where there is no request. The status is awaited for a moment. An error after
        which something may have been written has a note.
        """
        with self._connect() as operator:
            request = self._submit(operator, wanted, by)
            return request, work_control.await_shown(
                operator,
                self._status,
                None if isinstance(wanted, NewQuiesce) else request,
                sleep=self._queries.sleep,
            )

    def _submit(self, operator: OperatorClient, wanted: Wanted, by: str) -> RequestId | None:
        match wanted:
            case PlanSubmission():
                options = replace(wanted.options, requested_by=by)
                return check(operator, replace(wanted, options=options)).write(operator).request
            case NewDrains():
                about = replace(wanted.about, by=by, since_ms=self._now_ms())
                return draining.drain(operator, replace(wanted, about=about)).request
            case Cancellation():
                return cancel(operator, replace(wanted, requested_by=by))
            case LeadershipTask():
                task = replace(
                    wanted,
                    about=replace(wanted.about, by=by, since_ms=self._now_ms()),
                    options=replace(wanted.options, requested_by=by),
                )
                moves, checked = task.begin(operator)
                request = None if checked is None else checked.write(operator).request
                if task.kind is LeadershipTaskKind.RETURN and not moves.is_over:
                    self._end_return(operator, task)
                return request
            case NewQuiesce():
                new = wanted.begun(by, self._now_ms())
                return work_control.quiesce(operator, new).request
            case unknown:
                assert_never(unknown)

    def _end_return(self, operator: OperatorClient, task: LeadershipTask) -> None:
        """End an evacuation if the leaderships are back soon, as the command that waits does."""
        for _ in range(RETURN_LOOKS):
            self._queries.sleep(RETURN_LOOK_S)
            moves, _checked = task.begin(operator)
            if moves.is_over:
                return

    def _undo(self, operator: OperatorClient, wanted: Cancellation) -> PlanPreview:
        """Return what an undo would select, and what it would copy."""
        preview = cancel_preview(operator, wanted, is_whole=True)
        if not preview:
            raise ReassignmentConflictError(work_control.nothing_text(operator, wanted))
        found = undo_dry_run(operator, wanted, preview, self._queries)
        shown = _shown(found, tuple(preview.lines()))
        return replace(shown, entries=len({*preview.in_progress, *preview.finished}))

    def _leaderships(self, operator: OperatorClient, wanted: LeadershipTask) -> PlanPreview:
        """Return which leaderships would move."""
        moves, _ = wanted.begin(operator, dry_run=True)
        if wanted.kind is LeadershipTaskKind.FORGET:
            stays = "the present order of replicas stays for good; no leadership moves"
            return PlanPreview(entries=0, refused=0, summary=(stays,))
        found = forecast_leaders(operator, wanted.brokers, moves.orders)
        rows = [(str(b), str(now), str(then)) for b, (now, then) in found.leaders.items()]
        number = count_text(found.moved, "leadership")
        by_change = by_reason(moves.changed).items()
        changed = (f"{names_text(some)} left as found: {why}" for why, some in by_change)
        return PlanPreview(
            entries=found.moved,
            refused=0,
            summary=(f"{number} to move; nothing is copied",),
            changes=tuple(found.changes[:LINES_MAX]),
            tables=(PreviewTable("Leaders", ("broker", "now", "then"), rows),) if rows else (),
            waits=tuple(self._holds(operator, wanted.options.window)),
            notes=(*left_lines(moves), *changed),
        )

    def _quiesce(self, operator: OperatorClient, wanted: NewQuiesce) -> PlanPreview:
        """Return what would have to end, as ``quiesce --dry-run`` says it."""
        new = wanted.begun("", self._now_ms())
        found = work_control.quiesce(operator, new, dry_run=True)
        left = work_control.left_of_work(operator, self._settings.controller_id)
        lines = [f"{f.subject}: {f.evidence}; what to do: {f.advice}" for f in left]
        words = (
            f"Not ready yet: {count_text(len(left), 'finding')}." if left else work_control.READY
        )
        return PlanPreview(
            entries=len(left),
            refused=0,
            summary=(quiesce_line(found, is_preview=found.since_ms == new.since_ms), words),
            changes=tuple(lines[:LINES_MAX]),
            heading="What is left",
        )

    def _holds(self, operator: OperatorClient, window: Window | None) -> Iterator[str]:
        return hold_lines(operator, window, self._now_ms() / MS_PER_S)


def _about(load: Mapping[str, Any], marks: Mapping[str, Collection[BrokerId]]) -> Iterator[str]:
    for mark, brokers in marks.items():
        if load["broker"] in brokers:
            yield mark
    if load.get("rack"):
        yield f"rack {load['rack']}"
    if load.get("replicas") is not None:
        yield count_text(load["replicas"], "replica")


def _shown(found: DryRun, notes: Sequence[str]) -> PlanPreview:
    """Return what a page shows of a dry run."""
    forecast, changes = found.preview.forecast, found.changes
    validation = replace(found.validation, problems=found.validation.problems[:LINES_MAX])
    shown = PlanPreview(
        entries=len(found.entries),
        refused=len(found.refused),
        problems=tuple(validation.lines()),
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


# --- in words ------------------------------------------------------------------------------------


class TaskWords(NamedTuple):
    """What pages say of a task."""

    subject: str
    """After "preview of"."""
    button: str
    """Submits it; the name of the holder of the token follows."""
    done: str
    """The heading after it."""
    then: str
    """What follows."""
    options: Sequence[str]
    """With which options."""


def words_of(wanted: Wanted, entries: int) -> TaskWords:
    """Return the words about a task that concerns this number of entries."""
    match wanted:
        case PlanSubmission(options=options):
            return TaskWords(
                count_text(entries, "entry", "entries"),
                f"Submit {count_text(entries, 'entry', 'entries')}",
                "Submitted",
                "The daemon accepts or refuses its entries within seconds.",
                (*_option_words(options), *(_ATOMIC if options.atomic else ())),
            )
        case NewDrains(brokers=brokers):
            broker = f"broker {ids(sorted(brokers))}"
            return TaskWords(
                f"the drain of {broker}: {count_text(entries, 'partition')} now",
                f"Drain {broker}",
                f"{broker.capitalize()} is being drained",
                "It stays open until the drain is stopped; the overview says how many replicas "
                "are left.",
                (
                    *_option_words(wanted.changed(Drains()).options),
                    f"It stands until it is stopped: what is created on {broker} later leaves it.",
                ),
            )
        case Cancellation():
            request = ", ".join(sorted(wanted.requests))
            options = RequestOptions(
                reason=wanted.reason, throttle=wanted.throttle, window=wanted.window
            )
            return TaskWords(
                f"the undo of {request}: {count_text(entries, 'partition')}",
                f"Undo {request}",
                f"{request} is being undone",
                "Its partitions get the replicas of before.",
                (*_option_words(options), "Partitions in flight roll back at once."),
            )
        case LeadershipTask():
            return _leadership_words(wanted, entries)
        case NewQuiesce():
            return TaskWords(
                "the quiesce",
                "Quiesce",
                "The reassigner is quiesced",
                "It takes no new work until it is resumed, on the overview or with `reassigner "
                "resume`. A preview of the quiesce says what is left.",
                (f"Reason: {wanted.reason}",) if wanted.reason else (),
            )
        case unknown:
            assert_never(unknown)


def _leadership_words(task: LeadershipTask, entries: int) -> TaskWords:
    broker, number = f"broker {ids(sorted(task.brokers))}", count_text(entries, "leadership")
    window = task.options.window
    options = [f"Reason: {task.about.reason}"] if task.about.reason else []
    options += [f"Window: {window}"] if window is not None else []
    match task.kind:
        case LeadershipTaskKind.EVACUATE:
            return TaskWords(
                f"the evacuation of {broker}: {number}",
                f"Move leaderships off {broker}",
                f"{broker.capitalize()} is evacuated from leaderships",
                "The overview names it until its leaderships are back. `reassigner leaders` says "
                "when it can be restarted.",
                options,
            )
        case LeadershipTaskKind.RETURN:
            return TaskWords(
                f"the return of leaderships to {broker}: {number}",
                f"Return leaderships to {broker}",
                f"The leaderships of {broker} return",
                "The broker is named as evacuated until all are back and this form has seen it: if "
                "it still is, preview it again.",
                options,
            )
        case LeadershipTaskKind.FORGET:
            return TaskWords(
                f"the end of the evacuation of {broker}",
                f"Keep the present order of {broker}",
                f"{broker.capitalize()} is no longer evacuated",
                "The present order of replicas stays.",
                options,
            )
        case unknown:
            assert_never(unknown)


_ATOMIC: Final = ("Starts nothing if any entry is refused.",)


def _option_words(options: RequestOptions) -> Iterator[str]:
    if options.reason:
        yield f"Reason: {options.reason}"
    throttle = options.throttle
    rate = "none of its own" if throttle is None else show_throttle(throttle, " for each broker")
    yield f"Throttle: {rate}"
    doubt = low_rate_text(throttle)
    if doubt is not None:
        yield f"Note: {doubt}"
    if options.window is not None:
        yield f"Window: {options.window}"
