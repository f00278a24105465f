"""
Per-broker queues of requests, merged while the broker is busy.

A broker has one request in flight. What is added meanwhile joins the last batch of its queue: the
newest state of a partition replaces an older one that was not sent (for UpdateMetadata, which the
queues share, see ``shared_metadata``). Within a batch, LeaderAndIsr goes first, then
UpdateMetadata, then StopReplica, as in Kafka's controller. An addition that would change the
meaning of a queued request (a LeaderAndIsr for a replica that is about to be stopped) begins a new
batch. An UpdateMetadata with the live brokers precedes everything: a broker silently ignores a
leader it does not know. So does the complete UpdateMetadata for a broker that joined: without it
the broker would report to its clients that their topics do not exist.

States beyond the size of one LeaderAndIsr stay in the batch until the broker is free, and are
replaced by newer ones: a request is built only when it is sent.

Every broker receives the state of every partition, mostly for its clients' metadata alone. In a
large cluster, each change would be a request to every broker. So an UpdateMetadata for clients
alone is held back for ``METADATA_EVERY_S`` after the last one to the broker, and merges with what
comes in the meantime. That of a new partition is not: who creates a topic asks any broker for it at
once, and would hear that it does not exist. What is still held back at a resignation is not sent:
the next controller sends everything to every broker.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from controller.core import model
from controller.core.deletions.pending_deletions import is_stopped
from controller.core.reassignments.phases import Shrinking
from controller.core.view import ClusterView
from controller.reactor import ports, shared_metadata

LEADER_AND_ISR_CHUNK = 1000
"""Partitions per LeaderAndIsr: a broker handles it under one lock, which blocks other requests."""
NEW_REPLICAS_CHUNK = 250
"""New replicas per LeaderAndIsr: a broker creates their logs one by one under that lock."""
DELETED_CHUNK = 500
"""Replicas deleted by one StopReplica: a broker renames their directories one by one."""
METADATA_EVERY_S = 0.25
"""
Seconds between two UpdateMetadata to the same broker for clients alone, without new partitions.

