"""States that are missing or not readable at the first read are read until they are there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.core.effects import ReadPurpose, ReadStates, SendLeaderAndIsr
from controller.core.leadership.cluster_loading import MISSING_EVERY_S, MISSING_TIMER, ROUND_STATES
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.phases import Syncing
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from tests.core.builders import Driver, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit

NEW = tp(0, "new")


def state(leader: int, *isr: int, version: int = 0) -> PartitionState:
    """Return a state as a controller writes the first one."""
    return PartitionState(
        BrokerId(leader), LeaderEpoch(0), replicas(*isr), ControllerEpoch(1), ZkVersion(version)
    )


def topic(*ids: int, partitions: int = 1, czxid: int = 70, version: int = 0) -> TopicAssignment:
    """Return a topic all of whose partitions have these replicas."""
    assignment = PartitionAssignment(replicas(*ids))
    return TopicAssignment(
        dict.fromkeys(range(partitions), assignment), ZkVersion(version), Zxid(czxid)
    )


def create(driver: Driver, name: str, read: TopicAssignment) -> None:
    """Let a topic come into being; its states are read before a controller wrote them."""
    listed = (driver.view.topics.listed or frozenset()) | {name}
    driver.observe(TopicsListed(listed), TopicsRead({name: read}))
    driver.observe(StatesRead({TopicPartition(name, n): None for n in read.partitions}))
    driver.observe(TopicConfigsRead({name: TopicConfig(1, False)}))  # noqa: FBT003


def missing(driver: Driver) -> list[tuple[TopicPartition, ...]]:
    """Return which states were read again so far because there were none."""
    reads = (e for e in driver.sent if isinstance(e, ReadStates))
    return [r.partitions for r in reads if r.purpose is ReadPurpose.MISSING]


def submit_entries(driver: Driver, entries: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Submit a request."""
    submit(driver, submission("request_0000000000", entries))


def test_a_topic_created_after_the_daemon_started_is_moved() -> None:
    """The first read comes before the controller's first write: another one follows."""
    driver = DelegatedDriver({tp(): (0, 1)})
    create(driver, "new", topic(1, 2))
    submit_entries(driver, {NEW: (1, 3)})
    assert missing(driver) == [(NEW,)]
    driver.pass_time(MISSING_EVERY_S)
    assert missing(driver) == [(NEW,), (NEW,)]
    driver.observe(StatesRead({NEW: state(1, 1, 2)}, armed=frozenset({NEW})))
    driver.run(NEW)
    assert driver.assignment(NEW).replicas == (1, 3)
    driver.pass_time(MISSING_EVERY_S)
    assert len(missing(driver)) == 2


def test_partitions_added_to_a_topic_are_moved() -> None:
    """The same where the topic is known and has states."""
    driver = DelegatedDriver({tp(): (0, 1)})
    driver.observe(TopicsRead({"t": topic(0, 1, partitions=2, czxid=9, version=1)}))
    driver.observe(StatesRead({tp(1): None}))
    submit_entries(driver, {tp(1): (1, 3)})
    assert missing(driver) == [(tp(1),)]
    driver.observe(StatesRead({tp(1): state(0, 0, 1)}, armed=frozenset({tp(1)})))
    driver.run(tp(1))
    assert driver.assignment(tp(1)).replicas == (1, 3)


def test_a_topic_created_anew_is_moved_by_its_own_states() -> None:
    """What was known of the topic of that name before does not outlive it."""
    driver = DelegatedDriver({tp(0): (0, 1), tp(1): (0, 1)})
    driver.change_isr(tp(0), replicas(0))
    create(driver, "t", topic(2, 3, partitions=3))
    assert not driver.view.leadership.states
    submit_entries(driver, {tp(2): (1, 3), tp(0): (2, 1)})
    assert set(missing(driver)[-1]) == {tp(0), tp(2)}
    anew = {tp(n): state(2, 2, 3) for n in (0, 2)}
    driver.observe(StatesRead(anew, armed=frozenset(anew)))
    for partition in anew:
        driver.run(partition)
    assert driver.assignment(tp(0)).replicas == (2, 1)
    assert driver.assignment(tp(2)).replicas == (1, 3)


