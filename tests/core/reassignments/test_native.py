"""The native engine: what each phase waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import LegacyMode, Options
from controller.core.effects import SendStopReplica
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    StateReliedRecord,
)
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    PartitionAssignment,
    Route,
    TopicConfig,
)
from controller.core.pacing.budget import Budget
from controller.core.reassignments.native import advance
from controller.core.reassignments.phases import Phase, Shrinking, Stopping, Syncing
from controller.core.records import Change, TimerFired
from controller.core.topics.records import TopicConfigsRead
from controller.errors import InvariantError
from tests.core.builders import Driver, replicas, tp
from tests.core.requests.test_submitted import submission, submit


def test_replicas_are_not_excluded_while_the_settings_of_the_topic_are_unknown() -> None:
    """``min.insync.replicas`` may forbid it; the partition reports what it waits for."""
    driver = Driver({tp(): (0, 1)}, options=Options(step_size=None))
    driver.submit({tp(): (2, 3)})
    driver.view.topics.configs.clear()
    driver.catch_up(tp())
    reassignment = driver.view.reassignments.by_partition[tp()]
    assert isinstance(reassignment.phase, Syncing)
    assert reassignment.blocked is not None
    assert reassignment.blocked.by is BlockedBy.CONFIG_UNKNOWN
    assert driver.view.leadership.states[tp()].isr == replicas(0, 1, 2, 3)
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(2, 3))


def test_leaders_that_leave_keep_to_the_limit_of_moves() -> None:
    """Clients look for their leader anew; the exclusion waits for its turn."""
    options = Options(step_size=None, max_leader_moves_per_broker_per_second=1)
    driver = Driver({tp(n): (0, 1) for n in range(2)}, options=options)
    driver.submit({tp(n): (2, 1) for n in range(2)})
    for n in range(2):
        driver.catch_up(tp(n), 2)
    (waiting,) = driver.view.reassignments.by_partition.values()
    assert isinstance(waiting.phase, Syncing)
    assert waiting.blocked is not None
    assert waiting.blocked.by is BlockedBy.LEADER_MOVES
    driver.now = Instant(driver.now + 1.0)
    driver.observe(TimerFired("any"))
    assert driver.view.reassignments.by_partition == {}


def test_only_what_is_not_in_sync_is_still_added_where_a_copy_is_lost_amid_the_deletions() -> None:
    """Kafka's cancellation keeps the replicas that are not being added: it would keep none."""
    driver = Driver({tp(): (2,)}, options=Options(step_size=None))
    driver.submit({tp(): (4, 3)})
    driver.acknowledges = False
    driver.catch_up(tp())
    driver.acknowledge(tp(), replicas(4))
    driver.settle()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)
    driver.acknowledge_stop(tp(), replicas(2))
    driver.change_isr(tp(), replicas(4))
    driver.acknowledge_stop(tp(), replicas(2), delete=True)
    assignment = driver.view.topics.assignment(tp())
    assert assignment == PartitionAssignment(replicas(4, 3), replicas(3))
    assert assignment.origin_replicas == replicas(4)
    driver.acknowledges = True
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 3))


@pytest.mark.parametrize("route", [Route.LEGACY, Route.REQUEST])
def test_an_edited_entry_of_the_legacy_plan_is_judged_before_the_next_write(route: Route) -> None:
    """The next write of the plan would restore the old target; a request writes no entry."""
    driver = Driver({tp(): (0, 1), tp(1): (0, 1)}, options=Options(legacy_mode=LegacyMode.MIRROR))
    if route is Route.LEGACY:
        driver.submit({tp(): (0, 2)})
    else:
        driver.submit({tp(1): (0, 2)})
        submit(driver, submission("request_0000000000", {tp(): (0, 2)}))
    assert driver.view.reassignments.by_partition[tp()].spec.route is route
    assert driver.view.requests.legacy is not None
    driver.view.requests.legacy.entries[tp()] = replicas(0, 3)
    decided = advance(driver.view, tp(), driver.now, Budget(driver.view, driver.now))
    is_judged_first = isinstance(decided, Blocked) and decided.detail == (
        "its entry in the legacy znode is being judged"
    )
    assert is_judged_first == (route is Route.LEGACY)


