"""A real ZooKeeper keeps the contract that the simulated one keeps."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.protocol.states import Callback, EventType, WatchedEvent, ZnodeStat

from controller.reactor.ports import Check, Create, CreateSequential, Delete, SetData, WriteError
from integration.rigs.servers import ZooKeeperServer
from tests.contracts.zookeeper_contract import Connect, ZooKeeperContract
from tests.sim.zookeeper import AnyOperation, Make, Put, SessionId, TransactionFailedError, Znode

_ANY_VERSION: Final = -1
_ERRORS: Final[dict[type[Exception], WriteError]] = {
    BadVersionError: WriteError.BAD_VERSION,
    NoNodeError: WriteError.NO_NODE,
    NodeExistsError: WriteError.NODE_EXISTS,
    NotEmptyError: WriteError.NOT_EMPTY,
    NoChildrenForEphemeralsError: WriteError.OTHER,
}


class _Client:
    """A client as it is; its watches are counted."""

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(hosts=hosts, timeout=10)
        self._client.start(timeout=30)
        self._fired: list[str] = []
        self._watches: dict[str, Callable[[WatchedEvent], None]] = {}

    @property
    def id(self) -> SessionId:
        return int(self._client.client_id[0])

    def transact(self, *operations: AnyOperation) -> list[str]:
        multi = self._client.transaction()
        for operation in operations:
            _add(multi, operation)
        results = multi.commit()
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError):
                raise TransactionFailedError(index, _ERRORS[type(result)])
        return [
            result if isinstance(result, str) else operation.path
            for operation, result in zip(operations, results, strict=True)
        ]

    def get(self, path: str, watch: str = "") -> Znode | None:
        try:
            data, stat = self._client.get(path, watch=self._watch(watch))
        except NoNodeError:
            return None
        return _znode(data, stat)

    def exists(self, path: str, watch: str = "") -> Znode | None:
        stat = self._client.exists(path, watch=self._watch(watch))
        return None if stat is None else _znode(self._client.get(path)[0], stat)

    def children(self, path: str, watch: str = "") -> list[str] | None:
        try:
            return list(self._client.get_children(path, watch=self._watch(watch)))
        except NoNodeError:
            return None

    def fired(self) -> list[str]:
        # The answer to a read comes after the news of what was before it, and so does the marker.
        self._client.sync("/")
        self._client.exists("/")
        called = threading.Event()
        self._client.handler.dispatch_callback(Callback("watch", called.set, ()))
        assert called.wait(30)
        return self._fired[:]

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def _watch(self, name: str) -> Callable[[WatchedEvent], None] | None:
        if not name:
            return None

        def watch(event: WatchedEvent) -> None:
            if event.type != EventType.NONE:  # that is the session's end
                self._fired.append(name)

        return self._watches.setdefault(name, watch)


def _add(multi: Any, operation: AnyOperation) -> None:  # noqa: ANN401 - kazoo has no types
    match operation:
        case Check(path, version):
            multi.check(path, version)
        case Create(path, data):
            multi.create(path, data)
        case CreateSequential(path, data):
            multi.create(path, data, sequence=True)
        case Make(path, data, ephemeral, sequential):
            multi.create(path, data, ephemeral=ephemeral, sequence=sequential)
        case SetData(path, data, version):
            multi.set_data(path, data, version)
        case Put(path, data):
            multi.set_data(path, data, _ANY_VERSION)
        case Delete(path, version_or_none):
            multi.delete(path, _ANY_VERSION if version_or_none is None else version_or_none)


def _znode(data: bytes, stat: ZnodeStat) -> Znode:
    return Znode(
        data,
        stat.version,
        stat.cversion,
        stat.czxid,
        stat.mzxid,
        stat.ephemeralOwner,
        stat.ctime,
    )


class TestRealZooKeeper(ZooKeeperContract):
    """The contract on a real server, each test in a place of its own."""

    @pytest.fixture
    def connect(self, zookeeper: ZooKeeperServer) -> Iterator[Connect]:
        """Give what connects a client; all are disconnected in the end."""
        if not zookeeper.is_alive:
            zookeeper.start()
        chroot = f"/contract-{uuid.uuid4().hex[:8]}"
        root = _Client(zookeeper.address)
        root.transact(Make(chroot))
        connected = [root]

        def connect() -> _Client:
            connected.append(_Client(f"{zookeeper.address}{chroot}"))
            return connected[-1]

        yield connect
        for client in connected:
            client.close()
