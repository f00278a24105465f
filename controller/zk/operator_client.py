"""
ZooKeeper for one command of an operator: a connection, and the families of znodes read through it.

``surveys`` reads the whole cluster for ``doctor``.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from controller.core.model import TopicAssignment
from controller.core.outcomes import Summary
from controller.doctor.snapshot import Znodes
from controller.settings import Settings
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.connections import CONNECT_S, Connection
from controller.zk.outcome_znodes import OutcomeZnodes
from controller.zk.partition_znodes import PartitionZnodes
from controller.zk.request_writes import RequestWrites
from controller.zk.request_znodes import RequestZnodes
from controller.zk.surveys import survey, survey_topics
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
        self._connection = connection = Connection(settings, connect_s=connect_s)
        self.cluster = ClusterZnodes(connection)
        self.partitions = PartitionZnodes(connection)
        self.requests = RequestZnodes(connection, window=REQUESTS_WINDOW)
        self.outcomes = OutcomeZnodes(connection, window=SHARDS_WINDOW)
        self.throttles = ThrottleZnodes(connection)
        self.request_writes = RequestWrites(connection)
        self.throttle_writes = ThrottleWrites(connection)
        self._bind()

    def _bind(self) -> None:
        """Offer what the families do under one name each, as ``cli.ports`` asks for it."""
        self.live_brokers = self.cluster.broker_ids
        self.survey_brokers = self.cluster.brokers
        self.cluster_id = self.cluster.cluster_id
        self.leader_address = self.cluster.leader_address
        self.read_topics = self.partitions.topics
        self.read_states = self.partitions.states
        self.read_deletions = self.partitions.deletions
        self.reassigned_partitions = self.partitions.reassigned
        self.read_specs = self.partitions.specs
        self.orphans_of = self.partitions.orphans_of
        self.read_plan = self.requests.plan
        self.read_queue = self.requests.queue
        self.submission_names = self.requests.open
        self.read_submissions = self.requests.submissions
        self.read_cancellation = self.requests.cancellation
        self.read_kill_switch = self.requests.kill_switch
        self.read_controls = self.requests.controls
        self.read_outcome = self.outcomes.outcome
        self.request_ids = self.outcomes.ended
        self.read_history = self.outcomes.histories
        self.read_accepted = self.outcomes.accepted_entries
        self.survey_topic_settings = self.throttles.topic_settings
        self.create_plan = self.request_writes.create_plan
        self.extend_plan = self.request_writes.extend_plan
        self.submit = self.request_writes.submit
        self.cancel = self.request_writes.cancel
        self.disable = self.request_writes.disable
        self.enable = self.request_writes.enable
        self.create_queue = self.request_writes.create_queue
        self.take_from_queue = self.request_writes.take_from_queue
        self.clear_queue = self.request_writes.clear_queue
        self.edit_pauses = self.request_writes.edit_pauses
        self.edit_limits = self.request_writes.edit_limits
        self.set_throttle = self.request_writes.set_throttle
        self.lift_throttle = self.throttle_writes.lift
        self.clear_throttles = self.throttle_writes.clear
        self.noting_hidden = self._connection.noting_hidden

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how the last requests ended, the newest first; at most ``OUTCOMES_MAX``."""
        stats = self._connection.stats(self.outcomes.requests(), paths.outcome_path)
        written = sorted(((s.mzxid, r) for r, s in stats.items() if s), reverse=True)
        return self.outcomes.outcomes(request for _, request in written[:OUTCOMES_MAX])

    def survey_topics(self) -> dict[str, TopicAssignment]:
        """Return every topic that can be decoded."""
        return survey_topics(self._connection)

    def survey(self) -> Znodes:
        """Read everything that ``doctor`` checks; a large cluster takes a while."""
        return survey(self._connection)

    def __enter__(self) -> Self:
        """Connect; see ``Connection``."""
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
