"""
Reads of the cluster's znodes: brokers, guards of a claim, topics, partitions, settings.

Settings, and the records of throttles that a daemon set in them, are never watched: the records are
written by the leading daemon alone, and settings are read again before each write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity, EntityConfig
from controller.core.reassignments.model import Orphan
from controller.zk.readers import (
    FamilyReads,
    Hidden,
    Tree,
    Znode,
    decode_children,
    decode_many,
    decode_tree,
    decoded,
    list_tree,
)
from controller.znodes import entity_configs as codecs
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    decode_broker,
    decode_cluster_id,
    decode_leader,
)
from controller.znodes.reassignments import decode_orphan, decode_spec
from controller.znodes.topics import decode_state, decode_topic


class ClusterZnodes(FamilyReads):
    """Reads brokers, guards of a claim, and daemons."""

    def broker_ids(self) -> frozenset[BrokerId]:
        """Return the ids of the registered brokers."""
        return frozenset(self._listed_brokers())

    def brokers(self) -> dict[BrokerId, LiveBroker]:
        """
        Return the registered brokers.

        A broker with an unreadable registration is live, too. It may speak any protocol, so it
        counts as one that forbids a claim.
        """
        brokers: dict[BrokerId, LiveBroker] = {}
        for broker, shown in self._znodes.show_many(self._listed_brokers(), paths.broker_path):
            if shown is None:
                continue
            epoch = BrokerEpoch(shown.czxid)
            read = (
                shown.reason
                if isinstance(shown, Hidden)
                else decode_broker(broker, shown.data, epoch)
            )
            if isinstance(read, str):
                self._znodes.unreadable(paths.broker_path(broker), read)
                read = LiveBroker(broker, epoch, (), has_features=True)
            brokers[broker] = read
        return brokers

    def cluster_id(self) -> str | None:
        """Return ``id`` of ``/cluster/id``; None where there is none, or it is unreadable."""
        found = self._znodes.get(paths.CLUSTER_ID)
        return found and decode_cluster_id(found.data)

    def daemons(self) -> tuple[str | None, ...]:
        """Return ``HOST:PORT`` of each daemon's HTTP server, the leader first."""
        found = self._znodes.get_many(self.candidates(), _candidacy_path)
        return tuple(
            decode_leader(znode.data)
            for _, znode in found
            if znode is not None and not isinstance(znode, Hidden)
        )

    def leader_address(self) -> str | None:
        """Return ``HOST:PORT`` of the leading daemon's HTTP server; None when none leads."""
        for name in self.candidates():
            found = self._znodes.get(_candidacy_path(name))
            if found is not None:
                return decode_leader(found.data)
        return None

    def _listed_brokers(self) -> list[BrokerId]:
        numbers = map(paths.parse_number, self._znodes.children(paths.BROKER_IDS))
        return [BrokerId(number) for number in numbers if number is not None]

    def candidates(self) -> list[str]:
        """Return the daemons' candidacies in the order of the numbers that ZooKeeper appended."""
        return sorted(self._znodes.children(paths.LEADER), key=lambda name: name[-10:])


