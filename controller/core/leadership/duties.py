"""
A controller's duties to every partition, reassigning or not (kafka-facts, 2.3).

Each duty is level-triggered: a partition whose leader is not live needs an election, whatever event
showed that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from controller.core import effects, model
from controller.core.cluster import protocols
from controller.core.deletions.pending_deletions import (
    is_leader_withheld,
    is_stopped,
    owes_a_yield,
)
from controller.core.leadership import leader_selection
from controller.core.leadership.leader_selection import state_record, without_strangers
from controller.core.leadership.model import RECOVERING
from controller.core.leadership.records import StateCreatedRecord
from controller.core.model import NO_BROKERS, BrokerId, PartitionState, Replicas, TopicPartition
from controller.core.records import Change
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

Brokers = Collection[BrokerId]


def send_leader_and_isr(
    view: ClusterView, partition: TopicPartition, brokers: Iterable[BrokerId]
) -> tuple[effects.Effect, ...]:
    """
    Return LeaderAndIsr at the present epoch to these brokers.

    Nothing while the topic is stale: a leader that gets former replicas takes them into the ISR
    again. Nothing of a topic that is being deleted to brokers that were sent the deletion: they
    would create its replicas again.

    None of the brokers is new to the partition: one that restarted since it was added may have its
    log on a failed disk, and the leader may have taken it into the ISR since our read.
    """
    recipients = tuple(b for b in brokers if not is_stopped(view, partition.topic, b))
    if view.topics.assignment(partition) is None or not recipients:
        return ()
    return (effects.SendLeaderAndIsr(partition, recipients),)


def send_states(
    view: ClusterView, due: Worklist, partitions: Iterable[TopicPartition]
) -> Iterator[effects.Effect]:
    """Yield LeaderAndIsr of the known states to their replicas."""
    for partition in partitions:
        # Where the leader restarted, they are sent it with the leader epoch of the repair.
        if partition in view.leadership.states and not leader_bounced(view, due, partition):
            replicas = view.receivers(view.serving_replicas(partition), partition)
            yield from send_leader_and_isr(view, partition, replicas)


def repair(view: ClusterView, partition: TopicPartition, bounced: Brokers = ()) -> Change | None:
    """
    Return the change that adapts the partition's state to the live brokers, if one is needed.

    ``bounced`` brokers restarted between two reads: they are treated as failed first.
    """
    assignment = view.topics.assignment(partition)
    if assignment is None or view.tenure.held is None:
        return None
    if partition in view.leadership.stateless:
        return create(view, partition, assignment.replicas)
    state = view.leadership.states.get(partition)
    if state is None:
        return None
    if not view.is_live(state.leader, partition) or state.leader in bounced:
        return _elect(view, partition, state, bounced)
    return (
        hand_over(view, partition, bounced)
        or _shrink(view, partition, state, bounced)
        or _raise_epoch(view, partition, state)
    )


def _shrink(
    view: ClusterView, partition: TopicPartition, state: PartitionState, bounced: Brokers
) -> Change | None:
    """Take the brokers out of the ISR that do not stay, and what is no replica any more."""
    isr = _remaining(view, partition, state, state.leader, bounced)
    leader: BrokerId | None = state.leader
    assignment = view.topics.assignment(partition)
    if assignment is None or leader not in assignment.replicas:
        # No LeaderAndIsr reaches a leader that is not a replica: another one is written.
        serving = view.serving_replicas(partition)
        leader = leader_selection.reassigned_leader(serving, isr, lambda r: r in isr)
    isr = isr if leader is None else without_strangers(view, partition, leader, isr)
    if leader is None or isr == state.isr:
        return None
    return _write(view, partition, state, leader, isr)


def _raise_epoch(
    view: ClusterView, partition: TopicPartition, state: PartitionState
) -> Change | None:
    """
    Write the state with the next leader epoch where a replica that is to join the ISR restarted.

    * A step adds it. A process whose session expired while it handled the LeaderAndIsr may have
      noted the leader epoch without a log (the topic's settings come from ZooKeeper), and ignores
      that epoch from then on. Kafka's controller raises it, too
      (``KafkaController.onBrokerStartup``).
    * The leader may have requested it before.

    The same where a leader may wait for an answer that it will not get (``isr_changes``). Where a
    bounce cannot be judged yet, the write waits for it: it would say that the broker is in sync.
    """
    if (
        partition in view.leadership.epochs_due
        or _may_lack_a_log(view, partition, state)
        or may_have_requested_before(view, partition, state)
    ):
        return next_epoch(view, partition, state)
    return None


def next_epoch(
    view: ClusterView, partition: TopicPartition, state: PartitionState
) -> Change | None:
    """Return the write of the next leader epoch alone; None while a bounce cannot be judged yet."""
    if view.awaits_repair(partition):
        return None
    return _write(view, partition, state, state.leader, state.isr)


def _may_lack_a_log(view: ClusterView, partition: TopicPartition, state: PartitionState) -> bool:
    """Return whether the broker of a replica that a step adds registered since the last write."""
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is None or not reassignment.rejoined:
        return False
    assignment = view.topics.assignment(partition)
    if assignment is None:
        return False
    awaited = reassignment.rejoined.intersection(assignment.adding_replicas).difference(state.isr)
    return any(view.is_staying(broker, partition) for broker in awaited)


def may_have_requested_before(
    view: ClusterView, partition: TopicPartition, state: PartitionState
) -> bool:
    """
    Return whether the leader's request may be older than the restart of a replica outside the ISR.

    A leader repeats AlterPartition until a controller answers; below inter-broker protocol 2.7 its
    own write waits while it has no connection to ZooKeeper. Meanwhile the replica may have lost its
    log (KIP-903). A raised leader epoch fences both; the next request follows a fetch of the
    replica with that epoch. Once raised, the state is newer than every registration, so each
    registration raises it once, and another daemon that reads the state knows as much.

    True also where the leader was refused a request in this leader epoch.
    False where the epoch is not raised: the topic is being deleted, or it is to be deleted and its
    leader is not live.
    """
    is_refused = view.leadership.told_ineligible.get(partition) == state.leader_epoch
    if not (state.mzxid or is_refused):
        return False
    isr = state.isr
    for replica in view.serving_replicas(partition):
        if (
            replica not in isr
            and view.is_live(replica, partition)
            and (is_refused or view.cluster.brokers[replica].epoch > state.mzxid)
        ):
            return not is_epoch_withheld(view, partition, state)
    return False


def is_epoch_withheld(view: ClusterView, partition: TopicPartition, state: PartitionState) -> bool:
    """Return whether no leader epoch is written, as the topic is deleted or to be deleted."""
    is_leaderless = not view.is_live(state.leader, partition)
    return partition.topic in view.deletions.running or (
        is_leaderless and is_leader_withheld(view, partition.topic)
    )


def create(view: ClusterView, partition: TopicPartition, replicas: Replicas) -> Change | None:
    """Create a new partition's state: the first live replica leads, all live ones are in sync."""
    if view.tenure.held is None or is_leader_withheld(view, partition.topic):
        return None
    live = tuple(r for r in replicas if view.is_staying(r, partition))
    if not live:
        return None
    return Change(
        records=(StateCreatedRecord(partition, live[0], live, view.tenure.held.epoch),),
        effects=(
            effects.SendLeaderAndIsr(partition, live, live),
            effects.SendUpdateMetadata((partition,)),
        ),
        partition=partition,
    )


def _elect(
    view: ClusterView, partition: TopicPartition, state: PartitionState, bounced: Brokers
) -> Change | None:
    """
    Elect a leader for a partition whose leader is not live, or write that it has none.

    Where no member of the ISR is live, the absence of a leader is written first and settings are
    requested afterwards: only their answer permits an unclean election, unless a client requests
    one. Kafka's controller also elects no leader for a topic that is being deleted; but a step in
    flight has to end before the deletion can have the role, and so has all pending work once the
    deletion had its time.
    """
    running = view.reassignments.by_partition.get(partition)
    is_moved = running is not None and (running.in_flight or not owes_a_yield(view))
    if is_leader_withheld(view, partition.topic) and not is_moved:
        return None
    leader = _clean_leader(view, partition, state, bounced)
    if leader is None:
        # A broker that is shutting down serves for a moment, and no other can.
        leader = leader_selection.offline_leader(
            view.serving_replicas(partition),
            state.isr,
            lambda r: view.is_live(r, partition) and r not in bounced,
            unclean=False,
        )
    if leader is None:
        leader = leader_selection.offline_leader(
            _full_first(view, partition),
            state.isr,
            lambda r: view.is_staying(r, partition),
            unclean=leader_selection.is_unclean_requested(view, partition)
            or (
                state.leader == model.NO_LEADER
                and leader_selection.permits_unclean(view, partition)
            ),
        )
    if leader is None:
        # All of the ISR is dead. It stays unchanged: each member has every acknowledged record, so
        # the first that returns may lead. Kafka keeps only the last one; this loses less.
        if state.leader == model.NO_LEADER:
            return None
        return _write(view, partition, state, model.NO_LEADER, state.isr)
    if leader in state.isr:
        isr = _remaining(view, partition, state, leader, bounced)
        return _write(view, partition, state, leader, isr)
    is_marked = protocols.marks_recovery(view)
    recovery = RECOVERING if is_marked else state.leader_recovery_state
    return _write(
        view, partition, replace(state, leader_recovery_state=recovery), leader, (leader,)
    )


def hand_over(view: ClusterView, partition: TopicPartition, bounced: Brokers = ()) -> Change | None:
    """Return the move of a leadership off a broker that shuts down, if another one can lead."""
    state = view.leadership.states.get(partition)
    if state is None or state.leader not in view.leadership.shutting_down:
        return None
    if is_leader_withheld(view, partition.topic) or view.topics.assignment(partition) is None:
        return None
    leader = _clean_leader(view, partition, state, bounced)
    if leader is None:
        return None
    isr = _remaining(view, partition, state, leader, bounced)
    return _write(view, partition, state, leader, isr)


def _clean_leader(
    view: ClusterView, partition: TopicPartition, state: PartitionState, bounced: Brokers
) -> BrokerId | None:
    """Return the first replica in the ISR whose broker stays."""
    return leader_selection.offline_leader(
        view.serving_replicas(partition),
        state.isr,
        lambda r: view.is_staying(r, partition) and r not in bounced,
        unclean=False,
    )


def _remaining(
    view: ClusterView,
    partition: TopicPartition,
    state: PartitionState,
    leader: BrokerId,
    bounced: Brokers,
) -> Replicas:
    """
    Return the ISR without brokers that are dead, bounced, or shutting down; the leader stays.

    In a topic that is to be deleted, brokers that shut down stay in it, as with Kafka's controller.
    """
    stays = view.is_live if view.is_to_be_deleted(partition.topic) else view.is_staying
    return tuple(
        [r for r in state.isr if r == leader or (stays(r, partition) and r not in bounced)]
    )


def _full_first(view: ClusterView, partition: TopicPartition) -> Replicas:
    """Return the serving replicas, those being added last: they may have no data yet."""
    assignment = view.topics.known_assignment(partition)
    adding = () if assignment is None else assignment.adding_replicas
    return tuple(sorted(view.serving_replicas(partition), key=lambda r: r in adding))


def _write(
    view: ClusterView,
    partition: TopicPartition,
    state: PartitionState,
    leader: BrokerId,
    isr: tuple[BrokerId, ...],
) -> Change:
    write = state_record(view, partition, state, leader, isr)
    receivers = view.receivers(view.serving_replicas(partition), partition)
    if leader in view.leadership.shutting_down and leader not in receivers:
        receivers += (leader,)
    stopped = tuple(
        r
        for r in state.isr
        if r not in isr and r in view.leadership.shutting_down and view.is_live(r, partition)
    )
    return Change(
        records=(write,),
        effects=(
            *send_leader_and_isr(view, partition, receivers),
            # A former leader that shuts down hears that it follows, but is to fetch nothing.
            *(
                effects.SendStopReplica(partition, r, write.leader_epoch, delete=False)
                for r in stopped
            ),
            effects.SendUpdateMetadata((partition,)),
        ),
        partition=partition,
    )


def has_candidate(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether a replica can lead, in the ISR or not."""
    return any(view.is_staying(r, partition) for r in view.serving_replicas(partition))


def elect_preferred(view: ClusterView, partition: TopicPartition) -> Change | None:
    """Return the move of the leadership to the first assigned replica, if it can lead."""
    assignment = view.topics.assignment(partition)
    state = view.leadership.states.get(partition)
    if assignment is None or state is None or assignment.is_reassigning:
        return None
    leader = leader_selection.preferred_leader(
        assignment.replicas, state.isr, lambda r: view.is_staying(r, partition)
    )
    if leader is None or leader == state.leader:
        return None
    return _write(view, partition, state, leader, state.isr)


def leader_bounced(view: ClusterView, due: Worklist, partition: TopicPartition) -> bool:
    """
    Return whether the leader restarted, and this turn or a later one treats it as failed.

    The leader is sent nothing before that: the next leader epoch that it hears of is that of the
    repair. It may have lost records that it acknowledged in the present one.
    """
    state = view.leadership.states.get(partition)
    if state is None:
        return False
    now = due.bounced | due.bounced_from.get(partition, set())
    later = view.due.held.get(partition, NO_BROKERS) | view.leadership.bounced.get(partition, set())
    return state.leader in now | later
