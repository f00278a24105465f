"""The simulated ZooKeeper: versions, transactions, sequences, watches, ephemerals."""

from __future__ import annotations

import pytest

from controller.core.model import ZkVersion
from controller.reactor.ports import Check, Create, Delete, SetData, WriteError
from tests.sim.zookeeper import (
    NOBODY,
    AnyOperation,
    Callback,
    Make,
    Put,
    SessionExpiredError,
    SimZooKeeper,
    Transaction,
    TransactionFailedError,
    Watch,
)


class _Client:
    """A watcher that is told at once."""

    def __init__(self, zookeeper: SimZooKeeper) -> None:
        self.id = zookeeper.open_session()
        self.fired: list[str] = []

    def notify(self, callback: Callback) -> None:
        callback()

    def watch(self, key: str) -> Watch:
        return Watch(self, key, lambda: self.fired.append(key))


@pytest.fixture
def zookeeper() -> SimZooKeeper:
    """Return a server with one znode."""
    server = SimZooKeeper()
    server.transact(NOBODY, [Make("/a", b"one")])
    return server


def _failure(zookeeper: SimZooKeeper, *operations: AnyOperation) -> tuple[int, WriteError]:
    with pytest.raises(TransactionFailedError) as caught:
        zookeeper.transact(NOBODY, operations)
    return caught.value.index, caught.value.error


def test_every_write_moves_version_and_mzxid_but_not_czxid(zookeeper: SimZooKeeper) -> None:
    """A znode keeps the zxid of its creation for life."""
    made = zookeeper.get("/a")
    zookeeper.transact(NOBODY, [SetData("/a", b"two", ZkVersion(0))])
    after = zookeeper.get("/a")
    assert made is not None
    assert after is not None
    assert (after.data, after.version) == (b"two", 1)
    assert after.czxid == made.czxid
    assert after.mzxid == zookeeper.zxid > made.mzxid


def test_a_recreated_znode_begins_at_version_zero_with_another_czxid(
    zookeeper: SimZooKeeper,
) -> None:
    """Deleting and creating in one transaction is not a change of data."""
    before = zookeeper.get("/a")
    zookeeper.transact(NOBODY, [Put("/a", b"x")])
    zookeeper.transact(NOBODY, [Delete("/a", ZkVersion(1)), Create("/a", b"new")])
    after = zookeeper.get("/a")
    assert before is not None
    assert after is not None
    assert after.version == 0
    assert after.czxid > before.czxid


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Check("/a", ZkVersion(1)), WriteError.BAD_VERSION),
        (Check("/b", ZkVersion(0)), WriteError.NO_NODE),
        (SetData("/a", b"", ZkVersion(7)), WriteError.BAD_VERSION),
        (SetData("/b", b"", ZkVersion(0)), WriteError.NO_NODE),
        (Put("/b", b""), WriteError.NO_NODE),
        (Create("/a", b""), WriteError.NODE_EXISTS),
        (Create("/b/c", b""), WriteError.NO_NODE),
        (Delete("/b", None), WriteError.NO_NODE),
        (Delete("/a", ZkVersion(3)), WriteError.BAD_VERSION),
        (Delete("/a", None), WriteError.NOT_EMPTY),
        (Make("/a/e/x"), WriteError.OTHER),
        (Create("/b", bytes(2 << 20)), WriteError.TOO_LARGE),
    ],
)
def test_a_failing_operation_undoes_the_whole_transaction(
    zookeeper: SimZooKeeper, operation: AnyOperation, error: WriteError
) -> None:
    """The index of the operation is told, and nothing of the others remains."""
    session = zookeeper.open_session()
    zookeeper.transact(session, [Make("/a/e", ephemeral=True)])
    zxid, parent = zookeeper.zxid, zookeeper.get("/a")
    others: list[AnyOperation] = [
        Create("/n", b""),
        Put("/n", b"1"),
        Make("/a/s-", sequential=True),
    ]
    removal = Delete("/a/e", None)
    index, found = _failure(zookeeper, *others, operation)
    assert (index, found) == (3, error)
    if error is not WriteError.NOT_EMPTY and operation.path != "/a/e/x":
        assert _failure(zookeeper, removal, operation) == (1, error)
    assert zookeeper.zxid == zxid
    assert zookeeper.get("/a") == parent
    assert zookeeper.get("/n") is None
    assert zookeeper.children("/a") == ("e",)


