"""The smaller duties of a tenure."""

from __future__ import annotations

import pytest

from controller.core.effects import SendStopReplica
from controller.core.events import BrokersRead, LegacyPlanRead, Orphan, OrphansRead, TopicsListed
from controller.core.model import BrokerId, TopicPartition, Zxid
from controller.core.records import OrphanEndedRecord
from controller.core.tenures import has_work
from tests.core.builders import Driver, broker, plan, tp

TOPIC_CZXID = 9
"""Of every topic the driver makes."""


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
    assert driver.view.orphans == {}
    assert any(OrphanEndedRecord(orphan) in change.records for change in driver.changes)
    assert not any(isinstance(effect, SendStopReplica) for effect in driver.sent)
    assert not has_work(driver.view, driver.now)


def test_a_record_is_kept_while_its_topic_may_exist() -> None:
    """A dead broker is waited for; when its topic is deleted meanwhile the record goes."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    orphan = Orphan(BrokerId(4), tp(), Zxid(TOPIC_CZXID), "not live")
    driver.observe(OrphansRead(frozenset({orphan})))
    assert set(driver.view.orphans.values()) == {orphan}
    driver.observe(TopicsListed(frozenset()))
    assert driver.view.orphans == {}


def test_a_broker_whose_disk_failed_under_a_deletion_is_not_believed_before_it_registers_anew() -> (
    None
):
    """It has forgotten the replica and would answer NONE, with the directory still there."""
    driver = Driver({tp(): (1, 2, 3)}, failing={BrokerId(2)})
    before = driver.epoch(BrokerId(2))
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    (orphan,) = driver.view.orphans.values()
    assert (orphan.broker, orphan.failed_in) == (2, before)
    assert deletions(driver, 2) == 1
    driver.restart()
    driver.acknowledge(tp(), driver.view.brokers)
    driver.observe(OrphansRead(frozenset({orphan})))
    assert deletions(driver, 2) == 1
    driver.observe(BrokersRead({**driver.view.brokers, BrokerId(2): broker(2, epoch=500)}))
    assert deletions(driver, 2) == 2
    assert driver.view.orphans == {}


def test_a_replica_is_not_added_where_its_old_copy_is_on_a_failed_disk() -> None:
    """With the disk back, the broker would find two logs of one partition and not start."""
    driver = Driver({tp(): (1, 2, 3)}, failing={BrokerId(2)})
    driver.submit({tp(): (1, 3)})
    driver.run(tp())
    driver.restart()
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2, 3)}, czxid=60)))
    blocked = driver.view.reassignments[tp()].blocked
    assert blocked is not None
    assert blocked.detail == "broker 2 has its old copy on a failed disk"


def deletions(driver: Driver, broker_id: int) -> int:
    """Return how often a broker was asked to delete a replica."""
    return sum(
        isinstance(effect, SendStopReplica) and effect.delete and effect.broker == broker_id
        for effect in driver.sent
    )
