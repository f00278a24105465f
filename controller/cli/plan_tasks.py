"""
``add``, ``replication`` and ``rebalance``: plan what an operator has to do, and submit the plan.

The plan is that of ``generate`` with the same goal, the submission that of ``execute``. The last
line answers what the operator wants to know: of the present replicas, not of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.actions.submission import submission_of
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.execute import Execution
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_note
from controller.core.model import BrokerId, TopicPartition, count_text
from controller.core.requests.submissions import RequestOptions
from controller.planning.plan_goal import Assignment, Proposal, broker_loads, leader_counts
from controller.planning.proposer import propose
from controller.previews import proposal
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.plan_files import PlanFile
from controller.units import names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient


EXCLUDE_TOPICS: Final = option("REGEX", "Leave out topics whose whole name matches. Default: none.")
DISABLE_RACK_AWARE: Final = flag("--disable-rack-aware", "Ignore racks.")


@command("dry_run", "timeout", "all_rows", "as_json")
def add(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    brokers: list[int] = argument("BROKER", "New brokers.", default=...),
    *,
    exclude_topics: str | None = EXCLUDE_TOPICS,
    disable_rack_aware: bool = DISABLE_RACK_AWARE,
    requested: RequestOptions,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Move an even share of all replicas and leaders to new brokers.

    Example: reassigner add 6 --throttle 50MB --wait --zookeeper zk1:2181/kafka

    Replicas move to the named brokers only, as few as give them their share. Exit code: as of
    execute; 0 also if the brokers have their share, 2 if partitions are still reassigned.
    """
    named = frozenset(map(BrokerId, brokers))
    goal = proposal.Goal(
        all_topics=True, excluded=exclude_topics, added=named, rack_aware=not disable_rack_aware
    )
    return _run(context, goal, requested, lambda found, _: SharesAnswer(found, named), wait=wait)


