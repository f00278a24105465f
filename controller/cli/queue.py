"""
``queue``: entries that start when capacity is free (``/admin/reassign_partitions_queue``, KIP-236).

An entry leaves the queue when it starts. While the znode exists, no other queue is accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.actions.submission import PlanSubmission, SubmissionKind, check
from controller.cli import options, plan_preview
from controller.cli.context import CommandContext
from controller.cli.options import argument, command
from controller.cli.output import Exit, print_note
from controller.cli.submitting import hold_lines, write_submission
from controller.core.model import count_text
from controller.core.requests.submissions import queue_request_id
from controller.errors import InvalidInputError
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.plan_changes import conflicts_of, factor_lines, rollback_of
from controller.previews.plan_facts import present_dirs
from controller.previews.plan_files import PlanFile, document_of
from controller.units import ids, names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


def queue_app() -> typer.Typer:
    """Return the command with its sub-commands."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)
    app.callback()(queue)
    app.command("add", short_help="Queue a plan.")(add)
    app.command("list", short_help="List the queue.")(list_queue)
    app.command("remove", short_help="Remove partitions from the queue.")(remove)
    app.command("clear", short_help="Empty the queue.")(clear)
    return app


def queue(ctx: typer.Context) -> None:
    """
    Queue reassignments that start when capacity is free.

    Example: reassigner queue add plan.json --zookeeper zk1:2181/kafka

    An entry leaves the queue when it starts. If its partition is in flight, the step in flight is
    undone first. While a queue exists, no other queue is accepted.
    """
    if ctx.invoked_subcommand is None:
        raise InvalidInputError("queue: one of add, list, remove, clear; see --help")


@command("dry_run", "all_rows", "as_json")
def add(
    context: CommandContext,
    plan: Path = options.PLAN,
    *,
    allow_replication_factor_change: bool = options.MAY_CHANGE_FACTORS,
) -> Exit:
    """
    Queue a plan.

    Example: reassigner queue add plan.json --zookeeper zk1:2181/kafka

    Exit code: 0 queued, 1 error, 3 a queue exists already, new reassignments are disabled, or the
    plan changes a replication factor without --allow-replication-factor-change.
    """
    file = options.read_plan_argument(plan)
    with context.inspected() as (operator, queries):
        return add_to_queue(
            context, operator, file, queries, may_change_factors=allow_replication_factor_change
        )


def add_to_queue(
    context: CommandContext,
    operator: OperatorClient,
    plan: PlanFile,
    queries: ClusterQueries,
    *,
    may_change_factors: bool = False,
) -> Exit:
    """Create the queue."""
    wanted = PlanSubmission(
        plan=plan, way=SubmissionKind.QUEUE, may_change_factors=may_change_factors
    )
    checked = check(operator, wanted)
    if context.dry_run:
        found = checked.dry_run(operator, queries)
        return plan_preview.show_dry_run(context, found, plan=plan.entries)
    before = checked.entries
    conflicts = conflicts_of(before, None)
    present = present_dirs(operator, before, queries, plan.log_dirs)
    held = hold_lines(context, operator, names_clients=True)
    for line in (*factor_lines(before), *map(str, conflicts), *held):
        print_note(f"Note: {line}")
    request = write_submission(operator, checked).request
    count, rollback = len(plan.entries), rollback_of(before, present)
    context.print_result(
        lambda: {"request": request, "queued": count, "rollback": rollback},
        [f"Queued as {request}: {names_text(plan.entries)}"],
    )
    if not context.as_json and operator.cluster.leader_address() is None:
        print_note("No reassigner leads; the next leader takes the queue up.")
    return Exit.DONE


@command("as_json")
def list_queue(context: CommandContext) -> Exit:
    """
    List the entries of the queue.

    Example: reassigner queue list --zookeeper zk1:2181/kafka

    Exit code: 0 the queue is empty, 1 error, 2 entries are queued.
    """
    with context.connected() as operator:
        found = operator.requests.queue()
    if found is None:
        nothing: dict[str, object] = {"request": None, "unreadable": None, "partitions": []}
        context.print_result(lambda: nothing, ["The queue is empty."])
        return Exit.DONE
    request = queue_request_id(found.czxid)
    document = {
        "request": request,
        "unreadable": found.unreadable,
        "partitions": document_of(found.entries, found.log_dirs)["partitions"],
    }
    lines = [f"{count_text(len(found.entries), 'partition')} in the queue ({request}):"]
    lines += [f"{partition} -> {ids(target)}" for partition, target in found.entries.items()]
    if found.unreadable is not None:
        lines = [f"The queue cannot be decoded: {found.unreadable}"]
    context.print_result(lambda: document, lines)
    return Exit.IN_PROGRESS


@command("dry_run", "as_json")
def remove(
    context: CommandContext,
    partitions: list[str] = argument("TOPIC-N", "Partitions to remove.", default=...),
) -> Exit:
    """
    Remove partitions from the queue before they start.

    Example: reassigner queue remove orders-0 orders-1 --zookeeper zk1:2181/kafka

    Exit code: 0 all were removed, 1 error, 3 some are not in the queue, or have started already.
    """
    named = options.partitions_of(partitions)
    with context.connected() as operator:
        if context.dry_run:
            found = operator.requests.queue()
            removed = frozenset(named) & (found.entries.keys() if found else frozenset())
        else:
            removed = operator.writes.take_from_queue(named)
    missing = [p for p in named if p not in removed]
    lists = {"removed": sorted(map(str, removed)), "not_queued": list(map(str, missing))}
    done = _removed_words(context)
    lines = [f"{done}: {names_text(sorted(removed))}"] if removed else []
    if missing:
        lines.append(f"Not in the queue, or started already: {names_text(missing)}")
    context.print_change(lists, lines)
    return Exit.REFUSED if missing else Exit.DONE


@command("dry_run", "as_json")
def clear(context: CommandContext) -> None:
    """
    Remove all entries from the queue. Reassignments that have started continue.

    Example: reassigner queue clear --zookeeper zk1:2181/kafka
    """
    with context.connected() as operator:
        found = operator.requests.queue() if context.dry_run else operator.writes.clear_queue()
    entries = {} if found is None else found.entries
    line = f"{_removed_words(context)}: {names_text(entries) or 'content that cannot be decoded'}"
    if found is None:
        line = "The queue is empty already."
    lists: dict[str, list[str]] = {"removed": [str(p) for p in entries], "not_queued": []}
    context.print_change(lists, [line])


def _removed_words(context: CommandContext) -> str:
    return f"{'Would be removed' if context.dry_run else 'Removed'} from the queue"
