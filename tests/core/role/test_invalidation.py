"""Reads from before the claim, or that arrive late: defects found by review, kept as tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import LegacyMode, Options
from controller.core.cycle import take_due
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import (
    ClaimController,
    ReadTopics,
    SendLeaderAndIsr,
    SendStopReplica,
    SetTimer,
)
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    NotificationsDeletedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.gates import state_unknown
from controller.core.reassignments.phases import Stopping, Syncing
from controller.core.reassignments.records import (
    OrphansRead,
    PhaseRecord,
    SpecRecord,
    SpecsRead,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import Change, TimerFired
from controller.core.requests.model import PlanNode
from controller.core.requests.records import (
    CancellationRead,
    LegacyEntryRecord,
    LegacyPlanRead,
    PartitionOutcomeRecord,
    QueueRead,
)
from controller.core.requests.submissions import Cancellation, LegacyPlan, legacy_request_id
from controller.core.role.invalidation import invalidate, set_aside
from controller.core.role.records import ControllerClaimed, Deposed
from controller.core.topics.records import AssignmentRecord, TopicsListed, TopicsRead
from controller.errors import InvariantError
from tests.core.builders import EPOCH, Driver, plan, replicas, tp

NEXT = ControllerEpoch(EPOCH + 1)


def spec(target: tuple[int, ...], original: tuple[int, ...]) -> ReassignmentSpec:
    """Return a record of an earlier tenure."""
    return ReassignmentSpec(
        replicas(*target), replicas(*original), RequestId("r"), Route.LEGACY, ZkVersion(0)
    )


def test_a_pure_expansion_left_in_the_topic_znode_is_sent_at_a_new_epoch() -> None:
    """A leader ignores the epoch it has: without the bump it would never learn the new replica."""
    driver = Driver({tp(): (1, 2)})
    found = PartitionAssignment(replicas(1, 2, 3), replicas(3))
    driver.fold(TopicsRead({"t": TopicAssignment({0: found}, ZkVersion(5), Zxid(9))}))
    before = driver.view.leadership.states[tp()].leader_epoch
    driver.adopt({tp(): spec((1, 2, 3), (1, 2))})
    assert driver.view.leadership.states[tp()].leader_epoch == before + 1
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2, 3))


def test_a_step_that_shows_up_late_is_taken_up_not_planned_over() -> None:
    """The topic znode was written just before our claim; its read arrives after everything else."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.observe(Deposed("another one"))
    driver.observe(SpecsRead({tp(): spec((4, 5, 6), (1, 2, 3))}, {}))
    driver.answers_topics = False
    driver.observe(ControllerClaimed(NEXT))
    assert any(isinstance(e, ReadTopics) and e.topics == ("t",) for e in driver.sent)
    jump = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
    driver.observe(TopicsRead({"t": TopicAssignment({0: jump}, ZkVersion(1), Zxid(9))}))
    driver.observe(StatesRead({tp(): driver.first_states[tp()]}))
    held = driver.view.topics.assignment(tp())
    assert held is not None
    assert set(replicas(1, 2, 3)) <= set(held.replicas)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 5, 6))


def test_what_waits_is_not_dropped_when_the_node_was_gone_before_the_claim() -> None:
    """Kafka deleted the node when it had finished what it listed; that is no operator's edit."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=1))
    driver.submit({tp(0): (1, 3), tp(1): (1, 3)})
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("another one"))
    driver.observe(ControllerClaimed(NEXT))
    driver.observe(LegacyPlanRead(None))
    driver.observe(StatesRead(known))
    assert tp(1) in driver.view.reassignments.by_partition


def test_an_entry_submitted_again_is_not_lost() -> None:
    """The node was deleted and created again, seen as one read: same target, nothing dropped."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=1))
    driver.submit({tp(0): (1, 3), tp(1): (1, 3)})
    driver.observe(LegacyPlanRead(plan({tp(1): (1, 3)}, czxid=77)))
    driver.run(tp(0))
    driver.run(tp(1))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(1, 3))


