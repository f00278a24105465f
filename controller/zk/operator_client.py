"""
ZooKeeper for one command: a connection, and the families of znodes that are read and written.

A command calls a family directly: ``operator.requests.queue()``. A survey is every znode of the
cluster as one value, for the checks of ``doctor``: undecodable znodes are in ``unreadable`` with
path and reason, never raised. Reads are pipelined; a cluster of a hundred thousand partitions still
takes some time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Self

from kazoo.security import Permissions

from controller.core.model import PartitionState, RequestId, TopicAssignment, TopicPartition
from controller.core.requests.outcomes import Summary
from controller.doctor.snapshot import Znodes
from controller.settings import Settings
from controller.zk.cluster_znodes import ClusterZnodes, PartitionZnodes, ThrottleZnodes, topic_of
from controller.zk.operator_connection import CONNECT_S, ZooKeeperConnection
from controller.zk.readers import Znode, decode_many
from controller.zk.request_writes import RequestWrites
from controller.zk.request_znodes import OutcomeZnodes, RequestZnodes, plan_of
from controller.zk.retirement import Retirement, ThrottleWrites
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
        self.throttle_writes = ThrottleWrites(connection)
        self.retirement = Retirement(connection)

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

    # --- surveys ---------------------------------------------------------------------------------

    def survey(self) -> Znodes:
        """Read everything that ``doctor`` checks."""
        connection = self._connection
        with connection.noting_unreadable() as unreadable:
            sizes: dict[str, int] = {}
            brokers = self.cluster.brokers()
            topics = self._measure_topics(sizes)
            states = self.survey_states(topics)
            guards = self.cluster.guards()
            listed = self.partitions.list_specs()
            sizes.update((path, _listing_bytes(names)) for path, names in listed.items())
            specs = self.partitions.all_specs(listed).specs
            orphans = self.partitions.orphans()
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
                deletions=self.partitions.deletions(),
                guards=guards,
                daemons=self.cluster.daemons(),
                submitted=self._submitted_paths(),
                open_requests=self._open_requests(),
                quiesce=self.requests.controls().pauses.quiesce,
                controls=self._children_paths(paths.CONTROLS),
                kill_switch=self.requests.kill_switch() is not None,
                notifications={
                    path: len(connection.children(path))
                    for path in paths.NOTIFICATION_DIRECTORIES.values()
                },
                sizes=sizes,
                acls=self._acls(),
                topic_throttles=self.throttles.throttles(paths.TOPIC_CONFIGS),
                broker_throttles=self.throttles.throttles(paths.BROKER_CONFIGS),
                topic_settings=self.throttles.settings(paths.TOPIC_CONFIGS),
                broker_settings=self.throttles.settings(paths.BROKER_CONFIGS),
                applied_throttles=self.throttles.applied_throttles(),
                unreadable=unreadable,
            )

    def survey_work(self) -> Znodes:
        """
        Read what a daemon still has to end.

        In the order in which work passes on, so that none is missed: it is submitted, accepted, and
        in progress.
        """
        with self._connection.noting_unreadable() as unreadable:
            quiesce, daemons = self.requests.controls().pauses.quiesce, self.cluster.daemons()
            submitted, legacy = self._submitted_paths(), self.requests.plan()
            open_requests = self._open_requests()
            specs = self.partitions.all_specs(self.partitions.list_specs()).specs
            return Znodes(
                brokers=self.cluster.brokers(),
                topics=self.survey_topics(),
                states={},
                specs=specs,
                orphans=self.partitions.orphans(),
                legacy=legacy,
                guards=self.cluster.guards(),
                daemons=daemons,
                submitted=submitted,
                open_requests=open_requests,
                quiesce=quiesce,
                applied_throttles=self.throttles.applied_throttles(),
                unreadable=unreadable,
            )

    def survey_topics(self) -> dict[str, TopicAssignment]:
        """Return every topic that can be decoded."""
        return self._measure_topics({})

    def _measure_topics(self, sizes: dict[str, int]) -> dict[str, TopicAssignment]:
        """Return the topics; fill in the bytes of the listing and of each topic znode, by path."""

        def measured(name: str, znode: Znode) -> TopicAssignment | str:
            sizes[paths.topic_path(name)] = len(znode.data)
            return topic_of(name, znode)

        names = self.partitions.topic_names()
        sizes[paths.TOPICS] = _listing_bytes(names)
        read = decode_many(self._connection, names, paths.topic_path, measured)
        return {name: topic for name, topic in read if isinstance(topic, TopicAssignment)}

    def survey_states(
        self, topics: Mapping[str, TopicAssignment]
    ) -> dict[TopicPartition, PartitionState]:
        """Return every leader and ISR of topics that can be decoded."""
        wanted = [TopicPartition(t, number) for t, a in topics.items() for number in a.partitions]
        read = self.partitions.states(wanted)
        return {p: state for p, state in read.items() if isinstance(state, PartitionState)}

    def _submitted_paths(self) -> tuple[str, ...]:
        """Return the paths of what was submitted and is not read to the end."""
        single = (path for path in (paths.QUEUE, paths.CANCEL) if self._connection.exists(path))
        return (*self._children_paths(paths.REQUESTS), *single)

    def _open_requests(self) -> tuple[RequestId, ...]:
        known = self.outcomes.ended_requests()
        return tuple(request for request, has_ended in known.items() if not has_ended)

    def _children_paths(self, directory: str) -> tuple[str, ...]:
        return tuple(f"{directory}/{name}" for name in self._connection.children(directory))

    def _acls(self) -> dict[str, tuple[str, ...]]:
        roots = (*paths.KAFKA_ROOTS, *paths.OUR_ROOTS)
        found = {path: self._connection.acls(path) for path in roots}
        return {
            path: tuple(sorted(map(_acl_text, acls)))
            for path, acls in found.items()
            if acls is not None
        }


def _listing_bytes(names: Iterable[str]) -> int:
    """Return the size of a listing on the wire: a length and the name of each child."""
    return sum(4 + len(name) for name in names)


def _acl_text(acl: Any) -> str:  # noqa: ANN401 - kazoo has no types
    named = ("CREATE", "DELETE", "READ", "WRITE", "ADMIN")
    letters = "".join(n[0].lower() for n in named if acl.perms & getattr(Permissions, n))
    return f"{acl.id.scheme}:{acl.id.id}:{letters}"
