"""
Gates: whether a step may begin, and whether its dropped replicas may leave.

The prerequisites of any step come last.

A gate returns None (continue) or what is waited for, as a sentence. It is evaluated on the state
that the next compare-and-set is conditional on; after a version conflict everything is decided
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from controller.core import core_settings, model
from controller.core.deletions import pending_deletions
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Replicas,
    TopicPartition,
    ids,
)
from controller.core.reassignments.orphans import is_kept
from controller.core.reassignments.steps import Step
from controller.core.view import ClusterView


def config_unknown(view: ClusterView, topic: str) -> Blocked:
    """Return the block of unknown settings of the topic, with the reason."""
    why = view.topics.config_errors.get(topic, "not read yet")
    return Blocked(BlockedBy.CONFIG_UNKNOWN, f"min.insync.replicas is unknown: {why}")


def begin_gate(  # noqa: PLR0913, PLR0917 - the facts of one step
    view: ClusterView,
    partition: TopicPartition,
    spec: model.ReassignmentSpec,
    state: model.PartitionState,
    current: Replicas,
    step: Step,
    *,
    by_others: bool = False,
    tolerated: Replicas = (),
) -> Blocked | None:
    """
    Return what keeps a step from beginning: settings, a dead broker, a replica out of the ISR.

    A step that another controller carries out (``by_others``) need not wait for old copies, which
    that controller fences, nor for deletions, as it has the role for both. One that changes only
    the order gives up no copy: it need not wait for the ISR, and no step for the ``tolerated``
    replicas.
    """
    blocked = None if by_others else _deletion_gate(view, partition.topic)
    if blocked is None and partition.topic not in view.topics.configs:
        blocked = config_unknown(view, partition.topic)
    blocked = blocked or _live_gate(view, partition, step.adding)
    if blocked is None and not by_others:
        blocked = _orphan_gate(view, partition, step.adding)
    # A rollback is judged by the resulting ISR, not by whether every original replica is live.
    behind = tuple(r for r in current if r not in state.isr and r not in step.hopeless)
    lagging = tuple(r for r in behind if r not in tolerated)
    if blocked is None and lagging and step.changes_replicas and not spec.rolls_back:
        blocked = _not_in_isr(view, partition, lagging, staying=current)
    return blocked


def _deletion_gate(view: ClusterView, topic: str) -> Blocked | None:
    """Block a copy of a topic that is to be deleted: it would delay the deletion."""
    if topic not in (view.deletions_session.markers or ()):
        return None
    if pending_deletions.left_to_a_broker(view, {topic}):
        is_on_demand = view.options.tenure is core_settings.TenurePolicy.ON_DEMAND
        if topic in view.deletions_process.yielded or not is_on_demand:
            return None
    return Blocked(BlockedBy.TOPIC_DELETION, f"topic deletion is pending: {topic}")


def _live_gate(view: ClusterView, partition: TopicPartition, adding: Replicas) -> Blocked | None:
    dead = tuple(r for r in adding if not view.is_live(r, partition))
    if dead:
        return _broker_dead(view, dead, f"broker {ids(dead)} of the target is not live")
    leaving = tuple(r for r in adding if not view.is_staying(r, partition))
    if not leaving:
        return None
    return Blocked(BlockedBy.BROKER_DEAD, f"broker {ids(leaving)} of the target is shutting down")


def _broker_dead(view: ClusterView, dead: Replicas, detail: str) -> Blocked:
    """Return the block of dead replicas, or of offline disks if their brokers are live."""
    offline = tuple(r for r in dead if r in view.cluster.brokers)
    if offline:
        detail = f"the log directory of the replica on broker {ids(offline)} is offline"
    return Blocked(BlockedBy.BROKER_DEAD, detail)


def _orphan_gate(view: ClusterView, partition: TopicPartition, adding: Replicas) -> Blocked | None:
    reassignments = view.reassignments
    for broker in adding:
        orphan = reassignments.orphans.get((broker, partition))
        if orphan is not None and view.is_undeletable(orphan):
            # A second copy on another disk would keep the broker from starting with both disks.
            detail = f"broker {broker} has its old copy on a failed disk"
            return Blocked(BlockedBy.BROKER_DEAD, detail)
        if orphan is not None and orphan not in reassignments.orphans_failed:
            # A StopReplica may be under way, and below version 3 no epoch would fence it.
            detail = f"broker {broker} is still deleting its old copy"
            if is_kept(view, partition):
                detail = (
                    f"broker {broker} is to delete its old copy, which is kept until all live "
                    "replicas are in the ISR"
                )
            return Blocked(BlockedBy.STOP_REPLICA_ACK, detail)
    return None


def election_gate(
    view: ClusterView, partition: TopicPartition, isr: Replicas, leader: BrokerId
) -> Blocked | None:
    """Return why a replica cannot be elected: it is not live, shutting down, or out of the ISR."""
    blocked = _live_gate(view, partition, (leader,))
    if blocked is None and leader not in isr:
        blocked = _not_in_isr(view, partition, (leader,))
    return blocked


def sync_gate(
    view: ClusterView,
    partition: TopicPartition,
    spec: model.ReassignmentSpec,
    state: model.PartitionState,
    target: Replicas,
) -> Blocked | None:
    """
    Return what keeps the step's target from being within the ISR.

    A replica outside the final target is not awaited: if it died or lags, the next step drops it
    first. Where all lagging replicas are live and being added, and their leader is live, the
    partition is copying.
    """
    awaited = lagging_replicas(spec, state, target)
    if not awaited:
        return None
    assignment = view.topics.known_assignment(partition)
    adding = () if assignment is None else assignment.adding_replicas
    is_copying = view.is_live(state.leader, partition) and set(awaited) <= set(adding)
    staying = tuple(r for r in awaited if r not in adding)
    return _not_in_isr(view, partition, awaited, is_copying=is_copying, staying=staying)


def lagging_replicas(
    spec: model.ReassignmentSpec, state: model.PartitionState, target: Replicas
) -> Replicas:
    """Return which replicas of a step's target are to stay and are not in the ISR."""
    return tuple(r for r in target if r in spec.target and r not in state.isr)


