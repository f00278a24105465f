"""
ZooKeeper for one command: a connection, and the families of znodes that are read and written.

A command calls a family directly: ``operator.requests.queue()``. ``surveys`` reads the whole
cluster for ``doctor``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from controller.core.model import PartitionState, TopicAssignment, TopicPartition
from controller.core.requests.outcomes import Summary
from controller.doctor.snapshot import Znodes
from controller.settings import Settings
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.connections import CONNECT_S, ZooKeeperConnection
from controller.zk.outcome_znodes import OutcomeZnodes
from controller.zk.partition_znodes import PartitionZnodes
from controller.zk.request_writes import RequestWrites
from controller.zk.request_znodes import RequestZnodes
from controller.zk.retirement import Retirement
from controller.zk.surveys import survey, survey_states, survey_topics
from controller.zk.throttle_writes import ThrottleWrites
from controller.zk.throttle_znodes import ThrottleZnodes
from controller.znodes import paths

REQUESTS_WINDOW: Final = 8
"""Requests of up to a megabyte that are read at once."""
SHARDS_WINDOW: Final = 16
"""Shards and summaries of up to half a megabyte that are read at once."""
OUTCOMES_MAX: Final = 50
"""Outcomes read to find the last one about a partition; each may hold half a megabyte."""


class OperatorClient:
    """The families of znodes that a command reads and writes; a context manager."""

    def __init__(self, settings: Settings, *, connect_s: float = CONNECT_S) -> None:
        """
        Prepare to connect to the ZooKeeper of the settings.

        Args:
            settings: The servers, and the credentials for them.
            connect_s: Seconds that connecting, and each answer, may take.

        """
        self.http_access = settings.http_access
        """What is needed to ask the leading daemon."""
        self._connection = connection = ZooKeeperConnection(settings, connect_s=connect_s)
        self.cluster = ClusterZnodes(connection)
        self.partitions = PartitionZnodes(connection)
        self.requests = RequestZnodes(connection, window=REQUESTS_WINDOW)
        self.outcomes = OutcomeZnodes(connection, window=SHARDS_WINDOW)
        self.throttles = ThrottleZnodes(connection)
        self.writes = RequestWrites(connection)
        self.throttle_writes = ThrottleWrites(connection)
        self.retirement = Retirement(connection)

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return the outcomes of the last requests, the newest first; at most ``OUTCOMES_MAX``."""
        stats = self._connection.stats(self.outcomes.requests(), paths.outcome_path)
        written = sorted(((s.mzxid, r) for r, s in stats.items() if s), reverse=True)
        return self.outcomes.outcomes(request for _, request in written[:OUTCOMES_MAX])

    def survey_topics(self) -> dict[str, TopicAssignment]:
        """Return every topic that can be decoded."""
        return survey_topics(self._connection)

    def survey_states(
        self, topics: Mapping[str, TopicAssignment]
    ) -> dict[TopicPartition, PartitionState]:
        """Return every leader and ISR of topics that can be decoded."""
        return survey_states(self._connection, topics)

    def survey(self) -> Znodes:
        """Read everything that ``doctor`` checks; this takes a while on a large cluster."""
        return survey(self._connection)

    def noting_hidden(self) -> AbstractContextManager[Collection[str]]:
        """Collect the paths that may not be read instead of raising an error."""
        return self._connection.noting_hidden()

    def __enter__(self) -> Self:
        """Connect; see ``ZooKeeperConnection``."""
        self._connection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect."""
        self._connection.close()
