"""
Kafka's own reassignment tool, as it is from 2.6 on: its actions, texts and exit codes, our daemon.

What differs is who carries a plan out: a request to the daemon instead of a call to the controller.
And ``--cancel`` also calls off what only adds replicas, which the tool has passed over since 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import typer

from controller.cli import stock_texts as texts
from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.plan_preview import check_enabled
from controller.cli.ports import InspectorPort
from controller.cli.report_text import say, tell
from controller.cli.stock_activities import Activities, read_activities
from controller.cli.stock_files import StockPlan
from controller.cli.stock_orders import hashed_ints, hashed_partitions, hashed_texts
from controller.cli.stock_requests import call_off, check_led, submit_plan
from controller.core.model import BrokerId, PartitionAssignment, Replicas, TopicPartition
from controller.errors import ControllerError, InvalidInputError, RefusedError
from controller.planning.plan_goal import PlanGoal
from controller.planning.proposer import propose


class TerseError(RefusedError):
    """The tool says it without the word "Error"."""


def run_tool(action: Callable[[], None]) -> Exit:
    """Run an action and end as the tool does."""
    try:
        action()
    except TerseError as error:
        say(str(error))
        return Exit.ERROR
    except ControllerError as error:
        say(f"Error: {error}")
        return Exit.ERROR
    return Exit.DONE


class StockTool:
    """One run of the tool."""

    def __init__(
        self, around: CommandContext, inspector: InspectorPort, *, dry_run: bool = False
    ) -> None:
        """Act on the cluster that is inspected, or only say what would be said."""
        self._around = around
        self._inspector = inspector
        self._dry_run = dry_run

    # --- looking -------------------------------------------------------------------------------

    def list_active(self) -> None:
        """``--list``."""
        say(texts.activities_text(read_activities(self._inspector).active))

    def verify(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """``--verify``; throttles are cleared once nothing is being reassigned any more."""
        check_log_dirs(plan)
        found = read_activities(self._inspector)
        lines = [_verified(found, p, target) for p, target in sorted(plan.entries.items())]
        for line in ("Status of partition reassignment:", *lines, ""):
            say(line)
        if not found.active and not preserve_throttles:
            self._clear_throttles(plan, found)

    def generate(
        self, topics: Sequence[str], brokers: Sequence[BrokerId], *, rack_aware: bool
    ) -> None:
        """``--generate``, but moving no more replicas than it takes."""
        found = read_activities(self._inspector)
        before = {
            TopicPartition(topic, number): assignment.replicas
            for topic in topics
            for number, assignment in _topic(found, topic).items()
        }
        live = self._inspector.survey_brokers()
        allowed = frozenset(brokers) & live.keys()
        racks = {broker: live[broker].rack if rack_aware else None for broker in live}
        named = {racks[broker] is None for broker in allowed}
        if len(named) > 1:
            raise InvalidInputError(texts.RACKLESS)
        for replicas in before.values():
            if len(replicas) > len(allowed):
                raise InvalidInputError(
                    f"Replication factor: {len(replicas)} larger than available brokers: "
                    f"{len(allowed)}."
                )
        spec = PlanGoal(brokers=allowed, racks=racks, rebalance=True, widest=True)
        after = propose(before, spec).after if before else {}
        say(f"Current partition replica assignment\n{texts.plan_json(before)}\n")
        say(f"Proposed partition reassignment configuration\n{texts.plan_json(after)}")

    # --- changing ------------------------------------------------------------------------------

    def execute(
        self, plan: StockPlan, *, additional: bool, throttle: int, log_dir_throttle: int
    ) -> None:
        """``--execute`` of a plan that was checked; a throttle below zero is none."""
        check_log_dirs(plan)
        check_throttle(throttle)
        found = read_activities(self._inspector)
        if found.active and not additional:
            raise TerseError(texts.EXISTING)
        entries = plan.entries
        wanted = {broker for replicas in entries.values() for broker in replicas}
        for broker in hashed_ints(wanted - self._inspector.live_brokers()):
            raise InvalidInputError(f"Unknown broker id {broker}")
        current = _current(found, entries)
        check_enabled(self._inspector)
        check_led(self._inspector, dry_run=self._dry_run)
        say(texts.current_text(current))
        if throttle >= 0 or log_dir_throttle >= 0:
            say(texts.RUN_VERIFY)
        if throttle >= 0:
            say(texts.throttle_text(throttle))
        if log_dir_throttle >= 0:
            # Of the brokers whose replicas change directories, and those are none.
            say(texts.log_dir_throttle_text(log_dir_throttle))
        if self._dry_run:
            tell("Nothing was written.")
            return
        refused = submit_plan(
            self._around, self._inspector, entries, throttle if throttle >= 0 else None
        )
        if refused:
            raise TerseError(_problems("Error reassigning partition(s):", refused))
        say(texts.started_text(list(entries)))

    def cancel(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """``--cancel``."""
        check_log_dirs(plan)
        found = read_activities(self._inspector)
        active = sorted(plan.entries.keys() & found.active.keys())
        if active:
            check_led(self._inspector, dry_run=self._dry_run)
            skipped = {} if self._dry_run else call_off(self._around, self._inspector, active)
            if skipped:
                title = f"Error cancelling partition reassignment{texts.plural(len(skipped))} for:"
                raise TerseError(_problems(title, skipped))
            say(texts.cancelled_text(active))
        else:
            say(texts.NONE_ACTIVE)
        typer.echo(texts.NO_MOVES, nl=False)
        if not preserve_throttles:
            self._clear_throttles(plan, found)

    def _clear_throttles(self, plan: StockPlan, found: Activities) -> None:
        """Take throttles off all brokers and the plan's topics; what the daemon set it takes."""
        entries = plan.entries
        involved = [b for replicas in entries.values() for b in replicas]
        brokers = hashed_ints([*sorted(self._inspector.live_brokers()), *involved])
        say(texts.clearing_text("broker", brokers))
        if not self._dry_run:
            self._inspector.clear_throttles(brokers=[BrokerId(b) for b in brokers])
        topics = hashed_texts(p.topic for p, _ in plan.listed)
        say(texts.clearing_text("topic", topics))
        for topic in topics:
            if topic not in found.topics:
                raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}The topic '{topic}' does not exist.")
        if self._dry_run:
            tell("Nothing was written.")
        else:
            self._inspector.clear_throttles(topics=topics)


