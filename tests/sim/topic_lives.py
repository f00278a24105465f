"""
Topics that are created, grown, deleted and created again; a request follows each change.

A daemon runs for months, and most topics are younger than it. Nothing that it knew of a deleted
topic applies to the next one of the same name, and a controller writes the first state of a
partition some time after the topic znode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from controller.core.model import RefusalReason, Replicas, RequestId, TopicPartition, entry_text
from controller.znodes import paths

if TYPE_CHECKING:
    from tests.sim.world import World

TOPICS: Final = tuple(f"living{n}" for n in range(4))
PARTITIONS_MAX: Final = 6
AGAIN_SHARE: Final = 0.5
"""The share of the deleted topics that are created again at once."""
REQUEST_AFTER_S: Final = (0.0, 0.0, 0.0, 0.02, 0.3, 3.0)
"""The delays from which that of a request after a change is drawn."""
STALE: Final = frozenset(
    {RefusalReason.UNKNOWN_PARTITION.value, RefusalReason.TOPIC_BEING_DELETED.value}
)
"""Reasons that are wrong for a partition that existed before the request, and still does."""


class RequestedTargets:
    """The last requested target of each partition, and the czxid of its topic."""

    def __init__(self, world: World) -> None:
        """Expect nothing yet."""
        self._world = world
        self._targets: dict[TopicPartition, Replicas] = {}
        self._expected: list[tuple[RequestId, TopicPartition, Replicas, int]] = []

    def expect(self, request: RequestId, entries: Mapping[TopicPartition, Replicas]) -> None:
        """Expect these targets, as long as their topics exist."""
        self._targets.update(entries)
        for partition, target in entries.items():
            self._expected.append((request, partition, target, self._czxid(partition.topic)))

    def take_back(self, topic: str) -> None:
        """Expect nothing more of a topic that is deleted."""
        self._targets = {p: t for p, t in self._targets.items() if p.topic != topic}

    def taken(self, partition: TopicPartition) -> None:
        """Expect nothing of a partition that a drain takes."""
        self._targets.pop(partition, None)

    def unmet(self) -> dict[TopicPartition, Replicas]:
        """Return the targets that are neither reached nor refused."""
        refused = {row["entry"] for rows in self._refused().values() for row in rows}
        return {
            p: target
            for p, target in self._targets.items()
            if self._world.assignment(p).replicas != target and entry_text(p, target) not in refused
        }

    def judge_end(self) -> None:
        """Judge that no entry of an existing topic was refused as unknown or being deleted."""
        refused = self._refused()
        for request, partition, target, czxid in self._expected:
            reasons = {
                row["reason"]
                for row in refused.get(request, ())
                if row["entry"] == entry_text(partition, target)
            }
            self._world.invariants.judge.ensure(
                self._czxid(partition.topic) != czxid or STALE.isdisjoint(reasons),
                f"{request}: {partition} was there, and its entry was refused: {sorted(reasons)}",
            )

    def _refused(self) -> dict[RequestId, list[dict[str, str]]]:
        """Return the refusals in the summaries, by request; the daemon may be dead."""
        return dict(self._summaries())

    def _summaries(self) -> Iterator[tuple[RequestId, list[dict[str, str]]]]:
        for name in self._world.zookeeper.children(paths.OUTCOMES) or ():
            znode = self._world.zookeeper.get(paths.outcome_path(RequestId(name)))
            if znode is not None:
                yield RequestId(name), json.loads(znode.data)["refused"]

    def _czxid(self, topic: str) -> int:
        znode = self._world.zookeeper.get(paths.topic_path(topic))
        return -1 if znode is None else znode.czxid


class TopicLives:
    """Creates, grows and deletes topics at any instant, and requests new replicas of them."""

    def __init__(self, world: World, targets: RequestedTargets, *, every_s: float) -> None:
        """
        Prepare, without starting.

        Args:
            world: The cluster.
            targets: Keeps the requested targets.
            every_s: Mean time between two changes.

        """
        self._world = world
        self._requested = targets
        self._every_s = every_s
        self._chance = Random(f"topics {world.seed}")
        self._is_running = False
        self.changes = 0
        """The number of changes."""

    def start(self) -> None:
        """Begin to draw."""
        self._is_running = True
        self._later()

    def stop(self) -> None:
        """Change no more topics; requests that are due are still submitted."""
        self._is_running = False

    def _later(self) -> None:
        wait_s = self._chance.uniform(0.0, 2 * self._every_s)
        self._world.schedule.call_in(wait_s, self._draw)

    def _draw(self) -> None:
        if self._is_running:
            self.change(self._chance.choice(TOPICS))
            self._later()

    def change(self, name: str) -> None:
        """Make a topic, or let it grow or go, and ask for something of it afterwards."""
        if self._is_doomed(name):
            return
        known = self._world.zookeeper.get(paths.topic_path(name))
        kinds: list[Callable[[str], str]]
        kinds = [self._create] if known is None else [self._grow, self._grow, self._delete]
        self._world.fabric.note(self._chance.choice(kinds)(name))
        self.changes += 1
        for _ in range(self._chance.choice((1, 1, 2))):
            after_s = self._chance.choice(REQUEST_AFTER_S)
            if after_s:
                self._world.schedule.call_in(after_s, lambda: self._request(name))
            else:
                self._request(name)

    def _is_doomed(self, name: str) -> bool:
        return name in (self._world.zookeeper.children(paths.DELETIONS) or ())

    def _replicas(self, size: int) -> Replicas:
        return tuple(self._chance.sample(sorted(self._world.brokers), size))

    def _create(self, name: str) -> str:
        size = self._chance.choice((1, 2, 3))
        count = self._chance.randint(1, 4)
        assignment = {n: self._replicas(size) for n in range(count)}
        self._world.create_topic(name, assignment, min_insync_replicas=min(size, 2))
        return f"topic {name}: {assignment}"

    def _grow(self, name: str) -> str:
        partitions = self._world.topic(name).partitions
        count = min(self._chance.randint(1, 2), PARTITIONS_MAX - len(partitions))
        if count <= 0:
            return self._delete(name)
        size = len(partitions[0].target_replicas)
        added = {len(partitions) + n: self._replicas(size) for n in range(count)}
        self._world.add_partitions(name, added)
        return f"topic {name} grows: {added}"

    def _delete(self, name: str) -> str:
        self._requested.take_back(name)
        if self._chance.random() < AGAIN_SHARE:
            self._world.delete_topic_for(name, lambda: self._appear(name))
        else:
            self._world.delete_topic(name)
        return f"topic {name} is to be deleted"

    def _appear(self, name: str) -> None:
        """Create a topic just when the former one of its name is gone, and ask for it at once."""
        if self._is_running:
            self._world.fabric.note(self._create(name))
            self._request(name)

    def _request(self, name: str) -> None:
        """Ask for other replicas of some of its partitions, the youngest among them."""
        world = self._world
        if self._is_doomed(name) or world.zookeeper.get(paths.topic_path(name)) is None:
            return
        partitions = world.topic(name).partitions
        chosen = {max(partitions), *(n for n in partitions if self._chance.random() < 0.6)}
        size = max(world.fabric.config(name).min_insync_replicas, self._chance.choice((2, 3)))
        entries = {TopicPartition(name, n): self._replicas(size) for n in sorted(chosen)}
        request = world.submit_request(entries)
        self._requested.expect(request, entries)
        world.fabric.note(f"request {request}: {entries}")
