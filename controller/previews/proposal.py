"""
The basis of the plans of ``generate``, and the summary of a proposal.

Reassigning partitions are left out, and count as if they had reached their targets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from controller.core.model import BrokerId, TopicPartition, count_text
from controller.core.topics.replica_choice import Racks
from controller.doctor.broker_answers import Disks
from controller.errors import InvalidInputError
from controller.planning.plan_goal import (
    Assignment,
    PlanGoal,
    Proposal,
    broker_loads,
    leader_counts,
    rack_violations,
)
from controller.previews.entries import ClusterState, check_brokers, read_cluster
from controller.previews.plan_files import document_of
from controller.units import ids, names_text, show_bytes

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

RACKLESS: Final = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
    "replica assignment without rack information."
)
"""As Kafka's tool says it."""
NOTHING: Final = "Nothing has to move."


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a plan, as ``generate`` and the commands for tasks name it."""

    topics: Sequence[str] = ()
    all_topics: bool = False
    excluded: str | None = None
    """A regular expression; topics whose whole name matches are left out."""
    brokers: frozenset[BrokerId] = frozenset()
    """The brokers that may have replicas; empty: all live ones."""
    drained: frozenset[BrokerId] = frozenset()
    added: frozenset[BrokerId] = frozenset()
    replication_factor: int | None = None
    rebalance: bool = False
    spread_racks: bool = False
    rack_aware: bool = True

    @property
    def text(self) -> str:
        """The goal in words: the reason of a request without another."""
        factor, named = self.replication_factor, names_text(self.topics)
        words = (
            f"add broker {ids(sorted(self.added))}" if self.added else "",
            f"drain broker {ids(sorted(self.drained))}" if self.drained else "",
            "" if factor is None else f"replication factor {factor}",
            "rebalance" if self.rebalance else "",
            "spread racks" if self.spread_racks else "",
            f"place on broker {ids(sorted(self.brokers))}" if self.brokers else "",
        )
        return ", ".join(filter(None, words)) + (f": {named}" if named else "")

    @property
    def is_empty(self) -> bool:
        """Whether no change is wanted."""
        return not (
            self.brokers
            or self.drained
            or self.added
            or self.replication_factor is not None
            or self.rebalance
            or self.spread_racks
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalBasis:
    """The current replicas, and the goal of the planner."""

    before: Assignment
    goal: PlanGoal
    left_out: tuple[TopicPartition, ...]
    """Reassigning partitions."""


def read_basis(operator: OperatorClient, wanted: Goal) -> ProposalBasis:
    """
    Read the current replicas of the topics, and the live brokers.

    Raises:
        InvalidInputError: a topic or broker does not exist, or the goal contradicts itself.

    """
    found = read_cluster(operator)
    live = operator.cluster.brokers()
    partitions = {
        TopicPartition(topic, number): assignment.replicas
        for topic in chosen_topics(found, wanted)
        for number, assignment in found.topics[topic].partitions.items()
    }
    named = wanted.drained | wanted.added | wanted.brokers
    check_brokers(operator, named, found.topics)
    left_out = frozenset(partitions.keys() & found.active.keys())
    before = {p: found.active[p].target if p in left_out else r for p, r in partitions.items()}
    holders = {broker for p, r in before.items() if p not in left_out for broker in r}
    brokers = _brokers(wanted, live, holders, operator.requests.controls().drains.brokers)
    racks = {broker: found.rack for broker, found in live.items()} if wanted.rack_aware else {}
    check_racks(racks, brokers)
    return ProposalBasis(
        before=before,
        goal=PlanGoal(
            brokers=brokers,
            racks=racks,
            replication_factor=wanted.replication_factor,
            rebalance=wanted.rebalance,
            receivers=wanted.added,
            fixed=left_out,
            widest=wanted.spread_racks,
        ),
        left_out=tuple(sorted(left_out)),
    )


def chosen_topics(found: ClusterState, wanted: Goal) -> list[str]:
    """
    Return the topics that a goal names, sorted.

    Raises:
        InvalidInputError: a topic does not exist, or none is named.

    """
    if bool(wanted.topics) is wanted.all_topics:
        raise InvalidInputError("name topics or use --all-topics")
    missing = [topic for topic in wanted.topics if topic not in found.topics]
    if missing:
        raise InvalidInputError(f"there is no topic {names_text(missing)}")
    try:
        excluded = None if wanted.excluded is None else re.compile(wanted.excluded)
    except re.error as error:
        raise InvalidInputError(f"--exclude-topics: {error}") from error
    names = sorted(found.topics) if wanted.all_topics else sorted(set(wanted.topics))
    return [n for n in names if excluded is None or not excluded.fullmatch(n)]


def _brokers(
    wanted: Goal,
    live: Collection[BrokerId],
    holders: Collection[BrokerId],
    emptying: Collection[BrokerId],
) -> frozenset[BrokerId]:
    """Return the brokers that may have replicas: by default not those that a drain keeps empty."""
    named = wanted.added | wanted.brokers
    both = wanted.drained & named
    if both:
        raise InvalidInputError(f"broker {ids(sorted(both))} is named for use and to be drained")
    standing = sorted(named & frozenset(emptying))
    if standing:
        raise InvalidInputError(
            f"broker {ids(standing)} is being drained; `reassigner drain --stop` ends that"
        )
    brokers = wanted.brokers or frozenset(live) - frozenset(emptying)
    brokers = brokers - wanted.drained | wanted.added
    dead = sorted(brokers - frozenset(live))
    if dead:
        raise InvalidInputError(f"broker {ids(dead)} is not live")
    lost = sorted(frozenset(holders) - frozenset(live) - wanted.drained - frozenset(emptying))
    if lost and not wanted.brokers:
        raise InvalidInputError(
            f"broker {ids(lost)} has replicas and is not live: wait for its return, or move its "
            "replicas with `reassigner drain`"
        )
    return brokers


def check_racks(racks: Racks, brokers: Collection[BrokerId]) -> None:
    """
    Check that all brokers have a rack, or none has.

    Raises:
        InvalidInputError: some have one.

    """
    if racks and len({racks[broker] is None for broker in brokers}) > 1:
        raise InvalidInputError(RACKLESS)


def sizes_of(read: Mapping[BrokerId, Disks | str]) -> dict[TopicPartition, int]:
    """Return the size of each partition in bytes, that of its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for disks in read.values():
        if isinstance(disks, Disks):
            for partition, size in disks.sizes.items():
                sizes[partition] = max(size, sizes.get(partition, 0))
    return sizes


