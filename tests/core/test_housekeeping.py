"""The smaller duties of a tenure."""

from __future__ import annotations

import pytest

from controller.core.effects import SendStopReplica
from controller.core.events import Orphan, OrphansRead, TopicsListed
from controller.core.model import BrokerId, TopicPartition, Zxid
from controller.core.records import OrphanEndedRecord
from controller.core.tenures import has_work
from tests.core.builders import Driver, tp

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
