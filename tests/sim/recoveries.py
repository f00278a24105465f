"""
One cell of the proof of recovery: a plan, a daemon that dies at a boundary, and its successor.

The end is described here and judged by the tests; the invariants of the simulation judge everything
on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.core.model import Replicas, TopicPartition, ZkVersion, Zxid
from controller.znodes import paths
from controller.znodes.paths import deletion_path, topic_path
from controller.znodes.plans import decode_legacy_plan
from integration.rigs.failpoints import Failpoint
from tests.sim.builders import ids
from tests.sim.daemons import SimDaemon
from tests.sim.directories import placing
from tests.sim.histories import is_finished, reactors
from tests.sim.ledgers import Ledger
from tests.sim.settings import Settings
from tests.sim.shapes import (
    DELETING,
    DIES_WITHIN_S,
    DOOMED,
    ENDS_WITHIN_S,
    Hand,
    Shape,
    orphans,
    request_names,
    specs,
    start_dead,
)
from tests.sim.world import World

SETTLES_S: Final = 15.0
"""The time that the last StopReplica and its answer may take."""
CLAIMS_WITHIN_S: Final = 20.0
"""The session of the dead daemon, and some more."""


AMID_COPIES: Final = frozenset({Failpoint.DROPPED, Failpoint.SYNCED})
"""The failpoints that are met only while added replicas copy after the deletion of others."""
SLOW_S: Final = 0.2
"""What a fetch takes then, in seconds: the deletion is to be faster."""


class Cell:
    """One history, from a healthy cluster to the death of a daemon at a boundary."""

    def __init__(self, shape: Shape, failpoint: Failpoint, hand: Hand, *, nth: int = 1) -> None:
        """Play up to the death."""
        self.shape, self.failpoint, self.hand = shape, failpoint, hand
        self.world = world = World(1)
        self.build = reactors(shape.options)
        if shape.is_placed is not None:
            self.build = placing(world, shape.options, loss=0.0)
        self.partitions = [TopicPartition("t", n) for n in shape.targets]
        world.create_topic("t", dict.fromkeys(shape.targets, shape.replicas), min_insync_replicas=2)
        world.create_topic(DOOMED, {0: [1, 2]}, produce=False)
        for broker in world.brokers.values() if failpoint in AMID_COPIES else ():
            broker.replication.extra_fetch_s = SLOW_S
        world.producer.start()
        world.settle()
        self._ledger = Ledger(world)
        self.daemon = world.add_daemon(self.build)
        world.run_for(3.0)
        self._hold_kafka_back()
        shape.before(world)
        if shape.prelude is not None:
            self.daemon.crash_at(shape.prelude)
        elif shape.change is None:
            self.daemon.crash_at(failpoint, nth=nth)
        self.standby = world.add_daemon(self.build) if hand is Hand.STANDBY else None
        listed = [p for p in self.partitions if p.partition not in shape.foreign]
        shape.request(world, {p: shape.targets[p.partition] for p in listed})
        self._die(nth)

    def _hold_kafka_back(self) -> None:
        """Keep brokers from the role, so that only daemons act."""
        world = self.world
        for kafka in world.kafka_controllers.values():
            kafka.stands = False
        world.remove_controller()
        world.run_until(
            lambda: not any(k.is_active for k in world.kafka_controllers.values()),
            within_s=SETTLES_S,
        )

    def _die(self, nth: int) -> None:
        world, shape = self.world, self.shape
        if shape.prelude is not None:
            world.run_until(lambda: not self.daemon.is_alive, within_s=DIES_WITHIN_S)
            heir = self.standby or world.add_daemon(self.build)
            self.daemon = heir
            heir.crash_at(self.failpoint, nth=nth)
            if self.standby is not None:
                # Started earlier, the next standby could take the role.
                world.run_until(
                    lambda: heir.store.claim is not None or not heir.is_alive,
                    within_s=DIES_WITHIN_S,
                )
                self.standby = world.add_daemon(self.build)
        if shape.change is not None:
            change = shape.change
            world.run_until(lambda: change.is_due(world), within_s=DIES_WITHIN_S)
            self.daemon.crash_at(self.failpoint, nth=nth)
            change.request(world)
        shape.during(world, self.daemon)
        world.run_until(lambda: not self.daemon.is_alive, within_s=DIES_WITHIN_S)
        self.specs, self.orphans, self.requests = specs(world), orphans(world), request_names(world)
        self.left = self.replicas()
        self.promised = self._promised()
        self.acknowledged = {p: world.invariants.committed(p) for p in self.partitions}

    def take_over(self) -> None:
        """Run the successor until nothing is left to do."""
        world = self.world
        if self.hand in (Hand.KAFKA, Hand.KAFKA_FIRST):
            self._let_kafka_stand()
            world.run_until(self._is_calm, within_s=ENDS_WITHIN_S)
            start_dead(world)
            world.run_for(SETTLES_S)
        if self.hand is Hand.KAFKA:
            return
        successor = self.standby or world.add_daemon(self.build)
        if self.hand is not Hand.KAFKA_FIRST:
            self._let_claim(successor)
            self._let_kafka_stand()
            start_dead(world)
        world.run_until(self._is_over, within_s=ENDS_WITHIN_S)
        world.run_for(SETTLES_S)

    def _let_claim(self, successor: SimDaemon) -> None:
        """Let the daemon be the first to take the role, unless nothing is left to do."""
        limit = self.world.now + CLAIMS_WITHIN_S
        self.world.run_until(
            lambda: successor.store.claim is not None or self.world.now >= limit,
            within_s=2 * CLAIMS_WITHIN_S,
        )

    def _let_kafka_stand(self) -> None:
        for kafka in self.world.kafka_controllers.values():
            kafka.stand()

    def _is_calm(self) -> bool:
        """Return whether a broker is the controller and no partition has a step in flight."""
        world = self.world
        return any(k.is_active for k in world.kafka_controllers.values()) and all(
            world.is_healthy(p) for p in self.partitions
        )

    def _is_over(self) -> bool:
        return is_finished(self.world) and not orphans(self.world)

    # --- what is judged ------------------------------------------------------------------------

    def replicas(self) -> dict[int, Replicas]:
        """Return the assignment in the topic znode."""
        return {p.partition: self.world.assignment(p).replicas for p in self.partitions}

    def targets(self) -> dict[int, Replicas]:
        """Return the targets that were requested last."""
        return {n: ids(of) for n, of in self.shape.ends.items()}

    def original(self) -> Replicas:
        """Return the replicas that every partition had before the plan."""
        return ids(self.shape.replicas)

    def waiting(self) -> set[int]:
        """Return the partitions that are recorded, but not in flight and in no list of Kafka's."""
        return {
            p.partition
            for p in self.partitions
            if str(p) in self.specs and self.promised[p.partition] == self.original()
        }

    def _promised(self) -> dict[int, Replicas]:
        """
        Return what Kafka's controller will make of the znodes as the daemon left them.

        It carries out what the legacy znode lists and, of the others, the step that the topic znode
        names; nothing else.
        """
        znode = self.world.zookeeper.get(paths.LEGACY_PLAN)
        listed: Mapping[TopicPartition, Replicas] = {}
        if znode is not None:
            plan = decode_legacy_plan(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
            listed = plan.entries
        return {
            p.partition: listed.get(p, self.world.assignment(p).target_replicas)
            for p in self.partitions
        }

    def is_doomed_gone(self) -> bool:
        """Return whether the topic is deleted that was to be, and with it every log."""
        world = self.world
        if self.shape is not DELETING:
            return True
        found = (world.zookeeper.get(path) for path in (topic_path(DOOMED), deletion_path(DOOMED)))
        logs = (p for b in world.brokers.values() for p in b.logs if p.topic == DOOMED)
        return not any(found) and not any(logs)

    def stray(self) -> set[str]:
        """Return the logs on disks that belong to no replica and no orphan record."""
        world = self.world
        return {
            f"{broker}/{partition}"
            for partition in self.partitions
            if str(partition) not in specs(world)
            for broker in world.holders(partition) - set(world.assignment(partition).replicas)
        } - orphans(world)

    def judge_books(self) -> None:
        """Judge that every request has an outcome that adds up, and no applied throttle is left."""
        self._ledger.judge_end()
        Settings(self.world.zookeeper, self.world.invariants.judge).judge_end()

    def is_writable(self) -> bool:
        """Return whether every partition acknowledged records after the death."""
        committed = self.world.invariants.committed
        return all(committed(p) > n for p, n in self.acknowledged.items())
