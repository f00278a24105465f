"""The choice of pending partitions for free slots, where more wait than a cycle can examine."""

from __future__ import annotations

from math import ceil

import pytest

from controller.core.core_settings import Options
from controller.core.effects import SetTimer
from controller.core.leadership.records import StateRecord
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.budget import Budget
from controller.core.pacing.controls import Controls, Limits, RequestLimits
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments import native
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.start_pending import SCAN_MAX, start_pending
from controller.core.records import TimerFired
from controller.core.wakeups import SCAN_TIMER
from controller.core.worklist import Worklist
from tests.core.builders import Driver, replicas, tp

MANY = SCAN_MAX + 500
LARGE = RequestId("request_0000000001")
SMALL = RequestId("request_0000000002")
DEAD = 9
FIRST_LARGE = Controls(limits=Limits(requests={LARGE: RequestLimits(priority=1)}))


def spec(
    target: tuple[int, ...], original: tuple[int, ...], request: RequestId
) -> ReassignmentSpec:
    """Return a record of an earlier daemon's."""
    return ReassignmentSpec(
        replicas(*target), replicas(*original), request, Route.REQUEST, ZkVersion(0)
    )


def scan_again(driver: Driver) -> bool:
    """Let the time come that a scan asked for to go on; return whether one did."""
    requested = [e.at for e in driver.sent if isinstance(e, SetTimer) and e.name == SCAN_TIMER]
    driver.sent.clear()
    if not requested:
        return False
    driver.now = requested[-1]
    driver.observe(TimerFired(SCAN_TIMER))
    return True


def end_those_in_flight(driver: Driver) -> None:
    """Let all that is being copied arrive."""
    for partition in [p for p, r in driver.view.reassignments.by_partition.items() if r.in_flight]:
        driver.catch_up(partition)


@pytest.mark.parametrize(
    ("original", "behind", "their_original"),
    [
        ((0, 2, 8), SMALL, (3, 4)),
        ((0, 2, 8), SMALL, (3, 8)),
        ((0, 1, 2), SMALL, (3, 4)),
        ((0, 1, 2), LARGE, (3, 4)),
    ],
    ids=["part way", "all part way", "of a higher priority", "of the same request"],
)
def test_blocked_partitions_do_not_keep_later_ones_from_beginning(
    original: tuple[int, ...], behind: RequestId, their_original: tuple[int, ...]
) -> None:
    """More of them wait for a dead broker than one turn looks at; a few others could begin."""
    stuck = [tp(n, "large") for n in range(MANY)]
    others = [tp(n, "small") for n in range(8)]
    driver = Driver(
        dict.fromkeys(stuck, (0, 1, 2)) | dict.fromkeys(others, (3, 4)),
        options=Options(max_incoming_per_broker=2),
    )
    driver.observe(ControlsRead(FIRST_LARGE))
    driver.adopt(
        {p: spec((0, 1, DEAD), original, LARGE) for p in stuck}
        | {p: spec((5, 4), their_original, behind) for p in others}
    )
    for _ in range(2 * len(others)):
        scan_again(driver)
        end_those_in_flight(driver)
    assert driver.view.reassignments.by_partition.keys() == set(stuck)


def test_everybody_is_looked_at_once_and_then_the_daemon_rests() -> None:
    """Partitions without a slot cost nothing until a slot becomes free."""
    entries = {tp(n): (n % 5, 5) for n in range(MANY)}
    driver = Driver(entries, options=Options(max_incoming_per_broker=2))
    driver.adopt({p: spec((r[0], 6), r, LARGE) for p, r in entries.items()})
    for _ in range(ceil(MANY / SCAN_MAX) - 1):
        assert scan_again(driver)
    assert not scan_again(driver)
    assert driver.view.pacing.in_flight == 2
    waits = {reason_of(driver, p) for p in driver.view.pacing.waiting}
    assert waits == {"broker 6 receives its limit of copies"}


