"""
What brokers have, for the table of brokers: bytes, the fill of their disks, and who leads.

Also whether an evacuated broker can be restarted, which is asked for more often.

The daemon asks brokers for their disks only while it works, and knows all leaders only during a
tenure of the native engine. So a page that is shown asks here, which asks the brokers and ZooKeeper
on a background thread, at most once a minute; a page never waits for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from controller.background_threads import BackgroundThread
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    Instant,
    LogDir,
)
from controller.doctor.broker_answers import Disks
from controller.errors import ControllerError
from controller.previews.cluster_queries import QueryBrokers, query_brokers
from controller.previews.evacuation_preview import LEADERS_MAX, verdicts
from controller.reactor.ports import Clock
from controller.settings import Settings
from controller.zk.operator_client import OperatorClient

REFRESH_S: Final = 60.0
VERDICTS_S: Final = 5.0
"""The shortest time between two surveys where brokers are evacuated."""
SHARE: Final = 0.05
"""The largest part of the time that surveys take: they need processor time of the daemon."""

_log: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SurveyedBroker:
    """What one broker answered."""

    size: int | None = None
    """Bytes of its replicas; None: it did not answer."""
    fullest: LogDir | None = None
    """The log directory whose volume is filled most; None: no size of a volume is known."""
    problem: str = ""
    """Why it did not answer, or which directories are offline."""


@dataclass(frozen=True, slots=True)
class SurveyedCluster:
    """The answers of all live brokers."""

    brokers: Mapping[BrokerId, SurveyedBroker] = field(default_factory=dict)
    leaders: Mapping[BrokerId, int] | None = None
    """Partitions that each broker leads; None: unknown, or too many partitions."""
    at: datetime | None = None
    """When it was made."""
    verdicts: Mapping[BrokerId, str] = field(default_factory=dict)
    """Of each evacuated broker, whether it can be restarted."""


class BrokerSurvey(BackgroundThread):
    """Surveys brokers for pages; ``latest`` is safe from any thread."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], AbstractContextManager[OperatorClient]],
        clock: Clock,
        wall: Callable[[], datetime],
        *,
        query_brokers: QueryBrokers = query_brokers,
    ) -> None:
        super().__init__("broker survey")
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._wall = wall
        self._query_brokers = query_brokers
        self._due, self._is_stopping = threading.Event(), False
        self._latest: SurveyedCluster | None = None
        self._next_at = self._soonest_at = Instant(float("-inf"))

    def latest(self) -> SurveyedCluster | None:
        """Return the latest survey, None before the first, and have another made if it is due."""
        if self._clock.now() >= self._next_at:
            self._due.set()
        return self._latest

    def verdicts(self) -> Mapping[BrokerId, str]:
        """Return whether evacuated brokers can be restarted, and have that looked at again."""
        if self._clock.now() >= self._soonest_at:
            self._due.set()
        return {} if self._latest is None else self._latest.verdicts

    def stop(self) -> None:
        """End the thread; does not wait long for it."""
        self._is_stopping = True
        self._due.set()
        self._join()

    def _run(self) -> None:
        while self._due.wait() and not self._is_stopping:
            self._survey()
            # A page that asked meanwhile has its answer.
            self._due.clear()

    def _survey(self) -> None:
        began = self._clock.now()
        try:
            self._latest = self._surveyed()
        except ControllerError as error:
            _log.warning("broker_survey_failed", error=str(error))
        finally:
            ended = self._clock.now()
            rest_s = (ended - began) / SHARE
            self._next_at = Instant(ended + max(REFRESH_S, rest_s))
            self._soonest_at = Instant(ended + max(VERDICTS_S, rest_s))

    def _surveyed(self) -> SurveyedCluster:
        with self._connect() as operator:
            brokers = operator.cluster.brokers()
            leaders, found = _leaders(operator), verdicts(operator)
        answers = self._query_brokers(self._settings, list(brokers.values()), ())
        brokers_found = {b: _broker_of(a) for b, a in answers.disks.items()}
        return SurveyedCluster(brokers_found, leaders, self._wall(), found)


def _leaders(operator: OperatorClient) -> Mapping[BrokerId, int] | None:
    """Count the partitions that each broker leads, as ZooKeeper has it."""
    topics = operator.partitions.readable_topics()
    if sum(len(topic.partitions) for topic in topics.values()) > LEADERS_MAX:
        return None
    states = operator.partitions.readable_states(topics).values()
    return Counter(state.leader for state in states if state.leader != NO_LEADER)


def _broker_of(answer: Disks | str) -> SurveyedBroker:
    if isinstance(answer, str):
        return SurveyedBroker(problem=answer)
    offline = f"offline: {', '.join(answer.failed)}" if answer.failed else ""
    known = [d for d in answer.dirs if d.total and d.usable is not None]
    fullest = max(known, key=lambda d: 1 - (d.usable or 0) / (d.total or 1), default=None)
    return SurveyedBroker(sum(answer.sizes.values()), fullest, offline)
