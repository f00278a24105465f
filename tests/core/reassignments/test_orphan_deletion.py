"""The smaller duties of a tenure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.core.cluster.model import Endpoint
from controller.core.core_settings import Options
from controller.core.cycle import apply
from controller.core.effects import ResignController, SendLeaderAndIsr, SendStopReplica
from controller.core.leadership.cluster_loading import follow_watched
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult, StatesRead
from controller.core.model import (
    NO_LEADER,
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Orphan, RemovedReplica
from controller.core.reassignments.orphans import announce_departures, delete_orphans
from controller.core.reassignments.phases import Stopping
from controller.core.reassignments.records import (
    OrphanEndedRecord,
    OrphanRecord,
    OrphansRead,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import Change
from controller.core.requests.records import LegacyPlanRead
from controller.core.requests.submissions import LegacyPlan
from controller.core.role.claims_and_resignations import has_work
from controller.core.role.invalidation import set_aside
from controller.core.role.records import (
    BrokersRead,
    ControllerClaimed,
    Deposed,
    UpdateMetadataAnswered,
)
from controller.core.topics.records import TopicsListed
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from controller.kafka_errors import CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, NONE
from tests.core.builders import Driver, broker, plan, replicas, tp
from tests.core.counting_dicts import Walked
from tests.core.leadership.test_duties import live
from tests.core.reassignments.delegated_rigs import delegated

TOPIC_CZXID = 9
"""Of every topic the driver makes."""
ORPHAN_ON_4 = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "dropped by another controller")


@pytest.mark.parametrize(
    ("partition", "broker", "czxid"),
    [
        (TopicPartition("gone", 0), 4, TOPIC_CZXID),
        (tp(), 4, TOPIC_CZXID - 1),
        (tp(), 2, TOPIC_CZXID),
    ],
    ids=["topic gone", "another topic of that name", "assigned again"],
)
def test_a_record_of_an_orphan_that_will_never_be_ours_to_delete_goes(
    partition: TopicPartition, broker: int, czxid: int
) -> None:
    """It would otherwise be work for ever, and nothing is deleted on its strength."""
    driver = Driver({tp(): (1, 2, 3)})
    orphan = Orphan(BrokerId(broker), partition, Zxid(czxid), "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    assert driver.view.reassignments.orphans == {}
    assert any(OrphanEndedRecord(orphan) in change.records for change in driver.changes)
    assert not any(isinstance(effect, SendStopReplica) for effect in driver.sent)
    assert not has_work(driver.view, driver.now)


def test_a_record_is_kept_while_its_topic_may_exist() -> None:
    """A dead broker is waited for; when its topic is deleted meanwhile the record goes."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    orphan = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    assert set(driver.view.reassignments.orphans.values()) == {orphan}
    driver.observe(TopicsListed(frozenset()))
    assert driver.view.reassignments.orphans == {}


def test_a_broker_whose_disk_failed_under_a_deletion_is_not_believed_before_it_registers_anew() -> (
    None
):
    """It has forgotten the replica and would answer NONE, with the directory still there."""
    driver = Driver({tp(): (1, 2, 3)}, failing={BrokerId(2)})
    before = driver.epoch(BrokerId(2))
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    (orphan,) = driver.view.reassignments.orphans.values()
    assert (orphan.broker, orphan.failed_in) == (2, before)
    assert deletions(driver, 2) == 1
    driver.restart()
    driver.acknowledge(tp(), driver.view.cluster.brokers)
    driver.observe(OrphansRead(frozenset({orphan})))
    assert deletions(driver, 2) == 1
    driver.observe(BrokersRead({**driver.view.cluster.brokers, BrokerId(2): broker(2, epoch=500)}))
    assert deletions(driver, 2) == 2
    assert driver.view.reassignments.orphans == {}


def test_a_replica_is_not_added_where_its_old_copy_is_on_a_failed_disk() -> None:
    """With the disk back, the broker would find two logs of one partition and not start."""
    driver = Driver({tp(): (1, 2, 3)}, failing={BrokerId(2)})
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    driver.restart()
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2, 3)}, czxid=60)))
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.detail == "broker 2 has its old copy on a failed disk"


