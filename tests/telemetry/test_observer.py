"""Tests of ``controller.telemetry.observer``: the loop's doings as lines, numbers, pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.core_settings import EngineName
from controller.core.cycle import observe
from controller.core.leadership.records import StateRecord, StatesRead
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    Route,
    ZkVersion,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.phases import Ended, Expanding, Starting, Syncing
from controller.core.reassignments.records import PhaseRecord, SpecEndedRecord
from controller.core.records import Change, Decision, Event, TimerFired
from controller.core.requests.model import Request
from controller.core.requests.outcomes import Summary
from controller.core.requests.records import RequestOutcomeRecord
from controller.core.role.records import (
    ControllerClaimed,
    Deposed,
    IdleRecord,
    LeadershipGained,
    LeadershipLost,
)
from controller.reactor.ports import Observer, StopReplica, WriteError
from controller.telemetry.journal import Journal
from controller.telemetry.log_events import LogEvent
from controller.telemetry.metrics import Metrics
from controller.telemetry.observer import TelemetryObserver, TimedInbox
from controller.telemetry.status_publisher import StatusPublisher
from tests.core.builders import replicas, tp
from tests.core.disks.reports import report
from tests.telemetry.builders import (
    REQUEST,
    FixedClock,
    RecordedLog,
    ViewBuilder,
    a_view,
    adding_four,
    partition_state,
    step_begins,
)


class Discarded:
    """An inbox that discards events."""

    def put(self, event: Event) -> None:
        """Forget an event."""


class RecordedNotifier:
    """Keeps the kinds of the events it is given."""

    def __init__(self) -> None:
        """Start without events."""
        self.kinds: list[str] = []
        self.requested = 0

    def take(self, event: LogEvent, at: datetime) -> None:
        """Keep an event."""
        del at
        self.kinds.append(event.kind)

    def send_due(self, now: Instant, at: datetime) -> None:
        """Count the calls."""
        del now, at
        self.requested += 1


class Observed:
    """An observer, and everything it observes into."""

    def __init__(self, directory: Path) -> None:
        """Observe into recorders and a journal in this directory."""
        self.clock = FixedClock()
        self.log = RecordedLog()
        self.metrics = Metrics()
        self.journal = Journal(directory)
        self.publisher = StatusPublisher(
            clock=self.clock, wall=self.clock.wall, engine="native", stalled_after_s=300.0
        )
        self.inbox = TimedInbox(Discarded(), self.clock)
        self.notifier = RecordedNotifier()
        self._path = directory / "journal.jsonl"
        self.observer = TelemetryObserver(
            log=self.log,
            metrics=self.metrics,
            journal=self.journal,
            publisher=self.publisher,
            clock=self.clock,
            wall=self.clock.wall,
            arrivals=self.inbox,
            notifier=self.notifier,
        )

    def journaled(self) -> list[dict[str, Any]]:
        """Close the journal and return its lines."""
        self.journal.start()
        self.journal.close()
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample."""
        return self.metrics.registry.get_sample_value(f"reassigner_{name}", labels)


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Observed]:
    """Return an observer into this test's directory."""
    observed = Observed(tmp_path)
    yield observed
    observed.journal.close()


def a_partition_in_flight(engine: EngineName = EngineName.NATIVE) -> ViewBuilder:
    """Return a view in which one partition adds a replica."""
    built = adding_four(engine)
    built.view.leadership.states[tp()] = partition_state(1, (1, 2, 3), leader_epoch=6)
    return built


def begin(seen: Observed, built: ViewBuilder) -> None:
    """Let the observer see the step begin."""
    step_begins(
        built,
        lambda event: seen.observer.on_event(event, built.view),
        lambda record: seen.observer.on_committed(Change((record,)), built.view),
    )


def test_it_is_an_observer(seen: Observed) -> None:
    """The loop can be given it."""
    observer: Observer = seen.observer
    assert observer is seen.observer


def test_phase_change_is_one_line_with_all_fields(seen: Observed) -> None:
    """Topic, partition, phases, replicas, leader, ISR, epochs, version and cause in one line."""
    view = a_partition_in_flight().view
    record = PhaseRecord(tp(), Starting(LeaderEpoch(6), None), Instant(1000.0), "step begins")
    seen.observer.on_committed(Change((record,)), view)
    assert seen.log.lines == [
        (
            "info",
            "phase",
            {
                "topic": "t",
                "partition": 0,
                "phase": "A2",
                "before": "pending",
                "seconds": None,
                "cause": "step begins",
                "step": 1,
                "request": REQUEST,
                "replicas": [1, 2, 3, 4],
                "adding_replicas": [4],
                "removing_replicas": [],
                "leader": 1,
                "isr": [1, 2, 3],
                "leader_epoch": 6,
                "controller_epoch": 9,
                "zk_version": 7,
            },
        )
    ]
    assert [line["kind"] for line in seen.journaled()] == ["phase"]
    assert seen.value("steps_total") == 1


