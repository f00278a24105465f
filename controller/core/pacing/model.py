"""
The ledgers of limits, throttles and health, with the participants of throttles and the queue.

Participants are the topics and brokers that the open reassignments concern, by request. They are
updated as reassignments begin, change and end, so that the end of a throttle is noticed without a
pass over all of them. An entity that was changed since it was last found right is ``unsettled``:
``throttles`` examines it, and no throttled step begins on it before that.

The queue of pending reassignments is round robin between requests, by priority. A request with a
hundred thousand partitions does not precede one with three, and a request that is held costs
nothing to skip.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any, ClassVar, Final

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.model import (
    START,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.pacing.controls import Controls
from controller.core.pacing.throttle_settings import (
    AppliedThrottle,
    Entity,
    EntityConfig,
    ThrottleRefusal,
    broker_entity,
    topic_entity,
)


class LimitKind(Enum):
    """The unit that a limit counts."""

    PARTITIONS = auto()
    REQUEST = auto()
    INCOMING = auto()
    OUTGOING = auto()
    BYTES = auto()


EVIDENCE_KEPT: Final = 1000
"""Pieces kept of each kind; older ones hardly matter."""


@dataclass(frozen=True, slots=True)
class IsrLoss:
    """The ISR of a partition without a reassignment lost replicas."""

    partition: TopicPartition
    at: Instant
    brokers: frozenset[BrokerId]
    """The leader, and the brokers of the lost replicas."""


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """A broker was slow to answer a controller request."""

    broker: BrokerId
    took_s: float
    at: Instant


class SignalKind(StrEnum):
    """What was measured."""

    PROBE = "probe"
    """The acknowledgement of records of the produce probe, by the broker that leads them."""
    QUERY = "query"
    """The operator's Prometheus query, for the whole cluster."""
    ISR = "isr"
    """ISRs of partitions without a reassignment that lost a replica."""
    OFFLINE = "offline"
    """Replicas that went offline: their leaders and clients move to other brokers."""
    ANSWER = "answer"
    """The time a broker takes to answer a controller request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """
    One reading: a value and the objective that it is not to exceed.

    Readings of the probe do not overlap: each is of the records sent in about a second. A record
    that is not acknowledged yet counts with its age.
    """

    kind: SignalKind
    value: float
    """Of the probe: the 99th percentile of the acknowledgement in seconds."""
    objective: float
    """In the unit of the value."""
    since: Instant
    """When the measured interval began."""
    at: Instant
    """When it ended."""
    evidence: str
    """The value with its unit, and where it was measured, for operators."""
    broker: BrokerId | None = None
    """Of the probe: the leader of its records. None: it concerns every broker."""
    follower: BrokerId | None = None
    """Of the probe: the broker with the other replica."""
    median: float | None = None
    """Of the probe: the median of the acknowledgement in seconds."""

    @property
    def strain(self) -> float:
        """The value as a share of its objective: 1.0 just meets it."""
        return self.value / self.objective


@dataclass(frozen=True, slots=True)
class GovernedRate:
    """The rate of one broker under a throttle ``auto`` (``governor``)."""

    bytes_per_s: int
    changed_at: Instant
    why: str
    """The evidence for its last change."""
    by: Signal | None = None
    """The signal for which it was; None: a bound."""
    floor: int = 0
    """What the copies in flight needed when it was judged."""
    too_high: int | None = None
    """The rate at which the objective was last missed; None: it is not known."""
    misses: int = 0
    """The cuts in succession because the objective was missed; 0: it was met last."""
    strain: float = 0.0
    """The strain at the last judgement."""
    calmest: float | None = None
    """The lowest strain of any judgement: that of a broker without copies, or nearly so."""
    typical: float = 0.0
    """The mean strain of the readings of the last judgement; 0.0: it had none of this rate."""
    points: tuple[tuple[int, float], ...] = ()
    """The rates since the objective was last missed, each with the typical strain at its end."""
    usual: float | None = None
    """The usual strain near the rate that was too high: a geometric mean."""
    deviation: float = 0.5
    """How far strains there are from the usual one, as the mean of logarithms."""
    quiet: int = 0
    """The count of judgements near that rate in succession with less strain than is usual there."""
    quiet_at: Instant = START
    """When the last of them was."""

    @property
    def is_missed(self) -> bool:
        """Whether the objective was missed at the last judgement."""
        return self.misses > 0

    @property
    def is_at_floor(self) -> bool:
        """Whether the objective is missed at the lowest rate at which the copies end."""
        return self.is_missed and self.bytes_per_s <= self.floor


READINGS_KEPT: Final = 30
"""Readings kept for each kind and broker."""


@dataclass(frozen=True, slots=True)
class Participant:
    """The copies of one reassignment: where they may come from, and where they go."""

    spec: model.ReassignmentSpec
    sources: Replicas
    receivers: Replicas


def participant_of(
    spec: model.ReassignmentSpec, assignment: model.PartitionAssignment | None
) -> Participant:
    """
    Return the sources and receivers of a reassignment.

    They stay the same from the first step to the last, so that no setting is rewritten in between:
    any replica from before the reassignment may serve, every other replica receives. In a rollback,
    or after a change of the target, an original replica that was dropped, or is just being dropped,
    receives as well.
    """
    present = None if assignment is None else assignment.origin_replicas
    leaving = () if assignment is None else assignment.removing_replicas
    before = spec.original if spec.original is not None else present or ()
    here = tuple(r for r in (before if present is None else present) if r not in leaving)
    receivers = tuple(r for r in spec.target if r not in before or r not in here)
    abandoned = tuple(sorted(spec.abandoned - frozenset(before)))
    return Participant(spec, before + abandoned, receivers)


@dataclass(slots=True)
class Participants:
    """The participants of all open reassignments that are throttled by us."""

    topics: dict[str, dict[int, Participant]] = field(default_factory=dict)
    requests: dict[Entity, Counter[RequestId]] = field(default_factory=dict)
    """The number of reassignments of each request that concern a topic or a broker."""
    movers: dict[Entity, Counter[RequestId]] = field(default_factory=dict)
    """The number of those of each request that begin or stop moves within a broker."""
    unsettled: dict[Entity, int] = field(default_factory=dict)
    """Entities to examine, with the number of the newest note about each."""
    notes: int = 0

    def put(
        self,
        partition: TopicPartition,
        spec: model.ReassignmentSpec,
        assignment: model.PartitionAssignment | None,
    ) -> None:
        """Count a reassignment that began or changed; foreign ones are not throttled."""
        self.drop(partition)
        if spec.route is Route.FOREIGN:
            return
        participant = participant_of(spec, assignment)
        self.topics.setdefault(partition.topic, {})[partition.partition] = participant
        for entity in _entities(partition, participant):
            requests = self.requests.setdefault(entity, Counter())
            requests[spec.request] += 1
            if requests[spec.request] == 1:
                self.note(entity)
        for broker in spec.placed_brokers:
            entity = broker_entity(broker)
            self.movers.setdefault(entity, Counter())[spec.request] += 1
            self.note(entity)
        self.note(topic_entity(partition.topic))

    def drop(self, partition: TopicPartition) -> None:
        """Forget a reassignment that ended; only the last of its request changes a throttle."""
        in_topic = self.topics.get(partition.topic, {})
        participant = in_topic.pop(partition.partition, None)
        if participant is None:
            return
        if not in_topic:
            del self.topics[partition.topic]
        request, brokers = participant.spec.request, participant.spec.placed_brokers
        counted = [(self.movers, broker_entity(broker)) for broker in brokers]
        counted += [(self.requests, entity) for entity in _entities(partition, participant)]
        for counts, entity in counted:
            counts[entity][request] -= 1
            if not counts[entity][request]:
                del counts[entity][request]
                if not counts[entity]:
                    del counts[entity]
                self.note(entity)

    def holds(self, partition: TopicPartition, spec: model.ReassignmentSpec) -> bool:
        """Return whether the reassignment is counted with this spec."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return participant is not None and participant.spec == spec

    def entities(self, partition: TopicPartition) -> Iterable[Entity]:
        """Return the topic and the brokers of a reassignment; none if it is not counted."""
        participant = self.topics.get(partition.topic, {}).get(partition.partition)
        return () if participant is None else _entities(partition, participant)

    def note(self, entity: Entity) -> None:
        """Have a topic or a broker examined."""
        self.notes += 1
        self.unsettled[entity] = self.notes

    def note_all(self, applied: Iterable[Entity]) -> None:
        """Have every entity examined that is concerned or has a throttle applied."""
        for entity in sorted({*self.requests, *applied}):
            self.note(entity)

    def settle(self, entity: Entity, note: int) -> bool:
        """Note that an entity was found right as of a note; False if a newer note exists."""
        if self.unsettled.get(entity) != note:
            return False
        del self.unsettled[entity]
        return True


