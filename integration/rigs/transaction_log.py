"""
Every transaction that ZooKeeper applied, in order, read from its transaction log on disk.

A watch shows the latest value only; this shows every value of a znode and the session that wrote
it, so a test can assert "never" and "exactly". Of a failed multi ZooKeeper logs the operations
before the failed one as if they were done, then an error for each of the rest: none of them took
effect.

The format is that of ``FileTxnLog``: a header of 16 bytes, then for each transaction a checksum, a
length, the transaction in ZooKeeper's own serialisation (``zookeeper.jute``) and the byte ``B``.
The file is allocated ahead and filled with zeros: a length of zero is its end. ZooKeeper begins
another file at every start and after so many transactions; here none is ever purged.

The members of an ensemble each have a log, with gaps where one was away and came back by a
snapshot; together they have everything. A proposal that no majority took is cut off its member's
log when that one is back, so read an ensemble's history when all are.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from controller.core.model import ZkVersion
from controller.reactor.ports import Check, Delete, SetData
from integration.rigs.cluster import Cluster
from integration.rigs.servers import ZooKeeperServer
from tests.sim.zookeeper import AnyOperation, Make

_FILE_HEADER_BYTES: Final = 16
_END_OF_RECORD: Final = b"B"
_CREATE, _DELETE, _SET_DATA, _CHECK, _MULTI = 1, 2, 5, 13, 14
_ERROR, _CLOSE_SESSION = -1, -11
_CREATIONS: Final = frozenset({_CREATE, 15, 19, 21})
"""create, create2, createContainer, createTTL: all begin with path, data and ACL."""
_PERSISTENT: Final = frozenset({19, 21})
_DELETIONS: Final = frozenset({_DELETE, 20})


class LoggedTransaction(NamedTuple):
    """One transaction, or the end of a session."""

    zxid: int
    session: int
    at_ms: int
    """ZooKeeper's clock, Unix time."""
    operations: tuple[AnyOperation, ...]
    """With absolute paths."""
    ends_session: bool = False
    """The ephemeral znodes of the session are gone."""


class Write(NamedTuple):
    """One znode created, changed or deleted."""

    zxid: int
    """Writes of one multi share it."""
    session: int
    at_ms: int
    """ZooKeeper's clock, Unix time."""
    path: str
    """Within the cluster's chroot."""
    data: bytes | None
    """The new content; None when the znode was deleted."""

    @property
    def content(self) -> dict[str, Any]:
        """The new content as JSON; empty when it was deleted or is something else."""
        try:
            content = json.loads(self.data or b"")
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {}


class Assignment(NamedTuple):
    """One partition in a topic znode: RS, AR and RR."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def remaining(self) -> tuple[int, ...]:
        """The replicas without the removing replicas."""
        return tuple(r for r in self.replicas if r not in self.removing)


def writes(cluster: Cluster) -> list[Write]:
    """Return every write below the cluster's chroot, the oldest first."""
    return writes_of(cluster.zookeepers, cluster.options.chroot)


def writes_of(zookeepers: Sequence[ZooKeeperServer], chroot: str) -> list[Write]:
    """Return every write below a chroot, the oldest first; the servers are one service."""
    return writes_in(transactions_of(zookeepers), chroot)


def writes_in(history: Sequence[LoggedTransaction], chroot: str) -> list[Write]:
    """Return the writes of transactions below a chroot."""
    return [
        Write(
            logged.zxid,
            logged.session,
            logged.at_ms,
            operation.path.removeprefix(chroot),
            None if isinstance(operation, Delete) else operation.data,
        )
        for logged in history
        for operation in logged.operations
        if not isinstance(operation, Check) and operation.path.startswith(f"{chroot}/")
    ]


def transactions_of(zookeepers: Sequence[ZooKeeperServer]) -> list[LoggedTransaction]:
    """Return every transaction, the oldest first; the servers are one service."""
    found = {
        logged.zxid: logged
        for server in zookeepers
        for log in (server.data_directory / "version-2").glob("log.*")
        for logged in transactions_in(log.read_bytes())
    }
    return [found[zxid] for zxid in sorted(found)]


def assignments(history: list[Write], topic: str, partition: int) -> list[Assignment]:
    """Return what a topic znode said of a partition, one after the other, without repeats."""
    said = [
        assignment_in(write, partition)
        for write in history
        if write.path == f"/brokers/topics/{topic}" and write.data is not None
    ]
    return [assignment for assignment, _ in groupby(said) if assignment is not None]


def assignment_in(write: Write, partition: int) -> Assignment | None:
    """Return what a write of a topic znode says of a partition, None when it does not name it."""
    content, number = write.content, str(partition)
    if number not in content["partitions"]:
        return None
    return Assignment(
        tuple(content["partitions"][number]),
        tuple(content.get("adding_replicas", {}).get(number, ())),
        tuple(content.get("removing_replicas", {}).get(number, ())),
    )


def transactions_in(log: bytes) -> Iterator[LoggedTransaction]:
    """Yield the transactions of one file."""
    at = _FILE_HEADER_BYTES
    while at + 12 <= len(log):
        _checksum, length = struct.unpack_from(">qi", log, at)
        at += 12
        if length <= 0 or log[at + length : at + length + 1] != _END_OF_RECORD:
            return  # the rest was never written, or not completely
        yield _transaction(_Jute(log[at : at + length]))
        at += length + 1


def _transaction(jute: _Jute) -> LoggedTransaction:
    session, _cxid, zxid, at_ms, kind = jute.unpack(">qiqqi")
    parts = [(kind, jute)]
    if kind == _MULTI:
        (count,) = jute.unpack(">i")
        parts = [(jute.unpack(">i")[0], _Jute(jute.buffer())) for _ in range(count)]
    failed = any(part == _ERROR for part, _ in parts)
    operations = () if failed else tuple(_operations(parts))
    return LoggedTransaction(zxid, session, at_ms, operations, kind == _CLOSE_SESSION)


def _operations(parts: Sequence[tuple[int, _Jute]]) -> Iterator[AnyOperation]:
    for kind, body in parts:
        if kind in _CREATIONS:
            path, data = body.text(), body.buffer()
            for _ in range(body.unpack(">i")[0]):
                body.unpack(">i")
                body.buffer()
                body.buffer()
            is_ephemeral = kind not in _PERSISTENT and bool(body.unpack(">?")[0])
            yield Make(path, data, ephemeral=is_ephemeral)
        elif kind == _SET_DATA:
            path, data = body.text(), body.buffer()
            yield SetData(path, data, ZkVersion(body.unpack(">i")[0] - 1))
        elif kind == _CHECK:
            yield Check(body.text(), ZkVersion(body.unpack(">i")[0] - 1))
        elif kind in _DELETIONS:
            yield Delete(body.text(), None)


class _Jute:
    """A cursor over ZooKeeper's serialisation."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def unpack(self, form: str) -> tuple[int, ...]:
        """Return the next numbers."""
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def text(self) -> str:
        """Return the next text."""
        return self.buffer().decode()

    def buffer(self) -> bytes:
        """Return the next bytes that are led by their length."""
        (length,) = self.unpack(">i")
        start, self._at = self._at, self._at + max(length, 0)
        return self._data[start : self._at]
