"""
What is kept of requests and throttles, as events; and the dynamic settings throttles stand in.

Nothing here is watched: our records are written by the leading daemon alone, and settings are read
before they are written. Of a request that has ended only the names are read; of one that is open
also what was refused or ended otherwise than done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controller.core.applied_throttles import AppliedThrottle, Entity, EntityConfig
from controller.core.events import (
    AcceptedRead,
    AppliedThrottlesRead,
    EntityConfigsRead,
    HistoryRead,
)
from controller.core.model import (
    AcceptedEntry,
    PartitionOutcome,
    Refusal,
    RequestId,
    TopicPartition,
)
from controller.core.outcomes import UNKNOWN_MS, EndedHistory, OpenHistory, Part
from controller.core.submissions import RequestOptions
from controller.zk.readers import Reader, Znode, warn_unreadable
from controller.znodes import paths
from controller.znodes.applied_throttles import decode_applied_throttle
from controller.znodes.entity_configs import decode_entity_config
from controller.znodes.outcome_parts import decode_accepted, decode_ended, decode_part, part_name

Ends = tuple[tuple[Refusal, ...], tuple[PartitionOutcome, ...]]
"""What a shard of endings holds."""
GONE: Final = "it is gone"


class Histories:
    """Reads one kind at a time."""

    def __init__(self, reader: Reader) -> None:
        """Read by this reader."""
        self._reader = reader

    def history(self) -> HistoryRead:
        """Read what is kept of every request, the ended ones from the oldest on."""
        names = self._reader.children(paths.OUTCOMES) or ()
        requests = [RequestId(name) for name in names if paths.valid_request(name)]
        parents = [paths.history_path(request) for request in requests]
        ended: list[tuple[RequestId, tuple[str, ...]]] = []
        unfinished: dict[RequestId, OpenHistory] = {}
        listed = self._reader.children_of_many(parents)
        for request, (_, children) in zip(requests, list(listed), strict=True):
            if isinstance(children, str):
                # Whoever takes its name finds that it exists.
                continue
            if paths.SUMMARY in children:
                ended.append((request, children))
            elif children:
                unfinished[request] = self._open(request, children)
        return HistoryRead(unfinished, self._in_turn(ended))

    def _in_turn(
        self, ended: Sequence[tuple[RequestId, tuple[str, ...]]]
    ) -> dict[RequestId, EndedHistory]:
        children_of = dict(ended)
        rows = [
            (czxid, request)
            for request, czxid in self._reader.decode_many(
                children_of, paths.history_path, lambda _, znode: znode.czxid
            )
            if czxid is not None and not isinstance(czxid, str)
        ]
        return {
            request: EndedHistory(children_of[request], czxid) for czxid, request in sorted(rows)
        }

    def _open(self, request: RequestId, children: Sequence[str]) -> OpenHistory:
        shards = {name: shard for name in children if (shard := paths.parse_shard(name))}
        wanted = [
            name
            for name in children
            if name.startswith(paths.PART) or (name in shards and shards[name].kind == "ended")
        ]
        parts: dict[str, Part] = {}
        refused: list[Refusal] = []
        endings: list[PartitionOutcome] = []
        parent = paths.history_path(request)

        def decode(name: str, znode: Znode) -> Part | Ends | str:
            if name in shards:
                return decode_ended(request, znode.data)
            return decode_part(name, znode.data)

        found: Iterator[tuple[str, Part | Ends | str | None]]
        found = self._reader.decode_many(wanted, lambda name: f"{parent}/{name}", decode)
        for name, read in found:
            if read is None:
                continue
            if isinstance(read, str):
                named = part_name(name)
                if named is not None:
                    # It is there, so it is never to be created again; what it said is lost.
                    parts[named] = Part(named, 0, UNKNOWN_MS)
            elif isinstance(read, Part):
                parts[read.name] = read
            else:
                refused += read[0]
                endings += read[1]
        accepted = sum(shard.rows for shard in shards.values() if shard.kind == "accepted")
        return OpenHistory(parts, accepted, tuple(refused), tuple(endings))

    def accepted(self, request: RequestId) -> AcceptedRead:
        """Read the accepted entries of a request, in the order in which they were accepted."""
        names = self._reader.children(paths.history_path(request)) or ()
        shards = [shard for shard in map(paths.parse_shard, names) if shard is not None]
        wanted = sorted(
            (shard for shard in shards if shard.kind == "accepted"),
            key=lambda shard: (shard.epoch, shard.number),
        )
        entries: list[AcceptedEntry] = []
        for shard, read in self._reader.decode_many(
            wanted,
            lambda shard: paths.shard_path(request, shard),
            lambda _, znode: decode_accepted(znode.data),
        ):
            if read is None:
                warn_unreadable(paths.shard_path(request, shard), GONE)
            elif not isinstance(read, str):
                entries += read
        elsewhere = self._elsewhere(request, [s for s in shards if s.kind == "ended"])
        if elsewhere is None:
            elsewhere = frozenset(entry.partition for entry in entries)
        options = self._options(request, names)
        return AcceptedRead(request, tuple(entries), options, elsewhere)

    def _elsewhere(
        self, request: RequestId, shards: Sequence[paths.Shard]
    ) -> frozenset[TopicPartition] | None:
        """Return the partitions that did not simply reach their target; None: some are unknown."""
        found: set[TopicPartition] = set()
        for shard, read in self._reader.decode_many(
            shards,
            lambda shard: paths.shard_path(request, shard),
            lambda _, znode: decode_ended(request, znode.data),
        ):
            if read is None:
                warn_unreadable(paths.shard_path(request, shard), GONE)
            if read is None or isinstance(read, str):
                return None
            found.update(r.partition for r in read[0] if r.partition is not None)
            found.update(ending.partition for ending in read[1])
        return frozenset(found)

    def _options(self, request: RequestId, names: Sequence[str]) -> RequestOptions:
        """Read how a request was to be carried out: its parts say the same."""
        parent = paths.history_path(request)
        wanted = [name for name in names if name.startswith(paths.PART)]
        for _, read in self._reader.decode_many(
            wanted,
            lambda name: f"{parent}/{name}",
            lambda name, znode: decode_part(name, znode.data),
        ):
            if isinstance(read, Part):
                return read.options
        return RequestOptions()

    def applied_throttles(self) -> AppliedThrottlesRead:
        """Read every throttle that was set and not lifted."""
        names = self._reader.children(paths.LEASES) or ()
        applied_throttles: dict[Entity, AppliedThrottle] = {}
        for _, read in self._reader.decode_many(
            names,
            lambda name: f"{paths.LEASES}/{name}",
            lambda name, znode: decode_applied_throttle(name, znode.data, znode.version),
        ):
            if isinstance(read, AppliedThrottle):
                applied_throttles[read.entity] = read
        return AppliedThrottlesRead(applied_throttles)

    def entity_configs(self, entities: Sequence[Entity]) -> EntityConfigsRead:
        """Read dynamic settings; an entity without any has no znode."""
        configs: dict[Entity, EntityConfig | str] = {}
        for entity, read in self._reader.decode_many(
            entities,
            paths.entity_config_path,
            lambda _, znode: decode_entity_config(znode.data, znode.version),
            log=False,
        ):
            configs[entity] = EntityConfig({}, None) if read is None else read
        return EntityConfigsRead(configs)
