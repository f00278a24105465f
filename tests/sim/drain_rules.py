"""
The rules about drains: what leaves the drained brokers, where it goes, and that they become empty.

The drained brokers are read in ZooKeeper, as the daemons read them. A daemon hears of a change with
a delay, so an entry may follow any content that the znode has had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller.core.model import (
    BrokerId,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.controls import Drains
from controller.core.requests.model import is_cancelled
from controller.znodes import paths
from controller.znodes.histories import decode_ended
from controller.znodes.reassignments import decode_spec
from tests.sim.decoded import drains_of
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.world import World
    from tests.sim.zookeeper import Transaction, Znode

HEARD_S: Final = 20.0
"""The time after which every daemon has heard of a change."""


class DrainRules:
    """The drains over time, and the entries that follow from them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._judge = world.invariants.judge
        self._contents: dict[RequestId, list[Drains]] = {}
        """What the znode contained, by the request that it stands for."""
        self._last_at = -HEARD_S
        """When a drain was last begun or ended."""
        self._cancelled: dict[RequestId, set[TopicPartition]] = {}
        """The partitions that cancellations took out of each drain."""
        self._specs: dict[TopicPartition, ReassignmentSpec] = {}
        self.takers: list[Callable[[TopicPartition], None]] = []
        """Called with partitions that a drain takes."""
        world.zookeeper.listeners.append(self._transacted)

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["reassigner", "control", "drains"]:
                    self._last_at = self._world.now
                    read = None if written.after is None else drains_of(written.after)
                    if isinstance(read, Drains):
                        self._contents.setdefault(read.request, []).append(read)
                case ["admin", "reassignments", topic, number]:
                    self._spec_written(TopicPartition(topic, int(number)), written.after)
                case ["reassigner", "outcomes", name, child] if written.after is not None:
                    self._kept(RequestId(name), child, written.after)
                case _:
                    pass

    def _kept(self, request: RequestId, child: str, znode: Znode) -> None:
        """Note what a cancellation took out of a drain."""
        shard = paths.parse_shard(child)
        if request not in self._contents or shard is None or shard.kind != "ended":
            return
        rows = decode_ended(request, znode.data)
        for ending in () if isinstance(rows, str) else rows[1]:
            if is_cancelled(ending):
                self._cancelled.setdefault(request, set()).add(ending.partition)

    def _spec_written(self, partition: TopicPartition, znode: Znode | None) -> None:
        """Judge that an entry replaces only replicas on drained brokers, or on dead ones."""
        before = self._specs.pop(partition, None)
        spec = None if znode is None else decode_spec(znode.data, ZkVersion(znode.version))
        if not isinstance(spec, ReassignmentSpec):
            return
        self._specs[partition] = spec
        is_led_elsewhere = before is None or before.target != spec.target
        # The topic may have been deleted since the daemon read it.
        is_there = self._world.concerns_present_topic(partition, spec)
        is_judged = is_there and not spec.rolls_back and is_led_elsewhere
        if spec.request in self._contents and is_judged:
            is_present = before is not None and before.topic_czxid == spec.topic_czxid
            there = self._world.assignment(partition).target_replicas
            self._accepted(partition, before.target if before and is_present else there, spec)
            for taken in self.takers:
                taken(partition)

    def _accepted(
        self, partition: TopicPartition, before: Replicas, spec: ReassignmentSpec
    ) -> None:
        contents = self._contents[spec.request]
        replaced = set(before) - set(spec.target)
        self._judge.ensure(
            len(spec.target) == len(before)
            and bool(replaced)
            and any(
                d.brokers.keys().isdisjoint(spec.target)
                and all(r in d.brokers or self._may_be_dead(r) for r in replaced)
                for d in contents
            ),
            f"{partition}: {spec.request} leads from {before} to {spec.target}, and drained are "
            f"{[sorted(d.brokers) for d in contents]}",
            Rule.DRAINS_REPLACE_ONLY,
        )

    def _may_be_dead(self, broker: BrokerId) -> bool:
        return self._world.invariants.may_seem_dead(broker)

    def standing(self) -> Drains:
        """Return the drains in force; none where the znode is unreadable."""
        znode = self._world.zookeeper.get(paths.DRAINS)
        read = Drains() if znode is None else drains_of(znode)
        return read if isinstance(read, Drains) else Drains()

    def is_known(self, request: RequestId) -> bool:
        """Return whether a request stands, or stood, for drains."""
        return request in self._contents

    def is_standing(self, request: RequestId) -> bool:
        """Return whether the znode of a request exists."""
        drains = self.standing()
        return bool(drains.brokers) and drains.request == request

    def may_be_drained(self, replicas: Replicas) -> bool:
        """Return whether a daemon may refuse to add one of these replicas."""
        was_lately = self._world.now - self._last_at < HEARD_S
        known = [self.standing()]
        if was_lately:
            known += [d for contents in self._contents.values() for d in contents]
        return any(r in drains.brokers for drains in known for r in replicas)

    def left(self) -> list[TopicPartition]:
        """Return the partitions on drained brokers that can leave them."""
        drains = self.standing()
        others = [b for b in self._world.brokers.values() if b.is_alive]
        receiving = sum(b.id not in drains.brokers for b in others)
        left_alone = self._cancelled.get(drains.request, set())
        return [
            partition
            for partition in (self._world.partitions() if drains.brokers else ())
            if partition not in left_alone
            and len(replicas := self._world.assignment(partition).replicas) <= receiving
            and any(r in drains.brokers for r in replicas)
        ]

    def judge_end(self) -> None:
        """Judge that no partition that can leave a drained broker has a replica there."""
        if self.standing().brokers:
            left = self.left()
            self._judge.ensure(
                not left,
                f"{sorted(self.standing().brokers)} are drained, and have replicas of {left}",
                Rule.DRAINED_ARE_EMPTY,
            )
