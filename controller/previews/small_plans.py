"""
Small plans of ``generate``: relieve a broker or a directory, or spend a budget of bytes.

The decisions are those of ``planning.relief`` and ``planning.byte_budget``. Here are the volumes
that they are made from, as the brokers report them, and the words for the result. Partitions that
are being reassigned stay as they are, and count as if they had reached their targets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controller.core.model import BrokerId, MinFree, Replicas, TopicPartition, count_text
from controller.doctor.broker_answers import Disks
from controller.errors import InvalidInputError
from controller.planning.byte_budget import BudgetPlan, amounts_to_give, spend
from controller.planning.relief import Relief, ReliefGoal, relieve, volumes_to_relieve
from controller.planning.volume_room import (
    DiskCluster,
    DiskVolume,
    MovableReplica,
    VolumePlan,
)
from controller.planning.volumes import volume_names
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import ClusterState, check_brokers, read_cluster
from controller.previews.plan_facts import DisksRead, known_dirs, min_free_of
from controller.previews.plan_files import document_of
from controller.previews.proposal import (
    Goal,
    check_racks,
    chosen_topics,
    silence_lines,
    sizes_of,
)
from controller.units import ids, names_text, show_bytes

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

LISTED: Final = 8
"""Volumes that a summary lists."""
_RELIEVED: Final = re.compile(r"(\d{1,9})(?::(.+))?")
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(%?)")
_WHOLE: Final = 100
Sizes = Mapping[TopicPartition, int]


def parse_relief(text: str, below: str | None) -> ReliefGoal:
    """
    Parse what is to be relieved: ``4``, ``4:/data1``, and the mark: ``80%``, ``0.8``.

    Raises:
        InvalidInputError: it is not of this form, or the mark is no share.

    """
    found = _RELIEVED.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(
            f"--relieve: a broker, or a broker and a log directory such as 4:/data1, not {text!r}"
        )
    if below is None:
        raise InvalidInputError("--relieve needs --below: the fill to come below, such as 80%")
    share = _SHARE.fullmatch(below.strip())
    mark = 0.0 if share is None else float(share[1]) / (_WHOLE if share[2] else 1)
    if not 0 < mark < 1:
        raise InvalidInputError(f"--below: a share such as 80% or 0.8, not {below!r}")
    return ReliefGoal(BrokerId(int(found[1])), found[2], mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallBasis:
    """What the small plans of a cluster are made from."""

    cluster: DiskCluster
    movable: Mapping[TopicPartition, Replicas]
    read: DisksRead
    sizes: Sizes
    left_out: tuple[TopicPartition, ...]
    """Reassigning partitions."""
    notes: tuple[str, ...]

    def held(self, *volumes: int) -> list[MovableReplica]:
        """Return the replicas on volumes that may move."""
        by_path = {
            (self.cluster.volumes[n].broker, path): n
            for n in volumes
            for path in self.cluster.volumes[n].paths
        }
        found = []
        for broker in {broker for broker, _ in by_path}:
            disks = self.read.get(broker)
            if not isinstance(disks, Disks):
                continue
            for partition, path in disks.placed.items():
                volume = by_path.get((broker, path))
                replicas = self.movable.get(partition, ())
                if volume is None or broker not in replicas or partition in disks.futures:
                    continue
                frees = disks.sizes.get(partition, 0)
                size = max(frees, self.sizes.get(partition, 0))
                found.append(MovableReplica(size, partition, frees, volume, replicas))
        return found


def read_disks(operator: OperatorClient, queries: ClusterQueries, wanted: Goal) -> SmallBasis:
    """
    Read the replicas of topics, and the volumes of all brokers.

    Raises:
        InvalidInputError: a topic does not exist, or brokers without a rack are among others.

    """
    found = read_cluster(operator)
    topics = chosen_topics(found, wanted)
    live = operator.cluster.brokers()
    takers = frozenset(live) - frozenset(operator.requests.controls().drains.brokers)
    racks = {broker: about.rack for broker, about in live.items()} if wanted.rack_aware else {}
    check_racks(racks, takers)
    read = queries.log_dirs(live.values())
    status = queries.status(operator) or {}
    sizes = sizes_of(read)
    movable = {
        TopicPartition(topic, number): assignment.replicas
        for topic in topics
        for number, assignment in found.topics[topic].partitions.items()
    }
    left_out = sorted(movable.keys() & found.active.keys())
    of_topics = Counter((p.topic, b) for p, replicas in movable.items() for b in replicas)
    for partition in left_out:
        del movable[partition]
    dirs = known_dirs(read, status)
    sized = {
        broker: replace(disks, dirs=dirs[broker])
        for broker, disks in sorted(read.items())
        if isinstance(disks, Disks)
    }
    min_free = (min_free_of(status) if status else queries.settings.min_free) or MinFree()
    capacities = _capacities(queries)
    volumes = [
        volume
        for broker, disks in sized.items()
        for volume in _volumes(broker, disks, min_free, capacities(broker))
    ]
    _count_active(volumes, found, read, sizes)
    unsized = sorted(sized.keys() - {volume.broker for volume in volumes})
    notes = [line.removeprefix("Note: ") for line in silence_lines(read)]
    if unsized:
        notes.append(f"broker {ids(unsized)} does not report the size of its volumes: left out")
    return SmallBasis(
        cluster=DiskCluster(volumes=volumes, takers=takers, racks=racks, of_topics=of_topics),
        movable=movable,
        read=read,
        sizes=sizes,
        left_out=tuple(left_out),
        notes=tuple(notes),
    )


def plan_relief(operator: OperatorClient, basis: SmallBasis, goal: ReliefGoal) -> Relief:
    """
    Plan to relieve a broker or a directory.

    Raises:
        InvalidInputError: there is no such broker or directory, or the mark cannot be reached.

    """
    check_brokers(operator, [goal.broker])
    answer = basis.read.get(goal.broker)
    if not isinstance(answer, Disks):
        why = "it is not live" if answer is None else answer
        raise InvalidInputError(f"the disks of broker {goal.broker} are unknown: {why}")
    held = basis.held(*volumes_to_relieve(basis.cluster, goal))
    return relieve(basis.cluster, held, goal)


def plan_budget(basis: SmallBasis, budget: int) -> BudgetPlan:
    """
    Plan what a budget of bytes is spent on.

    Raises:
        InvalidInputError: the sizes of no broker's volumes are known.

    """
    cluster = basis.cluster
    if not any(volume.broker in cluster.takers for volume in cluster.volumes):
        raise InvalidInputError("no broker reports the size of its volumes: see disk_capacities")

    factors = {len(replicas) for replicas in basis.movable.values()}
    held = {
        broker: basis.held(*(n for n, v in enumerate(cluster.volumes) if v.broker == broker))
        for broker in amounts_to_give(cluster, factors, budget)
    }
    return spend(cluster, held, factors, budget)


# --- volumes -------------------------------------------------------------------------------------


def _capacities(queries: ClusterQueries) -> Callable[[BrokerId], Mapping[str, int]]:
    """Return the configured capacities of a broker's log directories, by path."""
    from controller.brokers.log_dirs import DiskCapacities, no_capacities  # noqa: PLC0415 - most commands ask no broker

    path = queries.settings.disk_capacities
    # Read once: it has no time to become invalid.
    return no_capacities if path is None else DiskCapacities(path, lambda _: None)


