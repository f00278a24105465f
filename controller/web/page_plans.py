"""
Plans of the status page: drafted as by ``generate``, previewed and submitted as by ``execute``.

Uses the functions of these commands, so that a page and a terminal cannot disagree. Each call opens
a connection of its own to ZooKeeper, and asks brokers as the commands do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

from controller.core.model import BrokerId, RequestId, Route
from controller.core.requests.submissions import RequestOptions
from controller.errors import ControllerError, InvalidInputError
from controller.previews import forecast_table, proposal
from controller.previews.access import (
    AskBrokers,
    AskMinInsyncOf,
    Inquiry,
    ask_brokers,
    ask_min_insync,
    new_request_id,
)
from controller.previews.drafts import propose_apart
from controller.previews.entries import read_entries
from controller.previews.plan_facts import forecast_of
from controller.previews.plan_files import check_basis, plan_of
from controller.previews.validation import (
    changes_of,
    check_enabled,
    conflicts_of,
    refused_of,
    validate,
)
from controller.settings import Settings
from controller.web.plans import PlacedPlan, PlanPreview, PreviewTable
from controller.web.steering import connect
from controller.zk.operator_client import OperatorClient
from controller.znodes.submissions import submissions_of

LINES_MAX: Final = 100
"""Changes, refusals and rows of a table on a page; the counts are of all."""
_GIVEN: Final = "the plan"


class PagePlans:
    """Implements ``web.plans.Plans``."""

    def __init__(  # noqa: PLR0913 - what it asks, replaced by tests
        self,
        settings: Settings,
        status: Callable[[], Mapping[str, Any] | None],
        *,
        connect: Callable[[Settings], AbstractContextManager[OperatorClient]] = connect,
        ask_brokers: AskBrokers = ask_brokers,
        ask_min_insync: AskMinInsyncOf = ask_min_insync,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Prepare; nothing is connected yet.

        Args:
            settings: The cluster, and the credentials for it.
            status: Returns the status of this daemon if it leads.
            connect: Opens a connection.
            ask_brokers: Asks brokers for their log directories.
            ask_min_insync: Asks brokers for the settings of topics.
            sleep: Waits so many seconds.

        """
        self._settings = settings
        self._status = status
        self._connect = connect
        self._ask_brokers = ask_brokers
        self._ask_min_insync = ask_min_insync
        self._sleep = sleep

    def drain(self, broker: BrokerId) -> PlacedPlan:
        """
        Propose a plan that moves all replicas off a broker and copies as few as possible.

        Raises:
            InvalidInputError: the broker has no replica, or others cannot take them.

        """
        goal = proposal.Goal(all_topics=True, removed=frozenset({broker}))
        with self._connected() as (operator, _):
            basis = proposal.read_basis(operator, goal)
            if not any(broker in replicas for replicas in basis.before.values()):
                raise InvalidInputError(
                    f"broker {broker} has no replica of a partition that can be reassigned"
                )
            brokers = operator.cluster.brokers().values()
            sizes = proposal.sizes_of(self._ask_brokers(self._settings, brokers, ()))
        return PlacedPlan(propose_apart(basis.before, basis.goal, sizes))

    def parse(self, text: str) -> PlacedPlan:
        """
        Read a plan as ``execute`` reads a file.

        Raises:
            InvalidInputError: an entry is malformed.
            ReassignmentConflictError: it was planned for another cluster or other replicas.

        """
        file = plan_of(text.encode(), _GIVEN)
        with self._connected() as (operator, _):
            check_basis(operator, file)
        return PlacedPlan(file.entries, file.log_dirs, file.note)

    def preview(self, plan: PlacedPlan, options: RequestOptions) -> PlanPreview:
        """Return what ``execute --dry-run`` shows of a plan."""
        with self._connected() as (operator, ask):
            check_enabled(operator)
            entries = read_entries(operator, plan.entries)
            conflicts = conflicts_of(entries, Route.REQUEST)
            validation = validate(operator, entries, ask)
            refused = refused_of(validation, conflicts)
            found = forecast_of(operator, entries, ask, options, refused, plan.log_dirs)
        notes = () if plan.note is None else (plan.note,)
        changes = list(changes_of(entries, found.relocated))
        return PlanPreview(
            entries=len(plan.entries),
            refused=len(refused),
            summary=tuple(forecast_table.summary_lines(found.forecast)),
            problems=(
                *(
                    f"{e.partition} would be refused: {w}"
                    for e, w in validation.problems[:LINES_MAX]
                ),
                *(f"{topic}: {why}" for topic, why in validation.unknown.items()),
            ),
            conflicts=tuple(map(str, conflicts)),
            changes=tuple(changes[:LINES_MAX]),
            tables=(
                PreviewTable(
                    "Brokers",
                    forecast_table.BROKER_HEADS,
                    tuple(forecast_table.broker_rows(found.forecast))[:LINES_MAX],
                ),
                PreviewTable(
                    "Log directories",
                    forecast_table.DIRECTORY_HEADS,
                    tuple(forecast_table.directory_rows(found.forecast))[:LINES_MAX],
                ),
            ),
            waits=tuple(
                forecast_table.wait_line(w, found.forecast.changes) for w in found.forecast.waits
            ),
            notes=(*notes, *found.notes),
        )

    def submit(self, plan: PlacedPlan, options: RequestOptions) -> RequestId:
        """
        Write the znodes of a request.

        Raises:
            ReassignmentConflictError: new reassignments are disabled.

        """
        own = new_request_id()
        parts = submissions_of(plan.entries, options, own, log_dirs=plan.log_dirs)
        names: list[str] = []
        with self._connected() as (operator, _):
            check_enabled(operator)
            try:
                names.extend(operator.writes.submit(part) for part in parts)
            except ControllerError as error:
                if len(parts) == 1:
                    raise
                written = f"{len(names)} or more of {len(parts)} parts of request {own} are written"
                raise type(error)(f"{error}; {written}: cancel it") from error
        return RequestId(names[0]) if len(parts) == 1 else own

    @contextmanager
    def _connected(self) -> Iterator[tuple[OperatorClient, Inquiry]]:
        settings = self._settings
        ask = Inquiry(
            min_insync=partial(self._ask_min_insync, settings),
            log_dirs=lambda brokers: self._ask_brokers(settings, brokers, ()).disks,
            status=lambda _: self._status(),
            now=time.monotonic,
            sleep=self._sleep,
            unix_s=time.time,
        )
        with self._connect(settings) as operator:
            yield operator, ask
