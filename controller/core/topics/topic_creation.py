"""
Create topics and partitions for clients, as Kafka's controller does (``ZkAdminManager``).

A topic becomes durable with its settings in one transaction; Kafka writes the settings first. From
then on any controller can complete it: first states are a duty of the controller.

Level-triggered: each time that a request is examined, what is not written yet is validated against
the present view. The request is answered when each partition has a leader that acknowledged it, at
the latest when its time is over. Errors and texts are Kafka's. As with Kafka, a client whose
request is interrupted by another controller repeats it, and hears that its topic exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from controller import kafka_errors
from controller.core.calls.client_requests import (
    AwaitDeletions,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PendingClientRequest,
    RequestOnTopics,
    TopicAnswer,
    TopicRefusedError,
    TopicRequest,
    topic_answer,
)
from controller.core.cluster.model import LiveBroker
from controller.core.deletions import pending_deletions
from controller.core.model import Instant, PartitionAssignment, Replicas, TopicPartition
from controller.core.pacing.drained_replicas import drained_brokers
from controller.core.records import Change
from controller.core.topics import replica_choice, topic_checks
from controller.core.topics.model import BY_DEFAULT, TopicResult
from controller.core.topics.records import AssignmentRecord, TopicCreatedRecord, TopicGrownRecord
from controller.core.view import ClusterView

CLUSTER_METADATA: Final = "__cluster_metadata"
PATIENCE_S: Final = 60.0
"""The longest time that a request may take, whatever its own limit."""
WRITE_S: Final = 5.0
"""How long a request is written for a client that waits less: its topics are created anyway."""
_COLLIDING: Final = str.maketrans(".", "_")


_Judged = TopicResult | Change | None
"""The result for a topic, or the write that precedes it; None: it is still to be read."""


class Names:
    """The topics that exist, also those that this cycle creates, and those that it extends."""

    def __init__(self, view: ClusterView, written: AbstractSet[str]) -> None:
        """Begin a cycle; to topics that it writes, as a step begins, no partitions are added."""
        self._view = view
        self.growing = set(written)

    @cached_property
    def known(self) -> set[str]:
        """The topics that were listed, and those written since."""
        pending = [p for p in self._view.calls.pending_client_requests.values() if _creates(p)]
        written = {r.name for p in pending for r in p.topics.values() if not r.error}
        return written.union(self._view.topics.listed or ())

    @cached_property
    def _plain(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in sorted(self.known):
            found.setdefault(name.translate(_COLLIDING), []).append(name)
        return found

    def add(self, name: str) -> None:
        """Note a topic that this cycle creates."""
        self.known.add(name)
        if "_plain" in self.__dict__:
            self._plain.setdefault(name.translate(_COLLIDING), []).append(name)

    def colliding(self, name: str) -> list[str]:
        """Return the topics whose metrics would have the same name."""
        if "." not in name and "_" not in name:
            return []
        return self._plain.get(name.translate(_COLLIDING), [])


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A client's request, with what is needed to examine it."""

    view: ClusterView
    names: Names
    ticket: int
    pending: PendingClientRequest


def _creates(pending: PendingClientRequest) -> bool:
    return not isinstance(pending.request, DeleteTopics)


def is_underway(pending: PendingClientRequest) -> bool:
    """Return whether a client waits for a topic that is written: it keeps the role."""
    return _creates(pending) and not all(result.error for result in pending.topics.values())


def answer_topics(
    context: RequestContext, request: TopicRequest, now: Instant
) -> TopicAnswer | tuple[Change, ...]:
    """Return the answer to a request, or the writes that precede it; none: it waits for reads."""
    pending = context.pending
    if isinstance(request, AwaitDeletions):
        return pending_deletions.answer_waiting(context.view, pending, request, now) or ()
    is_late = now >= pending.since + min(request.timeout_s, PATIENCE_S)
    is_late_to_write = is_late and now >= pending.since + WRITE_S
    results: list[TopicResult] = []
    changes: list[Change] = []
    doubled, doubled_text = _duplicate_names(request), "Duplicate topic in request."
    if isinstance(request, CreateTopics):
        doubled_text = "Found multiple entries for this topic."
    waits = False
    for name, judge in _judges(context, request).items():
        written = pending.topics.get(name)
        judged: _Judged
        if written is not None:
            judged = _result_when_led(context, written)
        elif name in doubled:
            judged = TopicResult(name, kafka_errors.INVALID_REQUEST, doubled_text)
        else:
            judged = judge()
        match judged:
            case Change() if not is_late_to_write:
                changes.append(judged)
                waits = True
            case TopicResult():
                results.append(judged)
            case _ if is_late:
                results.append(TopicResult(name, kafka_errors.REQUEST_TIMED_OUT))
            case _:
                waits = True
    return tuple(changes) if waits else topic_answer(request, tuple(results))


