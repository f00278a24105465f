"""
Reads of znodes: their results, the readers' interface, and the daemon's readers.

Two readers implement ``ZnodeReads``: those here for the daemon, with watches, and
``operator_connection`` for one command. A znode that does not exist is None, not an error. Reads
are pipelined, and not for kazoo's threads: every method waits for its answers. A watch is a
callback that fires at most once and carries nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.model import ZkVersion, Zxid
from controller.zk.sessions import Session

_log = structlog.stdlib.get_logger(__name__)

WINDOW: Final = 500
"""Reads in flight at a time: enough to hide the round trip, few enough to let others in between."""

ANY_VERSION: Final = ZkVersion(-1)
"""ZooKeeper takes it for every version."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Znode(NamedTuple):
    """A znode as read."""

    data: bytes
    version: ZkVersion
    czxid: Zxid
    owner: int
    """The session of an ephemeral znode; 0 for a persistent one."""
    created_ms: int
    """Milliseconds since 1970, on ZooKeeper's clock."""
    mzxid: Zxid = Zxid(0)
    """Of the last write of its data; 0 where that is not known."""


class Hidden(NamedTuple):
    """
    A znode that ZooKeeper's permissions hide, and its stat as far as that is known.

    Servers before 3.8.4 return the stat to any client; later ones refuse that too.
    """

    reason: str
    latest: Zxid = Zxid(0)
    """The last zxid when it was refused: it was created at or before this."""
    version: ZkVersion = ANY_VERSION
    czxid: Zxid = Zxid(0)
    """0 where that is not known."""
    created_ms: int = 0

    @property
    def born(self) -> Zxid:
        """When it was created, as far as that is known."""
        return self.czxid or self.latest


Tree = Mapping[str, tuple[str, ...] | str]
"""The names in each directory below a root, by the directory's path; a text: why it is hidden."""


class ZnodeReads(Protocol):
    """Reads of znodes; every method waits for its answers."""

    def get(self, path: str) -> Znode | None:
        """Read a znode; one that is hidden is an error."""

    def show(self, path: str) -> Znode | Hidden | None:
        """Read a znode; it may be hidden."""

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode."""

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory in order; empty where there is none."""

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order, without watching them; of a hidden one, only the reason."""

    def show_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order; a hidden one with all known facts."""

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...] | str]]:
        """List many directories in order; empty where there is none, a text where it is hidden."""

    def unreadable(self, path: str, reason: str) -> None:
        """Report a znode that cannot be decoded, or is hidden."""


class FamilyReads:
    """Reads of one family of znodes through either reader."""

    def __init__(self, znodes: ZnodeReads, *, window: int = WINDOW) -> None:
        """Read ``window`` large znodes at a time."""
        self._znodes = znodes
        self._window = window


def decoded(
    found: Znode | Hidden | None, decode: Callable[[Znode], Value | str]
) -> Value | str | None:
    """Decode a znode; a text where it is hidden or unreadable, None where there is none."""
    if isinstance(found, Hidden):
        return found.reason
    return None if found is None else decode(found)


def decode_many(
    znodes: ZnodeReads,
    keys: Iterable[Key],
    path_of: Callable[[Key], str],
    decode: Callable[[Key, Znode], Value | str],
    *,
    window: int = WINDOW,
) -> Iterator[tuple[Key, Value | str | None]]:
    """
    Read and decode many znodes in order; a text, which is reported, where one is unreadable.

    ``decode`` returns a text where it cannot; ``window`` reads are in flight at a time.
    """
    for key, found in znodes.get_many(keys, path_of, window=window):
        read = decoded(found, partial(decode, key))
        if isinstance(read, str):
            znodes.unreadable(path_of(key), read)
        yield key, read


def decode_children(
    znodes: ZnodeReads, directory: str, decode: Callable[[str, Znode], Value | str]
) -> Iterator[tuple[str, Value | str | None]]:
    """Read and decode the children of a directory, by name; see ``decode_many``."""
    names = znodes.children(directory)
    return decode_many(znodes, names, lambda name: f"{directory}/{name}", decode)


def list_tree(znodes: ZnodeReads, root: str) -> Tree:
    """List the directories below a root."""
    return dict(znodes.children_of_many(f"{root}/{name}" for name in znodes.children(root)))


def decode_tree(
    znodes: ZnodeReads, tree: Tree, decode: Callable[[str, str, Znode], Value | str]
) -> Iterator[tuple[str, Value | str]]:
    """
    Read and decode every znode that ``list_tree`` listed: its path and value, or a text.

    ``decode`` gets the last two components of the path.
    """
    for parent, names in tree.items():
        if isinstance(names, str):
            yield parent, names
    listed = [f"{parent}/{n}" for parent, ns in tree.items() if not isinstance(ns, str) for n in ns]

    def decode_listed(path: str, znode: Znode) -> Value | str:
        _, child, grandchild = path.rsplit("/", 2)
        return decode(child, grandchild, znode)

    for path, read in decode_many(znodes, listed, str, decode_listed):
        if read is not None:
            yield path, read


