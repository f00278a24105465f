"""What commands read from ZooKeeper and write to it; ``zk.operator_client`` implements it."""

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
    """Reads: None for what does not exist, a text with the reason for what cannot be decoded."""

    def read_plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``."""
        ...

    def read_queue(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions_queue``."""
        ...

    def submission_names(self) -> list[str]:
        """Return the znodes of submitted requests that are not accepted yet."""
        ...

    def read_submissions(self, names: Iterable[str]) -> Mapping[str, Submission | None]:
        """Return submitted requests by znode."""
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
        """Return the partitions with a record of a reassignment."""
        ...

    def read_specs(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ReassignmentSpec | str | None]:
        """Return the records of reassignments."""
        ...

    def live_brokers(self) -> frozenset[BrokerId]:
        """Return the registered brokers."""
        ...

    def leader_address(self) -> str | None:
        """Return the address of the leading daemon's HTTP server."""
        ...

    def cluster_id(self) -> str | None:
        """Return the id of the cluster."""
        ...


class PastPort(Protocol):
    """Outcomes and entries of requests."""

    def read_outcome(self, request: RequestId) -> Summary | str | None:
        """Return the outcome of a request, None until it has ended."""
        ...

    def request_ids(self) -> Mapping[RequestId, bool]:
        """Return the known requests, and whether they have ended."""
        ...

    def read_history(
        self, requests: Iterable[RequestId] | None = None
    ) -> Mapping[RequestId, RequestHistory]:
        """Return the history of these requests or of all, the oldest first."""
        ...

    def read_accepted(self, request: RequestId) -> tuple[AcceptedEntry, ...]:
        """Return the accepted entries of a request."""
        ...


class WritingPort(Protocol):
    """Writes."""

    def create_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Create ``/admin/reassign_partitions``; it must not exist."""
        ...

    def extend_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Add entries to ``/admin/reassign_partitions``."""
        ...

    def submit(self, data: bytes) -> str:
        """Write a request, or one part of it; return the name of its znode."""
        ...

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """Write a cancellation; ``join`` adds to an existing one."""
        ...

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Set the kill switch; return the one that was set before."""
        ...

    def enable(self) -> bool:
        """Delete the kill switch; return False if there is none."""
        ...

    def create_queue(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """Create the queue; it must not exist."""
        ...

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Remove entries from the queue; return those that were in it."""
        ...

    def clear_queue(self) -> LegacyPlan | None:
        """Delete the queue; return its content."""
        ...

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """Change the pauses."""
        ...

    def edit_limits(self, change: Callable[[Limits], Limits]) -> Limits:
        """Change the limits."""
        ...

    def set_throttle(self, bytes_per_s: int | None) -> int | None:
        """Set the throttle of all requests without their own; return the old one."""
        ...

    def lift_throttle(self, applied: AppliedThrottle, /) -> Mapping[str, str | None] | None:
        """Restore the settings below a throttle; None if they changed in the meantime."""
        ...

    def clear_throttles(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[Entity]:
        """Delete throttles that no daemon set; return the brokers and topics that had one."""
        ...


class OperatorPort(ReadingPort, PastPort, WritingPort, Protocol):
    """What commands about requests need."""


class InspectorPort(OperatorPort, Protocol):
    """What commands about the whole cluster need."""

    def read_states(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState | str | None]:
        """Return partition states."""
        ...

    def read_deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        ...

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records of a partition."""
        ...

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return the outcomes of the last requests, the newest first."""
        ...

    def noting_hidden(self) -> AbstractContextManager[Collection[str]]:
        """Collect the paths that may not be read instead of raising."""
        ...

    def survey_topics(self) -> Mapping[str, TopicAssignment]:
        """Return every topic that can be decoded."""
        ...

    def survey_topic_settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return the overrides of topics; topics without any are left out."""
        ...

    def survey_brokers(self) -> Mapping[BrokerId, LiveBroker]:
        """Return the broker registrations that can be decoded."""
        ...

    def survey(self) -> Znodes:
        """Read everything that the checks of ``doctor`` need."""
        ...
