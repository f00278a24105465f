"""Reading znodes, present, absent or coming into being."""

from __future__ import annotations

from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from controller.zk.readers import WINDOW, decode_many
from controller.zk.session_reads import Reader, watch
from tests.zk.fakes import SESSION, FakeClient, Stat, connected_session


def _reader(client: FakeClient) -> Reader:
    return Reader(connected_session(client))


def test_a_znode_is_read_with_what_identifies_it() -> None:
    """Version, creation, owner and last change."""
    client = FakeClient()
    client.nodes["/a"] = (b"x", Stat(0, 1, SESSION, mzxid=7))
    assert _reader(client).get("/a") == (b"x", 0, 1, SESSION, 0, 7)


def test_a_znode_without_data_is_an_empty_one() -> None:
    """ZooKeeper distinguishes them, and some clients create the former."""
    client = FakeClient()
    client.nodes["/a"] = (None, Stat(0, 1, 0))
    read = _reader(client).get("/a")
    assert read is not None
    assert read.data == b""


def test_an_absent_znode_is_watched_for_its_creation() -> None:
    """It is none, not an error."""
    client, fired = FakeClient(), []
    reader = _reader(client)
    assert reader.watching(watch(lambda: fired.append(1))).get("/a") is None
    client.put("/a", b"")
    assert fired == [1]


def test_a_directory_in_the_making_is_watched() -> None:
    """Empty until it exists."""
    client, fired = FakeClient(), []
    assert _reader(client).watching(watch(lambda: fired.append(1))).children("/d") == ()
    client.fire("/d")
    assert fired == [1]


def test_a_broken_connection_fires_no_watch() -> None:
    """The session's listeners see to that; kazoo calls every watch then."""
    fired: list[int] = []
    call = watch(lambda: fired.append(1))
    call(WatchedEvent(EventType.NONE, KazooState.SUSPENDED, "/a"))
    assert fired == []
    call(WatchedEvent(EventType.CREATED, KazooState.CONNECTED, "/a"))
    assert fired == [1]


def test_more_than_a_window_is_read_in_order() -> None:
    """Every key has its answer."""
    client = FakeClient()
    client.put("/5", b"five")
    keys = list(range(2 * WINDOW + 3))
    read = dict(decode_many(_reader(client), keys, lambda n: f"/{n}", lambda _, znode: znode.data))
    assert list(read) == keys
    assert {n: data for n, data in read.items() if data is not None} == {5: b"five"}
