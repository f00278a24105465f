"""``generate``: propose a plan for topics that copies as few replicas as possible."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from controller.actions.submission import PlanSubmission
from controller.cli import options
from controller.cli.context import CommandContext, context_of
from controller.cli.execute import Execution
from controller.cli.exits import Exit
from controller.cli.output import print_json, print_line, print_note
from controller.cli.preview_tables import forecast_screen
from controller.cli.progress_display import display_of
from controller.cli.stock.files import read_brokers, topics_of
from controller.cli.stock.texts import proposal_text
from controller.cli.submitting import SubmitOptions
from controller.cli.tables import Screen, paragraph
from controller.core.model import BrokerId, TopicPartition
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.planning.plan_goal import Proposal
from controller.planning.proposer import propose
from controller.previews import proposal
from controller.previews.entries import read_entries
from controller.previews.forecast_table import forecast_lines
from controller.previews.plan_facts import Preview, forecast_of
from controller.previews.plan_files import PlanFile, document_of, read_topics_file
from controller.settings import Settings
from controller.zk.operator_client import OperatorClient


def generate(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics to reassign.")
    ] = None,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    topics_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-to-move-json-file",
            metavar="FILE",
            help='File with topics in the format of Kafka\'s tool: {"topics":[{"topic":"foo"}]}. '
            "Default: the named topics.",
        ),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Reassign all topics.")] = False,
    exclude_topics: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Leave out topics whose whole name matches. Default: none."
        ),
    ] = None,
    broker_list: Annotated[
        str | None,
        typer.Option(
            metavar="0,1,2", help="Place replicas on these brokers only. Default: all live ones."
        ),
    ] = None,
    remove_broker: Annotated[
        list[int] | None,
        typer.Option(
            metavar="ID",
            min=0,
            help="Move all replicas off this broker; may be repeated. Default: none.",
        ),
    ] = None,
    add_broker: Annotated[
        list[int] | None,
        typer.Option(
            metavar="ID",
            min=0,
            help="Move an even share of the replicas to this broker; may be repeated. "
            "Default: none.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of replicas of every partition. Default: unchanged."
        ),
    ] = None,
    rebalance: Annotated[
        bool, typer.Option("--rebalance", help="Balance replicas and leaders.")
    ] = False,
    spread_racks: Annotated[
        bool, typer.Option("--spread-racks", help="Use as many racks as possible.")
    ] = False,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Ignore racks.")
    ] = False,
    no_sizes: Annotated[
        bool, typer.Option("--no-sizes", help="Do not query brokers for the sizes of replicas.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the proposal to this file. Default: standard output alone.",
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Submit the proposal as a request.")
    ] = False,
    reason: options.ReasonOption = "",
    requested_by: options.ByOption = None,
    dry_run: options.DryRunOption = False,
    timeout: options.TimeoutOption = 60.0,
    all_rows: options.AllRowsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Propose a plan that copies as few replicas as possible.

    Example: reassigner generate orders payments --remove-broker 5 --zookeeper zk1:2181/kafka

    No partition loses a rack. Prints the current and the proposed replicas of the partitions that
    change, as Kafka's tool does; a summary and a forecast go to standard error. Exit code:
    0 proposed (with --execute: as of execute), 1 error.
    """
    context = context_of(ctx)
    names = options.topics_of(topics)
    if topics_file is not None:
        names += topics_of(read_topics_file(topics_file))
    goal = proposal.Goal(
        topics=names,
        all_topics=all_topics,
        excluded=exclude_topics,
        brokers=frozenset(() if broker_list is None else _parse_brokers(broker_list)),
        removed=_brokers(remove_broker),
        added=_brokers(add_broker),
        replication_factor=replication_factor,
        rebalance=rebalance,
        spread_racks=spread_racks,
        rack_aware=not disable_rack_aware,
    )
    if goal.is_empty:
        raise InvalidInputError(
            "name a goal: --remove-broker, --add-broker, --broker-list, --replication-factor, "
            "--rebalance or --spread-racks"
        )
    if dry_run and not execute:
        raise InvalidInputError("--dry-run needs --execute: nothing else writes anything")
    wanted = RequestOptions(reason=reason, requested_by=context.requested_by(requested_by))
    submit = SubmitOptions(dry_run=dry_run, all_rows=all_rows, as_json=as_json, timeout_s=timeout)
    settings = context.settings({"zookeeper": zookeeper}, config)
    with context.connect(settings) as operator:
        basis = proposal.read_basis(operator, goal)
        sizes = {} if no_sizes else _sizes(context, settings, operator)
        found = propose(basis.before, basis.goal, sizes)
        preview = None
        if not (execute or no_sizes):
            entries = read_entries(operator, found.changed)
            preview = forecast_of(operator, entries, context.queries(settings), wanted)
        if as_json and not execute:
            document = proposal.proposal_document(found, basis, sizes)
            print_json(document | ({} if preview is None else {"forecast": preview.document()}))
        else:
            summary = proposal.summary_lines(found, basis, sizes)
            _print(found, summary, preview, context.screen(all_rows=all_rows))
        if output is not None:
            output.write_text(json.dumps(document_of(found.changed), indent=1) + "\n")
        if not execute or not found.changed:
            raise typer.Exit(Exit.DONE)
        display = display_of(context.screen(), as_json=as_json)
        queries = context.queries(settings)
        submission = PlanSubmission(plan=PlanFile(entries=found.changed), options=wanted)
        raise typer.Exit(
            Execution(context, operator, submission, submit, display, queries=queries).run()
        )


def _sizes(
    context: CommandContext, settings: Settings, operator: OperatorClient
) -> dict[TopicPartition, int]:
    answers = context.query_brokers(settings, operator.cluster.brokers().values(), ())
    for line in proposal.silence_lines(answers):
        print_note(line)
    return proposal.sizes_of(answers.disks)


def _parse_brokers(text: str) -> list[BrokerId]:
    """Parse a list of brokers, as people type it: with spaces after the commas."""
    return read_brokers(",".join(part.strip() for part in text.split(",")))


def _brokers(found: Iterable[int] | None) -> frozenset[BrokerId]:
    return frozenset(BrokerId(broker) for broker in found or ())


def _print(
    found: Proposal, summary: Iterable[str], preview: Preview | None, screen: Screen | None
) -> None:
    if screen is not None:
        forecast = () if preview is None else forecast_screen(preview, screen.rows_max)
        screen.note(*map(paragraph, summary), *forecast)
    else:
        for line in (*summary, *(() if preview is None else forecast_lines(preview))):
            print_note(line)
    if not found.changed:
        print_note(proposal.NOTHING)
        return
    current = {p: found.before[p] for p in found.changed}
    print_line(proposal_text(current, found.changed))
