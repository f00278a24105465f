"""What brokers have is asked for pages, seldom and on another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, LogDir
from controller.core.pacing.controls import Evacuation, Evacuations
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.errors import SessionSuspendedError
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.web.broker_survey import REFRESH_S, VERDICTS_S, BrokerSurvey
from controller.zk.operator_client import OperatorClient
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator
from tests.core.builders import tp
from tests.telemetry.builders import FixedClock, partition_state

WITHIN_S = 10.0
FULL, EMPTY = LogDir("/full", 100, 10), LogDir("/empty", 100, 90)


class Surveyed:
    """A survey of two brokers, which answers when it is let."""

    def __init__(self) -> None:
        """Let broker 1 answer; broker 2 refuses."""
        self.clock = FixedClock()
        self.cluster = FakeCluster(brokers=frozenset({1, 2}))
        self.cluster.assign(tp(0), (1, 2))
        self.cluster.states[tp(0)] = partition_state(1, (1, 2))
        self.tried = self.asked = 0
        self.is_down = False
        self.let = threading.Event()
        self.survey = BrokerSurvey(
            load_settings({"zookeeper": "zk:2181"}, {}, None),
            self._connect,
            self.clock,
            self.clock.wall,
            query_brokers=self._answers,
        )

    def _connect(self) -> AbstractContextManager[OperatorClient]:
        assert self.let.wait(WITHIN_S)
        self.tried += 1
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

    def await_rest(self, tried: int) -> None:
        """Wait until so many surveys were tried, and none is due."""
        until = time.monotonic() + WITHIN_S
        while self.tried < tried or self.survey._due.is_set():
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.fixture
def surveyed() -> Iterator[Surveyed]:
    """Give a survey whose thread runs."""
    found = Surveyed()
    found.survey.start()
    yield found
    found.let.set()
    found.survey.stop()
    assert not found.survey.is_alive


def test_brokers_are_surveyed_for_a_page_that_does_not_wait(surveyed: Surveyed) -> None:
    """Bytes, the fullest disk, leaders, why a broker says nothing, and when that was."""
    assert surveyed.survey.latest() is None
    surveyed.let.set()
    surveyed.await_rest(1)
    found = surveyed.survey.latest()
    assert found is not None
    assert (found.leaders, found.at) == ({1: 1}, surveyed.clock.wall())
    first, second = found.brokers[BrokerId(1)], found.brokers[BrokerId(2)]
    assert (first.size, first.fullest, first.problem) == (7, FULL, "offline: /lost")
    assert (second.size, second.fullest, second.problem) == (None, None, "not allowed")


def test_a_survey_is_made_once_a_minute_while_pages_are_shown(surveyed: Surveyed) -> None:
    """One at a time, however many pages are shown; after an error the last answers stay."""
    for _ in range(3):
        assert surveyed.survey.latest() is None
    surveyed.let.set()
    surveyed.await_rest(1)
    before = surveyed.survey.latest()
    surveyed.await_rest(1)
    assert surveyed.asked == 1
    surveyed.is_down = True
    surveyed.clock.go(REFRESH_S)
    assert surveyed.survey.latest() is before
    surveyed.await_rest(2)
    assert surveyed.survey.latest() is before
    assert (surveyed.tried, surveyed.asked, surveyed.survey.is_alive) == (2, 1, True)


def test_verdicts_on_evacuated_brokers_are_looked_up_more_often(surveyed: Surveyed) -> None:
    """An operator waits for them to restart a broker."""
    surveyed.let.set()
    surveyed.cluster.evacuations = Evacuations({BrokerId(2): Evacuation()})
    assert surveyed.survey.verdicts() == {}
    surveyed.await_rest(1)
    said = "broker 2 leads no partition: it can be restarted"
    assert surveyed.survey.verdicts() == {2: said}
    surveyed.clock.go(VERDICTS_S + 1)
    surveyed.cluster.states[tp(0)] = partition_state(2, (1, 2))
    surveyed.survey.verdicts()
    surveyed.await_rest(2)
    assert surveyed.survey.verdicts() == {2: "broker 2 still leads 1 partition"}
