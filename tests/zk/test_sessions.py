"""The events of the session that listeners get."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from controller.errors import SessionLostError
from controller.setting_sources import load_settings
from controller.zk.leased_client import LeasedClient
from controller.zk.sessions import Session, build_client
from controller.znodes import paths
from tests.zk.fakes import (
    SESSION,
    WITHIN_S,
    Answered,
    FakeClient,
    FakeClock,
    connected_session,
)


class _Listener:
    """A listener that records its events."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.has_lost = threading.Event()

    def connected(self, *, is_new: bool) -> None:
        self.events.append(is_new)

    def lost(self, reason: str) -> None:
        self.events.append(reason)
        self.has_lost.set()


def _listened(client: FakeClient) -> tuple[Session, _Listener]:
    session, listener = connected_session(client), _Listener()
    session.add_listener(listener)
    return session, listener


def test_the_client_never_gives_up_reconnecting() -> None:
    """Only ZooKeeper knows whether the session survived."""
    settings = load_settings(
        {"zookeeper": "a:1,b:2/kafka", "zookeeper_session_timeout_s": 7.0}, environ={}
    )
    client = build_client(settings, FakeClock())
    assert client.hosts == [("a", 1), ("b", 2)]
    assert client.chroot == "/kafka"
    assert client._conn_retry.max_tries == -1
    assert client._session_timeout == 7000


def test_a_short_interruption_is_no_loss() -> None:
    """Watches have to be set again, but the session is the same."""
    client = FakeClient()
    session, listener = _listened(client)
    client.reconnect()
    assert listener.events == [False]
    assert session.is_connected


def test_another_session_follows_a_loss() -> None:
    """First the loss is reported, then the new begin."""
    client = FakeClient()
    session, listener = _listened(client)
    client.reconnect(session=SESSION + 1)
    assert listener.events == ["the ZooKeeper session expired", True]
    assert session.id == SESSION + 1


def test_silence_beyond_the_timeout_is_a_loss() -> None:
    """An unreachable ZooKeeper cannot report that the session expired."""
    client = FakeClient(timeout_s=0.01)
    session, listener = _listened(client)
    client.clock.seconds += 0.01
    client.listener(KazooState.SUSPENDED)
    assert listener.has_lost.wait(WITHIN_S)
    assert "no contact" in str(listener.events[0])
    assert not session.is_connected


def test_silence_counts_from_the_last_answer_and_while_the_machine_sleeps() -> None:
    """The client library reports a silent server late, and no timer runs in a suspended machine."""
    client = FakeClient(timeout_s=10.0)
    _, listener = _listened(client)
    client.clock.seconds += 7.0
    client.listener(KazooState.SUSPENDED)
    assert not listener.has_lost.wait(0.05)
    client.clock.seconds += 3.0
    assert listener.has_lost.wait(WITHIN_S)


def test_a_server_that_answers_again_silences_the_alarm() -> None:
    """Within its time-out the session is the same."""
    client = FakeClient(timeout_s=10.0)
    _, listener = _listened(client)
    client.clock.seconds += 9.99
    client.listener(KazooState.SUSPENDED)
    client.lease.note_grant(10.0, client.clock.now())
    client.listener(KazooState.CONNECTED)
    client.clock.seconds += 5.0
    assert not listener.has_lost.wait(0.1)
    assert listener.events == [False]


def test_our_own_stop_is_no_loss() -> None:
    """It needs no action."""
    client = FakeClient()
    session, listener = _listened(client)
    session.stop()
    assert listener.events == []


def test_refused_credentials_make_the_session_unusable() -> None:
    """The client library gives up then; the process has to end."""
    client = FakeClient()
    session = connected_session(client)
    assert session.is_usable
    client.client_state = KeeperState.AUTH_FAILED
    assert not session.is_usable


def test_cluster_is_awaited_and_nothing_is_created() -> None:
    """A new one, or the chroot is wrong: what is missing is said each time that it changes."""
    client = FakeClient()
    session = Session(cast("LeasedClient", client))
    waiting = threading.Thread(target=session.start, kwargs={"within_s": 1, "look_s": 0.01})
    waiting.start()
    eventually_awaits(session, "the chroot /kafka missing")
    client.put("/", b"")
    eventually_awaits(session, "/brokers/ids, /brokers/topics, /admin, /config missing")
    for path in (paths.BROKER_IDS, "/config", paths.TOPICS):
        client.put(path, b"")
    eventually_awaits(session, ": /admin missing")
    assert client.default_acl is None
    client.put("/admin", b"")
    waiting.join(WITHIN_S)
    assert session.awaited is None
    assert client.default_acl == OPEN_ACL_UNSAFE
    assert not client.created


def eventually_awaits(session: Session, what: str) -> None:
    """Return when this is said to be missing."""
    end = time.monotonic() + WITHIN_S
    while what not in (session.awaited or ""):
        assert time.monotonic() < end, session.awaited
        time.sleep(0.005)


def test_roots_that_are_hidden_exist() -> None:
    """Newer servers do not say so to everyone."""
    client = FakeClient()
    client.mute.update(paths.CLUSTER_ROOTS)
    assert connected_session(client).awaited is None


def test_refused_credentials_end_the_wait_for_a_cluster() -> None:
    """The client library gives up then."""
    client = FakeClient()
    client.exists_async = lambda *_: Answered(AuthFailedError())  # type: ignore[method-assign]
    client.client_state = KeeperState.AUTH_FAILED
    with pytest.raises(SessionLostError):
        Session(cast("LeasedClient", client)).start(within_s=1, look_s=0.01)


def test_what_we_create_gets_the_permissions_of_the_cluster() -> None:
    """Else brokers could not change it."""
    client = FakeClient()
    mine = make_acl("sasl", "kafka", all=True)
    everyone = make_acl("world", "anyone", read=True)
    client.acls[paths.TOPICS] = [mine, everyone]
    connected_session(client)
    assert client.default_acl == [mine, everyone]


def test_an_open_cluster_stays_open() -> None:
    """Where anybody may do anything."""
    client = FakeClient()
    client.acls[paths.TOPICS] = client.acls["/admin"] = OPEN_ACL_UNSAFE
    connected_session(client)
    assert client.default_acl == OPEN_ACL_UNSAFE
