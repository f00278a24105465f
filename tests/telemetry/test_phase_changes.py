"""Tests of ``controller.telemetry.phase_changes``."""

from __future__ import annotations

from controller.core.model import Instant, LeaderEpoch
from controller.core.reassignments.phases import (
    AwaitingController,
    Ended,
    Expanding,
    Phase,
    Starting,
    Syncing,
)
from controller.core.reassignments.records import PhaseRecord, SpecEndedRecord, SpecRecord
from controller.core.records import Change
from controller.telemetry.phase_changes import PhaseMemory
from tests.core.builders import replicas, tp
from tests.telemetry.builders import REQUEST, a_view, partition_state

BEGUN = Starting(LeaderEpoch(6), None)


def into(phase: Phase, at: float) -> Change:
    """Return a change by which the partition comes into a phase."""
    return Change((PhaseRecord(tp(), phase, Instant(at), "because"),))


def test_phase_change_has_the_phase_before_and_its_duration() -> None:
    """The view has forgotten the phase before; the memory has not."""
    built = a_view(1, 2, 3, 4)
    built.with_partition(tp(), (1, 2, 3, 4), adding=(4,), state=partition_state(1, (1, 2, 3)))
    view = built.with_reassignment(tp(), (2, 3, 4)).view
    memory = PhaseMemory()
    (first,) = memory.changes(into(BEGUN, 10.0), view)
    (second,) = memory.changes(into(Syncing(), 12.5), view)
    assert (first.before, first.phase, first.seconds) == ("pending", "A2", None)
    assert (second.before, second.phase, second.seconds) == ("A2", "A2-syncing", 2.5)
    assert second.request == REQUEST
    assert second.adding_replicas == replicas(4)
    assert (second.leader, second.isr) == (1, replicas(1, 2, 3))
    assert (second.leader_epoch, second.controller_epoch, second.zk_version) == (5, 9, 7)
    assert second.cause == "because"


def test_pending_is_measured_from_the_acceptance() -> None:
    """How long partitions wait for their turn is a phase like any other."""
    view = a_view(1).with_reassignment(tp(), (2, 3, 4), since=990.0).view
    memory = PhaseMemory()
    memory.changes(Change((SpecRecord(tp(), view.reassignments.by_partition[tp()].spec),)), view)
    (first,) = memory.changes(into(BEGUN, 1000.0), view)
    assert (first.before, first.seconds) == ("pending", 10.0)


def test_step_whose_requests_are_sent_again_is_no_new_step() -> None:
    """Only coming into A2 from another phase begins a step."""
    view, memory = a_view(1).view, PhaseMemory()
    begins = [
        memory.changes(into(phase, 1.0), view)[0].begins_step
        for phase in (BEGUN, BEGUN, Syncing(), BEGUN)
    ]
    assert begins == [True, False, False, True]


def test_step_of_the_cluster_s_controller_begins_with_its_request() -> None:
    """Following it begins no other; the next request does."""
    view, memory = a_view(1).view, PhaseMemory()
    requested = AwaitingController(replicas(1, 2, 4), Instant(1.0))
    begins = [
        memory.changes(into(phase, 1.0), view)[0].begins_step
        for phase in (requested, Syncing(), requested, Ended())
    ]
    assert begins == [True, False, True, False]


def test_tenure_remembers_the_phases_in_which_it_found_partitions() -> None:
    """The first change of each has the phase before."""
    view = a_view(1).with_reassignment(tp(), (4,), Expanding(), since=990.0).view
    memory = PhaseMemory()
    memory.take_up(view)
    (change,) = memory.changes(into(Syncing(), 995.0), view)
    assert (change.before, change.seconds) == ("A1", 5.0)


def test_ended_partition_keeps_its_request_and_is_forgotten() -> None:
    """The next reassignment of the partition begins from pending."""
    view, memory = a_view(1).view, PhaseMemory()
    memory.changes(into(Syncing(), 1.0), view)
    ended = Change(
        (
            PhaseRecord(tp(), Ended(), Instant(3.0), "in sync"),
            SpecEndedRecord(tp(), None, REQUEST, "done"),
        )
    )
    (end,) = memory.changes(ended, view)
    assert (end.before, end.request, end.seconds) == ("A2-syncing", REQUEST, 2.0)
    assert memory.changes(into(BEGUN, 9.0), view)[0].before == "pending"


def test_end_of_a_tenure_forgets_the_phases() -> None:
    """The next tenure finds out anew where everything is."""
    view, memory = a_view(1).view, PhaseMemory()
    memory.changes(into(Syncing(), 1.0), view)
    memory.forget()
    (change,) = memory.changes(into(BEGUN, 5.0), view)
    assert (change.before, change.seconds) == ("pending", None)
