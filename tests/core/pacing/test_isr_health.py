"""New steps wait while partitions that we do not move are below min.insync.replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.core_settings import Options
from controller.core.cycle import apply, observe
from controller.core.deletions.records import DeletionsRead
from controller.core.model import Blocked, BlockedBy, BrokerId, RequestId
from controller.core.pacing.budget import Budget
from controller.core.pacing.controls import Controls, Limits, UnderMinIsr
from controller.core.pacing.isr_health import (
    NAMED_MAX,
    health_gate,
    judge,
    topics_in_question,
    under_min_isr_sentence,
)
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.role.records import BrokersRead, Deposed
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import broker, replicas, tp
from tests.core.tenure_views import NOW, a_tenure, isr, leaderless, reassign, settings

TIMER = Worklist(timer=True)


def a_view(mode: UnderMinIsr = UnderMinIsr.WAIT) -> ClusterView:
    """Return a cluster of a topic to be moved and one that is not."""
    return a_tenure({"t": [(1, 2, 3)], "u": [(4, 5, 6)] * 8}, Options(under_min_isr=mode))


def test_partition_below_min_isr_elsewhere_holds_new_steps() -> None:
    """Copies would take from it what it needs to recover."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    blocked = health_gate(view)
    assert blocked is not None
    assert blocked.by is BlockedBy.CLUSTER_HEALTH
    assert "u-0" in blocked.detail


def test_partition_that_recovers_lets_steps_begin_and_has_them_looked_at() -> None:
    """Nothing else would examine the pending partitions."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    view.due.capacity = False
    isr(view, tp(0, "u"), 4, 5)
    assert health_gate(view) is None
    assert view.due.capacity


def test_a_partition_of_a_topic_that_is_to_be_deleted_holds_nothing_up() -> None:
    """The deletion may wait for our resignation; once withdrawn, the partition counts again."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    view.due.capacity = False
    observe(view, DeletionsRead(frozenset({"u"})), NOW)
    assert health_gate(view) is None
    assert view.due.capacity
    isr(view, tp(0, "u"), 5)
    assert health_gate(view) is None
    observe(view, DeletionsRead(frozenset()), NOW)
    assert health_gate(view) is not None


def test_a_shrunk_partition_that_still_has_min_isr_holds_nothing_up() -> None:
    """It is not healthy, but nothing is refused to its producers."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4, 5)
    assert tp(0, "u") in view.pacing.shrunk
    assert health_gate(view) is None


def test_partition_without_a_leader_counts_whatever_its_isr_says() -> None:
    """The last member of an ISR stays in it when it dies."""
    view = a_view()
    settings(view, u=1)
    leaderless(view, tp(0, "u"), 4)
    assert tp(0, "u") in view.pacing.under_min_isr
    assert health_gate(view) is not None


def test_a_topic_with_fewer_replicas_than_min_isr_holds_nothing_up_while_all_are_in_sync() -> None:
    """It never was better, and would hold the work for ever."""
    view = a_tenure({"u": [(4, 5)]}, Options())
    settings(view, u=3)
    isr(view, tp(0, "u"), 4, 5)
    assert health_gate(view) is None


def test_settings_are_requested_only_where_the_isr_has_shrunk() -> None:
    """A cluster has very many topics."""
    view = a_view()
    isr(view, tp(), 1, 2, 3)
    assert topics_in_question(view, TIMER) == set()
    isr(view, tp(0, "u"), 4, 5)
    assert view.due.health
    assert topics_in_question(view, view.due) == {"u"}
    settings(view, u=1)
    assert topics_in_question(view, TIMER) == set()


def test_settings_of_what_holds_the_work_are_read_again() -> None:
    """An operator may lower min.insync.replicas to let it go on."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    assert topics_in_question(view, TIMER) == {"u"}
    settings(view, u=1)
    assert health_gate(view) is None


def test_unknown_settings_hold_steps_only_while_they_are_being_read() -> None:
    """A topic with unreadable settings must not hold up the cluster's work for ever."""
    view = a_view()
    isr(view, tp(0, "u"), 4)
    blocked = health_gate(view)
    assert blocked is not None
    assert "u" in blocked.detail
    settings(view, u="no broker answers")
    assert health_gate(view) is None
    settings(view, u=2)
    assert health_gate(view) is not None