def _entities(partition: TopicPartition, participant: Participant) -> tuple[Entity, ...]:
    brokers = sorted({*participant.sources, *participant.receivers})
    return (topic_entity(partition.topic), *(broker_entity(b) for b in brokers))


@dataclass(slots=True)
class PendingQueue:
    """Pending partitions; each request has a line of its own."""

    _lines: dict[RequestId, dict[TopicPartition, None]] = field(default_factory=dict)
    _request_of: dict[TopicPartition, RequestId] = field(default_factory=dict)

    def __contains__(self, partition: object) -> bool:
        return partition in self._request_of

    def __len__(self) -> int:
        return len(self._request_of)

    def __iter__(self) -> Iterator[TopicPartition]:
        for line in self._lines.values():
            yield from line

    def requests(self) -> tuple[RequestId, ...]:
        """Return the requests with pending partitions, in the order of their first arrival."""
        return tuple(self._lines)

    def length(self, request: RequestId) -> int:
        """Return the number of pending partitions of a request."""
        return len(self._lines.get(request, ()))

    def add(self, partition: TopicPartition, request: RequestId) -> None:
        """Put a partition at the end of its request's line; it leaves any other."""
        if self._request_of.get(partition) == request:
            return
        self.discard(partition)
        self._request_of[partition] = request
        self._lines.setdefault(request, {})[partition] = None

    def discard(self, partition: TopicPartition) -> None:
        """Remove a partition, if it is pending."""
        request = self._request_of.pop(partition, None)
        if request is None:
            return
        line = self._lines[request]
        del line[partition]
        if not line:
            del self._lines[request]

    def pass_over(self, partition: TopicPartition) -> None:
        """Put a partition behind the others of its request."""
        request = self._request_of.get(partition)
        if request is not None:
            del self._lines[request][partition]
            self._lines[request][partition] = None

    def sort(self, request: RequestId, key: Callable[[TopicPartition], Any]) -> None:
        """Sort the line of a request."""
        line = self._lines.get(request)
        if line is not None:
            self._lines[request] = dict.fromkeys(sorted(line, key=key))

    def in_turn(self, requests: Iterable[RequestId]) -> Iterator[TopicPartition]:
        """Yield the partitions of these requests, round robin."""
        lines = [iter(self._lines[r]) for r in requests if r in self._lines]
        while lines:
            left = []
            for line in lines:
                partition = next(line, None)
                if partition is not None:
                    yield partition
                    left.append(line)
            lines = left


