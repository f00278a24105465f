"""Topics that the daemon deletes in its tenure, as Kafka's ``TopicDeletionManager`` does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.cycle import apply, record_effect
from controller.core.deletions.model import EPOCH_DURING_DELETE, DeletionMarker, TopicTree
from controller.core.deletions.pending_deletions import progress_of
from controller.core.deletions.records import (
    DeletionBegunRecord,
    DeletionMarkerEndedRecord,
    DeletionsRead,
    PartitionZnodesDeletedRecord,
    StaleMarkerEndedRecord,
    TopicDeletedRecord,
    TopicTreesRead,
)
from controller.core.deletions.topic_deletions import AWAY_S
from controller.core.disks.records import LogDirEventsRead
from controller.core.effects import (
    ClaimController,
    ReadTopicTrees,
    ResignController,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    RequestId,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import (
    OrphanRecord,
    StopReplicaAnswered,
    StopReplicaResult,
)
from controller.core.records import Change, TimerFired
from controller.core.role.records import (
    BrokerSettingsRead,
    ControllerClaimed,
    Deposed,
    YieldedRecord,
)
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.core.wakeups import AWAY_TIMER
from controller.reactor.ports import Check, Delete
from controller.reactor.shared_metadata import update_metadata_state
from controller.reactor.znode_operations import operations_of
from controller.znodes.paths import deletion_path, topic_path
from tests.core.builders import Driver, broker, replicas, tp
from tests.core.leadership.test_duties import live
from tests.core.requests.test_submitted import submission, submit

OTHER = tp(0, "other")
REQUEST = RequestId("request_0000000000")
MARKED = DeletionsRead(frozenset({"t"}))


def cluster(kind: type[Driver] = Driver, **settings: object) -> Driver:
    """Return a tenure with two topics, whose brokers permit that topics are deleted."""
    given = {
        "brokers": (1, 2, 3, 4),
        "options": Options(tenure_linger_s=5.0),
        "answers_configs": True,
        "deletes_topics": True,
        **settings,
    }
    return kind({tp(): (1, 2), tp(1): (2, 3), OTHER: (1, 2, 3)}, **given)  # type: ignore[arg-type] # as given


def wrote(driver: Driver, kind: type) -> int:
    """Return how many records of a kind were written."""
    return sum(isinstance(r, kind) for c in driver.changes for r in c.records)


def deletes(driver: Driver) -> set[tuple[int, TopicPartition]]:
    """Return the replicas that were to be deleted with their topic."""
    return {
        (e.broker, e.partition)
        for e in driver.sent
        if isinstance(e, SendStopReplica) and e.delete and e.leader_epoch == EPOCH_DURING_DELETE
    }


def answer(driver: Driver, to: int, partition: TopicPartition, *, error: int = 0) -> None:
    """Let a broker answer the deletion of a replica."""
    result = StopReplicaResult(partition, EPOCH_DURING_DELETE, True, error)  # noqa: FBT003
    epoch = driver.view.cluster.brokers[BrokerId(to)].epoch
    driver.observe(StopReplicaAnswered(BrokerId(to), epoch, 0, (result,), resent=False))


def informed(driver: Driver, to: int) -> None:
    """Let a broker without a replica answer what it was sent."""
    result = StopReplicaResult(tp(), EPOCH_DURING_DELETE, False, 0)  # noqa: FBT003
    epoch = driver.view.cluster.brokers[BrokerId(to)].epoch
    driver.observe(StopReplicaAnswered(BrokerId(to), epoch, 0, (result,), resent=False))


def wait(driver: Driver, seconds: int) -> bool:
    """Let time pass; return whether the role is given back meanwhile."""
    for _ in range(seconds):
        driver.now = Instant(driver.now + 1.0)
        driver.observe(TimerFired("linger"))
    return any(isinstance(e, ResignController) for e in driver.sent)


# --- the way of a deletion -----------------------------------------------------------------------


def test_brokers_forget_the_topic_then_delete_it_then_its_znodes_go() -> None:
    """Every broker is told, also one without a replica; other topics stay."""
    driver = cluster()
    driver.sent.clear()
    driver.observe(MARKED)
    told = [
        e for e in driver.sent if isinstance(e, SendUpdateMetadata) and e.partitions[0].topic == "t"
    ]
    assert told[0].partitions == (tp(), tp(1))
    assert told[0].brokers == replicas(1, 2, 3, 4)
    assert deletes(driver) == {(1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))}
    assert driver.sent.index(told[0]) < min(
        driver.sent.index(e) for e in driver.sent if isinstance(e, SendStopReplica)
    )
    assert wrote(driver, TopicDeletedRecord) == 1
    view = driver.view
    assert view.topics.by_name.keys() == {"other"}
    assert view.topics.listed == frozenset({"other"})
    assert view.deletions_session.markers == frozenset()
    assert tp() not in view.leadership.states


def test_nothing_is_sent_before_the_marker_and_the_topic_were_checked() -> None:
    """The requests follow the multi that checks both."""
    driver = cluster(acknowledges=False)
    driver.view.due.deletions = False
    driver.fold(MARKED)
    assert not deletes(driver)
    driver.settle()
    begun = next(
        c for c in driver.changes if any(isinstance(r, DeletionBegunRecord) for r in c.records)
    )
    assert begun.effects == ()
    assert deletes(driver)


def test_the_znodes_stay_until_every_replica_is_confirmed() -> None:
    """And until every other broker has confirmed that it forgot the topic."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert [e for e in driver.sent if isinstance(e, ReadTopicTrees)] == [ReadTopicTrees(("t",))]
    assert progress_of(driver.view, "t") == "1 replica is being deleted"
    answer(driver, 3, tp(1))
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_broker_without_a_replica_is_awaited() -> None:
    """It would show the topic for ever: without a marker no controller tells it again."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    assert progress_of(driver.view, "t") == "brokers forget the topic"
    assert wrote(driver, TopicDeletedRecord) == 0
    driver.observe(live(1, 2, 3))
    assert wrote(driver, TopicDeletedRecord) == 1, "a broker that starts knows no topics"


def test_the_znodes_of_a_large_topic_take_several_multis() -> None:
    """The topic znode goes last, with the marker."""
    options = Options(multi_operations=10)
    driver = Driver(
        {tp(n): (1, 2) for n in range(20)}, brokers=(1, 2), deletes_topics=True, options=options
    )
    driver.observe(MARKED)
    parts = wrote(driver, PartitionZnodesDeletedRecord)
    assert parts == 4, "of 41 below the topic znode"
    kinds = [type(r) for c in driver.changes for r in c.records]
    last = kinds.index(TopicDeletedRecord)
    assert PartitionZnodesDeletedRecord not in kinds[last:]


def test_a_marker_without_a_topic_is_removed() -> None:
    """A read after the marker's shows that there is no such topic."""
    driver = cluster()
    driver.observe(DeletionsRead(frozenset({"unknown"})))
    assert wrote(driver, DeletionMarkerEndedRecord) == 1
    assert driver.view.deletions_session.markers == frozenset()