def test_a_partition_is_in_question_until_its_last_orphan_is_gone() -> None:
    """Records are written again after a refusal: each orphan counts once."""
    driver = Driver({tp(): (1, 2)})
    four, five = (Orphan(BrokerId(b), tp(), Zxid(TOPIC_CZXID), "not live") for b in (4, 5))
    for record in (OrphanRecord(four), OrphanRecord(four), OrphanRecord(five)):
        apply(driver.view, record, driver.now)
    apply(driver.view, OrphanEndedRecord(four), driver.now)
    apply(driver.view, OrphanEndedRecord(four), driver.now)
    assert tp() in driver.view.reassignments.orphaned
    apply(driver.view, OrphanEndedRecord(five), driver.now)
    assert tp() not in driver.view.reassignments.orphaned


@pytest.mark.parametrize("found", ["read", "recorded"])
def test_what_is_to_be_deleted_leaves_the_isr_first(found: str) -> None:
    """Kafka's controller ended its move in the topic znode alone, for KAFKA-12315."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    if found == "read":
        driver.observe(OrphansRead(frozenset({ORPHAN_ON_4})))
    else:
        apply(driver.view, OrphanRecord(ORPHAN_ON_4), driver.now)
        driver.settle()
    driver.change_isr(tp(), replicas(1, 2, 3, 4))
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)
    assert deletions(driver, 4) == 1
    assert driver.view.reassignments.orphans == {}


def test_a_broker_whose_old_copy_counts_as_in_sync_can_be_a_target() -> None:
    """It is deleted first, and copied anew."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    driver.observe(OrphansRead(frozenset({ORPHAN_ON_4})))
    driver.change_isr(tp(), replicas(1, 2, 3, 4))
    driver.submit({tp(): (1, 2, 4)})
    driver.run(tp())
    assert driver.view.topics.known_assignment(tp()) == PartitionAssignment(replicas(1, 2, 4))
    assert deletions(driver, 4) == 1


def test_what_is_to_be_deleted_is_kept_until_every_live_replica_caught_up() -> None:
    """It counts as in sync no more, but its log may be the only other copy."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    apply(driver.view, OrphanRecord(ORPHAN_ON_4), driver.now)
    driver.change_isr(tp(), replicas(1, 4))
    assert driver.view.leadership.states[tp()].isr == replicas(1)
    driver.submit({tp(): (1, 2, 4)})
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert "is kept until all live replicas are in the ISR" in blocked.detail
    assert deletions(driver, 4) == 0
    driver.change_isr(tp(), replicas(1, 2))
    assert deletions(driver, 4) == 1
    driver.run(tp())
    assert driver.view.topics.known_assignment(tp()) == PartitionAssignment(replicas(1, 2, 4))


@pytest.mark.parametrize("how", ["catches up", "dies", "fails its disk", "goes with a move"])
def test_what_is_kept_is_deleted_once_no_live_replica_lags(how: str) -> None:
    """A dead one may never return, and one that is to go may never catch up."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4, 5))
    driver.observe(OrphansRead(frozenset({ORPHAN_ON_4})))
    driver.change_isr(tp(), replicas(1, 2, 4))
    assert (driver.view.leadership.states[tp()].isr, deletions(driver, 4)) == (replicas(1, 2), 0)
    three, epoch = BrokerId(3), driver.view.leadership.states[tp()].leader_epoch
    match how:
        case "catches up":
            driver.catch_up(tp())
        case "dies":
            driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (1, 2, 4, 5)}))
        case "fails its disk":
            failed = LeaderAndIsrResult(tp(), epoch, KAFKA_STORAGE_ERROR)
            driver.observe(
                LeaderAndIsrAnswered(three, driver.epoch(three), 0, (failed,), resent=False)
            )
        case _:
            driver.submit({tp(): (1, 2)})
            driver.run(tp())
    assert deletions(driver, 4) == 1
    assert driver.view.reassignments.orphans == {}