@dataclass(slots=True)
class PacingLedger(Ledger):
    """What is pending and in flight, and the health that limits it."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    waiting: PendingQueue = field(default_factory=PendingQueue)
    """Pending reassignments in the order in which they will be considered."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones that completed a step: they start first when capacity is free."""
    in_flight: int = 0
    incoming: dict[BrokerId, int] = field(default_factory=dict)
    outgoing: dict[BrokerId, int] = field(default_factory=dict)
    bytes_in_flight: int = 0
    pace: int | None = None
    """The governor's limit of partitions in flight; None: the configured limit holds."""
    pace_since: Instant = START
    """When it was last judged."""
    shrunk: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions without a reassignment whose ISR is smaller than their replica set."""
    under_min_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them known to be below ``min.insync.replicas``, or without a leader."""
    recovering: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them that live replicas can restore: copies would slow that down."""
    exposed: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    """The others by the brokers that serve them: copies there could take those replicas, too."""
    unjudged_topics: set[str] = field(default_factory=set)
    """Topics of shrunk partitions whose settings are not known yet."""
    isr_losses: deque[IsrLoss] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    slow_answers: deque[SlowAnswer] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    went_offline: dict[BrokerId, IsrLoss] = field(default_factory=dict)
    """The last replicas that went offline, by the broker that leads the partition since then."""


@dataclass(slots=True)
class PacingSession(Ledger):
    """Whether this session read the controls, and what it read of drained brokers."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    controls_read: bool = False
    drains_stale: bool = False
    """Whether the end of the drains was rejected: they are read again."""
    on_drained: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions with a replica on a drained broker, or a target there."""
    to_drain: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them that may need another target (``drained_replicas``)."""

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition whose topic is gone."""
        self.on_drained.pop(partition, None)
        self.to_drain.pop(partition, None)


@dataclass(slots=True)
class PacingLeadership(Ledger):
    """The dynamic settings that throttle, and the reads of the records of applied throttles."""

    lifetime: ClassVar[Lifetime] = Lifetime.LEADERSHIP

    applied_throttles_read: bool = False
    unconfirmed_throttles: set[Entity] = field(default_factory=set)
    """Applied throttles of which a write was rejected: the next read shows whether they exist."""
    entity_configs: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    """Dynamic settings of the topics and brokers that are, or are to be, throttled."""
    requested_entities: dict[Entity, Instant] = field(default_factory=dict)
    """When dynamic settings were last requested."""
    throttle_refusals: dict[Entity, ThrottleRefusal] = field(default_factory=dict)
    kept_throttles: dict[Entity, tuple[str, ...]] = field(default_factory=dict)
    """Settings of others that occupy the place of a wanted throttle."""
    rates: dict[BrokerId, GovernedRate] = field(default_factory=dict)
    """The rates of brokers that requests with a throttle ``auto`` concern."""
    measured_until: Instant = START
    """Until when the latency is measured that producers see."""
    probed: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers on which the probe's topic is to have replicas."""