def test_operations_of_a_transaction_see_each_other(zookeeper: SimZooKeeper) -> None:
    """A znode made by the first operation can be checked, written and removed by the next."""
    operations: list[AnyOperation] = [
        Create("/a/b", b"1"),
        Check("/a/b", ZkVersion(0)),
        SetData("/a/b", b"2", ZkVersion(0)),
        SetData("/a/b", b"3", ZkVersion(1)),
    ]
    zookeeper.transact(NOBODY, operations)
    found = zookeeper.get("/a/b")
    assert found is not None
    assert (found.data, found.version) == (b"3", 2)


def test_sequential_znodes_never_repeat_a_number(zookeeper: SimZooKeeper) -> None:
    """Not even when the one before was deleted."""
    make = Make("/a/n_", sequential=True)
    assert zookeeper.transact(NOBODY, [make]) == ["/a/n_0000000000"]
    zookeeper.transact(NOBODY, [Delete("/a/n_0000000000", None)])
    assert zookeeper.transact(NOBODY, [make]) == ["/a/n_0000000001"]


def test_ephemerals_go_with_their_session(zookeeper: SimZooKeeper) -> None:
    """An ended session takes its znodes along and can write no more."""
    session = zookeeper.open_session()
    zookeeper.transact(session, [Make("/e", ephemeral=True), Make("/p")])
    zookeeper.close_session(session)
    assert zookeeper.get("/e") is None
    assert zookeeper.get("/p") is not None
    with pytest.raises(SessionExpiredError):
        zookeeper.transact(session, [Put("/p", b"")])


def test_an_ephemeral_replaced_by_another_session_outlives_the_first(
    zookeeper: SimZooKeeper,
) -> None:
    """As when ``/controller`` is seized in one transaction."""
    old, new = zookeeper.open_session(), zookeeper.open_session()
    zookeeper.transact(old, [Make("/e", ephemeral=True)])
    zookeeper.transact(new, [Delete("/e", ZkVersion(0)), Make("/e", ephemeral=True)])
    zookeeper.close_session(old)
    found = zookeeper.get("/e")
    assert found is not None
    assert found.ephemeral_owner == new
    zookeeper.close_session(new)
    assert zookeeper.get("/e") is None


def test_watches_fire_once(zookeeper: SimZooKeeper) -> None:
    """A second change is not told unless somebody looked again."""
    client = _Client(zookeeper)
    zookeeper.get("/a", client.watch("data"))
    zookeeper.transact(NOBODY, [Put("/a", b"2")])
    zookeeper.transact(NOBODY, [Put("/a", b"3")])
    assert client.fired == ["data"]


def test_setting_the_same_watch_twice_is_setting_it_once(zookeeper: SimZooKeeper) -> None:
    """As in a client, which keeps a set of callbacks per path."""
    client = _Client(zookeeper)
    zookeeper.get("/a", client.watch("data"))
    zookeeper.exists("/a", client.watch("data"))
    zookeeper.transact(NOBODY, [Put("/a", b"2")])
    assert client.fired == ["data"]


def test_only_exists_watches_what_is_not_there_yet(zookeeper: SimZooKeeper) -> None:
    """Reading an absent znode sets no watch."""
    client = _Client(zookeeper)
    zookeeper.get("/b", client.watch("get"))
    zookeeper.exists("/b", client.watch("exists"))
    zookeeper.transact(NOBODY, [Make("/b")])
    assert client.fired == ["exists"]


def test_child_watches_fire_for_children_and_not_for_data(zookeeper: SimZooKeeper) -> None:
    """Creation, removal and replacement of a child count; its data does not."""
    client = _Client(zookeeper)
    zookeeper.children("/a", client.watch("children"))
    zookeeper.transact(NOBODY, [Put("/a", b"2")])
    assert client.fired == []
    zookeeper.transact(NOBODY, [Make("/a/b")])
    assert client.fired == ["children"]
    zookeeper.children("/a", client.watch("children"))
    zookeeper.transact(NOBODY, [Put("/a/b", b"2")])
    assert client.fired == ["children"]
    zookeeper.transact(NOBODY, [Delete("/a/b", None), Make("/a/b")])
    assert client.fired == ["children", "children"]


def test_a_refused_transaction_fires_nothing(zookeeper: SimZooKeeper) -> None:
    """Nobody hears of what did not happen."""
    client = _Client(zookeeper)
    zookeeper.get("/a", client.watch("data"))
    _failure(zookeeper, Put("/a", b"2"), Put("/b", b""))
    assert client.fired == []


def test_listeners_see_each_znode_once_with_what_it_was_before(zookeeper: SimZooKeeper) -> None:
    """However often a transaction wrote it."""
    seen: list[Transaction] = []
    zookeeper.listeners.append(seen.append)
    zookeeper.transact(NOBODY, [Put("/a", b"2"), Put("/a", b"3"), Check("/a", ZkVersion(2))])
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
