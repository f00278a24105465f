"""What a plan would do: the content of ``execute --dry-run`` and of the preview on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.model import Route, TopicPartition
from controller.core.requests.submissions import RequestOptions
from controller.previews.access import ClusterQueries
from controller.previews.entries import Entry, read_entries
from controller.previews.plan_facts import Preview, forecast_of
from controller.previews.plan_files import PlanFile
from controller.previews.validation import (
    Conflict,
    PlanValidation,
    changes_of,
    conflicts_of,
    refused_of,
    validate,
)
from controller.zk.operator_client import OperatorClient


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a plan would do."""

    entries: list[Entry]
    validation: PlanValidation
    conflicts: Sequence[Conflict]
    refused: frozenset[TopicPartition]
    """The partitions whose entries would be refused."""
    preview: Preview

    @property
    def changes(self) -> list[str]:
        """The changes of the plan in words."""
        return list(changes_of(self.entries, self.preview.relocated))


def dry_run(
    operator: OperatorClient,
    plan: PlanFile,
    route: Route | None,
    options: RequestOptions,
    queries: ClusterQueries,
) -> DryRun:
    """
    Find what a plan would do.

    Args:
        operator: The connection to ZooKeeper.
        plan: The plan.
        route: The way in which it would be submitted; None for the queue.
        options: The options of the request.
        queries: Asks brokers and the daemon.

    """
    entries = read_entries(operator, plan.entries)
    conflicts = conflicts_of(entries, route)
    validation = validate(operator, entries, queries)
    refused = refused_of(validation, conflicts)
    preview = forecast_of(operator, entries, queries, options, refused, plan.log_dirs)
    return DryRun(entries, validation, conflicts, refused, preview)
