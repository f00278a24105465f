"""
The rule about alter entries: none deletes the last in-sync replicas, as far as the daemon can know.

Kafka's controller carries out every entry without a check of the ISR: what an entry in flight was
adding and the next one does not name is deleted at once. So an entry is judged by the ISR in
ZooKeeper when it was decided and sent, one right after the other; changes while it waits at the
controller do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.core.model import Replicas, TopicPartition
from controller.reactor.ports import AlterEntry
from tests.sim.bound_rules import BoundRules
from tests.sim.decoded import read_state
from tests.sim.rules import Rule
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.world import World

NOTICE_S: Final = 1.0
"""The time that a daemon may take to hear of a change of the ISR."""
FRESH_S: Final = 0.1
"""The time that an entry may take from the daemon's decision to the controller."""


class Way(NamedTuple):
    """The times of an entry: when it was decided, and when it was sent."""

    handed_at: float
    sent_at: float
    floors: Mapping[TopicPartition, int] = {}
    """
    The replicas of each partition that had to stay in sync when the entry was sent.

    The settings and the target may change before the controller carries the entry out.
    """


class AlterRules:
    """The history of the ISR of every partition; judges each entry."""

    def __init__(self, world: World, bound: BoundRules | None = None) -> None:
        """Listen to every transaction; the bound is judged where it is given."""
        self._world = world
        self._bound = bound
        self._isrs: defaultdict[TopicPartition, list[tuple[float, Replicas]]] = defaultdict(list)
        for partition in world.partitions():
            state = world.state(partition)
            if state is not None:
                self._isrs[partition].append((0.0, state.isr))
        world.zookeeper.listeners.append(self._transacted)

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic, "partitions", number, "state"] if written.after:
                    read = read_state(written.after)
                    if not isinstance(read, str):
                        history = self._isrs[TopicPartition(topic, int(number))]
                        history.append((self._world.now, read.isr))
                case _:
                    pass

    def judge(self, entry: AlterEntry, way: Way) -> None:
        """Judge an entry that is about to be carried out."""
        if self._bound is not None:
            self._bound.judge(entry, way.sent_at - NOTICE_S, way.sent_at)
        self._keeps_min_isr(entry, way)
        stored, state = self._world.assignment(entry.partition), self._world.state(entry.partition)
        kept = {*stored.origin_replicas, *(() if entry.cancels else entry.target)}
        if state is None or kept.issuperset(stored.replicas) or kept & set(state.isr):
            return
        is_fresh = way.sent_at - way.handed_at <= FRESH_S
        self._world.invariants.judge.ensure(
            is_fresh and any(kept & set(i) for i in self._known(entry.partition, way.sent_at)),
            f"{entry.partition}: an entry decided at {way.handed_at:.3f} and sent at "
            f"{way.sent_at:.3f} leaves {sorted(kept)}, none of which is in sync",
        )

    def floors(self, entries: Iterable[AlterEntry]) -> dict[TopicPartition, int]:
        """Return how many replicas of each partition have to stay in sync, as of now."""
        invariants = self._world.invariants
        specs = {e.partition: invariants.records.spec_of(e.partition) for e in entries}
        return {
            p: min(invariants.lowest_min_isr(p.topic), len(spec.target))
            for p, spec in specs.items()
            if spec is not None
        }

    def _keeps_min_isr(self, entry: AlterEntry, way: Way) -> None:
        """Judge that an entry that only drops replicas leaves enough of them in sync."""
        invariants = self._world.invariants
        floor = way.floors.get(entry.partition)
        if entry.cancels or floor is None or way.sent_at - way.handed_at > FRESH_S:
            return
        known = self._known(entry.partition, way.sent_at)
        if any(set(entry.target) - set(isr) or len(isr) <= len(entry.target) for isr in known):
            # The entry adds replicas, or drops replicas that were not in sync.
            return
        invariants.judge.ensure(
            len(entry.target) >= floor,
            f"{entry.partition}: an entry decided at {way.handed_at:.3f} leaves {entry.target}, "
            f"fewer than {floor}",
            Rule.ABOVE_FLOOR,
        )

    def _known(self, partition: TopicPartition, sent_at: float) -> list[Replicas]:
        """Return the ISR that a daemon knew at a time, and every later one."""
        history = self._isrs[partition]
        known = [isr for at, isr in history if at <= sent_at - NOTICE_S][-1:]
        return known + [isr for at, isr in history if at > sent_at - NOTICE_S]
