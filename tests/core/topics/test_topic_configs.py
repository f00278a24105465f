"""Queries of topic settings, also for elections of a replica out of sync."""

from __future__ import annotations

from controller.core.core_settings import Options, TenurePolicy
from controller.core.effects import DescribeTopicConfigs, SetTimer
from controller.core.model import (
    NO_LEADER,
    BlockedBy,
    BrokerId,
    Instant,
    PartitionAssignment,
    RefusalReason,
    TopicAssignment,
    TopicConfig,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.records import TimerFired
from controller.core.requests.records import RefusalRecord
from controller.core.role.records import BrokersRead, Deposed, LeadershipLost
from controller.core.topics.records import TopicConfigsRead, TopicsRead
from controller.core.topics.topic_configs import CONFIG_TIMER, UNWELL_TIMER
from tests.core.builders import Driver, broker, replicas, requested_now, tp
from tests.core.counting_dicts import watch_reassignments
from tests.core.requests.test_submitted import submission, submit


def stranded() -> Driver:
    """Return a partition whose ISR died, with a live replica that had fallen behind before."""
    options = Options(tenure=TenurePolicy.PERMANENT)
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), options=options)
    driver.change_isr(tp(), replicas(1))
    driver.observe(BrokersRead({BrokerId(n): broker(n) for n in (2, 3)}))
    return driver


def settings(*, unclean: bool) -> TopicConfigsRead:
    """Return the topic's settings as read."""
    return TopicConfigsRead({"t": TopicConfig(1, unclean)})


def request_count(driver: Driver) -> int:
    """Return how often settings were asked for."""
    return sum(isinstance(effect, DescribeTopicConfigs) for effect in driver.sent)


def test_settings_are_requested_once_while_the_answer_is_awaited() -> None:
    """No reassignment concerns the topic, so nothing else reads them."""
    driver = stranded()
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    assert request_count(driver) == 1
    driver.observe(BrokersRead({BrokerId(n): broker(n) for n in (2, 3, 4)}))
    assert request_count(driver) == 1


def test_a_replica_out_of_sync_leads_as_soon_as_the_topic_is_known_to_allow_it() -> None:
    """Its ISR is itself alone."""
    driver = stranded()
    driver.observe(settings(unclean=True))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (2, replicas(2))


def test_settings_that_forbid_it_are_read_again_later() -> None:
    """An operator who gives records up changes the setting while the partition is offline."""
    driver = stranded()
    driver.observe(settings(unclean=False))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    driver.observe(TimerFired(UNWELL_TIMER))
    assert request_count(driver) == 2
    driver.observe(settings(unclean=True))
    assert driver.view.leadership.states[tp()].leader == 2


