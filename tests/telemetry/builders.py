"""Views, clocks and sinks for the tests of telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from controller.core.core_settings import EngineName, Options
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import (
    AwaitingController,
    Pending,
    Phase,
    Starting,
    Syncing,
)
from controller.core.reassignments.records import PhaseRecord
from controller.core.records import Event
from controller.core.requests.model import Request
from controller.core.role.model import Tenure
from controller.core.topics.model import Topic
from controller.core.topics.records import TopicsRead
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import Incremental, work_counts
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.progress import ProgressTracker
from tests.core.builders import broker, replicas, tp

NOW = Instant(1000.0)
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REQUEST = RequestId("legacy-0000000000000032")

T = TypeVar("T")


@dataclass
class FixedClock:
    """A clock that tests advance, with the time of day beside it."""

    at: Instant = NOW

    def now(self) -> Instant:
        """Return the present instant."""
        return self.at

    def wall(self) -> datetime:
        """Return the time of day that belongs to it."""
        return START + timedelta(seconds=self.at - NOW)

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self.at = Instant(self.at + seconds)


@dataclass
class RecordedLog:
    """Keeps log lines as (level, event, fields)."""

    lines: list[tuple[str, str, Mapping[str, object]]] = field(default_factory=list)

    def debug(self, event: str, **fields: object) -> None:
        """Keep a line for developers."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Keep a line of the ordinary course of things."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Keep a line an operator should look at."""
        self.lines.append(("warning", event, fields))

    def named(self, event: str) -> list[Mapping[str, object]]:
        """Return the fields of every line of this event."""
        return [fields for _, name, fields in self.lines if name == event]


def partition_state(
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    *,
    leader_epoch: int = 5,
    version: int = 7,
) -> PartitionState:
    """Return a partition's state."""
    return PartitionState(
        BrokerId(leader),
        LeaderEpoch(leader_epoch),
        replicas(*isr),
        ControllerEpoch(9),
        ZkVersion(version),
    )


def a_goal(target: Sequence[int], original: Sequence[int] | None = (1, 2, 3)) -> ReassignmentSpec:
    """Return what is to become of a partition."""
    return ReassignmentSpec(
        target=replicas(*target),
        original=None if original is None else replicas(*original),
        request=REQUEST,
        route=Route.LEGACY,
        version=ZkVersion(0),
    )


@dataclass
class ViewBuilder:
    """Builds a view, part by part."""

    view: ClusterView

    def with_partition(
        self,
        partition: TopicPartition,
        assigned: Sequence[int],
        *,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        state: PartitionState | None = None,
    ) -> ViewBuilder:
        """Add a partition, and its state if there is one."""
        topic = self.view.topics.by_name.setdefault(
            partition.topic, Topic({}, ZkVersion(3), Zxid(30), None)
        )
        topic.partitions[partition.partition] = PartitionAssignment(
            replicas(*assigned), replicas(*adding), replicas(*removing)
        )
        if state is not None:
            self.view.leadership.states[partition] = state
        return self

    def with_reassignment(
        self,
        partition: TopicPartition,
        target: Sequence[int],
        phase: Phase | None = None,
        *,
        original: Sequence[int] | None = (1, 2, 3),
        since: float = 990.0,
        step: int = 0,
    ) -> ViewBuilder:
        """Add a reassignment of a partition."""
        self.view.reassignments.by_partition[partition] = Reassignment(
            spec=a_goal(target, original),
            since=Instant(since),
            phase=phase if phase is not None else Pending(),
            phase_since=Instant(since),
            step=step,
        )
        tally = self.view.requests.by_id.setdefault(REQUEST, Request(Route.LEGACY, Instant(since)))
        tally.total += 1
        tally.open += 1
        return self


def a_view(*brokers: int, options: Options | None = None, epoch: int | None = 9) -> ViewBuilder:
    """Begin a view of these live brokers, in a tenure unless ``epoch`` is None."""
    view = ClusterView(options or Options())
    view.cluster.brokers = {BrokerId(b): broker(b) for b in brokers}
    view.role.leading = True
    view.reassignments_leadership.specs_read = True
    if epoch is not None:
        view.tenure.held = Tenure(ControllerEpoch(epoch), Instant(900.0))
        view.tenure.accepted_by_broker = True
    return ViewBuilder(view)


def adding_four(engine: EngineName) -> ViewBuilder:
    """
    Return a partition on (1, 2, 3) in whose first step 4 is added; 1 leads.

    It is in the phase in which it copies, and in the topic znode: ``step_begins`` plays the rest.
    """
    built = a_view(1, 2, 3, 4)
    built.view.role.engine = engine
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), state=partition_state(1, (1, 2, 3)))
    return built.with_reassignment(tp(), (2, 3, 4), Syncing(), step=1)


def topic_read(built: ViewBuilder) -> TopicsRead:
    """Return the event of a read of the topic."""
    topic = built.view.topics.by_name[tp().topic]
    return TopicsRead({tp().topic: TopicAssignment(topic.partitions, topic.version, topic.czxid)})


def step_begins(
    built: ViewBuilder,
    event: Callable[[Event], None],
    commit: Callable[[PhaseRecord], None],
    *,
    at: Instant = NOW,
    partition: TopicPartition | None = None,
) -> None:
    """
    Play the phases of a step until it copies.

    Args:
        built: The view, with the engine that makes the step.
        event: Receives what is read.
        commit: Receives the phases; the view is as it is when each is committed.
        at: The time of all of it.
        partition: The first one unless it is another.

    """
    view, partition = built.view, partition or tp()
    reassignment = view.reassignments.by_partition[partition]
    known = view.topics.by_name[partition.topic].partitions
    shown = known[partition.partition]

    def enter(phase: Phase) -> None:
        reassignment.phase, reassignment.phase_since = phase, at
        commit(PhaseRecord(partition, phase, at, "step begins"))

    if view.role.engine is EngineName.DELEGATED:
        known[partition.partition] = PartitionAssignment(shown.origin_replicas)
        enter(AwaitingController(shown.target_replicas, at))
        known[partition.partition] = shown
        event(topic_read(built))
    else:
        enter(Starting(LeaderEpoch(6), None))
    enter(Syncing())


def measured(view: ClusterView, clocks: Clocks, copies: Copies | None = None) -> ProgressTracker:
    """Return the tracker that measured a view."""
    tracker = ProgressTracker()
    work = run_to_end(work_counts(view, clocks.now, 300.0))
    run_to_end(tracker.measure(view, copies or Copies(), work, clocks))
    return tracker


def run_to_end(computation: Incremental[T]) -> T:
    """Run without interruption and return the result."""
    while True:
        try:
            next(computation)
        except StopIteration as end:
            found: T = end.value
            return found
