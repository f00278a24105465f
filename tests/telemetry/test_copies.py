"""Each copy is followed from the begin of its step into the ISR, or until it is given up."""

from __future__ import annotations

from dataclasses import replace

from controller.core.core_settings import EngineName
from controller.core.leadership.records import StatesRead
from controller.core.model import BrokerId, Instant
from controller.core.reassignments.phases import (
    LABELS,
    AwaitingController,
    Ended,
    Expanding,
    Pending,
    Starting,
    Stopping,
    Syncing,
)
from controller.core.reassignments.records import PhaseRecord, SpecEndedRecord
from controller.core.records import Change, Event
from controller.core.topics.records import TopicsRead
from controller.core.view import ClusterView
from controller.telemetry.copies import (
    COMPARED,
    Copies,
    CopyEnded,
    CopyEvent,
    IsrShrunk,
    Received,
)
from tests.core.builders import replicas, tp
from tests.core.disks.reports import report
from tests.telemetry.builders import (
    REQUEST,
    ViewBuilder,
    adding_four,
    partition_state,
    step_begins,
    topic_read,
)
from tests.telemetry.test_measurements import CHANGE

NOTHING = Change(())
AT = Instant(1000.0)


def moves(copies: Copies, view: ClusterView, phase: type, before: type) -> list[CopyEvent]:
    """Let the partition enter a phase, which the view has."""
    change = replace(CHANGE, phase=LABELS[phase], before=LABELS[before])
    return list(copies.follow_change(NOTHING, [change], view, AT))


def begun(built: ViewBuilder) -> Copies:
    """Return copies that saw the step begin."""
    copies = Copies()
    before: list[type] = [Pending]

    def read(event: Event) -> None:
        assert isinstance(event, TopicsRead)
        assert list(copies.follow_event(event, built.view, AT)) == []

    def commit(record: PhaseRecord) -> None:
        assert moves(copies, built.view, type(record.phase), before.pop()) == []
        before.append(type(record.phase))

    step_begins(built, read, commit)
    return copies


def found(built: ViewBuilder) -> Copies:
    """Return copies that saw an earlier step continued."""
    copies = Copies()
    native = built.view.role.engine is EngineName.NATIVE
    assert moves(copies, built.view, Starting if native else Syncing, Expanding) == []
    return copies


def copy_events(
    copies: Copies, view: ClusterView, size: int, after_s: float = 10.0
) -> list[CopyEvent]:
    """Let broker 4 report its bytes."""
    view.disks_process.sizes[tp()] = 1000
    read = report(4, {tp(): size}, at=AT + after_s)
    return list(copies.follow_event(read, view, Instant(AT + after_s)))


def isr(copies: Copies, view: ClusterView, *ids: int, after_s: float = 30.0) -> list[CopyEvent]:
    """Let the partition have this ISR."""
    state = partition_state(1, ids)
    view.leadership.states[tp()] = state
    at = Instant(AT + after_s)
    return list(copies.follow_event(StatesRead({tp(): state}), view, at))


def a_copy(**changes: object) -> CopyEnded:
    """Return what the copy to broker 4 is when it is whole."""
    whole = CopyEnded(tp(), REQUEST, BrokerId(1), BrokerId(4), AT, 30.0, 1000, is_whole=True)
    return replace(whole, **changes)  # type: ignore[arg-type] # fields by name


def test_copy_is_whole_when_it_is_in_the_isr(engine: EngineName) -> None:
    """With size, time and both brokers; its bytes count once."""
    built = adding_four(engine)
    built.view.disks_process.sizes[tp()] = 1000
    copies = begun(built)
    assert isr(copies, built.view, 1, 2, 3, 4) == [
        Received(BrokerId(1), BrokerId(4), 1000),
        a_copy(),
    ]
    assert isr(copies, built.view, 1, 2, 3, 4) == []
    assert copy_events(copies, built.view, 2000) == []
    assert copies.held(tp()) == {}


def test_bytes_count_as_they_are_reported(engine: EngineName) -> None:
    """Each byte once, and the rest when the copy is whole."""
    built = adding_four(engine)
    copies = begun(built)
    assert copy_events(copies, built.view, 300) == [Received(BrokerId(1), BrokerId(4), 300)]
    assert copy_events(copies, built.view, 300) == []
    assert copies.held(tp()) == {4: 300}
    more = copy_events(copies, built.view, 800, after_s=20.0)
    assert more == [Received(BrokerId(1), BrokerId(4), 500)]
    assert isr(copies, built.view, 1, 2, 3, 4)[0] == Received(BrokerId(1), BrokerId(4), 200)