def test_a_leader_that_is_to_be_deleted_hands_over_first() -> None:
    """To the preferred leader: all are in sync."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    apply(driver.view, OrphanRecord(ORPHAN_ON_4), driver.now)
    before = driver.view.leadership.states[tp()]
    changed = replace(
        before, leader=BrokerId(4), isr=replicas(4, 2, 3, 1), version=ZkVersion(before.version + 1)
    )
    driver.observe(StatesRead({tp(): changed}, armed=frozenset({tp()})))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (1, replicas(2, 3, 1))
    assert deletions(driver, 4) == 1


def test_an_orphan_is_requested_again_whose_record_could_not_be_deleted() -> None:
    """Refused for its permissions, say: with the record left, the broker could not be a target."""
    driver = Driver({tp(): (1, 2)})
    orphan = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "not live")
    driver.acknowledges = False
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.acknowledge(tp(), driver.view.cluster.brokers)
    driver.settle()
    assert deletions(driver, 4) == 1
    set_aside(driver.view, Change((OrphanEndedRecord(orphan),)), "/x", "no_auth", driver.now)
    driver.view.due.orphans = True
    driver.settle()
    assert deletions(driver, 4) == 2


def moved(driver: Driver) -> None:
    """Let broker 4 register with another endpoint."""
    endpoints = (Endpoint("PLAINTEXT", "elsewhere", 1, "PLAINTEXT"),)
    brokers = driver.view.cluster.brokers
    there = replace(brokers[BrokerId(4)], endpoints=endpoints)
    driver.observe(BrokersRead({**brokers, BrokerId(4): there}))


def accepts_again(driver: Driver) -> None:
    """Let broker 4 refuse a request and accept the next."""
    for error in (CLUSTER_AUTHORIZATION_FAILED, NONE):
        epoch = driver.epoch(BrokerId(4))
        driver.observe(UpdateMetadataAnswered(BrokerId(4), epoch, error))


@pytest.mark.parametrize("loses_requests", [moved, accepts_again])
def test_an_orphan_is_requested_again_whose_request_was_lost_with_its_channel(
    loses_requests: Callable[[Driver], None],
) -> None:
    """Its broker never answers: no reassignment could add a replica there for the whole tenure."""
    driver = Driver({tp(): (1, 2)})
    driver.acknowledges = False
    orphan = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.acknowledge(tp(), driver.view.cluster.brokers)
    driver.settle()
    assert deletions(driver, 4) == 1
    loses_requests(driver)
    assert deletions(driver, 4) == 2


def test_orphans_are_looked_at_when_the_leader_of_one_answers_and_not_with_every_step() -> None:
    """A dead broker may leave thousands, and the other work continues."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    driver.acknowledges = False
    orphan = Orphan(BrokerId(4), tp(1), Zxid(TOPIC_CZXID), "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.submit({tp(0): (1, 3)})
    orphans = driver.view.reassignments.orphans = Walked(driver.view.reassignments.orphans)
    driver.acknowledge(tp(0), replicas(1))
    driver.settle()
    assert driver.view.leadership.is_acknowledged(tp(0))
    assert orphans.walked == 0
    driver.acknowledge(tp(1), replicas(1))
    driver.settle()
    assert deletions(driver, 4) == 1


def deletions(driver: Driver, broker_id: int) -> int:
    """Return how often a broker was asked to delete a replica."""
    return sum(
        isinstance(effect, SendStopReplica) and effect.delete and effect.broker == broker_id
        for effect in driver.sent
    )


def test_a_replica_is_not_added_where_its_old_copy_is_still_being_deleted() -> None:
    """Below version 3 of StopReplica no epoch would keep a late one from deleting the new copy."""
    driver = Driver({tp(): (0, 1, 2, 3)}, min_isr=2, answers_configs=True)
    driver.acknowledges = False
    driver.submit({tp(): (0, 1, 2)})
    driver.acknowledge(tp(), replicas(0))
    driver.settle()
    phase = driver.view.reassignments.by_partition[tp()].phase
    assert isinstance(phase, Stopping)
    edited = LegacyPlan({tp(): replicas(0, 1, 3)}, ZkVersion(10), Zxid(50))
    driver.observe(LegacyPlanRead(edited))
    driver.now = phase.deadline
    driver.view.due.add([tp()])
    driver.settle()
    orphan = driver.view.reassignments.orphans[BrokerId(3), tp()]
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.STOP_REPLICA_ACK
    epoch = driver.view.leadership.states[tp()].leader_epoch
    deleted = StopReplicaResult(tp(), epoch, delete=True, error=0)
    driver.observe(
        StopReplicaAnswered(BrokerId(3), driver.epoch(BrokerId(3)), 0, (deleted,), resent=False)
    )
    driver.acknowledges = True
    assert any(OrphanEndedRecord(orphan) in change.records for change in driver.changes)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(0, 1, 3))


