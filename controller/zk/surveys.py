"""
ZooKeeper as ``doctor`` reads it: the whole of the cluster's znodes, as one value.

Nothing is written. What cannot be understood is kept with its path and reason, never raised. Reads
are pipelined, but a cluster of a hundred thousand partitions takes a while all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import Permissions

from controller.core.applied_throttles import AppliedThrottle, Entity, EntityConfig
from controller.core.events import Orphan
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    LegacyPlan,
    LiveBroker,
    PartitionState,
    ReassignmentSpec,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.doctor.snapshot import Znodes
from controller.zk.inspections import Inspector
from controller.zk.levels import guards_of
from controller.zk.readers import Znode
from controller.znodes import paths
from controller.znodes.applied_throttles import decode_applied_throttle
from controller.znodes.brokers import decode_broker
from controller.znodes.daemon_leader import decode_leader
from controller.znodes.entity_configs import decode_entity_config
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.orphans import decode_orphan
from controller.znodes.reassignments import decode_spec
from controller.znodes.throttles import decode_throttles
from controller.znodes.topics import decode_topic


class Surveyor(Inspector):
    """A connection for one look at everything; use it as a context manager."""

    def survey_brokers(self) -> dict[BrokerId, LiveBroker]:
        """Return the registrations that can be understood."""
        return self._survey_brokers({})

    def survey_topics(self) -> dict[str, TopicAssignment]:
        """Return every topic that can be understood."""
        return self._survey_topics({}, {})

    def survey_topic_settings(self) -> dict[str, Mapping[str, str]]:
        """Return the settings that topics have of their own, as far as they can be understood."""
        names = sorted(self._children(paths.TOPIC_CONFIGS))
        settings: dict[str, Mapping[str, str]] = {}
        for name, found in self._get_all(names, lambda n: f"{paths.TOPIC_CONFIGS}/{n}").items():
            read = None if found is None else decode_entity_config(found.data, found.version)
            if isinstance(read, EntityConfig) and read.values:
                settings[name] = read.values
        return settings

    def survey(self) -> Znodes:
        """Read everything the checks look at; a large cluster takes a while."""
        unreadable: dict[str, str] = {}
        sizes: dict[str, int] = {}
        brokers = self._survey_brokers(unreadable)
        topics = self._survey_topics(unreadable, sizes)
        partitions = [TopicPartition(t, n) for t, a in topics.items() for n in a.partitions]
        states: dict[TopicPartition, PartitionState] = {}
        for partition, state in self.read_states(partitions).items():
            if isinstance(state, str):
                unreadable[paths.state_path(partition)] = state
            elif state is not None:
                states[partition] = state
        guards, problem = guards_of(
            *(self._znode(p) for p in (paths.CONTROLLER, paths.FEATURE, paths.MIGRATION))
        )
        if problem is not None:
            unreadable[paths.CONTROLLER] = problem
        return Znodes(
            brokers=brokers,
            topics=topics,
            states=states,
            specs=self._survey_specs(unreadable, sizes),
            orphans=self._survey_orphans(unreadable),
            legacy=self._survey_plan(sizes),
            deletions=self.read_deletions(),
            guards=guards,
            daemons=self._survey_daemons(),
            kill_switch=self._get(paths.KILL_SWITCH) is not None,
            notifications={
                path: len(self._children(path)) for path in paths.NOTIFICATION_DIRECTORIES.values()
            },
            sizes=sizes,
            acls=self._survey_acls(),
            topic_throttles=self._survey_throttles(paths.TOPIC_CONFIGS, unreadable),
            broker_throttles=self._survey_throttles(paths.BROKER_CONFIGS, unreadable),
            applied_throttles=self._survey_applied_throttles(unreadable),
            unreadable=unreadable,
        )

    def _survey_brokers(self, unreadable: dict[str, str]) -> dict[BrokerId, LiveBroker]:
        ids = [
            BrokerId(n)
            for c in self._children(paths.BROKER_IDS)
            if (n := paths.parse_number(c)) is not None
        ]
        brokers: dict[BrokerId, LiveBroker] = {}
        for broker, found in self._get_all(ids, paths.broker_path).items():
            if found is None:
                continue
            read = decode_broker(broker, found.data, found.czxid)
            if isinstance(read, str):
                unreadable[paths.broker_path(broker)] = read
                # As the daemon takes it: alive, and of a protocol that nobody knows.
                read = LiveBroker(broker, BrokerEpoch(found.czxid), (), has_features=True)
            brokers[broker] = read
        return brokers

    def _survey_topics(
        self, unreadable: dict[str, str], sizes: dict[str, int]
    ) -> dict[str, TopicAssignment]:
        names = sorted(n for n in self._children(paths.TOPICS) if paths.valid_topic(n))
        sizes[paths.TOPICS] = _listing_bytes(names)
        topics: dict[str, TopicAssignment] = {}
        for name, found in self._get_all(names, paths.topic_path).items():
            if found is None:
                continue
            sizes[paths.topic_path(name)] = len(found.data)
            read = decode_topic(found.data, found.version, found.czxid)
            if isinstance(read, str):
                unreadable[paths.topic_path(name)] = read
            else:
                topics[name] = read
        return topics

    def _survey_specs(
        self, unreadable: dict[str, str], sizes: dict[str, int]
    ) -> dict[TopicPartition, ReassignmentSpec]:
        specs: dict[TopicPartition, ReassignmentSpec] = {}
        for path, topic, name, data, version in self._grandchildren(paths.GOALS, sizes):
            partition = paths.parse_topic_partition(f"{topic}-{name}")
            read = "not a partition" if partition is None else decode_spec(data, version)
            if isinstance(read, str) or partition is None:
                unreadable[path] = str(read)
            else:
                specs[partition] = read
        return specs

    def _survey_orphans(self, unreadable: dict[str, str]) -> frozenset[Orphan]:
        orphans: set[Orphan] = set()
        for path, broker, name, data, _ in self._grandchildren(paths.ORPHANS, {}):
            read = decode_orphan(broker, name, data)
            if isinstance(read, str):
                unreadable[path] = read
            else:
                orphans.add(read)
        return frozenset(orphans)

    def _survey_plan(self, sizes: dict[str, int]) -> LegacyPlan | None:
        znode = self._get(paths.LEGACY_PLAN)
        if znode is None:
            return None
        sizes[paths.LEGACY_PLAN] = len(znode.data)
        return decode_legacy_plan(znode.data, znode.version, znode.czxid)

    def _survey_daemons(self) -> tuple[str | None, ...]:
        names = sorted(self._children(paths.LEADER), key=lambda n: n[-10:])
        found = self._get_all(names, lambda n: f"{paths.LEADER}/{n}")
        return tuple(decode_leader(f.data) for f in found.values() if f is not None)

    def _survey_throttles(
        self, directory: str, unreadable: dict[str, str]
    ) -> dict[str, dict[str, str]]:
        throttles: dict[str, dict[str, str]] = {}
        names = sorted(self._children(directory))
        for name, found in self._get_all(names, lambda n: f"{directory}/{n}").items():
            read = decode_throttles(found.data) if found and found.data else {}
            if isinstance(read, str):
                unreadable[f"{directory}/{name}"] = read
            elif read:
                throttles[name] = read
        return throttles

    def _survey_applied_throttles(
        self, unreadable: dict[str, str]
    ) -> dict[Entity, AppliedThrottle]:
        applied_throttles: dict[Entity, AppliedThrottle] = {}
        names = sorted(self._children(paths.LEASES))
        for name, found in self._get_all(names, lambda n: f"{paths.LEASES}/{n}").items():
            if found is None:
                continue
            read = decode_applied_throttle(name, found.data, found.version)
            if isinstance(read, str):
                unreadable[f"{paths.LEASES}/{name}"] = read
            else:
                applied_throttles[read.entity] = read
        return applied_throttles

    def _survey_acls(self) -> dict[str, tuple[str, ...]]:
        looked_at = (*paths.KAFKA_ROOTS, *paths.OUR_ROOTS)
        found: dict[str, tuple[str, ...]] = {}
        for path in looked_at:
            with self._translated():
                try:
                    acls, _ = self._ask(self._client.get_acls_async(path))
                except NoNodeError:
                    continue
                except NoAuthError:
                    if self._hidden is None:
                        raise
                    self._hidden.add(path)
                    continue
            found[path] = tuple(sorted(map(_acl_text, acls)))
        return found

    # --- inside --------------------------------------------------------------------------------

    def _znode(self, path: str) -> Znode | None:
        found = self._get(path)
        return found and Znode(
            found.data, found.version, found.czxid, found.owner, found.created_ms
        )

    def _grandchildren(
        self, root: str, sizes: dict[str, int]
    ) -> list[tuple[str, str, str, bytes, ZkVersion]]:
        """Read a tree of two levels: path, child, grandchild, content and its version."""
        listed = self._children_all(sorted(self._children(root)), lambda child: f"{root}/{child}")
        for child, names in listed.items():
            sizes[f"{root}/{child}"] = _listing_bytes(names)
        found = self._get_all(
            [(child, name) for child, names in listed.items() for name in names],
            lambda pair: f"{root}/{pair[0]}/{pair[1]}",
        )
        return [
            (f"{root}/{child}/{name}", child, name, content.data, content.version)
            for (child, name), content in found.items()
            if content is not None
        ]


def _listing_bytes(names: Iterable[str]) -> int:
    """Return how much a listing takes on the wire: a length and the name of each child."""
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