def test_a_stale_topic_is_sent_when_it_was_read_again() -> None:
    """Nothing is decided for a stale topic; afterwards its brokers get its state again."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 1)})
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.sent.clear()
    again = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": again}))
    sent = {e.partition for e in driver.sent if isinstance(e, SendLeaderAndIsr)}
    assert sent == {tp(0), tp(1)}


def test_a_topic_deletion_that_cannot_end_does_not_keep_us_from_the_role() -> None:
    """Its replica's broker is dead, a usual reason for a reassignment."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(Deposed("another one"), *driver.own_records())
    driver.observe(DeletionsRead(frozenset({"stuck"})))
    driver.now = Instant(driver.now + 5)
    driver.sent.clear()
    driver.observe(LegacyPlanRead(plan({tp(): (1, 3)})))
    assert not [e for e in driver.sent if isinstance(e, ClaimController)]
    driver.now = Instant(driver.now + 60)
    driver.observe(TimerFired("deletion_patience"))
    assert [e for e in driver.sent if isinstance(e, ClaimController)]


def test_a_record_read_before_our_own_write_changes_nothing() -> None:
    """In a tenure only we write the records: an overtaken read brings nothing back."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    driver.observe(SpecsRead({tp(): spec((1, 3), (1, 2))}, {}))
    assert tp() not in driver.view.reassignments.by_partition


def test_a_topic_read_as_absent_is_read_again_when_it_is_listed_again() -> None:
    """Deleted and created while we looked: it must not stay unknown for ever."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(TopicsListed(frozenset({"t", "n"})))
    driver.observe(TopicsRead({"n": None}))
    driver.sent.clear()
    driver.observe(TopicsListed(frozenset({"t", "n"})))
    assert ReadTopics(("n",)) in driver.sent


def test_a_topic_that_a_younger_listing_names_is_read_again_before_it_counts_as_gone() -> None:
    """Deleted, read, created anew and listed, reads out of order: no later listing names it."""
    driver = Driver({tp(): (1, 2)})
    driver.answers_topics = False
    anew = TopicAssignment({0: PartitionAssignment(replicas(3, 4))}, ZkVersion(0), Zxid(70))
    driver.observe(TopicsListed(frozenset({"t"})))
    driver.sent.clear()
    driver.observe(TopicsRead({"t": None}))
    assert driver.sent.count(ReadTopics(("t",))) == 1
    assert driver.view.topics.listed == frozenset({"t"})
    driver.observe(TopicsRead({"t": anew}))
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 4))


def test_a_listed_topic_that_is_twice_not_there_is_gone() -> None:
    """A listing that names it again makes it one that has to be read."""
    driver = Driver({tp(): (1, 2)})
    driver.answers_topics = False
    driver.sent.clear()
    driver.observe(TopicsRead({"t": None}))
    driver.observe(TopicsRead({"t": None}))
    assert driver.sent.count(ReadTopics(("t",))) == 1
    assert driver.view.topics.listed == frozenset()
    driver.observe(TopicsListed(frozenset({"t"})))
    assert driver.sent.count(ReadTopics(("t",))) == 2


def test_a_plan_for_a_topic_that_is_not_read_yet_waits() -> None:
    """It is listed, so it exists: refusing it would be a guess."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(TopicsListed(frozenset({"t", "n"})))
    driver.observe(LegacyPlanRead(plan({tp(0, "n"): (1, 2)})))
    assert driver.view.requests.legacy is not None
    assert not any(t.refused for t in driver.view.requests.by_id.values())
    assert not any(
        isinstance(r.phase, Syncing) for r in driver.view.reassignments.by_partition.values()
    )


def test_a_topic_listed_in_the_turn_of_the_claim_is_read_as_well() -> None:
    """Reading again what is in doubt must not make us forget what is new."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    driver.observe(Deposed("another one"))
    driver.sent.clear()
    driver.observe(TopicsListed(frozenset({"t", "n"})), ControllerClaimed(NEXT))
    assert {name for e in driver.sent if isinstance(e, ReadTopics) for name in e.topics} == {
        "n",
        "t",
    }


