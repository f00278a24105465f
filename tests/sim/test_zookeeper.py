"""The simulated ZooKeeper keeps the contract that a real one keeps; and what histories need."""

from __future__ import annotations

import pytest

from controller.core.model import ZkVersion
from controller.reactor.ports import Check, Create, WriteError
from tests.contracts.zookeeper_contract import Connect, ZooKeeperContract
from tests.sim.zookeeper import (
    NO_SESSION,
    AnyOperation,
    Callback,
    Make,
    Put,
    SessionExpiredError,
    SimZooKeeper,
    Transaction,
    TransactionFailedError,
    Watch,
    Znode,
)


class _Client:
    """A client without delay."""

    def __init__(self, zookeeper: SimZooKeeper) -> None:
        self.id = zookeeper.open_session()
        self._zookeeper = zookeeper
        self._fired: list[str] = []

    def transact(self, *operations: AnyOperation) -> list[str]:
        return self._zookeeper.transact(self.id, operations)

    def get(self, path: str, watch: str = "") -> Znode | None:
        return self._zookeeper.get(path, self._watch(watch))

    def exists(self, path: str, watch: str = "") -> Znode | None:
        return self._zookeeper.exists(path, self._watch(watch))

    def children(self, path: str, watch: str = "") -> list[str] | None:
        found = self._zookeeper.children(path, self._watch(watch))
        return None if found is None else list(found)

    def fired(self) -> list[str]:
        return self._fired[:]

    def close(self) -> None:
        self._zookeeper.close_session(self.id)

    def notify(self, callback: Callback) -> None:
        callback()

    def _watch(self, key: str) -> Watch | None:
        return Watch(self, key, lambda: self._fired.append(key)) if key else None


class TestSimZooKeeper(ZooKeeperContract):
    """The contract on the simulated server."""

    @pytest.fixture
    def connect(self) -> Connect:
        """Return a function that connects clients to one server."""
        server = SimZooKeeper()
        return lambda: _Client(server)


@pytest.fixture
def zookeeper() -> SimZooKeeper:
    """Return a server with one znode."""
    server = SimZooKeeper()
    server.transact(NO_SESSION, [Make("/a", b"one")])
    return server


def test_too_much_data_is_refused(zookeeper: SimZooKeeper) -> None:
    """A real server ends the connection instead, which clients report in the same way."""
    with pytest.raises(TransactionFailedError) as caught:
        zookeeper.transact(NO_SESSION, [Put("/a", b""), Create("/b", bytes(2 << 20))])
    assert (caught.value.index, caught.value.error) == (1, WriteError.TOO_LARGE)


def test_a_refused_transaction_leaves_the_zxid_as_it_was(zookeeper: SimZooKeeper) -> None:
    """Listeners get the znodes before and after."""
    before = zookeeper.zxid
    with pytest.raises(TransactionFailedError):
        zookeeper.transact(NO_SESSION, [Put("/a", b"2"), Put("/b", b"")])
    assert zookeeper.zxid == before


def test_an_ended_session_writes_no_more(zookeeper: SimZooKeeper) -> None:
    """The client of an ended session has to open another."""
    session = zookeeper.open_session()
    zookeeper.close_session(session)
    with pytest.raises(SessionExpiredError):
        zookeeper.transact(session, [Put("/a", b"")])


def test_listeners_see_each_znode_once_with_what_it_was_before(zookeeper: SimZooKeeper) -> None:
    """A znode that a transaction wrote several times is listed once."""
    seen: list[Transaction] = []
    zookeeper.listeners.append(seen.append)
    zookeeper.transact(NO_SESSION, [Put("/a", b"2"), Put("/a", b"3"), Check("/a", ZkVersion(2))])
    (written,) = seen[0].written
    assert written.before is not None
    assert written.after is not None
    assert (written.before.data, written.after.data) == (b"one", b"3")


def test_a_tree_is_removed_with_everything_below(zookeeper: SimZooKeeper) -> None:
    """Removing what does not exist is no error."""
    zookeeper.ensure("/a/b/c/d")
    zookeeper.remove_tree("/a/b")
    zookeeper.remove_tree("/a/b")
    assert zookeeper.children("/a") == ()