def _judges(
    context: RequestContext, request: RequestOnTopics | DeleteTopics
) -> dict[str, Callable[[], _Judged]]:
    """Return what judges each topic that is not written yet."""
    match request:
        case CreateTopics():
            return {t.name: partial(_creation, context, t, request) for t in request.topics}
        case CreatePartitions(validate_only=only):
            return {
                t.name: partial(_growth, context, t, validate_only=only) for t in request.topics
            }
        case DeleteTopics():
            delete = partial(pending_deletions.request_deletion, context.view, context.ticket)
            return {t.name: partial(delete, t) for t in request.topics}


def _duplicate_names(request: RequestOnTopics | DeleteTopics) -> set[str]:
    """Return the topics that are named more than once, which is no error in a DeleteTopics."""
    if isinstance(request, DeleteTopics):
        return set()
    return {name for name, times in Counter(t.name for t in request.topics).items() if times > 1}


def _result_when_led(context: RequestContext, written: TopicResult) -> TopicResult | None:
    """Return the result of a topic that is written, once each new partition has a leader."""
    if written.error or not _creates(context.pending):
        return written
    view = context.view
    topic = view.topics.by_name.get(written.name)
    if topic is None or topic.stale:
        return None
    return written if all(map(view.leadership.is_acknowledged, written.new_partitions)) else None


# --- CreateTopics --------------------------------------------------------------------------------


def _creation(context: RequestContext, topic: NewTopic, request: CreateTopics) -> _Judged:
    """Return the creation of a topic, or why it is refused; its result if it is only validated."""
    try:
        replicas = _valid(context, topic, request)
    except TopicRefusedError as refusal:
        return TopicResult(topic.name, refusal.code, str(refusal))
    topic_id = topic.topic_id if request.defaults.uses_topic_ids else None
    result = TopicResult(topic.name, 0, None, len(replicas), len(replicas[0]), topic_id)
    if request.validate_only:
        return result._replace(topic_id=None)
    context.names.add(topic.name)
    replaces = context.view.calls.creations_rejected.get(topic.name, 0) % 2 == 1
    return Change((TopicCreatedRecord(context.ticket, result, replicas, topic.settings, replaces),))


def _valid(context: RequestContext, topic: NewTopic, request: CreateTopics) -> tuple[Replicas, ...]:
    """Return the replicas of a new topic, or refuse it; the order of the checks is Kafka's."""
    view, names = context.view, context.names
    if topic.name == CLUSTER_METADATA:
        text = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        raise TopicRefusedError(kafka_errors.INVALID_REQUEST, text)
    if topic.name in names.known:
        text = f"Topic '{topic.name}' already exists."
        raise TopicRefusedError(kafka_errors.TOPIC_ALREADY_EXISTS, text)
    without_value = [name for name, value in topic.configs if value is None]
    if without_value:
        text = f"Null value not supported for topic configs: {','.join(without_value)}"
        raise TopicRefusedError(kafka_errors.INVALID_CONFIG, text)
    replicas = _assigned_replicas(topic) if topic.assignments else _choice(view, topic, request)
    topic_checks.check_name(topic.name, names.colliding(topic.name))
    if topic.assignments:
        topic_checks.check_assigned(view, topic)
    if topic.config_problem is not None:
        raise TopicRefusedError(kafka_errors.INVALID_CONFIG, topic.config_problem)
    return replicas


def _choice(view: ClusterView, topic: NewTopic, request: CreateTopics) -> tuple[Replicas, ...]:
    count, factor = topic.num_partitions, topic.replication_factor
    count = request.defaults.num_partitions if count == BY_DEFAULT else count
    factor = request.defaults.default_replication_factor if factor == BY_DEFAULT else factor
    brokers = tuple(view.cluster.brokers.values())
    topic_checks.check(brokers, count, factor)
    topic_checks.check_size(view, count, factor)
    return replica_choice.choose(_receiving(view, factor), count, factor, topic.topic_id)