class Outlived(Driver):
    """A cluster in which a marker is older than its topic."""

    def tree(self, topic: str) -> TopicTree | None:
        """Return the znodes of a topic."""
        tree = super().tree(topic)
        if tree is None or topic != "t":
            return tree
        return tree._replace(marker=DeletionMarker(Zxid(tree.czxid - 1), ZkVersion(0)))


def test_a_topic_that_is_newer_than_its_marker_is_not_deleted() -> None:
    """The marker meant a former topic of that name; its controller died before it ended it."""
    driver = cluster(Outlived)
    driver.observe(MARKED)
    assert wrote(driver, StaleMarkerEndedRecord) == 1
    assert wrote(driver, DeletionBegunRecord) == 0
    assert not deletes(driver)
    assert driver.view.deletions_session.markers == frozenset()
    driver.observe(live(2, 3, 4))
    assert driver.view.leadership.states[tp()].leader == 2, "it is served"


def test_the_end_of_a_stale_marker_is_checked_against_the_topic() -> None:
    """If the topic or the marker is another one by then, both are read again."""
    driver = cluster(Outlived)
    driver.observe(MARKED)
    record = next(
        r for c in driver.changes for r in c.records if isinstance(r, StaleMarkerEndedRecord)
    )
    assert operations_of(record, driver.view) == [
        Check(topic_path("t"), record.version),
        Delete(deletion_path("t"), ZkVersion(0)),
    ]


