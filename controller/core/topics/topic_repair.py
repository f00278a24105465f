"""
Repair of topics that brokers or tools created: ids that are missing, replicas on this daemon.

At inter-broker protocol 2.8 and later, Kafka's controller writes an id as soon as it sees a topic
whose znode has none (KIP-516; ``KafkaController.processTopicIds``): a tool or a broker of before
2.8 created the topic, or restored its znode. Here it is a versioned write under the claim, based on
a read of this tenure. Then the id is sent at the present leader epochs, which brokers accept where
their logs have none. A known id of the same topic (czxid) is written back: Kafka's controller
writes another one, and the brokers refuse everything that they are sent of the topic from then on.

With an endpoint the daemon is among the brokers that UpdateMetadata lists, on any of which brokers
of Kafka 2.8 and later place the topics that they create by themselves (ZkAdminManager.createTopics;
``__consumer_offsets``). A partition without a state has no data yet: its replica on the daemon is
replaced by one on a broker, in the same multi that creates the state. If the daemon dies before,
the next controller creates the partition without that replica, or cannot where it is the only one.
Where a state exists, only a reassignment changes the replicas. ``doctor`` finds all of these.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable
from itertools import count

from controller.core import effects
from controller.core.cluster import protocols
from controller.core.leadership import duties
from controller.core.model import BrokerId, PartitionAssignment, Replicas, TopicPartition, Zxid
from controller.core.records import Change, Decision
from controller.core.topics.records import AssignmentRecord, TopicIdRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist


def assign_ids(view: ClusterView, due: Worklist) -> Decision:
    """Return the ids of the topics that lack one and were read in this tenure."""
    if not view.topics.without_id or not protocols.assigns_ids(view):
        return Decision()
    changes = []
    for name in sorted(view.topics.without_id):
        topic = view.topics.by_name[name]
        is_read = topic.read_in >= view.tenure.claim_generation and not topic.stale
        if not is_read or name in view.deletions.running:
            continue
        topic_id = topic.topic_id or _new_id(view.options.id_seed, name, topic.czxid)
        record = TopicIdRecord(name, topic_id)
        partitions = (TopicPartition(name, number) for number in topic.partitions)
        known = tuple(p for p in partitions if p in view.leadership.states)
        sent = (*duties.send_states(view, due, known), effects.SendUpdateMetadata(known))
        changes.append(Change((record,), sent if known else ()))
    return Decision(tuple(changes))


def is_id_awaited(view: ClusterView, topic: str) -> bool:
    """Return whether the topic is about to get its id: its first states wait for that."""
    return topic in view.topics.without_id and protocols.assigns_ids(view)


def _new_id(seed: bytes, topic: str, czxid: Zxid) -> str:
    """Return a random id: the same one whenever this process decides it for the topic again."""
    for attempt in count():
        content = b"%s/%d/%d/%s" % (seed, attempt, czxid, topic.encode())
        digest = hashlib.sha256(content).digest()[:16]
        found = base64.urlsafe_b64encode(uuid.UUID(bytes=digest, version=4).bytes)
        if not found.startswith(b"-"):  # Command lines take that for an option.
            return found.decode().rstrip("=")
    raise AssertionError


def repair_placements(view: ClusterView, partitions: Iterable[TopicPartition]) -> Decision:
    """Return the new replicas and first states of the partitions that are placed on the daemon."""
    misplaced = [
        p
        for p in partitions
        if p in view.leadership.stateless
        and is_misplaced(view, p)
        and not is_id_awaited(view, p.topic)
    ]
    if not misplaced:
        return Decision()
    load = Counter(b for _, a in view.topics.assignments() for b in a.replicas)
    changes: list[Change] = []
    for partition in misplaced:
        assignment = view.topics.assignment(partition)
        if assignment is None:
            continue
        replicas = _replicas_without_daemon(view, partition, assignment.replicas, load)
        load.update(set(replicas).difference(assignment.replicas))
        created = duties.create(view, partition, replicas)
        if created is not None:
            written = AssignmentRecord(partition, PartitionAssignment(replicas))
            changes.append(
                Change((written, *created.records), created.effects, partition=partition)
            )
    return Decision(tuple(changes))


def is_misplaced(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether a partition without a reassignment has a replica on the daemon."""
    assignment = view.topics.assignment(partition)
    own = BrokerId(view.options.controller_id)
    if assignment is None or assignment.is_reassigning or own in view.cluster.brokers:
        return False
    return own in assignment.replicas


def _replicas_without_daemon(
    view: ClusterView, partition: TopicPartition, replicas: Replicas, load: Counter[BrokerId]
) -> Replicas:
    """Return the replicas with a broker in place of the daemon, or without it if none is free."""
    brokers = view.cluster.brokers
    kept = [r for r in replicas if r != view.options.controller_id]
    racks = {brokers[r].rack for r in kept if r in brokers}
    free = [b for b in brokers if b not in kept and view.is_staying(b, partition)]
    if not free:
        return tuple(kept)
    # First in a rack without a replica, then with the fewest replicas.
    chosen = min(free, key=lambda b: (brokers[b].rack in racks, load[b], b))
    return tuple(chosen if r == view.options.controller_id else r for r in replicas)