def test_the_role_is_kept_until_orphans_are_answered_for() -> None:
    """However short the linger is: a hand-back would take the StopReplica back again."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.view.options = Options(tenure_linger_s=0.0)
    driver.acknowledges = False
    orphan = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "not live")
    driver.view.reassignments_tenure.confirmed[tp()] = (
        BrokerId(1),
        driver.view.leadership.states[tp()].leader_epoch,
    )
    driver.sent.clear()
    driver.observe(OrphansRead(frozenset({orphan})))
    assert any(isinstance(e, SendStopReplica) for e in driver.sent)
    for _ in range(2):
        driver.view.due.tenure = True
        driver.settle()
    assert not any(isinstance(e, ResignController) for e in driver.sent)


def claim_for_orphans(
    driver: Driver, orphans: set[Orphan], isr: tuple[int, ...] = (1,), leader: int = 1
) -> float:
    """Have a tenure find a state and leave orphans; return after how long they are tried again."""
    epoch = ControllerEpoch(driver.view.tenure.held.epoch + 1 if driver.view.tenure.held else 9)
    driver.observe(ControllerClaimed(epoch), OrphansRead(frozenset(orphans)))
    state = replace(driver.first_states[tp()], leader=BrokerId(leader), isr=replicas(*isr))
    driver.observe(StatesRead({tp(): state}))
    driver.now = Instant(driver.now + 60.0)
    driver.observe(Deposed("nothing left to do"))
    return driver.view.reassignments.orphans_after - driver.now


def with_orphans() -> Driver:
    """Return a partition of which brokers that are live may have old copies."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 4, 5))
    driver.acknowledges = False
    driver.observe(Deposed("a new process"))
    return driver


def test_orphans_that_cannot_be_deleted_take_the_role_ever_more_seldom() -> None:
    """A replica may lag for days, and each claim holds up what only a broker does in the role."""
    driver = with_orphans()
    waits = [claim_for_orphans(driver, {ORPHAN_ON_4}) for _ in range(13)]
    assert waits == [60.0 * 2**n for n in range(11)] + [24 * 3600.0] * 2


def test_an_orphan_on_a_failed_disk_is_no_reason_to_try_others_more_often() -> None:
    """It is not tried itself."""
    driver = with_orphans()
    epoch = driver.view.cluster.brokers[BrokerId(5)].epoch
    failed = Orphan(BrokerId(5), tp(), Zxid(TOPIC_CZXID), "disk", failed_in=epoch)
    waits = [claim_for_orphans(driver, {ORPHAN_ON_4, failed}) for _ in range(2)]
    assert waits == [60.0, 120.0]
    assert claim_for_orphans(driver, {ORPHAN_ON_4}) == 240.0


def test_orphans_of_a_partition_without_a_leader_take_the_role_ever_more_seldom() -> None:
    """No leader can acknowledge the current epoch until its ISR is back."""
    driver = Driver({tp(): (1, 2)}, brokers=(3, 4, 5))
    driver.observe(Deposed("a new process"))
    waits = [claim_for_orphans(driver, {ORPHAN_ON_4}, (1, 2), NO_LEADER) for _ in range(3)]
    assert waits == [60.0, 120.0, 240.0]


@pytest.mark.parametrize("news", ["replica", "orphan", "isr", "ended", "another"])
def test_orphans_are_tried_soon_again_where_there_is_news_of_them(news: str) -> None:
    """A broker that left or came, an ISR that grew, an orphan that was deleted, or one more."""
    driver = with_orphans()
    other = replace(ORPHAN_ON_4, broker=BrokerId(5))
    orphans = {ORPHAN_ON_4, other} if news == "ended" else {ORPHAN_ON_4}
    assert [claim_for_orphans(driver, orphans) for _ in range(2)] == [60.0, 120.0]
    if news in {"replica", "orphan"}:
        driver.observe(live(1, 4, 5) if news == "replica" else live(1, 2, 5))
        assert driver.view.reassignments.orphans_after <= driver.now
        driver.observe(live(1, 2, 4, 5))
    if news in {"ended", "another"}:
        orphans ^= {other}
    assert claim_for_orphans(driver, orphans, (1, 2) if news == "isr" else (1,)) == 60.0


