"""Topic ids: which requests carry them, topics that lack one, and brokers that refuse one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.cluster import protocols
from controller.core.cluster.model import LiveBroker
from controller.core.effects import (
    ClaimController,
    Effect,
    ReadTopics,
    SendLeaderAndIsr,
    SendUpdateMetadata,
)
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    StateCreatedRecord,
    StatesRead,
)
from controller.core.model import (
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import BrokerSettingsRead, BrokersRead, ControllerClaimed, Deposed
from controller.core.topics.records import TopicIdRecord, TopicsListed, TopicsRead
from controller.kafka_errors import INCONSISTENT_TOPIC_ID
from tests.core.builders import EPOCH, SERVING, Driver, plan, replicas, tp

KNOWN = "a" * 22
OTHER = "b" * 22


def driver_of(protocol: str) -> Driver:
    """Return a cluster of this protocol, with a topic that has no id yet."""
    return Driver({tp(): (1, 2)}, protocol=protocol, options=SERVING, brokers=(1, 2, 3))


def restarted(driver: Driver, *ids: int) -> dict[BrokerId, LiveBroker]:
    """Return the live brokers after a restart of some."""
    live = driver.view.cluster.brokers
    return {b: driver.registration(b, live[b].epoch - b + 1000 * (b in ids)) for b in live}


def ids_written(driver: Driver) -> list[TopicIdRecord]:
    """Return the ids written so far."""
    return [r for c in driver.changes for r in c.records if isinstance(r, TopicIdRecord)]


def read(driver: Driver, topic_id: str | None, *, version: int = 5, czxid: int = 9) -> None:
    """Have the topic read with this id, as another client wrote it."""
    partitions = {0: PartitionAssignment(replicas(1, 2))}
    found = TopicAssignment(partitions, ZkVersion(version), Zxid(czxid), topic_id)
    driver.observe(TopicsRead({"t": found}))


# --- the protocol of a tenure --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "sent", "assigned"),
    [("2.7", False, False), ("2.8-IV0", False, True), ("2.8", True, True), ("3.9-IV0", True, True)],
)
def test_ids_follow_the_protocol(protocol: str, *, sent: bool, assigned: bool) -> None:
    """As with Kafka's controller: 2.8-IV0 stores them and 2.8-IV1 sends them."""
    driver = driver_of(protocol)
    assert driver.view.tenure.protocol == protocol
    assert protocols.sends_ids(driver.view) is sent
    assert bool(ids_written(driver)) is assigned


def test_lowest_protocol_of_the_live_brokers_counts() -> None:
    """Half of the brokers with ids would fetch by ids that the others do not know."""
    driver = driver_of("3.9")
    driver.protocol = "2.7-IV2"
    driver.observe(BrokersRead(restarted(driver, 3)))
    assert driver.view.tenure.protocol == "2.7-IV2"
    driver.protocol = "3.9"
    driver.sent.clear()
    driver.observe(BrokersRead(restarted(driver, 3)))
    assert driver.view.tenure.protocol == "3.9"
    assert SendLeaderAndIsr(tp(), replicas(1, 2)) in driver.sent
    assert SendUpdateMetadata((tp(),)) in driver.sent


def test_brokers_of_before_2_7_are_not_queried() -> None:
    """Their registrations say enough."""
    driver = Driver({tp(): (1, 2)})
    assert driver.view.tenure.protocol == "2.6"
    assert not driver.view.cluster.broker_settings


def test_ids_are_sent_where_no_broker_says_its_protocol_and_none_is_made_up() -> None:
    """The daemon may lack the right to describe brokers."""
    driver = driver_of("")
    assert protocols.sends_ids(driver.view)
    assert not ids_written(driver)


def test_claim_waits_a_while_for_the_protocol() -> None:
    """Requests without ids would take them from logs."""
    driver = driver_of("3.9")
    driver.observe(Deposed("test"))
    driver.now = Instant(driver.now + 60)
    known = driver.view.cluster.broker_settings
    known[BrokerId(1)] = known[BrokerId(1)]._replace(is_known=False, requested_at=driver.now)
    driver.sent.clear()
    driver.observe(*driver.own_records(), LegacyPlanRead(plan({tp(): (1, 3)})))
    assert not _claims(driver.sent)
    driver.observe(
        BrokerSettingsRead(BrokerId(1), driver.epoch(BrokerId(1)), None, "silent"),
    )
    assert _claims(driver.sent)


def _claims(sent: list[Effect]) -> bool:
    return any(isinstance(effect, ClaimController) for effect in sent)


# --- topics without an id ------------------------------------------------------------------------


def test_topic_gets_its_id_once_and_brokers_are_sent_it() -> None:
    """At the present leader epoch, which they accept for a log without an id."""
    driver = driver_of("3.9")
    (record,) = ids_written(driver)
    topic = driver.view.topics.by_name["t"]
    assert (topic.topic_id, topic.lacks_id, topic.version) == (record.topic_id, False, 1)
    assert driver.view.topics.names_by_id == {record.topic_id: "t"}
    assert not driver.view.topics.without_id
    assert len(record.topic_id) == 22
    driver.restart()
    assert len(ids_written(driver)) == 1


