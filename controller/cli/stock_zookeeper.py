"""
Kafka's own reassignment tool as it was up to 2.5, when it spoke to ZooKeeper; and KIP-236's cancel.

A run that fails says so and ends with exit code 0, as that tool did: only wrong usage ends with 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controller.cli import stock_texts as texts
from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.plan_preview import check_enabled
from controller.cli.ports import InspectorPort
from controller.cli.report_text import ids, say, tell
from controller.cli.stock import check_log_dirs, check_throttle
from controller.cli.stock_activities import Activities, read_activities
from controller.cli.stock_files import StockPlan
from controller.cli.stock_requests import call_off, check_led, submit_plan
from controller.core.model import Replicas, TopicPartition
from controller.errors import ControllerError, InvalidInputError

_LOOKED_AT: Final = 10
"""Ended requests that are compared with a plan."""


def run_old_tool(action: Callable[[], None]) -> Exit:
    """Run an action and end as the tool did."""
    try:
        action()
    except ControllerError as error:
        say(f"Partitions reassignment failed due to {error}")
    return Exit.DONE


class OldStockTool:
    """One run of the tool; ``generate`` is as in ``stock``."""

    def __init__(
        self, around: CommandContext, inspector: InspectorPort, *, dry_run: bool = False
    ) -> None:
        """Act on the cluster that is inspected, or only say what would be said."""
        self._around = around
        self._inspector = inspector
        self._dry_run = dry_run

    def verify(self, plan: StockPlan) -> None:
        """``--verify``; throttles are removed once everything in the plan is completed."""
        check_log_dirs(plan)
        found = read_activities(self._inspector)
        say("Status of partition reassignment: ")
        lines: list[str] = []
        for partition, target in plan.entries.items():
            if partition in found.active:
                lines.append(f"Reassignment of partition {partition} is still in progress")
                continue
            now = found.assignment(partition)
            replicas = () if now is None else now.replicas
            if replicas == target:
                lines.append(f"Reassignment of partition {partition} completed successfully")
                continue
            tell(
                f"ERROR: Assigned replicas ({ids(replicas)}) don't match the list of replicas for "
                f"reassignment ({ids(target)}) for partition {partition}"
            )
            lines.append(f"Reassignment of partition {partition} failed")
        for line in lines:
            say(line)
        if all(line.endswith("completed successfully") for line in lines):
            self._remove_throttles(plan)

    def _remove_throttles(self, plan: StockPlan) -> None:
        if self._dry_run:
            tell("Nothing was written.")
            return
        cleared = self._inspector.clear_throttles(
            brokers=sorted(self._inspector.live_brokers()),
            topics=dict.fromkeys(p.topic for p in plan.entries),
        )
        if cleared or self._was_throttled(plan):
            say("Throttle was removed.")

    def _was_throttled(self, plan: StockPlan) -> bool:
        """Whether the daemon throttled the last request for this plan, and so has ended that."""
        ended = [h for h in self._inspector.read_history().values() if h.summary is not None]
        for history in reversed(ended[-_LOOKED_AT:]):
            accepted = self._inspector.read_accepted(history.request)
            if {e.partition: e.target for e in accepted} == plan.entries:
                return history.options.throttle is not None
        return False

    def execute(self, plan: StockPlan, *, throttle: int, log_dir_throttle: int) -> None:
        """``--execute`` of a plan that was checked; a throttle below zero is none."""
        found = read_activities(self._inspector)
        _check_there(found, plan.entries)
        wanted = dict.fromkeys(b for replicas in plan.entries.values() for b in replicas)
        strangers = [b for b in wanted if b not in self._inspector.live_brokers()]
        if strangers:
            raise InvalidInputError(
                f"The proposed assignment contains non-existent brokerIDs: {ids(strangers)}"
            )
        check_log_dirs(plan)
        check_throttle(throttle)
        if found.active:
            say("There is an existing assignment running.")
            return
        check_enabled(self._inspector)
        check_led(self._inspector, dry_run=self._dry_run)
        topics = dict.fromkeys(p.topic for p in plan.entries)
        say(texts.current_text(_whole(found, list(topics))))
        if throttle >= 0:
            say(texts.RUN_VERIFY_BEFORE_2_6)
            say(texts.throttle_text(throttle))
        if log_dir_throttle >= 0:
            say(texts.log_dir_throttle_text(log_dir_throttle))
        if self._dry_run:
            tell("Nothing was written.")
            return
        refused = submit_plan(
            self._around, self._inspector, plan.entries, throttle if throttle >= 0 else None
        )
        if len(refused) == len(plan.entries):
            say(f"Failed to reassign partitions {_scala_map(plan.entries)}")
        else:
            say("Successfully started reassignment of partitions.")
        for partition, why in sorted(refused.items()):
            say(f"{partition}: {why}")

    def cancel(self) -> None:
        """``--cancel`` of KIP-236: everything that is being reassigned."""
        found = read_activities(self._inspector)
        check_led(self._inspector, dry_run=self._dry_run)
        specs = self._inspector.read_specs(found.active)
        rows = []
        for partition in sorted(found.active):
            original = getattr(specs.get(partition), "original", None) or ()
            target = tuple(
                r
                for r in found.active[partition].replicas
                if r not in found.active[partition].removing
            )
            rows.append(
                f"{partition} -> Map(replicas -> Buffer({', '.join(map(str, target))}), "
                f"original_replicas -> Buffer({', '.join(map(str, original))}))"
            )
        say(f"Rolling back the current pending reassignments Map({', '.join(rows)})")
        if self._dry_run:
            tell("Nothing was written.")
            return
        skipped = call_off(self._around, self._inspector, list(found.active)) if rows else {}
        for partition, why in sorted(skipped.items()):
            say(f"{partition}: {why}")
        say("Successfully submitted cancellation of reassignments.")
        say("The cancelled pending reassignments throttle was removed.")
        say(
            "Please run --verify to have the previous reassignments (not just the cancelled "
            "reassignments in progress) throttle removed."
        )


def _check_there(found: Activities, plan: Mapping[TopicPartition, Replicas]) -> None:
    missing = [str(p) for p in plan if found.assignment(p) is None]
    if missing:
        raise InvalidInputError(
            "The proposed assignment contains non-existent partitions: "
            f"ListBuffer({', '.join(missing)})"
        )


def _whole(found: Activities, topics: Sequence[str]) -> dict[TopicPartition, Replicas]:
    """Return every partition of topics."""
    return {
        TopicPartition(topic, number): assignment.replicas
        for topic in topics
        for number, assignment in found.topics[topic].partitions.items()
    }


def _scala_map(plan: Mapping[TopicPartition, Replicas]) -> str:
    rows = (f"({p},List({', '.join(map(str, replicas))}))" for p, replicas in plan.items())
    return f"ListBuffer({', '.join(rows)})"