@command("dry_run", "timeout", "all_rows", "as_json")
def replication(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    topics: list[str] = argument("TOPIC", "Topics to change.", default=...),
    factor: int = argument(
        "N", "Number of replicas of each partition.", default=..., least=1, is_first=True
    ),
    *,
    disable_rack_aware: bool = DISABLE_RACK_AWARE,
    requested: RequestOptions,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Change the replication factor of topics.

    Example: reassigner replication orders payments 3 --wait --zookeeper zk1:2181/kafka

    New replicas go to the emptiest brokers of unused racks; those to drop are of the fullest ones.
    Exit code: as of execute; 0 also if nothing has to change, 2 if partitions are still reassigned.
    """
    goal = proposal.Goal(
        topics=options.topics_of(topics),
        replication_factor=factor,
        rack_aware=not disable_rack_aware,
    )
    return _run(context, goal, requested, lambda found, _: FactorAnswer(found, factor), wait=wait)


@command("dry_run", "timeout", "all_rows", "as_json")
def rebalance(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    topics: list[str] | None = argument("TOPIC", "Topics to reassign. Default: all."),
    *,
    exclude_topics: str | None = EXCLUDE_TOPICS,
    disable_rack_aware: bool = DISABLE_RACK_AWARE,
    requested: RequestOptions,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Even out the replicas and the leaders of brokers, with as few copies as possible.

    Example: reassigner rebalance --throttle 50MB --wait --zookeeper zk1:2181/kafka

    Brokers that are drained get nothing. Exit code: as of execute; 0 also if nothing has to change,
    2 if partitions are still reassigned.
    """
    goal = proposal.Goal(
        topics=options.topics_of(topics),
        all_topics=not topics,
        excluded=exclude_topics,
        rebalance=True,
        rack_aware=not disable_rack_aware,
    )
    return _run(context, goal, requested, BalanceAnswer, wait=wait)


def _run(
    context: CommandContext,
    goal: proposal.Goal,
    requested: RequestOptions,
    answer_of: Callable[[Proposal, Collection[BrokerId]], Answer],
    *,
    wait: bool,
) -> Exit:
    """Plan, submit the plan if it changes anything, and answer."""
    with context.inspected() as (operator, queries):
        basis = proposal.read_basis(operator, goal)
        sizes = replica_sizes(operator, queries)
        found = propose(basis.before, basis.goal, sizes)
        for line in proposal.summary_lines(found, basis, sizes):
            print_note(line)
        answer = answer_of(found, basis.goal.brokers)
        if not found.changed:
            code = Exit.IN_PROGRESS if basis.left_out else Exit.DONE
            said = answer(_present(operator, found))
            document = {"request": None, "result": code.name.lower(), "answer": said}
            context.print_result(lambda: document, [proposal.NOTHING, said])
            return code
        execution = Execution(
            context=context,
            operator=operator,
            wanted=submission_of(PlanFile(entries=found.changed), goal, requested),
            queries=queries,
            wait=wait,
            answer=lambda found_in: answer(None if found_in is None else _present(found_in, found)),
        )
        code = execution.run()
        if code is Exit.DONE and wait and basis.left_out and not context.dry_run:
            return Exit.IN_PROGRESS
        return code


def replica_sizes(operator: OperatorClient, queries: ClusterQueries) -> dict[TopicPartition, int]:
    """Query the brokers for the size of each partition; print a note about silent ones."""
    disks = queries.log_dirs(operator.cluster.brokers().values())
    for line in proposal.silence_lines(disks):
        print_note(line)
    return proposal.sizes_of(disks)


# --- answers -------------------------------------------------------------------------------------

Answer = Callable[[Assignment | None], str]
"""Answers from the replicas that partitions have; None: says what the plan would give them."""


def _present(operator: OperatorClient, found: Proposal) -> Assignment:
    """Return the replicas that partitions have now, without those that are being copied."""
    now = operator.partitions.assignments(found.before)
    return {
        p: tuple(r for r in assignment.replicas if r not in assignment.adding_replicas)
        for p, assignment in now.items()
        if assignment is not None
    }


@dataclass(frozen=True, slots=True)
class SharesAnswer:
    """Answers how much of their share new brokers have."""

    found: Proposal
    brokers: Collection[BrokerId]

    def __call__(self, now: Assignment | None) -> str:
        """Answer for each broker."""
        shares = broker_loads(self.found.after, self.brokers)
        held = broker_loads(self.found.before if now is None else now, self.brokers)
        return "; ".join(
            self._of_one(broker, shares[broker], held[broker], is_plan=now is None)
            for broker in sorted(self.brokers)
        )

    def _of_one(self, broker: BrokerId, share: int, held: int, *, is_plan: bool) -> str:
        replicas = count_text(share, "replica")
        if held >= share:
            return f"broker {broker} has its share of {replicas}"
        if is_plan:
            return f"broker {broker} would get its share of {replicas}; it has {held} now"
        return f"broker {broker} has {held} of its share of {replicas}"


@dataclass(frozen=True, slots=True)
class FactorAnswer:
    """Answers how many partitions have the replication factor."""

    found: Proposal
    factor: int

    def __call__(self, now: Assignment | None) -> str:
        """Answer for all topics together."""
        present = self.found.before if now is None else now
        total, replicas = len(self.found.before), count_text(self.factor, "replica")
        reached = sum(len(found) == self.factor for found in present.values())
        topics = names_text(dict.fromkeys(p.topic for p in self.found.before))
        have = "has" if total == 1 else "have"
        if reached == total:
            return f"{count_text(total, 'partition')} of {topics} {have} {replicas}"
        if now is None:
            whole = count_text(total, "partition")
            return f"{whole} of {topics} would have {replicas}; {reached} have it now"
        return f"{reached} of {count_text(total, 'partition')} of {topics} {have} {replicas}"


@dataclass(frozen=True, slots=True)
class BalanceAnswer:
    """Answers how even brokers are."""

    found: Proposal
    brokers: Collection[BrokerId]

    def __call__(self, now: Assignment | None) -> str:
        """Answer with the least and the most of a broker."""
        present = self._spans(self.found.before if now is None else now)
        planned = self._spans(self.found.after)
        words = "each broker {} {} replicas and {} preferred leaders"
        if present == planned:
            return words.format("has", *present)
        if now is None:
            return f"{words.format('would have', *planned)}; now {' and '.join(present)}"
        return f"{words.format('has', *present)} so far, of {' and '.join(planned)}"

    def _spans(self, assignment: Assignment) -> tuple[str, str]:
        """Return the least and the most replicas, and preferred leaders, of a broker."""
        loads = broker_loads(assignment, self.brokers), leader_counts(assignment, self.brokers)
        replicas, leaders = ([load[broker] for broker in self.brokers] for load in loads)
        return (
            f"{min(replicas)} to {max(replicas)}",
            f"{min(leaders)} to {max(leaders)}",
        )
