"""
Plan files: reading and writing them, and comparing them with the cluster they were made for.

A file with any error is refused as a whole, with all its errors. ``pipeline plan`` names with each
entry the replicas that it was planned from (``original_replicas``), and the cluster. ``execute``
refuses such a file if the cluster has changed; ``pipeline rebase`` keeps what is still possible.
Files without these keys are not compared. A file for approval has them, and a hash of its entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from controller.core import model
from controller.core.approvals import plan_hash
from controller.core.model import NO_DIRS, NamedDirs
from controller.errors import InvalidInputError, NotApprovedError, ReassignmentConflictError
from controller.planning.plan_basis import Basis, Rebase, rebase
from controller.zk.operator_client import OperatorClient
from controller.znodes.legacy_plans import decode_legacy_plan, plan_entry
from controller.znodes.submissions import approved_entry

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
SHOWN_MAX: Final = 20
CLUSTER_KEY: Final = "cluster_id"
"""The key of a file of ``pipeline plan`` that names its cluster."""
APPROVAL_KEY: Final = "approval"
"""The key of a file for approval that has the hash of its entries."""

Plan = Mapping[model.TopicPartition, model.Replicas]


def read_plan_file(path: Path) -> Plan:
    """
    Read the target replicas of a plan in the format of Kafka's tool.

    Raises:
        InvalidInputError: the file cannot be read, or has an error.

    """
    return read_placed_plan(path)[0]


def read_placed_plan(path: Path) -> tuple[Plan, NamedDirs]:
    """
    Read a plan in the format of Kafka's tool, with the log directories that it names.

    Raises:
        InvalidInputError: the file cannot be read, or has an error.

    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    plan = decode_legacy_plan(
        data, model.ZkVersion(0), model.Zxid(0), besides=frozenset({CLUSTER_KEY, APPROVAL_KEY})
    )
    if plan.unreadable is not None:
        raise InvalidInputError(f"{path}: {plan.unreadable}")
    if plan.refused:
        raise InvalidInputError(_problems(path, plan.refused))
    if not plan.entries:
        raise InvalidInputError(f"{path}: the plan lists no partition")
    return plan.entries, plan.log_dirs


def _problems(path: Path, refused: tuple[tuple[str, str], ...]) -> str:
    lines = [f"  {entry}: {reason}" for entry, reason in refused[:SHOWN_MAX]]
    if len(refused) > SHOWN_MAX:
        lines.append(f"  and {len(refused) - SHOWN_MAX} more")
    count = "one entry is" if len(refused) == 1 else f"{len(refused)} entries are"
    return "\n".join((f"{path}: {count} invalid:", *lines))


def document_of(plan: Plan, log_dirs: NamedDirs = NO_DIRS) -> dict[str, object]:
    """Return a plan as the JSON document of Kafka's tool."""
    entries = ((p, plan_entry(p, plan[p], log_dirs.get(p, ()))) for p in sorted(plan))
    return {
        "version": 1,
        "partitions": [{**entry, "replicas": list(plan[p])} for p, entry in entries],
    }


# --- approval ------------------------------------------------------------------------------------


def approval_document(
    plan: Plan, expected: Plan, cluster: str | None, log_dirs: NamedDirs
) -> dict[str, object]:
    """
    Return a plan for approval.

    Args:
        plan: The target replicas.
        expected: The present replicas of each partition, from which its first step begins.
        cluster: The id of the cluster, as far as it is known.
        log_dirs: The log directories that entries name.

    """
    return {
        "version": 1,
        **({} if cluster is None else {CLUSTER_KEY: cluster}),
        APPROVAL_KEY: {"hash": plan_hash(plan, expected, log_dirs)},
        "partitions": [
            approved_entry(p, plan[p], expected[p], log_dirs.get(p, ())) for p in sorted(plan)
        ],
    }


