"""What brokers have is asked for pages, seldom and on another thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, LogDir
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.errors import SessionSuspendedError
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.web.broker_survey import REFRESH_S, BrokerSurvey
from controller.zk.operator_client import OperatorClient
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator
from tests.core.builders import tp
from tests.telemetry.builders import FixedClock, partition_state

FULL, EMPTY = LogDir("/full", 100, 10), LogDir("/empty", 100, 90)


class Surveyed:
    """A survey whose thread is run by hand."""

    def __init__(self) -> None:
        """Let broker 1 answer; broker 2 refuses."""
        self.clock = FixedClock()
        self.cluster = FakeCluster(brokers=frozenset({1, 2}))
        self.cluster.assign(tp(0), (1, 2))
        self.cluster.states[tp(0)] = partition_state(1, (1, 2))
        self.asked = 0
        self.is_down = False
        self.started: list[Callable[[], None]] = []
        self.survey = BrokerSurvey(
            load_settings({"zookeeper": "zk:2181"}, {}, None),
            self._connect,
            self.clock,
            query_brokers=self._answers,
            start=self.started.append,
        )

    def _connect(self) -> AbstractContextManager[OperatorClient]:
        if self.is_down:
            raise SessionSuspendedError("ZooKeeper is away")
        return nullcontext(FakeOperator(self.cluster))

    def _answers(
        self, settings: Settings, brokers: Collection[LiveBroker], topics: Collection[str]
    ) -> BrokerAnswers:
        del settings, brokers, topics
        self.asked += 1
        disks = Disks(frozenset({tp(0)}), ("/lost",), {tp(0): 7}, (EMPTY, FULL))
        return BrokerAnswers(disks={BrokerId(1): disks, BrokerId(2): "not allowed"})

    def run(self) -> None:
        """Run what was started."""
        while self.started:
            self.started.pop()()


def test_brokers_are_surveyed_for_a_page_that_does_not_wait() -> None:
    """Bytes, the fullest disk, leaders, and why a broker says nothing."""
    surveyed = Surveyed()
    assert surveyed.survey.latest() is None
    surveyed.run()
    found = surveyed.survey.latest()
    assert found is not None
    assert found.leaders == {1: 1}
    first, second = found.brokers[BrokerId(1)], found.brokers[BrokerId(2)]
    assert (first.size, first.fullest, first.problem) == (7, FULL, "offline: /lost")
    assert (second.size, second.fullest, second.problem) == (None, None, "not allowed")


def test_a_survey_is_made_once_a_minute_while_pages_are_shown() -> None:
    """One at a time, however many pages are shown; after an error the last answers stay."""
    surveyed = Surveyed()
    for _ in range(3):
        surveyed.survey.latest()
    assert len(surveyed.started) == 1
    surveyed.run()
    before = surveyed.survey.latest()
    assert (surveyed.asked, surveyed.started) == (1, [])
    surveyed.is_down = True
    surveyed.clock.go(REFRESH_S)
    assert surveyed.survey.latest() is before
    surveyed.run()
    assert surveyed.survey.latest() is before
    assert surveyed.started == []
