"""
The actions of Kafka's tool before 2.6, when it used ZooKeeper; and ``--cancel`` of KIP-236.

An error is printed and the exit code is 0, as it was. Only wrong usage has exit code 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from controller.cli.context import require_leader
from controller.cli.output import NOTHING_WRITTEN, Exit, print_line, print_lines, print_note
from controller.cli.stock import formats
from controller.cli.stock.formats import StockPlan
from controller.cli.stock.tool import StockTool, check_throttle
from controller.core.model import Replicas, TopicPartition
from controller.errors import ControllerError, InvalidInputError
from controller.previews.entries import ClusterState, read_cluster
from controller.units import ids

_REQUESTS_MAX: Final = 10
"""Ended requests that are compared with a plan."""


def run_old_tool(action: Callable[[], None]) -> Exit:
    """Run an action; print an error as Kafka's tool did."""
    try:
        action()
    except ControllerError as error:
        print_line(f"Partitions reassignment failed due to {error}")
    return Exit.DONE


class OldStockTool(StockTool):
    """One run of Kafka's tool before 2.6; ``--generate`` and ``--list`` are the same."""

    def verify(self, plan: StockPlan, *, preserve_throttles: bool) -> None:
        """Carry out ``--verify``; it removes throttles once all partitions are completed."""
        del preserve_throttles
        _check_no_log_dirs(plan)
        found = read_cluster(self.operator)
        print_line("Status of partition reassignment: ")
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
            print_note(
                f"ERROR: Assigned replicas ({ids(replicas)}) don't match the list of replicas for "
                f"reassignment ({ids(target)}) for partition {partition}"
            )
            lines.append(f"Reassignment of partition {partition} failed")
        print_lines(lines)
        if all(line.endswith("completed successfully") for line in lines):
            self._remove_throttles(plan)

    def _remove_throttles(self, plan: StockPlan) -> None:
        if self.context.dry_run:
            print_note(NOTHING_WRITTEN)
            return
        cleared = self.operator.throttle_writes.clear(
            brokers=sorted(self.operator.cluster.broker_ids()),
            topics=dict.fromkeys(p.topic for p in plan.entries),
        )
        if cleared or self._was_throttled(plan):
            print_line("Throttle was removed.")

    def _was_throttled(self, plan: StockPlan) -> bool:
        """Return whether the last request with this plan had a throttle, which has ended."""
        ended = [h for h in self.operator.outcomes.histories().values() if h.summary is not None]
        for history in reversed(ended[-_REQUESTS_MAX:]):
            accepted = self.operator.outcomes.accepted_entries(history.request)
            if {e.partition: e.target for e in accepted} == plan.entries:
                return history.options.throttle is not None
        return False

    def execute(
        self, plan: StockPlan, *, additional: bool, throttle: int, log_dir_throttle: int
    ) -> None:
        """Carry out ``--execute`` of a checked plan; a negative throttle is none."""
        del additional
        found = read_cluster(self.operator)
        _check_partitions(found, plan.entries)
        wanted = dict.fromkeys(b for replicas in plan.entries.values() for b in replicas)
        unknown = [b for b in wanted if b not in self.operator.cluster.broker_ids()]
        if unknown:
            raise InvalidInputError(
                f"The proposed assignment contains non-existent brokerIDs: {ids(unknown)}"
            )
        _check_no_log_dirs(plan)
        check_throttle(throttle)
        if found.active:
            print_line("There is an existing assignment running.")
            return
        checked = self._check(plan, throttle, log_dir_throttle)
        warning = formats.RUN_VERIFY_BEFORE_2_6 if throttle >= 0 else None
        refused = self._submit(checked, _current(found, plan), warning, throttle, log_dir_throttle)
        if refused is None:
            return
        if len(refused) == len(plan.entries):
            print_line(f"Failed to reassign partitions {_scala_list(plan.entries)}")
        else:
            print_line("Successfully started reassignment of partitions.")
        for partition, why in sorted(refused.items()):
            print_line(f"{partition}: {why}")

    def cancel_everything(self) -> None:
        """Carry out ``--cancel`` of KIP-236: cancel all active reassignments."""
        found = read_cluster(self.operator)
        if not self.context.dry_run:
            require_leader(self.operator)
        specs = self.operator.partitions.specs(found.active)
        rows = []
        for partition in sorted(found.active):
            active = found.active[partition]
            original = getattr(specs.get(partition), "original", None) or ()
            target = (r for r in active.replicas if r not in active.removing)
            rows.append(
                f"{partition} -> Map(replicas -> Buffer({', '.join(map(str, target))}), "
                f"original_replicas -> Buffer({', '.join(map(str, original))}))"
            )
        print_line(f"Rolling back the current pending reassignments Map({', '.join(rows)})")
        if self.context.dry_run:
            print_note(NOTHING_WRITTEN)
            return
        skipped = self._cancel(list(found.active)) if rows else {}
        for partition, why in sorted(skipped.items()):
            print_line(f"{partition}: {why}")
        print_line("Successfully submitted cancellation of reassignments.")
        print_line("The cancelled pending reassignments throttle was removed.")
        print_line(
            "Please run --verify to have the previous reassignments (not just the cancelled "
            "reassignments in progress) throttle removed."
        )


def _check_no_log_dirs(plan: StockPlan) -> None:
    """Check that a plan names no log directories: this tool asks no broker."""
    if plan.log_dirs:
        raise InvalidInputError(
            "bootstrap-server needs to be provided in order to reassign replica to the specified "
            "log directory"
        )


def _check_partitions(found: ClusterState, plan: Mapping[TopicPartition, Replicas]) -> None:
    missing = [str(p) for p in plan if found.assignment(p) is None]
    if missing:
        raise InvalidInputError(
            "The proposed assignment contains non-existent partitions: "
            f"ListBuffer({', '.join(missing)})"
        )


def _current(found: ClusterState, plan: StockPlan) -> dict[TopicPartition, Replicas]:
    """Return the replicas of every partition of the plan's topics."""
    return {
        TopicPartition(topic, number): assignment.replicas
        for topic in dict.fromkeys(p.topic for p in plan.entries)
        for number, assignment in found.topics[topic].partitions.items()
    }


def _scala_list(plan: Mapping[TopicPartition, Replicas]) -> str:
    rows = (f"({p},List({', '.join(map(str, replicas))}))" for p, replicas in plan.items())
    return f"ListBuffer({', '.join(rows)})"