def _receiving(view: ClusterView, factor: int) -> tuple[LiveBroker, ...]:
    """Return the brokers for new replicas: those that are not drained, if they are enough."""
    drained, live = drained_brokers(view), tuple(view.cluster.brokers.values())
    others = tuple(b for b in live if b.id not in drained)
    return others if len(others) >= factor else live


def _assigned_replicas(topic: NewTopic) -> tuple[Replicas, ...]:
    if (topic.num_partitions, topic.replication_factor) != (BY_DEFAULT, BY_DEFAULT):
        raise TopicRefusedError(
            kafka_errors.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both "
            "cannot be used at the same time.",
        )
    return tuple(topic.assigned.values())


# --- CreatePartitions ----------------------------------------------------------------------------


def _growth(context: RequestContext, request: MorePartitions, *, validate_only: bool) -> _Judged:
    """Return the write of a topic's new partitions, or why there is none; None: it is read."""
    view, name = context.view, request.name
    topic = view.topics.by_name.get(name)
    try:
        if topic is None or topic.stale or view.is_to_be_deleted(name):
            _check_exists(view, name)
            return None
        added = _added_replicas(view, request, topic.partitions)
    except TopicRefusedError as refusal:
        return TopicResult(name, refusal.code, str(refusal))
    if validate_only:
        return TopicResult(name, 0)
    if name in context.names.growing:
        return None
    context.names.growing.add(name)
    first = len(topic.partitions)
    result = TopicResult(name, 0, None, request.count, first_new=first)
    return Change(
        (
            TopicGrownRecord(context.ticket, result),
            *(
                AssignmentRecord(TopicPartition(name, number), PartitionAssignment(replicas))
                for number, replicas in enumerate(added, first)
            ),
        ),
        partition=TopicPartition(name, first),
    )


def _check_exists(view: ClusterView, name: str) -> None:
    """Refuse to extend a topic that does not exist, or not for long; return if it is to be read."""
    topics = view.topics
    if view.is_to_be_deleted(name):
        deleted = "The topic is queued for deletion."
        raise TopicRefusedError(kafka_errors.INVALID_TOPIC_EXCEPTION, deleted)
    if name in topics.unreadable:
        raise TopicRefusedError(kafka_errors.UNKNOWN_SERVER_ERROR, "Its znode is unreadable.")
    if name not in topics.by_name and name not in (topics.listed or ()):
        unknown = f"The topic '{name}' does not exist."
        raise TopicRefusedError(kafka_errors.UNKNOWN_TOPIC_OR_PARTITION, unknown)


def _added_replicas(
    view: ClusterView, request: MorePartitions, present: Mapping[int, PartitionAssignment]
) -> tuple[Replicas, ...]:
    """Return the replicas of new partitions, or refuse; the order of the checks is Kafka's."""
    if any(entry.is_reassigning for entry in present.values()):
        text = f"A partition reassignment is in progress for the topic '{request.name}'."
        raise TopicRefusedError(kafka_errors.REASSIGNMENT_IN_PROGRESS, text)
    if request.count < len(present):
        text = (
            f"Topic currently has {len(present)} partitions, which is higher than the requested "
            f"{request.count}."
        )
        raise TopicRefusedError(kafka_errors.INVALID_PARTITIONS, text)
    if request.count == len(present):
        text = f"Topic already has {len(present)} partitions."
        raise TopicRefusedError(kafka_errors.INVALID_PARTITIONS, text)
    if sorted(present) != list(range(len(present))):
        text = f"Unexpected existing replica assignment for topic '{request.name}'."
        raise TopicRefusedError(kafka_errors.UNKNOWN_SERVER_ERROR, text)
    first, brokers = present[0].replicas, tuple(view.cluster.brokers.values())
    more = request.count - len(present)
    topic_checks.check_size(view, request.count, len(first))
    if request.assignments is None:
        topic_checks.check(brokers, more, len(first))
        receiving = _receiving(view, len(first))
        return replica_choice.continue_choice(receiving, first, len(present), more)
    problem = topic_checks.problem_of_added(
        view.cluster.brokers, request.assignments, more, len(present), first
    )
    if problem is not None:
        raise TopicRefusedError(kafka_errors.INVALID_REPLICA_ASSIGNMENT, problem)
    return request.assignments
