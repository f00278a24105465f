"""
Writes that are rejected as the marker of a topic's deletion is not as it was read.

The topic is read again at once, its marker later, as there may be much to read on its thread. A
write that is decided again by the topic alone is rejected again and again.
"""

from __future__ import annotations

from controller.core.calls.client_requests import DeleteTopics, DeleteTopicsAnswer, TopicToDelete
from controller.core.calls.records import ClientRequestReceived
from controller.core.core_settings import Options, TenurePolicy
from controller.core.cycle import record_effect
from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.effects import Effect, ReadTopics, Respond, SendLeaderAndIsr
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.records import Change
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.reactor.commits import Commits
from controller.reactor.ports import Failpoints, WriteError, ZnodeFamily
from controller.znodes import paths
from tests.core.builders import Driver, broker, replicas, tp
from tests.reactor.stores import NotingStore
from tests.sim.histories import SilentObserver

MARKED = DeletionsRead(frozenset({"t"}))


class MarkedTopic(Driver):
    """A tenure in which topics are read again at once, and markers are not."""

    def __init__(self, *, deletes_topics: bool | None = True) -> None:
        """Begin with a topic, and with nothing refused."""
        self.store = NotingStore()
        self._commits: Commits | None = None
        super().__init__(
            {tp(): (1, 2)},
            brokers=(1, 2),
            options=Options(
                tenure=TenurePolicy.PERMANENT, endpoint=broker(1_000_000), serves_clients=True
            ),
            deletes_topics=deletes_topics,
        )
        observer = SilentObserver()
        self._commits = Commits(self.view, self.store, observer, Failpoints(), self._carry_out)

    def commit(self, change: Change) -> None:
        """Write a change."""
        if self._commits is None:
            super().commit(change)
        else:
            self._commits.commit([change], self.now)

    def _carry_out(self, effect: Effect, now: Instant) -> None:
        record_effect(self.view, effect, now)
        if isinstance(effect, ReadTopics):
            self.answer(effect)

    def refuse_marker(self, error: WriteError, topic: str = "t") -> None:
        """Let ZooKeeper refuse every operation on a marker."""
        self.store.refused = {paths.deletion_path(topic): error}

    @property
    def markers(self) -> frozenset[str] | None:
        """The topics that are known to be marked."""
        return self.view.deletions_session.markers


def test_a_deletion_whose_marker_is_gone_does_not_begin() -> None:
    """It was the marker of a former topic of the name: the present one is served."""
    driver = MarkedTopic()
    driver.refuse_marker(WriteError.NO_NODE)
    driver.observe(MARKED)
    assert driver.store.znodes == [ZnodeFamily.DELETIONS]
    assert driver.markers == frozenset()
    driver.observe(BrokersRead({BrokerId(2): broker(2)}))
    assert driver.view.leadership.states[tp()].leader == 2


def test_an_outdated_read_of_a_marker_is_one_more_attempt() -> None:
    """It began before the marker was gone; the next read does not show it."""
    driver = MarkedTopic()
    driver.refuse_marker(WriteError.NO_NODE)
    driver.observe(MARKED)
    driver.observe(MARKED)
    assert driver.store.znodes == [ZnodeFamily.DELETIONS] * 2
    assert driver.markers == frozenset()


def test_a_deletion_that_proves_to_be_revoked_at_its_end_is_stopped() -> None:
    """Brokers are sent the states again, as where a read shows it."""
    driver = MarkedTopic()
    driver.acknowledges = False
    driver.observe(MARKED)
    assert driver.view.deletions.running["t"].has_begun
    driver.refuse_marker(WriteError.NO_NODE)
    driver.sent.clear()
    driver.acknowledges = True
    driver.observe(BrokersRead({BrokerId(n): broker(n, epoch=500) for n in (1, 2)}))
    assert driver.view.deletions.revoked == {"t"}
    assert driver.store.znodes == [ZnodeFamily.DELETIONS]
    assert SendLeaderAndIsr(tp(), replicas(1, 2)) in driver.sent


def test_a_deletion_that_another_client_requested_first_is_no_error() -> None:
    """Its marker is not read yet; the client is answered nevertheless."""
    driver = MarkedTopic(deletes_topics=None)
    driver.refuse_marker(WriteError.NODE_EXISTS)
    request = DeleteTopics((TopicToDelete("t", None),), 20.0)
    driver.observe(ClientRequestReceived(1, request, driver.permission))
    assert ZnodeFamily.DELETIONS in driver.store.znodes
    assert driver.markers == frozenset({"t"})
    (answer,) = [e.response for e in driver.sent if isinstance(e, Respond)]
    assert isinstance(answer, DeleteTopicsAnswer)
    assert [(r.name, r.error) for r in answer.results] == [("t", 0)]


def test_a_marker_without_a_topic_that_is_gone_is_not_deleted_again() -> None:
    """An operator removed it."""
    driver = MarkedTopic()
    driver.refuse_marker(WriteError.NO_NODE, "unknown")
    driver.observe(DeletionsRead(frozenset({"unknown"})))
    assert driver.store.znodes == [ZnodeFamily.DELETIONS]
    assert driver.markers == frozenset()


def test_a_topic_that_is_created_before_its_marker_proves_to_be_gone_is_led() -> None:
    """An operator removed the marker; no read of the markers shows a difference any more."""
    driver = MarkedTopic()
    driver.refuse_marker(WriteError.NO_NODE, "n")
    made = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(90))
    driver.observe(
        DeletionsRead(frozenset({"n"})),
        TopicTreesRead({"n": None}),
        TopicsListed(frozenset({"t", "n"})),
        TopicsRead({"n": made}),
        StatesRead({tp(0, "n"): None}),
    )
    assert driver.view.leadership.states[tp(0, "n")].leader == 1
