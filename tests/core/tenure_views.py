"""Views in the middle of a tenure, for what is decided about the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.core.core_settings import Options
from controller.core.cycle import apply, observe
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.records import SpecRecord
from controller.core.role.model import Tenure
from controller.core.topics.model import Topic
from controller.core.topics.records import TopicConfigsRead
from controller.core.view import ClusterView
from tests.core.builders import broker, replicas, requested_now

NOW = Instant(1000.0)


def a_tenure(topics: Mapping[str, Sequence[Sequence[int]]], options: Options) -> ClusterView:
    """Return a view of topics, each with the replicas of its partitions, on brokers 1 to 7."""
    view = ClusterView(options)
    view.role.leading = True
    view.tenure.held = Tenure(ControllerEpoch(7), NOW)
    view.tenure.accepted_by_broker = True
    view.cluster.brokers = {BrokerId(n): broker(n) for n in range(1, 8)}
    for name, partitions in topics.items():
        assignments = {n: PartitionAssignment(replicas(*ids)) for n, ids in enumerate(partitions)}
        view.topics.by_name[name] = Topic(assignments, ZkVersion(0), Zxid(1), None)
    return view


def isr(view: ClusterView, partition: TopicPartition, *ids: int, leader: int | None = None) -> None:
    """Let a partition have this ISR; its first member leads; -1: no leader."""
    known = view.leadership.states.get(partition)
    version = ZkVersion(0) if known is None else ZkVersion(known.version + 1)
    state = PartitionState(
        BrokerId(ids[0]) if leader is None else BrokerId(leader),
        LeaderEpoch(1),
        replicas(*ids),
        ControllerEpoch(7),
        version,
    )
    observe(view, StatesRead({partition: state}), NOW)


def leaderless(view: ClusterView, partition: TopicPartition, *ids: int) -> None:
    """Let a partition have this ISR and no leader."""
    isr(view, partition, *ids, leader=NO_LEADER)


def settings(view: ClusterView, **min_isr: int | str) -> None:
    """Let topics' settings be read; a text is why they are not known."""
    read = {
        name: least if isinstance(least, str) else TopicConfig(least, unclean_leader_election=False)
        for name, least in min_isr.items()
    }
    observe(view, TopicConfigsRead(read, requested_now(view, read, NOW)), NOW)


def reassign(view: ClusterView, partition: TopicPartition, *target: int) -> None:
    """Have a partition reassigned by us."""
    assignment = view.topics.known_assignment(partition)
    original = None if assignment is None else assignment.replicas
    spec = ReassignmentSpec(replicas(*target), original, RequestId("r"), Route.REQUEST)
    apply(view, SpecRecord(partition, spec), NOW)
