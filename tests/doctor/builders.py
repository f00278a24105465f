"""Snapshots of clusters, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.core.role.records import ClaimGuardsRead
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.doctor.checks import SnapshotCheck
from controller.doctor.snapshot import Snapshot, Znodes
from tests.core.builders import broker, replicas
from tests.telemetry.builders import partition_state

CZXID = Zxid(9)


class SnapshotBuilder:
    """Builds a snapshot of a cluster in which nothing is wrong, then spoils it."""

    def __init__(self, *brokers: int) -> None:
        """Begin with these live brokers and one daemon."""
        self.znodes = Znodes(
            brokers={BrokerId(b): broker(b) for b in brokers},
            topics={},
            states={},
            guards=ClaimGuardsRead(
                BrokerId(1),
                controller_is_ephemeral=True,
                kraft_controller_epoch=-1,
                feature_enabled=False,
                migration=None,
            ),
            daemons=("daemon:8095",),
        )
        self.topics_before: Mapping[str, TopicAssignment] | None = None
        self.disks: dict[BrokerId, Disks | str] = {}
        self.least: dict[str, int | str] = {}
        self.parts: dict[str, Any] = {}

    def partition(
        self,
        partition: TopicPartition,
        assigned: Sequence[int],
        *,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        leader: int | None = None,
        isr: Sequence[int] | None = None,
    ) -> SnapshotBuilder:
        """Add a partition; by default all replicas are in sync and the first leads."""
        known = self.znodes.topics.get(partition.topic)
        entry = PartitionAssignment(replicas(*assigned), replicas(*adding), replicas(*removing))
        partitions = {**(known.partitions if known else {}), partition.partition: entry}
        topic = TopicAssignment(partitions, ZkVersion(1), CZXID)
        state = partition_state(
            assigned[0] if leader is None else leader, assigned if isr is None else isr
        )
        return self.with_znodes(
            topics={**self.znodes.topics, partition.topic: topic},
            states={**self.znodes.states, partition: state},
        )

    def spec(self, partition: TopicPartition, target: Sequence[int]) -> SnapshotBuilder:
        """Add a record of ours."""
        spec = ReassignmentSpec(replicas(*target), None, RequestId("legacy-1"), Route.LEGACY)
        return self.with_znodes(specs={**self.znodes.specs, partition: spec})

    def orphan(
        self, broker_id: int, partition: TopicPartition, czxid: Zxid = CZXID
    ) -> SnapshotBuilder:
        """Add an orphan record."""
        orphan = Orphan(BrokerId(broker_id), partition, czxid, "not live")
        return self.with_znodes(orphans=self.znodes.orphans | {orphan})

    def disk(
        self, broker_id: int, partitions: Iterable[TopicPartition], *failed: str
    ) -> SnapshotBuilder:
        """Let a broker report the logs on its disks."""
        self.disks[BrokerId(broker_id)] = Disks(frozenset(partitions), failed)
        return self

    def silent(self, broker_id: int, why: str) -> SnapshotBuilder:
        """Let a broker report nothing."""
        self.disks[BrokerId(broker_id)] = why
        return self

    def min_isr(self, topic: str, least: int | str) -> SnapshotBuilder:
        """Let the brokers report a topic's settings, or an error."""
        self.least[topic] = least
        return self

    def with_znodes(self, **parts: object) -> SnapshotBuilder:
        """Let ZooKeeper hold this."""
        self.znodes = replace(self.znodes, **parts)  # type: ignore[arg-type] # by field name
        return self

    def with_parts(self, **parts: object) -> SnapshotBuilder:
        """Set other parts of the snapshot."""
        self.parts |= parts
        return self

    def before(self, other: SnapshotBuilder) -> SnapshotBuilder:
        """Let the topics have been as in another snapshot when the disks were read."""
        self.topics_before = other.znodes.topics
        return self

    def build(self) -> Snapshot:
        """Return the snapshot; clients are served, as is recommended, unless a part says it."""
        before = self.znodes.topics if self.topics_before is None else self.topics_before
        answers = BrokerAnswers(disks=self.disks, min_insync_replicas=self.least)
        parts = {"serves_clients": True, **self.parts}
        return Snapshot(znodes=self.znodes, topics_before=before, brokers=answers, **parts)


def found(check: SnapshotCheck, built: SnapshotBuilder) -> list[tuple[str, str]]:
    """Return the subjects and evidence of what a check finds."""
    return [(f.subject, f.evidence) for f in check(built.build())]


def subjects(check: SnapshotCheck, built: SnapshotBuilder) -> list[str]:
    """Return the subjects of what a check finds."""
    return [f.subject for f in check(built.build())]