def excluded() -> Driver:
    """Return a step that excluded 2 and 3; the leader has not acknowledged that yet."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(step_size=None), acknowledges=False)
    driver.submit({tp(): (1,)})
    assert driver.view.leadership.states[tp()].isr == replicas(1)
    return driver


def test_no_replica_is_deleted_that_was_not_excluded() -> None:
    """Whatever changed the removing replicas: the defect is reported, and nothing is sent."""
    driver = excluded()
    driver.view.topics.by_name["t"].partitions[0] = PartitionAssignment(
        replicas(1, 2, 3), removing_replicas=replicas(3)
    )
    driver.acknowledge(tp(), replicas(1))
    with pytest.raises(InvariantError, match="3 would be deleted, 2,3 was excluded"):
        driver.settle()
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)


def phase_of(driver: Driver) -> Phase:
    """Return the phase of the first partition."""
    return driver.view.reassignments.by_partition[tp()].phase


def test_no_replica_is_deleted_that_its_leader_added_again() -> None:
    """Its log counts for acknowledged records: it is excluded again, in a new leader epoch."""
    driver = excluded()
    first = driver.view.leadership.states[tp()].leader_epoch
    driver.change_isr(tp(), replicas(1, 3))
    again = driver.view.leadership.states[tp()]
    assert (again.isr, again.leader_epoch) == (replicas(1), first + 1)
    late = LeaderAndIsrResult(tp(), first, 0)
    epoch = driver.epoch(BrokerId(1))
    driver.observe(LeaderAndIsrAnswered(BrokerId(1), epoch, 0, (late,), resent=False))
    assert isinstance(phase_of(driver), Shrinking)
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    assert isinstance(phase_of(driver), Stopping)


def stops(driver: Driver) -> list[bool]:
    """Return whether each StopReplica that was sent deletes."""
    return [e.delete for e in driver.sent if isinstance(e, SendStopReplica)]


def test_nothing_is_deleted_by_a_state_that_its_leader_changed_since() -> None:
    """The leader may write the ISR after the last read, by a fetch that it was handling."""
    driver = excluded()
    known = driver.view.leadership.states[tp()]
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    assert set(stops(driver)) == {False}
    phase = phase_of(driver)
    assert isinstance(phase, Stopping)
    driver.view.reassignments.by_partition[tp()].phase = replace(phase, waiting=frozenset())
    decided = advance(driver.view, tp(), driver.now, Budget(driver.view, driver.now))
    assert isinstance(decided, Change)
    assert StateReliedRecord(tp(), known.version) in decided.records
    assert {e.delete for e in decided.effects if isinstance(e, SendStopReplica)} == {True}


def test_the_topic_keeps_a_replica_that_its_leader_added_amid_the_deletion() -> None:
    """The ISR stays within the replicas; another controller could not remove it any more."""
    driver = excluded()
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    first = driver.view.leadership.states[tp()].leader_epoch
    driver.change_isr(tp(), replicas(1, 3))
    again = driver.view.leadership.states[tp()]
    assert (again.isr, again.leader_epoch) == (replicas(1), first + 1)
    assert isinstance(phase_of(driver), Stopping)
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(
        replicas(1, 2, 3), removing_replicas=replicas(2, 3)
    )


@pytest.mark.parametrize(
    ("protocol", "sent"), [("2.6", {False}), ("2.7-IV1", {False}), ("2.7", {False, True})]
)
def test_a_deletion_waits_only_where_leaders_write_the_state(
    protocol: str, sent: set[bool]
) -> None:
    """From protocol 2.7 on, no other client writes the state in the tenure."""
    driver = excluded()
    driver.view.tenure.protocol = protocol
    driver.acknowledge(tp(), replicas(1))
    driver.settle()
    assert set(stops(driver)) == sent
