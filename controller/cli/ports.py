"""ZooKeeper as the verbs see it; ``zk.operator_client.OperatorClient`` implements it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from controller.core.applied_throttles import AppliedThrottle, Entity
from controller.core.controls import Controls, Limits, Pauses
from controller.core.events import Orphan
from controller.core.model import (
    AcceptedEntry,
    BrokerId,
    LegacyPlan,
    LiveBroker,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicAssignment,
    TopicPartition,
    Zxid,
)
from controller.core.outcomes import RequestHistory, Summary
from controller.core.submissions import Cancellation, Submission
from controller.doctor.snapshot import Znodes
from controller.znodes.kill_switches import KillSwitch


class ReadingPort(Protocol):
    """What is read; None is what does not exist, a text what is not understood."""

    def read_plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``."""
        ...

    def read_queue(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions_queue``."""
        ...

    def submission_names(self) -> list[str]:
        """Return the submitted requests that were not accepted yet."""
        ...

    def read_submissions(self, names: Iterable[str]) -> Mapping[str, Submission | None]:
        """Return submitted requests."""
        ...

    def read_cancellation(self) -> Cancellation | None:
        """Return ``/admin/cancel_reassignment_in_progress``."""
        ...

    def read_kill_switch(self) -> KillSwitch | None:
        """Return ``/admin/reassign_cancel``."""
        ...

    def read_controls(self) -> Controls:
        """Return everything below ``/reassigner/control``."""
        ...

    def read_topics(self, names: Iterable[str]) -> Mapping[str, TopicAssignment | str | None]:
        """Return topic znodes."""
        ...

    def reassigned_partitions(self, topics: Iterable[str] | None = None) -> list[TopicPartition]:
        """Return the partitions that the daemon has records of."""
        ...

    def read_specs(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ReassignmentSpec | str | None]:
        """Return the daemon's records."""
        ...

    def live_brokers(self) -> frozenset[BrokerId]:
        """Return the registered brokers."""
        ...

    def leader_address(self) -> str | None:
        """Return where the leading daemon's HTTP server listens."""
        ...

    def cluster_id(self) -> str | None:
        """Return the id that the brokers tell their clients, too."""
        ...


class PastPort(Protocol):
    """What is kept of requests."""

    def read_outcome(self, request: RequestId) -> Summary | str | None:
        """Return how a request ended, None while it has not."""
        ...

    def request_ids(self) -> Mapping[RequestId, bool]:
        """Return the requests of which anything is kept, and whether they ended."""
        ...

    def read_history(
        self, requests: Iterable[RequestId] | None = None
    ) -> Mapping[RequestId, RequestHistory]:
        """Return what is kept of these requests or of all, the oldest first."""
        ...

    def read_accepted(self, request: RequestId) -> tuple[AcceptedEntry, ...]:
        """Return the accepted entries of a request."""
        ...


class WritingPort(Protocol):
    """What is written."""

    def create_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Write a plan where there is none."""
        ...

    def extend_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Add to the plan that is there."""
        ...

    def submit(self, data: bytes) -> str:
        """Write a request, or one part of it; return the name of its znode."""
        ...

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """Write a cancellation, or change the one that is there."""
        ...

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Refuse new work; return the switch that was on already."""
        ...

    def enable(self) -> bool:
        """Take new work again; False where it was not refused."""
        ...

    def create_queue(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Write a queue where there is none."""
        ...

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Take entries out of the queue; return those that were in it."""
        ...

    def clear_queue(self) -> LegacyPlan | None:
        """Delete the queue; return what was in it."""
        ...

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """Change what is paused."""
        ...

    def edit_limits(self, change: Callable[[Limits], Limits]) -> Limits:
        """Change the limits."""
        ...

    def set_throttle(self, bytes_per_s: int | None) -> int | None:
        """Set the throttle of every request without its own; return what it was."""
        ...

    def lift_throttle(self, applied: AppliedThrottle, /) -> Mapping[str, str | None] | None:
        """Restore what stood where a daemon set a throttle; None where somebody was faster."""
        ...

    def clear_throttles(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[Entity]:
        """Take throttles away that no daemon set; return what had one."""
        ...


class OperatorPort(ReadingPort, PastPort, WritingPort, Protocol):
    """All of it."""


class InspectorPort(OperatorPort, Protocol):
    """ZooKeeper as ``explain`` and ``doctor`` read it."""

    def read_states(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState | str | None]:
        """Return leaders and ISRs."""
        ...

    def read_deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        ...

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records about a partition."""
        ...

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how the last requests ended, the newest first."""
        ...

    def noting_hidden(self) -> AbstractContextManager[Collection[str]]:
        """Note paths that may not be read, as they are met, instead of raising for them."""
        ...

    def survey_topics(self) -> Mapping[str, TopicAssignment]:
        """Return every topic that can be understood."""
        ...

    def survey_topic_settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return the settings that topics have of their own; topics without are left out."""
        ...

    def survey_brokers(self) -> Mapping[BrokerId, LiveBroker]:
        """Return the registrations that can be understood."""
        ...

    def survey(self) -> Znodes:
        """Read everything the checks look at."""
        ...
