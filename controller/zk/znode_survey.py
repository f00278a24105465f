"""
A survey: every znode of the cluster as one value, for the checks of ``doctor``.

Undecodable znodes are in ``unreadable`` with path and reason, never raised. A cluster of a hundred
thousand partitions takes some time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kazoo.security import Permissions

from controller.core.model import RequestId, TopicAssignment
from controller.doctor.snapshot import Znodes
from controller.zk.cluster_znodes import (
    ClusterZnodes,
    PartitionZnodes,
    ThrottleZnodes,
    topic_of,
)
from controller.zk.event_reads import read_guards, read_specs
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.readers import Znode, decode_many
from controller.zk.request_znodes import OutcomeZnodes, RequestZnodes, plan_of
from controller.znodes import paths


class ZnodeSurvey:
    """Reads of many families of znodes as one value."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        self._connection = connection
        self._cluster = ClusterZnodes(connection)
        self._partitions = PartitionZnodes(connection)
        self._requests = RequestZnodes(connection)
        self._outcomes = OutcomeZnodes(connection)
        self._throttles = ThrottleZnodes(connection)

    def everything(self) -> Znodes:
        """Read everything that ``doctor`` checks."""
        connection = self._connection
        with connection.noting_unreadable() as unreadable:
            sizes: dict[str, int] = {}
            brokers, controls = self._cluster.brokers(), self._requests.controls()
            topics = _measure_topics(connection, self._partitions.topic_names(), sizes)
            states = self._partitions.readable_states(topics)
            guards = read_guards(connection)
            listed = self._partitions.list_specs()
            sizes.update((path, _listing_bytes(names)) for path, names in listed.items())
            specs = read_specs(connection, listed).specs
            orphans = self._partitions.orphans()
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
                deletions=self._partitions.deletions(),
                guards=guards,
                daemons=self._cluster.daemons(),
                submitted=_submitted_paths(connection),
                open_requests=self._open_requests(),
                quiesce=controls.pauses.quiesce,
                drained=frozenset(controls.drains.brokers),
                evacuated=controls.evacuated or {},
                controls=_children_paths(connection, paths.CONTROLS),
                kill_switch=self._requests.kill_switch() is not None,
                notifications={
                    path: len(connection.children(path))
                    for path in paths.NOTIFICATION_DIRECTORIES.values()
                },
                sizes=sizes,
                acls=_acls(connection),
                topic_throttles=self._throttles.throttles(paths.TOPIC_CONFIGS),
                broker_throttles=self._throttles.throttles(paths.BROKER_CONFIGS),
                topic_settings=self._throttles.settings(paths.TOPIC_CONFIGS),
                broker_settings=self._throttles.settings(paths.BROKER_CONFIGS),
                applied_throttles=self._throttles.applied_throttles(),
                unreadable=unreadable,
            )

    def work(self) -> Znodes:
        """
        Read what a daemon still has to end.

        In the order in which work passes on, so that none is missed: it is submitted, accepted, and
        in progress.
        """
        connection = self._connection
        with connection.noting_unreadable() as unreadable:
            controls, daemons = self._requests.controls(), self._cluster.daemons()
            submitted, legacy = _submitted_paths(connection), self._requests.plan()
            open_requests = self._open_requests()
            specs = read_specs(connection, self._partitions.list_specs()).specs
            return Znodes(
                brokers=self._cluster.brokers(),
                topics=self._partitions.readable_topics(),
                states={},
                specs=specs,
                orphans=self._partitions.orphans(),
                legacy=legacy,
                guards=read_guards(connection),
                daemons=daemons,
                submitted=submitted,
                open_requests=open_requests,
                quiesce=controls.pauses.quiesce,
                drained=frozenset(controls.drains.brokers),
                evacuated=controls.evacuated or {},
                applied_throttles=self._throttles.applied_throttles(),
                unreadable=unreadable,
            )

    def _open_requests(self) -> tuple[RequestId, ...]:
        known = self._outcomes.ended_requests()
        return tuple(request for request, has_ended in known.items() if not has_ended)


def _measure_topics(
    connection: ZooKeeperConnection, names: list[str], sizes: dict[str, int]
) -> dict[str, TopicAssignment]:
    """Return the topics; fill in the bytes of the listing and of each topic znode, by path."""

    def measured(name: str, znode: Znode) -> TopicAssignment | str:
        sizes[paths.topic_path(name)] = len(znode.data)
        return topic_of(name, znode)

    sizes[paths.TOPICS] = _listing_bytes(names)
    read = decode_many(connection, names, paths.topic_path, measured)
    return {name: topic for name, topic in read if isinstance(topic, TopicAssignment)}


def _listing_bytes(names: Iterable[str]) -> int:
    """Return the size of a listing on the wire: a length and the name of each child."""
    return sum(4 + len(name) for name in names)


def _submitted_paths(connection: ZooKeeperConnection) -> tuple[str, ...]:
    """Return the paths of what was submitted and is not read to the end."""
    single = (path for path in (paths.QUEUE, paths.CANCEL) if connection.exists(path))
    return (*_children_paths(connection, paths.REQUESTS), *single)


def _children_paths(connection: ZooKeeperConnection, directory: str) -> tuple[str, ...]:
    return tuple(f"{directory}/{name}" for name in connection.children(directory))


def _acls(connection: ZooKeeperConnection) -> dict[str, tuple[str, ...]]:
    roots = (*paths.KAFKA_ROOTS, *paths.OUR_ROOTS)
    found = {path: connection.acls(path) for path in roots}
    return {
        path: tuple(sorted(map(_acl_text, acls)))
        for path, acls in found.items()
        if acls is not None
    }


def _acl_text(acl: Any) -> str:  # noqa: ANN401 - kazoo has no types
    named = ("CREATE", "DELETE", "READ", "WRITE", "ADMIN")
    letters = "".join(n[0].lower() for n in named if acl.perms & getattr(Permissions, n))
    return f"{acl.id.scheme}:{acl.id.id}:{letters}"
