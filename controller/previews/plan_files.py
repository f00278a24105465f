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
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.core import model
from controller.core.model import count_text
from controller.core.requests.submissions import NO_DIRS, NamedDirs, plan_hash
from controller.errors import (
    InvalidInputError,
    NotApprovedError,
    ReassignmentConflictError,
    errors_about,
)
from controller.planning.plan_text import PlanPart, find_plan, find_topics
from controller.znodes.json_documents import UnreadableError
from controller.znodes.plans import Refusals, judge_plan, plan_entry

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
SHOWN_MAX: Final = 20
CLUSTER_KEY: Final = "cluster_id"
"""The key of a file of ``pipeline plan`` that names its cluster."""
APPROVAL_KEY: Final = "approval"
"""The key of a file for approval that has the hash of its entries."""

Plan = Mapping[model.TopicPartition, model.Replicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan that was read from a file, given as text, or proposed."""

    entries: Plan
    name: str = "the plan"
    """Of the file, for messages."""
    log_dirs: NamedDirs = field(default_factory=dict)
    """The log directories that entries name."""
    originals: Plan = field(default_factory=dict)
    """The ``original_replicas`` of those entries that name them."""
    planned_for: str | None = None
    """The id of the cluster that the file, or the summary beside it, names."""
    approval: str | None = None
    """The hash of a file for approval."""
    notes: tuple[str, ...] = ()
    """What was taken of a text that has more than a plan; what a proposal leaves out."""


def read_plan(path: Path) -> PlanFile:
    """
    Read a plan in the format of Kafka's tool, or the proposed one of the tool's output.

    Raises:
        InvalidInputError: the file cannot be read, or has an error.

    """
    file = plan_of(read_bytes(path), str(path))
    if file.planned_for is not None:
        return file
    # Files that Kafka's tool has to accept have only Kafka's keys.
    try:
        summary = json.loads((path.parent / "summary.json").read_text(encoding="utf-8"))
        named = summary["snapshot"][CLUSTER_KEY]
    except (OSError, ValueError, KeyError, TypeError):
        return file
    return replace(file, planned_for=str(named))


def plan_of(data: bytes, name: str) -> PlanFile:
    """
    Read a plan from the content of a file; messages name it by ``name``.

    Raises:
        InvalidInputError: the content has an error.

    """
    with errors_about(name):
        found = find_plan(data, PlanPart.PROPOSED)
    try:
        judged = judge_plan(found.document, besides=frozenset({CLUSTER_KEY, APPROVAL_KEY}))
    except UnreadableError as error:
        raise InvalidInputError(f"{name}: {error}") from error
    if judged.refused:
        raise InvalidInputError(_problems(name, judged.refused))
    if not judged.replicas:
        raise InvalidInputError(f"{name}: the plan lists no partition")
    cluster = found.document.get(CLUSTER_KEY)
    approval = found.document.get(APPROVAL_KEY)
    approved = approval.get("hash") if isinstance(approval, dict) else None
    return PlanFile(
        name=name,
        entries=judged.replicas,
        log_dirs=judged.log_dirs,
        originals=judged.originals,
        planned_for=None if cluster is None else str(cluster),
        approval=approved if isinstance(approved, str) else None,
        notes=() if found.note is None else (f"{name}: {found.note}",),
    )


def read_topics_file(path: Path) -> Mapping[str, object]:
    """
    Read a file of topics in the format of Kafka's tool.

    Raises:
        InvalidInputError: the file cannot be read, or is none.

    """
    data = read_bytes(path)
    try:
        return find_topics(data)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error


def read_bytes(path: Path) -> bytes:
    """
    Read a file of at most ``FILE_BYTES_MAX``.

    Raises:
        InvalidInputError: the file cannot be read, or is larger.

    """
    with errors_about(path), path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    return data


def _problems(name: str, refused: Refusals) -> str:
    lines = [f"  {entry}: {reason}" for entry, reason in refused[:SHOWN_MAX]]
    if len(refused) > SHOWN_MAX:
        lines.append(f"  and {len(refused) - SHOWN_MAX} more")
    count = "one entry is" if len(refused) == 1 else f"{len(refused)} entries are"
    return "\n".join((f"{name}: {count} invalid:", *lines))


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

    ``expected`` are the present replicas of each partition, from which its first step begins.
    """
    return {
        "version": 1,
        **({} if cluster is None else {CLUSTER_KEY: cluster}),
        APPROVAL_KEY: {"hash": plan_hash(plan, expected, log_dirs)},
        "partitions": [
            plan_entry(p, plan[p], log_dirs.get(p, ()), expected[p]) for p in sorted(plan)
        ],
    }


def check_approval(file: PlanFile, approved: str) -> Plan:
    """
    Check that a file is the plan with the approved hash; return the replicas that it expects.

    Raises:
        NotApprovedError: the file, its entries and the hash disagree.

    """
    missing = sorted(file.entries.keys() - file.originals.keys())
    if missing:
        raise NotApprovedError(
            f"{file.name}: no original_replicas in {count_text(len(missing), 'entry', 'entries')}, "
            f"{missing[0]} for one: "
            "it was not written by `execute --dry-run --out`"
        )
    found = plan_hash(file.entries, file.originals, file.log_dirs)
    if not file.approval == found == approved:
        raise NotApprovedError(
            f"{file.name} is not the plan that was approved: {approved} was approved, the file "
            f"names {file.approval}, its entries have {found}"
        )
    return file.originals


# --- comparison with the cluster -----------------------------------------------------------------


class Basis(StrEnum):
    """A partition's state relative to the plan."""

    UNCHANGED = "unchanged"
    DONE = "done"
    """It already has the planned replicas."""
    REBASED = "rebased"
    """It changed, and the plan's change applies to its current replicas."""
    GONE = "gone"
    """The topic or partition no longer exists."""
    CONFLICTING = "conflicting"
    """It changed, and the plan's change no longer applies."""

    @property
    def text(self) -> str:
        """Describe it."""
        return {
            Basis.GONE: "it does not exist any more",
            Basis.CONFLICTING: "it has changed, and the entry cannot be kept",
            Basis.REBASED: "it has changed; the entry was adapted",
            Basis.DONE: "it has the target replicas already",
            Basis.UNCHANGED: "it is unchanged",
        }[self]


@dataclass(frozen=True, slots=True)
class Rebase:
    """The result for one entry of a plan."""

    basis: Basis
    target: model.Replicas | None
    """The replicas to request now; None: nothing."""


def rebase(
    planned_from: model.Replicas, target: model.Replicas, now: model.Replicas | None
) -> Rebase:
    """
    Apply one entry of a plan to the partition's current replicas; None: it does not exist.

    The plan's change still applies to a partition that changed in the meantime if the brokers to
    drop are still replicas and the brokers to add are not.
    """
    if now is None:
        return Rebase(Basis.GONE, None)
    # First, as an entry that changes log directories alone has the same replicas before and after.
    if now == planned_from:
        return Rebase(Basis.UNCHANGED, target)
    if now == target:
        return Rebase(Basis.DONE, None)
    adding = [b for b in target if b not in planned_from]
    removing = [b for b in planned_from if b not in target]
    clear = all(b in now for b in removing) and not any(b in now for b in adding)
    if not clear or len(adding) != len(removing) or not adding:
        return Rebase(Basis.CONFLICTING, None)
    instead = dict(zip(removing, adding, strict=True))
    return Rebase(Basis.REBASED, tuple(instead.get(b, b) for b in now))


def check_cluster(operator: OperatorClient, file: PlanFile) -> None:
    """
    Check that a file was not planned for another cluster.

    Raises:
        InvalidInputError: the file names another cluster.

    """
    found = operator.cluster.cluster_id() if file.planned_for else None
    if found is not None and found != file.planned_for:
        raise InvalidInputError(
            f"{file.name} was planned for the cluster {file.planned_for}, this cluster is {found}: "
            "the snapshot was taken of another cluster"
        )


def compare(
    operator: OperatorClient, plan: Plan, originals: Plan
) -> dict[model.TopicPartition, Rebase]:
    """Compare each entry that has original replicas with the cluster."""
    now = {
        p: None if found is None else found.replicas
        for p, found in operator.partitions.assignments(originals).items()
    }
    return {p: rebase(original, plan[p], now[p]) for p, original in originals.items()}


def check_basis(operator: OperatorClient, file: PlanFile) -> None:
    """
    Check that the partitions of a plan have not changed since it was made.

    Raises:
        InvalidInputError: the plan was made for another cluster.
        ReassignmentConflictError: partitions have changed, and not to the plan's targets.

    """
    check_cluster(operator, file)
    fine = (Basis.UNCHANGED, Basis.DONE)
    changed = {
        p: found
        for p, found in compare(operator, file.entries, file.originals).items()
        if found.basis not in fine
    }
    if changed:
        lines = "\n".join(change_lines(changed.items()))
        raise ReassignmentConflictError(
            f"{file.name}: {len(changed)} of {count_text(len(file.entries), 'partition')} changed "
            f"since the plan was made:\n{lines}\n"
            "Make a new plan, or see `reassigner pipeline rebase --help`"
        )


def change_lines(changed: Iterable[tuple[model.TopicPartition, Rebase]]) -> Iterable[str]:
    """Describe how entries differ from the cluster, at most ``SHOWN_MAX`` of them."""
    rows = sorted(changed)
    for partition, found in rows[:SHOWN_MAX]:
        yield f"  {partition}: {found.basis.text}"
    if len(rows) > SHOWN_MAX:
        yield f"  and {len(rows) - SHOWN_MAX} more"