A client with outdated metadata refreshes it after ``retry.backoff.ms`` (0.1 s), so the delay is of
the same order.
"""


@dataclass(slots=True)
class _Batch:
    live_brokers: bool = False
    leader_and_isr: dict[model.TopicPartition, ports.LeaderAndIsrState] = field(
        default_factory=dict
    )
    metadata: list[shared_metadata.SharedMetadata] = field(default_factory=list)
    """States for UpdateMetadata."""
    stop: dict[model.TopicPartition, ports.StopReplicaState] = field(default_factory=dict)
    delete: dict[model.TopicPartition, ports.StopReplicaState] = field(default_factory=dict)
    has_created: bool = False
    """Whether ``metadata`` has a partition that was just created."""

    def stops(self, partition: model.TopicPartition) -> bool:
        return partition in self.stop or partition in self.delete

    def split(self) -> tuple[_Batch, _Batch | None]:
        """
        Return what fits into one LeaderAndIsr with what precedes the rest, and the rest, if any.

        The UpdateMetadata for a partition follows its LeaderAndIsr, except in very large updates,
        which are shared by all brokers and not split for one of them.
        """
        first_states = _first_request(self.leader_and_isr)
        if len(first_states) == len(self.leader_and_isr):
            return self, None
        waiting = {p: s for p, s in self.leader_and_isr.items() if p not in first_states}
        now, later = shared_metadata.split_by_partition(self.metadata, waiting.__contains__)
        stop = {p: s for p, s in self.stop.items() if p not in waiting}
        first = _Batch(self.live_brokers, first_states, now, stop, self.delete)
        rest = {p: s for p, s in self.stop.items() if p in waiting}
        return first, _Batch(leader_and_isr=waiting, metadata=later, stop=rest)

    @property
    def may_wait(self) -> bool:
        """Return whether the batch only renews what clients can know of partitions."""
        is_for_broker = self.live_brokers or self.leader_and_isr or self.stop or self.delete
        return not (is_for_broker or self.has_created)


@dataclass(slots=True)
class _Queue:
    batches: deque[_Batch] = field(default_factory=deque)
    ready: deque[ports.BrokerRequest] = field(default_factory=deque)
    """Requests of the batch being sent, in order."""
    busy: bool = False
    metadata_sent_at: float = -math.inf
    """When the broker was last sent an UpdateMetadata with states."""

    def waits_until(self) -> float:
        """Return until when the queue is held back, which only updates for clients are."""
        if self.ready or len(self.batches) != 1 or not self.batches[0].may_wait:
            return -math.inf
        return self.metadata_sent_at + METADATA_EVERY_S

    def next_part(self) -> _Batch:
        """Remove the first batch from the queue, or as much of it as fits into one LeaderAndIsr."""
        part, rest = self.batches.popleft().split()
        if rest is not None:
            self.batches.appendleft(rest)
        return part

    def add_metadata(
        self,
        metadata: shared_metadata.SharedMetadata,
        partitions: int,
        *,
        has_created: bool = False,
    ) -> None:
        """Add states for UpdateMetadata; ``partitions`` is the number in the cluster."""
        if metadata:
            batch = self.tail()
            batch.metadata = shared_metadata.queue_with(batch.metadata, metadata, partitions)
            batch.has_created |= has_created

    def tail(self) -> _Batch:
        if not self.batches:
            self.batches.append(_Batch())
        return self.batches[-1]


class Outbox:
    """All brokers' queues."""

    def __init__(self) -> None:
        self._queues: dict[model.BrokerId, _Queue] = {}
        self._for_all: dict[model.TopicPartition, ports.UpdateMetadataState] = {}
        """States for every broker, added to all queues at the next ``take``."""
        self._has_created = False
        """Whether a partition was created since the last ``take``."""
        self.due: model.Instant | None = None
        """When to call ``take`` again: a queue is held back until then."""

    def open(self, broker: model.BrokerId) -> None:
        """Create an empty queue for a broker that registered."""
        self._queues[broker] = _Queue()

    def close(self, broker: model.BrokerId) -> None:
        """Delete the queue of a broker that is gone."""
        self._queues.pop(broker, None)

    def clear(self) -> None:
        """Delete all queues: the claim is lost."""
        self._queues.clear()
        self._for_all.clear()
        self._has_created = False
        self.due = None

    # --- adding --------------------------------------------------------------------------------

    def add_live_brokers(self) -> None:
        """Queue the live brokers for every broker, ahead of everything."""
        for queue in self._queues.values():
            if not queue.batches:
                queue.batches.append(_Batch())
            queue.batches[0].live_brokers = True

    def add_leader_and_isr(
        self,
        view: ClusterView,
        partition: model.TopicPartition,
        brokers: Iterable[model.BrokerId],
        new: Iterable[model.BrokerId],
    ) -> None:
        """
        Queue a LeaderAndIsr with the state that the view has now.

        ``new`` are those of the brokers that may create the replica (``_is_new``).

        Ignored for a broker that was sent the deletion of the topic: it would create the replica
        again. Ignored for a broker that a write of the same cycle dropped: up to Kafka 2.8, one
        without a log of it would take the partition for one on a failed disk, and neither create
        nor delete the replica until it restarts (``ReplicaManager.markPartitionOffline``).
        """
        state = view.leadership.states.get(partition)
        assignment = view.topics.known_assignment(partition)
        if state is None or assignment is None:
            return
        fresh = frozenset(new)
        self._has_created |= bool(fresh) and state.leader_epoch == 0
        old = _leader_and_isr_state(view, partition, state, assignment, is_new=False)
        for broker in brokers:
            queue = self._queues.get(broker)
            if queue is None or broker not in old.replicas:
                continue
            if is_stopped(view, partition.topic, broker):
                continue
            batch = queue.tail()
            if batch.stops(partition):
                batch = _Batch()
                queue.batches.append(batch)
            queued = batch.leader_and_isr.get(partition)
            is_new = _is_new(state, broker, queued, is_added=broker in fresh)
            batch.leader_and_isr[partition] = (
                _leader_and_isr_state(view, partition, state, assignment, is_new=True)
                if is_new
                else old
            )

    def add_update_metadata(
        self,
        view: ClusterView,
        partitions: Iterable[model.TopicPartition],
        brokers: Iterable[model.BrokerId] | None,
    ) -> None:
        """Queue UpdateMetadata for the partitions, for some brokers or (None) all."""
        seen = {
            p: s
            for p in partitions
            if (s := shared_metadata.update_metadata_state(view, p)) is not None
        }
        if brokers is None:
            self._for_all.update(seen)
            return
        # The states for every broker are added after these, so they must not be older.
        self._for_all.update({p: s for p, s in seen.items() if p in self._for_all})
        metadata = shared_metadata.SharedMetadata(seen)
        for queue in (self._queues[b] for b in brokers if b in self._queues):
            queue.add_metadata(metadata, len(view.leadership.states))
            queue.batches.append(_Batch())  # later additions must not precede this

    def add_stop_replica(
        self,
        view: ClusterView,
        partition: model.TopicPartition,
        broker: model.BrokerId,
        leader_epoch: model.LeaderEpoch,
        *,
        delete: bool,
    ) -> None:
        """
        Queue a StopReplica, without or with deletion.

        Ignored for a broker that serves the partition now: a write of the same cycle may have made
        it a replica again. The exceptions are a topic that is being deleted, and a follower that
        stops as its broker shuts down. What was queued for it is sent first: it may have been the
        leader.
        """
        queue = self._queues.get(broker)
        if queue is None or partition.topic not in view.topics.by_name:
            return
        batch = queue.tail()
        is_kept = partition.topic not in view.deletions.running
        if is_kept and broker in view.serving_replicas(partition):
            state = view.leadership.states.get(partition)
            leads = state is None or state.leader == broker
            if broker in view.leadership.shutting_down and not delete and not leads:
                batch.stop[partition] = ports.StopReplicaState(partition, leader_epoch, delete)
            return
        # The removal replaces what was queued for this replica.
        batch.leader_and_isr.pop(partition, None)
        wanted = batch.delete if delete else batch.stop
        wanted[partition] = ports.StopReplicaState(partition, leader_epoch, delete)

    # --- taking --------------------------------------------------------------------------------

    def note_answer(self, broker: model.BrokerId) -> None:
        """Note that the broker's request was answered: the next may be sent."""
        queue = self._queues.get(broker)
        if queue is not None:
            queue.busy = False

    def take(
        self, view: ClusterView, now: model.Instant
    ) -> Iterator[tuple[model.BrokerId, ports.BrokerRequest]]:
        """Yield the next request of every idle broker, and mark the broker as busy."""
        if self._for_all:
            metadata, self._for_all = shared_metadata.SharedMetadata(self._for_all), {}
            for queue in self._queues.values():
                queue.add_metadata(
                    metadata, len(view.leadership.states), has_created=self._has_created
                )
        self._has_created = False
        due = math.inf
        for broker, queue in self._queues.items():
            if queue.busy:
                continue
            until = queue.waits_until()
            if until > now:
                due = min(due, until)
                continue
            while not queue.ready and queue.batches:
                queue.ready.extend(_requests(view, queue.next_part()))
            if queue.ready:
                queue.busy = True
                request = queue.ready.popleft()
                if isinstance(request, ports.UpdateMetadata) and request.states:
                    queue.metadata_sent_at = now
                yield broker, request
        self.due = None if due == math.inf else model.Instant(due)


