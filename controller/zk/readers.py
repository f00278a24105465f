"""
The daemon's reads of znodes, pipelined and watched.

Not for kazoo's threads: every method waits for its answers. A watch is a callback that fires at
most once and carries nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.model import ZkVersion, Zxid
from controller.zk.sessions import Session
from controller.zk.znode_reads import WINDOW, Hidden, Key, Znode, ahead

_log = structlog.stdlib.get_logger(__name__)

Watch = Callable[[WatchedEvent], None]


def refusal(error: KazooException) -> str:
    """Return the reason why an existing znode has no readable data."""
    return f"ZooKeeper does not show it: {type(error).__name__}"


def watch(fired: Callable[[], None]) -> Watch:
    """
    Turn a callback into a watch that fires at changes of the znode only.

    kazoo calls every watch once more when the connection breaks; the session's listeners handle
    that.
    """

    def call(event: WatchedEvent) -> None:
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
    """Reads without watches; implements ``ZnodeReads``."""

    def __init__(self, session: Session) -> None:
        """Read through this session."""
        self._session = session
        self._client = session.client

    def get(self, path: str) -> Znode | None:
        """Read a znode."""
        return self._answer(self._client.get_async(path))

    def show(self, path: str) -> Znode | Hidden | None:
        """Read a znode; it may be hidden."""
        try:
            return self.get(path)
        except NoAuthError as error:
            return self.hidden_facts(path, error)

    def exists(self, path: str, watcher: Watch | None = None) -> bool:
        """Return whether there is such a znode, and watch it or its creation."""
        return self._session.result_of(self._client.exists_async(path, watcher)) is not None

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory in order; empty where there is none."""
        return self.listing(path) or ()

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """
        Read many znodes in order.

        Raises:
            KazooException: one was refused for another reason than permissions.

        """
        for key, found in self.try_many(keys, path_of, window=window):
            if isinstance(found, NoAuthError):
                yield key, Hidden(refusal(found))
            elif isinstance(found, KazooException):
                raise found
            else:
                yield key, found

    def show_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        *,
        window: int = WINDOW,
        watcher: Watch | None = None,
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """
        Read many znodes in order; they may be hidden.

        Raises:
            KazooException: one was refused for another reason than permissions.

        """
        for key, found in self.try_many(keys, path_of, lambda _: watcher, window=window):
            if isinstance(found, KazooException):
                yield key, self.hidden_facts(path_of(key), found, watcher)
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

    # --- beyond the interface --------------------------------------------------------------------

    def get_watched(self, path: str, watcher: Watch) -> Znode | None:
        """Read a znode and watch it, or its creation where it does not exist."""
        while True:
            znode = self._answer(self._client.get_async(path, watcher))
            if znode is not None or not self.exists(path, watcher):
                return znode

    def listing(self, path: str, watcher: Watch | None = None) -> tuple[str, ...] | None:
        """List a directory in order, watching it where it exists; None where it does not."""
        try:
            names = self._session.result_of(self._client.get_children_async(path, watcher))
        except NoNodeError:
            return None
        return tuple(sorted(names))

    def children_watched(self, path: str, watcher: Watch) -> tuple[str, ...]:
        """List a directory and watch it, or its creation where it does not exist."""
        while True:
            names = self.listing(path, watcher)
            if names is not None:
                return names
            if not self.exists(path, watcher):
                return ()

    def try_many(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        watch_of: Callable[[Key], Watch | None] = lambda _: None,
        *,
        window: int = WINDOW,
    ) -> Iterator[tuple[Key, Znode | KazooException | None]]:
        """Read many znodes in order; the error in place of one that ZooKeeper refuses to show."""
        requests = ((key, self._client.get_async(path_of(key), watch_of(key))) for key in keys)
        for key, pending in ahead(requests, window):
            found: Znode | KazooException | None
            try:
                found = self._answer(pending)
            except KazooException as error:
                found = error
            yield key, found

    def hidden_facts(
        self, path: str, error: KazooException, watcher: Watch | None = None
    ) -> Hidden | None:
        """
        Return the known facts of a hidden znode; None if it is gone meanwhile.

        Raises:
            KazooException: the refusal is not a matter of permissions, so it says nothing.

        """
        if not isinstance(error, NoAuthError):
            raise error
        why, latest = refusal(error), Zxid(self._client.last_zxid)
        try:
            stat = self._session.result_of(self._client.exists_async(path, watcher))
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


class WatchedReader:
    """
    Reads with one watch; implements ``ZnodeReads``.

    ``get_many`` and ``children_of_many`` set no watch: the znodes are written once, or only by the
    leading daemon.
    """

    def __init__(self, reader: Reader, watcher: Watch) -> None:
        """Read by this reader and set this watch."""
        self._reader = reader
        self._watcher = watcher
        self.get_many = reader.get_many
        self.children_of_many = reader.children_of_many
        self.unreadable = reader.unreadable

    def get(self, path: str) -> Znode | None:
        """Read a znode and watch it, or its creation where it does not exist."""
        return self._reader.get_watched(path, self._watcher)

    def show(self, path: str) -> Znode | Hidden | None:
        """Read a znode, which may be hidden, and watch it, or its creation if it does not exist."""
        try:
            return self.get(path)
        except NoAuthError as error:
            return self._reader.hidden_facts(path, error, self._watcher)

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode, and watch it or its creation."""
        return self._reader.exists(path, self._watcher)

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory and watch it, or its creation where it does not exist."""
        return self._reader.children_watched(path, self._watcher)

    def show_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order, which may be hidden, and watch each."""
        return self._reader.show_many(keys, path_of, window=window, watcher=self._watcher)