def test_bytes_of_an_inherited_copy_do_not_count(engine: EngineName) -> None:
    """Another controller may have started the step."""
    built = adding_four(engine)
    copies = found(built)
    assert copy_events(copies, built.view, 900) == []
    assert isr(copies, built.view, 1, 2, 3, 4)[0] == Received(BrokerId(1), BrokerId(4), 100)


def test_copy_is_from_the_leader_of_now(engine: EngineName) -> None:
    """It may change while the copy is made; the bytes so far stay with the one before."""
    built = adding_four(engine)
    copies = begun(built)
    assert copy_events(copies, built.view, 400) == [Received(BrokerId(1), BrokerId(4), 400)]
    state = partition_state(2, (1, 2, 3))
    built.view.leadership.states[tp()] = state
    list(copies.follow_event(StatesRead({tp(): state}), built.view, Instant(AT + 15.0)))
    assert [c.leader for c in copies.of(tp())] == [2]
    received = copy_events(copies, built.view, 700, after_s=20.0)
    assert received == [Received(BrokerId(2), BrokerId(4), 300)]
    built.view.leadership.states[tp()] = partition_state(-1, (1, 2, 3))
    assert copy_events(copies, built.view, 800, after_s=30.0) == [
        Received(BrokerId(2), BrokerId(4), 100)
    ]


def test_copy_without_a_reported_size_has_none(engine: EngineName) -> None:
    """It is a copy all the same."""
    built = adding_four(engine)
    assert isr(begun(built), built.view, 1, 2, 3, 4) == [a_copy(bytes=None)]


def test_copy_of_an_unwanted_replica_is_abandoned(engine: EngineName) -> None:
    """The target changed, or the request was cancelled."""
    built = adding_four(engine)
    copies = begun(built)
    copy_events(copies, built.view, 300)
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), removing=(4,))
    change = replace(CHANGE, phase=LABELS[Stopping], before=LABELS[Starting])
    events = list(copies.follow_change(NOTHING, [change], built.view, Instant(AT + 5)))
    assert events == [a_copy(seconds=5.0, bytes=300, is_whole=False)]


def test_copies_end_with_the_reassignment_or_the_tenure(engine: EngineName) -> None:
    """Unfinished ones are abandoned."""
    built = adding_four(engine)
    copies = begun(built)
    lost = list(copies.forget(Instant(AT + 7)))
    assert lost == [a_copy(seconds=7.0, bytes=None, is_whole=False)]
    assert isr(copies, built.view, 1, 2, 3, 4) == []
    built = adding_four(engine)
    copies = begun(built)
    copy_events(copies, built.view, 300)
    built.view.reassignments.by_partition.clear()
    end = Change((SpecEndedRecord(tp(), None, REQUEST, "done"),))
    assert len(list(copies.follow_change(end, [], built.view, AT))) == 1
    assert copies.held(tp()) == {}


def test_replica_that_leaves_the_isr_is_reported(engine: EngineName) -> None:
    """Once, and not if it was dropped."""
    built = adding_four(engine)
    copies = begun(built)
    assert isr(copies, built.view, 1, 3) == [
        IsrShrunk(tp(), REQUEST, replicas(2), replicas(1, 3), BrokerId(1))
    ]
    assert isr(copies, built.view, 1, 3) == []
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), removing=(3,))
    built.view.reassignments.by_partition[tp()].phase = Stopping(frozenset(), frozenset(), AT)
    assert isr(copies, built.view, 1) == []


def test_copy_begins_with_no_bytes_and_is_read_from_then_on(engine: EngineName) -> None:
    """Its rate is that of its readings; it is unknown before the first report."""
    built = adding_four(engine)
    view, copies = built.view, begun(built)
    key = (tp(), BrokerId(4))

    def rate(after_s: float) -> float | None:
        return copies.rates(Instant(AT + after_s), 30.0, view.cluster.brokers).copies[key]

    assert copies.held(tp()) == {4: 0}
    assert rate(10.0) is None
    assert copies.gained_at(tp()) is None
    copy_events(copies, view, 100)
    assert rate(10.0) == 10.0
    copy_events(copies, view, 400, after_s=40.0)
    assert rate(40.0) == 10.0
    for number in range(COMPARED):
        copy_events(copies, view, 400, after_s=100.0 + number)
    assert rate(105.0) == 0.0
    assert copies.gained_at(tp()) == AT + 40.0
    assert isr(copies, view, 1, 2, 3, 4, after_s=110.0)
    assert copies.of(tp()) == []


