"""
Whether the cluster is still what a plan's file was made from.

A plan of ``pipeline plan`` names with each entry the replicas it was planned from
(``original_replicas``). ``execute`` refuses it where the cluster has changed meanwhile; ``pipeline
rebase`` writes what can still be asked for. Files without the key are nobody's plan for later: they
are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from controller.cli.plan_files import CLUSTER_KEY, Plan
from controller.cli.ports import OperatorPort
from controller.core.model import BrokerId, Replicas, TopicAssignment, TopicPartition
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.planning.plan_basis import Basis, Rebase, rebase

SHOWN_MAX: Final = 20

Originals = Mapping[TopicPartition, Replicas]


def read_originals(path: Path, plan: Plan) -> Originals:
    """Return what the entries of a file, that was read as a plan already, were planned from."""
    document = json.loads(path.read_text(encoding="utf-8"))
    found: dict[TopicPartition, Replicas] = {}
    for entry in document["partitions"]:
        partition = TopicPartition(entry["topic"], entry["partition"])
        original = entry.get("original_replicas")
        if partition in plan and isinstance(original, list):
            found[partition] = tuple(BrokerId(b) for b in original if isinstance(b, int))
    return found


def check_cluster(operator: OperatorPort, path: Path) -> None:
    """
    Refuse a file that was planned for another cluster; most files do not say for which.

    Raises:
        PlanInvalidError: it was.

    """
    planned_for = _planned_for(path)
    found = operator.cluster_id() if planned_for else None
    if found is not None and found != planned_for:
        raise InvalidInputError(
            f"{path}: it was planned for the cluster {planned_for}, this one is {found}: the "
            f"snapshot was of another cluster"
        )


def _planned_for(path: Path) -> str | None:
    """Return the cluster's id that a file names, or the summary of its plan."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if CLUSTER_KEY in document:
        return str(document[CLUSTER_KEY])
    # What Kafka's own tool takes as well has no keys but Kafka's.
    try:
        summary = json.loads((path.parent / "summary.json").read_text(encoding="utf-8"))
        named = summary["snapshot"][CLUSTER_KEY]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(named)


def compare(
    operator: OperatorPort, plan: Plan, originals: Originals
) -> dict[TopicPartition, Rebase]:
    """Hold each entry that says what it was planned from against the cluster."""
    topics = operator.read_topics(dict.fromkeys(p.topic for p in originals))
    found: dict[TopicPartition, Rebase] = {}
    for partition, original in originals.items():
        topic = topics.get(partition.topic)
        assignment = (
            topic.partitions.get(partition.partition)
            if isinstance(topic, TopicAssignment)
            else None
        )
        now = None if assignment is None else assignment.replicas
        found[partition] = rebase(original, plan[partition], now)
    return found


def check_basis(operator: OperatorPort, path: Path, plan: Plan) -> None:
    """
    Refuse a plan whose partitions have changed since it was made.

    Raises:
        PlanInvalidError: it was made for another cluster.
        ReassignmentConflictError: some did; those that have what the plan wants are no obstacle.

    """
    check_cluster(operator, path)
    originals = read_originals(path, plan)
    fine = (Basis.UNCHANGED, Basis.DONE)
    changed = {
        p: found
        for p, found in compare(operator, plan, originals).items()
        if found.basis not in fine
    }
    if changed:
        lines = "\n".join(change_lines(changed.items()))
        raise ReassignmentConflictError(
            f"{path}: {len(changed)} of {len(plan)} partitions are not what the plan was made "
            f"from:\n{lines}\nPlan anew, or see `reassigner pipeline rebase --help`"
        )


def change_lines(changed: Iterable[tuple[TopicPartition, Rebase]]) -> Iterable[str]:
    """Word what became of entries, the first few."""
    rows = sorted(changed)
    for partition, found in rows[:SHOWN_MAX]:
        what = {
            Basis.GONE: "it does not exist any more",
            Basis.CONFLICTING: "it changed, and the change does not fit any more",
            Basis.REBASED: "it changed; the change still fits",
            Basis.DONE: "it is there already",
            Basis.UNCHANGED: "it is unchanged",
        }[found.basis]
        yield f"  {partition}: {what}"
    if len(rows) > SHOWN_MAX:
        yield f"  and {len(rows) - SHOWN_MAX} more"