def test_a_broker_without_a_replica_is_no_news_of_orphans() -> None:
    """Else a rolling restart of the cluster would have the role claimed at each broker."""
    driver = with_orphans()
    assert [claim_for_orphans(driver, {ORPHAN_ON_4}) for _ in range(2)] == [60.0, 120.0]
    driver.observe(live(1, 2, 3, 4, 5))
    driver.observe(live(1, 2, 3, 4))
    assert driver.view.reassignments.orphans_after - driver.now == 120.0
    assert claim_for_orphans(driver, {ORPHAN_ON_4}) == 240.0


def test_a_replica_that_comes_and_goes_is_news_of_orphans_once() -> None:
    """Else nothing would be postponed where replicas lag again and again."""
    driver = with_orphans()
    isrs = [(1,), (1, 2), (1,), (1, 2)]
    waits = [claim_for_orphans(driver, {ORPHAN_ON_4}, isr) for isr in isrs]
    assert waits == [60.0, 60.0, 120.0, 240.0]


def departure(driver: Driver, broker: int) -> RemovedReplica:
    """Return that another controller removed a replica from the present topic."""
    czxid = driver.view.topics.by_name[tp().topic].czxid
    return RemovedReplica(BrokerId(broker), tp(), czxid)


@pytest.mark.parametrize("kept_by", ["reassignment", "topic in doubt"])
def test_replicas_that_another_controller_dropped_are_recorded_later(kept_by: str) -> None:
    """The end of a reassignment records what it leaves, and a topic in doubt is being read."""
    driver = Driver({tp(): (1, 2, 3)})
    departed = {departure(driver, 4): driver.now}
    due = Worklist(claimed=True)
    driver.view.reassignments.departed = dict(departed)
    (change,) = announce_departures(driver.view, due).changes
    assert [r.orphan.broker for r in change.records if isinstance(r, OrphanRecord)] == [4]
    if kept_by == "reassignment":
        driver.view.reassignments.departed = {}
        driver.submit({tp(): (1, 2, 5)})
        assert tp() in driver.view.reassignments.by_partition
        driver.view.reassignments.departed = dict(departed)
    else:
        driver.view.topics.by_name["t"].invalidate(driver.view.role.read_generation + 1)
    assert announce_departures(driver.view, due).changes == ()


def test_the_record_of_an_orphan_is_kept_while_its_topic_is_not_read() -> None:
    """The cluster's controller does the work; whether the broker is a replica is not known yet."""
    driver = Driver({tp(): (1, 2, 3)}, options=delegated(), answers_topics=False)
    orphan = Orphan(BrokerId(4), tp(0, "new"), Zxid(TOPIC_CZXID), "not live")
    driver.observe(TopicsListed(frozenset({"t", "new"})), OrphansRead(frozenset({orphan})))
    assert follow_watched(driver.view, Worklist(orphans=True)).changes == ()
    driver.view.topics.listed = frozenset({"t"})
    (change,) = follow_watched(driver.view, Worklist(orphans=True)).changes
    assert change.records == (OrphanEndedRecord(orphan),)


def deletable(driver: Driver) -> Worklist:
    """Let the leader have confirmed its present epoch, with the record of an orphan on 4."""
    state = driver.view.leadership.states[tp()]
    driver.view.reassignments_tenure.confirmed[tp()] = (state.leader, state.leader_epoch)
    driver.view.reassignments.orphans[BrokerId(4), tp()] = ORPHAN_ON_4
    return Worklist(orphans=True)


