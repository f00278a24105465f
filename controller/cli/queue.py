"""
``queue``: entries that start when capacity is free (``/admin/reassign_partitions_queue``, KIP-236).

An entry leaves the queue when it starts. While the znode exists, no other queue is accepted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.actions.submission import PlanSubmission, SubmissionKind, check
from controller.cli import options, plan_preview
from controller.cli.context import context_of
from controller.cli.exits import Exit
from controller.cli.output import NOTHING_WRITTEN, print_json, print_line, print_note
from controller.cli.status_text import pause_lines
from controller.cli.submitting import write_submission
from controller.cli.tables import Screen
from controller.core.requests.submissions import queue_request_id
from controller.errors import InvalidInputError
from controller.previews.access import ClusterQueries
from controller.previews.entries import read_entries
from controller.previews.plan_facts import present_dirs
from controller.previews.plan_files import PlanFile, document_of
from controller.previews.validation import conflicts_of, factor_lines, rollback_of
from controller.units import ids, names_text
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


def add(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    plan: options.PlanArgument,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    dry_run: options.DryRunOption = False,
    all_rows: options.AllRowsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Queue a plan.

    Example: reassigner queue add plan.json --zookeeper zk1:2181/kafka

    Exit code: 0 queued, 1 error, 3 a queue exists already, or new reassignments are disabled.
    """
    file = options.read_plan_argument(plan)
    context = context_of(ctx)
    screen = context.screen(all_rows=all_rows)
    with context.inspected(zookeeper, config) as (operator, queries):
        code = add_to_queue(operator, file, queries, screen, dry_run=dry_run, as_json=as_json)
        raise typer.Exit(code)


def add_to_queue(  # noqa: PLR0913 - the plan, and how it is queued
    operator: OperatorClient,
    plan: PlanFile,
    queries: ClusterQueries,
    screen: Screen | None = None,
    *,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """
    Create the queue.

    Raises:
        InvalidInputError: the plan was made for another cluster.
        ReassignmentConflictError: it cannot be queued now.

    """
    checked = check(operator, PlanSubmission(plan=plan, way=SubmissionKind.QUEUE))
    if dry_run:
        found = checked.dry_run(operator, queries)
        return plan_preview.show_dry_run(found, as_json=as_json, plan=plan.entries, screen=screen)
    before = read_entries(operator, plan.entries)
    conflicts = conflicts_of(before, None)
    present = present_dirs(operator, before, queries, plan.log_dirs)
    pauses = pause_lines(operator.requests.controls().pauses)
    for line in (*factor_lines(before), *map(str, conflicts), *pauses):
        print_note(f"Note: {line}")
    request = write_submission(operator, checked).request
    if as_json:
        count, rollback = len(plan.entries), rollback_of(before, present)
        print_json({"request": request, "queued": count, "rollback": rollback})
    else:
        print_line(f"Queued as {request}: {names_text(plan.entries)}")
        if operator.cluster.leader_address() is None:
            print_note("No reassigner leads; the next leader takes the queue up.")
    return Exit.DONE


def list_queue(
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """
    List the entries of the queue.

    Example: reassigner queue list --zookeeper zk1:2181/kafka

    Exit code: 0 the queue is empty, 1 error, 2 entries are queued.
    """
    with context_of(ctx).connected(zookeeper, config) as operator:
        found = operator.requests.queue()
    if as_json:
        print_json(
            {
                "request": None if found is None else queue_request_id(found.czxid),
                "unreadable": None if found is None else found.unreadable,
                "partitions": []
                if found is None
                else document_of(found.entries, found.log_dirs)["partitions"],
            }
        )
    elif found is None:
        print_line("The queue is empty.")
    elif found.unreadable is not None:
        print_line(f"The queue cannot be decoded: {found.unreadable}")
    else:
        print_line(
            f"{len(found.entries)} partitions wait in the queue ({queue_request_id(found.czxid)}):"
        )
        for partition, target in found.entries.items():
            print_line(f"{partition} -> {ids(target)}")
    raise typer.Exit(Exit.DONE if found is None else Exit.IN_PROGRESS)


def remove(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    partitions: Annotated[
        list[str], typer.Argument(metavar="TOPIC-N", help="Partitions to remove.")
    ],
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Remove partitions from the queue before they start.

    Example: reassigner queue remove orders-0 orders-1 --zookeeper zk1:2181/kafka

    Exit code: 0 all were removed, 1 error, 3 some are not in the queue, or have started already.
    """
    named = options.partitions_of(partitions)
    with context_of(ctx).connected(zookeeper, config) as operator:
        if dry_run:
            found = operator.requests.queue()
            removed = frozenset(named) & (found.entries.keys() if found else frozenset())
        else:
            removed = operator.writes.take_from_queue(named)
    missing = [p for p in named if p not in removed]
    if as_json:
        lists = {"removed": sorted(map(str, removed)), "not_queued": list(map(str, missing))}
        print_json({"dry_run": dry_run, **lists})
    else:
        if removed:
            print_line(f"Removed from the queue: {names_text(sorted(removed))}")
        if missing:
            print_line(f"Not in the queue, or started already: {names_text(missing)}")
        if dry_run:
            print_line(NOTHING_WRITTEN)
    raise typer.Exit(Exit.REFUSED if missing else Exit.DONE)


def clear(
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Remove all entries from the queue. Reassignments that have started continue.

    Example: reassigner queue clear --zookeeper zk1:2181/kafka
    """
    with context_of(ctx).connected(zookeeper, config) as operator:
        found = operator.requests.queue() if dry_run else operator.writes.clear_queue()
    entries = {} if found is None else found.entries
    if as_json:
        removed = [str(p) for p in entries]
        print_json({"dry_run": dry_run, "removed": removed, "not_queued": []})
    else:
        if found is None:
            print_line("The queue is empty already.")
        else:
            print_line(
                f"Removed from the queue: {names_text(entries) or 'content that cannot be decoded'}"
            )
        if dry_run:
            print_line(NOTHING_WRITTEN)
    raise typer.Exit(Exit.DONE)
