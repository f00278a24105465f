"""
Plan files, and where each entry of a plan stands.

A file that is wrong anywhere is refused as a whole, with every problem named: nothing was written
yet, so there is no reason to be satisfied with a part. Whether an entry can be carried out is the
daemon's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controller.cli.ports import OperatorPort
from controller.core.model import (
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    Replicas,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.errors import InvalidInputError
from controller.znodes.legacy_plans import decode_legacy_plan

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
PROBLEMS_MAX: Final = 20
CLUSTER_KEY: Final = "cluster_id"
"""Requests of ``pipeline plan`` say for which cluster they are; ``bases`` compares."""

Plan = Mapping[TopicPartition, Replicas]


def read_plan_file(path: Path) -> Plan:
    """
    Read a plan in the format of Kafka's own tool.

    Raises:
        PlanInvalidError: it cannot be read, or something in it is wrong.

    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    plan = decode_legacy_plan(data, ZkVersion(0), Zxid(0), besides=frozenset({CLUSTER_KEY}))
    if plan.unreadable is not None:
        raise InvalidInputError(f"{path}: {plan.unreadable}")
    if plan.refused:
        raise InvalidInputError(_problems(path, plan.refused))
    if not plan.entries:
        raise InvalidInputError(f"{path}: the plan lists no partition")
    return plan.entries


def _problems(path: Path, refused: tuple[tuple[str, str], ...]) -> str:
    lines = [f"  {entry}: {reason}" for entry, reason in refused[:PROBLEMS_MAX]]
    if len(refused) > PROBLEMS_MAX:
        lines.append(f"  and {len(refused) - PROBLEMS_MAX} more")
    count = "one entry" if len(refused) == 1 else f"{len(refused)} entries"
    return "\n".join((f"{path}: {count} cannot be understood:", *lines))


class Standing(StrEnum):
    """How far one entry has come."""

    SUBMITTED = "submitted"
    """In a znode of a plan, a request or the queue; the daemon has not judged it yet."""
    ACCEPTED = "accepted"
    """The daemon has a durable record of it; it waits for its turn."""
    MOVING = "moving"
    """The topic znode names replicas that are added or removed."""
    ROLLING_BACK = "rolling_back"
    """It was cancelled and is on its way to where it was."""
    DONE = "done"
    REFUSED = "refused"
    """It is neither at its target nor recorded anywhere: it was turned down."""
    CANCELLED = "cancelled"
    """It was cancelled before it began."""
    ROLLED_BACK = "rolled_back"
    SUPERSEDED = "superseded"
    """A later request took the partition over."""

    @property
    def is_open(self) -> bool:
        """Whether it will change yet."""
        return self in _OPEN

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody called it off, and that has ended."""
        return self in (Standing.CANCELLED, Standing.ROLLED_BACK)


_OPEN: Final = frozenset(
    {Standing.SUBMITTED, Standing.ACCEPTED, Standing.MOVING, Standing.ROLLING_BACK}
)
STANDING_OF: Final[Mapping[OutcomeKind, Standing]] = MappingProxyType(
    {
        OutcomeKind.CANCELLED: Standing.CANCELLED,
        OutcomeKind.ROLLED_BACK: Standing.ROLLED_BACK,
        OutcomeKind.SUPERSEDED: Standing.SUPERSEDED,
    }
)
"""An entry whose cancellation was skipped goes on: it stands where it stands."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a plan and what ZooKeeper says of it."""

    partition: TopicPartition
    target: Replicas
    standing: Standing
    assignment: PartitionAssignment | None
    spec: ReassignmentSpec | None

    @property
    def original(self) -> Replicas | None:
        """The replicas to go back to: as the daemon recorded, else as they stand without AR."""
        if self.spec is not None:
            return self.spec.original
        if self.assignment is None:
            return None
        adding = self.assignment.adding_replicas
        return tuple(r for r in self.assignment.replicas if r not in adding)


def look(operator: OperatorPort, plan: Plan) -> list[Entry]:
    """
    Read where each entry stands.

    The order of the reads matters: an entry leaves the znode it was submitted in only after its
    record exists, and the record goes only with the last write of the topic znode. Read in this
    order nothing falls between.
    """
    submitted = _submitted(operator)
    specs = operator.read_specs(plan)
    topics = operator.read_topics(p.topic for p in plan)
    return [
        _entry(p, target, target in submitted.get(p, ()), specs.get(p), topics.get(p.topic))
        for p, target in plan.items()
    ]


def _submitted(operator: OperatorPort) -> Mapping[TopicPartition, list[Replicas]]:
    """Return what was submitted, by whatever route, and has not been judged yet."""
    found: dict[TopicPartition, list[Replicas]] = {}
    plans = [operator.read_queue(), operator.read_plan()]
    requests = operator.read_submissions(operator.submission_names())
    for submitted in (*plans, *requests.values()):
        for partition, replicas in (submitted.entries if submitted else {}).items():
            found.setdefault(partition, []).append(replicas)
    return found


def _entry(
    partition: TopicPartition,
    target: Replicas,
    is_submitted: bool,  # noqa: FBT001 - one of many facts
    spec: ReassignmentSpec | str | None,
    topic: TopicAssignment | str | None,
) -> Entry:
    found = (
        topic.partitions.get(partition.partition) if isinstance(topic, TopicAssignment) else None
    )
    known = spec if isinstance(spec, ReassignmentSpec) else None
    standing = (
        _recorded(known, target, found)
        or (Standing.SUBMITTED if is_submitted else None)
        or _unrecorded(target, found)
    )
    return Entry(partition, target, standing, found, known)


def _recorded(
    spec: ReassignmentSpec | None, target: Replicas, assignment: PartitionAssignment | None
) -> Standing | None:
    """Return where an entry stands that the daemon has a record of, None where it has none."""
    if spec is not None and spec.target == target:
        moving = assignment is not None and assignment.is_reassigning
        return Standing.MOVING if moving else Standing.ACCEPTED
    if spec is not None and spec.rolls_back:
        return Standing.ROLLING_BACK
    return None


def _unrecorded(target: Replicas, assignment: PartitionAssignment | None) -> Standing:
    """Return where an entry stands by the topic znode alone."""
    if assignment is None:
        return Standing.REFUSED
    if assignment.is_reassigning:
        # Somebody else carries it out, or carries out something else.
        same = assignment.target_replicas == target
        return Standing.MOVING if same else Standing.REFUSED
    return Standing.DONE if assignment.replicas == target else Standing.REFUSED


def count(entries: list[Entry]) -> dict[str, int]:
    """Return how many entries stand where."""
    counts = {standing.value: 0 for standing in Standing}
    for entry in entries:
        counts[entry.standing.value] += 1
    return counts


def document_of(plan: Plan) -> dict[str, object]:
    """Return a plan as the document of Kafka's tool."""
    return {
        "version": 1,
        "partitions": [
            {"topic": p.topic, "partition": p.partition, "replicas": list(replicas)}
            for p, replicas in sorted(plan.items())
        ],
    }
