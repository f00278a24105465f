"""
One command's connection to ZooKeeper: short-lived and synchronous, unlike the daemon's session.

No watch, no claim, no fence. Whatever is written is created, or replaced or deleted at the version
it was read at. Errors of kazoo leave here translated; what a znode means is not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from controller.core.model import ZkVersion, Zxid
from controller.errors import InvalidInputError, RefusedError, SessionSuspendedError
from controller.reactor.ports import Operation
from controller.settings import Settings
from controller.zk.acls import acl_at, cluster_acl
from controller.zk.clients import client_options
from controller.zk.multis import Refused, fill, multi_answer
from controller.znodes import paths

CONNECT_S: Final = 10.0
WINDOW: Final = 500
"""Reads under way at once."""

_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # What kazoo says while it retries is summed up in one sentence here.

Key = TypeVar("Key")
Value = TypeVar("Value")


class Found(NamedTuple):
    """A znode as read."""

    data: bytes
    version: ZkVersion
    czxid: Zxid
    created_ms: int
    """Milliseconds since 1970, on ZooKeeper's clock."""
    owner: int = 0
    """The session an ephemeral znode hangs on, 0 for a persistent one."""


class Connection:
    """A connection for one command; use it as a context manager."""

    def __init__(self, settings: Settings, *, connect_s: float = CONNECT_S) -> None:
        """
        Prepare to connect to the ZooKeeper of the settings.

        Args:
            settings: Where and with which credentials.
            connect_s: How long connecting may take.

        """
        self._hosts = settings.zookeeper
        self._connect_s = connect_s
        self._request_bytes = settings.request_bytes
        self._client = KazooClient(logger=_LOG, **client_options(settings))
        self._hidden: set[str] | None = None
        """Paths that may not be read; None: such a path is an error."""

    def __enter__(self) -> Self:
        """
        Connect.

        Raises:
            SessionSuspendedError: ZooKeeper cannot be reached in time.
            RefusedError: it does not let us in.
            PlanInvalidError: there is no Kafka cluster.

        """
        # kazoo's own start() warns on standard error where the chroot does not exist.
        if not self._client.start_async().wait(self._connect_s):
            is_refused = self._client.client_state == KeeperState.AUTH_FAILED
            self.close()
            if is_refused:
                raise RefusedError(f"ZooKeeper at {self._hosts} refuses our credentials")
            raise SessionSuspendedError(
                f"ZooKeeper at {self._hosts} cannot be reached within {self._connect_s:g} s"
            )
        with self._translated():
            found = self._ask(self._client.exists_async(paths.BROKER_IDS))
        if found is None:
            self.close()
            raise InvalidInputError(
                f"there is no Kafka cluster at {self._hosts}: {paths.BROKER_IDS} does not exist; "
                "is the chroot right?"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect."""
        self.close()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    # --- reading -------------------------------------------------------------------------------

    def _get(self, path: str) -> Found | None:
        """Read one znode, None where there is none."""
        return self._get_all([path], str)[path]

    def _get_all(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> dict[Key, Found | None]:
        """Read znodes, many at a time; None where there is none."""
        return self._asked(keys, path_of, self._client.get_async, _found, window=window)

    def _children(self, path: str) -> list[str]:
        """Return the names of the children, none where there is no such znode."""
        return self._children_all([path], str)[path]

    def _children_all(
        self, keys: Iterable[Key], path_of: Callable[[Key], str]
    ) -> dict[Key, list[str]]:
        """Return the names of many znodes' children."""
        listed = self._asked(keys, path_of, self._client.get_children_async, sorted)
        return {key: names or [] for key, names in listed.items()}

    def _stats(self, keys: Iterable[Key], path_of: Callable[[Key], str]) -> dict[Key, Any]:
        """Return ZooKeeper's own facts about znodes; None where there is none."""
        return self._asked(keys, path_of, self._client.exists_async, lambda stat: stat)

    @contextmanager
    def noting_hidden(self) -> Iterator[Collection[str]]:
        """Take what may not be read for absent, and note its path, until the context ends."""
        self._hidden = set()
        try:
            yield self._hidden
        finally:
            self._hidden = None

    def _asked(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        ask: Callable[[str], Any],
        read: Callable[[Any], Value],
        *,
        window: int = WINDOW,
    ) -> dict[Key, Value | None]:
        """Ask about many znodes, a window at a time; None where there is none."""
        found: dict[Key, Value | None] = {}
        remaining = iter(dict.fromkeys(keys))
        with self._translated():
            while some := list(islice(remaining, window)):
                for key, pending in [(key, ask(path_of(key))) for key in some]:
                    try:
                        found[key] = read(self._ask(pending))
                    except NoNodeError:
                        found[key] = None
                    except NoAuthError:
                        if self._hidden is None:
                            raise
                        self._hidden.add(path_of(key))
                        found[key] = None
        return found

    # --- writing -------------------------------------------------------------------------------

    def _create(self, path: str, data: bytes) -> Found | None:
        """Create a znode, with its parents; None where there is one already."""
        with self._translated():
            try:
                _, stat = self._ask(self._creation(path, data))
            except NodeExistsError:
                return None
        return _found((data, stat))

    def _create_sequential(self, path: str, data: bytes) -> str:
        """Create a znode whose name ZooKeeper completes with a number; return the name."""
        with self._translated():
            made, _ = self._ask(self._creation(path, data, sequence=True))
        return str(made).rpartition("/")[2]

    def _creation(self, path: str, data: bytes, *, sequence: bool = False) -> Any:  # noqa: ANN401 - kazoo has no types
        acl = cluster_acl(self._acl_of)
        self._make_parents(path, acl)
        acl = acl_at(path, acl)
        return self._client.create_async(path, data, acl=acl, sequence=sequence, include_data=True)

    def _make_parents(self, path: str, acl: list[Any]) -> None:
        """Create what is missing above a path; the cluster's own directories are never missing."""
        parent = path.rpartition("/")[0]
        if not parent or self._ask(self._client.exists_async(parent)) is not None:
            return
        self._make_parents(parent, acl)
        try:
            self._ask(self._client.create_async(parent, b"", acl=acl_at(parent, acl)))
        except NodeExistsError:
            return

    def _replace(self, path: str, data: bytes, version: ZkVersion) -> bool:
        """Replace what stood there at this version; False where it has changed or is gone."""
        with self._translated():
            try:
                self._ask(self._client.set_async(path, data, version))
            except (BadVersionError, NoNodeError):
                return False
        return True

    def _delete(self, path: str, version: ZkVersion) -> bool:
        """Delete what stood there at this version; False where it has changed or is gone."""
        with self._translated():
            try:
                self._ask(self._client.delete_async(path, version))
            except (BadVersionError, NoNodeError):
                return False
        return True

    def _commit(self, multi: Iterable[Operation]) -> bool:
        """Write all or nothing; False where something has changed or is gone."""
        with self._translated():
            transaction = self._client.transaction()
            fill(transaction, multi, cluster_acl(self._acl_of))
            try:
                multi_answer(transaction.commit_async(), self._connect_s)
            except Refused as refused:
                if refused.is_race:
                    return False
                raise RefusedError(f"ZooKeeper refused it: {refused.reason}") from refused
        return True

    # --- inside --------------------------------------------------------------------------------

    def _acl_of(self, path: str) -> list[Any]:
        acls, _ = self._ask(self._client.get_acls_async(path))
        return list(acls)

    def _ask(self, pending: Any) -> Any:  # noqa: ANN401 - kazoo has no types
        """Wait for an answer; without a limit kazoo would wait for the end of the session."""
        return pending.get(timeout=self._connect_s)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of kazoo into ours."""
        try:
            yield
        except (NoAuthError, AuthFailedError) as error:
            raise RefusedError(
                "ZooKeeper does not allow it: authenticate as the brokers do "
                "(zookeeper_auth_scheme or zookeeper_sasl_mechanism)"
            ) from error
        except (KazooException, KazooTimeoutError) as error:
            raise SessionSuspendedError(
                f"ZooKeeper at {self._hosts} does not answer: {type(error).__name__}"
            ) from error


def _found(answer: Any) -> Found:  # noqa: ANN401 - kazoo has no types
    data, stat = answer
    return Found(data, ZkVersion(stat.version), Zxid(stat.czxid), stat.ctime, stat.ephemeralOwner)
