"""
The simulated ZooKeeper server: znodes, transactions, one-shot watches, ephemerals.

It is atomic and immediate; delays and losses on the way to a client are in ``sessions``. It knows
nothing of Kafka. Every change goes through ``transact``: a transaction is applied as a whole or not
at all, gets one zxid, and only then fires watches and notifies the listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from controller.reactor.ports import Check, Create, CreateSequential, Delete, SetData, WriteError

Callback = Callable[[], None]
SessionId = int
NO_SESSION: Final = 0
"""The ephemeral owner of persistent znodes."""
ANY_VERSION: Final = -1
"""In a write: whatever the version is."""
MAX_DATA_BYTES: Final = 1 << 20
"""ZooKeeper's ``jute.maxbuffer``."""


@dataclass(frozen=True, slots=True)
class Make:
    """Create a znode of any kind; sequential ones get ten digits appended."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Replace a znode's data whatever its version (as Kafka's controller writes topic znodes)."""

    path: str
    data: bytes


AnyOperation = Check | Create | CreateSequential | SetData | Delete | Make | Put


class Znode(NamedTuple):
    """The data and stat of a znode, as a client reads them."""

    data: bytes
    version: int
    cversion: int
    czxid: int
    mzxid: int
    ephemeral_owner: SessionId
    created_ms: int


class Written(NamedTuple):
    """One znode a transaction changed: ``before`` is None if made, ``after`` None if removed."""

    path: str
    before: Znode | None
    after: Znode | None


class Transaction(NamedTuple):
    """A transaction that was applied, for listeners."""

    zxid: int
    session: SessionId
    operations: tuple[AnyOperation, ...]
    written: tuple[Written, ...]


class TransactionFailedError(Exception):
    """A transaction was refused as a whole because of its ``index``-th operation."""

    def __init__(self, index: int, error: WriteError) -> None:
        super().__init__(f"operation {index}: {error}")
        self.index = index
        self.error = error


class SessionExpiredError(Exception):
    """The session is no more: it can neither read nor write."""


HIDDEN: Final = b"permissions do not suffice"
"""The data of a hidden znode: valid for no decoder, so that each reports it."""


class WatchKind(Enum):
    """The kind of event that a watch waits for."""

    DATA = "data"
    CHILDREN = "children"


