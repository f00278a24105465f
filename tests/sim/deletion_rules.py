"""
The rules about topics that a daemon deletes: by a marker, and after all of their logs.

Kafka's own controller is not judged: it deletes recursively, so a topic of which it deleted a part
is found by the daemon that takes over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from controller.core.model import BrokerId, TopicPartition
from controller.reactor.ports import LeaderAndIsr, StopReplica
from controller.znodes import paths
from tests.sim.brokers import DELETED_LEADER
from tests.sim.judges import Judge, Znodes
from tests.sim.rules import Rule
from tests.sim.zookeeper import Transaction, Written

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric


class DeletionRules:
    """The deletions that daemons begin and complete."""

    def __init__(
        self, fabric: Fabric, judge: Judge, znodes: Znodes, daemons: Collection[int]
    ) -> None:
        self._fabric = fabric
        self._judge = judge
        self._znodes = znodes
        self._daemons = daemons
        self._begun: dict[tuple[str, BrokerId], tuple[int, int]] = {}
        """The controller epoch and the registration in which a broker was sent a deletion."""

    def transacted(self, transaction: Transaction) -> None:
        """Judge what a daemon deleted; called while the former assignments are known."""
        if transaction.session not in self._daemons:
            return
        for written in transaction.written:
            if written.after is not None:
                continue
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic]:
                    self._topic_deleted(transaction, topic)
                case ["brokers", "topics", topic, "partitions", *_]:
                    self._is_marked(transaction, topic)
                case ["admin", "delete_topics", topic]:
                    self._marker_deleted(topic)
                case _:
                    pass

    def _topic_deleted(self, transaction: Transaction, topic: str) -> None:
        self._begun = {key: epoch for key, epoch in self._begun.items() if key[0] != topic}
        self._is_marked(transaction, topic)
        self._judge.ensure(
            self._fabric.zookeeper.get(paths.deletion_path(topic)) is None,
            f"{topic} is deleted and its marker is left: another topic would be deleted by it",
            Rule.MARKER_ENDS_WITH_TOPIC,
        )
        known = self._znodes.topics.get(topic)
        for number, assignment in {} if known is None else known.partitions.items():
            partition = TopicPartition(topic, number)
            for replica in assignment.replicas:
                broker = self._fabric.brokers.get(replica)
                self._judge.ensure(
                    broker is None or broker.copy(partition) is None,
                    f"{topic} is deleted, and broker {replica} has a log of {partition}",
                    Rule.LOGS_BEFORE_ZNODES,
                )

    def _marker_deleted(self, topic: str) -> None:
        self._judge.ensure(
            topic not in self._znodes.topics or self._is_gone(topic),
            f"the marker of {topic} is deleted, and the topic is not",
            Rule.MARKER_ENDS_WITH_TOPIC,
        )

    def _is_gone(self, topic: str) -> bool:
        return self._fabric.zookeeper.get(paths.topic_path(topic)) is None

    def _is_marked(self, transaction: Transaction, topic: str) -> None:
        """Judge that a topic was to be deleted up to this transaction."""
        path = paths.deletion_path(topic)
        ends_it = any(w.path == path and _is_deletion(w) for w in transaction.written)
        self._judge.ensure(
            ends_it or self._fabric.zookeeper.get(path) is not None,
            f"{topic} is deleted without a marker",
            Rule.DELETES_ONLY_MARKED,
        )

    def stops(self, broker: BrokerId, request: StopReplica) -> None:
        """Judge that replicas are deleted with their topic only while that has a marker."""
        for stop in request.states:
            topic = stop.partition.topic
            if stop.leader_epoch != DELETED_LEADER or not stop.delete:
                continue
            hosted = stop.partition in self._fabric.brokers[broker].hosted
            marker = self._fabric.zookeeper.get(paths.deletion_path(topic))
            self._judge.ensure(
                not hosted or marker is not None,
                f"{stop.partition}: broker {broker} deletes its replica, and there is no marker",
                Rule.DELETES_ONLY_MARKED,
            )
            if marker is not None:  # else it repeats one that was answered before the topic's end
                self._begun[topic, broker] = self._now(broker, request)

    def sent(self, to: BrokerId, request: LeaderAndIsr) -> None:
        """
        Judge that no replica is created of a topic that the same tenure deletes.

        What was queued for a broker before the deletion began is sent to it first. One that starts
        may be sent both again, in that order.
        """
        for state in request.states:
            topic = state.partition.topic
            self._judge.ensure(
                self._begun.get((topic, to)) != self._now(to, request),
                f"{state.partition}: LeaderAndIsr while the topic is being deleted",
                Rule.NOTHING_CREATED_AGAIN,
            )

    def _now(self, broker: BrokerId, request: LeaderAndIsr | StopReplica) -> tuple[int, int]:
        return request.controller_epoch, self._fabric.brokers[broker].epoch


def _is_deletion(written: Written) -> bool:
    return written.after is None and written.before is not None
