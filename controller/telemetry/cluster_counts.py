"""
Counts for the gauges: reassignments, and what a Kafka controller exports by JMX.

Pure functions of the view. Those that visit every reassignment or partition are ``Incremental``:
generators, so that the loop can do other work in between. The view may change between two slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from controller.core.blocked_reasons import BlockedReasons, since_of
from controller.core.model import (
    NO_LEADER,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.pacing import limits_in_force
from controller.core.reason_kinds import IN_TURN, LASTING
from controller.core.reassignments.gates import id_conflict
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import LABELS, AwaitingController, Ended, Syncing
from controller.core.requests.submissions import AUTO
from controller.core.view import ClusterView

T = TypeVar("T")
Item = TypeVar("Item")
Key = TypeVar("Key")

Incremental = Generator[None, None, T]
"""A computation with the result ``T``, which yields where it may be interrupted."""
SLICE: Final = 100
"""Items between two interruptions; they take well below a millisecond."""
EXAMPLES_MAX: Final = 5
"""Partitions named for each blocked reason: those that were accepted first."""
_BESIDE_COPIES: Final = frozenset({BlockedBy.BROKER_DEAD, BlockedBy.REPLICA_NOT_IN_ISR})
"""Reasons of a step that other replicas of it do not wait for."""
UNNOTED: Final = "none"
"""The reason of a stalled partition that is not blocked."""


def in_slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return the present items in slices."""
    everything = list(items)
    return (everything[n : n + SLICE] for n in range(0, len(everything), SLICE))


def visit_all(items: Mapping[Key, Item], visit: Callable[[Key, Item], None]) -> Incremental[None]:
    """Visit the present items with their latest values, without those deleted meanwhile."""
    for keys in in_slices(items):
        for key in keys:
            if key in items:
                visit(key, items[key])
        yield


@dataclass(frozen=True, slots=True)
class Example:
    """A blocked partition that is named as an example of its reason."""

    partition: TopicPartition
    request: RequestId
    detail: str
    since: Instant | None
    """None for an entry that is not accepted yet."""
    is_begun: bool


@dataclass(slots=True)
class RequestWait:
    """The partitions of a request that wait for one reason."""

    partitions: int
    detail: str
    """Of the first one."""


@dataclass(slots=True)
class WorkCounts:
    """Reassignments by phase, by blocked reason, and by request; complete, it does not change."""

    phases: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)
    """In flight, pending and not accepted yet, by reason; without those that copy."""
    examples: dict[str, list[Example]] = field(default_factory=dict)
    """The first few for each of these reasons."""
    blocked_in_flight: Counter[str] = field(default_factory=Counter)
    """Those of them that are in flight."""
    moving: Counter[RequestId] = field(default_factory=Counter)
    """In flight, by request."""
    waiting: Counter[RequestId] = field(default_factory=Counter)
    """Pending, by request."""
    undecided: int = 0
    """Entries of the legacy plan, and partitions on drained brokers, not accepted yet."""
    in_flight: list[TopicPartition] = field(default_factory=list)
    between_steps: Counter[RequestId] = field(default_factory=Counter)
    """Those in flight that are between two steps, by request."""
    rolling_back: Counter[RequestId] = field(default_factory=Counter)
    """Those that a cancellation moves back, in flight or pending, by request."""
    copying: int = 0
    """In flight, with a replica that is being copied; it may be blocked besides."""
    stalled: dict[TopicPartition, str] = field(default_factory=dict)
    """
    Without progress for too long, each with its reason; some of them may be copying.

    In flight without a change of phase, or pending for another reason than its place in the queue.
    """
    waits: dict[RequestId, Blocked] = field(default_factory=dict)
    """Why partitions of each request wait: preferably a reason that may last."""
    by_request: dict[RequestId, dict[BlockedBy, RequestWait]] = field(default_factory=dict)
    """The blocked partitions of each request, by reason."""

    def count_blocked(
        self,
        partition: TopicPartition,
        request: RequestId,
        reason: Blocked,
        since: Instant | None,
        *,
        is_begun: bool,
    ) -> None:
        """Count a blocked partition; the view has them in the order of acceptance."""
        by = reason.by.value
        self.blocked[by] += 1
        self.blocked_in_flight[by] += is_begun
        self.note_wait(request, reason)
        waits = self.by_request.setdefault(request, {})
        waits.setdefault(reason.by, RequestWait(0, reason.detail)).partitions += 1
        few = self.examples.setdefault(by, [])
        if len(few) < EXAMPLES_MAX:
            few.append(Example(partition, request, reason.detail, since, is_begun))

    def note_wait(self, request: RequestId, reason: Blocked) -> None:
        """Note why a partition of a request waits."""
        known = self.waits.setdefault(request, reason)
        if reason.by in LASTING and known.by not in LASTING:
            self.waits[request] = reason