def test_a_reassigning_partition_holds_nothing_up() -> None:
    """Moving it may be its cure: the dead replica is what the plan replaces."""
    view = a_view()
    settings(view, t=2, u=2)
    isr(view, tp(), 1)
    assert health_gate(view) is not None
    reassign(view, tp(), 1, 2, 7)
    assert health_gate(view) is None
    apply(view, SpecEndedRecord(tp(), None, RequestId("r"), "cancelled"), NOW)
    assert health_gate(view) is not None


@pytest.mark.parametrize("mode", [UnderMinIsr.WARN, UnderMinIsr.IGNORE])
def test_operator_may_have_steps_begin_all_the_same(mode: UnderMinIsr) -> None:
    """He may know better."""
    view = a_view(mode)
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    assert health_gate(view) is None
    assert bool(topics_in_question(view, TIMER)) is (mode is UnderMinIsr.WARN)
    assert "u-0" in under_min_isr_sentence(view)


def test_names_are_bounded_and_their_number_is_given() -> None:
    """A dead broker leaves thousands."""
    view = a_view()
    settings(view, u=2)
    for number in range(8):
        isr(view, tp(number, "u"), 4)
    sentence = under_min_isr_sentence(view)
    assert "8 partitions" in sentence
    assert sentence.count("u-") == NAMED_MAX
    assert "u-4, ...; every copy waits" in sentence