def test_a_deadline_that_passed_requests_no_further_time() -> None:
    """Where the step cannot end yet, a timer in the past would keep the loop spinning."""
    driver = Driver({tp(): (0, 1, 2, 3)}, min_isr=2)
    driver.acknowledges = driver.answers_topics = False
    driver.submit({tp(): (0, 1, 2)})
    driver.acknowledge(tp(), replicas(0))
    driver.settle()
    phase = driver.view.reassignments.by_partition[tp()].phase
    assert isinstance(phase, Stopping)
    driver.view.topics.by_name["t"].stale = True
    driver.now = Instant(phase.deadline + 1)
    driver.sent.clear()
    driver.observe(TimerFired("stop_replica_deadline"))
    timers = [e for e in driver.sent if isinstance(e, SetTimer)]
    assert timers
    assert all(e.at > driver.now for e in timers)


def test_an_entry_that_was_retargeted_outside_a_tenure_is_carried_out() -> None:
    """The entry is the newer order: listing what is on record must not put the old one there."""
    driver = Driver({tp(): (1, 2)})
    old = ReassignmentSpec(
        replicas(1, 3), replicas(1, 2), RequestId("r"), Route.LEGACY, ZkVersion(0)
    )
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("another one"), SpecsRead({tp(): old}, {}))
    driver.observe(OrphansRead(frozenset()), LegacyPlanRead(plan({tp(): (1, 4)})))
    driver.observe(ControllerClaimed(NEXT))
    driver.observe(LegacyPlanRead(plan({tp(): (1, 4)})), StatesRead(known))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 4))