def test_copy_with_a_dead_broker_has_no_rate_left(engine: EngineName) -> None:
    """What it gained before its broker died says nothing about now; of its source neither."""
    built = adding_four(engine)
    view, copies = built.view, begun(built)
    key = (tp(), BrokerId(4))
    copy_events(copies, view, 100)
    for dead in (4, view.leadership.states[tp()].leader):
        live = view.cluster.brokers.keys() - {dead}
        found = copies.rates(Instant(AT + 10), 30.0, live)
        assert (found.copies[key], found.total, found.received[BrokerId(4)]) == (0, 0, 0)


def test_bytes_of_copies_that_ended_count_for_estimates_alone(engine: EngineName) -> None:
    """Nothing is copied any more, but what follows may be as fast."""
    built = adding_four(engine)
    view, copies = built.view, begun(built)
    copy_events(copies, view, 500)
    assert isr(copies, view, 1, 2, 3, 4, after_s=20.0)
    found = copies.rates(Instant(AT + 20), 30.0, view.cluster.brokers)
    assert (found.received, found.total, found.pace) == ({}, 0, 50.0)
    assert copies.rates(Instant(AT + 40), 30.0, view.cluster.brokers).pace == 500 / 30
    assert copies.rates(Instant(AT + 50.1), 30.0, view.cluster.brokers).received == {}


def test_report_that_is_older_than_the_last_is_ignored(engine: EngineName) -> None:
    """Answers of a slow broker, and one that was queried before the step began."""
    built = adding_four(engine)
    copies = begun(built)
    copy_events(copies, built.view, 100, after_s=-1.0)
    assert copies.held(tp()) == {4: 0}
    copy_events(copies, built.view, 300, after_s=20.0)
    copy_events(copies, built.view, 200, after_s=10.0)
    assert copies.held(tp()) == {4: 300}


def test_first_bytes_of_an_inherited_copy_are_no_gain(engine: EngineName) -> None:
    """It may have had them for hours."""
    built = adding_four(engine)
    copies = found(built)
    copy_events(copies, built.view, 900)
    assert copies.gained_at(tp()) is None
    copy_events(copies, built.view, 950, after_s=20.0)
    assert copies.gained_at(tp()) == AT + 20.0


def test_copy_that_falls_behind_its_leader_does_not_gain(engine: EngineName) -> None:
    """Its bytes grow, and so do those of the leader."""
    built = adding_four(engine)
    copies = begun(built)

    def has(held: int, total: int, after_s: float) -> None:
        built.view.disks_process.sizes[tp()] = total
        read = report(4, {tp(): held}, at=AT + after_s)
        assert list(copies.follow_event(read, built.view, Instant(AT + after_s)))

    has(100, 1000, 10.0)
    assert copies.gained_at(tp()) == AT + 10.0, "it began with none"
    has(300, 1100, 20.0)
    has(400, 1200, 30.0)
    has(500, 1400, 40.0)
    assert copies.gained_at(tp()) == AT + 20.0
    has(700, 1400, 50.0)
    assert copies.gained_at(tp()) == AT + 50.0


def test_copy_that_catches_up_after_a_burst_gains(engine: EngineName) -> None:
    """It is further behind than it was before the burst, and comes closer again."""
    built = adding_four(engine)
    copies = begun(built)
    for number in range(2 * COMPARED):
        total = 1_000 if number < 2 else 10_000
        built.view.disks_process.sizes[tp()] = total
        read = report(4, {tp(): 900 + number}, at=AT + 1 + number)
        assert list(copies.follow_event(read, built.view, Instant(AT + number)))
    assert copies.gained_at(tp()) == AT + 2 * COMPARED - 1


def test_report_without_the_leader_is_compared_with_the_known_size(engine: EngineName) -> None:
    """The largest reported replica may be the copy itself, which lacks nothing of its own."""
    built = adding_four(engine)
    view, copies = built.view, begun(built)
    copy_events(copies, view, 100)
    alone = report(4, {tp(): 200}, at=AT + 20)
    assert list(copies.follow_event(alone, view, Instant(AT + 20)))
    copy_events(copies, view, 300, after_s=30.0)
    assert copies.gained_at(tp()) == AT + 30.0