def test_id_that_comes_after_the_states_is_sent_with_all_of_them() -> None:
    """A tool may write a topic without one at any time."""
    driver = driver_of("3.9")
    driver.sent.clear()
    read(driver, None)
    assert SendLeaderAndIsr(tp(), replicas(1, 2)) in driver.sent
    assert SendUpdateMetadata((tp(),)) in driver.sent


def test_known_id_is_written_back_to_the_same_topic() -> None:
    """Old managers restore topics in format 1; brokers would refuse another id."""
    driver = driver_of("3.9")
    read(driver, KNOWN)
    read(driver, None, version=6)
    assert ids_written(driver)[-1] == TopicIdRecord("t", KNOWN)
    read(driver, None, version=9, czxid=77)
    assert ids_written(driver)[-1].topic_id != KNOWN


def test_known_id_is_kept_where_none_is_assigned() -> None:
    """Whatever wrote the znode, the logs have it."""
    driver = driver_of("")
    read(driver, KNOWN)
    read(driver, None, version=6)
    assert driver.view.topics.by_name["t"].topic_id == KNOWN
    assert not ids_written(driver)


def test_id_is_based_on_a_read_of_this_tenure() -> None:
    """The topic may have been created again since, at the same version."""
    driver = driver_of("2.7")
    driver.observe(Deposed("test"))
    driver.observe(*driver.own_records())
    driver.protocol = "3.9"
    driver.answers_topics = False
    driver.observe(BrokersRead(restarted(driver, 1, 2, 3)))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(driver.first_states))
    assert not ids_written(driver)
    assert any(isinstance(e, ReadTopics) and e.topics == ("t",) for e in driver.sent)
    read(driver, None)
    assert len(ids_written(driver)) == 1


def test_new_topic_has_its_id_before_its_first_state() -> None:
    """Its logs begin with it."""
    driver = driver_of("3.9")
    driver.changes.clear()
    found = TopicAssignment({0: PartitionAssignment(replicas(2, 3))}, ZkVersion(0), Zxid(90))
    driver.observe(TopicsListed(frozenset({"t", "new"})), TopicsRead({"new": found}))
    driver.observe(StatesRead({tp(0, "new"): None}))
    kinds = [
        type(r)
        for c in driver.changes
        for r in c.records
        if isinstance(r, TopicIdRecord | StateCreatedRecord)
    ]
    assert kinds == [TopicIdRecord, StateCreatedRecord]


def test_ids_differ_between_processes_and_topics() -> None:
    """Clusters may share a store that is keyed by them."""
    one, other = driver_of("3.9"), driver_of("3.9")
    other.view.options = replace(other.view.options, id_seed=b"another")
    for driver in (one, other):
        read(driver, None, version=9, czxid=77)
    found = [record.topic_id for driver in (one, other) for record in ids_written(driver)]
    assert len(set(found)) == 3  # Both began with the same seed and topic.
    assert not any(topic_id.startswith("-") for topic_id in found)


# --- brokers that refuse an id -------------------------------------------------------------------


def conflict(driver: Driver, to: int, error: int = INCONSISTENT_TOPIC_ID) -> None:
    """Have a broker answer the present state of the partition with an error."""
    epoch = driver.view.leadership.states[tp()].leader_epoch
    result = LeaderAndIsrResult(tp(), epoch, error)
    broker = BrokerId(to)
    driver.observe(LeaderAndIsrAnswered(broker, driver.epoch(broker), 0, (result,), resent=False))


def test_copy_on_a_broker_that_refuses_the_id_says_so_and_waits() -> None:
    """Nothing is sent again: it refuses until the old log is removed and it restarts."""
    driver = driver_of("3.9")
    driver.submit({tp(): (1, 3)})
    driver.sent.clear()
    conflict(driver, 3)
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert (blocked.by, blocked.is_copying) == (BlockedBy.REPLICA_NOT_IN_ISR, False)
    assert "broker 3 has a log of another topic" in blocked.detail
    assert not any(isinstance(e, SendLeaderAndIsr) for e in driver.sent)
    driver.observe(BrokersRead(restarted(driver, 3)))
    assert any(isinstance(e, SendLeaderAndIsr) and 3 in e.brokers for e in driver.sent)
    assert not driver.view.leadership.id_conflicts
    driver.run(tp())


def test_refusal_by_the_leader_is_no_acknowledgement() -> None:
    """The dropped replica is kept."""
    driver = driver_of("3.9")
    driver.acknowledges = False
    driver.submit({tp(): (1,)})
    conflict(driver, 1)
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.LEADER_ACK
    assert "broker 1 has a log of another topic" in blocked.detail
    conflict(driver, 1, 0)
    assert not driver.view.leadership.id_conflicts


def test_leader_whose_bounce_waits_is_not_sent_an_id() -> None:
    """The next leader epoch that it hears of is that of the repair."""
    driver = driver_of("2.8")
    driver.view.topics.by_name["t"].stale = True
    driver.answers_topics = False
    driver.sent.clear()
    driver.observe(BrokersRead(restarted(driver, 1)))
    read(driver, None)
    assert len(ids_written(driver)) == 2
    assert not [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    driver.observe(StatesRead(dict(driver.view.leadership.states)))
    assert driver.view.leadership.states[tp()].leader == 2
    assert [e.brokers for e in driver.sent if isinstance(e, SendLeaderAndIsr)] == [replicas(1, 2)]
