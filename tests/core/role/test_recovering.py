"""Unclean elections mark the partition until its leader says that it recovered (KIP-704)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.leadership.model import RECOVERED, RECOVERING
from controller.core.leadership.records import StatesRead
from controller.core.model import BrokerId, PartitionState, TopicConfig, ZkVersion
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicConfigsRead
from tests.core.builders import SERVING, Driver, replicas, tp


def elected(protocol: str | None, before: int = RECOVERED) -> tuple[Driver, PartitionState]:
    """Return the state after an unclean election of broker 2."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), protocol=protocol, options=SERVING)
    driver.change_isr(tp(), replicas(1))
    state = replace(driver.view.leadership.states[tp()], leader_recovery_state=before)
    driver.view.leadership.states[tp()] = state
    driver.observe(BrokersRead({BrokerId(b): driver.registration(b) for b in (2, 3)}))
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=True)}))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))
    return driver, state


@pytest.mark.parametrize(
    ("protocol", "marked"),
    [(None, RECOVERED), ("3.1", RECOVERED), ("3.2-IV0", RECOVERING), ("3.9", RECOVERING)],
)
def test_unclean_election_marks_the_partition(protocol: str | None, marked: int) -> None:
    """As Kafka's controller does from 3.2 on; leaders of before do not know it."""
    assert elected(protocol)[1].leader_recovery_state == marked


def test_mark_is_kept_where_it_is_not_understood() -> None:
    """A controller of a later protocol wrote it."""
    assert elected("3.1", RECOVERING)[1].leader_recovery_state == RECOVERING


def test_clean_election_keeps_the_state() -> None:
    """Its leader says when the partition recovered, whichever that is."""
    for before in (RECOVERED, RECOVERING):
        driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), protocol="3.9", options=SERVING)
        state = replace(driver.view.leadership.states[tp()], leader_recovery_state=before)
        driver.view.leadership.states[tp()] = state
        driver.observe(BrokersRead({BrokerId(b): driver.registration(b) for b in (2, 3)}))
        assert driver.view.leadership.states[tp()].leader_recovery_state == before


def test_recovering_partition_is_moved_with_its_mark() -> None:
    """A step keeps leader and ISR; its leader ends the recovery with the first new member."""
    driver, _ = elected("3.9")
    driver.states[tp()].clear()
    driver.submit({tp(): (2, 3)})
    begun = driver.view.leadership.states[tp()]
    assert (begun.leader, begun.isr) == (BrokerId(2), replicas(2))
    assert begun.leader_recovery_state == RECOVERING
    recovered = replace(
        begun,
        isr=replicas(2, 3),
        version=ZkVersion(begun.version + 1),
        leader_recovery_state=RECOVERED,
    )
    driver.observe(StatesRead({tp(): recovered}, armed=frozenset({tp()})))
    driver.run(tp())
    assert all(
        s.leader_recovery_state == RECOVERED or s.isr == (s.leader,) for s in driver.states[tp()]
    )
    assert driver.view.topics.by_name["t"].partitions[0].replicas == replicas(2, 3)