def test_the_journal_has_the_lines_that_the_log_only_counts(seen: Observed) -> None:
    """For a hundred partitions that enter a phase at once."""
    view = a_partition_in_flight().view
    for _ in range(100):
        record = PhaseRecord(tp(), Starting(LeaderEpoch(6), None), Instant(1000.0), "step begins")
        seen.observer.on_committed(Change((record,)), view)
    seen.observer.close()
    (more,) = (fields["count"] for fields in seen.log.named("phase_more"))
    assert more == 100 - len(seen.log.named("phase"))
    assert 0 < len(seen.log.named("phase")) < 100
    assert [line["kind"] for line in seen.journaled()] == ["phase"] * 100


def test_every_durable_record_is_journaled(seen: Observed) -> None:
    """Volatile records are not; phases have events of their own."""
    view = a_partition_in_flight().view
    write = StateRecord(
        tp(), BrokerId(1), LeaderEpoch(7), replicas(1, 2), ControllerEpoch(9), ZkVersion(7)
    )
    end = PhaseRecord(tp(), Ended(), Instant(1000.0), "in sync")
    spec = SpecEndedRecord(tp(), ZkVersion(0), REQUEST, "done")
    seen.observer.on_committed(Change((write, end, spec, IdleRecord(None))), view)
    assert [line["kind"] for line in seen.journaled()] == ["phase", "state", "goal_ended"]


def test_end_of_a_short_request_is_journaled_before_the_process_ends(seen: Observed) -> None:
    """No further snapshot is due."""
    built = a_view(1, 2, 3)
    built.view.role.leading = True
    seen.observer.tend(built.view)
    now = seen.clock.now()
    built.view.requests.by_id[REQUEST] = Request(Route.REQUEST, now, kind="request", total=1)
    outcome = RequestOutcomeRecord(Summary(request=REQUEST, kind="request", total=1, done=1))
    seen.observer.on_committed(Change((outcome,)), built.view)
    built.view.role.stopping = True
    seen.observer.on_cycle(Decision(), built.view, {})
    kinds = [line["kind"] for line in seen.journaled()]
    assert kinds == ["outcome", "request_begun", "progress", "request_ended"]


def test_rejected_write_is_logged_and_counted(seen: Observed) -> None:
    """With error and partition."""
    record = SpecEndedRecord(tp(), ZkVersion(0), REQUEST, "done")
    change = Change((record,), partition=tp())
    seen.observer.on_rejected(change, WriteError.BAD_VERSION, a_view(1).view)
    (fields,) = seen.log.named("write_rejected")
    assert fields == {
        "error": "bad_version",
        "records": ["goal_ended"],
        "topic": "t",
        "partition": 0,
    }
    assert seen.value("write_rejections_total", error="bad_version") == 1
    assert [line["kind"] for line in seen.journaled()] == ["write_rejected"]


def test_events_are_logged_and_journaled(seen: Observed) -> None:
    """Unchanged reads are neither."""
    view = a_view(1).view
    seen.observer.on_event(LeadershipGained(), view)
    seen.observer.on_event(TimerFired("claim"), view)
    assert [name for _, name, _ in seen.log.lines] == ["leadership_gained"]
    assert [line["kind"] for line in seen.journaled()] == ["leadership_gained"]


def test_a_change_of_role_is_published_at_once(seen: Observed) -> None:
    """However short ago the last snapshot was."""
    view = a_view(1, epoch=None).view
    seen.observer.tend(view)
    claimed = a_view(1).view
    seen.observer.on_event(ControllerClaimed(ControllerEpoch(9)), claimed)
    assert seen.publisher.latest is not None
    assert seen.publisher.latest.status["tenure"]["held"]
    assert seen.value("active_controller") == 1
    claimed.tenure.held = None
    seen.observer.on_event(Deposed("moved"), claimed)
    assert not seen.publisher.latest.status["tenure"]["held"]
    assert seen.value("resignations_total") == 1


def test_what_operators_change_is_published_with_the_cycle(seen: Observed) -> None:
    """Whoever looks next sees it, however short ago the last snapshot was."""
    view = a_view(1).view
    seen.observer.tend(view)
    controls = Controls(Pauses(everything=Pause()))
    observe(view, ControlsRead(controls), Instant(0.0))
    seen.observer.on_event(ControlsRead(controls), view)
    seen.observer.on_cycle(Decision(), view, {})
    assert seen.publisher.latest is not None
    assert seen.publisher.latest.status["controls"]["digest"] == controls.digest


