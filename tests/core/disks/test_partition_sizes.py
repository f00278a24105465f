"""Reports of brokers give the sizes of partitions, the produce rate, and the progress of copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import EngineName, ForeignMoves, Options
from controller.core.cycle import apply, observe
from controller.core.disks.disk_budget import SlowThrottle, slow_throttles
from controller.core.disks.model import GROWTH_AFTER_S
from controller.core.model import (
    BrokerId,
    Instant,
    PartitionAssignment,
    RequestId,
    Route,
    ZkVersion,
)
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    AppliedThrottle,
    Entity,
    EntityConfig,
)
from controller.core.reassignments.model import Load
from controller.core.reassignments.phases import Ended, Expanding, Syncing
from controller.core.reassignments.records import PhaseRecord, SpecEndedRecord
from controller.core.view import ClusterView
from tests.core.builders import replicas, tp
from tests.core.disks.reports import report, reports
from tests.core.disks.test_log_dir_queries import a_view, requested
from tests.core.tenure_views import NOW, a_tenure, isr, reassign


def report_sizes(view: ClusterView, seconds: float, **sizes: int) -> None:
    """Let broker 1 report sizes so long after the begin; ``p0`` is partition 0."""
    read = {tp(int(name[1:])): size for name, size in sizes.items()}
    at = Instant(NOW + seconds)
    for event in reports(view, {p: {1: size} for p, size in read.items()}, at):
        observe(view, event, at)


@pytest.mark.parametrize("policy", [ForeignMoves.WAIT, ForeignMoves.ADOPT])
@pytest.mark.parametrize("route", [Route.REQUEST, Route.FOREIGN])
def test_step_that_the_cluster_s_controller_continues_is_counted(
    route: Route, policy: ForeignMoves
) -> None:
    """Against the limits as well, unless it is of another client and not adopted."""
    view = a_tenure({"t": [(1, 2, 3)]}, Options(foreign_moves=policy))
    view.role.engine = EngineName.DELEGATED
    reassign(view, tp(0), 1, 2, 4)
    isr(view, tp(0), 1, 2, 3)
    found = view.reassignments.by_partition[tp(0)]
    found.spec, found.phase = replace(found.spec, route=route), Expanding()
    adding = PartitionAssignment(replicas(1, 2, 3, 4), replicas(4))
    view.topics.by_name["t"].partitions[0] = adding
    apply(view, PhaseRecord(tp(0), Syncing(), NOW, "found in the topic znode"), NOW)
    counts = route is Route.REQUEST or policy is ForeignMoves.ADOPT
    assert view.pacing.incoming.get(BrokerId(4), 0) == counts
    apply(view, PhaseRecord(tp(0), Ended(), NOW, "the target is in sync"), NOW)
    assert view.pacing.incoming.get(BrokerId(4), 0) == 0


def test_sizes_of_what_is_in_flight_do_not_sort_what_waits() -> None:
    """Sorting a hundred thousand anew every few seconds would be the longest part of the work."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    reassign(view, tp(1), 1, 2, 4)
    view.reassignments.by_partition[tp(0)].phase = Syncing()
    view.due.order = False
    report_sizes(view, 0, p0=1000)
    assert not view.due.order
    report_sizes(view, 1, p1=1000)
    assert view.due.order


def test_growth_is_what_was_added_per_second() -> None:
    """Two sizes make a rate; less than before is no growth."""
    view = a_view()
    for number in range(2):
        reassign(view, tp(number), 1, 2, 4)
    report_sizes(view, 0, p0=1000, p1=1000)
    assert view.disks_process.growth == {}
    report_sizes(view, 60, p0=7000, p1=400)
    assert view.disks_process.growth == {tp(0): 100.0, tp(1): 0.0}


def test_sizes_that_follow_closely_make_no_rate() -> None:
    """A segment is counted when it is flushed; a second is too short for that."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    report_sizes(view, 0, p0=1000)
    report_sizes(view, GROWTH_AFTER_S / 2, p0=99_000)
    assert view.disks_process.growth == {}
    assert view.disks_process.sizes == {tp(0): 99_000}
    report_sizes(view, 10, p0=2000)
    assert view.disks_process.growth == {tp(0): 100.0}


def test_sizes_of_what_is_done_are_forgotten() -> None:
    """And an answer that comes late does not bring them back."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    report_sizes(view, 0, p0=1000)
    apply(view, SpecEndedRecord(tp(0), None, RequestId("r"), "cancelled"), NOW)
    report_sizes(view, 60, p0=7000)
    assert view.disks_process.sizes == view.disks_process.growth == {}