def test_no_partition_that_could_begin_waits_and_every_reason_is_true() -> None:
    """Whatever order slots become free in, and however one broker's keep those of others."""
    options = Options(max_incoming_per_broker=3, max_outgoing_per_broker=2)
    entries = {tp(n): (n % 6, (n + 1 + n % 4) % 6) for n in range(120)}
    wanted = {p: ((ids[0] + p.partition % 3) % 6, (ids[1] + 1) % 6) for p, ids in entries.items()}
    driver = Driver(entries, brokers=range(6), options=options)
    driver.adopt(
        {
            p: spec(target, entries[p], SMALL if p.partition % 7 == 0 else LARGE)
            for p, target in wanted.items()
            if target[0] != target[1]
        }
    )
    looked = 0
    while driver.view.reassignments.by_partition:
        true = full_brokers(driver)
        for partition in (*driver.view.pacing.resumed, *driver.view.pacing.waiting):
            budget = Budget(driver.view, driver.now)
            step = native.advance(driver.view, partition, driver.now, budget)
            assert isinstance(step, Blocked)
            assert reason_of(driver, partition) in true
            looked += 1
        moving = [p for p, r in driver.view.reassignments.by_partition.items() if r.in_flight]
        driver.catch_up(moving[looked % len(moving)])
    assert looked > len(entries)


def full_brokers(driver: Driver) -> set[str]:
    """Return the reasons that are true now of brokers without a free slot."""
    view = driver.view
    receive, serve = view.options.max_incoming_per_broker, view.options.max_outgoing_per_broker
    full = {
        f"broker {b} receives its limit of copies"
        for b, n in view.pacing.incoming.items()
        if n >= receive
    }
    return full | {
        f"broker {b} serves its limit of copies"
        for b, n in view.pacing.outgoing.items()
        if n >= serve
    }


def reason_of(driver: Driver, partition: TopicPartition) -> str:
    """Return what a partition is said to wait for."""
    blocked = driver.view.reassignments.by_partition[partition].blocked
    assert blocked is not None
    return blocked.detail


class CountingBudget(Budget):
    """A budget that counts how often it was asked."""

    requested = 0

    def gate(
        self,
        partition: TopicPartition,
        reassignment: Reassignment,
        adding: Replicas,
        leader: BrokerId,
    ) -> Blocked | None:
        """Answer as any budget does."""
        self.requested += 1
        return super().gate(partition, reassignment, adding, leader)


def test_a_scan_decides_once_for_all_that_wait_for_a_slot_of_the_same_broker() -> None:
    """A hundred wait for each of two brokers; two decisions say that nothing became free."""
    entries = {tp(n): (n % 3, 3) for n in range(200)}
    driver = Driver(entries, options=Options(max_incoming_per_broker=1))
    driver.adopt({p: spec((r[0], 4 + p.partition % 2), r, LARGE) for p, r in entries.items()})
    budget = CountingBudget(driver.view, driver.now)
    decision = start_pending(driver.view, Worklist(capacity=True), driver.now, budget, ())
    assert len(driver.view.pacing.waiting) == len(entries) - 2
    assert (decision.changes, budget.requested) == ((), 2)


@pytest.mark.parametrize("kept", ["until it is read", "for a later cycle"])
def test_no_step_begins_before_a_bounce_is_handled(kept: str) -> None:
    """The broker that bounced leaves the ISR first, and the step would count it as in sync."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=0))
    driver.adopt({tp(n): spec((1, 3), (1, 2), LARGE) for n in range(2)})
    view = driver.view
    if kept == "until it is read":
        view.leadership.bounced[tp(0)] = {BrokerId(2)}
    else:
        view.due.held[tp(0)] = frozenset({BrokerId(2)})
    view.options = Options()
    budget = Budget(view, driver.now)
    begun = start_pending(view, Worklist(capacity=True), driver.now, budget, ())
    assert [change.partition for change in begun.changes] == [tp(1)]


def test_no_step_of_a_partition_that_is_examined_begins_before_a_bounce_is_handled() -> None:
    """Its state is being read again, so that the repair waits; so does the step."""
    driver = Driver({tp(): (1, 2)}, options=Options(max_partitions_in_flight=0))
    driver.adopt({tp(): spec((1, 3), (1, 2), LARGE)})
    view = driver.view
    view.options = Options()
    view.leadership.bounced[tp()] = {BrokerId(2)}
    view.leadership.seeding.add(tp())
    view.due.add((tp(),))
    driver.settle()
    assert view.leadership.states[tp()].isr == (1, 2)
    assert view.leadership.states[tp()].leader_epoch == 0
    blocked = view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.STATE_UNKNOWN
    view.leadership.seeding.clear()
    view.due.add((tp(),))
    driver.settle()
    first = next(r for c in driver.changes for r in c.records if isinstance(r, StateRecord))
    assert first.isr == (1,)
    assert view.awaits_repair(tp()) is False
