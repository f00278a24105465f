"""``generate``: propose a plan for topics that copies as few replicas as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.actions.submission import submission_of
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.execute import Execution
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_json, print_line, print_note, write_json
from controller.cli.plan_preview import forecast_screen
from controller.cli.plan_tasks import (
    DISABLE_RACK_AWARE,
    EXCLUDE_TOPICS,
    replica_sizes,
)
from controller.cli.stock.formats import plan_document, proposal_text, read_brokers, topics_of
from controller.cli.terminal_tables import Paragraph
from controller.core.model import BrokerId
from controller.core.requests.submissions import NamedDirs, RequestOptions
from controller.errors import InvalidInputError
from controller.planning.byte_budget import BudgetPlan
from controller.planning.plan_goal import Assignment
from controller.planning.proposer import propose
from controller.planning.relief import Relief, ReliefGoal
from controller.previews import proposal, small_plans
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import read_entries
from controller.previews.forecast_table import forecast_lines
from controller.previews.plan_facts import Preview, forecast_of
from controller.previews.plan_files import Plan, PlanFile, document_of, read_topics_file
from controller.units import parse_bytes

if TYPE_CHECKING:
    from controller.cli.terminal import Screen
    from controller.zk.operator_client import OperatorClient


RELIEVE: Final = option(
    "BROKER[:DIR]",
    "Bring this broker, or the disk of its log directory, below --below with the fewest bytes. "
    "Default: none.",
)
BELOW: Final = option(
    "SHARE",
    "With --relieve: the fill to come below, such as 80%; no other disk ends above it. "
    "Default: none.",
)
BUDGET: Final = option(
    "SIZE",
    "Even out the fill of brokers as far as so many copied bytes can, such as 2TB. Default: none.",
)


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
    relieve: str | None = RELIEVE,
    below: str | None = BELOW,
    budget: str | None = BUDGET,
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
    small = small_goal(relieve, below, budget)
    _check_goals(goal, small, sized=not no_sizes)
    if context.dry_run and not execute:
        raise InvalidInputError("--dry-run needs --execute: nothing else writes anything")
    if wait and not execute:
        raise InvalidInputError("--wait needs --execute: there is nothing to wait for")
    with context.inspected() as (operator, queries):
        found = (
            _proposed(operator, queries, goal, sized=not no_sizes)
            if small is None
            else _small(operator, queries, goal, small)
        )
        preview = None
        if not (execute or no_sizes):
            entries = read_entries(operator, found.changed)
            dirs = found.log_dirs
            preview = forecast_of(operator, entries, queries, requested, log_dirs=dirs)
        if context.as_json and not execute:
            document = dict(found.document)
            print_json(document | ({} if preview is None else {"forecast": preview.document()}))
        else:
            _print(found, preview, context.screen())
        if output is not None:
            write_json(output, document_of(found.changed, found.log_dirs), indent=1)
        if not execute or not found.changed:
            return Exit.DONE
        plan = PlanFile(entries=found.changed, log_dirs=found.log_dirs)
        small_text = f"relieve {relieve} below {below}" if relieve else f"spend {budget}"
        reason = requested.reason or ("" if small is None else small_text)
        submission = submission_of(plan, goal, replace(requested, reason=reason))
        return Execution(
            context=context, operator=operator, wanted=submission, queries=queries, wait=wait
        ).run()


def _check_goals(goal: proposal.Goal, small: ReliefGoal | int | None, *, sized: bool) -> None:
    if goal.is_empty and small is None:
        raise InvalidInputError(
            "name a goal: --drain, --add, --broker-list, --replication-factor, --rebalance, "
            "--spread-racks, --relieve or --budget"
        )
    if small is not None and not goal.is_empty:
        raise InvalidInputError("--relieve and --budget take no other goal")
    if small is not None and not sized:
        raise InvalidInputError("--relieve and --budget need the sizes of replicas")


def small_goal(
    relieve: str | None, below: str | None, budget: str | None
) -> ReliefGoal | int | None:
    """
    Return what a small plan is to do: relieve, or spend so many bytes; None: there is none.

    Raises:
        InvalidInputError: an option is invalid, or the options contradict each other.

    """
    if relieve is not None and budget is not None:
        raise InvalidInputError("--relieve takes the fewest bytes that are needed, no --budget")
    if below is not None and relieve is None:
        raise InvalidInputError("--below needs --relieve: the broker or the log directory")
    if relieve is not None:
        return small_plans.parse_relief(relieve, below)
    return options.parse(parse_bytes, "--budget", budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generated:
    """A proposal, in the form in which it is printed and submitted."""

    current: Assignment
    """Of the partitions that change."""
    changed: Plan
    log_dirs: NamedDirs = field(default_factory=dict)
    summary: Sequence[str]
    document: Mapping[str, object]


def _proposed(
    operator: OperatorClient, queries: ClusterQueries, goal: proposal.Goal, *, sized: bool
) -> _Generated:
    basis = proposal.read_basis(operator, goal)
    sizes = replica_sizes(operator, queries) if sized else {}
    found = propose(basis.before, basis.goal, sizes)
    return _Generated(
        current={p: found.before[p] for p in found.changed},
        changed=found.changed,
        summary=tuple(proposal.summary_lines(found, basis, sizes)),
        document=proposal.proposal_document(found, basis, sizes),
    )


def _small(
    operator: OperatorClient, queries: ClusterQueries, goal: proposal.Goal, small: ReliefGoal | int
) -> _Generated:
    # A full disk is to be relieved of whatever is on it.
    wanted = goal if goal.topics else replace(goal, all_topics=True)
    basis = small_plans.read_disks(operator, queries, wanted)
    plan: Relief | BudgetPlan
    if isinstance(small, ReliefGoal):
        plan = small_plans.plan_relief(operator, basis, small)
    else:
        plan = small_plans.plan_budget(basis, small)
    return _Generated(
        current=plan.before,
        changed=plan.changed,
        log_dirs=plan.log_dirs,
        summary=tuple(small_plans.plan_lines(plan, basis)),
        document=small_plans.plan_document(plan, basis),
    )


def _print(found: _Generated, preview: Preview | None, screen: Screen | None) -> None:
    if screen is not None:
        forecast = () if preview is None else forecast_screen(preview)
        screen.note(*map(Paragraph, found.summary), *forecast)
    else:
        for line in (*found.summary, *(() if preview is None else forecast_lines(preview))):
            print_note(line)
    if not found.changed:
        print_note(proposal.NOTHING)
        return
    proposed = plan_document(found.changed, found.log_dirs)
    print_line(proposal_text(plan_document(found.current), proposed))
