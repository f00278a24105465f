"""
A daemon's store on a real ZooKeeper, and the actions of all other clients: a ``StoreRig``.

Each ``Chroot`` is a cluster of its own as far as znodes go. Events are kept in the order in which
they came; waiting for one forgets those before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_digest_acl

from controller.clocks import MonotonicClock
from controller.core.core_settings import REQUEST_BYTES
from controller.core.model import BrokerId, ZkVersion
from controller.core.records import Event
from controller.zk.daemon_election import Leadership
from controller.zk.leased_client import LeasedClient
from controller.zk.sessions import RECONNECT, Session
from controller.zk.store import ZkStore
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_controller
from tests.contracts.rigs import CONTROLLER_ID

WITHIN_S: Final = 15.0
QUIET_S: Final = 0.3
SESSION_TIMEOUT_S: Final = 4.0
GRACE_S: Final = 1.0
"""Longer than the daemon's own, so that a busy machine does what has to be done within it."""

AnyEvent = TypeVar("AnyEvent", bound=Event)


class WaitingInbox:
    """An inbox for tests: any thread puts, the test waits."""

    def __init__(self) -> None:
        self._arrival = threading.Condition()
        self._events: list[Event] = []

    def put(self, event: Event) -> None:
        """Add an event."""
        with self._arrival:
            self._events.append(event)
            self._arrival.notify_all()

    def next(
        self, kind: type[AnyEvent], accept: Callable[[AnyEvent], bool], within_s: float
    ) -> AnyEvent | None:
        """Return the next such event and forget those before it; None when none comes in time."""
        deadline = time.monotonic() + within_s
        with self._arrival:
            while True:
                for n, event in enumerate(self._events):
                    if isinstance(event, kind) and accept(event):
                        del self._events[: n + 1]
                        return event
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return None
                self._arrival.wait(remaining)

    def __repr__(self) -> str:
        with self._arrival:
            return "\n".join(map(repr, self._events[-20:]))


class Chroot:
    """A chroot of its own in a ZooKeeper, with a client that plays all other clients."""

    def __init__(self, address: str, chroot: str) -> None:
        self.hosts = f"{address}{chroot}"
        root = KazooClient(hosts=address)
        root.start(timeout=30)
        root.ensure_path(chroot)
        root.stop()
        root.close()
        self.client = KazooClient(hosts=self.hosts, timeout=SESSION_TIMEOUT_S)
        self.client.start(timeout=30)

    def put(self, path: str, data: bytes = b"") -> None:
        """Create a znode, its parents with it, or replace its data."""
        if self.client.exists(path) is None:
            self.client.create(path, data, makepath=True)
        else:
            self.client.set(path, data)

    def close(self) -> None:
        """Disconnect."""
        self.client.stop()
        self.client.close()


class ZkRig:
    """One daemon's store; see ``StoreRig``."""

    def __init__(
        self,
        place: Chroot,
        *,
        http: str | None = None,
        digest: str | None = None,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        request_bytes: int = REQUEST_BYTES,
    ) -> None:
        """
        Connect a daemon.

        Args:
            place: Where.
            http: Its address, if several daemons compete.
            digest: ``user:password`` it authenticates with, if any.
            session_timeout_s: How long its session outlives its connection.
            request_bytes: The largest request that it sends.

        """
        self.place = place
        self.inbox = WaitingInbox()
        for path in paths.CLUSTER_ROOTS:
            place.put(path)
        place.put(paths.TOPICS)
        client = LeasedClient(
            MonotonicClock(),
            hosts=place.hosts,
            timeout=session_timeout_s,
            connection_retry=dict(RECONNECT),
            auth_data=[("digest", digest)] if digest else None,
        )
        self.session = Session(client)
        self.leadership = None if http is None else Leadership(self.session, self.inbox, http=http)
        self.store = ZkStore(
            self.session,
            self.inbox,
            controller_id=CONTROLLER_ID,
            now_ms=lambda: int(time.time() * 1000),
            leadership=self.leadership,
            grace_s=GRACE_S,
            request_bytes=request_bytes,
        )
        self.session.start(within_s=30)
        if self.leadership is not None:
            self.leadership.start()

    def stop(self) -> None:
        """Disconnect as a daemon does."""
        self.store.stop()
        if self.leadership is not None:
            self.leadership.stop()
        self.session.stop()

    # --- other clients -------------------------------------------------------------------------

    def put(self, path: str, data: bytes = b"") -> None:
        """Create a znode or replace its data."""
        self.place.put(path, data)

    def remove(self, path: str) -> None:
        """Delete a znode."""
        self.place.client.delete(path)

    def get(self, path: str) -> tuple[bytes, ZkVersion] | None:
        """Return a znode's data and version."""
        try:
            data, stat = self.place.client.get(path)
        except NoNodeError:
            return None
        return data, ZkVersion(stat.version)

    def hide(self, path: str) -> None:
        """Restrict a znode to another client."""
        self.place.client.set_acls(path, [make_digest_acl("other", "secret", all=True)])

    def seize(self, broker: BrokerId) -> None:
        """Take ``/controller`` as a broker does."""
        epoch, stat = self.place.client.get(paths.CONTROLLER_EPOCH)
        multi = self.place.client.transaction()
        multi.set_data(paths.CONTROLLER_EPOCH, str(int(epoch) + 1).encode(), stat.version)
        if self.place.client.exists(paths.CONTROLLER) is not None:
            multi.delete(paths.CONTROLLER)
        multi.create(paths.CONTROLLER, encode_controller(broker, 0), ephemeral=True)
        failed = [result for result in multi.commit() if isinstance(result, Exception)]
        assert not failed, failed

    def write_as_controller(self, path: str, version: ZkVersion) -> bool:
        """Write under a check of the epoch's version, as every controller does."""
        multi = self.place.client.transaction()
        multi.check(paths.CONTROLLER_EPOCH, version)
        multi.create(path, b"")
        return not any(isinstance(result, Exception) for result in multi.commit())

    def expire(self) -> None:
        """End the store's session: a second client that closes it under our id."""
        twin = KazooClient(
            hosts=self.place.hosts,
            timeout=SESSION_TIMEOUT_S,
            client_id=self.session.client.client_id,
        )
        twin.start(timeout=30)
        twin.stop()
        twin.close()

    # --- time ----------------------------------------------------------------------------------

    def wait_for(
        self, kind: type[AnyEvent], accept: Callable[[AnyEvent], bool] = lambda _: True
    ) -> AnyEvent:
        """Return the next such event."""
        event = self.inbox.next(kind, accept, WITHIN_S)
        assert event is not None, f"no {kind.__name__} within {WITHIN_S:g} s; came: {self.inbox!r}"
        return event

    def is_quiet(self, kind: type[Event]) -> bool:
        """Return whether no such event comes for a while."""
        return self.inbox.next(kind, lambda _: True, QUIET_S) is None


@contextmanager
def rigs_in(place: Chroot) -> Iterator[Callable[..., ZkRig]]:
    """Yield what builds rigs in one place; all are stopped in the end."""
    built: list[ZkRig] = []

    def build(
        *,
        http: str | None = None,
        digest: str | None = None,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        request_bytes: int = REQUEST_BYTES,
    ) -> ZkRig:
        rig = ZkRig(
            place,
            http=http,
            digest=digest,
            session_timeout_s=session_timeout_s,
            request_bytes=request_bytes,
        )
        built.append(rig)
        return rig

    try:
        yield build
    finally:
        for rig in reversed(built):
            rig.stop()
        place.close()
