"""
The actions of Kafka's tool since 2.6.

A plan becomes a request to the daemon instead of a call to the controller: the answer that Kafka's
tool waits for is that the daemon has accepted or refused. Without a leading daemon nothing is
written. ``--cancel`` also
cancels reassignments that only add replicas, which Kafka's tool ignores since 3.7. Brokers, topics
and partitions are sorted; Kafka's tool prints some of them in the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from controller.actions.submission import CheckedSubmission, PlanSubmission, check
from controller.cli.cancel import is_selected
from controller.cli.context import CommandContext, require_leader
from controller.cli.output import NOTHING_WRITTEN, Exit, print_line, print_lines, print_note
from controller.cli.request_state import history_of, read_request
from controller.cli.stock import formats
from controller.cli.stock.formats import Placement, StockPlan
from controller.cli.submitting import await_daemon, write_submission
from controller.core.cluster.model import LiveBroker
from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    TopicPartition,
)
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.doctor.broker_answers import Disks
from controller.errors import (
    BrokerUnreachableError,
    ControllerError,
    InvalidInputError,
    RefusedError,
    RequestTimeoutError,
)
from controller.planning.plan_goal import PlanGoal
from controller.planning.proposer import propose
from controller.previews.entries import ClusterState, read_cluster
from controller.previews.plan_files import PlanFile
from controller.previews.proposal import RACKLESS

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

QueryDisks = Callable[[Collection[LiveBroker]], Mapping[BrokerId, Disks | str]]
"""Return the log directories of brokers; a text is the reason why they are unknown."""


REASON: Final = "reassigner stock"


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


@dataclass(frozen=True, slots=True)
class StockTool:
    """One run of Kafka's tool; a dry run only checks and prints."""

    context: CommandContext
    operator: OperatorClient
    query_disks: QueryDisks = lambda _: {}

    def list_active(self) -> None:
        """Carry out ``--list``."""
        print_line(formats.active_text(read_cluster(self.operator).active))

    def verify(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """Carry out ``--verify``; it clears throttles once no reassignment is active."""
        found = read_cluster(self.operator)
        print_line("Status of partition reassignment:")
        for partition, target in sorted(plan.entries.items()):
            now = found.assignment(partition)
            replicas = () if now is None else now.replicas
            is_active = partition in found.active
            print_line(formats.verified_text(partition, None if is_active else replicas, target))
        moves = self._moves(plan)
        print_line("\n".join(formats.move_text(*move) for move in moves))
        is_moving = any(future is not None for _, _, future in moves)
        if not found.active and not is_moving and not preserve_throttles:
            self._clear_throttles(plan, found)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[BrokerId], *, rack_aware: bool
    ) -> None:
        """Carry out ``--generate``, with the fewest copies in place of a fresh assignment."""
        found = read_cluster(self.operator)
        before = {
            TopicPartition(topic, number): assignment.replicas
            for topic in topics
            for number, assignment in _partitions(found, topic).items()
        }
        live = self.operator.cluster.brokers()
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
        documents = map(formats.plan_document, (before, after))
        print_line(formats.proposal_text(*documents))

    def execute(
        self, plan: StockPlan, *, additional: bool, throttle: int, log_dir_throttle: int
    ) -> None:
        """Carry out ``--execute`` of a checked plan; a negative throttle is none."""
        for (partition, broker), path in plan.log_dirs.items():
            if not path.startswith("/"):
                raise InvalidInputError(
                    f"the log directory {path} of {partition} on broker {broker} is not absolute"
                )
        check_throttle(throttle)
        if plan.log_dirs:
            check_throttle(log_dir_throttle)
        found = read_cluster(self.operator)
        if found.active and not additional:
            raise TerseError(formats.EXISTING)
        entries = plan.entries
        wanted = {broker for replicas in entries.values() for broker in replicas}
        unknown = sorted(wanted - self.operator.cluster.broker_ids())
        if unknown:
            raise InvalidInputError(f"Unknown broker id {unknown[0]}")
        current = _current(found, entries)
        checked = self._check(plan, throttle, log_dir_throttle)
        warning = formats.RUN_VERIFY if throttle >= 0 or log_dir_throttle >= 0 else None
        refused = self._submit(checked, current, warning, throttle, log_dir_throttle)
        if refused is None:
            return
        if refused:
            raise TerseError(_problems("Error reassigning partition(s):", refused))
        print_line(formats.started_text(list(entries)))
        print_lines(map(formats.move_started_text, plan.placements))

    def cancel(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """Carry out ``--cancel``."""
        moves = [move for move in self._moves(plan) if move[2] is not None]
        found = read_cluster(self.operator)
        active = sorted(plan.entries.keys() & found.active.keys())
        if active:
            skipped = self._cancel(active)
            if skipped:
                ending = formats.plural(len(skipped))
                title = f"Error cancelling partition reassignment{ending} for:"
                raise TerseError(_problems(title, skipped))
            print_line(formats.cancelled_text(active))
        else:
            print_line(formats.NONE_ACTIVE)
        for move, here, _ in moves:
            # The daemon stops it with the reassignment, by naming the present directory.
            print_line(formats.move_started_text(move._replace(directory=here or move.directory)))
        if not moves:
            typer.echo(formats.NO_MOVES, nl=False)
        if not preserve_throttles:
            self._clear_throttles(plan, found)

    def _check(self, plan: StockPlan, throttle: int, log_dir_throttle: int) -> CheckedSubmission:
        options = RequestOptions(
            reason=REASON,
            requested_by=self.context.name_of_user(),
            throttle=throttle if throttle >= 0 else None,
            log_dirs_throttle=log_dir_throttle if plan.log_dirs and log_dir_throttle > 0 else None,
            keep_leaders=True,
        )
        file = PlanFile(entries=plan.entries, log_dirs=plan.named_dirs)
        wanted = PlanSubmission(plan=file, options=options, may_change_factors=True)
        checked = check(self.operator, wanted)
        if not self.context.dry_run:
            require_leader(self.operator)
        return checked

    def _submit(
        self,
        checked: CheckedSubmission,
        current: Mapping[TopicPartition, Replicas],
        warning: str | None,
        throttle: int,
        log_dir_throttle: int,
    ) -> Mapping[TopicPartition, str] | None:
        """Submit a plan; return the refused partitions with the reason, None in a dry run."""
        print_line(formats.current_text(current))
        if warning is not None:
            print_line(warning)
        if throttle >= 0:
            print_line(f"The inter-broker throttle limit was set to {throttle} B/s")
        if log_dir_throttle >= 0:
            print_line(f"The replica-alter-dir throttle limit was set to {log_dir_throttle} B/s")
        if self.context.dry_run:
            print_note(NOTHING_WRITTEN)
            return None
        operator, written = self.operator, write_submission(self.operator, checked)
        request, names = written.request, set(written.names)
        if not await_daemon(
            self.context, operator, lambda: not names & set(operator.requests.open())
        ):
            raise RequestTimeoutError(
                f"the plan was written as {request}, but no reassigner has accepted it yet; "
                f"`reassigner cancel {request}` cancels it"
            )
        rejected = read_request(operator, request).history.refused
        return {r.partition: r.detail for r in rejected if r.partition is not None}

    def _moves(self, plan: StockPlan) -> list[tuple[Placement, str | None, str | None]]:
        """Return each replica that is to be in a log directory, where it is, and moves to."""
        placements = plan.placements
        if not placements:
            return []
        live = self.operator.cluster.brokers()
        concerned = {p.broker for p in placements}
        answers = self.query_disks([b for b in live.values() if b.id in concerned])
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
        """Cancel partitions; once they roll back, return the others with the reason."""
        if self.context.dry_run:
            return {}
        operator = self.operator
        require_leader(operator)
        written = operator.writes.cancel(
            Cancellation(
                partitions=frozenset(partitions),
                reason=REASON,
                requested_by=self.context.name_of_user(),
            )
        )

        def is_taken_up() -> bool:
            if is_selected(operator, written):
                return True
            specs = operator.partitions.specs(partitions).values()
            return all(
                isinstance(s, ReassignmentSpec) and s.cancelled_by is not None for s in specs
            )

        if not await_daemon(self.context, operator, is_taken_up):
            raise RequestTimeoutError(
                f"the cancellation was written as {written.request}, but not taken up yet"
            )
        return {
            o.partition: o.detail
            for o in history_of(operator, written.request).endings
            if o.fate is OutcomeKind.SKIPPED and o.partition in partitions
        }

    def _clear_throttles(self, plan: StockPlan, found: ClusterState) -> None:
        """Clear the throttles of all brokers and the plan's topics; the daemon keeps its own."""
        replicas = {b for assigned in plan.entries.values() for b in assigned}
        brokers = sorted(replicas | self.operator.cluster.broker_ids())
        print_line(formats.clearing_text("broker", brokers))
        if not self.context.dry_run:
            self.operator.throttle_writes.clear(brokers=brokers)
        topics = sorted({partition.topic for partition in plan.entries})
        print_line(formats.clearing_text("topic", topics))
        for topic in topics:
            if topic not in found.topics:
                problem = f"The topic '{topic}' does not exist."
                raise InvalidInputError(f"{formats.UNKNOWN_TOPIC}{problem}")
        if self.context.dry_run:
            print_note(NOTHING_WRITTEN)
        else:
            self.operator.throttle_writes.clear(topics=topics)


def check_throttle(throttle: int) -> None:
    """Check that a throttle lets replicas be copied."""
    if throttle == 0:
        raise InvalidInputError("a throttle of 0 B/s would stop every copy for good")


def _partitions(found: ClusterState, topic: str) -> Mapping[int, PartitionAssignment]:
    assignment = found.topics.get(topic)
    if assignment is None:
        raise InvalidInputError(f"{formats.UNKNOWN_TOPIC}Topic {topic} not found.")
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
        raise InvalidInputError(f"{formats.UNKNOWN_TOPIC}Unable to find partition: {names}")
    return current


def _problems(title: str, problems: Mapping[TopicPartition, str]) -> str:
    return "\n".join((title, *(f"{p}: {why}" for p, why in sorted(problems.items()))))
