"""
Plans of the status page: drafted as by ``generate``, previewed and submitted as by ``execute``.

Uses the functions of these commands, so that a page and a terminal cannot disagree. Each call opens
a connection of its own to ZooKeeper, and asks brokers as the commands do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from controller.actions.submission import PlanSubmission, check
from controller.core.model import BrokerId, RequestId
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.previews import forecast_table, proposal
from controller.previews.access import (
    ClusterQueries,
    QueryBrokers,
    QueryMinInsyncOf,
    query_brokers,
    query_min_insync,
)
from controller.previews.drafts import propose_apart
from controller.previews.plan_files import PlanFile, plan_of
from controller.settings import Settings
from controller.web.steering import Connect
from controller.zk.operator_client import OperatorClient

LINES_MAX: Final = 100
"""Changes, refusals and rows of a table on a page; the counts are of all."""
_GIVEN: Final = "the plan"


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
    """Drafts, previews and submits plans."""

    def __init__(  # noqa: PLR0913 - what it asks, replaced by tests
        self,
        settings: Settings,
        connect: Connect,
        status: Callable[[], Mapping[str, Any] | None],
        *,
        query_brokers: QueryBrokers = query_brokers,
        query_min_insync: QueryMinInsyncOf = query_min_insync,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Prepare; nothing is connected yet.

        Args:
            settings: The credentials for brokers.
            connect: Opens a connection to ZooKeeper.
            status: Returns the status of this daemon if it leads.
            query_brokers: Asks brokers for their log directories.
            query_min_insync: Asks brokers for the settings of topics.
            sleep: Waits so many seconds.

        """
        self._settings = settings
        self._status = status
        self._connect = connect
        self._query_brokers = query_brokers
        self._query_min_insync = query_min_insync
        self._sleep = sleep

    def drain(self, broker: BrokerId) -> PlanFile:
        """
        Propose a plan that moves all replicas off a broker and copies as few as possible.

        Raises:
            InvalidInputError: nothing has to move, or other brokers cannot take the replicas.

        """
        goal = proposal.Goal(all_topics=True, removed=frozenset({broker}))
        with self._connect_for_preview() as (operator, _):
            basis = proposal.read_basis(operator, goal)
            brokers = operator.cluster.brokers().values()
            answers = self._query_brokers(self._settings, brokers, ())
        sizes = proposal.sizes_of(answers.disks)
        found = propose_apart(basis.before, basis.goal, sizes)
        notes = (
            *proposal.silence_lines(answers),
            *proposal.summary_lines(found, basis, sizes),
        )
        changed = found.changed
        if not changed:
            raise InvalidInputError("\n".join((proposal.NOTHING, *notes)))
        return PlanFile(entries=changed, notes=notes)

    def parse(self, text: str) -> PlanFile:
        """
        Read a plan as ``execute`` reads a file.

        Raises:
            InvalidInputError: an entry is malformed.

        """
        return plan_of(text.encode(), _GIVEN)

    def preview(self, plan: PlanFile, options: RequestOptions) -> PlanPreview:
        """
        Return what ``execute --dry-run`` shows of a plan.

        Raises:
            InvalidInputError: it would not be submitted, as ``actions.submission`` says.
            ReassignmentConflictError: as above.

        """
        with self._connect_for_preview() as (operator, queries):
            wanted = PlanSubmission(plan=plan, options=options)
            found = check(operator, wanted).dry_run(operator, queries)
        forecast, changes = found.preview.forecast, found.changes
        shown = PlanPreview(
            entries=len(plan.entries),
            refused=len(found.refused),
            problems=(
                *(
                    f"{e.partition} would be refused: {w}"
                    for e, w in found.validation.problems[:LINES_MAX]
                ),
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
            tables=(
                PreviewTable(
                    "Brokers",
                    forecast_table.BROKER_HEADS,
                    tuple(forecast_table.broker_rows(forecast))[:LINES_MAX],
                ),
                PreviewTable(
                    "Log directories",
                    forecast_table.DIRECTORY_HEADS,
                    tuple(forecast_table.directory_rows(forecast))[:LINES_MAX],
                ),
            ),
            waits=tuple(forecast_table.wait_line(w, forecast.changes) for w in forecast.waits),
            notes=(*plan.notes, *found.preview.notes),
        )

    def submit(self, plan: PlanFile, options: RequestOptions) -> RequestId:
        """
        Submit a plan as a request; an error after a write has a note.

        Raises:
            InvalidInputError: it cannot be submitted, as ``actions.submission`` says.
            ReassignmentConflictError: as above.

        """
        with self._connect_for_preview() as (operator, _):
            wanted = PlanSubmission(plan=plan, options=options)
            return check(operator, wanted).write(operator).request

    @contextmanager
    def _connect_for_preview(self) -> Iterator[tuple[OperatorClient, ClusterQueries]]:
        settings = self._settings
        queries = ClusterQueries(
            min_insync=partial(self._query_min_insync, settings),
            log_dirs=lambda brokers: self._query_brokers(settings, brokers, ()).disks,
            status=lambda _: self._status(),
            now=time.monotonic,
            sleep=self._sleep,
            unix_s=time.time,
        )
        with self._connect() as operator:
            yield operator, queries
