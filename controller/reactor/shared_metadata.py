"""
What brokers' clients should see of partitions, kept so that all brokers can share it.

Every broker is told of every partition. What is told of many at once is cut into parts when it is
added: brokers are told the same parts whenever they are free, so that a part need not be put
together, and encoded (``brokers.controller_requests``), for each of them. What is told of few is
merged while it waits. A state that waits may be told although a newer one waits behind it, never
after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from controller.core.model import LEADER_DURING_DELETE, NO_LEADER, TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import UpdateMetadataState

UPDATE_METADATA_CHUNK: Final = 2000
MANY: Final = 500
"""From how many partitions on it is told as it is."""
STATES_EACH: Final = 2
"""How many states of a partition may wait on average; beyond, all are merged into the newest."""

States = Mapping[TopicPartition, UpdateMetadataState]
_Item = TypeVar("_Item")


class SharedMetadata:
    """What is to be seen of some partitions; never changed, as several queues hold it."""

    __slots__ = ("_parts", "states")

    def __init__(self, states: States) -> None:
        """Take the states, which must not be changed afterwards."""
        self.states = states
        self._parts: tuple[tuple[UpdateMetadataState, ...], ...] | None = None

    @property
    def parts(self) -> tuple[tuple[UpdateMetadataState, ...], ...]:
        """What one UpdateMetadata each tells: the same objects for every queue."""
        if self._parts is None:
            self._parts = tuple(chunks(tuple(self.states.values()), UPDATE_METADATA_CHUNK))
        return self._parts

    def __bool__(self) -> bool:
        """Whether it tells anything."""
        return bool(self.states)

    def without(self, partitions: Collection[TopicPartition]) -> SharedMetadata:
        """Return what it tells of the others."""
        if not any(p in partitions for p in self.states):
            return self
        return SharedMetadata({p: s for p, s in self.states.items() if p not in partitions})

    @property
    def is_long(self) -> bool:
        """Whether it is told as it is."""
        return len(self.states) >= MANY


def seen_together(waiting: Iterable[SharedMetadata]) -> Iterator[tuple[UpdateMetadataState, ...]]:
    """Yield what one UpdateMetadata each tells, so that the newest of a partition comes last."""
    short: dict[TopicPartition, UpdateMetadataState] = {}
    for news in waiting:
        if news.is_long:
            yield from SharedMetadata(short).parts
            short = {}
            yield from news.parts
        else:
            short.update(news.states)
    yield from SharedMetadata(short).parts


def added(
    waiting: Sequence[SharedMetadata], news: SharedMetadata, partitions: int
) -> list[SharedMetadata]:
    """
    Return what waits with more of it.

    Args:
        waiting: What was added before, the oldest first.
        news: What is told after it.
        partitions: How many the cluster has: what waits for a broker that does not answer is
            bounded by it.

    """
    before = list(waiting)
    if before and len(before[-1].states) + len(news.states) < MANY:
        news = SharedMetadata({**before.pop().states, **news.states})
    together = [*before, news]
    if sum(len(n.states) for n in together) <= max(MANY, STATES_EACH * partitions):
        return together
    newest: dict[TopicPartition, UpdateMetadataState] = {}
    for known in together:
        newest.update(known.states)
    return [SharedMetadata(newest)]


def parted(
    waiting: Iterable[SharedMetadata], is_late: Callable[[TopicPartition], bool]
) -> tuple[list[SharedMetadata], list[SharedMetadata]]:
    """
    Return what is told now, and what is told later: the news of some partitions.

    What is told of many at once is not parted, or it would be encoded for each broker. Of these
    partitions it is the newest, so that nothing before it may follow it.
    """
    now: list[SharedMetadata] = []
    late: list[SharedMetadata] = []
    for news in waiting:
        if news.is_long:
            now.append(news)
            late = [kept for known in late if (kept := known.without(news.states))]
        else:
            later = {p for p in news.states if is_late(p)}
            now.append(news.without(later))
            late.append(news.without(news.states.keys() - later))
    return [n for n in now if n], [n for n in late if n]


def chunks(items: tuple[_Item, ...], size: int) -> Iterator[tuple[_Item, ...]]:
    """Yield the items in pieces of a size."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def update_metadata_state(
    view: ClusterView, partition: TopicPartition
) -> UpdateMetadataState | None:
    """Return what clients should see of a partition, as the view says now; None: not known."""
    state = view.states.get(partition)
    if state is None or view.known_assignment(partition) is None:
        return None
    replicas = view.serving_replicas(partition)
    leader = state.leader if view.is_live(state.leader, partition) else NO_LEADER
    if partition.topic in view.being_deleted:
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
        topic_id=view.topics[partition.topic].topic_id,
    )