# --- what only the cluster's controller does -----------------------------------------------------


def requested(target: tuple[int, ...] = (1, 2, 3, 4)) -> tuple[ViewBuilder, Copies]:
    """Return a partition on (1, 2, 3) whose controller was requested to add 4, and its copies."""
    built = adding_four(EngineName.DELEGATED).with_partition(tp(), (1, 2, 3))
    built.view.reassignments.by_partition[tp()].phase = AwaitingController(replicas(*target), AT)
    copies = Copies()
    assert moves(copies, built.view, AwaitingController, Pending) == []
    return built, copies


def read_topic(copies: Copies, built: ViewBuilder, after_s: float = 0.0) -> list[CopyEvent]:
    """Let the topic be read as it is."""
    return list(copies.follow_event(topic_read(built), built.view, Instant(AT + after_s)))


def test_requested_copy_starts_when_it_is_seen() -> None:
    """The controller may be busy: its queue is no part of the time that the copy took."""
    built, copies = requested()
    assert copies.of(tp()) == []
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,))
    assert read_topic(copies, built, 20.0) == []
    (shown,) = copies.of(tp())
    assert shown.replica == 4
    built.view.disks_process.sizes[tp()] = 1000
    assert isr(copies, built.view, 1, 2, 3, 4)[1] == a_copy(begun=Instant(AT + 20), seconds=10.0)


def test_bytes_of_a_requested_copy_start_it() -> None:
    """They may be reported before the topic znode is read."""
    built, copies = requested()
    assert copy_events(copies, built.view, 300) == [Received(BrokerId(1), BrokerId(4), 300)]
    (shown,) = copies.of(tp())
    assert shown.held == 300


def test_request_that_is_not_carried_out_leaves_no_copy() -> None:
    """None was begun that could be abandoned; nor where the tenure ends first."""
    built, copies = requested()
    built.view.reassignments.by_partition[tp()].phase = Pending(Instant(AT + 5), "busy")
    assert moves(copies, built.view, Pending, AwaitingController) == []
    assert copies.held(tp()) == {}
    _, copies = requested()
    assert list(copies.forget(AT)) == []


def test_copy_that_ends_before_it_is_seen_is_counted() -> None:
    """The controller began and ended the step between two reads; the state is read later."""
    built, copies = requested()
    built.view.disks_process.sizes[tp()] = 1000
    built.with_partition(tp(), (1, 2, 3, 4))
    assert read_topic(copies, built, 2.0) == [
        Received(BrokerId(1), BrokerId(4), 1000),
        a_copy(seconds=2.0),
    ]
    assert isr(copies, built.view, 1, 2, 3, 4) == []


def test_copy_of_a_reassignment_that_ended_keeps_its_size() -> None:
    """The view forgets the size with the reassignment."""
    built, copies = requested()
    copy_events(copies, built.view, 300)
    built.with_partition(tp(), (1, 2, 3, 4))
    built.view.reassignments.by_partition[tp()].phase = Ended()
    built.view.reassignments.by_partition.clear()
    built.view.disks_process.sizes.clear()
    end = Change((SpecEndedRecord(tp(), None, REQUEST, "done"),))
    (rest, whole) = copies.follow_change(end, [], built.view, AT)
    assert (rest, whole) == (Received(BrokerId(1), BrokerId(4), 700), a_copy(seconds=0.0))


def test_step_that_another_client_changes_is_followed() -> None:
    """No phase changes: the partition waits until the foreign reassignment has ended."""
    built = adding_four(EngineName.DELEGATED)
    copies = begun(built)
    copy_events(copies, built.view, 300)
    built.with_partition(tp(), (1, 2, 3, 5), adding=(5,))
    assert read_topic(copies, built, 20.0) == [a_copy(seconds=20.0, bytes=300, is_whole=False)]
    (other,) = copies.of(tp())
    assert other.replica == 5


def test_replica_that_the_controller_was_to_drop_is_no_loss() -> None:
    """Its state may be read before the topic znode."""
    built, copies = requested((1, 2))
    assert isr(copies, built.view, 1, 2) == []
    assert isr(copies, built.view, 1) == [
        IsrShrunk(tp(), REQUEST, replicas(2), replicas(1), BrokerId(1))
    ]
