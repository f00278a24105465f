"""
States for UpdateMetadata, in a form that the queues of all brokers share.

Every broker receives the state of every partition. A large update is cut into parts when it is
added. Every broker is sent the same parts when it is free, so that a part is built and encoded
(``brokers.controller_requests``) once and not per broker. Small updates merge while they wait. A
queued state may be sent although a newer one is queued behind it, but never after that one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from controller.core.deletions.model import EPOCH_DURING_DELETE, LEADER_DURING_DELETE
from controller.core.model import NO_LEADER, PartitionState, TopicPartition, ZkVersion
from controller.core.view import ClusterView
from controller.reactor.ports import UpdateMetadataState

UPDATE_METADATA_CHUNK: Final = 2000
MANY: Final = 500
"""Partitions from which on an update is sent in shared parts, without merging."""
STATES_EACH: Final = 2
"""Queued states per partition, on average; beyond, all are merged into the newest ones."""

States = Mapping[TopicPartition, UpdateMetadataState]
_Item = TypeVar("_Item")


class SharedMetadata:
    """The states of some partitions, which must not change: several queues hold them."""

    __slots__ = ("_parts", "states")

    def __init__(self, states: States) -> None:
        self.states = states
        self._parts: tuple[tuple[UpdateMetadataState, ...], ...] | None = None

    @property
    def parts(self) -> tuple[tuple[UpdateMetadataState, ...], ...]:
        """The states of one UpdateMetadata each: the same objects for every queue."""
        if self._parts is None:
            self._parts = tuple(chunks(tuple(self.states.values()), UPDATE_METADATA_CHUNK))
        return self._parts

    def __bool__(self) -> bool:
        return bool(self.states)

    def without(self, partitions: Collection[TopicPartition]) -> SharedMetadata:
        """Return the states of the other partitions."""
        if not any(p in partitions for p in self.states):
            return self
        return SharedMetadata({p: s for p, s in self.states.items() if p not in partitions})

    @property
    def is_long(self) -> bool:
        """Return whether it is sent in shared parts, without merging."""
        return len(self.states) >= MANY


def updates_of(waiting: Iterable[SharedMetadata]) -> Iterator[tuple[UpdateMetadataState, ...]]:
    """Yield the states of one UpdateMetadata each; the newest of a partition comes last."""
    short: dict[TopicPartition, UpdateMetadataState] = {}
    for update in waiting:
        if update.is_long:
            yield from SharedMetadata(short).parts
            short = {}
            yield from update.parts
        else:
            short.update(update.states)
    yield from SharedMetadata(short).parts


def queue_with(
    waiting: Sequence[SharedMetadata], update: SharedMetadata, partitions: int
) -> list[SharedMetadata]:
    """
    Return a queue, the oldest update first, with an update appended, merged where possible.

    The number of partitions of the cluster bounds the queue of a broker that does not answer.
    """
    before = list(waiting)
    if before and len(before[-1].states) + len(update.states) < MANY:
        update = SharedMetadata({**before.pop().states, **update.states})
    together = [*before, update]
    if sum(len(n.states) for n in together) <= max(MANY, STATES_EACH * partitions):
        return together
    newest: dict[TopicPartition, UpdateMetadataState] = {}
    for known in together:
        newest.update(known.states)
    return [SharedMetadata(newest)]


def split_by_partition(
    waiting: Iterable[SharedMetadata], is_late: Callable[[TopicPartition], bool]
) -> tuple[list[SharedMetadata], list[SharedMetadata]]:
    """
    Split a queue into what is sent now and what is sent later, by partition.

    A large update is not split, or it would be encoded for each broker. Older states of its
    partitions are dropped from what is sent later, as they must not follow it.
    """
    now: list[SharedMetadata] = []
    late: list[SharedMetadata] = []
    for update in waiting:
        if update.is_long:
            now.append(update)
            late = [kept for known in late if (kept := known.without(update.states))]
        else:
            later = {p for p in update.states if is_late(p)}
            now.append(update.without(later))
            late.append(update.without(update.states.keys() - later))
    return [n for n in now if n], [n for n in late if n]


def chunks(items: tuple[_Item, ...], size: int) -> Iterator[tuple[_Item, ...]]:
    """Yield the items in chunks of a size."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def update_metadata_state(
    view: ClusterView, partition: TopicPartition
) -> UpdateMetadataState | None:
    """Return the state for UpdateMetadata that the view has now; None: it is unknown."""
    state = view.leadership.states.get(partition)
    if view.topics.known_assignment(partition) is None:
        return None
    if state is None:
        if partition.topic not in view.deletions.running or view.tenure.held is None:
            return None
        # Brokers look at the leader only.
        state = PartitionState(
            LEADER_DURING_DELETE, EPOCH_DURING_DELETE, (), view.tenure.held.epoch, ZkVersion(0)
        )
    replicas = view.serving_replicas(partition)
    leader = state.leader if view.is_live(state.leader, partition) else NO_LEADER
    if partition.topic in view.deletions.being_deleted:
        leader = LEADER_DURING_DELETE
    return UpdateMetadataState(
        partition=partition,
        controller_epoch=state.controller_epoch,
        leader=leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.version,
        replicas=replicas,
        offline_replicas=tuple(r for r in replicas if not view.is_live(r, partition)),
        topic_id=view.topics.by_name[partition.topic].topic_id,
    )