def test_a_marker_that_is_newer_than_its_topic_is_obeyed_while_it_is_read() -> None:
    """Nothing begins before the two were compared."""
    driver = cluster()
    driver.view.deletions.requested_trees.add("t")
    driver.observe(MARKED)
    assert wrote(driver, DeletionBegunRecord) == 0
    driver.observe(TopicTreesRead({"t": driver.tree("t")}))
    assert wrote(driver, DeletionBegunRecord) == 1


def test_a_stale_marker_ends_also_while_the_topic_is_reassigned() -> None:
    """The plan needs a topic that is not to be deleted."""
    driver = cluster(Outlived)
    submit(driver, submission(REQUEST, {tp(): (2, 3)}))
    assert driver.view.topics.by_name["t"].partitions[0].is_reassigning
    driver.observe(MARKED)
    assert wrote(driver, StaleMarkerEndedRecord) == 1


def test_a_marker_of_a_topic_that_is_not_listed_yet_stays() -> None:
    """Its listing may be under way."""
    driver = cluster()
    found = driver.tree("t")
    driver.view.deletions.requested_trees.add("new")
    driver.observe(DeletionsRead(frozenset({"new"})), TopicTreesRead({"new": found}))
    assert wrote(driver, DeletionMarkerEndedRecord) == 0


# --- what a deletion waits for -------------------------------------------------------------------


def test_live_replicas_are_deleted_although_the_broker_of_another_is_dead() -> None:
    """As by Kafka's controller; the znodes stay, and the role is kept for nobody."""
    driver = cluster(acknowledges=False)
    driver.observe(live(1, 2, 4))
    driver.observe(MARKED)
    assert deletes(driver) == {(1, tp()), (2, tp()), (2, tp(1))}
    driver.sent.clear()
    assert not wait(driver, 60), "live brokers are awaited"
    assert progress_of(driver.view, "t") == "3 replicas are being deleted"
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    why = "waits for broker 3, which is not live and has a replica"
    assert progress_of(driver.view, "t") == why
    driver.sent.clear()
    assert wait(driver, 7)
    assert wrote(driver, YieldedRecord) == 0
    assert wrote(driver, TopicDeletedRecord) == 0


def test_a_deletion_that_waits_ends_in_the_tenure_when_the_broker_is_back() -> None:
    """It is sent the state of its replica first, which shows a log directory that failed."""
    driver = cluster(options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(live(1, 2, 4))
    driver.observe(MARKED)
    driver.now = Instant(driver.now + 10 * AWAY_S)
    driver.observe(TimerFired(AWAY_TIMER))
    assert wrote(driver, TopicDeletedRecord) == 0
    driver.sent.clear()
    driver.observe(live(1, 2, 3, 4))
    assert deletes(driver) == {(3, tp(1))}
    sent = [e for e in driver.sent if getattr(e, "partition", None) == tp(1)]
    assert sent[0] == SendLeaderAndIsr(tp(1), replicas(3))
    assert {type(e) for e in sent[1:]} == {SendStopReplica}
    assert wrote(driver, TopicDeletedRecord) == 1


def test_brokers_are_sent_the_states_before_the_deletion_begins() -> None:
    """Their answers show the replicas that are in failed log directories since before the claim."""
    driver = cluster()
    states = dict(driver.view.leadership.states)
    driver.observe(Deposed("another tenure"), *driver.own_records())
    driver.observe(MARKED)
    driver.observe(ControllerClaimed(ControllerEpoch(9)))
    known = driver.view.topics.by_name["t"]
    read = TopicAssignment(dict(known.partitions), known.version, known.czxid)
    driver.observe(TopicsRead({"t": read}))
    assert wrote(driver, DeletionBegunRecord) == 0
    driver.sent.clear()
    driver.observe(StatesRead(states))
    kinds = [type(e) for e in driver.sent if getattr(e, "partition", None) == tp(1)]
    assert kinds[0] is SendLeaderAndIsr
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_broker_that_is_back_without_a_disk_keeps_the_znodes() -> None:
    """It does not see the log, and a later topic of that name would get it."""
    driver = cluster(options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(live(1, 2, 4))
    driver.observe(MARKED)
    driver.acknowledges = False
    driver.observe(live(1, 2, 3, 4))
    failed = LeaderAndIsrResult(tp(1), LeaderEpoch(1), 56)
    epoch = driver.epoch(BrokerId(3))
    driver.observe(LeaderAndIsrAnswered(BrokerId(3), epoch, 0, (failed,), resent=False))
    answer(driver, 3, tp(1))
    assert wrote(driver, TopicDeletedRecord) == 0
    assert "broker 3 cannot delete a replica (error 56)" in progress_of(driver.view, "t")


def test_reassignments_of_a_topic_end_when_nothing_live_is_left_of_it() -> None:
    """Their requests would wait for the dead broker, too; Kafka's controller drops them as well."""
    driver = cluster(acknowledges=False)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("later")))))
    submit(driver, submission(REQUEST, {tp(): (1, 4), OTHER: (1, 2, 4)}))
    driver.observe(live(1, 2, 4))
    driver.observe(MARKED)
    assert tp() in driver.view.reassignments.by_partition
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert driver.view.reassignments.by_partition.keys() == {OTHER}
    assert wrote(driver, TopicDeletedRecord) == 0


