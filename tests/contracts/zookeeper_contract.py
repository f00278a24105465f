"""
The properties of ZooKeeper that the project relies on: versions, multis, watches, ephemerals.

A subclass provides the fixture ``connect``: each call gives one client with a session of its own on
one and the same server, whose tree is empty. The simulated server and a real one keep it alike, so
what histories show is not an invention of the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from controller.core.model import ZkVersion
from controller.reactor.ports import Check, Create, Delete, SetData, WriteError
from tests.sim.zookeeper import (
    AnyOperation,
    Make,
    Put,
    SessionId,
    TransactionFailedError,
    Znode,
)


class Client(Protocol):
    """One client of the server under test."""

    @property
    def id(self) -> SessionId:
        """The session id, as in the owner of ephemerals."""
        ...

    def transact(self, *operations: AnyOperation) -> list[str]:
        """
        Apply all operations or none; return the path each of them touched.

        Raises:
            TransactionFailedError: one of them cannot be applied.

        """
        ...

    def get(self, path: str, watch: str = "") -> Znode | None:
        """Read a znode; the named watch is set only if it exists."""
        ...

    def exists(self, path: str, watch: str = "") -> Znode | None:
        """Read a znode; the named watch is set in any case."""
        ...

    def children(self, path: str, watch: str = "") -> list[str] | None:
        """Return the names of a znode's children, None where there is no znode."""
        ...

    def fired(self) -> list[str]:
        """Return the names of the watches that fired so far, once all news has come."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


Connect = Callable[[], Client]


def failure(client: Client, *operations: AnyOperation) -> tuple[int, WriteError]:
    """Return the index and the error of the operation that fails a transaction."""
    with pytest.raises(TransactionFailedError) as caught:
        client.transact(*operations)
    return caught.value.index, caught.value.error


def read(client: Client, path: str) -> Znode:
    """Return a znode that exists."""
    found = client.get(path)
    assert found is not None, path
    return found


class ZooKeeperContract:
    """The suite; each test begins with the znode ``/a``."""

    @pytest.fixture
    def connect(self) -> Connect:
        """Return the function that connects a client."""
        raise NotImplementedError

    @pytest.fixture
    def client(self, connect: Connect) -> Client:
        """Return a client that has made the one znode."""
        client = connect()
        client.transact(Make("/a", b"one"))
        return client

    # --- versions ------------------------------------------------------------------------------

    def test_every_write_moves_version_and_mzxid_but_not_czxid(self, client: Client) -> None:
        """A znode keeps the zxid of its creation for life."""
        made = read(client, "/a")
        client.transact(SetData("/a", b"two", ZkVersion(0)))
        after = read(client, "/a")
        assert (after.data, after.version) == (b"two", 1)
        assert after.czxid == made.czxid == made.mzxid
        assert after.mzxid > made.mzxid

    def test_a_recreated_znode_begins_at_version_zero_with_another_czxid(
        self, client: Client
    ) -> None:
        """Deleting and creating in one transaction is not a change of data."""
        before = read(client, "/a")
        client.transact(Put("/a", b"x"))
        client.transact(Delete("/a", ZkVersion(1)), Create("/a", b"new"))
        after = read(client, "/a")
        assert (after.data, after.version) == (b"new", 0)
        assert after.czxid > before.czxid

    def test_children_that_come_and_go_are_counted(self, client: Client) -> None:
        """The parent's ``cversion`` counts them, not its version."""
        before = read(client, "/a")
        client.transact(Make("/a/b"))
        client.transact(Delete("/a/b", None))
        after = read(client, "/a")
        assert after == before._replace(cversion=before.cversion + 2)

    # --- transactions --------------------------------------------------------------------------

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
        ],
    )
    def test_a_failing_operation_undoes_the_whole_transaction(
        self, client: Client, operation: AnyOperation, error: WriteError
    ) -> None:
        """The error has the index of the operation, and no other operation has an effect."""
        client.transact(Make("/a/e", ephemeral=True))
        parent = read(client, "/a")
        others: list[AnyOperation] = [
            Create("/n", b""),
            Put("/n", b"1"),
            Make("/a/s-", sequential=True),
        ]
        assert failure(client, *others, operation) == (3, error)
        if error is not WriteError.NOT_EMPTY and operation.path != "/a/e/x":
            assert failure(client, Delete("/a/e", None), operation) == (1, error)
        assert read(client, "/a") == parent
        assert client.get("/n") is None
        assert client.children("/a") == ["e"]

    def test_operations_of_a_transaction_see_each_other(self, client: Client) -> None:
        """A znode made by the first operation can be checked, written and removed by the next."""
        client.transact(
            Create("/a/b", b"1"),
            Check("/a/b", ZkVersion(0)),
            SetData("/a/b", b"2", ZkVersion(0)),
            SetData("/a/b", b"3", ZkVersion(1)),
            Create("/a/c", b""),
            Delete("/a/c", ZkVersion(0)),
        )
        found = read(client, "/a/b")
        assert (found.data, found.version) == (b"3", 2)
        assert client.children("/a") == ["b"]

    def test_sequential_znodes_never_repeat_a_number(self, client: Client) -> None:
        """Every child that was ever created counts, also deleted ones."""
        make = Make("/a/n_", sequential=True)
        assert client.transact(make) == ["/a/n_0000000000"]
        client.transact(Delete("/a/n_0000000000", None))
        assert client.transact(make) == ["/a/n_0000000001"]
        client.transact(Make("/a/other"))
        assert client.transact(make, make) == ["/a/n_0000000003", "/a/n_0000000004"]

    # --- ephemerals ----------------------------------------------------------------------------

    def test_ephemerals_go_with_their_session(self, client: Client, connect: Connect) -> None:
        """The end of a session deletes its ephemeral znodes and fires the watches of others."""
        other = connect()
        other.transact(Make("/e", ephemeral=True), Make("/p"))
        assert read(client, "/e").ephemeral_owner == other.id
        client.get("/e", "data")
        client.children("/", "children")
        other.close()
        assert client.get("/e") is None
        assert client.get("/p") is not None
        assert sorted(client.fired()) == ["children", "data"]

    def test_an_ephemeral_replaced_by_another_session_outlives_the_first(
        self, client: Client, connect: Connect
    ) -> None:
        """``/controller`` is seized so, in one transaction."""
        old, new = connect(), connect()
        old.transact(Make("/e", ephemeral=True))
        new.transact(Delete("/e", ZkVersion(0)), Make("/e", ephemeral=True))
        old.close()
        assert read(client, "/e").ephemeral_owner == new.id
        new.close()
        assert client.get("/e") is None

    # --- watches -------------------------------------------------------------------------------

    def test_watches_fire_once(self, client: Client, connect: Connect) -> None:
        """A watch fires once: the next change needs another read."""
        client.get("/a", "data")
        other = connect()
        other.transact(Put("/a", b"2"))
        other.transact(Put("/a", b"3"))
        assert client.fired() == ["data"]

    def test_a_znode_that_is_replaced_in_one_transaction_fires_once(self, client: Client) -> None:
        """It is gone and there again: a watch knows the first of it only."""
        client.exists("/a", "data")
        client.transact(Delete("/a", None), Make("/a"))
        assert client.fired() == ["data"]

    def test_setting_the_same_watch_twice_is_setting_it_once(self, client: Client) -> None:
        """A client keeps a set of callbacks per path."""
        client.get("/a", "data")
        client.exists("/a", "data")
        client.transact(Put("/a", b"2"))
        assert client.fired() == ["data"]

    def test_only_exists_watches_what_is_not_there_yet(self, client: Client) -> None:
        """Reading an absent znode sets no watch."""
        client.get("/b", "get")
        client.children("/b", "children")
        client.exists("/b", "exists")
        client.transact(Make("/b"))
        client.transact(Make("/b/c"))
        assert client.fired() == ["exists"]

    def test_child_watches_fire_for_children_and_not_for_data(self, client: Client) -> None:
        """Creation, removal and replacement of a child count; its data does not."""
        client.children("/a", "children")
        client.transact(Put("/a", b"2"))
        assert client.fired() == []
        client.transact(Make("/a/b"))
        assert client.fired() == ["children"]
        client.children("/a", "children")
        client.transact(Put("/a/b", b"2"))
        assert client.fired() == ["children"]
        client.transact(Delete("/a/b", None), Make("/a/b"))
        assert client.fired() == ["children", "children"]

    def test_a_child_watch_fires_when_its_znode_goes(self, client: Client) -> None:
        """The watch on its data fires, too."""
        client.children("/a", "children")
        client.get("/a", "data")
        client.transact(Delete("/a", None))
        assert sorted(client.fired()) == ["children", "data"]

    def test_a_refused_transaction_fires_nothing(self, client: Client) -> None:
        """A transaction that failed fires no watch."""
        client.get("/a", "data")
        failure(client, Put("/a", b"2"), Put("/b", b""))
        assert client.fired() == []