def check_approval(path: Path, plan: Plan, log_dirs: NamedDirs, approved: str) -> Plan:
    """
    Check that a file is the plan that was approved; return the replicas that it expects.

    Args:
        path: The file.
        plan: Its entries, as ``read_placed_plan`` read them.
        log_dirs: The log directories that they name.
        approved: The hash that was approved.

    Raises:
        NotApprovedError: the file, its entries and the hash disagree.

    """
    expected = read_originals(path, plan)
    missing = sorted(plan.keys() - expected.keys())
    if missing:
        raise NotApprovedError(
            f"{path}: {len(missing)} entries have no original_replicas, {missing[0]} for one: it "
            "was not written by `execute --dry-run --out`"
        )
    document = json.loads(path.read_text(encoding="utf-8"))
    named = document.get(APPROVAL_KEY)
    written = named.get("hash") if isinstance(named, dict) else None
    found = plan_hash(plan, expected, log_dirs)
    if not written == found == approved:
        raise NotApprovedError(
            f"{path} is not the plan that was approved: {approved} was approved, the file names "
            f"{written}, its entries have {found}"
        )
    return expected


# --- comparison with the cluster -----------------------------------------------------------------


def read_originals(path: Path, plan: Plan) -> Plan:
    """Return the ``original_replicas`` of the entries of a file that ``read_plan_file`` read."""
    document = json.loads(path.read_text(encoding="utf-8"))
    found: dict[model.TopicPartition, model.Replicas] = {}
    for entry in document["partitions"]:
        partition = model.TopicPartition(entry["topic"], entry["partition"])
        original = entry.get("original_replicas")
        if partition in plan and isinstance(original, list):
            found[partition] = tuple(model.BrokerId(b) for b in original if isinstance(b, int))
    return found


def check_cluster(operator: OperatorClient, path: Path) -> None:
    """
    Check that a file was not planned for another cluster.

    Raises:
        InvalidInputError: the file names another cluster.

    """
    planned_for = _planned_for(path)
    found = operator.cluster.cluster_id() if planned_for else None
    if found is not None and found != planned_for:
        raise InvalidInputError(
            f"{path} was planned for the cluster {planned_for}, this cluster is {found}: the "
            f"snapshot was taken of another cluster"
        )


def _planned_for(path: Path) -> str | None:
    """Return the id of the cluster that a file, or the summary beside it, names."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if CLUSTER_KEY in document:
        return str(document[CLUSTER_KEY])
    # Files that Kafka's tool has to accept have only Kafka's keys.
    try:
        summary = json.loads((path.parent / "summary.json").read_text(encoding="utf-8"))
        named = summary["snapshot"][CLUSTER_KEY]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(named)


def compare(
    operator: OperatorClient, plan: Plan, originals: Plan
) -> dict[model.TopicPartition, Rebase]:
    """Compare each entry that has original replicas with the cluster."""
    assignments = operator.partitions.assignments(originals)
    found: dict[model.TopicPartition, Rebase] = {}
    for partition, original in originals.items():
        assignment = assignments[partition]
        now = None if assignment is None else assignment.replicas
        found[partition] = rebase(original, plan[partition], now)
    return found


def check_basis(operator: OperatorClient, path: Path, plan: Plan) -> None:
    """
    Check that the partitions of a plan have not changed since it was made.

    Raises:
        InvalidInputError: the plan was made for another cluster.
        ReassignmentConflictError: partitions have changed, and not to the plan's targets.

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
            f"{path}: {len(changed)} of {len(plan)} partitions have changed since the plan was "
            f"made:\n{lines}\nMake a new plan, or see `reassigner pipeline rebase --help`"
        )


def change_lines(changed: Iterable[tuple[model.TopicPartition, Rebase]]) -> Iterable[str]:
    """Describe how entries differ from the cluster, at most ``SHOWN_MAX`` of them."""
    rows = sorted(changed)
    for partition, found in rows[:SHOWN_MAX]:
        what = {
            Basis.GONE: "it does not exist any more",
            Basis.CONFLICTING: "it has changed, and the entry cannot be kept",
            Basis.REBASED: "it has changed; the entry was adapted",
            Basis.DONE: "it has the target replicas already",
            Basis.UNCHANGED: "it is unchanged",
        }[found.basis]
        yield f"  {partition}: {what}"
    if len(rows) > SHOWN_MAX:
        yield f"  and {len(rows) - SHOWN_MAX} more"
