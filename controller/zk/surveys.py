"""
All znodes of the cluster as one value, for the checks of ``doctor``.

Nothing is written. Undecodable znodes are in ``unreadable`` with path and reason, never raised.
Reads are pipelined; a cluster of a hundred thousand partitions still takes some time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kazoo.security import Permissions

from controller.core.model import PartitionState, TopicAssignment, TopicPartition
from controller.doctor.snapshot import Znodes
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.connections import ZooKeeperConnection
from controller.zk.partition_znodes import PartitionZnodes, topic_of
from controller.zk.request_znodes import RequestZnodes, plan_of
from controller.zk.throttle_znodes import ThrottleZnodes
from controller.zk.znode_reads import Znode, decode_many
from controller.znodes import paths


def survey(connection: ZooKeeperConnection) -> Znodes:
    """Read all znodes that the checks need."""
    with connection.noting_unreadable() as unreadable:
        cluster, partitions = ClusterZnodes(connection), PartitionZnodes(connection)
        throttles = ThrottleZnodes(connection)
        sizes: dict[str, int] = {}
        brokers = cluster.brokers()
        topics = survey_topics(connection, sizes)
        states = survey_states(connection, topics)
        guards = cluster.guards()
        listed = partitions.list_specs()
        sizes.update((path, _listing_bytes(names)) for path, names in listed.items())
        specs = partitions.all_specs(listed).specs
        orphans = partitions.orphans()
        plan = connection.get(paths.LEGACY_PLAN)
        if plan is not None:
            sizes[paths.LEGACY_PLAN] = len(plan.data)
        return Znodes(
            brokers=brokers,
            topics=topics,
            states=states,
            specs=specs,
            orphans=orphans,
            legacy=plan_of(plan),
            deletions=partitions.deletions(),
            guards=guards,
            daemons=cluster.daemons(),
            submitted=_submitted_paths(connection),
            controls=_controls(connection),
            kill_switch=RequestZnodes(connection).kill_switch() is not None,
            notifications={
                path: len(connection.children(path))
                for path in paths.NOTIFICATION_DIRECTORIES.values()
            },
            sizes=sizes,
            acls=_acls(connection),
            topic_throttles=throttles.throttles(paths.TOPIC_CONFIGS),
            broker_throttles=throttles.throttles(paths.BROKER_CONFIGS),
            topic_settings=throttles.settings(paths.TOPIC_CONFIGS),
            broker_settings=throttles.settings(paths.BROKER_CONFIGS),
            applied_throttles=throttles.applied_throttles(),
            unreadable=unreadable,
        )


def survey_topics(
    connection: ZooKeeperConnection, sizes: dict[str, int] | None = None
) -> dict[str, TopicAssignment]:
    """
    Return every topic that can be decoded.

    Args:
        connection: Reads them.
        sizes: Filled with the bytes of the listing and of each topic znode, by path.

    """
    sizes = {} if sizes is None else sizes

    def measured(name: str, znode: Znode) -> TopicAssignment | str:
        sizes[paths.topic_path(name)] = len(znode.data)
        return topic_of(name, znode)

    names = PartitionZnodes(connection).topic_names()
    sizes[paths.TOPICS] = _listing_bytes(names)
    read = decode_many(connection, names, paths.topic_path, measured)
    return {name: topic for name, topic in read if isinstance(topic, TopicAssignment)}


def _submitted_paths(connection: ZooKeeperConnection) -> tuple[str, ...]:
    """Return the paths of what was submitted and is not read to the end."""
    names = connection.children(paths.REQUESTS)
    single = (path for path in (paths.QUEUE, paths.CANCEL) if connection.exists(path))
    return (*(f"{paths.REQUESTS}/{name}" for name in names), *single)


def _controls(connection: ZooKeeperConnection) -> tuple[str, ...]:
    """Return the paths of what operators set."""
    return tuple(f"{paths.CONTROLS}/{name}" for name in connection.children(paths.CONTROLS))


def survey_states(
    connection: ZooKeeperConnection, topics: Mapping[str, TopicAssignment]
) -> dict[TopicPartition, PartitionState]:
    """Return every leader and ISR that can be decoded."""
    wanted = [TopicPartition(t, number) for t, a in topics.items() for number in a.partitions]
    read = PartitionZnodes(connection).states(wanted)
    return {p: state for p, state in read.items() if isinstance(state, PartitionState)}


def _acls(connection: ZooKeeperConnection) -> dict[str, tuple[str, ...]]:
    found = {path: connection.acls(path) for path in (*paths.KAFKA_ROOTS, *paths.OUR_ROOTS)}
    return {
        path: tuple(sorted(map(_acl_text, acls)))
        for path, acls in found.items()
        if acls is not None
    }


def _listing_bytes(names: Iterable[str]) -> int:
    """Return the size of a listing on the wire: a length and the name of each child."""
    return sum(4 + len(name) for name in names)


def _acl_text(acl: Any) -> str:  # noqa: ANN401 - kazoo has no types
    letters = "".join(
        letter
        for letter, bit in (
            ("c", Permissions.CREATE),
            ("d", Permissions.DELETE),
            ("r", Permissions.READ),
            ("w", Permissions.WRITE),
            ("a", Permissions.ADMIN),
        )
        if acl.perms & bit
    )
    return f"{acl.id.scheme}:{acl.id.id}:{letters}"