def _volumes(
    broker: BrokerId, disks: Disks, min_free: MinFree, capacities: Mapping[str, int]
) -> list[DiskVolume]:
    """Return the volumes of a broker; none if the size of one is unknown."""
    held: Counter[str] = Counter()
    for partition, path in disks.placed.items():
        held[path] += disks.sizes.get(partition, 0)
    dirs = [d for d in disks.dirs if not d.is_failed]
    names = volume_names(dirs, held, separate=capacities)
    volumes: dict[str, DiskVolume] = {}
    for d in sorted(dirs, key=lambda d: d.path):
        total, usable = d.total, d.usable
        if total is None and d.path in capacities:
            total = capacities[d.path]
            usable = max(0, total - held[d.path])
        if total is None or usable is None:
            return []
        before = volumes.get(names[d.path])
        paths = (d.path,) if before is None else (*before.paths, d.path)
        used = max(total - usable, 0 if before is None else before.used)
        limit = float(total - min_free.of(total))
        volumes[names[d.path]] = DiskVolume(broker, paths, total, used, limit)
    return list(volumes.values())


def _count_active(
    volumes: list[DiskVolume], found: ClusterState, read: DisksRead, sizes: Sizes
) -> None:
    """Count partitions that are being reassigned as if they had reached their targets."""
    by_broker: dict[BrokerId, list[DiskVolume]] = {}
    for volume in volumes:
        by_broker.setdefault(volume.broker, []).append(volume)
    for partition, active in found.active.items():
        present = [b for b in active.replicas if b not in active.adding]
        for broker in {*present, *active.target}:
            disks = read.get(broker)
            if not isinstance(disks, Disks) or broker not in by_broker:
                continue
            has = disks.sizes.get(partition, 0)
            comes = sizes.get(partition, 0) if broker in active.target else 0
            # A replica in sync has what it will have.
            change = 0 if broker in present and broker in active.target else comes - has
            path = disks.placed.get(partition)
            on = [v for v in by_broker[broker] if path in v.paths or len(by_broker[broker]) == 1]
            if on:
                on[0].used += change
            else:
                # Any of them may take it.
                for volume in by_broker[broker]:
                    volume.limit -= max(0, change)


