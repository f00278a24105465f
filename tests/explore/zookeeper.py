"""
A ZooKeeper whose states are values: copying one copies references, and equal states hash equally.

It has the znodes, multis and one-shot watches of ``tests.sim.zookeeper``, and the same contract
suite holds for it. Znodes are immutable; a write replaces one. Watches are data: what the client
is to do is decided by the client (``daemon``).

Transaction ids count only the writes whose order matters to the daemon: registrations, topics,
partition states, and what operators write. Two histories that differ in the order of other writes
are thus one state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.explore.canonical import ZXID_BASE, is_on
from tests.explore.production import (
    ANY_VERSION,
    NO_SESSION,
    AnyOperation,
    Check,
    Create,
    CreateSequential,
    Delete,
    Make,
    Put,
    SessionExpiredError,
    SetData,
    TransactionFailedError,
    WriteError,
    paths,
)

ORDERED: Final = (
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.REQUESTS,
    paths.CANCEL,
    paths.LEGACY_PLAN,
    paths.DELETIONS,
)
"""Below these, the order of writes is visible in transaction ids."""
OWN: Final = f"{paths.ROOT}/"
"""What daemons write: of accepted entries and ended requests, they read the transaction ids."""
OUTCOMES: Final = f"{paths.OUTCOMES}/"
_ENDED: Final = re.compile(rb'"ended_ms":\d+')
"""When a request ended: an operator reads it, and it is forgotten after days."""
SEQUENTIAL: Final = frozenset({paths.REQUESTS, paths.CONFIG_CHANGES})
"""Clients make children of these whose names are numbered."""


class Znode(NamedTuple):
    """A znode: what clients read of it, and its children."""

    data: bytes
    version: int
    cversion: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    created_ms: int
    sequence: int
    children: tuple[str, ...]


class Watch(NamedTuple):
    """A one-shot watch: its session, and what the client called it."""

    session: int
    key: str
    path: str


ROOT: Final = Znode(b"", 0, 0, 0, 0, NO_SESSION, 0, 0, ())
DATA: Final = "data"
CHILDREN: Final = "children"


def parent_of(path: str) -> str:
    """Return the path of the znode that holds this one."""
    return path.rpartition("/")[0] or "/"


def _form_of(path: str, node: Znode) -> tuple[object, ...]:
    """Return the form of a znode: without what no client reads of it."""
    if is_on("undated znodes") and not path.startswith((*ORDERED, OWN)):
        node = node._replace(czxid=0, mzxid=0)
    if is_on("undated znodes") and path not in SEQUENTIAL:
        node = node._replace(sequence=0)
    if is_on("undated znodes") and path.startswith(OUTCOMES):
        node = node._replace(data=_ENDED.sub(b"", node.data))
    return path, *node


class ZooKeeper:
    """Znodes, sessions and watches."""

    __slots__ = (
        "contents",
        "fired",
        "next_session",
        "nodes",
        "sessions",
        "watches",
        "written",
        "zxid",
    )

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": ROOT}
        self.contents: tuple[object, ...] | None = None
        """The canonical form of the znodes; None after a write."""
        self.zxid = ZXID_BASE + 1
        self.sessions: frozenset[int] = frozenset({NO_SESSION})
        self.next_session = 1
        self.watches: dict[tuple[str, str], frozenset[tuple[int, str]]] = {}
        self.fired: list[Watch] = []
        """Watches that fired and were not passed to their clients yet."""
        self.written: list[tuple[int, str, Znode | None, Znode | None]] = []
        """What was written since the laws last looked: session, path, before, after."""

    def copy(self) -> ZooKeeper:
        """Return an independent copy."""
        other = ZooKeeper.__new__(ZooKeeper)
        other.nodes, other.contents = self.nodes.copy(), self.contents
        other.zxid = self.zxid
        other.sessions = self.sessions
        other.next_session = self.next_session
        other.watches = self.watches.copy()
        other.fired = self.fired.copy()
        other.written = self.written.copy()
        return other

    def form(self) -> tuple[object, ...]:
        """Return the canonical form."""
        if self.contents is None:
            self.contents = tuple(_form_of(path, node) for path, node in sorted(self.nodes.items()))
        watches = tuple((*k, tuple(sorted(v))) for k, v in sorted(self.watches.items()))
        return self.contents, watches, tuple(sorted(self.sessions))

    # --- sessions ------------------------------------------------------------------------------

    def open_session(self) -> int:
        """Begin a session."""
        session = self.next_session
        self.next_session += 1
        self.sessions |= {session}
        return session

    def close_session(self, session: int) -> None:
        """End a session: its ephemerals and watches go."""
        if session not in self.sessions:
            return
        self.drop_watches(session)
        owned = [p for p, node in self.nodes.items() if node.ephemeral_owner == session]
        if owned:
            self.transact(session, [Delete(path, None) for path in owned])
        self.sessions -= {session}

    def drop_watches(self, session: int) -> list[Watch]:
        """Remove and return the watches of a session."""
        dropped: list[Watch] = []
        for place, watches in list(self.watches.items()):
            mine = {w for w in watches if w[0] == session}
            if mine:
                dropped += [Watch(*w, place[1]) for w in sorted(mine)]
                self._keep(place, watches - mine)
        return dropped

    def _keep(self, place: tuple[str, str], watches: frozenset[tuple[int, str]]) -> None:
        if watches:
            self.watches[place] = watches
        else:
            del self.watches[place]

    def is_open(self, session: int) -> bool:
        """Return whether the session exists."""
        return session in self.sessions

    # --- reads ---------------------------------------------------------------------------------

    def get(self, path: str, watch: tuple[int, str] | None = None) -> Znode | None:
        """Read a znode; the watch is set only if it exists."""
        node = self.nodes.get(path)
        if node is not None:
            self._watch(DATA, path, watch)
        return node

    def exists(self, path: str, watch: tuple[int, str] | None = None) -> Znode | None:
        """Read a znode; the watch is set in any case."""
        self._watch(DATA, path, watch)
        return self.nodes.get(path)

    def children(self, path: str, watch: tuple[int, str] | None = None) -> tuple[str, ...] | None:
        """Return the names of a znode's children."""
        node = self.nodes.get(path)
        if node is None:
            return None
        self._watch(CHILDREN, path, watch)
        return node.children

    def _watch(self, kind: str, path: str, watch: tuple[int, str] | None) -> None:
        if watch is not None:
            place = (kind, path)
            self.watches[place] = self.watches.get(place, frozenset()) | {watch}

    # --- writes --------------------------------------------------------------------------------

    def transact(self, session: int, operations: Sequence[AnyOperation]) -> list[str]:
        """
        Apply all operations or none; return the paths.

        Raises:
            TransactionFailedError: one of them cannot be applied.
            SessionExpiredError: the session does not exist.

        """
        if session not in self.sessions:
            raise SessionExpiredError
        before = self.nodes
        self.nodes, self.contents = before.copy(), None
        touched: dict[str, None] = {}
        made: list[str] = []
        ordered = any(operation.path.startswith(ORDERED) for operation in operations)
        zxid = self.zxid + 1 if ordered else self.zxid
        for index, operation in enumerate(operations):
            outcome = self._apply(operation, session, zxid, touched)
            if isinstance(outcome, WriteError):
                self.nodes = before
                raise TransactionFailedError(index, outcome)
            made.append(outcome)
        self.zxid = zxid
        for path in touched:
            old, new = before.get(path), self.nodes.get(path)
            self.written.append((session, path, old, new))
            is_new = old is None or new is None
            self._fire(DATA, path)
            if is_new:
                self._fire(CHILDREN, parent_of(path))
            if new is None:
                self._fire(CHILDREN, path)
        return made

    def _fire(self, kind: str, path: str) -> None:
        for watch in sorted(self.watches.pop((kind, path), ())):
            self.fired.append(Watch(*watch, path))

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Make a persistent znode and its parents where they are missing."""
        if path not in self.nodes:
            self.ensure(parent_of(path))
            self.transact(NO_SESSION, [Make(path, data)])

    def remove_tree(self, path: str) -> None:
        """Remove a znode and everything below it."""
        below = [p for p in self.nodes if p == path or p.startswith(f"{path}/")]
        if below:
            self.transact(NO_SESSION, [Delete(p, None) for p in sorted(below, reverse=True)])

    def put(self, path: str, data: bytes) -> None:
        """Create a znode or replace its data, as the command line does."""
        if path in self.nodes:
            self.transact(NO_SESSION, [Put(path, data)])
        else:
            self.ensure(path, data)

    def _apply(  # noqa: PLR0911 - one per kind
        self, operation: AnyOperation, session: int, zxid: int, touched: dict[str, None]
    ) -> str | WriteError:
        match operation:
            case Check(path, version):
                node = self.nodes.get(path)
                if node is None:
                    return WriteError.NO_NODE
                return path if version in {ANY_VERSION, node.version} else WriteError.BAD_VERSION
            case Create(path, data):
                return self._create(path, data, NO_SESSION, zxid, touched)
            case CreateSequential(path, data):
                return self._create(path, data, NO_SESSION, zxid, touched, is_sequential=True)
            case Make(path, data, ephemeral, sequential):
                owner = session if ephemeral else NO_SESSION
                return self._create(path, data, owner, zxid, touched, is_sequential=sequential)
            case SetData(path, data, version):
                return self._set(path, data, version, zxid, touched)
            case Put(path, data):
                return self._set(path, data, None, zxid, touched)
            case Delete(path, version_or_none):
                return self._delete(path, version_or_none, touched)

    def _create(
        self,
        path: str,
        data: bytes,
        owner: int,
        zxid: int,
        touched: dict[str, None],
        *,
        is_sequential: bool = False,
    ) -> str | WriteError:
        parent_path = parent_of(path)
        parent = self.nodes.get(parent_path)
        if parent is None:
            return WriteError.NO_NODE
        if parent.ephemeral_owner != NO_SESSION:
            return WriteError.OTHER
        if is_sequential:
            path = f"{path}{parent.sequence:010d}"
        if path in self.nodes:
            return WriteError.NODE_EXISTS
        name = path.rpartition("/")[2]
        self.nodes[path] = Znode(data, 0, 0, zxid, zxid, owner, 0, 0, ())
        children = tuple(sorted((*parent.children, name)))
        self.nodes[parent_path] = parent._replace(sequence=parent.sequence + 1, children=children)
        touched[path] = None
        return path

    def _set(
        self, path: str, data: bytes, version: int | None, zxid: int, touched: dict[str, None]
    ) -> str | WriteError:
        node = self.nodes.get(path)
        if node is None:
            return WriteError.NO_NODE
        if version not in {None, ANY_VERSION, node.version}:
            return WriteError.BAD_VERSION
        self.nodes[path] = node._replace(data=data, version=node.version + 1, mzxid=zxid)
        touched[path] = None
        return path

    def _delete(self, path: str, version: int | None, touched: dict[str, None]) -> str | WriteError:
        node = self.nodes.get(path)
        if node is None:
            return WriteError.NO_NODE
        if version is not None and node.version != version:
            return WriteError.BAD_VERSION
        if node.children:
            return WriteError.NOT_EMPTY
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        name = path.rpartition("/")[2]
        del self.nodes[path]
        children = tuple(c for c in parent.children if c != name)
        self.nodes[parent_path] = parent._replace(children=children)
        touched[path] = None
        return path


class Reader:
    """The reads of one session with its watches, in the form that ``tests.sim.reads`` expects."""

    def __init__(self, zookeeper: ZooKeeper, session: int) -> None:
        self.id = session
        self._zookeeper = zookeeper
        self.get = zookeeper.get
        self.exists = zookeeper.exists
        self.children = zookeeper.children

    def watch(self, key: str, _callback: Callable[[], None]) -> tuple[int, str]:
        """Return a watch of this session: data, whatever the callback."""
        return (self.id, str(key))
