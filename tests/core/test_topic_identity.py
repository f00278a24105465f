"""A topic is its czxid and its id: a later one of the same name has nothing of the former."""

from __future__ import annotations

from controller.core import broker_requests, lost_asks
from controller.core.broker_requests import (
    AlterPartition,
    AlterPartitionResponse,
    IsrResult,
)
from controller.core.events import TopicsListed, TopicsRead
from controller.core.model import (
    BrokerId,
    LeaderEpoch,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from tests.core.builders import Driver, broker, replicas, tp
from tests.core.counting_dicts import Walked

ONE = {0: PartitionAssignment(replicas(1, 2, 3))}
LEADER = BrokerId(1)


def refused(topic_id: str) -> IsrResult:
    """Return the refusal of an ISR change, as leaders from version 2 on get it."""
    return IsrResult(
        topic=None,
        topic_id=topic_id,
        partition=0,
        error=broker_requests.INELIGIBLE_REPLICA,
        leader=LEADER,
        leader_epoch=LeaderEpoch(0),
        isr=(),
        leader_recovery_state=0,
        partition_epoch=ZkVersion(1),
    )


def test_name_of_an_id_is_looked_up_whatever_the_number_of_topics() -> None:
    """An answer has thousands of partitions, and a cluster thousands of topics."""
    driver = Driver({tp(): (1, 2, 3)})
    ids = {f"t{n}": f"{n:022}" for n in range(50)}
    driver.observe(
        TopicsListed(frozenset(ids)),
        TopicsRead({n: TopicAssignment(ONE, ZkVersion(0), Zxid(9), i) for n, i in ids.items()}),
    )
    driver.view.session.topics = topics = Walked(driver.view.session.topics)
    request = AlterPartition(LEADER, broker(1).epoch, 3, ())
    answer = AlterPartitionResponse(0, tuple(map(refused, ids.values())))
    lost_asks.answered(driver.view, request, answer, driver.now)
    assert driver.view.tenure.told_ineligible.keys() == {tp(0, name) for name in ids}
    assert not topics.walked


def test_id_of_a_topic_that_is_gone_or_another_names_none() -> None:
    """The index follows what is known of topics."""
    driver = Driver({tp(): (1, 2, 3)})
    session = driver.view.session
    for czxid, topic_id in ((9, "first"), (50, "second")):
        found = TopicAssignment(ONE, ZkVersion(1), Zxid(czxid), topic_id)
        driver.observe(TopicsRead({"t": found}))
        assert session.names_by_id == {topic_id: "t"}
    assert session.name_of(None, "first") is None
    driver.observe(TopicsListed(frozenset()))
    assert not session.names_by_id