def test_reassignments_end_too_when_the_last_answer_is_a_refusal() -> None:
    """That broker deletes nothing before it restarts."""
    driver = cluster(acknowledges=False)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("later")))))
    submit(driver, submission(REQUEST, {tp(): (1, 4)}))
    driver.observe(MARKED)
    for to, partition in ((2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert tp() in driver.view.reassignments.by_partition
    epoch = driver.epoch(BrokerId(1))
    driver.observe(StopReplicaAnswered(BrokerId(1), epoch, -1, (), resent=False))
    assert tp() not in driver.view.reassignments.by_partition


def test_a_deletion_that_proceeds_keeps_the_role() -> None:
    """Until it has ended."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.sent.clear()
    assert not wait(driver, 60)


def test_a_broker_that_bounces_is_sent_everything_again() -> None:
    """What it confirmed before counts no more."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    answer(driver, 2, tp())
    answer(driver, 2, tp(1))
    driver.sent.clear()
    bounced = {BrokerId(b): broker(b, epoch=200 if b == 2 else 100) for b in (1, 2, 3, 4)}
    driver.observe(replace(live(1, 2, 3, 4), brokers=bounced))
    assert deletes(driver) == {(2, tp()), (2, tp(1))}
    kinds = [type(e) for e in driver.sent if getattr(e, "partition", None) == tp(1)]
    # The outbox merges both LeaderAndIsr.
    assert kinds == [SendLeaderAndIsr] * 2 + [SendStopReplica] * 2
    for to, partition in ((1, tp()), (3, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert wrote(driver, TopicDeletedRecord) == 0
    for partition in (tp(), tp(1)):
        answer(driver, 2, partition)
    assert wrote(driver, TopicDeletedRecord) == 1


def test_an_error_is_waited_out_until_the_broker_restarts() -> None:
    """As with Kafka's controller."""
    driver = cluster(failing={BrokerId(3)})
    driver.observe(MARKED)
    assert wrote(driver, TopicDeletedRecord) == 0
    assert "broker 3 cannot delete a replica (error 56)" in progress_of(driver.view, "t")
    bounced = {BrokerId(b): broker(b, epoch=200 if b == 3 else 100) for b in (1, 2, 3, 4)}
    driver.observe(replace(live(1, 2, 3, 4), brokers=bounced))
    assert wrote(driver, TopicDeletedRecord) == 1


def test_replicas_of_a_leader_that_restarted_are_sent_their_state_before_the_deletion() -> None:
    """
    A broker that started without a failed disk refuses the state, and the deletion waits.

    The state of a leader that restarted is not sent when it is read, and no newer one is written
    once the topic is to be deleted. The broker would confirm the deletion of a replica whose log is
    on the failed disk, and a later topic of the name would use the log.
    """
    driver = cluster(acknowledges=False)
    driver.view.leadership.bounced[tp()] = {BrokerId(1), BrokerId(2)}
    driver.sent.clear()
    driver.observe(MARKED)
    told = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr) and e.partition.topic == "t"]
    assert told == [SendLeaderAndIsr(tp(), replicas(1, 2))]
    stops = [driver.sent.index(e) for e in driver.sent if isinstance(e, SendStopReplica)]
    assert driver.sent.index(told[0]) < min(stops)


def test_a_failed_log_directory_is_waited_for() -> None:
    """The replica there is not deleted, whatever its broker says; the others are."""
    driver = cluster()
    driver.view.leadership.offline.add((BrokerId(3), tp(1)))
    driver.observe(MARKED)
    assert {(1, tp()), (2, tp()), (2, tp(1))} <= deletes(driver)
    assert wrote(driver, TopicDeletedRecord) == 0
    assert "broker 3 cannot delete a replica (error 56)" in progress_of(driver.view, "t")


def test_a_step_in_flight_ends_first_and_no_other_begins() -> None:
    """The deletion follows it, and the request hears what became of its partitions."""
    driver = cluster(options=Options(tenure_linger_s=5.0, max_partitions_in_flight=1))
    submit(driver, submission(REQUEST, {tp(): (1, 4), tp(1): (2, 4)}))
    flying = next(p for p, r in driver.view.reassignments.by_partition.items() if r.in_flight)
    waiting = tp(1 - flying.partition)
    driver.observe(MARKED)
    assert not deletes(driver)
    assert "is being reassigned" in progress_of(driver.view, "t")
    for _ in range(10):
        if flying not in driver.view.reassignments.by_partition:
            break
        driver.catch_up(flying)
    assert waiting not in driver.view.reassignments.by_partition
    assert wrote(driver, TopicDeletedRecord) == 1
    assert not driver.history[waiting]


def test_a_pending_reassignment_of_a_topic_that_is_deleted_is_blocked() -> None:
    """Nothing more is written of it."""
    driver = cluster(acknowledges=False)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("later")))))
    submit(driver, submission(REQUEST, {tp(): (1, 4)}))
    driver.observe(MARKED)
    driver.observe(ControlsRead(Controls()))
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.TOPIC_DELETION
    assert not driver.history[tp()]