def test_nothing_is_known_after_the_tenure() -> None:
    """States are read in a tenure only."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    observe(view, Deposed("over"), NOW)
    assert view.pacing.shrunk == view.pacing.under_min_isr == {}


def test_unhealthy_cluster_holds_copies_but_neither_drops_nor_ways_back() -> None:
    """What only takes away helps, and what was asked back goes back."""
    view = a_view()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    reassign(view, tp(), 1, 2, 7)
    moved = view.reassignments.by_partition[tp()]
    budget = Budget(view, NOW, None, health_gate(view))
    assert budget.gate(tp(), moved, replicas(7), BrokerId(1)) == health_gate(view)
    assert budget.gate(tp(), moved, (), BrokerId(1)) is None
    moved.spec = replace(moved.spec, cancelled_by=RequestId("cancel-1"))
    assert budget.gate(tp(), moved, replicas(7), BrokerId(1)) is None


STATES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([(4, 5, 6), (4, 5), (4,)]), st.booleans()),
    max_size=20,
)


@given(STATES, st.integers(1, 3))
def test_lists_kept_as_states_come_equal_those_made_at_once(
    changes: list[tuple[int, tuple[int, ...], bool]], least: int
) -> None:
    """Whatever order states, settings and reassignments came in."""
    view = a_view()
    for index, (number, members, ours) in enumerate(changes):
        isr(view, tp(number, "u"), *members)
        if ours:
            reassign(view, tp(number, "u"), 1, 2, 3)
        if index == len(changes) // 2:
            settings(view, u=least)
    kept = lists(view)
    for found in (view.pacing.shrunk, view.pacing.under_min_isr, view.pacing.recovering):
        found.clear()
    view.pacing.exposed.clear()
    view.pacing.unjudged_topics.clear()
    for partition in view.topics.partitions():
        judge(view, partition)
    assert lists(view) == kept


def lists(view: ClusterView) -> tuple[object, ...]:
    """Return what is kept of the health."""
    pacing = view.pacing
    return (
        set(pacing.shrunk),
        set(pacing.under_min_isr),
        set(pacing.recovering),
        {broker: set(exposed) for broker, exposed in pacing.exposed.items()},
        set(pacing.unjudged_topics),
    )


# --- brokers that are dead -----------------------------------------------------------------------


def die(view: ClusterView, *brokers: int) -> None:
    """Let these brokers be dead, and no other."""
    live = {BrokerId(n): broker(n) for n in range(1, 8) if n not in brokers}
    observe(view, BrokersRead(live), NOW)


def gate(view: ClusterView, *adding: int, leader: int = 1) -> Blocked | None:
    """Return what a step of the moved partition waits for."""
    reassign(view, tp(), 1, 2, 7)
    budget = Budget(view, NOW, None, health_gate(view))
    return budget.gate(
        tp(), view.reassignments.by_partition[tp()], replicas(*adding), BrokerId(leader)
    )


def a_mixed_view(mode: UnderMinIsr = UnderMinIsr.WAIT) -> ClusterView:
    """Return a cluster with one partition to be moved, and some of another topic."""
    view = a_tenure(
        {"t": [(1, 2, 3)], "u": [(4,), (4, 5), (1, 4), (4, 6, 7)]}, Options(under_min_isr=mode)
    )
    settings(view, t=2, u=2)
    isr(view, tp(), 1, 2, 3)
    return view


def test_a_partition_that_died_with_its_only_broker_holds_nothing() -> None:
    """Its topic is in no plan and has one replica: nothing but its broker brings it back."""
    view = a_mixed_view()
    die(view, 4)
    leaderless(view, tp(0, "u"), 4)
    assert under_min_isr_sentence(view).endswith("no copy waits for them")
    assert gate(view, 7) is None


def test_a_partition_short_of_a_dead_broker_holds_copies_of_the_brokers_that_serve_it() -> None:
    """Its last replicas are there; the rest of the cluster goes on."""
    view = a_mixed_view()
    die(view, 4)
    isr(view, tp(1, "u"), 5)
    assert health_gate(view) is None
    assert gate(view, 7) is None
    blocked = gate(view, 5)
    assert blocked is not None
    assert blocked.by is BlockedBy.CLUSTER_HEALTH
    assert "broker 5 serves" in blocked.detail
    assert "u-1" in blocked.detail
    assert gate(view, 7, leader=5) == blocked
    assert "broker 5 wait, except repairs" in under_min_isr_sentence(view)


def test_a_step_that_replaces_a_dead_replica_is_not_held_by_what_waits_for_repair() -> None:
    """Else the repair of one topic waits for another that waits to be repaired."""
    view = a_mixed_view()
    die(view, 4)
    isr(view, tp(2, "u"), 1)
    assert gate(view, 7) is not None
    isr(view, tp(), 1, 2)
    assert gate(view, 7) is None


def test_a_broker_that_comes_back_makes_its_partitions_count() -> None:
    """Its replicas catch up, and copies would slow that down."""
    view = a_mixed_view()
    die(view, 4)
    isr(view, tp(1, "u"), 5)
    view.due.capacity = False
    die(view)
    assert view.pacing.exposed == {}
    blocked = gate(view, 7)
    assert blocked is not None
    assert "live replicas catch up: 1 partition, u-1" in blocked.detail
    die(view, 4)
    assert view.due.capacity
    assert gate(view, 7) is None


def test_a_replica_on_a_failed_disk_is_as_dead_as_one_of_a_dead_broker() -> None:
    """It does not catch up either."""
    view = a_mixed_view()
    isr(view, tp(1, "u"), 5)
    assert health_gate(view) is not None
    view.leadership.offline.add((BrokerId(4), tp(1, "u")))
    judge(view, tp(1, "u"))
    assert health_gate(view) is None


def test_a_partition_without_a_leader_of_which_a_replica_outside_the_isr_lives_holds_nothing() -> (
    None
):
    """That replica fetches from nobody until the ISR is back."""
    view = a_mixed_view()
    die(view, 4)
    leaderless(view, tp(3, "u"), 4)
    assert gate(view, 6) is None


@pytest.mark.parametrize("by_setting", [UnderMinIsr.WAIT, UnderMinIsr.WARN])
def test_the_brake_is_set_live(by_setting: UnderMinIsr) -> None:
    """The control precedes the setting; without it, the setting holds again."""
    view = a_mixed_view(by_setting)
    isr(view, tp(1, "u"), 5)
    assert (health_gate(view) is not None) is (by_setting is UnderMinIsr.WAIT)
    view.due.capacity = False
    for mode in UnderMinIsr:
        limits = Limits(under_min_isr=mode)
        observe(view, ControlsRead(Controls(limits=limits)), NOW)
        assert (health_gate(view) is not None) is (mode is UnderMinIsr.WAIT)
    assert view.due.capacity
    assert view.due.health
    observe(view, ControlsRead(Controls()), NOW)
    assert (health_gate(view) is not None) is (by_setting is UnderMinIsr.WAIT)
