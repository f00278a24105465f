"""What passes through the inbox is kept for those that ask without the loop."""

from __future__ import annotations

from controller.brokers.broker_follower import BrokerFollower
from controller.core.model import PartitionAssignment, TopicAssignment, ZkVersion, Zxid
from controller.core.records import Event
from controller.core.topics.records import TopicsListed, TopicsRead
from tests.core.builders import replicas


class Inbox:
    """Record the events that are put into it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        """Take an event."""
        self.events.append(event)


def read(topic_id: str | None, czxid: int = 9) -> TopicAssignment:
    """Return a topic with an id."""
    partitions = {0: PartitionAssignment(replicas(1, 2))}
    return TopicAssignment(partitions, ZkVersion(0), Zxid(czxid), topic_id)


def test_topics_are_known_by_their_ids_while_they_exist() -> None:
    """One without an id, or whose znode is unreadable or gone, has none."""
    inner = Inbox()
    follower = BrokerFollower(inner)
    events: list[Event] = [
        TopicsListed(frozenset({"a", "b", "c", "d"})),
        TopicsRead({"a": read("1"), "b": read(None), "c": "no JSON", "d": None}),
        TopicsRead({"b": read("2")}),
    ]
    for event in events:
        follower.put(event)
    assert follower.topics == {"a", "b", "c", "d"}
    assert follower.names_by_id == {"1": "a", "2": "b"}
    follower.put(TopicsListed(frozenset({"b"})))
    assert follower.names_by_id == {"2": "b"}
    assert inner.events[:3] == events


def test_topic_that_is_created_again_is_another() -> None:
    """Whether or not a listing showed the gap, and before it is read itself."""
    follower = BrokerFollower(Inbox())
    follower.put(TopicsListed(frozenset({"a", "b"})))
    assert follower.exists("a", Zxid(9))
    follower.put(TopicsRead({"a": read(None), "b": read(None)}))
    assert follower.exists("a", Zxid(9))
    follower.put(TopicsRead({"a": read(None, czxid=12)}))
    follower.put(TopicsRead({"a": read(None)}))
    assert not follower.exists("a", Zxid(9)), "an older read may arrive later"
    assert follower.exists("a", Zxid(12))
    assert follower.exists("b", Zxid(9))
    follower.put(TopicsListed(frozenset({"a"})))
    assert not follower.exists("b", Zxid(9))
    follower.put(TopicsListed(frozenset({"a", "b"})))
    follower.put(TopicsRead({"b": read(None, czxid=15)}))
    assert not follower.exists("b", Zxid(9))
