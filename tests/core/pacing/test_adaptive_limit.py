"""The adaptive pace grows by a little, is halved on evidence, and says why."""

from __future__ import annotations

from controller.core.core_settings import Options
from controller.core.cycle import apply, observe
from controller.core.model import BlockedBy, BrokerEpoch, BrokerId, ControllerEpoch, Instant
from controller.core.pacing.budget import Budget
from controller.core.pacing.controls import Controls, Limits
from controller.core.pacing.limits_in_force import PACE_EVERY_S, adapt_limit
from controller.core.pacing.records import PaceRecord
from controller.core.role.records import ControllerClaimed, Deposed, UpdateMetadataAnswered
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import replicas, tp
from tests.core.tenure_views import NOW, a_tenure, isr, reassign


class Pacer:
    """A view whose intervals pass one by one."""

    def __init__(self, options: Options | None = None) -> None:
        self.view = a_tenure(
            {"t": [(1, 2, 3)], "u": [(4, 5, 6)]},
            options or Options(adaptive=True, max_partitions_in_flight=40),
        )
        self.now = NOW
        self.said: list[PaceRecord] = []
        self.decide()

    def decide(self) -> None:
        """Decide once, and fold what was decided."""
        for change in adapt_limit(self.view, Worklist(timer=True), self.now).changes:
            for record in change.records:
                assert isinstance(record, PaceRecord)
                self.said.append(record)
                apply(self.view, record, self.now)

    def interval(self) -> int | None:
        """Let an interval pass; return the pace that follows."""
        self.now = Instant(self.now + PACE_EVERY_S)
        self.decide()
        return self.view.pacing.pace

    def answer(self, took_s: float) -> None:
        """Let broker 3 answer after so long, in the middle of an interval."""
        at = Instant(self.now + PACE_EVERY_S / 2)
        broker_id = BrokerId(3)
        epoch = BrokerEpoch(self.view.cluster.brokers[broker_id].epoch)
        observe(self.view, UpdateMetadataAnswered(broker_id, epoch, 0, took_s), at)


def lose_a_replica(pacer: Pacer) -> None:
    """Let a partition lose a replica out of its ISR in the running interval."""
    isr(pacer.view, tp(0, "u"), 4, 5, 6)
    pacer.view.pacing.pace_since = Instant(NOW - 1)
    isr(pacer.view, tp(0, "u"), 4, 5)


def test_pace_begins_with_a_part_of_the_limit_and_grows_up_to_it() -> None:
    """What the cluster bears is found out from below."""
    pacer = Pacer()
    assert pacer.view.pacing.pace == 10
    assert [pacer.interval() for _ in range(9)] == [14, 18, 22, 26, 30, 34, 38, 40, 40]


def test_isr_that_shrinks_outside_the_plan_halves_the_pace() -> None:
    """The change is reported with its evidence."""
    pacer = Pacer()
    lose_a_replica(pacer)
    pacer.now = Instant(NOW - 1)
    assert pacer.interval() == 5
    assert "u-0" in pacer.said[-1].evidence
    assert (pacer.said[-1].before, pacer.said[-1].in_flight_max) == (10, 5)
    assert pacer.interval() == 9


def test_isr_of_a_partition_we_move_is_no_evidence() -> None:
    """Dropping replicas is what a reassignment does."""
    pacer = Pacer()
    reassign(pacer.view, tp(0, "u"), 1, 2, 3)
    lose_a_replica(pacer)
    pacer.now = Instant(NOW - 1)
    assert pacer.interval() == 14


def test_isr_that_grows_is_no_evidence() -> None:
    """Recovery is good news."""
    pacer = Pacer()
    isr(pacer.view, tp(0, "u"), 4)
    pacer.view.pacing.pace_since = Instant(NOW - 1)
    isr(pacer.view, tp(0, "u"), 4, 5)
    pacer.now = Instant(NOW - 1)
    assert pacer.interval() == 14


def test_broker_that_is_slow_to_answer_halves_the_pace() -> None:
    """Brokers under strain answer the controller late."""
    pacer = Pacer()
    pacer.answer(pacer.view.options.slow_answer_s + 1)
    assert pacer.interval() == 5
    assert "broker 3 took 6.0 s" in pacer.said[-1].evidence
    pacer.answer(pacer.view.options.slow_answer_s - 1)
    assert pacer.interval() == 9


def test_pace_never_falls_below_one() -> None:
    """Else nothing would go on at all."""
    pacer = Pacer(Options(adaptive=True, max_partitions_in_flight=2))
    assert pacer.view.pacing.pace == 1
    pacer.answer(99.0)
    assert pacer.interval() == 1


def test_pace_is_not_judged_within_its_interval() -> None:
    """Timers of others fire all the time."""
    pacer = Pacer()
    pacer.now = Instant(pacer.now + PACE_EVERY_S / 2)
    pacer.decide()
    assert pacer.view.pacing.pace == 10


def test_limit_lowered_live_bounds_the_pace_at_once() -> None:
    """An operator's word goes before what the cluster bears."""
    pacer = Pacer()
    pacer.view.pacing_process.controls = Controls(limits=Limits(max_partitions_in_flight=3))
    pacer.view.pacing.in_flight = 3
    reassign(pacer.view, tp(), 1, 2, 7)
    moved = pacer.view.reassignments.by_partition[tp()]
    blocked = Budget(pacer.view, Instant(0.0)).gate(tp(), moved, replicas(7), BrokerId(1))
    assert blocked is not None
    assert blocked.by is BlockedBy.LIMIT
    assert pacer.interval() == 3


def test_pace_bounds_what_is_in_flight() -> None:
    """It takes the place of the limit where it is lower."""
    pacer = Pacer()
    pacer.view.pacing.in_flight = 9
    assert Budget(pacer.view, Instant(0.0)).has_slot
    pacer.view.pacing.in_flight = 10
    assert not Budget(pacer.view, Instant(0.0)).has_slot


def test_pace_is_found_anew_in_the_next_tenure() -> None:
    """What was true then may not be now."""
    pacer = Pacer()
    pacer.interval()
    observe(pacer.view, Deposed("over"), pacer.now)
    assert pacer.view.pacing.pace is None
    pacer.view.role.claiming = True
    observe(pacer.view, ControllerClaimed(ControllerEpoch(9)), pacer.now)
    pacer.decide()
    assert pacer.view.pacing.pace == 10


def test_nothing_is_decided_where_the_pace_is_not_adaptive() -> None:
    """It is off by default."""
    view: ClusterView = Pacer(Options()).view
    assert view.pacing.pace is None
    assert Budget(view, Instant(0.0)).has_slot