def role_counts(view: ClusterView, now: Instant) -> dict[str, float]:
    """Return the gauges of the daemon's role and of single counts, by name (``gauges.COUNTS``)."""
    held, controls = view.tenure.held, view.pacing_process.controls
    throttle = limits_in_force.common_throttle(view)
    found = view.reassignments.by_partition.values() if view.pacing.in_flight else ()
    syncing = (r.phase_since for r in found if isinstance(r.phase, Syncing))
    return {
        "brokers": len(view.cluster.brokers),
        "disabled": view.disabled_because is not None,
        "isr_wait_oldest_seconds": max(0.0, now - min(syncing, default=now)),
        "orders_unanswered": sum(
            isinstance(r.phase, AwaitingController) and r.phase.error is None for r in found
        ),
        "orphans": len(view.reassignments.orphans),
        "paused": controls.pauses.everything is not None,
        "tenure_seconds": 0.0 if held is None else now - held.since,
        "throttle_bytes_per_second": 0 if throttle is None or throttle == AUTO else throttle,
    }


def work_counts(
    view: ClusterView,
    now: Instant,
    stalled_after_s: float,
    gained_at: Callable[[TopicPartition], Instant | None] = lambda _: None,
) -> Incremental[WorkCounts]:
    """
    Count the reassignments.

    A partition between two steps is in flight. One that begins or ends during the count may be
    counted or not. ``gained_at`` returns when a copy last came closer to its leader.
    """
    found = WorkCounts()
    reasons = BlockedReasons(view, now)
    still_since = Instant(now - stalled_after_s)

    def add(partition: TopicPartition, reassignment: Reassignment) -> None:
        request, is_begun = reassignment.spec.request, _is_begun(reassignment)
        found.phases[LABELS[type(reassignment.phase)]] += 1
        reason = reasons.of(reassignment)
        if reason is not None:
            since = since_of(reassignment)
            found.count_blocked(partition, request, reason, since, is_begun=is_begun)
        found.copying += bool(copying_to(view, partition, reassignment))
        if reassignment.spec.rolls_back:
            found.rolling_back[request] += 1
        if is_begun:
            found.moving[request] += 1
            found.in_flight.append(partition)
            if not reassignment.in_flight:
                found.between_steps[request] += 1
        else:
            found.waiting[request] += 1
        gained = gained_at(partition) if is_begun else None
        if view.role.leading and is_stalled(reassignment, reason, still_since, gained):
            noted = reassignment.blocked if reassignment.is_copying else reason
            found.stalled[partition] = UNNOTED if noted is None else noted.by.value
            stalled = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, f"{partition} is stalled")
            found.note_wait(request, stalled)

    yield from visit_all(view.reassignments.by_partition, add)
    for partition, request, reason in reasons.blocked_entries():
        found.undecided += 1
        found.count_blocked(partition, request, reason, None, is_begun=False)
        if not found.undecided % SLICE:
            yield
    return found