def ahead(requests: Iterator[tuple[Key, Any]], window: int) -> Iterator[tuple[Key, Any]]:
    """Yield requests in order, each once ``window`` of them are in flight or all were sent."""
    sent: deque[tuple[Key, Any]] = deque()
    for item in requests:
        sent.append(item)
        if len(sent) >= window:
            yield sent.popleft()
    yield from sent


# --- the daemon's readers -------------------------------------------------------------------------

Watch = Callable[[WatchedEvent], None]


def refusal(error: KazooException) -> str:
    """Return the reason why an existing znode has no readable data."""
    return f"ZooKeeper does not show it: {type(error).__name__}"


def watch(fired: Callable[[], None]) -> Watch:
    """Turn a callback into a watch that fires at changes of the znode only."""

    def call(event: WatchedEvent) -> None:
        # kazoo calls every watch once more when the connection breaks, for the session's listeners.
        if event.type != EventType.NONE:
            fired()

    return call


def znode_of(found: tuple[bytes | None, Any]) -> Znode:
    """Return the znode that kazoo answered with."""
    data, stat = found
    return Znode(
        data or b"",  # kazoo returns None for a znode that was created without data
        ZkVersion(stat.version),
        Zxid(stat.czxid),
        stat.ephemeralOwner,
        stat.ctime,
        Zxid(stat.mzxid),
    )


class Reader:
    """
    Reads for the daemon, with one watch or none; implements ``ZnodeReads``.

    ``get_many`` and ``children_of_many`` set no watch: those znodes are written once, or only by
    the leading daemon.
    """

    def __init__(self, session: Session, watcher: Watch | None = None) -> None:
        self._session = session
        self._client = session.client
        self._watcher = watcher

    def watching(self, watcher: Watch) -> Reader:
        """Return a reader that sets this watch."""
        return Reader(self._session, watcher)

    def get(self, path: str) -> Znode | None:
        """Read a znode, and watch it, or its creation where it does not exist."""
        while True:
            znode = self._answer(self._client.get_async(path, self._watcher))
            if znode is not None or self._watcher is None or not self.exists(path):
                return znode

    def show(self, path: str) -> Znode | Hidden | None:
        """Read a znode, which may be hidden, and watch it, or its creation."""
        try:
            return self.get(path)
        except NoAuthError as error:
            return self._hidden_facts(path, error)

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode, and watch it or its creation."""
        return self._session.result_of(self._client.exists_async(path, self._watcher)) is not None

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory in order, and watch it, or its creation; empty where there is none."""
        while True:
            try:
                read = self._client.get_children_async(path, self._watcher)
                return tuple(sorted(self._session.result_of(read)))
            except NoNodeError:
                if self._watcher is None or not self.exists(path):
                    return ()

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order; raise a refusal that is not a matter of permissions."""
        for key, found in self.try_many(keys, path_of, window=window):
            if isinstance(found, NoAuthError):
                yield key, Hidden(refusal(found))
            elif isinstance(found, KazooException):
                raise found
            else:
                yield key, found

    def show_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order, which may be hidden, and watch each; raise other refusals."""
        for key, found in self.try_many(keys, path_of, lambda _: self._watcher, window=window):
            if isinstance(found, KazooException):
                yield key, self._hidden_facts(path_of(key), found)
            else:
                yield key, found

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...] | str]]:
        """List many directories in order; empty where there is none, a text where it is hidden."""
        requests = ((path, self._client.get_children_async(path)) for path in paths)
        for path, pending in ahead(requests, WINDOW):
            try:
                yield path, tuple(sorted(self._session.result_of(pending)))
            except NoNodeError:
                yield path, ()
            except NoAuthError as error:
                self.unreadable(path, refusal(error))
                yield path, refusal(error)

    def unreadable(self, path: str, reason: str) -> None:
        """Log a znode that cannot be decoded, or is hidden: nothing else reports it."""
        _log.warning("znode cannot be decoded", path=path, reason=reason)

    def try_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        watch_of: Callable[[Key], Watch | None] | None = None,
        *,
        window: int = WINDOW,
    ) -> Iterator[tuple[Key, Znode | KazooException | None]]:
        """Read many znodes in order; the error in place of one that ZooKeeper refuses to show."""
        requests = (
            (key, self._client.get_async(path_of(key), watch_of and watch_of(key))) for key in keys
        )
        for key, pending in ahead(requests, window):
            found: Znode | KazooException | None
            try:
                found = self._answer(pending)
            except KazooException as error:
                found = error
            yield key, found

    def _hidden_facts(self, path: str, error: KazooException) -> Hidden | None:
        """
        Return the known facts of a hidden znode; None if it is gone meanwhile.

        Raises:
            KazooException: the refusal is not a matter of permissions, so it says nothing.
        """
        if not isinstance(error, NoAuthError):
            raise error
        why, latest = refusal(error), Zxid(self._client.last_zxid)
        try:
            stat = self._session.result_of(self._client.exists_async(path, self._watcher))
        except NoAuthError:
            return Hidden(why, latest)
        if stat is None:
            return None
        return Hidden(why, latest, ZkVersion(stat.version), Zxid(stat.czxid), stat.ctime)

    def _answer(self, pending: Any) -> Znode | None:  # noqa: ANN401 - kazoo has no types
        try:
            return znode_of(self._session.result_of(pending))
        except NoNodeError:
            return None
