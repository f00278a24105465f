"""
The daemon's reads of znodes, by its session and with watches.

A watch is a callback that fires at most once and carries nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from controller.core.model import ZkVersion, Zxid
from controller.zk.readers import WINDOW, Hidden, Key, Znode, ahead, znode_of
from controller.zk.sessions import Session

_log = structlog.stdlib.get_logger(__name__)

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
