"""
Reading znodes: one, one's children, or a great many, pipelined.

For threads of ours only: everything here waits for answers. A znode that does not exist is None,
not an error; one that ZooKeeper refuses to show is told as such where it would hold up others. A
watch is given as a callback that fires at most once and carries nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.model import ZkVersion, Zxid
from controller.zk.sessions import Session

WINDOW: Final = 500
"""Requests under way at once: they hide the round trip and still let others in between."""

ANY_VERSION: Final = ZkVersion(-1)
"""To ZooKeeper it is every version."""

_log = structlog.stdlib.get_logger(__name__)

Watch = Callable[[WatchedEvent], None]
Key = TypeVar("Key")
Value = TypeVar("Value")


class Znode(NamedTuple):
    """A znode as read."""

    data: bytes
    version: ZkVersion
    czxid: Zxid
    owner: int
    """The session that an ephemeral znode lives by; 0 for a persistent one."""
    created_ms: int
    """Milliseconds since 1970, on ZooKeeper's clock."""
    mzxid: Zxid = Zxid(0)
    """Of the last write of its data; 0 where it was not asked for."""


class Hidden(NamedTuple):
    """
    A znode that ZooKeeper refuses to show, and what it tells of it all the same.

    Servers from 3.8.4 on tell nothing; those before told everything but the data.
    """

    reason: str
    latest: Zxid
    """Before or at which it was created: when it was refused."""
    version: ZkVersion = ANY_VERSION
    czxid: Zxid = Zxid(0)
    """0 where that is not known."""
    created_ms: int = 0

    @property
    def born(self) -> Zxid:
        """When it was created, as far as that is known."""
        return self.czxid or self.latest


def refusal(error: KazooException) -> str:
    """Say why there is no data of a znode that exists."""
    return f"ZooKeeper does not show it: {type(error).__name__}"


def warn_unreadable(path: str, reason: str) -> None:
    """Log that a znode cannot be understood: nobody else would ever say so."""
    _log.warning("znode cannot be understood", path=path, reason=reason)


def watch(fired: Callable[[], None]) -> Watch:
    """
    Turn a callback into a watch that fires at changes of the znode only.

    kazoo calls every watch once more when the connection breaks; listeners of the session see to
    that.
    """

    def call(event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            fired()

    return call


class Reader:
    """Reads; each method waits for its answers."""

    def __init__(self, session: Session) -> None:
        """Read through this session."""
        self._session = session
        self._client = session.client

    def get(self, path: str) -> Znode | None:
        """Read a znode."""
        return self._answer(self._client.get_async(path))

    def get_watched(self, path: str, watcher: Watch) -> Znode | None:
        """Read a znode and watch it, or its creation where it does not exist."""
        while True:
            znode = self._answer(self._client.get_async(path, watcher))
            if znode is not None or not self.exists(path, watcher):
                return znode

    def show_watched(self, path: str, watcher: Watch) -> Znode | Hidden | None:
        """Read a znode, be it hidden, and watch it, or its creation where it does not exist."""
        try:
            return self.get_watched(path, watcher)
        except NoAuthError as error:
            return self.hidden(path, error, watcher)

    def hidden(
        self, path: str, error: KazooException, watcher: Watch | None = None
    ) -> Hidden | None:
        """
        Return what can be told of a znode that was refused; None where it is gone meanwhile.

        Raises:
            KazooException: the refusal is not a matter of permissions, so it says nothing.

        """
        if not isinstance(error, NoAuthError):
            raise error
        why, latest = refusal(error), Zxid(self._client.last_zxid)
        try:
            stat = self._session.ask(self._client.exists_async(path, watcher))
        except NoAuthError:
            return Hidden(why, latest)
        if stat is None:
            return None
        return Hidden(why, latest, ZkVersion(stat.version), Zxid(stat.czxid), stat.ctime)

    def exists(self, path: str, watcher: Watch | None = None) -> bool:
        """Tell whether there is such a znode, and watch it or its creation."""
        return self._session.ask(self._client.exists_async(path, watcher)) is not None

    def children(self, path: str, watcher: Watch | None = None) -> tuple[str, ...] | None:
        """List a directory in order, watching it where it exists."""
        try:
            names = self._session.ask(self._client.get_children_async(path, watcher))
        except NoNodeError:
            return None
        return tuple(sorted(names))

    def children_watched(self, path: str, watcher: Watch) -> tuple[str, ...]:
        """List a directory and watch it, or its creation where it does not exist."""
        while True:
            names = self.children(path, watcher)
            if names is not None:
                return names
            if not self.exists(path, watcher):
                return ()

    def decode_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        decode: Callable[[Key, Znode], Value | str],
        *,
        log: bool = True,
    ) -> Iterator[tuple[Key, Value | str | None]]:
        """
        Read and decode many znodes, in order; a text where one is not understood, or not shown.

        Args:
            keys: Of the znodes.
            path_of: Where one is.
            decode: Makes a value of one, or says why not.
            log: Whether the texts are logged: not where somebody else tells of them.

        Raises:
            KazooException: one was refused for another reason than permissions.

        """
        for key, found in self.try_many(keys, path_of):
            read: Value | str | None
            if isinstance(found, NoAuthError):
                read = refusal(found)
            elif isinstance(found, KazooException):
                raise found
            else:
                read = None if found is None else decode(key, found)
            if log and isinstance(read, str):
                warn_unreadable(path_of(key), read)
            yield key, read

    def show_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        watch_of: Callable[[Key], Watch | None] = lambda _: None,
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """
        Read many znodes, in order, be they hidden.

        Raises:
            KazooException: one was refused for another reason than permissions.

        """
        for key, found in self.try_many(keys, path_of, watch_of):
            if isinstance(found, KazooException):
                yield key, self.hidden(path_of(key), found, watch_of(key))
            else:
                yield key, found

    def try_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        watch_of: Callable[[Key], Watch | None] = lambda _: None,
    ) -> Iterator[tuple[Key, Znode | KazooException | None]]:
        """Read many znodes, in order; beside them, why ZooKeeper refuses to show one."""
        asked = ((key, self._client.get_async(path_of(key), watch_of(key))) for key in keys)
        for key, pending in _ahead(asked):
            found: Znode | KazooException | None
            try:
                found = self._answer(pending)
            except KazooException as error:
                found = error
            yield key, found

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...] | str]]:
        """List many directories, in order; empty where there is none, a text where it is hidden."""
        asked = ((path, self._client.get_children_async(path)) for path in paths)
        for path, pending in _ahead(asked):
            try:
                yield path, tuple(sorted(self._session.ask(pending)))
            except NoNodeError:
                yield path, ()
            except NoAuthError as error:
                warn_unreadable(path, refusal(error))
                yield path, refusal(error)

    def _answer(self, pending: Any) -> Znode | None:  # noqa: ANN401 - kazoo has no types
        try:
            data, stat = self._session.ask(pending)
        except NoNodeError:
            return None
        return Znode(
            data or b"",  # kazoo tells a znode created without data from an empty one
            ZkVersion(stat.version),
            Zxid(stat.czxid),
            stat.ephemeralOwner,
            stat.ctime,
            Zxid(stat.mzxid),
        )


def _ahead(asked: Iterator[tuple[Key, Any]]) -> Iterator[tuple[Key, Any]]:
    """Ask up to ``WINDOW`` ahead of what is waited for."""
    window: deque[tuple[Key, Any]] = deque()
    for item in asked:
        window.append(item)
        if len(window) >= WINDOW:
            yield window.popleft()
    yield from window
