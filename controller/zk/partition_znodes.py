"""Reads of the znodes of topics and partitions: Kafka's, and the records of reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core import model
from controller.core.deletions.model import TopicTree
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import SpecsRead
from controller.zk import znode_reads
from controller.znodes import paths
from controller.znodes.orphans import decode_orphan
from controller.znodes.reassignments import decode_spec
from controller.znodes.states import decode_state
from controller.znodes.topics import decode_topic


class PartitionZnodes:
    """Reads these znodes through either reader; a text stands for an unreadable znode."""

    def __init__(self, znodes: znode_reads.ZnodeReads) -> None:
        """Read through this reader."""
        self._znodes = znodes

    # --- Kafka's ---------------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Return the names of all topics, in order."""
        return [name for name in self._znodes.children(paths.TOPICS) if paths.valid_topic(name)]

    def topics(self, names: Iterable[str]) -> dict[str, model.TopicAssignment | str | None]:
        """Return topics; None where there is none."""
        return dict(znode_reads.decode_many(self._znodes, names, paths.topic_path, topic_of))

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
        return dict(znode_reads.decode_many(self._znodes, partitions, paths.state_path, state_of))

    def deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        return frozenset(self._znodes.children(paths.DELETIONS))

    def trees(self, topics: Iterable[str]) -> dict[str, TopicTree | None]:
        """
        Return the znodes of topics, children before their parents; None where there is no topic.

        The states are listed after the partitions and the topic znode is read last: what is missing
        in the result was created later.
        """
        wanted = list(topics)
        partitions = dict(
            self._znodes.children_of_many(paths.partitions_path(topic) for topic in wanted)
        )
        listed = {
            f"{parent}/{name}": None
            for parent, names in partitions.items()
            if not isinstance(names, str)
            for name in names
        }
        states = dict(self._znodes.children_of_many(listed))
        found = dict(self._znodes.get_many(wanted, paths.topic_path))
        configured = dict(self._znodes.get_many(wanted, paths.topic_config_path))
        trees: dict[str, TopicTree | None] = {}
        for topic in wanted:
            znode, parent = found[topic], paths.partitions_path(topic)
            if znode is None:
                trees[topic] = None
            elif not isinstance(znode, znode_reads.Hidden):
                below: list[str] = []
                for name in partitions[parent]:
                    path = f"{parent}/{name}"
                    below += [f"{path}/{child}" for child in states.get(path, ())]
                    below.append(path)
                if below or self._znodes.exists(parent):
                    below.append(parent)
                has_configs = configured[topic] is not None
                trees[topic] = TopicTree(znode.czxid, znode.version, tuple(below), has_configs)
        return trees

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
            znode_reads.decode_many(
                self._znodes,
                partitions,
                paths.reassignment_path,
                lambda _, znode: decode_spec(znode.data, znode.version),
            )
        )

    def list_specs(self) -> znode_reads.Tree:
        """List all records of reassignments."""
        return znode_reads.list_tree(self._znodes, paths.REASSIGNMENTS)

    def all_specs(self, listed: znode_reads.Tree) -> SpecsRead:
        """Return all records of reassignments, as ``list_specs`` listed them."""
        specs: dict[model.TopicPartition, model.ReassignmentSpec] = {}
        unreadable: dict[str, str] = {}
        for path, read in znode_reads.decode_tree(self._znodes, listed, _spec):
            if isinstance(read, str):
                unreadable[path] = read
            else:
                partition, spec = read
                specs[partition] = spec
        return SpecsRead(specs, unreadable)

    def orphans(self) -> frozenset[Orphan]:
        """Return all records of replicas that could not be deleted."""
        read = znode_reads.decode_tree(
            self._znodes, znode_reads.list_tree(self._znodes, paths.ORPHANS), _orphan
        )
        return frozenset(orphan for _, orphan in read if not isinstance(orphan, str))

    def orphans_of(self, partition: model.TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records of a partition."""
        read = znode_reads.decode_many(
            self._znodes,
            self._znodes.children(paths.ORPHANS),
            lambda broker: f"{paths.ORPHANS}/{broker}/{partition}",
            lambda broker, znode: decode_orphan(broker, str(partition), znode.data),
        )
        return tuple(orphan for _, orphan in read if orphan is not None)


def topic_of(_: str, znode: znode_reads.Znode) -> model.TopicAssignment | str:
    """Decode a topic znode."""
    return decode_topic(znode.data, znode.version, znode.czxid, znode.mzxid)


def state_of(_: model.TopicPartition, znode: znode_reads.Znode) -> model.PartitionState | str:
    """Decode a partition state."""
    return decode_state(znode.data, znode.version, znode.mzxid)


def _spec(
    topic: str, name: str, znode: znode_reads.Znode
) -> tuple[model.TopicPartition, model.ReassignmentSpec] | str:
    partition = paths.parse_number(name)
    if partition is None or not paths.valid_topic(topic):
        return "not a partition"
    spec = decode_spec(znode.data, znode.version)
    return spec if isinstance(spec, str) else (model.TopicPartition(topic, partition), spec)


def _orphan(broker: str, name: str, znode: znode_reads.Znode) -> Orphan | str:
    return decode_orphan(broker, name, znode.data)
