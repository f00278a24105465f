"""Whose settings are asked for when only a replica out of sync could lead."""

from __future__ import annotations

from controller.core.effects import DescribeTopicConfigs
from controller.core.events import BrokersRead, TimerFired, TopicConfigsRead
from controller.core.model import NO_LEADER, BrokerId, Instant, TopicConfig
from controller.core.options import Options, TenurePolicy
from controller.core.requests.topic_configs import UNWELL_TIMER
from tests.core.builders import Driver, broker, replicas, tp
from tests.core.walks import watch_reassignments


def stranded() -> Driver:
    """Return a partition whose ISR died, with a live replica that had fallen behind before."""
    options = Options(tenure=TenurePolicy.PERMANENT)
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), options=options)
    driver.change_isr(tp(), replicas(1))
    driver.view.configs.clear()
    driver.view.asked_configs.clear()
    driver.observe(BrokersRead({BrokerId(n): broker(n) for n in (2, 3)}))
    return driver


def settings(*, unclean: bool) -> TopicConfigsRead:
    """Return the topic's settings as read."""
    return TopicConfigsRead({"t": TopicConfig(1, unclean)})


def asked(driver: Driver) -> int:
    """Return how often settings were asked for."""
    return sum(isinstance(effect, DescribeTopicConfigs) for effect in driver.sent)


def test_settings_are_asked_for_once_while_the_answer_is_awaited() -> None:
    """Nobody else would: no reassignment concerns the topic."""
    driver = stranded()
    assert driver.view.states[tp()].leader == NO_LEADER
    assert asked(driver) == 1
    driver.observe(BrokersRead({BrokerId(n): broker(n) for n in (2, 3, 4)}))
    assert asked(driver) == 1


def test_a_replica_out_of_sync_leads_as_soon_as_the_topic_is_known_to_allow_it() -> None:
    """Its ISR is itself alone."""
    driver = stranded()
    driver.observe(settings(unclean=True))
    state = driver.view.states[tp()]
    assert (state.leader, state.isr) == (2, replicas(2))


def test_settings_that_forbid_it_are_read_again_later() -> None:
    """An operator who gives records up changes the setting while the partition is offline."""
    driver = stranded()
    driver.observe(settings(unclean=False))
    assert driver.view.states[tp()].leader == NO_LEADER
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    driver.observe(TimerFired(UNWELL_TIMER))
    assert asked(driver) == 2
    driver.observe(settings(unclean=True))
    assert driver.view.states[tp()].leader == 2


def test_nothing_is_asked_while_every_replica_is_dead() -> None:
    """No setting would help."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({BrokerId(3): broker(3)}))
    assert driver.view.states[tp()].leader == NO_LEADER
    assert asked(driver) == 0


def test_settings_that_cannot_be_read_are_told_in_one_walk_however_many_topics_lack_them() -> None:
    """A broker that does not answer fails all at once, and the loop has its lease to keep."""
    topics = [f"t{n}" for n in range(20)]
    driver = Driver({tp(n, topic): (1, 2) for topic in topics for n in range(2)})
    driver.submit({tp(n, topic): (1, 3) for topic in topics for n in range(2)})
    reassignments = watch_reassignments(driver.view)
    driver.fold(TopicConfigsRead(dict.fromkeys(topics, "broker 1 does not answer")))
    assert reassignments.walked == len(driver.assignments)
    assert driver.view.due.partitions.keys() == driver.assignments.keys()
