"""
Elect leaders for clients, as Kafka's controller does (``KafkaController.electLeaders``).

Elections of preferred leaders join those of this tenure, with their limits. An unclean one is held
where a partition has no leader and a replica is live, whatever the settings of the topic are.
Errors and texts are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller import kafka_errors
from controller.core.calls.client_requests import (
    ElectLeaders,
    ElectLeadersAnswer,
    PartitionResult,
    PendingClientRequest,
)
from controller.core.leadership import duties
from controller.core.leadership.records import ElectionsRequestedRecord
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.records import Change
from controller.core.requests.entry_checks import is_undecidable
from controller.core.view import ClusterView

PATIENCE_S: Final = 20.0
"""How long a request waits for reads and elections, whatever its own limit."""
_NEEDLESS: Final = "Leader election not needed for topic partition."
_PREFERRED_STRATEGY: Final = "PreferredReplicaPartitionLeaderElectionStrategy"
_UNCLEAN_STRATEGY: Final = "OfflinePartitionLeaderElectionStrategy(true)"


def answer_elections(
    view: ClusterView,
    ticket: int,
    pending: PendingClientRequest,
    request: ElectLeaders,
    now: Instant,
) -> ElectLeadersAnswer | Change | None:
    """Return the results of the elections, or the record of the request; None: it waits."""
    patience_s = min(request.timeout_s, PATIENCE_S)
    if pending.results is None:
        partitions = tuple(
            view.topics.partitions() if request.partitions is None else request.partitions
        )
        unread = {p for p in partitions if _is_unread(view, p)}
        # The other half of the time is for the elections.
        if unread and now < pending.since + patience_s / 2:
            return None
        results, wanted = _elections(view, request, (p for p in partitions if p not in unread))
        timed_out = kafka_errors.REQUEST_TIMED_OUT
        results += tuple(PartitionResult(p, timed_out) for p in sorted(unread))
        if wanted:
            return Change((ElectionsRequestedRecord(ticket, wanted, results, request.is_unclean),))
        return ElectLeadersAnswer(0, results)
    is_late = now >= pending.since + patience_s
    results = pending.results
    for partition in sorted(pending.electing):
        result = _election_result(view, partition, is_unclean=request.is_unclean)
        if result is None and not is_late:
            return None
        late = PartitionResult(partition, kafka_errors.REQUEST_TIMED_OUT)
        results = (*results, result or late)
    return ElectLeadersAnswer(0, results)


def _is_unread(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether the topic or the state of a partition is still to be read."""
    leadership = view.leadership
    if view.is_to_be_deleted(partition.topic):
        return False
    kinds = (leadership.states, leadership.stateless, leadership.unreadable)
    is_known = any(partition in known for known in kinds)
    return is_undecidable(view, partition) or (
        view.topics.assignment(partition) is not None and not is_known
    )


def _elections(
    view: ClusterView, request: ElectLeaders, partitions: Iterable[TopicPartition]
) -> tuple[tuple[PartitionResult, ...], tuple[TopicPartition, ...]]:
    """Return the results that are known at once, and the partitions to elect for."""
    results: list[PartitionResult] = []
    wanted: list[TopicPartition] = []
    for partition in partitions:
        result = _unelectable(view, partition, is_unclean=request.is_unclean)
        if result is None:
            wanted.append(partition)
        elif request.partitions is not None or result.error != kafka_errors.ELECTION_NOT_NEEDED:
            results.append(result)
    return tuple(results), tuple(wanted)


def _unelectable(  # noqa: PLR0911 - one return per case
    view: ClusterView, partition: TopicPartition, *, is_unclean: bool
) -> PartitionResult | None:
    """Return why no leader is elected; None: one can be."""
    assignment, state = view.topics.assignment(partition), view.leadership.states.get(partition)
    if view.is_to_be_deleted(partition.topic):
        deleted = "The topic is being deleted"
        return PartitionResult(partition, kafka_errors.INVALID_TOPIC_EXCEPTION, deleted)
    if assignment is None or state is None:
        unknown = "The partition does not exist."
        return PartitionResult(partition, kafka_errors.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    if is_unclean:
        return _not_uncleanly(view, partition, state.leader)
    if state.leader == assignment.replicas[0]:
        return PartitionResult(partition, kafka_errors.ELECTION_NOT_NEEDED, _NEEDLESS)
    unavailable = kafka_errors.PREFERRED_LEADER_NOT_AVAILABLE
    if partition in view.reassignments.by_partition:
        later = "It is being reassigned: its preferred leader is elected afterwards."
        return PartitionResult(partition, unavailable, f"{_failure_text(partition)}. {later}")
    if duties.elect_preferred(view, partition) is None:
        return PartitionResult(partition, unavailable, _failure_text(partition))
    return None


def _failure_text(partition: TopicPartition, *, is_unclean: bool = False) -> str:
    """Return what Kafka's tools print of an election without a result."""
    strategy = _UNCLEAN_STRATEGY if is_unclean else _PREFERRED_STRATEGY
    return f"Failed to elect leader for partition {partition} under strategy {strategy}"


def _not_uncleanly(
    view: ClusterView, partition: TopicPartition, leader: BrokerId
) -> PartitionResult | None:
    """Return why no unclean election is held; None: there is no leader, and one can be elected."""
    if view.is_live(leader, partition):
        return PartitionResult(partition, kafka_errors.ELECTION_NOT_NEEDED, _NEEDLESS)
    if not duties.has_candidate(view, partition):
        unavailable = kafka_errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return PartitionResult(partition, unavailable, _failure_text(partition, is_unclean=True))
    return None


def _election_result(
    view: ClusterView, partition: TopicPartition, *, is_unclean: bool
) -> PartitionResult | None:
    """Return the result of an election; None while it is under way."""
    assignment, state = view.topics.assignment(partition), view.leadership.states.get(partition)
    if assignment is None or state is None or partition in view.leadership.preferred:
        return None
    if is_unclean and not view.is_live(state.leader, partition):
        # The last replica may have died after the request was judged.
        return _not_uncleanly(view, partition, state.leader)
    if not is_unclean and state.leader != assignment.replicas[0]:
        unavailable = kafka_errors.PREFERRED_LEADER_NOT_AVAILABLE
        return PartitionResult(partition, unavailable, _failure_text(partition))
    return PartitionResult(partition, 0) if view.leadership.is_acknowledged(partition) else None