def test_nothing_is_queried_while_every_replica_is_dead() -> None:
    """No setting would help."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({BrokerId(3): broker(3)}))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    assert request_count(driver) == 0


def idle_for(seconds: float) -> Driver:
    """Return a cluster whose settings were read so long ago."""
    options = Options(tenure=TenurePolicy.PERMANENT)
    driver = Driver({tp(): (1, 2, 3)}, options=options)
    driver.now = Instant(driver.now + seconds)
    driver.sent.clear()
    return driver


def test_an_entry_waits_for_settings_that_were_read_long_ago() -> None:
    """``min.insync.replicas`` may have been raised: a step could take producers their quorum."""
    driver = idle_for(86400.0)
    driver.submit({tp(): (1,)})
    assert tp() not in driver.view.reassignments.by_partition
    assert request_count(driver) == 1
    driver.observe(TopicConfigsRead({"t": TopicConfig(2, unclean_leader_election=False)}))
    assert tp() not in driver.view.reassignments.by_partition
    refusals = [r for c in driver.changes for r in c.records if isinstance(r, RefusalRecord)]
    assert [r.reason for record in refusals for r in record.refusals] == [
        RefusalReason.BELOW_MIN_ISR
    ]


def test_a_request_waits_for_settings_that_were_read_long_ago() -> None:
    """By either route."""
    driver = idle_for(86400.0)
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    assert tp() not in driver.view.reassignments.by_partition
    driver.observe(TopicConfigsRead({"t": TopicConfig(2, unclean_leader_election=False)}))
    assert tp() in driver.view.reassignments.by_partition


def test_the_first_step_waits_where_settings_grew_old_since_the_entry_was_accepted() -> None:
    """It may have waited for a limit, or for an operator."""
    driver = idle_for(0.0)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("storm")))))
    driver.submit({tp(): (1, 2, 4)})
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    driver.observe(ControlsRead(Controls()))
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.CONFIG_UNKNOWN
    assert driver.history[tp()] == []
    assert request_count(driver) == 1
    driver.observe(settings(unclean=False))
    assert driver.history[tp()] != []


def test_a_drop_waits_where_settings_grew_old_on_the_way() -> None:
    """No broker answered meanwhile: the ISR is not shrunk by what it said long ago."""
    driver = Driver({tp(): (1, 2, 3)}, min_isr=3)
    driver.submit({tp(): (1, 2, 4)})
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    driver.catch_up(tp())
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3, 4)
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.CONFIG_UNKNOWN
    driver.observe(TopicConfigsRead({"t": TopicConfig(3, unclean_leader_election=False)}))
    assert tp() not in driver.view.reassignments.by_partition
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 4)


def test_settings_in_use_are_read_again_before_they_are_too_old() -> None:
    """Nothing waits between two answers."""
    options = Options(tenure=TenurePolicy.PERMANENT)
    driver = Driver({tp(): (1, 2, 3)}, options=options, answers_configs=True)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("storm")))))
    driver.submit({tp(): (1, 2, 4)})
    end = driver.now + 10 * driver.options.config_refresh_s
    while driver.now < end:
        again = [e.at for e in driver.sent if isinstance(e, SetTimer) and e.name == CONFIG_TIMER]
        driver.now = min((at for at in again if at > driver.now), default=Instant(end))
        driver.observe(TimerFired(CONFIG_TIMER))
        assert "t" in driver.view.topics.configs
    assert 10 <= request_count(driver) <= 25


def test_answers_that_come_too_late_are_the_reason_shown() -> None:
    """An answer is as old as its question; where all take too long, nothing would begin."""
    driver = idle_for(0)
    driver.answers_configs = False
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    question = requested_now(driver.view, ["t"], driver.now)
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}, question))
    assert "t" not in driver.view.topics.configs
    assert driver.view.topics.config_errors == {"t": "the answer took longer than config_refresh"}


def test_settings_are_forgotten_with_the_session() -> None:
    """The topic may have been deleted and made anew unseen, with other ones."""
    driver = idle_for(0.0)
    assert "t" in driver.view.topics.configs
    driver.observe(Deposed("a broker is the controller"))
    assert "t" in driver.view.topics.configs
    driver.observe(LeadershipLost("session lost"))
    assert "t" not in driver.view.topics.configs


def test_an_answer_about_a_deleted_topic_of_the_same_name_is_dropped() -> None:
    """It was asked for before the new one was there."""
    driver = idle_for(0.0)
    late = requested_now(driver.view, ("t",), driver.now)
    anew = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(99))
    driver.observe(TopicsRead({"t": anew}))
    config = TopicConfig(1, unclean_leader_election=True)
    driver.observe(TopicConfigsRead({"t": config}, late))
    assert "t" not in driver.view.topics.configs
    driver.observe(TopicConfigsRead({"t": config}))
    assert driver.view.topics.configs["t"] == config


def test_an_older_answer_does_not_replace_a_newer_one() -> None:
    """A broker that hangs answers after another one that was asked later."""
    driver = idle_for(0.0)
    late = requested_now(driver.view, ("t",), driver.now)
    driver.observe(settings(unclean=False))
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=True)}, late))
    assert not driver.view.topics.configs["t"].unclean_leader_election


def test_unreadable_settings_of_many_topics_are_reported_in_one_pass() -> None:
    """A broker that does not answer fails all at once, and the loop has its lease to keep."""
    topics = [f"t{n}" for n in range(20)]
    driver = Driver({tp(n, topic): (1, 2) for topic in topics for n in range(2)})
    driver.submit({tp(n, topic): (1, 3) for topic in topics for n in range(2)})
    reassignments = watch_reassignments(driver.view)
    driver.fold(TopicConfigsRead(dict.fromkeys(topics, "broker 1 does not answer")))
    assert reassignments.walked == len(driver.assignments)
    assert driver.view.due.partitions.keys() == driver.assignments.keys()