def copying(rate: str) -> ClusterView:
    """Return a view in which partitions 0 and 1 grow by 100 bytes/s each while 4 copies from 1."""
    view = a_view()
    for number in range(2):
        reassign(view, tp(number), 1, 2, 4)
        view.reassignments.by_partition[tp(number)].load = Load(replicas(4), BrokerId(1))
    report_sizes(view, 0, p0=0, p1=0)
    report_sizes(view, 60, p0=6000, p1=6000)
    for broker_id in (1, 4):
        entity = Entity(f"brokers/{broker_id}")
        values = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
        view.pacing_process.applied_throttles[entity] = AppliedThrottle(
            entity, values, {}, ZkVersion(0)
        )
        view.pacing_leadership.entity_configs[entity] = EntityConfig(values, ZkVersion(0))
    return view


def slow(view: ClusterView) -> tuple[SlowThrottle, ...]:
    """Return the throttles that are too slow for what is in work."""
    return slow_throttles(view, tuple(view.reassignments.by_partition))


def test_a_throttle_below_the_produce_rate_is_reported_for_both_ends() -> None:
    """The copies would never be in sync."""
    found = slow(copying("150"))
    assert [(s.broker, s.receives, s.rate, s.growth) for s in found] == [
        (1, False, 150, 200.0),
        (4, True, 150, 200.0),
    ]
    assert "broker 4 receives copies at 150 bytes/s" in str(found[1])


def test_a_throttle_above_the_produce_rate_is_not_reported() -> None:
    """It only takes longer."""
    assert slow(copying("201")) == ()


def test_partitions_that_wait_do_not_count() -> None:
    """Only what is copied just now shares the throttle."""
    view = copying("150")
    view.reassignments.by_partition[tp(1)].load = None
    assert slow(view) == ()


def described(view: ClusterView, seconds: float, held: dict[int, int]) -> None:
    """Let brokers report their replicas of partition 0 so long after the begin."""
    at = Instant(NOW + seconds)
    for event in reports(view, {tp(0): held}, at):
        observe(view, event, at)


def test_size_is_that_of_the_leader_and_before_it_reports_that_of_a_replica_in_sync() -> None:
    """Copies are made from the leader; a replica out of sync may have less, or more."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    isr(view, tp(0), 1, 2)
    described(view, 0, {3: 9000})
    assert view.disks_process.sizes == {}
    described(view, 1, {2: 1000})
    assert view.disks_process.sizes == {tp(0): 1000}
    described(view, 2, {1: 800})
    described(view, 3, {2: 1100, 3: 9000})
    assert view.disks_process.sizes == {tp(0): 800}


def test_growth_is_not_counted_between_replicas() -> None:
    """Two logs of a partition differ by what retention has removed from one of them."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    isr(view, tp(0), 1, 2)
    described(view, 0, {1: 1000})
    isr(view, tp(0), 2)
    described(view, 10, {2: 90_000})
    assert view.disks_process.growth == {}
    described(view, 20, {2: 90_500})
    assert view.disks_process.growth == {tp(0): 50.0}


def test_pending_partitions_are_sorted_when_the_last_broker_has_answered() -> None:
    """Of many brokers, each reports the size of some of them."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    reassign(view, tp(1), 1, 2, 4)
    requested(view, 0)
    assert view.disks.measuring == set(range(1, 8))
    view.due.order = False
    for number in range(1, 7):
        observe(view, report(number, {tp(0): 1000}, at=NOW, epoch=100), NOW)
    assert not view.due.order
    silent = replace(report(7, {}, at=NOW, epoch=100), problem="it does not answer")
    observe(view, silent, NOW)
    assert view.due.order


def test_copy_is_whole_by_reports_of_the_same_time_only() -> None:
    """An older report of either says nothing: it is compared with the next one."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    isr(view, tp(0), 1, 2)
    view.reassignments.by_partition[tp(0)].load = Load(replicas(4), BrokerId(1))
    described(view, 0, {1: 1000, 4: 1000})
    assert view.reassignments_tenure.whole_since == {tp(0): NOW}
    described(view, 10, {1: 2000})
    assert view.reassignments_tenure.whole_since == {tp(0): NOW}
    described(view, 11, {4: 2000})
    assert view.reassignments_tenure.whole_since == {tp(0): NOW}
    described(view, 20, {1: 3000, 4: 2500})
    assert view.reassignments_tenure.whole_since == {}