def _requests(view: ClusterView, batch: _Batch) -> Iterator[ports.BrokerRequest]:
    if view.tenure.held is None:
        return
    epoch, protocol = view.tenure.held.epoch, view.tenure.protocol
    live = view.announced_brokers
    if batch.live_brokers and (batch.leader_and_isr or not batch.metadata):
        yield ports.UpdateMetadata(epoch, (), live, protocol)
    # The answers as of version 5 name topics by their ids only.
    for has_id in (True, False):
        states = tuple(
            s for s in batch.leader_and_isr.values() if (s.topic_id is not None) == has_id
        )
        if states:
            leaders = {s.leader for s in states}
            leading = tuple(b for b in live if b.id in leaders)
            yield ports.LeaderAndIsr(epoch, states, leading, protocol)
    for update in shared_metadata.updates_of(batch.metadata):
        yield ports.UpdateMetadata(epoch, update, live, protocol)
    for stops, most in ((batch.stop, LEADER_AND_ISR_CHUNK), (batch.delete, DELETED_CHUNK)):
        for stopped in shared_metadata.chunks(tuple(stops.values()), most):
            yield ports.StopReplica(epoch, stopped, protocol)


def _first_request(
    states: dict[model.TopicPartition, ports.LeaderAndIsrState],
) -> dict[model.TopicPartition, ports.LeaderAndIsrState]:
    """Return the states of one LeaderAndIsr, those that create no replica first: they are quick."""
    known = [p for p, s in states.items() if not s.is_new][:LEADER_AND_ISR_CHUNK]
    room = min(NEW_REPLICAS_CHUNK, LEADER_AND_ISR_CHUNK - len(known))
    created = [p for p, s in states.items() if s.is_new][:room]
    return {p: states[p] for p in chain(known, created)}


def _is_new(
    state: model.PartitionState,
    broker: model.BrokerId,
    queued: ports.LeaderAndIsrState | None,
    *,
    is_added: bool,
) -> bool:
    """
    Return the ``is_new`` flag: whether the broker may create the log despite a failed disk.

    False for a member of the ISR: it may have lost the log with the disk, and would lead with an
    empty one. The exception is a partition whose first state was just written: no replica has a
    log yet. What is queued of that was never sent, so no record was acknowledged that the broker
    would lack. ``is_added``: whether the write that is sent makes the broker a replica.
    """
    if broker not in state.isr:
        return is_added or (queued is not None and queued.is_new)
    is_first = is_added and state.leader_epoch == 0
    return is_first or (queued is not None and queued.is_new and broker in queued.isr)


def _leader_and_isr_state(
    view: ClusterView,
    partition: model.TopicPartition,
    state: model.PartitionState,
    assignment: model.PartitionAssignment,
    *,
    is_new: bool,
) -> ports.LeaderAndIsrState:
    replicas = view.serving_replicas(partition)
    reassignment = view.reassignments.by_partition.get(partition)
    # When the target is in sync, no replica is being added, as in Kafka's B3.
    ended = reassignment is None or isinstance(reassignment.phase, Shrinking)
    adding = () if ended else tuple(r for r in assignment.adding_replicas if r in replicas)
    return ports.LeaderAndIsrState(
        partition=partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.version,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=tuple(r for r in assignment.removing_replicas if r in replicas),
        is_new=is_new,
        topic_id=view.topics.by_name[partition.topic].topic_id,
        leader_recovery_state=state.leader_recovery_state,
    )
