"""
Reads that return events of the loop: for the daemon, and some for the survey of ``doctor``.

The other reads return values, which ``watches`` makes events of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from controller.core import model
from controller.core.deletions.model import DeletionMarker, TopicTree
from controller.core.reassignments.records import SpecsRead
from controller.core.requests.model import kind_of
from controller.core.requests.outcomes import (
    UNKNOWN_MS,
    EndedHistory,
    OpenHistory,
    Part,
    merged_counts,
)
from controller.core.requests.submissions import AcceptedEntry, RequestOptions
from controller.core.role.records import ClaimGuardsRead
from controller.zk.readers import Hidden, Tree, Znode, ZnodeReads, decode_many, decode_tree
from controller.zk.request_znodes import OutcomeZnodes, accepted_rows, shards_of
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    NOT_KRAFT,
    decode_controller,
    decode_feature,
    decode_migration,
)
from controller.znodes.histories import decode_ended, decode_part, part_name
from controller.znodes.producer_ids import decode_producer_ids
from controller.znodes.reassignments import decode_spec

if TYPE_CHECKING:
    from controller.core.calls.records import ProducerIdsRead
    from controller.core.requests.records import AcceptedRead, HistoryRead


def read_guards(znodes: ZnodeReads) -> ClaimGuardsRead:
    """Return the facts that decide whether a claim is safe on this cluster."""
    controller = znodes.get(paths.CONTROLLER)
    feature = znodes.get(paths.FEATURE)
    migration = znodes.get(paths.MIGRATION)
    named = None if controller is None else decode_controller(controller.data)
    if isinstance(named, str):
        znodes.unreadable(paths.CONTROLLER, named)
        named = None
    return ClaimGuardsRead(
        controller_broker=None if named is None else named.broker_id,
        controller_is_ephemeral=controller is not None and controller.owner != 0,
        kraft_controller_epoch=NOT_KRAFT if named is None else named.kraft_controller_epoch,
        # An unreadable znode counts as enabled: a wrong guess would freeze the ISR.
        feature_enabled=feature is not None and decode_feature(feature.data) is not False,
        migration=None if migration is None else decode_migration(migration.data),
    )


def read_producer_ids(znodes: ZnodeReads) -> ProducerIdsRead:
    """Return the last block of producer ids."""
    from controller.core.calls.records import ProducerIdsRead  # noqa: PLC0415 - `doctor` reads guards and specs alone

    znode = znodes.get(paths.PRODUCER_IDS)
    if znode is None:
        return ProducerIdsRead(None)
    read = decode_producer_ids(znode.data)
    if isinstance(read, str):
        znodes.unreadable(paths.PRODUCER_IDS, read)
    return ProducerIdsRead(read, znode.version)


def read_specs(znodes: ZnodeReads, listed: Tree) -> SpecsRead:
    """Return all records of reassignments, as ``PartitionZnodes.list_specs`` listed them."""
    specs: dict[model.TopicPartition, model.ReassignmentSpec] = {}
    unreadable: dict[str, str] = {}
    for path, read in decode_tree(znodes, listed, _spec):
        if isinstance(read, str):
            unreadable[path] = read
        else:
            partition, spec = read
            specs[partition] = spec
    return SpecsRead(specs, unreadable)


def _spec(
    topic: str, name: str, znode: Znode
) -> tuple[model.TopicPartition, model.ReassignmentSpec] | str:
    partition = paths.parse_number(name)
    if partition is None or not paths.valid_topic(topic):
        return "not a partition"
    spec = decode_spec(znode.data, znode.version)
    # Kept once: the path of each record has a copy of the name.
    name = sys.intern(topic)
    return spec if isinstance(spec, str) else (model.TopicPartition(name, partition), spec)


def read_trees(znodes: ZnodeReads, topics: Iterable[str]) -> dict[str, TopicTree | None]:
    """
    Return the znodes of topics, children before their parents; None where there is no topic.

    The states are listed after the partitions and the topic znode is read last: what is missing
    in the result was created later.
    """
    wanted = list(topics)
    partitions = dict(znodes.children_of_many(paths.partitions_path(topic) for topic in wanted))
    listed = {
        f"{parent}/{name}": None
        for parent, names in partitions.items()
        if not isinstance(names, str)
        for name in names
    }
    states = dict(znodes.children_of_many(listed))
    markers = dict(znodes.get_many(wanted, paths.deletion_path))
    found = dict(znodes.get_many(wanted, paths.topic_path))
    configured = dict(znodes.get_many(wanted, paths.topic_config_path))
    trees: dict[str, TopicTree | None] = {}
    for topic in wanted:
        znode, parent = found[topic], paths.partitions_path(topic)
        if znode is None:
            trees[topic] = None
        elif not isinstance(znode, Hidden):
            below: list[str] = []
            for name in partitions[parent]:
                path = f"{parent}/{name}"
                below += [f"{path}/{child}" for child in states.get(path, ())]
                below.append(path)
            if below or znodes.exists(parent):
                below.append(parent)
            has_configs = configured[topic] is not None
            mark = markers[topic]
            marker = None if mark is None else DeletionMarker(mark.czxid, mark.version)
            trees[topic] = TopicTree(znode.czxid, znode.version, tuple(below), has_configs, marker)
    return trees


class RecordReads(OutcomeZnodes):
    """Reads the records of requests for the daemon."""

    def history(self) -> HistoryRead:
        """
        Return the records of every request, ended ones from the oldest on.

        Of an ended request only the names are read, of a cancellation also its parts; of an open
        request its parts, refusals and outcomes other than done.
        """
        from controller.core.requests.records import HistoryRead  # noqa: PLC0415 - as above

        listed = self._list_records(
            request for request in self.requests() if paths.valid_request(request)
        )
        ended = [request for request, names in listed.items() if paths.SUMMARY in names]
        unfinished = {
            request: self._open_history(request, names)
            for request, names in listed.items()
            if names and paths.SUMMARY not in names
        }
        ordered = sorted((czxid, request) for request, czxid in self._czxids(ended))
        cancellations = {
            request: [name for name in listed[request] if name.startswith(paths.PART)]
            for request in ended
            if kind_of(request) == "cancel"
        }
        undoes = {
            request: merged_counts(part.undoes for part in pieces.parts.values())
            for request, pieces in self._pieces(cancellations).items()
        }
        return HistoryRead(
            unfinished,
            {r: EndedHistory(listed[r], czxid, undoes.get(r, {})) for czxid, r in ordered},
        )

    def accepted_of(self, request: model.RequestId) -> AcceptedRead:
        """Return the accepted entries of a request, with everything that a cancellation needs."""
        from controller.core.requests.records import AcceptedRead  # noqa: PLC0415 - as above

        names = self._znodes.children(paths.history_path(request))
        entries: list[AcceptedEntry] = []
        for shard, read in self._read_accepted(request, shards_of(names, "accepted")):
            if read is None:
                self._report_gone(request, shard)
            elif not isinstance(read, str):
                entries += read
        elsewhere = self._elsewhere(request, shards_of(names, "ended"))
        if elsewhere is None:
            elsewhere = frozenset(entry.partition for entry in entries)
        options = self._options(request, names)
        return AcceptedRead(request, tuple(entries), options, elsewhere)

    def _open_history(self, request: model.RequestId, names: Sequence[str]) -> OpenHistory:
        wanted = [
            name for name in names if name.startswith(paths.PART) or shards_of([name], "ended")
        ]
        pieces = self._pieces({request: wanted})[request]
        for named in filter(None, map(part_name, pieces.unreadable)):
            # It exists, so it must never be created again; its content is lost.
            pieces.parts[named] = Part(named, 0, UNKNOWN_MS)
        refused, endings = tuple(pieces.refused), tuple(pieces.endings)
        return OpenHistory(pieces.parts, accepted_rows(names), refused, endings)

    def _elsewhere(
        self, request: model.RequestId, shards: Sequence[paths.Shard]
    ) -> frozenset[model.TopicPartition] | None:
        """Return the partitions that were refused or missed their target; None: some unknown."""
        found: set[model.TopicPartition] = set()
        for shard, read in decode_many(
            self._znodes,
            shards,
            lambda shard: paths.shard_path(request, shard),
            lambda _, znode: decode_ended(request, znode.data),
        ):
            if read is None:
                self._report_gone(request, shard)
            if read is None or isinstance(read, str):
                return None
            found.update(r.partition for r in read[0] if r.partition is not None)
            found.update(ending.partition for ending in read[1])
        return frozenset(found)

    def _options(self, request: model.RequestId, names: Sequence[str]) -> RequestOptions:
        """Return the options of a request: all its parts have the same."""
        for _, read in decode_many(
            self._znodes,
            [name for name in names if name.startswith(paths.PART)],
            lambda name: f"{paths.history_path(request)}/{name}",
            lambda name, znode: decode_part(name, znode.data),
        ):
            if isinstance(read, Part):
                return read.options
        return RequestOptions()