def test_an_edited_entry_that_is_refused_does_not_stop_the_older_alter_entry() -> None:
    """It is removed from the znode, and reassignments in flight continue."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    edited = LegacyPlan({tp(): replicas(1, 99)}, ZkVersion(10), Zxid(50))
    driver.observe(LegacyPlanRead(edited))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 3))


def test_an_older_read_does_not_settle_a_doubt() -> None:
    """It was under way when our write was refused; what it says was overtaken long ago."""
    driver = Driver({tp(): (1, 2)})
    driver.answers_topics = False
    old = driver.view.leadership.states[tp()]
    driver.submit({tp(): (1, 3)})
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    driver.view.topics.by_name["t"].stale = True
    driver.fold(
        TopicsRead(
            {"t": TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(9))}
        )
    )
    assert driver.view.topics.by_name["t"].stale
    refused = Change((AssignmentRecord(tp(), assignment), _state_record(driver)))
    before = driver.view.role.read_generation
    invalidate(driver.view, refused)
    driver.fold(StatesRead({tp(): old}, before))
    assert tp() not in driver.view.leadership.states


def _state_record(driver: Driver) -> StateRecord:
    state = driver.view.leadership.states[tp()]
    return StateRecord(
        partition=tp(),
        leader=state.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=state.isr,
        controller_epoch=NEXT,
        expected_version=state.version,
        leader_recovery_state=0,
    )


def test_a_refused_goal_has_its_topic_read_again() -> None:
    """It may have been made of what the topic znode does not say any more."""
    driver = Driver({tp(): (1, 2)})
    made = ReassignmentSpec(replicas(1, 3), replicas(1, 2), RequestId("r"), Route.REQUEST)
    effects = invalidate(driver.view, Change((SpecRecord(tp(), made),), partition=tp()))
    assert effects == [ReadTopics(("t",))]
    assert driver.view.topics.assignment(tp()) is None


def test_notifications_that_are_gone_are_not_deleted_again() -> None:
    """The next read of their directory, which is under way, lists those that are left."""
    driver = Driver({tp(): (1, 2)})
    driver.view.leadership_process.notifications["isr_notifications"] = (
        "isr_change_1",
        "isr_change_2",
    )
    refused = NotificationsDeletedRecord("isr_notifications", ("isr_change_1",))
    assert invalidate(driver.view, Change((refused,))) == []
    assert driver.view.leadership_process.notifications["isr_notifications"] == ("isr_change_2",)


def test_what_stands_in_a_legacy_znode_in_doubt_is_taken_over_by_a_queue_later() -> None:
    """Its entry goes in the same write, which would be refused until the znode is read again."""
    driver = Driver({tp(): (1, 2)}, options=Options(legacy_mode=LegacyMode.MIRROR))
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("wait")))))
    driver.submit({tp(): (1, 3)})
    legacy = driver.view.requests.legacy
    assert legacy is not None
    legacy.stale = True
    driver.observe(QueueRead(plan({tp(): (1, 4)}, czxid=60)), ControlsRead(Controls()))
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.LEGACY
    again = LegacyPlan(dict(legacy.entries), ZkVersion(9), legacy.czxid)
    driver.observe(LegacyPlanRead(again))
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.REQUEST


def test_what_stands_in_a_legacy_znode_in_doubt_is_turned_round_later() -> None:
    """The same for a cancellation."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    legacy = driver.view.requests.legacy
    assert legacy is not None
    legacy.stale = True
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(60), 0)))
    assert not driver.view.reassignments.by_partition[tp()].spec.rolls_back
    driver.observe(LegacyPlanRead(LegacyPlan(dict(legacy.entries), ZkVersion(9), legacy.czxid)))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2))


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_stands_in_a_legacy_znode_in_doubt_ends_later(
    is_gone: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    """The same for the end of what a request wants, and of a topic that was deleted meanwhile."""
    driver = Driver({tp(): (1, 2)})
    listed = plan({tp(): (4, 5)})
    if is_gone:
        of_plan = replace(spec((4, 5), (1, 2)), request=legacy_request_id(listed.czxid))
        driver.adopt({tp(): of_plan})
    else:
        driver.adopt({tp(): replace(spec((1, 3), (1, 2)), route=Route.REQUEST)})
    driver.view.requests.legacy = PlanNode.of(listed)
    driver.view.requests.legacy.stale = True
    if is_gone:
        driver.observe(TopicsListed(frozenset()))
    else:
        driver.catch_up(tp())
        blocked = driver.view.reassignments.by_partition[tp()].blocked
        assert blocked is not None
        assert "the legacy znode was edited" in blocked.detail
    assert tp() in driver.view.reassignments.by_partition
    assert not any(isinstance(r, LegacyEntryRecord) for c in driver.changes for r in c.records)
    driver.observe(LegacyPlanRead(None))
    assert driver.view.reassignments.by_partition == {}


def test_an_alter_entry_that_stands_ends_an_older_one_aloud() -> None:
    """The older one, of another plan, did not reach its target: its outcome has to say so."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("wait")))))
    driver.adopt({tp(): spec((1, 3), (1, 2))})
    driver.submit({tp(): (1, 2)})
    driver.observe(ControlsRead(Controls()))
    endings = [
        r.ending for c in driver.changes for r in c.records if isinstance(r, PartitionOutcomeRecord)
    ]
    assert [(e.request, e.fate) for e in endings] == [(RequestId("r"), OutcomeKind.SUPERSEDED)]
    assert driver.view.reassignments.by_partition == {}
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2))


def _claimed_again(driver: Driver) -> int:
    """Lose the role and claim it with the records at hand; return the doubts before the claim."""
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    driver.observe(Deposed("no answer from ZooKeeper"))
    driver.observe(SpecsRead(specs, {}), *driver.own_records()[1:])
    driver.answers_topics = False
    before = driver.view.role.read_generation
    driver.observe(ControllerClaimed(NEXT))
    if driver.view.requests.legacy is not None:
        driver.observe(LegacyPlanRead(plan(dict(driver.view.requests.legacy.entries))))
    return before


def test_a_read_that_was_under_way_at_the_claim_ends_no_doubt() -> None:
    """Of whatever version: the controller before us may have written after it."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.submit({tp(): (3, 4, 5)})
    topic = driver.view.topics.by_name["t"]
    before = _claimed_again(driver)
    for version in (topic.version, ZkVersion(topic.version + 1)):
        read = TopicAssignment(dict(topic.partitions), version, topic.czxid)
        driver.sent.clear()
        driver.observe(TopicsRead({"t": read}, before))
        assert driver.view.topics.assignment(tp()) is None
        assert driver.view.topics.by_name["t"].version == topic.version
    assert ReadTopics(("t",)) in driver.sent
    driver.observe(TopicsRead({"t": read}))
    assert driver.view.topics.assignment(tp()) is not None


@pytest.mark.parametrize("name", ["u", "n"])
def test_news_that_were_under_way_at_the_claim_are_read_once_more(name: str) -> None:
    """Of a topic without work, and of an unknown one: nothing else would request the read."""
    driver = Driver({tp(): (1, 2), tp(0, "u"): (1, 2)})
    before = _claimed_again(driver)
    driver.observe(TopicsListed(frozenset({"t", "u", "n"})))
    driver.sent.clear()
    moving = PartitionAssignment(replicas(3, 1, 2), replicas(3), replicas(1, 2))
    read = TopicAssignment({0: moving}, ZkVersion(4), Zxid(9))
    driver.observe(TopicsRead({name: read}, before))
    assert ReadTopics((name,)) in driver.sent
    assert driver.view.topics.assignment(tp(0, name)) is None
    driver.observe(TopicsRead({name: read}))
    assert driver.view.topics.assignment(tp(0, name)) == moving


def test_a_state_that_was_being_read_at_the_claim_is_not_taken() -> None:
    """Its leader may have changed the ISR since, then restarted: the old ISR is not sent."""
    driver = Driver({tp(): (0, 1, 2)})
    state = driver.view.leadership.states[tp()]
    before = _claimed_again(driver)
    driver.sent.clear()
    driver.observe(StatesRead({tp(): state}, before))
    assert tp() not in driver.view.leadership.states
    assert not [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    driver.observe(StatesRead({tp(): state}))
    assert driver.view.leadership.states[tp()] == state


def test_a_read_from_before_a_refused_write_leaves_the_topic_in_doubt() -> None:
    """What it says is newer than what was known, and older than what was written meanwhile."""
    driver = Driver({tp(): (1, 2)})
    driver.answers_topics = False
    topic, before = driver.view.topics.by_name["t"], driver.view.role.read_generation
    assignment = topic.partitions[0]
    invalidate(driver.view, Change((AssignmentRecord(tp(), assignment),)))
    for version in (topic.version, ZkVersion(topic.version + 1)):
        read = TopicAssignment({0: assignment}, version, topic.czxid)
        driver.observe(TopicsRead({"t": read}, before))
        assert driver.view.topics.assignment(tp()) is None
    driver.observe(TopicsRead({"t": read}))
    assert driver.view.topics.assignment(tp()) == assignment


def _retaken(driver: Driver) -> tuple[PartitionAssignment, PartitionAssignment]:
    """
    Claim in the second step of (0,1,2) -> (3,4,5) and decide it on what was read before the claim.

    Return that step, and the whole target at once, which a broker that was the controller in
    between had written meanwhile.
    """
    driver.submit({tp(): (3, 4, 5)})
    driver.acknowledges = False
    driver.catch_up(tp(), 3)
    state, topic = driver.view.leadership.states[tp()], driver.view.topics.by_name["t"]
    step = topic.partitions[0]
    assert step.removing_replicas == replicas(1)
    _claimed_again(driver)
    driver.observe(TopicsRead({"t": TopicAssignment({0: step}, topic.version, topic.czxid)}))
    epoch, version = LeaderEpoch(state.leader_epoch + 1), ZkVersion(state.version + 1)
    isr = replicas(0, 2, 3)
    driver.observe(StatesRead({tp(): replace(state, leader_epoch=epoch, version=version, isr=isr)}))
    assert driver.view.reassignments.has_excluded(tp())
    return step, PartitionAssignment(replicas(3, 4, 5, 0, 2, 1), replicas(4, 5), replicas(0, 2, 1))


def _read(driver: Driver, assignment: PartitionAssignment) -> None:
    topic = driver.view.topics.by_name["t"]
    version = ZkVersion(topic.version + 1)
    driver.observe(TopicsRead({"t": TopicAssignment({0: assignment}, version, topic.czxid)}))


def test_replicas_that_others_made_removing_are_not_deleted_for_our_exclusion() -> None:
    """The leader acknowledged that another replica is out: these serve, the leader is one."""
    driver = Driver({tp(): (0, 1, 2)})
    _, jump = _retaken(driver)
    _read(driver, jump)
    driver.sent.clear()
    driver.acknowledge(tp(), (driver.view.leadership.states[tp()].leader,))
    driver.settle()
    deleted = {e.broker for e in driver.sent if isinstance(e, SendStopReplica) and e.delete}
    state = driver.view.leadership.states[tp()]
    assert deleted.isdisjoint({state.leader, *state.isr})


def test_replicas_that_others_made_removing_are_not_forgotten_for_our_deletion() -> None:
    """The last acknowledgement of a deletion ends the step that was excluded, not another one."""
    driver = Driver({tp(): (0, 1, 2)})
    _, jump = _retaken(driver)
    driver.acknowledge(tp(), (driver.view.leadership.states[tp()].leader,))
    driver.settle()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)
    _read(driver, jump)
    gone = StopReplicaResult(
        tp(), driver.view.leadership.states[tp()].leader_epoch, delete=True, error=0
    )
    to = BrokerId(1)
    driver.observe(StopReplicaAnswered(to, driver.epoch(to), 0, (gone,), resent=False))
    state, assignment = driver.view.leadership.states[tp()], driver.view.topics.assignment(tp())
    assert assignment is not None
    assert {state.leader, *state.isr} <= set(assignment.replicas)


def test_a_step_that_others_ended_is_begun_anew() -> None:
    """It is counted as waiting, and the next step leads on from where they left it."""
    driver = Driver({tp(): (0, 1, 2)})
    _retaken(driver)
    assert driver.view.pacing.in_flight == 1
    driver.acknowledges = True
    _read(driver, PartitionAssignment(replicas(0, 2, 3)))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 4, 5))
    assert driver.view.pacing.in_flight == 0
    assert set(driver.view.pacing.incoming.values()) <= {0}


