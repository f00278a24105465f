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
"""How long a daemon may take to hear of a change of the ISR."""


FRESH_S: Final = 0.1
"""How long an entry may take from the daemon's decision to the controller."""


class Way(NamedTuple):
    """When an entry was decided, and when it was sent."""

    handed_at: float
    sent_at: float
    floors: Mapping[TopicPartition, int] = {}
    """
    How many of each partition had to stay in sync when it was sent.

    The settings and the target may be others when the controller carries it out.
    """


class AlterRules:
    """The ISR of every partition over time, and the judgement of each entry."""

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

    def judge(self, order: AlterEntry, way: Way) -> None:
        """Judge an entry that is about to be carried out."""
        if self._bound is not None:
            self._bound.judge(order, way.sent_at - NOTICE_S, way.sent_at)
        self._keeps_min_isr(order, way)
        stored, state = self._world.assignment(order.partition), self._world.state(order.partition)
        kept = {*stored.origin_replicas, *(() if order.cancels else order.target)}
        if state is None or kept.issuperset(stored.replicas) or kept & set(state.isr):
            return
        is_fresh = way.sent_at - way.handed_at <= FRESH_S
        self._world.invariants.judge.ensure(
            is_fresh and any(kept & set(i) for i in self._known(order.partition, way.sent_at)),
            f"{order.partition}: an order of {way.handed_at:.3f}, sent at {way.sent_at:.3f}, "
            f"leaves {sorted(kept)}, none of which is in sync",
        )

    def floors(self, orders: Iterable[AlterEntry]) -> dict[TopicPartition, int]:
        """Return how many replicas of each partition have to stay in sync, as of now."""
        invariants = self._world.invariants
        specs = {o.partition: invariants.records.spec_of(o.partition) for o in orders}
        return {
            p: min(invariants.lowest_min_isr(p.topic), len(spec.target))
            for p, spec in specs.items()
            if spec is not None
        }

    def _keeps_min_isr(self, order: AlterEntry, way: Way) -> None:
        """Judge that an entry that only drops leaves as many in sync as producers need."""
        invariants = self._world.invariants
        floor = way.floors.get(order.partition)
        if order.cancels or floor is None or way.sent_at - way.handed_at > FRESH_S:
            return
        known = self._known(order.partition, way.sent_at)
        if any(set(order.target) - set(isr) or len(isr) <= len(order.target) for isr in known):
            # It adds, or drops what was not in sync.
            return
        invariants.judge.ensure(
            len(order.target) >= floor,
            f"{order.partition}: an order of {way.handed_at:.3f} leaves {order.target}, fewer than "
            f"{floor}",
            Rule.ABOVE_FLOOR,
        )

    def _known(self, partition: TopicPartition, sent_at: float) -> list[Replicas]:
        """Return the ISR that a daemon knew at a time, and all that were there since."""
        history = self._isrs[partition]
        known = [isr for at, isr in history if at <= sent_at - NOTICE_S][-1:]
        return known + [isr for at, isr in history if at > sent_at - NOTICE_S]
