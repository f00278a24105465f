"""
The input of all checks, as values: the znodes, and the brokers' answers.

Made by ``zk.znode_survey`` and ``brokers.surveys``. Reading takes a while, and the cluster changes
meanwhile. So the brokers' disks are compared with the topic znodes of before *and* after the disks
were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.core.core_settings import EngineName
from controller.core.pacing.controls import Evacuation, Quiesce
from controller.core.pacing.model import Participants
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity
from controller.core.reassignments.model import Orphan
from controller.core.requests.submissions import LegacyPlan
from controller.core.role.records import ClaimGuardsRead
from controller.doctor.broker_answers import BrokerAnswers, Protocol, SettingVerdicts
from controller.znodes.paths import APPLIED_THROTTLES, LEADER, REASSIGNMENTS, TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class Znodes:
    """The content of ZooKeeper; what cannot be decoded is in ``unreadable`` by its path."""

    brokers: Mapping[model.BrokerId, LiveBroker]
    topics: Mapping[str, model.TopicAssignment]
    states: Mapping[model.TopicPartition, model.PartitionState]
    specs: Mapping[model.TopicPartition, model.ReassignmentSpec] = field(default_factory=dict)
    orphans: frozenset[Orphan] = frozenset()
    legacy: LegacyPlan | None = None
    deletions: frozenset[str] = frozenset()
    guards: ClaimGuardsRead | None = None
    daemons: tuple[str | None, ...] = ()
    """The HTTP address of each daemon, the leader first; None for an unreadable one."""
    kill_switch: bool = False
    submitted: tuple[str, ...] = ()
    """The paths of requests, the queue and a cancellation that no daemon has read to the end."""
    open_requests: tuple[model.RequestId, ...] = ()
    """The requests with records and without an outcome."""
    quiesce: Quiesce | None = None
    evacuated: Mapping[model.BrokerId, Evacuation] = field(default_factory=dict)
    """Brokers whose leaderships are elsewhere until they are returned."""
    controls: tuple[str, ...] = ()
    """The paths of pauses, limits, the throttle and drains of operators."""
    drained: frozenset[model.BrokerId] = frozenset()
    """The drained brokers."""
    notifications: Mapping[str, int] = field(default_factory=dict)
    """Nodes in each directory of notifications, by its path."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the larger znodes and of listings, by path."""
    acls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Permissions of Kafka's roots and of the reassigner's, by path."""
    topic_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the name of the znode: a broker id, or ``<default>``."""
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the name of the znode, as the throttles."""
    applied_throttles: Mapping[Entity, AppliedThrottle] = field(default_factory=dict)
    """The throttles that daemons set, and the settings before them."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    """Paths that ZooKeeper hides; their content counts as absent here."""

    def is_hidden(self, *roots: str) -> bool:
        """Return whether one of these znodes, or one below them, may not be read."""
        return any(p == root or p.startswith(f"{root}/") for p in self.hidden for root in roots)

    def partitions(self) -> Iterator[tuple[model.TopicPartition, model.PartitionAssignment]]:
        """Yield every partition with its assignment, in order."""
        for name, topic in sorted(self.topics.items()):
            for number, assignment in sorted(topic.partitions.items()):
                yield model.TopicPartition(name, number), assignment

    def living(self) -> Iterator[tuple[model.TopicPartition, model.PartitionAssignment]]:
        """Yield the partitions of the topics that are not being deleted, in order."""
        return (found for found in self.partitions() if found[0].topic not in self.deletions)

    def assignment(self, partition: model.TopicPartition) -> model.PartitionAssignment | None:
        """Return the assignment of a partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def unneeded_throttles(self) -> list[AppliedThrottle]:
        """
        Return the throttles of daemons that no recorded reassignment needs.

        The list is empty if a record of a reassignment is unreadable: it may need any throttle.
        """
        if self.is_hidden(TOPICS, REASSIGNMENTS, APPLIED_THROTTLES, LEADER) or any(
            path.startswith(f"{REASSIGNMENTS}/") for path in self.unreadable
        ):
            return []
        participants = Participants()
        for partition, spec in self.specs.items():
            participants.put(partition, spec, self.assignment(partition))
        applied = sorted(self.applied_throttles.items())
        return [throttle for entity, throttle in applied if entity not in participants.requests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a cluster, as read once."""

    znodes: Znodes
    topics_before: Mapping[str, model.TopicAssignment]
    """The topic znodes as read before the brokers were asked."""
    brokers: BrokerAnswers = field(default_factory=BrokerAnswers)
    settings: SettingVerdicts = field(default_factory=SettingVerdicts)
    protocols: Mapping[model.BrokerId, Protocol | str] = field(default_factory=dict)
    """Empty unless brokers were asked for them; a text is the reason why one is unknown."""
    controller_id: int = 1_000_000
    """The daemon's id as the controller, from the settings."""
    endpoint: LiveBroker | None = None
    """The daemon as brokers would know it, from the settings; None: no controller endpoint."""
    serves_clients: bool = False
    """Whether clients would see the controller endpoint, from the settings."""
    jute_maxbuffer: int = 0xFFFFF
    """``jute.maxbuffer`` of the ZooKeeper servers, by the settings."""
    daemon_problem: str | None = None
    """Why the leading daemon did not answer; None if it did, or if there is none."""
    needs_token: bool = False
    """Whether that is for the lack of a token that it accepts."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Brokers that the leading daemon cannot reach while it holds the role, and why."""
    unguarded: Mapping[str, str] = field(default_factory=dict)
    """Brokers whose free space the leading daemon does not know, and why."""
    engine: EngineName | None = None
    """The engine of the leading daemon; None: it did not answer, or there is none."""
    daemon_refusals: tuple[str, ...] = ()
    """Why the leading daemon cannot work, by its status; some reasons show only in a tenure."""
