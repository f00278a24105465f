"""
A kazoo client without a ZooKeeper: a tree in memory, watches fired by hand, answers at once.

Only what the room under test calls. A transaction does what the test scripted for it.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.security import ACL

from controller.core.model import Instant
from controller.core.records import Event
from controller.zk.leased_client import ClientLease, LeasedClient
from controller.zk.sessions import Session
from controller.znodes import paths

AnyEvent = TypeVar("AnyEvent", bound=Event)
SESSION = 77
WITHIN_S = 10.0


class Stat(NamedTuple):
    """The parts of a znode's stat that are looked at."""

    version: int
    czxid: int
    ephemeralOwner: int  # noqa: N815 - kazoo's name
    ctime: int = 0
    mzxid: int = 0


class Answered:
    """An answer that is there already."""

    def __init__(self, result: object) -> None:
        self._result = result

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401, ARG002, FBT001, FBT002 - kazoo's signature
        """Return it, or raise it."""
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


class FakeTransaction:
    """Collects operations; the client says what becomes of them."""

    def __init__(self, client: FakeClient) -> None:
        self._client = client
        self.operations: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **options: self.operations.append(
            (name, *args, options) if options else (name, *args)
        )

    def commit_async(self) -> Answered:
        """Do what is scripted."""
        self._client.committed.append(self.operations)
        scripted = self._client.script.popleft()
        return Answered(scripted() if callable(scripted) else scripted)


class FakeClock:
    """A clock for the test to set."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> Instant:
        """Return the time."""
        return Instant(self.seconds)


class FakeClient:
    """Znodes, watches and a connection state."""

    def __init__(self, *, timeout_s: float = WITHIN_S) -> None:
        self.clock = FakeClock()
        self.lease = ClientLease(self.clock, timeout_s)
        self.nodes: dict[str, tuple[Any, Stat]] = {}
        """Data, which may be None as in kazoo, and stat."""
        self.watches: dict[str, set[Callable[[WatchedEvent], None]]] = defaultdict(set)
        self.reads: list[str] = []
        self.script: deque[object] = deque()
        """What becomes of the next transactions: results, an error, or a function of either."""
        self.committed: list[list[tuple[Any, ...]]] = []
        self.created: list[str] = []
        self.failures: deque[Exception] = deque()
        """Errors of the next reads."""
        self.hidden: set[str] = set()
        """What we may not read."""
        self.mute: set[str] = set()
        """Of which we may not even ask whether it exists, as newer servers have it."""
        self.after_read: dict[str, Callable[[], None]] = {}
        """What happens right after a znode was read."""
        self.acls: dict[str, list[ACL]] = {}
        self.default_acl: list[ACL] | None = None
        self.hosts = [("zk", 2181)]
        self.chroot = "/kafka"
        self.client_state = KeeperState.CONNECTED
        self.client_id: tuple[int, bytes] | None = (SESSION, b"")
        self.state = KazooState.CONNECTED
        self.last_zxid = 0
        self.listener: Callable[[str], None] = lambda _: None

    # --- kazoo's face --------------------------------------------------------------------------

    def start_async(self) -> None:
        """Connect at once."""
        self.lease.note_grant(self.lease.timeout_s, self.clock.now())
        self.listener(KazooState.CONNECTED)

    def stop(self) -> None:
        """End the session."""
        self.listener(KazooState.LOST)

    def close(self) -> None:
        """Give up nothing."""

    def get_acls_async(self, path: str) -> Answered:
        """Return the permissions of a znode."""
        return Answered((self.acls[path], None) if path in self.acls else NoNodeError())

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Keep the listener of the session."""
        self.listener = listener

    def transaction(self) -> FakeTransaction:
        """Begin a transaction."""
        return FakeTransaction(self)

    def create_async(self, path: str) -> Answered:
        """Note that it was asked for."""
        self.created.append(path)
        return Answered(path)

    def get_async(self, path: str, watch: Callable[[WatchedEvent], None] | None = None) -> Answered:
        """Read a znode; it is watched only if it exists."""
        self.reads.append(path)
        if self.failures:
            return Answered(self.failures.popleft())
        if path in self.hidden:
            return Answered(NoAuthError())
        found = self.nodes.get(path)
        answered = Answered(NoNodeError()) if found is None else self._watched(path, watch, found)
        self.after_read.pop(path, lambda: None)()
        return answered

    def exists_async(
        self, path: str, watch: Callable[[WatchedEvent], None] | None = None
    ) -> Answered:
        """Look whether a znode exists; it is watched either way."""
        if path in self.mute:
            return Answered(NoAuthError())
        found = self.nodes.get(path)
        return self._watched(path, watch, None if found is None else found[1])

    def get_children_async(
        self, path: str, watch: Callable[[WatchedEvent], None] | None = None
    ) -> Answered:
        """List a directory that is there, or in which something is."""
        if path in self.hidden:
            return Answered(NoAuthError())
        prefix = f"{path}/"
        names = {p[len(prefix) :].split("/")[0] for p in self.nodes if p.startswith(prefix)}
        if not names and path not in self.nodes:
            return Answered(NoNodeError())
        return self._watched(path, watch, sorted(names))

    def _watched(
        self, path: str, watch: Callable[[WatchedEvent], None] | None, result: object
    ) -> Answered:
        if watch is not None:
            self.watches[path].add(watch)
        return Answered(result)

    # --- the test's hands ----------------------------------------------------------------------

    def put(self, path: str, data: bytes, *, owner: int = 0) -> None:
        """Create or replace a znode and fire its watches."""
        version = self.nodes[path][1].version + 1 if path in self.nodes else 0
        self.nodes[path] = (data, Stat(version, 1, owner))
        self.fire(path)

    def fire(self, path: str) -> None:
        """Fire the watches on a znode, as its change does."""
        for watch in self.watches.pop(path, set()):
            watch(WatchedEvent(EventType.CHANGED, KazooState.CONNECTED, path))

    def reconnect(self, *, session: int = SESSION) -> None:
        """Lose the connection and find it again, in the same session or in another."""
        self.client_id = None
        self.listener(KazooState.SUSPENDED)
        watches, self.watches = self.watches, defaultdict(set)
        for path, fired in watches.items():
            for watch in fired:
                watch(WatchedEvent(EventType.NONE, KazooState.SUSPENDED, path))
        if session != SESSION:
            self.listener(KazooState.LOST)
        self.client_id = (session, b"")
        self.listener(KazooState.CONNECTED)


class FakeInbox:
    """An inbox on which a test can wait."""

    def __init__(self) -> None:
        self._arrival = threading.Condition()
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        """Add an event."""
        with self._arrival:
            self.events.append(event)
            self._arrival.notify_all()

    def wait_for(self, kind: type[AnyEvent], count: int = 1) -> AnyEvent:
        """Wait for so many events of a kind; return the last of them."""
        with self._arrival:
            came = self._arrival.wait_for(lambda: len(self.of(kind)) >= count, WITHIN_S)
            assert came, f"no {kind.__name__}: {self.events}"
            return self.of(kind)[count - 1]

    def of(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


def connected_session(client: FakeClient) -> Session:
    """Build a session on the fake that has its connection."""
    for path in paths.CLUSTER_ROOTS:
        client.nodes.setdefault(path, (b"", Stat(0, 1, 0)))
    session = Session(cast("LeasedClient", client))
    session.start(within_s=WITHIN_S)
    return session
