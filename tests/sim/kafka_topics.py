"""
The creation of topics and partitions by Kafka's own controller (``ZkAdminManager``).

As in Kafka, the settings of a topic are written before the topic: a controller that dies between
the two leaves settings without a topic. Validation is here only what the histories need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller import kafka_errors
from controller.core.calls.client_requests import (
    CreateTopics,
    MorePartitions,
    NewTopic,
    RequestOnTopics,
    TopicAnswer,
    topic_answer,
)
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    Replicas,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.topics.model import BY_DEFAULT, TopicResult
from controller.znodes import paths
from controller.znodes.entity_configs import encode_entity_config
from controller.znodes.topics import encode_topic
from tests.sim.decoded import read_topic
from tests.sim.zookeeper import Make, Put

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric
    from tests.sim.kafka_duties import KafkaDuties


def make_topics(fabric: Fabric, duties: KafkaDuties, request: RequestOnTopics) -> TopicAnswer:
    """
    Carry out a client's request, or refuse it.

    Raises:
        ControllerMoved: a write was refused, or the broker died right after it.

    """
    results: list[TopicResult] = []
    if isinstance(request, CreateTopics):
        results += [_created(fabric, duties, topic, request) for topic in request.topics]
    else:
        only = request.validate_only
        results += [_grown(fabric, duties, t, validate_only=only) for t in request.topics]
    return topic_answer(request, tuple(results))


def _created(
    fabric: Fabric, duties: KafkaDuties, topic: NewTopic, request: CreateTopics
) -> TopicResult:
    if fabric.zookeeper.get(paths.topic_path(topic.name)) is not None:
        return TopicResult(topic.name, kafka_errors.TOPIC_ALREADY_EXISTS)
    live = _live(fabric)
    count, factor = topic.num_partitions, topic.replication_factor
    if count == BY_DEFAULT:
        count = len(topic.assigned) or request.defaults.num_partitions
    if factor == BY_DEFAULT:
        factor = request.defaults.default_replication_factor
    chosen = tuple(topic.assigned.values())
    known = set(fabric.brokers)
    is_valid = (
        count > 0
        and (bool(chosen) or 0 < factor <= len(live))
        and all(set(r) <= known and len(set(r)) == len(r) for r in chosen)
        and None not in (value for _, value in topic.configs)
        and topic.config_problem is None
    )
    if not is_valid:
        return TopicResult(topic.name, kafka_errors.INVALID_REQUEST)
    replicas = chosen or tuple(_chosen(fabric, live, factor) for _ in range(count))
    if not request.validate_only:
        settings = encode_entity_config(topic.settings)
        path = f"{paths.TOPIC_CONFIGS}/{topic.name}"
        is_left = fabric.zookeeper.get(path) is not None
        duties.write([Put(path, settings) if is_left else Make(path, settings)])
        content = TopicAssignment(
            {n: PartitionAssignment(r) for n, r in enumerate(replicas)},
            ZkVersion(0),
            Zxid(0),
            topic.topic_id if request.defaults.uses_topic_ids else None,
        )
        duties.write([Make(paths.topic_path(topic.name), encode_topic(content))])
    return TopicResult(topic.name, 0, None, len(replicas), len(replicas[0]))


def _grown(
    fabric: Fabric, duties: KafkaDuties, request: MorePartitions, *, validate_only: bool
) -> TopicResult:
    znode = fabric.zookeeper.get(paths.topic_path(request.name))
    read = None if znode is None else read_topic(znode)
    if not isinstance(read, TopicAssignment):
        return TopicResult(request.name, kafka_errors.UNKNOWN_TOPIC_OR_PARTITION)
    if request.name in (fabric.zookeeper.children(paths.DELETIONS) or ()):
        return TopicResult(request.name, kafka_errors.INVALID_TOPIC_EXCEPTION)
    if any(a.is_reassigning for a in read.partitions.values()):
        return TopicResult(request.name, kafka_errors.REASSIGNMENT_IN_PROGRESS)
    live, first = _live(fabric), read.partitions[0].replicas
    more = request.count - len(read.partitions)
    if more <= 0:
        return TopicResult(request.name, kafka_errors.INVALID_PARTITIONS)
    given = request.assignments
    if given is None and len(first) <= len(live):
        given = tuple(_chosen(fabric, live, len(first)) for _ in range(more))
    is_valid = given is not None and len(given) == more
    if given is None or not is_valid or not all(_is_like(r, first, live) for r in given):
        return TopicResult(request.name, kafka_errors.INVALID_REPLICA_ASSIGNMENT)
    if not validate_only:
        added = {len(read.partitions) + n: PartitionAssignment(r) for n, r in enumerate(given)}
        after = replace(read, partitions={**read.partitions, **added})
        duties.write([Put(paths.topic_path(request.name), encode_topic(after))])
    return TopicResult(request.name, 0, None, request.count)


def _live(fabric: Fabric) -> list[BrokerId]:
    return sorted(BrokerId(int(b)) for b in fabric.zookeeper.children(paths.BROKER_IDS) or ())


def _chosen(fabric: Fabric, live: list[BrokerId], factor: int) -> Replicas:
    return tuple(fabric.schedule.random.sample(live, factor))


def _is_like(replicas: Replicas, first: Replicas, live: list[BrokerId]) -> bool:
    return set(replicas) <= set(live) and len(set(replicas)) == len(replicas) == len(first)