def test_the_end_of_all_work_is_published_at_once(seen: Observed) -> None:
    """No later cycle would publish it."""
    view = a_partition_in_flight().view
    seen.observer.on_cycle(Decision(), view, {"decide": 0.001, "commit": 0.01, "send": 0.0})
    assert seen.value("partitions", phase="A2-syncing") == 1
    view.reassignments.by_partition.clear()
    seen.observer.on_cycle(Decision(), view, {})
    assert seen.value("partitions", phase="A2-syncing") == 0
    assert seen.publisher.latest is not None
    assert seen.publisher.latest.status["in_flight"] == []


def test_cycles_are_timed_by_part(seen: Observed) -> None:
    """Where the loop's time goes can be seen."""
    seen.observer.on_cycle(Decision(), a_view(1).view, {"decide": 0.5, "commit": 2.0})
    assert seen.value("turn_seconds_sum", part="commit") == 2.0
    assert seen.value("turn_seconds_count", part="decide") == 1


def test_events_are_timed_from_their_arrival(seen: Observed) -> None:
    """Waiting apart from handling."""
    view = a_view(1).view
    first, second = TimerFired("first"), TimerFired("second")
    seen.inbox.put(first)
    seen.inbox.put(second)
    seen.clock.go(2)
    seen.observer.on_event(first, view)
    seen.clock.go(3)
    seen.observer.on_event(second, view)
    assert seen.value("event_queue_seconds_sum") == 2
    assert seen.value("event_processing_seconds_sum", event="TimerFired") == 5


def test_stalled_partition_is_logged_once(seen: Observed, engine: EngineName) -> None:
    """Not for each snapshot."""
    view = a_partition_in_flight(engine).view
    for _ in range(3):
        seen.clock.go(400)
        seen.observer.tend(view)
    assert seen.log.named("stalled") == [{"topic": "t", "partition": 0, "by": "none"}]
    assert seen.value("stalled_partitions", reason="none") == 1


def test_growing_copy_is_not_stalled(seen: Observed, engine: EngineName) -> None:
    """Its bytes are in the status; when it grows no more, the partition is stalled."""
    built = a_partition_in_flight(engine)
    view = built.view
    view.disks_process.sizes[tp()] = 10_000
    begin(seen, built)
    waits = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "4", is_copying=True)
    view.reassignments.by_partition[tp()].wait(waits, seen.clock.now())
    for number in range(1, 6):
        seen.clock.go(200)
        held = report(4, {tp(): number * 100}, at=seen.clock.now())
        seen.observer.on_event(held, view)
        seen.observer.tend(view, at_once=True)
    latest = seen.publisher.latest
    assert latest is not None
    (request,) = latest.status["requests"]
    assert request["bytes"] == {"total": 10_000, "moved": 500, "remaining": 9_500}
    assert request["bytes_per_s"] == 0 or request["eta_s"] is not None
    (partition,) = latest.status["in_flight"]
    assert [c["bytes"] for c in partition["copies"]] == [500]
    assert seen.log.named("stalled") == []
    assert seen.value("progress_age_seconds") == 0
    seen.clock.go(400)
    seen.observer.tend(view)
    by = "replica_not_in_isr"
    assert seen.log.named("stalled") == [{"topic": "t", "partition": 0, "by": by}]


def test_step_of_an_earlier_tenure_is_followed(seen: Observed, engine: EngineName) -> None:
    """What it had copied by then does not count as copied by this one."""
    built = a_partition_in_flight(engine)
    reassignment = built.view.reassignments.by_partition[tp()]
    reassignment.phase = Expanding()
    seen.observer.on_event(ControllerClaimed(ControllerEpoch(9)), built.view)
    native = engine is EngineName.NATIVE
    reassignment.phase = Starting(LeaderEpoch(6), None) if native else Syncing()
    record = PhaseRecord(tp(), reassignment.phase, Instant(1000.0), "found in the topic znode")
    seen.observer.on_committed(Change((record,)), built.view)
    for size in (400, 700):
        seen.clock.go(5)
        held = report(4, {tp(): size}, at=seen.clock.now())
        seen.observer.on_event(held, built.view)
    assert seen.value("copied_bytes_total") == 300
    (phase,) = seen.log.named("phase")
    assert phase["before"] == "A1"