class Watcher(Protocol):
    """The owner of a watch; see ``sessions.SimSession``."""

    @property
    def id(self) -> SessionId:
        """The session's id."""
        ...

    def notify(self, callback: Callback) -> None:
        """Deliver a watch that fired, in order with all other messages to the client."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """A one-shot watch; setting one with the same ``key`` again changes nothing, as in a client."""

    watcher: Watcher
    key: str
    callback: Callback


@dataclass(slots=True)
class _Node:
    data: bytes
    czxid: int
    mzxid: int
    owner: SessionId
    created_ms: int = 0
    version: int = 0
    cversion: int = 0
    sequence: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def snapshot(self) -> Znode:
        return Znode(
            self.data,
            self.version,
            self.cversion,
            self.czxid,
            self.mzxid,
            self.owner,
            self.created_ms,
        )


def parent_of(path: str) -> str:
    """Return the path of the znode that holds this one."""
    return path.rpartition("/")[0] or "/"


class SimZooKeeper:
    """The server: tree, transactions, watches."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        """Begin empty; ``now_ms`` is what the server's clock says, in milliseconds since 1970."""
        self.zxid = 0
        self._now_ms = now_ms
        self.listeners: list[Callable[[Transaction], None]] = []
        self.unwatched: set[str] = set()
        """
        Paths that nobody writes, and nobody watches: a watch more that is delivered after a broken
        connection would make another history of a seed.
        """
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, NO_SESSION)}
        self._sessions: dict[SessionId, dict[str, None]] = {NO_SESSION: {}}
        self._next_session = 1
        self._watches: dict[tuple[WatchKind, str], dict[tuple[SessionId, str], Watch]] = {}

    # --- sessions ------------------------------------------------------------------------------

    def open_session(self) -> SessionId:
        """Begin a session and return its id."""
        session = self._next_session
        self._next_session += 1
        self._sessions[session] = {}
        return session

    def close_session(self, session: SessionId) -> None:
        """End a session, by its client or by its timeout: its ephemerals and watches go."""
        ephemerals = self._sessions.get(session)
        if ephemerals is None:
            return
        for watches in self._watches.values():
            for key in [k for k in watches if k[0] == session]:
                del watches[key]
        if ephemerals:
            self.transact(session, [Delete(path, None) for path in ephemerals])
        del self._sessions[session]

    def is_open(self, session: SessionId) -> bool:
        """Return whether the session still exists."""
        return session in self._sessions

    # --- reads ---------------------------------------------------------------------------------

    def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        """Read a znode; the watch is set only if it exists."""
        node = self._nodes.get(path)
        if node is None:
            return None
        self._watch(WatchKind.DATA, path, watch)
        return node.snapshot()

    def exists(self, path: str, watch: Watch | None = None) -> Znode | None:
        """Read a znode; the watch is set in any case and fires when it appears."""
        self._watch(WatchKind.DATA, path, watch)
        node = self._nodes.get(path)
        return None if node is None else node.snapshot()

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...] | None:
        """Return the names of a znode's children, in arbitrary order."""
        node = self._nodes.get(path)
        if node is None:
            return None
        self._watch(WatchKind.CHILDREN, path, watch)
        return tuple(node.children)

    def take_watches(self, session: SessionId) -> list[Watch]:
        """Remove and return every watch of a session."""
        taken: list[Watch] = []
        for watches in self._watches.values():
            taken.extend(watches.pop(k) for k in [k for k in watches if k[0] == session])
        return taken

    def _watch(self, kind: WatchKind, path: str, watch: Watch | None) -> None:
        if watch is not None and path not in self.unwatched:
            owner = (watch.watcher.id, watch.key)
            self._watches.setdefault((kind, path), {}).setdefault(owner, watch)

    # --- writes --------------------------------------------------------------------------------

    def transact(self, session: SessionId, operations: Sequence[AnyOperation]) -> list[str]:
        """
        Apply all operations or none; return the path each of them touched.

        Raises:
            TransactionFailedError: one of them cannot be applied.
            SessionExpiredError: the session does not exist (any more).

        """
        if session not in self._sessions:
            raise SessionExpiredError
        pending = _Pending(self._nodes, self.zxid + 1, session, self._now_ms())
        paths = []
        for index, operation in enumerate(operations):
            outcome = pending.apply(operation)
            if isinstance(outcome, WriteError):
                pending.undo()
                raise TransactionFailedError(index, outcome)
            paths.append(outcome)
        self.zxid += 1
        self._finish(Transaction(self.zxid, session, tuple(operations), pending.written()))
        return paths

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Make a persistent znode and its parents where they are missing."""
        if path in self._nodes:
            return
        self.ensure(parent_of(path))
        self.transact(NO_SESSION, [Make(path, data)])

    def hide(self, path: str) -> None:
        """Hide its data from now on: reads return only its stat."""
        self._nodes[path].data = HIDDEN

    def remove_tree(self, path: str, session: SessionId = NO_SESSION) -> None:
        """Remove a znode and everything below it, if it exists."""
        found = [path]
        for known in found:
            prefix = known.rstrip("/")
            found.extend(f"{prefix}/{name}" for name in self.children(known) or ())
        if path in self._nodes:
            self.transact(session, [Delete(p, None) for p in reversed(found)])

    def _finish(self, transaction: Transaction) -> None:
        fired: list[Watch] = []
        for path, before, after in transaction.written:
            is_new = before is None or after is None or before.czxid != after.czxid
            if before is not None and is_new:
                self._sessions.get(before.ephemeral_owner, {}).pop(path, None)
            if after is not None and is_new and after.ephemeral_owner != NO_SESSION:
                self._sessions[after.ephemeral_owner][path] = None
            fired += self._fire(WatchKind.DATA, path)
            if is_new:
                fired += self._fire(WatchKind.CHILDREN, parent_of(path))
            if after is None:
                fired += self._fire(WatchKind.CHILDREN, path)
        for listener in self.listeners:
            listener(transaction)
        for watch in fired:
            watch.watcher.notify(watch.callback)

    def _fire(self, kind: WatchKind, path: str) -> list[Watch]:
        return list(self._watches.pop((kind, path), {}).values())


class _Pending:
    """One transaction being applied, with what is needed to take it back."""

    def __init__(self, nodes: dict[str, _Node], zxid: int, session: SessionId, now_ms: int) -> None:
        self._nodes = nodes
        self._now_ms = now_ms
        self._zxid = zxid
        self._session = session
        self._undo: list[Callback] = []
        self._before: dict[str, Znode | None] = {}

    def apply(self, operation: AnyOperation) -> str | WriteError:  # noqa: PLR0911 - one per kind
        match operation:
            case Check(path, version):
                node = self._nodes.get(path)
                if node is None:
                    return WriteError.NO_NODE
                return path if version in {ANY_VERSION, node.version} else WriteError.BAD_VERSION
            case Create(path, data):
                return self._create(path, data, NO_SESSION, sequential=False)
            case CreateSequential(path, data):
                return self._create(path, data, NO_SESSION, sequential=True)
            case Make(path, data, ephemeral, sequential):
                owner = self._session if ephemeral else NO_SESSION
                return self._create(path, data, owner, sequential=sequential)
            case SetData(path, data, version):
                return self._set(path, data, version)
            case Put(path, data):
                return self._set(path, data, None)
            case Delete(path, version_or_none):
                return self._delete(path, version_or_none)

    def undo(self) -> None:
        for action in reversed(self._undo):
            action()

    def written(self) -> tuple[Written, ...]:
        return tuple(
            Written(path, before, node.snapshot() if (node := self._nodes.get(path)) else None)
            for path, before in self._before.items()
        )

    def _create(
        self, path: str, data: bytes, owner: SessionId, *, sequential: bool
    ) -> str | WriteError:
        parent_path = parent_of(path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            return WriteError.NO_NODE
        if parent.owner != NO_SESSION:
            return WriteError.OTHER
        if len(data) > MAX_DATA_BYTES:
            return WriteError.TOO_LARGE
        if sequential:
            path = f"{path}{parent.sequence:010d}"
        if path in self._nodes:
            return WriteError.NODE_EXISTS
        name = path.rpartition("/")[2]
        self._before.setdefault(path, None)
        cversion, sequence = parent.cversion, parent.sequence
        self._nodes[path] = _Node(data, self._zxid, self._zxid, owner, self._now_ms)
        parent.children[name] = None
        parent.cversion += 1
        parent.sequence += 1

        def undo() -> None:
            del self._nodes[path]
            del parent.children[name]
            parent.cversion, parent.sequence = cversion, sequence

        self._undo.append(undo)
        return path

    def _set(self, path: str, data: bytes, version: int | None) -> str | WriteError:
        node = self._nodes.get(path)
        if node is None:
            return WriteError.NO_NODE
        if version not in {None, ANY_VERSION, node.version}:
            return WriteError.BAD_VERSION
        if len(data) > MAX_DATA_BYTES:
            return WriteError.TOO_LARGE
        old = (node.data, node.version, node.mzxid)
        self._before.setdefault(path, node.snapshot())
        node.data, node.version, node.mzxid = data, node.version + 1, self._zxid

        def undo() -> None:
            node.data, node.version, node.mzxid = old

        self._undo.append(undo)
        return path

    def _delete(self, path: str, version: int | None) -> str | WriteError:
        node = self._nodes.get(path)
        if node is None:
            return WriteError.NO_NODE
        if version is not None and node.version != version:
            return WriteError.BAD_VERSION
        if node.children:
            return WriteError.NOT_EMPTY
        parent = self._nodes[parent_of(path)]
        name = path.rpartition("/")[2]
        self._before.setdefault(path, node.snapshot())
        cversion = parent.cversion
        del self._nodes[path]
        del parent.children[name]
        parent.cversion += 1

        def undo() -> None:
            self._nodes[path] = node
            parent.children[name] = None
            parent.cversion = cversion

        self._undo.append(undo)
        return path