def test_states_without_a_reassignment_are_read_in_rounds_only() -> None:
    """A new topic counts for the health of the cluster without being moved."""
    driver = DelegatedDriver({tp(): (0, 1)})
    create(driver, "new", topic(1, 2))
    driver.pass_time(MISSING_EVERY_S)
    assert missing(driver) == []
    driver.sent.clear()
    submit_entries(driver, {tp(): (0, 3)})
    rounds = [
        e for e in driver.sent if isinstance(e, ReadStates) and e.purpose is ReadPurpose.ROUND
    ]
    assert NEW in rounds[0].partitions
    assert missing(driver) == []


def test_many_missing_states_are_read_at_once_and_less_often() -> None:
    """One pipelined read for all of them; the more there are the longer the pause."""
    count = ROUND_STATES + 1
    driver = DelegatedDriver({tp(): (0, 1)})
    create(driver, "new", topic(1, 2, partitions=count))
    submit_entries(driver, {tp(n, "new"): (1, 3) for n in range(count)})
    while len(missing(driver)[-1]) < count:
        driver.pass_time(MISSING_EVERY_S / 10)
    driver.sent.clear()
    driver.pass_time(1.9 * MISSING_EVERY_S)
    assert missing(driver) == []
    driver.pass_time(0.2 * MISSING_EVERY_S)
    assert [len(read) for read in missing(driver)] == [count]


@pytest.mark.parametrize("kind", [Driver, DelegatedDriver])
def test_a_state_that_cannot_be_understood_says_so_and_is_read_again(kind: type[Driver]) -> None:
    """It was for ever "being read"; once repaired, the brokers are introduced to it."""
    driver = kind({tp(): (0, 1)})
    create(driver, "new", topic(1, 2))
    driver.view.leadership.states.pop(NEW, None)
    driver.observe(StatesRead({NEW: "not JSON"}))
    submit_entries(driver, {NEW: (1, 3)})
    blocked = driver.view.reassignments.by_partition[NEW].blocked
    assert blocked is not None
    assert blocked.detail == "its state znode cannot be decoded: not JSON"
    assert missing(driver) == [(NEW,)]
    driver.sent.clear()
    driver.observe(StatesRead({NEW: state(1, 1, 2)}, armed=frozenset({NEW})))
    introduced = {e.partition for e in driver.sent if isinstance(e, SendLeaderAndIsr)}
    assert introduced == ({NEW} if kind is Driver else set())
    driver.run(NEW)
    assert NEW not in driver.view.reassignments.by_partition


def test_a_watch_that_could_not_be_set_is_set_once_the_state_can_be_read() -> None:
    """No order goes out on a state that may have changed since."""
    driver = DelegatedDriver({tp(): (0, 1)})
    driver.answers_states = False
    submit_entries(driver, {tp(): (0, 3)})
    driver.observe(StatesRead({tp(): "NoAuthError"}, armed=frozenset()))
    assert driver.orders == []
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert "NoAuthError" in blocked.detail
    driver.observe(StatesRead({tp(): state(0, 0, 1)}))
    assert ReadStates((tp(),), ReadPurpose.WATCH) in driver.sent[-1:]
    driver.answers_states = True
    driver.observe(StatesRead({tp(): state(0, 0, 1)}, armed=frozenset({tp()})))
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Syncing)


def test_the_next_read_has_a_time() -> None:
    """A cluster in which nothing else happens wakes no loop."""
    driver = DelegatedDriver({tp(): (0, 1)})
    create(driver, "new", topic(1, 2))
    submit_entries(driver, {NEW: (1, 3)})
    assert MISSING_TIMER in {getattr(e, "name", None) for e in driver.sent}
