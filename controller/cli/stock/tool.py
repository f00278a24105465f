"""
The actions of Kafka's tool since 2.6.

A plan becomes a request to the daemon instead of a call to the controller. ``--cancel`` also
cancels reassignments that only add replicas, which Kafka's tool ignores since 3.7. Brokers, topics
and partitions are sorted; Kafka's tool prints some of them in the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import typer

from controller.actions.submission import CheckedSubmission
from controller.cli.context import CommandContext, require_leader
from controller.cli.exits import Exit
from controller.cli.output import NOTHING_WRITTEN, print_line, print_lines, print_note
from controller.cli.stock import cluster, texts
from controller.cli.stock.files import Placement, StockPlan
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, PartitionAssignment, Replicas, TopicPartition
from controller.doctor.snapshot import Disks
from controller.errors import (
    BrokerUnreachableError,
    ControllerError,
    InvalidInputError,
    RefusedError,
)
from controller.planning.plan_goal import PlanGoal
from controller.planning.proposer import propose
from controller.previews.active_reassignments import ClusterState, read_cluster
from controller.previews.proposal import RACKLESS
from controller.zk.operator_client import OperatorClient

QueryDisks = Callable[[Collection[LiveBroker]], Mapping[BrokerId, Disks | str]]
"""Return the log directories of brokers; a text is the reason why they are unknown."""


class TerseError(RefusedError):
    """An error that Kafka's tool prints without the word "Error"."""


def run_tool(action: Callable[[], None]) -> Exit:
    """Run an action; print an error as Kafka's tool does and return its exit code."""
    try:
        action()
    except TerseError as error:
        print_line(str(error))
        return Exit.ERROR
    except ControllerError as error:
        print_line(f"Error: {error}")
        return Exit.ERROR
    return Exit.DONE