@dataclass(slots=True)
class PacingHistory(Ledger):
    """The controls of operators, the throttles, and the clock of windows."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    controls: Controls = field(default_factory=Controls)
    controls_known: bool = False
    """Whether all controls were ever decoded, also in an earlier session."""
    drains_ended: model.Zxid | None = None
    """The drains that a cancellation ended: a read that began before shows them once more."""
    applied_throttles: dict[Entity, AppliedThrottle] = field(default_factory=dict)
    participants: Participants = field(default_factory=Participants)
    readings: dict[tuple[SignalKind, BrokerId | None], deque[Signal]] = field(default_factory=dict)
    """What the probe and the query measured last, by kind and broker."""
    former_rates: dict[BrokerId, GovernedRate] = field(default_factory=dict)
    """The last rates of brokers that no request with a throttle ``auto`` concerns any more."""
    expected: frozenset[SignalKind] = frozenset()
    """The kinds of which there is to be a reading at all times."""
    unmeasured: Mapping[SignalKind, str] = field(default_factory=dict)
    """Why there are no readings of a kind."""
    scans_left: int = 0
    """Scans still needed until all pending ones were considered since a slot became free."""
    wall: tuple[Instant, float] | None = None
    """An instant and the wall clock's reading at it, in seconds since 1970."""

    def unix_s(self, now: Instant) -> float | None:
        """Return the wall clock's reading at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)