# --- words ---------------------------------------------------------------------------------------


def plan_lines(plan: Relief | BudgetPlan, basis: SmallBasis) -> Iterator[str]:
    """Summarize a small plan."""
    yield from small_plan_lines(plan, len(basis.movable))
    for note in basis.notes:
        yield f"Note: {note}"
    if basis.left_out:
        yield f"Note: left out, because they are reassigning: {names_text(basis.left_out)}"


def small_plan_lines(plan: Relief | BudgetPlan, partitions: int) -> Iterator[str]:
    """Summarize a small plan of so many partitions, and compare it with what any plan can do."""
    yield (
        f"{len(plan.moves)} of {count_text(partitions, 'partition')} to change; "
        + ", ".join(_amounts(plan))
        + "."
    )
    if isinstance(plan, Relief):
        goal = plan.goal
        yield (
            f"{goal.name}: {plan.fill_before:.1%} full before, {plan.fill_after:.1%} after; "
            f"{show_bytes(plan.bytes_above)} had to leave to be below {100 * goal.mark:g}%"
            + (", and no plan copies fewer bytes" if plan.is_least and plan.moves else "")
        )
    else:
        yield (
            f"the fullest broker has {plan.fullest_before:.3f} times its even share before, "
            f"{plan.fullest_after:.3f} times after; with {show_bytes(plan.budget)} no plan comes "
            f"below {plan.fullest_bound:.3f}. To bring all brokers within the tolerance takes "
            f"{show_bytes(plan.bytes_wanted)}"
        )
    for volume in plan.volumes[:LISTED]:
        total = max(1, volume.total_bytes)
        yield (
            f"  broker {volume.broker}{', ' if volume.log_dirs else ''}"
            f"{', '.join(volume.log_dirs)}: {volume.bytes_before / total:.1%} full before, "
            f"{volume.bytes_after / total:.1%} after"
        )
    if len(plan.volumes) > LISTED:
        yield f"  and {count_text(len(plan.volumes) - LISTED, 'more volume')}"


def _amounts(plan: VolumePlan) -> Iterator[str]:
    relocated = len(plan.moves) - plan.copies
    if plan.copies or not relocated:
        copied = count_text(plan.copies, "replica")
        yield f"{copied} to copy ({show_bytes(plan.bytes_copied)})"
    if relocated:
        within = show_bytes(plan.bytes_moved - plan.bytes_copied)
        yield f"{count_text(relocated, 'replica')} to another disk of the broker ({within})"


def plan_document(plan: Relief | BudgetPlan, basis: SmallBasis) -> dict[str, object]:
    """Return a small plan for ``--json``."""
    return {
        "current": document_of(plan.before),
        "proposed": document_of(plan.changed, plan.log_dirs),
        **plan.document(),
        "left_out": [str(p) for p in basis.left_out],
        "notes": list(basis.notes),
    }
