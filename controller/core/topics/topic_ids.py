"""
Ids of topics whose znode has none (KIP-516).

At inter-broker protocol 2.8 and later, Kafka's controller writes an id as soon as it sees such a
topic (``KafkaController.processTopicIds``): a tool or a broker of before 2.8 created the topic, or
restored its znode. Here it is a versioned write under the claim, based on a read of this tenure.
Then the id is sent at the present leader epochs, which brokers accept where their logs have none.

An id that is known from before, of the same topic (czxid), is written back: Kafka's controller
writes another one, and the brokers refuse everything that they are sent of the topic from then on.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator
from itertools import count

from controller.core import effects, model
from controller.core.cluster import protocols
from controller.core.leadership.duties import leader_bounced, send_leader_and_isr
from controller.core.model import TopicPartition
from controller.core.records import Change, Decision
from controller.core.topics.records import TopicIdRecord
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
        partitions = [TopicPartition(name, number) for number in topic.partitions]
        changes.append(Change((record,), tuple(_send_states(view, due, partitions))))
    return Decision(tuple(changes))


def is_id_awaited(view: ClusterView, topic: str) -> bool:
    """Return whether the topic is about to get its id: its first states wait for that."""
    return topic in view.topics.without_id and protocols.assigns_ids(view)


def _send_states(
    view: ClusterView, due: Worklist, partitions: list[TopicPartition]
) -> Iterator[effects.Effect]:
    known = tuple(p for p in partitions if p in view.leadership.states)
    for partition in known:
        if leader_bounced(view, due, partition):
            continue  # They are sent it with the leader epoch of the repair.
        replicas = view.receivers(view.serving_replicas(partition), partition)
        yield from send_leader_and_isr(view, partition, replicas)
    if known:
        yield effects.SendUpdateMetadata(known)


def _new_id(seed: bytes, topic: str, czxid: model.Zxid) -> str:
    """
    Return a random id: the same one whenever this process decides it for the topic again.

    None that begins with a hyphen, which command lines take for an option.
    """
    for attempt in count():
        content = b"%s/%d/%d/%s" % (seed, attempt, czxid, topic.encode())
        digest = hashlib.sha256(content).digest()[:16]
        found = base64.urlsafe_b64encode(uuid.UUID(bytes=digest, version=4).bytes)
        if not found.startswith(b"-"):
            return found.decode().rstrip("=")
    raise AssertionError