def silence_lines(read: Mapping[BrokerId, Disks | str]) -> Iterator[str]:
    """Name the brokers that did not answer."""
    silent = sorted(b for b, disks in read.items() if not isinstance(disks, Disks))
    if silent:
        yield f"Note: the sizes of the replicas on broker {ids(silent)} are unknown."


# --- printing ------------------------------------------------------------------------------------


def summary_lines(
    proposal: Proposal, basis: ProposalBasis, sizes: Mapping[TopicPartition, int]
) -> Iterator[str]:
    """Summarize a proposal and compare it with the least that any plan copies."""
    amount = f" ({show_bytes(proposal.copied_bytes(sizes))})" if sizes else ""
    everything = count_text(len(proposal.after), "partition")
    to_change = f"{len(proposal.changed)} of {everything} to change"
    if proposal.copies:
        fewest = proposal.copies_min
        least = "no plan copies fewer"
        if proposal.copies > fewest:
            least = f"{least} than {fewest}" if fewest else "perhaps fewer are enough"
        yield f"{to_change}; {count_text(proposal.copies, 'replica')} to copy{amount}, {least}."
    else:
        yield f"{to_change}; nothing to copy."
    brokers = basis.goal.brokers
    for what, count in (("replicas", broker_loads), ("preferred leaders", leader_counts)):
        before, after = count(proposal.before, brokers), count(proposal.after, brokers)
        yield f"{what} per broker: {_span(before, brokers)} before, {_span(after, brokers)} after"
    if any(basis.goal.racks.values()):
        racks = basis.goal.racks
        before_bad = rack_violations(proposal.before, racks, brokers)
        after_bad = rack_violations(proposal.after, racks, brokers)
        yield f"partitions on fewer racks than possible: {before_bad} before, {after_bad} after"
    for note in proposal.notes:
        yield f"Note: {note}"
    if basis.left_out:
        yield f"Note: left out, because they are reassigning: {names_text(basis.left_out)}"


def _span(counts: Mapping[BrokerId, int], brokers: Collection[BrokerId]) -> str:
    found = [counts[broker] for broker in brokers]
    return f"{min(found)} to {max(found)}"


def proposal_document(
    proposal: Proposal, basis: ProposalBasis, sizes: Mapping[TopicPartition, int]
) -> dict[str, object]:
    """Return a proposal for ``--json``."""
    brokers = sorted({*basis.goal.brokers, *broker_loads(proposal.before)})

    def both(loads: Callable[[Assignment], Mapping[BrokerId, int]]) -> object:
        before, after = loads(proposal.before), loads(proposal.after)
        return {str(b): [before.get(b, 0), after.get(b, 0)] for b in brokers}

    return {
        "current": document_of({p: proposal.before[p] for p in proposal.changed}),
        "proposed": document_of(proposal.changed),
        "replicas_copied": proposal.copies,
        "replicas_copied_min": proposal.copies_min,
        "bytes_copied": proposal.copied_bytes(sizes) if sizes else None,
        "replicas": both(broker_loads),
        "leaders": both(leader_counts),
        "bytes": both(partial(broker_loads, sizes=sizes)) if sizes else None,
        "left_out": [str(p) for p in basis.left_out],
        "notes": list(proposal.notes),
    }
