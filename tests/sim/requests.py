"""
The simulated store's reads of requests: submissions, and what is kept of them.

The same levels as ``controller.zk.request_znodes`` reads, at once and from
the server itself. When they are read, and what that takes, is ``reads``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from controller.core.model import (
    PartitionOutcome,
    Refusal,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Drains, Limits, Pauses
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead, EntityConfigsRead
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity, EntityConfig
from controller.core.requests.model import kind_of
from controller.core.requests.outcomes import (
    UNKNOWN_MS,
    EndedHistory,
    OpenHistory,
    Part,
    merged_counts,
)
from controller.core.requests.records import (
    AcceptedRead,
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import AcceptedEntry, RequestOptions, Submission
from controller.znodes import paths
from controller.znodes.entity_configs import decode_applied_throttle, decode_entity_config
from controller.znodes.histories import decode_accepted, decode_ended, decode_part, part_name
from controller.znodes.operator_controls import (
    decode_evacuated,
    decode_limits,
    decode_pauses,
    decode_throttle,
)
from controller.znodes.plans import decode_legacy_plan, decode_submission
from tests.sim.decoded import cancellation_of, drains_of
from tests.sim.zookeeper import SimZooKeeper, Watch, Znode

Value = TypeVar("Value")


class SimRequests:
    """Reads one of them at a time."""

    def __init__(self, zookeeper: SimZooKeeper) -> None:
        self._zookeeper = zookeeper

    # --- what operators ask for ----------------------------------------------------------------

    def listed(self, watch: Watch) -> SubmissionsListed:
        """List the requests."""
        names = self._zookeeper.children(paths.REQUESTS, watch)
        if names is None:
            self._zookeeper.exists(paths.REQUESTS, watch)
        return SubmissionsListed(frozenset(filter(paths.is_submission, names or ())))

    def read(self, names: tuple[str, ...]) -> SubmissionsRead:
        """Read requests as submitted."""
        return SubmissionsRead({name: self._submission(name) for name in names})

    def _submission(self, name: str) -> Submission | None:
        znode = self._zookeeper.get(paths.submission_path(name))
        if znode is None:
            return None
        version, czxid = ZkVersion(znode.version), Zxid(znode.czxid)
        return decode_submission(name, znode.data, version, czxid, znode.created_ms)

    def cancellation(self, watch: Watch) -> CancellationRead:
        """Read what is to be cancelled."""
        znode = self._zookeeper.exists(paths.CANCEL, watch)
        return CancellationRead(None if znode is None else cancellation_of(znode))

    def kill_switch(self, watch: Watch) -> KillSwitchRead:
        """Look whether work may begin."""
        return KillSwitchRead(self._zookeeper.exists(paths.KILL_SWITCH, watch) is not None)

    def queue(self, watch: Watch) -> QueueRead:
        """Read the queue."""
        znode = self._zookeeper.exists(paths.QUEUE, watch)
        if znode is None:
            return QueueRead(None)
        version, czxid = ZkVersion(znode.version), Zxid(znode.czxid)
        return QueueRead(decode_legacy_plan(znode.data, version, czxid))

    def controls(self, watch: Watch) -> ControlsRead:
        """Read what operators turned."""
        unreadable: dict[str, str] = {}

        def read(path: str, decode: Callable[[Znode], Value | str]) -> Value | None:
            znode = self._zookeeper.exists(path, watch)
            value = None if znode is None else decode(znode)
            if isinstance(value, str):
                unreadable[path] = value
                return None
            return value

        pauses = read(paths.PAUSES, lambda z: decode_pauses(z.data))
        limits = read(paths.LIMITS, lambda z: decode_limits(z.data))
        throttle = read(paths.THROTTLE, lambda z: decode_throttle(z.data))
        drains = read(paths.DRAINS, drains_of)
        znode = self._zookeeper.exists(paths.EVACUATIONS, watch)
        evacuated = {} if znode is None else decode_evacuated(znode.data)
        controls = Controls(
            pauses or Pauses(),
            limits or Limits(),
            None if throttle is None else throttle.throttle,
            unreadable,
            drains or Drains(),
            None if isinstance(evacuated, str) else evacuated,
        )
        return ControlsRead(controls)

    # --- what is kept of it --------------------------------------------------------------------

    def history(self) -> HistoryRead:
        """Read what is kept of every request."""
        unfinished: dict[RequestId, OpenHistory] = {}
        ended: dict[RequestId, EndedHistory] = {}
        for name in sorted(self._zookeeper.children(paths.OUTCOMES) or ()):
            request = RequestId(name)
            znode = self._zookeeper.get(paths.history_path(request))
            children = tuple(sorted(self._zookeeper.children(paths.history_path(request)) or ()))
            if znode is not None and paths.SUMMARY in children:
                parts = self._open(request, children).parts.values()
                undoes = merged_counts(part.undoes for part in parts)
                if kind_of(request) != "cancel":
                    undoes = {}
                ended[request] = EndedHistory(children, Zxid(znode.czxid), undoes)
            elif children:
                unfinished[request] = self._open(request, children)
        oldest_first = sorted(ended, key=lambda request: ended[request].czxid)
        return HistoryRead(unfinished, {request: ended[request] for request in oldest_first})

    def _open(self, request: RequestId, children: tuple[str, ...]) -> OpenHistory:
        parts: dict[str, Part] = {}
        refused: list[Refusal] = []
        endings: list[PartitionOutcome] = []
        accepted = 0
        for name in children:
            shard = paths.parse_shard(name)
            znode = self._zookeeper.get(f"{paths.history_path(request)}/{name}")
            if shard is not None and shard.kind == "accepted":
                accepted += shard.rows
            elif shard is not None and znode is not None:
                rows = decode_ended(request, znode.data)
                if not isinstance(rows, str):
                    refused += rows[0]
                    endings += rows[1]
            elif znode is not None:
                part = decode_part(name, znode.data)
                named = part_name(name)
                if not isinstance(part, str):
                    parts[part.name] = part
                elif named is not None:
                    parts[named] = Part(named, 0, UNKNOWN_MS)
        return OpenHistory(parts, accepted, tuple(refused), tuple(endings))

    def accepted_of(self, request: RequestId) -> AcceptedRead:
        """Read the accepted entries of a request, in the order in which they were accepted."""
        names = self._zookeeper.children(paths.history_path(request)) or ()
        shards = [shard for shard in map(paths.parse_shard, names) if shard is not None]
        in_turn = sorted(shards, key=lambda shard: (shard.epoch, shard.number))
        wanted = (shard for shard in in_turn if shard.kind == "accepted")
        entries = (e for shard in wanted for e in self._rows(paths.shard_path(request, shard)))
        parts = (self._part(request, name) for name in sorted(names))
        options = next((part.options for part in parts if part is not None), RequestOptions())
        accepted = tuple(entries)
        ended = [self._ended(request, shard) for shard in in_turn if shard.kind == "ended"]
        elsewhere = frozenset[TopicPartition]().union(*(e for e in ended if e is not None))
        if None in ended:
            elsewhere = frozenset(entry.partition for entry in accepted)
        return AcceptedRead(request, accepted, options, elsewhere)

    def _ended(self, request: RequestId, shard: paths.Shard) -> frozenset[TopicPartition] | None:
        znode = self._zookeeper.get(paths.shard_path(request, shard))
        read = "gone" if znode is None else decode_ended(request, znode.data)
        if isinstance(read, str):
            return None
        refused, endings = read
        listed = (*(r.partition for r in refused), *(e.partition for e in endings))
        return frozenset(p for p in listed if p is not None)

    def _part(self, request: RequestId, name: str) -> Part | None:
        znode = self._zookeeper.get(f"{paths.history_path(request)}/{name}")
        read = None if znode is None else decode_part(name, znode.data)
        return read if isinstance(read, Part) else None

    def _rows(self, path: str) -> Iterator[AcceptedEntry]:
        znode = self._zookeeper.get(path)
        read = "gone" if znode is None else decode_accepted(znode.data, Zxid(znode.czxid))
        yield from () if isinstance(read, str) else read

    def applied_throttles(self) -> AppliedThrottlesRead:
        """Read every throttle that was set and not lifted."""
        applied_throttles: dict[Entity, AppliedThrottle] = {}
        for name in sorted(self._zookeeper.children(paths.APPLIED_THROTTLES) or ()):
            znode = self._zookeeper.get(f"{paths.APPLIED_THROTTLES}/{name}")
            if znode is not None:
                read = decode_applied_throttle(name, znode.data, ZkVersion(znode.version))
                if isinstance(read, AppliedThrottle):
                    applied_throttles[read.entity] = read
        return AppliedThrottlesRead(applied_throttles)

    def entity_configs(self, entities: tuple[Entity, ...]) -> EntityConfigsRead:
        """Read dynamic settings."""
        return EntityConfigsRead({entity: self._entity_config(entity) for entity in entities})

    def _entity_config(self, entity: Entity) -> EntityConfig | str:
        znode = self._zookeeper.get(paths.entity_config_path(entity))
        if znode is None:
            return EntityConfig({}, None)
        return decode_entity_config(znode.data, ZkVersion(znode.version))