def _not_in_isr(
    view: ClusterView,
    partition: TopicPartition,
    lagging: Replicas,
    *,
    is_copying: bool = False,
    staying: Replicas = (),
) -> Blocked:
    """Return the block of lagging replicas; those that stay are said to, as they bring nothing."""
    dead = tuple(r for r in lagging if not view.is_live(r, partition))
    if dead:
        stay = tuple(r for r in dead if r in staying)
        where = "" if stay == dead else f"on {ids(stay)} "
        whose = f", whose replica {where}stays," if stay else ""
        return _broker_dead(view, dead, f"broker {ids(dead)}{whose} is not live")
    conflict = id_conflict(view, partition, lagging)
    if conflict is not None:
        return Blocked(BlockedBy.REPLICA_NOT_IN_ISR, conflict)
    return _lagging(lagging, staying, is_copying)


@lru_cache(maxsize=1000)
def _lagging(replicas: Replicas, staying: Replicas, is_copying: bool) -> Blocked:  # noqa: FBT001 - a key
    # Equal ones are kept once: most partitions in flight have one.
    detail = f"{_replica_text(replicas, staying)} is not in ISR"
    return Blocked(BlockedBy.REPLICA_NOT_IN_ISR, detail, is_copying)


def _replica_text(replicas: Replicas, staying: Replicas) -> str:
    kept = tuple(r for r in replicas if r in staying)
    if kept == replicas:
        return f"replica {ids(replicas)}, which stays,"
    return f"replica {ids(replicas)}" + (f" ({ids(kept)} stays)" if kept else "")


def id_conflict(
    view: ClusterView, partition: TopicPartition, replicas: Iterable[BrokerId]
) -> str | None:
    """Return which of these brokers refuse the topic's id, as a sentence; None: none does."""
    refusing = [b for b in replicas if (b, partition) in view.leadership.id_conflicts]
    has = "has a log of another topic of this name and refuses the topic id (INCONSISTENT_TOPIC_ID)"
    return f"broker {ids(refusing)} {has}" if refusing else None


# --- prerequisites of any step -------------------------------------------------------------------


def is_deleted(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether the partition, or the one that its reassignment is for, is known not to exist.

    A topic of the same name may have been created since.
    """
    topic = view.topics.by_name.get(partition.topic)
    if topic is None:
        return view.topics.listed is not None and partition.topic not in view.topics.listed
    if view.is_of_former_topic(partition):
        return True
    return not topic.stale and partition.partition not in topic.partitions


def state_unknown(view: ClusterView, partition: TopicPartition) -> Blocked:
    """Return the block of unknown znodes of the partition, with the reason."""
    detail = "its state znode is being read"
    if partition.topic in view.topics.unreadable:
        detail = f"its topic znode cannot be decoded: {view.topics.unreadable[partition.topic]}"
    elif partition in view.leadership.stateless:
        detail = "it has no state znode: no controller wrote one yet"
    elif partition in view.leadership.unreadable:
        detail = f"its state znode cannot be decoded: {view.leadership.unreadable[partition]}"
    return Blocked(BlockedBy.STATE_UNKNOWN, detail)


def leader_missing(state: model.PartitionState) -> Blocked:
    """Return the block of a partition without a live leader, with the replicas that could lead."""
    detail = f"leader {state.leader} is not live"
    if state.leader == model.NO_LEADER:
        detail = f"it has no leader: no member of its ISR ({ids(state.isr)}) is live"
    return Blocked(BlockedBy.NO_LEADER, detail)


def leader_unassigned(state: model.PartitionState) -> Blocked:
    """Return the block of a leader that is no replica: no LeaderAndIsr would reach it."""
    return Blocked(
        BlockedBy.NO_LEADER,
        f"leader {state.leader} is not a replica any more, and no replica is live and in the ISR",
    )


# --- alter entries -------------------------------------------------------------------------------
# The gates of a step that the cluster's controller carries out are a function of these facts: while
# none of them changes, their result holds. Where one changed before the request is sent, it is
# withdrawn and everything is decided again.


class AlterPreconditions(NamedTuple):
    """The facts about one partition."""

    spec: model.ReassignmentSpec
    assignment: model.PartitionAssignment
    state: model.PartitionState
    settings: model.TopicConfig | None
    live: tuple[tuple[BrokerId, model.BrokerEpoch], ...]
    """Live brokers that have, had or are to have a replica, with their registrations."""


def preconditions_of(view: ClusterView, partition: TopicPartition) -> AlterPreconditions | None:
    """Return the facts; None where one is unknown, outdated, or of a former topic."""
    reassignment = view.reassignments.by_partition.get(partition)
    assignment, state = view.topics.assignment(partition), view.leadership.states.get(partition)
    if reassignment is None or assignment is None or state is None:
        return None
    # A former topic may be equal to the present one in all else.
    if view.is_of_former_topic(partition) or view.leadership.watched.get(partition) is not True:
        return None
    spec, settings = reassignment.spec, view.topics.configs.get(partition.topic)
    concerned = {*assignment.replicas, *spec.target, *(spec.original or ())}
    live = view.live(sorted(concerned), partition)
    epochs = tuple((b, view.cluster.brokers[b].epoch) for b in live)
    return AlterPreconditions(spec, assignment, state, settings, epochs)