def test_the_deletion_of_an_orphan_stops_its_replica_first() -> None:
    """Both requests carry the present leader epoch, so that a later one makes them outdated."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    decision = delete_orphans(driver.view, deletable(driver))
    epoch = driver.view.leadership.states[tp()].leader_epoch
    assert decision.changes == ()
    assert decision.effects == tuple(
        SendStopReplica(tp(), BrokerId(4), epoch, delete) for delete in (False, True)
    )


FORBIDS: dict[str, Callable[[ClusterView], object]] = {
    "its broker is dead": lambda view: view.cluster.brokers.pop(BrokerId(4)),
    "its deletion was requested": lambda view: view.reassignments_tenure.orphans_tried.add(
        ORPHAN_ON_4
    ),
    "its disk failed": lambda view: view.reassignments.orphans_failed.add(ORPHAN_ON_4),
    "the topic may have changed": lambda view: view.topics.by_name["t"].invalidate(99),
    "the topic is not read": lambda view: view.topics.by_name.pop("t"),
    "the topic is another one": lambda view: setattr(view.topics.by_name["t"], "czxid", Zxid(10)),
    "the partition is not in its topic": lambda view: view.topics.by_name["t"].partitions.clear(),
    "the broker is a replica again": lambda view: view.topics.by_name["t"].partitions.update(
        {0: PartitionAssignment(replicas(1, 2, 3, 4), replicas(4))}
    ),
    "the state is not known": lambda view: view.leadership.states.pop(tp()),
    "it is in the ISR": lambda view: view.leadership.states.update(
        {tp(): replace(view.leadership.states[tp()], isr=replicas(1, 2, 3, 4))}
    ),
    "a live replica lags": lambda view: view.leadership.states.update(
        {tp(): replace(view.leadership.states[tp()], isr=replicas(1, 2))}
    ),
    "the leader confirmed nothing": lambda view: view.reassignments_tenure.confirmed.clear(),
    "the leader confirmed an older epoch": lambda view: view.leadership.states.update(
        {tp(): replace(view.leadership.states[tp()], leader_epoch=LeaderEpoch(1))}
    ),
    "a former leader confirmed the epoch": lambda view: view.leadership.states.update(
        {tp(): replace(view.leadership.states[tp()], leader=BrokerId(2))}
    ),
}


@pytest.mark.parametrize("because", FORBIDS)
def test_no_orphan_is_deleted_while_anything_speaks_against_it(because: str) -> None:
    """Each reason alone forbids it: a deleted log is gone."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    due = deletable(driver)
    FORBIDS[because](driver.view)
    assert delete_orphans(driver.view, due).effects == ()


@pytest.mark.parametrize("before", ["obsolete", "requested", "on a failed disk"])
def test_an_orphan_that_is_not_deleted_delays_no_other(before: str) -> None:
    """Each of them is judged by itself."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4, 5))
    view = driver.view
    czxid = TOPIC_CZXID - 1 if before == "obsolete" else TOPIC_CZXID
    first = Orphan(BrokerId(5), tp(), Zxid(czxid), "not live")
    view.reassignments.orphans[BrokerId(5), tp()] = first
    if before == "requested":
        view.reassignments_tenure.orphans_tried.add(first)
    elif before == "on a failed disk":
        view.reassignments.orphans_failed.add(first)
    decision = delete_orphans(view, deletable(driver))
    assert [e.broker for e in decision.effects if isinstance(e, SendStopReplica)] == [4, 4]
    ended = [c.records for c in decision.changes]
    assert ended == ([(OrphanEndedRecord(first),)] if before == "obsolete" else [])


@pytest.mark.parametrize("news", ["orphans", "claimed", "joined", "seeded", "listed_topics"])
def test_orphans_are_examined_when_one_of_them_may_have_become_deletable(news: str) -> None:
    """There may be thousands: a cycle without such news examines none."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    deletable(driver)
    due = Worklist()
    assert delete_orphans(driver.view, due).effects == ()
    match news:
        case "joined":
            due.joined.add(BrokerId(4))
        case "seeded":
            due.seeded[tp()] = None
        case _:
            setattr(due, news, True)
    assert delete_orphans(driver.view, due).effects


@pytest.mark.parametrize("is_bounced", [True, False])
def test_the_leader_confirms_its_epoch_before_a_departed_replica_is_deleted(
    *, is_bounced: bool
) -> None:
    """One that restarted gets the epoch of its repair only, whenever that is durable."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.view.reassignments.departed = {departure(driver, 4): driver.now}
    due = Worklist(claimed=True)
    if is_bounced:
        due.bounced.add(BrokerId(1))
    (change,) = announce_departures(driver.view, due).changes
    assert [r.orphan.broker for r in change.records if isinstance(r, OrphanRecord)] == [4]
    informed = [e.brokers for e in change.effects if isinstance(e, SendLeaderAndIsr)]
    assert informed == ([] if is_bounced else [replicas(1)])