def check_log_dirs(plan: StockPlan) -> None:
    """
    See whether a plan leaves the log directories to the brokers.

    Raises:
        PlanInvalidError: it chooses one.

    """
    for (partition, broker), directory in plan.log_dirs.items():
        raise InvalidInputError(
            f"log directories cannot be chosen, but {partition} is to be in {directory} on broker "
            f'{broker}: write "any"'
        )


def check_throttle(throttle: int) -> None:
    """
    See whether anything would be copied.

    Raises:
        PlanInvalidError: nothing would.

    """
    if throttle == 0:
        raise InvalidInputError("a throttle of 0 B/s would stop every copy for good")


def _verified(found: Activities, partition: TopicPartition, target: Replicas) -> str:
    if partition in found.active:
        return texts.verified_text(partition, None, target)
    topic = found.topics.get(partition.topic)
    count = 0 if topic is None else len(topic.partitions)
    if topic is not None and partition.partition == count:
        # The tool counts them one too far.
        raise InvalidInputError(f"Index {count} out of bounds for length {count}")
    now = found.assignment(partition)
    return texts.verified_text(partition, () if now is None else now.replicas, target)


def _topic(found: Activities, topic: str) -> Mapping[int, PartitionAssignment]:
    assignment = found.topics.get(topic)
    if assignment is None:
        raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}Topic {topic} not found.")
    return assignment.partitions


def _current(
    found: Activities, plan: Mapping[TopicPartition, Replicas]
) -> dict[TopicPartition, Replicas]:
    """Return the replicas as they are, of partitions that are all there."""
    for topic in hashed_texts(p.topic for p in plan):
        if topic not in found.topics:
            raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}Topic {topic} not found.")
    current = {p: now.replicas for p in plan if (now := found.assignment(p)) is not None}
    missing = hashed_partitions(p for p in plan if p not in current)
    if missing:
        names = ", ".join(map(str, missing))
        raise InvalidInputError(f"{texts.UNKNOWN_TOPIC}Unable to find partition: {names}")
    return current


def _problems(title: str, problems: Mapping[TopicPartition, str]) -> str:
    return "\n".join((title, *(f"{p}: {why}" for p, why in sorted(problems.items()))))