def copying_to(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> Replicas:
    """
    Return the replicas that are being copied now, also beside one for which the step waits.

    A dead replica, or one that stays and lags, holds back the step, not the copies of the others.
    """
    assignment = view.topics.known_assignment(partition)
    state = view.leadership.states.get(partition)
    if not reassignment.in_flight or assignment is None or state is None:
        return ()
    blocked = reassignment.blocked
    if blocked is None or not (blocked.is_copying or blocked.by in _BESIDE_COPIES):
        return ()
    if not view.is_live(state.leader, partition):
        return ()
    added = assignment.adding_replicas
    lacking = (r for r in reassignment.receivers(assignment) if r not in state.isr)
    return tuple(
        r
        for r in lacking
        if blocked.is_copying
        or (r in added and view.is_live(r, partition) and not id_conflict(view, partition, (r,)))
    )


def is_stalled(
    reassignment: Reassignment,
    reason: Blocked | None,
    still_since: Instant,
    gained_at: Instant | None = None,
) -> bool:
    """
    Return whether a reassignment made no progress since ``still_since``.

    In flight, its phase did not change, and its copies came no closer to the leader
    (``gained_at``), whatever else it waits for. Pending, it is blocked by more than its place in
    the queue.
    """
    if _is_begun(reassignment):
        does_gain = gained_at is not None and gained_at > still_since
        return reassignment.phase_since <= still_since and not does_gain
    if reason is None or reason.by in IN_TURN:
        return False
    return since_of(reassignment) <= still_since


def _is_begun(reassignment: Reassignment) -> bool:
    return reassignment.begun and not isinstance(reassignment.phase, Ended)


def unjudged_entries(view: ClusterView) -> Counter[RequestId]:
    """
    Return the number of entries of each request that are neither accepted nor refused yet.

    A large request is accepted in chunks, but its total counts all its entries from the start.
    """
    requests_session = view.requests_session
    found: Counter[RequestId] = Counter()
    for submission in requests_session.submissions.values():
        known = view.requests.by_id.get(submission.request)
        if known is not None and submission.name in known.parts:
            rest = islice(submission.entries, requests_session.judged.get(submission.name, 0), None)
            found[submission.request] += sum(p not in known.settled for p in rest)
    return found


def undrained_count(view: ClusterView, request: RequestId) -> int:
    """Return for how many partitions a standing drain has no target yet; 0 for other requests."""
    is_standing = request == view.pacing_process.controls.drains.request
    return len(view.pacing_session.to_drain) if is_standing else 0


@dataclass(frozen=True, slots=True)
class AssignedReplicas:
    """Where the replicas of all topics are, as the topic znodes have it."""

    replicas: Counter[BrokerId] = field(default_factory=Counter)
    leaders: Mapping[BrokerId, int] | None = None
    """None: the leaders of some partitions are not known to the daemon."""

    def dead(self, view: ClusterView) -> list[BrokerId]:
        """Return the brokers with replicas that are not registered."""
        return sorted(self.replicas.keys() - view.cluster.brokers.keys())


def assigned_replicas(view: ClusterView) -> Incremental[AssignedReplicas]:
    """Count the replicas, and the leaders, on each broker."""
    replicas, leaders = Counter[BrokerId](), Counter[BrokerId]()
    has_all = view.is_controller
    for name, topic in list(view.topics.by_name.items()):
        for found in in_slices(topic.partitions.items()):
            for number, assignment in found:
                replicas.update(assignment.replicas)
                state = view.leadership.states.get(TopicPartition(name, number))
                has_all &= state is not None
                if state is not None and state.leader != NO_LEADER:
                    leaders[state.leader] += 1
            yield
    return AssignedReplicas(replicas, leaders if has_all else None)


def cluster_counts(view: ClusterView) -> Incremental[dict[str, int]]:
    """
    Count what Kafka's ``KafkaController`` exports while it is active, by name (``gauges.CLUSTER``).

    OfflinePartitionsCount and PreferredReplicaImbalanceCount need a state that was read.
    """
    partitions = offline = imbalanced = 0
    deletions = view.deletions_session.markers or frozenset()
    for name, topic in list(view.topics.by_name.items()):
        partitions += len(topic.partitions)
        for found in () if name in deletions else in_slices(topic.partitions.items()):
            for number, assignment in found:
                partition = TopicPartition(name, number)
                state = view.leadership.states.get(partition)
                if state is None:
                    continue
                offline += not view.is_live(state.leader, partition)
                imbalanced += state.leader not in assignment.replicas[:1]
            yield
    return {
        "offline_partitions": offline,
        "preferred_replica_imbalance": imbalanced,
        "topics": len(view.topics.by_name),
        "cluster_partitions": partitions,
    }