class StockTool:
    """One run of Kafka's tool."""

    def __init__(
        self,
        context: CommandContext,
        operator: OperatorClient,
        *,
        dry_run: bool = False,
        query_disks: QueryDisks = lambda _: {},
    ) -> None:
        """
        Act on a cluster.

        Args:
            context: The environment of the command.
            operator: ZooKeeper.
            dry_run: Whether it only checks and prints.
            query_disks: Returns the log directories of brokers.

        """
        self._context = context
        self._operator = operator
        self._dry_run = dry_run
        self._query_disks = query_disks

    def list_active(self) -> None:
        """Carry out ``--list``."""
        print_line(texts.active_text(read_cluster(self._operator).active))

    def verify(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """Carry out ``--verify``; it clears throttles once no reassignment is active."""
        found = read_cluster(self._operator)
        print_line("Status of partition reassignment:")
        for partition, target in sorted(plan.entries.items()):
            now = found.assignment(partition)
            replicas = () if now is None else now.replicas
            is_active = partition in found.active
            print_line(texts.verified_text(partition, None if is_active else replicas, target))
        moves = self._moves(plan)
        print_line("\n".join(texts.move_text(*move) for move in moves))
        is_moving = any(future is not None for _, _, future in moves)
        if not found.active and not is_moving and not preserve_throttles:
            self._clear_throttles(plan, found)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[BrokerId], *, rack_aware: bool
    ) -> None:
        """Carry out ``--generate``, with the fewest copies in place of a fresh assignment."""
        found = read_cluster(self._operator)
        before = {
            TopicPartition(topic, number): assignment.replicas
            for topic in topics
            for number, assignment in _partitions(found, topic).items()
        }
        live = self._operator.cluster.brokers()
        allowed = frozenset(brokers) & live.keys()
        racks = {broker: live[broker].rack if rack_aware else None for broker in live}
        if len({racks[broker] is None for broker in allowed}) > 1:
            raise InvalidInputError(RACKLESS)
        for replicas in before.values():
            if len(replicas) > len(allowed):
                raise InvalidInputError(
                    f"Replication factor: {len(replicas)} larger than available brokers: "
                    f"{len(allowed)}."
                )
        goal = PlanGoal(brokers=allowed, racks=racks, rebalance=True, widest=True)
        after = propose(before, goal).after if before else {}
        print_line(texts.proposal_text(before, after))

    def execute(
        self, plan: StockPlan, *, additional: bool, throttle: int, log_dir_throttle: int
    ) -> None:
        """Carry out ``--execute`` of a checked plan; a negative throttle is none."""
        check_log_dirs(plan)
        check_throttle(throttle)
        if plan.log_dirs:
            check_throttle(log_dir_throttle)
        found = read_cluster(self._operator)
        if found.active and not additional:
            raise TerseError(texts.EXISTING)
        entries = plan.entries
        wanted = {broker for replicas in entries.values() for broker in replicas}
        unknown = sorted(wanted - self._operator.cluster.broker_ids())
        if unknown:
            raise InvalidInputError(f"Unknown broker id {unknown[0]}")
        current = _current(found, entries)
        checked = self._check(plan, throttle, log_dir_throttle)
        print_line(texts.current_text(current))
        if throttle >= 0 or log_dir_throttle >= 0:
            print_line(texts.RUN_VERIFY)
        if throttle >= 0:
            print_line(texts.throttle_text(throttle))
        if log_dir_throttle >= 0:
            print_line(texts.log_dir_throttle_text(log_dir_throttle))
        if self._dry_run:
            print_note(NOTHING_WRITTEN)
            return
        refused = cluster.submit_plan(self._context, self._operator, checked)
        if refused:
            raise TerseError(_problems("Error reassigning partition(s):", refused))
        print_line(texts.started_text(list(entries)))
        print_lines(map(texts.move_started_text, plan.placements))

    def cancel(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """Carry out ``--cancel``."""
        moves = [move for move in self._moves(plan) if move[2] is not None]
        found = read_cluster(self._operator)
        active = sorted(plan.entries.keys() & found.active.keys())
        if active:
            skipped = self._cancel(active)
            if skipped:
                title = f"Error cancelling partition reassignment{texts.plural(len(skipped))} for:"
                raise TerseError(_problems(title, skipped))
            print_line(texts.cancelled_text(active))
        else:
            print_line(texts.NONE_ACTIVE)
        for move, here, _ in moves:
            # The daemon stops it with the reassignment, by naming the present directory.
            print_line(texts.move_started_text(move._replace(directory=here or move.directory)))
        if not moves:
            typer.echo(texts.NO_MOVES, nl=False)
        if not preserve_throttles:
            self._clear_throttles(plan, found)

    # --- the daemon ----------------------------------------------------------------------------

    def _check(self, plan: StockPlan, throttle: int, log_dir_throttle: int) -> CheckedSubmission:
        """Check that a daemon would take a plan now."""
        context, operator = self._context, self._operator
        checked = cluster.check_plan(
            context, operator, plan, throttle=throttle, log_dir_throttle=log_dir_throttle
        )
        if not self._dry_run:
            require_leader(operator)
        return checked

    def _moves(self, plan: StockPlan) -> list[tuple[Placement, str | None, str | None]]:
        """Return each replica that is to be in a log directory, where it is, and moves to."""
        placements = plan.placements
        if not placements:
            return []
        live = self._operator.cluster.brokers()
        concerned = {p.broker for p in placements}
        answers = self._query_disks([b for b in live.values() if b.id in concerned])
        found = []
        for placement in placements:
            disks = answers.get(placement.broker, "it is not live")
            if isinstance(disks, str):
                why = f"broker {placement.broker} does not report its log directories: {disks}"
                raise BrokerUnreachableError(why)
            here = disks.placed.get(placement.partition)
            found.append((placement, here, disks.futures.get(placement.partition)))
        return found

    def _cancel(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        if self._dry_run:
            return {}
        require_leader(self._operator)
        return cluster.cancel_partitions(self._context, self._operator, partitions)

    def _clear_throttles(self, plan: StockPlan, found: ClusterState) -> None:
        """Clear the throttles of all brokers and the plan's topics; the daemon keeps its own."""
        replicas = {b for assigned in plan.entries.values() for b in assigned}
        brokers = sorted(replicas | self._operator.cluster.broker_ids())
        print_line(texts.clearing_text("broker", brokers))
        if not self._dry_run:
            self._operator.throttle_writes.clear(brokers=brokers)
        topics = sorted({partition.topic for partition in plan.entries})
        print_line(texts.clearing_text("topic", topics))
        for topic in topics:
            if topic not in found.topics:
                raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}The topic '{topic}' does not exist.")
        if self._dry_run:
            print_note(NOTHING_WRITTEN)
        else:
            self._operator.throttle_writes.clear(topics=topics)


def check_log_dirs(plan: StockPlan) -> None:
    """
    Check that the log directories of a plan are absolute paths.

    Raises:
        InvalidInputError: one is not.

    """
    for (partition, broker), directory in plan.log_dirs.items():
        if not directory.startswith("/"):
            raise InvalidInputError(
                f"the log directory {directory} of {partition} on broker {broker} is not absolute"
            )


def check_throttle(throttle: int) -> None:
    """
    Check that a throttle lets replicas be copied.

    Raises:
        InvalidInputError: it is 0.

    """
    if throttle == 0:
        raise InvalidInputError("a throttle of 0 B/s would stop every copy for good")


def _partitions(found: ClusterState, topic: str) -> Mapping[int, PartitionAssignment]:
    assignment = found.topics.get(topic)
    if assignment is None:
        raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}Topic {topic} not found.")
    return assignment.partitions


def _current(
    found: ClusterState, plan: Mapping[TopicPartition, Replicas]
) -> dict[TopicPartition, Replicas]:
    """Return the replicas of the plan's partitions, which must exist."""
    for topic in sorted({p.topic for p in plan}):
        _partitions(found, topic)
    current = {p: now.replicas for p in plan if (now := found.assignment(p)) is not None}
    missing = sorted(plan.keys() - current.keys())
    if missing:
        names = ", ".join(map(str, missing))
        raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}Unable to find partition: {names}")
    return current


def _problems(title: str, problems: Mapping[TopicPartition, str]) -> str:
    return "\n".join((title, *(f"{p}: {why}" for p, why in sorted(problems.items()))))
