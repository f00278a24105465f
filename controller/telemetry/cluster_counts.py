"""
Counts for the gauges: reassignments, and what a Kafka controller exports by JMX.

Pure functions of the view. Those that visit every reassignment or partition are ``Incremental``:
generators, so that the loop can do other work in between. The view may change between two slices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from controller.core.blocked_reasons import IN_TURN, BlockedReasons, since_of
from controller.core.model import Blocked, BlockedBy, Instant, RequestId, TopicPartition
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import LABELS, AwaitingController, Ended, Phase, Syncing
from controller.core.requests.submissions import legacy_request_id
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


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Reassignments by phase, by blocked reason, and by request."""

    phases: Counter[str]
    blocked: Counter[str]
    """In flight, pending and not accepted yet, by reason; without those that copy."""
    examples: Mapping[str, tuple[Example, ...]]
    """The first few for each of these reasons."""
    moving: Counter[RequestId]
    """In flight, by request."""
    waiting: Counter[RequestId]
    """Pending, by request."""
    undecided: int
    """Entries of the legacy plan that cannot be accepted yet."""
    in_flight: tuple[TopicPartition, ...]
    copying: int
    """In flight, with added replicas that are not in sync, and not blocked."""
    stalled: Mapping[TopicPartition, str]
    """
    Without progress for too long, each with its reason; some of them may be copying.

    In flight without a change of phase, or pending for another reason than its place in the queue.
    """


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """
    The metrics that Kafka's ``KafkaController`` exports while it is active.

    OfflinePartitionsCount, PreferredReplicaImbalanceCount, GlobalTopicCount, GlobalPartitionCount.
    """

    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """The daemon's role, and single counts of the view."""

    tenure_s: float = 0.0
    """Seconds since the claim; 0 while the daemon is not the controller."""
    brokers: int = 0
    orphans: int = 0
    throttle: int = 0
    """The live throttle of all reassignments, in bytes per second and broker; 0: none."""
    oldest_isr_wait_s: float = 0.0
    """Seconds since the oldest copy in flight began to wait for its ISR."""
    paused: bool = False
    disabled: bool = False
    alter_entries_unanswered: int = 0


def role_of(view: ClusterView, now: Instant) -> RoleCounts:
    """Return the role and the single counts."""
    tenure, pacing, reassignments = view.tenure, view.pacing, view.reassignments
    syncing = (
        (r.phase_since for r in reassignments.by_partition.values() if isinstance(r.phase, Syncing))
        if pacing.in_flight
        else ()
    )
    return RoleCounts(
        tenure_s=0.0 if tenure.held is None else now - tenure.held.since,
        brokers=len(view.cluster.brokers),
        orphans=len(reassignments.orphans),
        throttle=view.pacing_process.controls.throttle or 0,
        oldest_isr_wait_s=max(0.0, now - min(syncing, default=now)),
        paused=view.pacing_process.controls.pauses.everything is not None,
        disabled=bool(view.requests_session.kill_switch),
        alter_entries_unanswered=sum(
            isinstance(r.phase, AwaitingController) and r.phase.error is None
            for r in (reassignments.by_partition.values() if pacing.in_flight else ())
        ),
    )


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
    counting = _Counting(view, now, Instant(now - stalled_after_s), gained_at)
    yield from visit_all(view.reassignments.by_partition, counting.add)
    undecided = counting.add_undecided(view)
    return WorkCounts(
        phases=Counter({LABELS[kind]: n for kind, n in counting.phases.items()}),
        blocked=Counter({by.value: n for by, n in counting.blocked.items()}),
        examples={by.value: tuple(few) for by, few in counting.examples.items()},
        moving=Counter(counting.moving),
        waiting=Counter(counting.waiting),
        undecided=undecided,
        in_flight=tuple(counting.in_flight),
        copying=counting.copying,
        stalled=counting.stalled,
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


class _Counting:
    """The counts in the making; a Counter would be slower."""

    def __init__(
        self,
        view: ClusterView,
        now: Instant,
        still_since: Instant,
        gained_at: Callable[[TopicPartition], Instant | None],
    ) -> None:
        self.phases = defaultdict[type[Phase], int](int)
        self.blocked = defaultdict[BlockedBy, int](int)
        self.examples = defaultdict[BlockedBy, list[Example]](list)
        self.moving = defaultdict[RequestId, int](int)
        self.waiting = defaultdict[RequestId, int](int)
        self.in_flight: list[TopicPartition] = []
        self.copying = 0
        self.stalled: dict[TopicPartition, str] = {}
        self._waits = BlockedReasons(view, now)
        self._leading = view.role.leading
        self._still_since = still_since
        self._gained_at = gained_at

    def add(self, partition: TopicPartition, reassignment: Reassignment) -> None:
        kind, request = type(reassignment.phase), reassignment.spec.request
        self.phases[kind] += 1
        is_begun = _is_begun(reassignment)
        reason = self._waits.of(reassignment)
        if reason is not None:
            self._count_blocked(
                partition, request, reason, since_of(reassignment), is_begun=is_begun
            )
        self.copying += reassignment.is_copying
        if is_begun:
            self.moving[request] += 1
            self.in_flight.append(partition)
        else:
            self.waiting[request] += 1
        gained_at = self._gained_at(partition) if is_begun else None
        if self._leading and is_stalled(reassignment, reason, self._still_since, gained_at):
            noted = reassignment.blocked if reassignment.is_copying else reason
            self.stalled[partition] = UNNOTED if noted is None else noted.by.value

    def add_undecided(self, view: ClusterView) -> int:
        requests = view.requests
        found = 0
        for partition, reason in self._waits.blocked_entries():
            found += 1
            if requests.legacy is not None:
                request = legacy_request_id(requests.legacy.czxid)
                self._count_blocked(partition, request, reason, None, is_begun=False)
        return found

    def _count_blocked(
        self,
        partition: TopicPartition,
        request: RequestId,
        reason: Blocked,
        since: Instant | None,
        *,
        is_begun: bool,
    ) -> None:
        self.blocked[reason.by] += 1
        few = self.examples[reason.by]
        if len(few) < EXAMPLES_MAX:
            # The view has reassignments in the order of acceptance: the first are the oldest.
            few.append(Example(partition, request, reason.detail, since, is_begun))


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


def cluster_counts(view: ClusterView) -> Incremental[ClusterCounts]:
    """Count the cluster's partitions; offline and imbalance need a state that was read."""
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
    return ClusterCounts(len(view.topics.by_name), partitions, offline, imbalanced)
