"""The native engine: what each phase waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import LegacyMode, Options
from controller.core.effects import SendStopReplica
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
from controller.core.reassignments.phases import Stopping, Syncing
from controller.core.reassignments.records import StopReplicaAnswered, StopReplicaResult
from controller.core.records import TimerFired
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
    driver.change_isr(tp(), replicas(4))
    stopped = StopReplicaResult(tp(), driver.view.leadership.states[tp()].leader_epoch, True, 0)  # noqa: FBT003
    epoch = driver.epoch(BrokerId(2))
    driver.observe(StopReplicaAnswered(BrokerId(2), epoch, 0, (stopped,), resent=False))
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


def test_no_replica_is_deleted_that_is_in_the_isr() -> None:
    """Its log counts for acknowledged records."""
    driver = excluded()
    state = driver.view.leadership.states[tp()]
    driver.view.leadership.states[tp()] = replace(state, isr=replicas(1, 3))
    driver.acknowledge(tp(), replicas(1))
    with pytest.raises(InvariantError, match="2,3 would be deleted"):
        driver.settle()
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)