class PartitionZnodes(FamilyReads):
    """Reads these znodes; a text stands for an unreadable one."""

    # --- Kafka's ---------------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Return the names of all topics, in order."""
        return [name for name in self._znodes.children(paths.TOPICS) if paths.valid_topic(name)]

    def topics(self, names: Iterable[str]) -> dict[str, model.TopicAssignment | str | None]:
        """Return topics; None where there is none."""
        return dict(decode_many(self._znodes, names, paths.topic_path, topic_of))

    def readable_topics(self) -> dict[str, model.TopicAssignment]:
        """Return every topic that can be decoded."""
        read = self.topics(self.topic_names())
        return {n: topic for n, topic in read.items() if isinstance(topic, model.TopicAssignment)}

    def assignments(
        self, partitions: Iterable[model.TopicPartition]
    ) -> dict[model.TopicPartition, model.PartitionAssignment | None]:
        """Return assignments; None where there is none, or its topic is unreadable."""
        wanted = list(partitions)
        topics = self.topics(dict.fromkeys(p.topic for p in wanted))
        return {
            p: topic.partitions.get(p.partition)
            if isinstance(topic := topics.get(p.topic), model.TopicAssignment)
            else None
            for p in wanted
        }

    def states(
        self, partitions: Iterable[model.TopicPartition]
    ) -> dict[model.TopicPartition, model.PartitionState | str | None]:
        """Return leaders and ISRs; None where there is none."""
        return dict(decode_many(self._znodes, partitions, paths.state_path, state_of))

    def readable_states(
        self, topics: Mapping[str, model.TopicAssignment]
    ) -> dict[model.TopicPartition, model.PartitionState]:
        """Return every leader and ISR of topics that can be decoded."""
        read = self.states(
            model.TopicPartition(t, number) for t, a in topics.items() for number in a.partitions
        )
        return {p: state for p, state in read.items() if isinstance(state, model.PartitionState)}

    def deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        return frozenset(self._znodes.children(paths.DELETIONS))

    # --- the reassigner's ------------------------------------------------------------------------

    def reassigned_partitions(
        self, topics: Iterable[str] | None = None
    ) -> list[model.TopicPartition]:
        """Return the partitions with a record, of these topics or of all."""
        wanted = self._znodes.children(paths.REASSIGNMENTS) if topics is None else topics
        directories = {paths.reassignment_topic_path(topic): topic for topic in wanted}
        return sorted(
            model.TopicPartition(directories[path], number)
            for path, names in self._znodes.children_of_many(directories)
            if not isinstance(names, str)
            for number in map(paths.parse_number, names)
            if number is not None
        )

    def specs(
        self, partitions: Iterable[model.TopicPartition]
    ) -> Mapping[model.TopicPartition, model.ReassignmentSpec | str | None]:
        """Return the records of reassignments; None where there is none."""
        return dict(
            decode_many(
                self._znodes,
                partitions,
                paths.reassignment_path,
                lambda _, znode: decode_spec(znode.data, znode.version),
            )
        )

    def list_specs(self) -> Tree:
        """List all records of reassignments."""
        return list_tree(self._znodes, paths.REASSIGNMENTS)

    def orphans(self) -> frozenset[Orphan]:
        """Return all records of replicas that could not be deleted."""
        read = decode_tree(
            self._znodes,
            list_tree(self._znodes, paths.ORPHANS),
            lambda broker, name, znode: decode_orphan(broker, name, znode.data),
        )
        return frozenset(orphan for _, orphan in read if not isinstance(orphan, str))

    def orphans_of(self, partition: model.TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records of a partition."""
        read = decode_many(
            self._znodes,
            self._znodes.children(paths.ORPHANS),
            lambda broker: f"{paths.ORPHANS}/{broker}/{partition}",
            lambda broker, znode: decode_orphan(broker, str(partition), znode.data),
        )
        return tuple(orphan for _, orphan in read if orphan is not None)


class ThrottleZnodes(FamilyReads):
    """Reads settings and throttles."""

    def applied_throttles(self) -> dict[Entity, AppliedThrottle]:
        """Return every throttle that a daemon set and did not lift."""
        read = decode_children(
            self._znodes,
            paths.APPLIED_THROTTLES,
            lambda name, znode: codecs.decode_applied_throttle(name, znode.data, znode.version),
        )
        return {
            applied.entity: applied for _, applied in read if isinstance(applied, AppliedThrottle)
        }

    def settings(self, directory: str) -> dict[str, Mapping[str, str]]:
        """Return the settings in ``TOPIC_CONFIGS`` or ``BROKER_CONFIGS``, if they are readable."""
        read = decode_children(self._znodes, directory, lambda _, znode: _entity_config(znode))
        return {n: c.values for n, c in read if isinstance(c, EntityConfig) and c.values}

    def throttles(self, directory: str) -> dict[str, dict[str, str]]:
        """Return the throttles in the settings in ``TOPIC_CONFIGS`` or ``BROKER_CONFIGS``."""
        read = decode_children(
            self._znodes,
            directory,
            lambda _, znode: codecs.decode_throttles(znode.data) if znode.data else {},
        )
        return {name: found for name, found in read if found and not isinstance(found, str)}

    def entity_configs(self, entities: Iterable[Entity]) -> dict[Entity, EntityConfig | str]:
        """
        Return dynamic settings; a text where they are unreadable.

        An entity without any has no znode. What is unreadable is not reported here.
        """
        found = self._znodes.get_many(entities, paths.entity_config_path)
        return {e: decoded(znode, _entity_config) or EntityConfig({}, None) for e, znode in found}


def _candidacy_path(name: str) -> str:
    return f"{paths.LEADER}/{name}"


def _entity_config(znode: Znode) -> EntityConfig | str:
    return codecs.decode_entity_config(znode.data, znode.version)


def topic_of(_: str, znode: Znode) -> model.TopicAssignment | str:
    """Decode a topic znode."""
    return decode_topic(znode.data, znode.version, znode.czxid, znode.mzxid)


def state_of(_: model.TopicPartition, znode: Znode) -> model.PartitionState | str:
    """Decode a partition state."""
    return decode_state(znode.data, znode.version, znode.mzxid)
