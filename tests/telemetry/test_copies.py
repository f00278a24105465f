"""Each copy is followed from the begin of its step into the ISR, or until it is given up."""

from __future__ import annotations

from dataclasses import replace

from controller.core.events import SizesRead, StatesRead
from controller.core.model import BrokerId, Instant
from controller.core.phases import LABELS, Expanding, Pending, Starting, Stopping, Syncing
from controller.core.records import Change, SpecEndedRecord
from controller.core.view import ClusterView
from controller.telemetry.copies import REPORTS_KEPT, Copies, Copy, CopyEvent, IsrShrunk, Received
from tests.core.builders import replicas, tp
from tests.telemetry.builders import REQUEST, ViewBuilder, a_view, partition_state
from tests.telemetry.test_measurements import CHANGE

NOTHING = Change(())
AT = Instant(1000.0)


def adding_four() -> ViewBuilder:
    """Return a partition on (1, 2, 3) to which 4 is added; 1 leads."""
    built = a_view(1, 2, 3, 4)
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), state=partition_state(1, (1, 2, 3)))
    return built.with_reassignment(tp(), (2, 3, 4), Syncing(), step=1)


def begun(view: ClusterView, before: type = Pending) -> Copies:
    """Return copies that saw the step begin."""
    copies = Copies()
    change = replace(CHANGE, phase=LABELS[Starting], before=LABELS[before])
    assert list(copies.committed(NOTHING, [change], view, AT)) == []
    return copies


def copy_events(copies: Copies, size: int, after_s: float = 10.0) -> list[CopyEvent]:
    """Let broker 4 say what it holds."""
    sizes = {tp(): {BrokerId(4): size, BrokerId(1): 1000}}
    read = SizesRead({tp(): 1000}, {}, sizes)
    return list(copies.sizes_read(read, Instant(AT + after_s)))


def isr(copies: Copies, view: ClusterView, *ids: int, after_s: float = 30.0) -> list[CopyEvent]:
    """Let the partition have this ISR."""
    state = partition_state(1, ids)
    view.tenure.states[tp()] = state
    at = Instant(AT + after_s)
    return list(copies.states_read(StatesRead({tp(): state}), view, at))


def a_copy(**changes: object) -> Copy:
    """Return what the copy to broker 4 is when it is whole."""
    whole = Copy(tp(), REQUEST, BrokerId(1), BrokerId(4), AT, 30.0, 1000, is_whole=True)
    return replace(whole, **changes)  # type: ignore[arg-type] # fields by name


def test_copy_is_whole_when_it_is_in_the_isr() -> None:
    """With size, time and both brokers; its bytes count once."""
    view = adding_four().view
    view.work.sizes[tp()] = 1000
    copies = begun(view)
    assert isr(copies, view, 1, 2, 3, 4) == [
        Received(BrokerId(1), BrokerId(4), 1000),
        a_copy(),
    ]
    assert isr(copies, view, 1, 2, 3, 4) == []
    assert copy_events(copies, 2000) == []
    assert copies.held(tp()) == {}


def test_bytes_count_as_they_are_reported() -> None:
    """Each byte once, and the rest when the copy is whole."""
    view = adding_four().view
    view.work.sizes[tp()] = 1000
    copies = begun(view)
    assert copy_events(copies, 300) == [Received(BrokerId(1), BrokerId(4), 300)]
    assert copy_events(copies, 300) == []
    assert copies.held(tp()) == {4: 300}
    assert copy_events(copies, 800) == [Received(BrokerId(1), BrokerId(4), 500)]
    assert isr(copies, view, 1, 2, 3, 4)[0] == Received(BrokerId(1), BrokerId(4), 200)


def test_bytes_of_an_inherited_copy_do_not_count() -> None:
    """Another controller may have started the step."""
    view = adding_four().view
    view.work.sizes[tp()] = 1000
    copies = begun(view, before=Expanding)
    assert copy_events(copies, 900) == []
    assert isr(copies, view, 1, 2, 3, 4)[0] == Received(BrokerId(1), BrokerId(4), 100)


