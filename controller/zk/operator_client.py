"""
ZooKeeper for one command: a connection, and the families of znodes that are read and written.

A command calls a family directly: ``operator.requests.queue()``. Reads are pipelined. What only one
or two commands use is imported when it is called, as most of the time of a command is imports.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from controller.core.requests.outcomes import Summary
from controller.settings import Settings
from controller.zk.cluster_znodes import ClusterZnodes, PartitionZnodes, ThrottleZnodes
from controller.zk.operator_connection import CONNECT_S, ZooKeeperConnection
from controller.zk.request_writes import RequestWrites
from controller.zk.request_znodes import OutcomeZnodes, RequestZnodes
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.zk.retirement import Retirement, ThrottleWrites
    from controller.zk.znode_survey import ZnodeSurvey

REQUESTS_WINDOW: Final = 8
"""Requests of up to a megabyte that are read at once."""
SHARDS_WINDOW: Final = 16
"""Shards and summaries of up to half a megabyte that are read at once."""
OUTCOMES_MAX: Final = 50
"""Outcomes read to find the last one about a partition; each may hold half a megabyte."""


class OperatorClient:
    """The families of znodes that a command reads and writes; a context manager."""

    def __init__(self, settings: Settings, *, connect_s: float = CONNECT_S) -> None:
        """Prepare to connect; connecting, and each answer, may take ``connect_s`` seconds."""
        self.http_access = settings.http_access
        """What is needed to ask the leading daemon."""
        self._connection = connection = ZooKeeperConnection(settings, connect_s=connect_s)
        self.cluster = ClusterZnodes(connection)
        self.partitions = PartitionZnodes(connection)
        self.requests = RequestZnodes(connection, window=REQUESTS_WINDOW)
        self.outcomes = OutcomeZnodes(connection, window=SHARDS_WINDOW)
        self.throttles = ThrottleZnodes(connection)
        self.writes = RequestWrites(connection)

    def __enter__(self) -> Self:
        """Connect; see ``ZooKeeperConnection``."""
        self._connection.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._connection.close()

    def noting_hidden(self) -> AbstractContextManager[Collection[str]]:
        """Collect the paths that may not be read instead of raising an error."""
        return self._connection.noting_hidden()

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return the outcomes of the last requests, the newest first; at most ``OUTCOMES_MAX``."""
        stats = self._connection.stats(self.outcomes.requests(), paths.outcome_path)
        written = sorted(((s.mzxid, r) for r, s in stats.items() if s), reverse=True)
        return self.outcomes.outcomes(request for _, request in written[:OUTCOMES_MAX])

    @cached_property
    def throttle_writes(self) -> ThrottleWrites:
        """Writes that end throttles."""
        from controller.zk.retirement import ThrottleWrites  # noqa: PLC0415 - for `doctor`, `stock`

        return ThrottleWrites(self._connection)

    @cached_property
    def retirement(self) -> Retirement:
        """Writes that end the reassigner on a cluster."""
        from controller.zk.retirement import Retirement  # noqa: PLC0415 - for `doctor`

        return Retirement(self._connection)

    @cached_property
    def survey(self) -> ZnodeSurvey:
        """Reads of all znodes at once."""
        from controller.zk.znode_survey import ZnodeSurvey  # noqa: PLC0415 - for `doctor`, `quiesce`

        return ZnodeSurvey(self._connection)
