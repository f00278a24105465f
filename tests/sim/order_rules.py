"""
The rule about orders: none is given that deletes the last in-sync replicas, as far as one can know.

Kafka's controller makes every order without a look at the ISR: what an order in flight was adding
and the next one does not name is deleted at once. So an order is right only by what ZooKeeper said
when it was handed over; what changes while it is under way nobody can call back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from controller.core.model import Replicas, TopicPartition
from controller.reactor.ports import Order
from tests.sim.decoded import read_state
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.world import World

NOTICE_S: Final = 1.0
"""How long a daemon may take to hear of a change of the ISR."""


class OrderRules:
    """Remembers what the ISR of every partition was, and judges each order that is made."""

    def __init__(self, world: World) -> None:
        """Listen to every transaction."""
        self._world = world
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

    def judge(self, order: Order, handed_at: float) -> None:
        """Judge an order that is about to be made."""
        stored = self._world.assignment(order.partition)
        origin = [r for r in stored.replicas if r not in stored.adding_replicas]
        kept = {*origin, *(() if order.cancels else order.target)}
        if kept.issuperset(stored.replicas):
            return
        self._world.invariants.judge.ensure(
            any(kept & set(isr) for isr in self._known(order.partition, handed_at)),
            f"{order.partition}: an order leaves {sorted(kept)}, none of which was in sync for "
            f"{NOTICE_S} s when it was handed over at {handed_at:.3f}",
        )

    def _known(self, partition: TopicPartition, handed_at: float) -> list[Replicas]:
        """Return the ISR that a daemon knew at a time, and all that were there since."""
        history = self._isrs[partition]
        known = [isr for at, isr in history if at <= handed_at - NOTICE_S][-1:]
        return known + [isr for at, isr in history if at > handed_at - NOTICE_S]