def test_copy_without_a_reported_size_has_none() -> None:
    """It is a copy all the same."""
    view = adding_four().view
    assert isr(begun(view), view, 1, 2, 3, 4) == [a_copy(bytes=None)]


def test_copy_of_an_unwanted_replica_is_abandoned() -> None:
    """The target changed, or the request was cancelled."""
    built = adding_four()
    copies = begun(built.view)
    copy_events(copies, 300)
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), removing=(4,))
    change = replace(CHANGE, phase=LABELS[Stopping], before=LABELS[Starting])
    events = list(copies.committed(NOTHING, [change], built.view, Instant(AT + 5)))
    assert events == [a_copy(seconds=5.0, bytes=300, is_whole=False)]


def test_copies_end_with_the_reassignment_or_the_tenure() -> None:
    """Unfinished ones are abandoned."""
    built = adding_four()
    copies = begun(built.view)
    lost = list(copies.forget(Instant(AT + 7)))
    assert lost == [a_copy(seconds=7.0, bytes=None, is_whole=False)]
    assert isr(copies, built.view, 1, 2, 3, 4) == []
    built = adding_four()
    copies = begun(built.view)
    copy_events(copies, 300)
    built.view.work.reassignments.clear()
    end = Change((SpecEndedRecord(tp(), None, REQUEST, "done"),))
    assert len(list(copies.committed(end, [], built.view, AT))) == 1
    assert copies.held(tp()) == {}


def test_replica_that_leaves_the_isr_is_reported() -> None:
    """Once, and not if it was dropped."""
    built = adding_four()
    copies = begun(built.view)
    assert isr(copies, built.view, 1, 3) == [
        IsrShrunk(tp(), REQUEST, replicas(2), replicas(1, 3), BrokerId(1))
    ]
    assert isr(copies, built.view, 1, 3) == []
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), removing=(3,))
    built.view.work.reassignments[tp()].phase = Stopping(frozenset(), frozenset(), AT)
    assert isr(copies, built.view, 1) == []


def test_copy_has_a_rate_between_its_latest_reports() -> None:
    """And the time that is left; both are unknown before the second report."""
    copies = begun(adding_four().view)
    (unknown,) = copies.documents(tp(), None)
    assert unknown == {
        "broker": 4,
        "from": 1,
        "bytes": None,
        "total_bytes": None,
        "bytes_per_s": None,
        "eta_s": None,
    }
    assert copies.gained_at(tp()) is None
    copy_events(copies, 100)
    (first,) = copies.documents(tp(), 1000)
    assert (first["bytes"], first["bytes_per_s"], first["eta_s"]) == (100, None, None)
    copy_events(copies, 400, after_s=40.0)
    (known,) = copies.documents(tp(), 1000)
    assert (known["bytes"], known["bytes_per_s"], known["eta_s"]) == (400, 10, 60)
    for number in range(REPORTS_KEPT):
        copy_events(copies, 400, after_s=100.0 + number)
    (still,) = copies.documents(tp(), 1000)
    assert (still["bytes_per_s"], still["eta_s"]) == (0, None)
    assert copies.gained_at(tp()) == AT + 40.0
    assert isr(copies, adding_four().view, 1, 2, 3, 4)
    assert copies.documents(tp(), 1000) == []


def test_copy_that_falls_behind_its_leader_does_not_gain() -> None:
    """Its bytes grow, and so do those of the leader."""
    copies = begun(adding_four().view)

    def report(held: int, total: int, after_s: float) -> None:
        read = SizesRead({tp(): total}, {}, {tp(): {BrokerId(4): held}})
        assert list(copies.sizes_read(read, Instant(AT + after_s)))

    report(100, 1000, 10.0)
    assert copies.gained_at(tp()) is None
    report(300, 1100, 20.0)
    report(400, 1200, 30.0)
    report(500, 1400, 40.0)
    assert copies.gained_at(tp()) == AT + 20.0
    report(700, 1400, 50.0)
    assert copies.gained_at(tp()) == AT + 50.0