# --- nothing creates a replica again -------------------------------------------------------------


def test_no_leader_is_elected_and_no_state_sent_of_a_topic_that_is_deleted() -> None:
    """Whatever happens to brokers, disks and elections."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.changes.clear()
    driver.view.leadership.preferred[tp(1)] = None
    driver.observe(live(1, 3, 4))
    driver.observe(LogDirEventsRead(("log_dir_event_1",), frozenset({BrokerId(1)})))
    driver.observe(live(1, 2, 3, 4))
    written = [r for c in driver.changes for r in c.records if isinstance(r, StateRecord)]
    assert not any(r.partition.topic == "t" for r in written)


def test_orphans_of_the_topic_are_deleted_with_it() -> None:
    """A dropped replica that was not deleted yet would be left without a record."""
    driver = cluster(acknowledges=False)
    orphan = Orphan(BrokerId(4), tp(), Zxid(9), "dropped")
    driver.commit(Change((OrphanRecord(orphan),)))
    driver.observe(MARKED)
    assert (4, tp()) in deletes(driver)
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    assert wrote(driver, TopicDeletedRecord) == 0
    answer(driver, 4, tp())
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_deletion_waits_only_for_a_while_for_a_dead_broker_with_an_orphan() -> None:
    """It may restart; where it is gone for good, no controller waits for a dropped replica."""
    driver = cluster(acknowledges=False, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.commit(Change((OrphanRecord(Orphan(BrokerId(9), tp(), Zxid(9), "dropped")),)))
    driver.observe(MARKED)
    since = driver.now
    assert deletes(driver) == {(1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))}
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert "broker 9" in progress_of(driver.view, "t")
    driver.now = Instant(since + AWAY_S - 1.0)
    driver.observe(TimerFired(AWAY_TIMER))
    assert wrote(driver, TopicDeletedRecord) == 0
    driver.now = Instant(since + AWAY_S)
    driver.observe(TimerFired(AWAY_TIMER))
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_request_that_a_broker_refuses_as_a_whole_is_reported() -> None:
    """The deletion waits until the broker restarts, and does not keep the role for it."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    epoch = driver.epoch(BrokerId(1))
    driver.observe(StopReplicaAnswered(BrokerId(1), epoch, -1, (), resent=False))
    for to, partition in ((2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert "broker 1 cannot delete a replica (error -1)" in progress_of(driver.view, "t")
    assert wait(driver, 10)
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.observe(StopReplicaAnswered(BrokerId(1), epoch, -1, (), resent=False))
    driver.observe(live(1, 2, 3, 4, bounced=(1,)))
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    informed(driver, 4)
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_broker_with_an_orphan_that_restarts_amid_the_deletion_is_awaited() -> None:
    """It was live at the begin; its log would stay otherwise."""
    driver = cluster(acknowledges=False)
    driver.commit(Change((OrphanRecord(Orphan(BrokerId(4), tp(), Zxid(9), "dropped")),)))
    driver.observe(MARKED)
    driver.observe(live(1, 2, 3))
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    assert wrote(driver, TopicDeletedRecord) == 0
    driver.observe(live(1, 2, 3, 4))
    answer(driver, 4, tp())
    assert wrote(driver, TopicDeletedRecord) == 1


def test_a_bounce_amid_a_deletion_is_kept_until_the_deletion_is_revoked() -> None:
    """No state of the topic is written before; afterwards the broker is no leader."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.observe(live(1, 2, 3, 4, bounced=(2,)))
    driver.observe(DeletionsRead(frozenset()))
    driver.observe(live(2, 3, 4))
    assert driver.view.leadership.states[tp()].leader == -1


# --- races ---------------------------------------------------------------------------------------


def test_a_replica_that_is_recorded_while_requests_are_sent_is_deleted_as_well() -> None:
    """The requests were decided before: the broker is sent another one."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    apply(driver.view, OrphanRecord(Orphan(BrokerId(2), tp(2), Zxid(9), "dropped")), driver.now)
    for delete in (False, True):
        decided = SendStopReplica(tp(1), BrokerId(2), EPOCH_DURING_DELETE, delete)
        record_effect(driver.view, decided, driver.now)
    driver.settle()
    assert (2, tp(2)) in deletes(driver)


def test_reads_from_before_the_deletion_do_not_bring_the_topic_back() -> None:
    """They may arrive late, also when a topic of the same name exists."""
    driver = cluster()
    former = driver.view.topics.by_name["t"]
    read = TopicAssignment(dict(former.partitions), former.version, former.czxid)
    generation = driver.view.role.read_generation
    driver.observe(MARKED)
    driver.observe(replace(TopicsRead({"t": read}), read_generation=generation))
    assert "t" not in driver.view.topics.by_name
    anew = TopicAssignment({0: PartitionAssignment(replicas(3, 4))}, ZkVersion(0), Zxid(77))
    driver.observe(TopicsListed(frozenset({"t", "other"})), TopicsRead({"t": anew}))
    driver.observe(StatesRead({tp(): driver.first_states[tp()]}, read_generation=generation))
    assert tp() not in driver.view.leadership.states
    assert tp() in driver.view.leadership.unseeded


def test_a_marker_that_is_older_than_its_topic_is_only_removed() -> None:
    """The topic was created after a read showed that there was none."""
    driver = cluster()
    driver.view.deletions_session.markers = frozenset({"new"})
    driver.view.deletions.trees["new"] = None
    anew = TopicAssignment({0: PartitionAssignment(replicas(3, 4))}, ZkVersion(0), Zxid(77))
    driver.observe(TopicsListed(frozenset({"t", "other", "new"})), TopicsRead({"new": anew}))
    for known in driver.view.cluster.brokers.values():
        driver.fold(BrokerSettingsRead(known.id, known.epoch, deletes_topics=True))
    driver.settle()
    assert wrote(driver, DeletionBegunRecord) == 0


def test_a_revoked_deletion_stops_and_the_states_are_sent_again() -> None:
    """It is not begun again in this tenure: an answer of the former may be under way."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.sent.clear()
    driver.observe(DeletionsRead(frozenset()))
    sent = {e.partition for e in driver.sent if isinstance(e, SendLeaderAndIsr)}
    assert {tp(), tp(1)} <= sent
    answer(driver, 1, tp())
    driver.sent.clear()
    driver.observe(MARKED)
    assert not deletes(driver)
    assert wrote(driver, TopicDeletedRecord) == 0


def test_a_topic_znode_that_is_written_meanwhile_begins_the_deletion_again() -> None:
    """A new partition has to be deleted, too."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    known = driver.view.topics.by_name["t"]
    more = {**known.partitions, 2: PartitionAssignment(replicas(4, 1))}
    driver.sent.clear()
    driver.observe(TopicsRead({"t": TopicAssignment(more, ZkVersion(known.version + 1), Zxid(9))}))
    driver.observe(StatesRead({tp(2): None}))
    assert wrote(driver, DeletionBegunRecord) == 2
    assert (4, tp(2)) in deletes(driver)


# --- whether topics may be deleted ---------------------------------------------------------------


@pytest.mark.parametrize("is_marked_before", [False, True])
def test_a_topic_that_no_broker_deletes_is_led_and_shown(*, is_marked_before: bool) -> None:
    """A permanent tenure never yields; an older tool writes the marker without asking a broker."""
    driver = cluster(deletes_topics=False, options=Options(tenure=TenurePolicy.PERMANENT))
    states = dict(driver.view.leadership.states)
    driver.observe(MARKED)
    if is_marked_before:
        driver.observe(Deposed("another tenure"), *driver.own_records())
        driver.observe(ControllerClaimed(ControllerEpoch(9)), StatesRead(states))
    driver.observe(live(2, 3, 4))
    driver.observe(TimerFired("any"))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)
    shown = update_metadata_state(driver.view, tp())
    assert shown is not None
    assert shown.leader == BrokerId(2)


@pytest.mark.parametrize("says", [False, None])
def test_without_the_consent_of_every_broker_the_role_is_yielded(*, says: bool | None) -> None:
    """Kafka's controller decides; it removes the marker where deletion is disabled."""
    driver = cluster(deletes_topics=says)
    driver.observe(MARKED)
    assert not deletes(driver)
    assert progress_of(driver.view, "t") == "a broker that is the controller decides"
    assert wrote(driver, YieldedRecord) == 1


def test_no_deletion_begins_while_no_broker_is_live() -> None:
    """None of those that delete no topics is there to say so; they may return."""
    driver = cluster(deletes_topics=False, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(MARKED)
    driver.observe(live())
    assert not deletes(driver)
    assert wrote(driver, DeletionBegunRecord) == 0
    assert "t" not in driver.view.deletions.running


def test_a_broker_that_joins_is_queried_first() -> None:
    """It might be the next controller."""
    driver = cluster(acknowledges=False)
    driver.observe(MARKED)
    driver.deletes_topics = False
    driver.observe(live(1, 2, 3, 4, 5))
    for to, partition in ((1, tp()), (2, tp()), (2, tp(1)), (3, tp(1))):
        answer(driver, to, partition)
    assert wrote(driver, TopicDeletedRecord) == 0


def test_a_deletion_alone_is_no_reason_to_claim_the_role() -> None:
    """The brokers' controller deletes topics."""
    driver = cluster()
    driver.observe(Deposed("resigned"), *driver.own_records())
    driver.sent.clear()
    driver.now = Instant(driver.now + 3600.0)
    driver.observe(MARKED)
    driver.observe(TimerFired("claim"))
    assert not any(isinstance(e, ClaimController) for e in driver.sent)


def test_a_claim_does_not_wait_for_a_deletion_that_the_daemon_carries_out() -> None:
    """Only one that it leaves to a broker delays it."""
    driver = cluster()
    driver.observe(Deposed("resigned"), *driver.own_records())
    driver.now = Instant(driver.now + 3600.0)
    driver.observe(MARKED)
    driver.sent.clear()
    submit(driver, submission(REQUEST, {OTHER: (1, 2, 4)}))
    assert any(isinstance(e, ClaimController) for e in driver.sent)