def test_time_without_progress_is_exported_with_reassignments(
    seen: Observed, engine: EngineName
) -> None:
    """It restarts with every phase change, and is 0 without reassignments."""
    view = a_partition_in_flight(engine).view
    seen.clock.go(50)
    seen.observer.tend(view)
    assert seen.value("progress_age_seconds") == 50
    record = PhaseRecord(tp(), Syncing(), seen.clock.now(), "found in the topic znode")
    seen.observer.on_committed(Change((record,), partition=tp()), view)
    seen.clock.go(7)
    seen.observer.tend(view)
    assert seen.value("progress_age_seconds") == 7
    view.reassignments.by_partition.clear()
    seen.clock.go(7)
    seen.observer.tend(view)
    assert seen.value("progress_age_seconds") == 0


def test_requests_are_counted(seen: Observed) -> None:
    """Every request handed to a channel counts."""
    seen.observer.on_request_sent(BrokerId(1), StopReplica(ControllerEpoch(9), ()))
    assert seen.value("rpcs_sent_total", broker="1", kind="stop_replica") == 1


def test_copy_is_journaled_counted_and_in_the_traffic(seen: Observed, engine: EngineName) -> None:
    """From the begin of its step into the ISR: journal, metrics and the brokers' traffic."""
    built = a_partition_in_flight(engine)
    view = built.view
    view.disks_process.sizes[tp()] = 1000
    begin(seen, built)
    assert seen.value("steps_total") == 1
    seen.clock.go(5)
    held = report(4, {tp(): 400}, at=seen.clock.now())
    seen.observer.on_event(held, view)
    assert seen.value("copied_bytes_total") == 400
    seen.clock.go(5)
    view.leadership.states[tp()] = partition_state(1, (1, 2, 3, 4), leader_epoch=6)
    seen.observer.on_event(StatesRead({tp(): view.leadership.states[tp()]}), view)
    assert seen.value("copied_bytes_total") == 1000
    assert seen.value("replica_copy_seconds_sum") == 10
    assert seen.value("broker_served_bytes_total", broker="1") == 1000
    assert seen.value("broker_received_bytes_total", broker="4") == 1000
    kinds = [line["kind"] for line in seen.journaled()]
    assert [k for k in kinds if k not in {"request_begun", "progress", "throughput"}] == [
        "phase",
        "phase",
        "size",
        "copied",
    ]


def test_unfinished_copies_are_abandoned_with_the_tenure(
    seen: Observed, engine: EngineName
) -> None:
    """What another controller does meanwhile is not seen."""
    built = a_partition_in_flight(engine)
    view = built.view
    begin(seen, built)
    view.tenure.held = None
    seen.observer.on_event(Deposed("moved"), view)
    assert seen.value("copies_abandoned_total") == 1


def test_start_and_end_of_a_request_are_passed_to_the_notifier(
    seen: Observed, engine: EngineName
) -> None:
    """Once each; the timeline keeps the end."""
    view = a_partition_in_flight(engine).view
    seen.observer.on_event(LeadershipGained(), view)
    seen.clock.go(60)
    seen.observer.tend(view)
    view.reassignments.by_partition.clear()
    view.requests.by_id[REQUEST].open = 0
    for _ in range(3):
        seen.clock.go(60)
        seen.observer.tend(view)
    requests = [kind for kind in seen.notifier.kinds if kind.startswith("request_")]
    assert requests == ["request_begun", "request_ended"]
    assert seen.notifier.requested
    assert [s["request"] for s in seen.publisher.timelines.summaries()] == [REQUEST]


def test_standby_passes_nothing_to_the_notifier(seen: Observed) -> None:
    """The leader sends the same notifications."""
    view = a_partition_in_flight().view
    view.role.leading = False
    seen.observer.on_event(LeadershipLost("the session expired"), view)
    assert seen.notifier.kinds == []
    assert seen.log.named("leadership_lost")


class Kept:
    """An inbox that keeps what it gets."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)


def test_events_pass_unchanged_with_their_arrival() -> None:
    """Each arrival is returned once."""
    clock, kept = FixedClock(), Kept()
    inbox = TimedInbox(kept, clock)
    first, second = TimerFired("a"), LeadershipGained()
    inbox.put(first)
    clock.go(2)
    inbox.put(second)
    assert kept.events == [first, second]
    assert inbox.arrival_of(first) == 1000.0
    assert inbox.arrival_of(second) == 1002.0
    assert inbox.arrival_of(first) is None


def test_events_of_the_loop_itself_have_no_arrival() -> None:
    """Such as a timer."""
    assert TimedInbox(Kept(), FixedClock()).arrival_of(TimerFired("a")) is None
