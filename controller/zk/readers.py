"""
Reading znodes: one, one's children, or a great many, pipelined.

For threads of ours only: everything here waits for answers. Nothing is decoded; a znode that does
not exist is None, not an error. A watch is given as a callback that fires at most once and carries
nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.model import ZkVersion, Zxid
from controller.zk.sessions import Session

WINDOW: Final = 500
"""Requests under way at once: they hide the round trip and still let others in between."""

_log = structlog.stdlib.get_logger(__name__)

Watch = Callable[[WatchedEvent], None]
Key = TypeVar("Key")


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

    def get_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        watch_of: Callable[[Key], Watch | None] = lambda _: None,
    ) -> Iterator[tuple[Key, Znode | None]]:
        """Read many znodes, in order; the first that ZooKeeper refuses to show is an error."""
        for key, found in self.try_many(keys, path_of, watch_of):
            if isinstance(found, KazooException):
                raise found
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

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """List many directories, in order; one that does not exist is empty."""
        asked = ((path, self._client.get_children_async(path)) for path in paths)
        for path, pending in _ahead(asked):
            try:
                yield path, tuple(sorted(self._session.ask(pending)))
            except NoNodeError:
                yield path, ()

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