def test_what_is_deleted_is_what_the_acknowledged_write_excluded() -> None:
    """Whatever went wrong before: rather no controller than one that deletes anything else."""
    driver = Driver({tp(): (0, 1, 2)})
    step, jump = _retaken(driver)
    driver.view.topics.by_name["t"].partitions[0] = jump
    driver.fold(_acknowledged(driver))
    with pytest.raises(InvariantError):
        driver.settle()
    driver.view.topics.by_name["t"].partitions[0] = step
    driver.fold(_acknowledged(driver))
    driver.settle()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)


def _acknowledged(driver: Driver) -> LeaderAndIsrAnswered:
    state = driver.view.leadership.states[tp()]
    result = LeaderAndIsrResult(tp(), state.leader_epoch, 0)
    epoch = driver.epoch(state.leader)
    return LeaderAndIsrAnswered(state.leader, epoch, 0, (result,), resent=False)


def test_a_write_that_is_not_permitted_gives_its_slot_away_at_once() -> None:
    """Others wait for it, and the permission may never come; refused again it frees no other."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (1, 3)})
    moved = driver.view.reassignments.by_partition[tp()]
    moved.blocked = None
    begun = Change((PhaseRecord(tp(), Syncing(), driver.now, "begun"),), partition=tp())
    freed = []
    for _ in range(2):
        take_due(driver.view)
        set_aside(driver.view, begun, "/brokers/topics/t", "no_auth", driver.now)
        freed.append(driver.view.due.capacity)
    assert freed == [True, False]
    waits = driver.view.reassignments.by_partition[tp()].blocked
    assert waits is not None
    assert waits.by is BlockedBy.WRITE_REFUSED


def test_why_a_state_was_unreadable_is_forgotten_with_the_state() -> None:
    """A rejected write shows that the znode changed: it is read again, and readable perhaps."""
    driver = Driver({tp(): (1, 2)})
    write = _state_record(driver)
    driver.observe(StatesRead({tp(): "no JSON"}))
    assert "no JSON" in state_unknown(driver.view, tp()).detail
    invalidate(driver.view, Change((write,), partition=tp()))
    assert state_unknown(driver.view, tp()).detail == "its state znode is being read"
