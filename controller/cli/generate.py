"""``generate``: propose a plan for topics that copies as few replicas as possible."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.actions.submission import PlanSubmission
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.execute import Execution
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_json, print_line, print_note, write_json
from controller.cli.plan_preview import forecast_screen
from controller.cli.stock.formats import plan_document, proposal_text, read_brokers, topics_of
from controller.cli.terminal_tables import Paragraph
from controller.core.model import BrokerId, TopicPartition
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.planning.plan_goal import Proposal
from controller.planning.proposer import propose
from controller.previews import proposal
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import read_entries
from controller.previews.forecast_table import forecast_lines
from controller.previews.plan_facts import Preview, forecast_of
from controller.previews.plan_files import PlanFile, document_of, read_topics_file

if TYPE_CHECKING:
    from controller.cli.terminal import Screen
    from controller.zk.operator_client import OperatorClient


EXCLUDE_TOPICS: Final = option("REGEX", "Leave out topics whose whole name matches. Default: none.")
DISABLE_RACK_AWARE: Final = flag("--disable-rack-aware", "Ignore racks.")


@command("dry_run", "timeout", "all_rows", "as_json")
def generate(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    topics: list[str] | None = argument("TOPIC", "Topics to reassign."),
    *,
    topics_file: Path | None = option(
        "FILE",
        'File with topics in the format of Kafka\'s tool: {"topics":[{"topic":"foo"}]}. '
        "Default: the named topics.",
        "--topics-to-move-json-file",
    ),
    all_topics: bool = flag("--all-topics", "Reassign all topics."),
    exclude_topics: str | None = EXCLUDE_TOPICS,
    broker_list: str | None = option(
        "0,1,2", "Place replicas on these brokers only. Default: all live ones."
    ),
    drain: list[int] | None = option(
        "BROKER",
        "Move all replicas off this broker; may be repeated. Default: none.",
        "--drain",
        "--remove-broker",
        least=0,
    ),
    add: list[int] | None = option(
        "BROKER",
        "Move an even share of the replicas to this broker; may be repeated. Default: none.",
        "--add",
        "--add-broker",
        least=0,
    ),
    replication_factor: int | None = option(
        "N", "Number of replicas of every partition. Default: unchanged.", least=1
    ),
    rebalance: bool = flag("--rebalance", "Balance replicas and leaders."),
    spread_racks: bool = flag("--spread-racks", "Use as many racks as possible."),
    disable_rack_aware: bool = DISABLE_RACK_AWARE,
    no_sizes: bool = flag("--no-sizes", "Do not query brokers for the sizes of replicas."),
    output: Path | None = option(
        "FILE", "Also write the proposal to this file. Default: standard output alone."
    ),
    execute: bool = flag("--execute", "Submit the proposal as a request."),
    requested: RequestOptions,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Propose a plan that copies as few replicas as possible.

    Example: reassigner generate orders payments --drain 5 --zookeeper zk1:2181/kafka

    No partition loses a rack. Prints the current and the proposed replicas of the partitions that
    change, as Kafka's tool does; a summary and a forecast go to standard error. With --execute, it
    takes the options of execute. Exit code: 0 proposed (with --execute: as of execute), 1 error.
    """
    names = options.topics_of(topics)
    if topics_file is not None:
        names += topics_of(read_topics_file(topics_file))
    # People type spaces after the commas.
    listed = None if broker_list is None else ",".join(map(str.strip, broker_list.split(",")))
    goal = proposal.Goal(
        topics=names,
        all_topics=all_topics,
        excluded=exclude_topics,
        brokers=frozenset(() if listed is None else read_brokers(listed)),
        drained=frozenset(map(BrokerId, drain or ())),
        added=frozenset(map(BrokerId, add or ())),
        replication_factor=replication_factor,
        rebalance=rebalance,
        spread_racks=spread_racks,
        rack_aware=not disable_rack_aware,
    )
    if goal.is_empty:
        raise InvalidInputError(
            "name a goal: --drain, --add, --broker-list, --replication-factor, --rebalance or "
            "--spread-racks"
        )
    if context.dry_run and not execute:
        raise InvalidInputError("--dry-run needs --execute: nothing else writes anything")
    if wait and not execute:
        raise InvalidInputError("--wait needs --execute: there is nothing to wait for")
    with context.inspected() as (operator, queries):
        basis = proposal.read_basis(operator, goal)
        sizes = {} if no_sizes else replica_sizes(operator, queries)
        found = propose(basis.before, basis.goal, sizes)
        preview = None
        if not (execute or no_sizes):
            entries = read_entries(operator, found.changed)
            preview = forecast_of(operator, entries, queries, requested)
        if context.as_json and not execute:
            document = proposal.proposal_document(found, basis, sizes)
            print_json(document | ({} if preview is None else {"forecast": preview.document()}))
        else:
            summary = proposal.summary_lines(found, basis, sizes)
            _print(found, summary, preview, context.screen())
        if output is not None:
            write_json(output, document_of(found.changed), indent=1)
        if not execute or not found.changed:
            return Exit.DONE
        submission = submission_of(found, goal, requested)
        return Execution(
            context=context, operator=operator, wanted=submission, queries=queries, wait=wait
        ).run()


def submission_of(
    found: Proposal, goal: proposal.Goal, requested: RequestOptions
) -> PlanSubmission:
    """Return the submission of a proposed plan; one whose goal is a factor may change factors."""
    return PlanSubmission(
        plan=PlanFile(entries=found.changed),
        options=requested,
        may_change_factors=goal.replication_factor is not None,
    )


def replica_sizes(operator: OperatorClient, queries: ClusterQueries) -> dict[TopicPartition, int]:
    """Query the brokers for the size of each partition; print a note about silent ones."""
    disks = queries.log_dirs(operator.cluster.brokers().values())
    for line in proposal.silence_lines(disks):
        print_note(line)
    return proposal.sizes_of(disks)


def _print(
    found: Proposal, summary: Iterable[str], preview: Preview | None, screen: Screen | None
) -> None:
    if screen is not None:
        forecast = () if preview is None else forecast_screen(preview)
        screen.note(*map(Paragraph, summary), *forecast)
    else:
        for line in (*summary, *(() if preview is None else forecast_lines(preview))):
            print_note(line)
    if not found.changed:
        print_note(proposal.NOTHING)
        return
    current = {p: found.before[p] for p in found.changed}
    print_line(proposal_text(plan_document(current), plan_document(found.changed)))
