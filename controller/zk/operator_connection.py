"""
One command's connection to ZooKeeper: short-lived and synchronous, unlike the daemon's session.

It sets no watch, holds no claim and writes without a fence: a znode is created, or replaced or
deleted at the version it was read at. kazoo's errors are translated here. What a znode means is not
known here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from controller import errors
from controller.core.model import ZkVersion, Zxid
from controller.settings import Settings
from controller.zk.clients import CommandClient, client_options
from controller.zk.pending_calls import MultiRejected, fill, multi_answer
from controller.zk.races import RACES_MAX, contention_error
from controller.zk.readers import WINDOW, Key, Value, Znode, ahead, znode_of
from controller.zk.security import acl_at, cluster_acl
from controller.znodes import paths

if TYPE_CHECKING:
    from controller.reactor.ports import Operation

CONNECT_S: Final = 10.0

_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # One error of this module replaces kazoo's messages during retries.


class ZooKeeperConnection:
    """A connection for one command, a context manager; implements ``ZnodeReads``."""

    def __init__(self, settings: Settings, *, connect_s: float = CONNECT_S) -> None:
        """Prepare to connect; connecting, and each answer, may take ``connect_s`` seconds."""
        self._hosts = settings.zookeeper
        self._connect_s = connect_s
        self.request_bytes = settings.request_bytes
        """ZooKeeper closes the connection at a larger request."""
        self._client = CommandClient(logger=_LOG, **client_options(settings))
        self._hidden: set[str] | None = None
        """Paths that may not be read; None: such a path is an error."""
        self._unreadable: dict[str, str] | None = None
        """Why znodes cannot be decoded, by path; None outside ``noting_unreadable``."""

    def __enter__(self) -> Self:
        """
        Connect.

        Raises:
            SessionSuspendedError: ZooKeeper cannot be reached in time.
            RefusedError: ZooKeeper refuses the credentials.
            InvalidInputError: there is no Kafka cluster.
        """
        # kazoo's own start() warns on standard error where the chroot does not exist.
        if not self._client.start_async().wait(self._connect_s):
            is_refused = self._client.client_state == KeeperState.AUTH_FAILED
            self.close()
            if is_refused:
                raise errors.RefusedError(f"ZooKeeper at {self._hosts} refuses our credentials")
            problem = self._client.handler.problem
            raise errors.SessionSuspendedError(
                f"ZooKeeper at {self._hosts} cannot be reached within {self._connect_s:g} s"
                + (f": {problem}" if problem else "")
            )
        try:
            with self._translate_errors():
                found = self._result_of(self._client.exists_async(paths.BROKER_IDS))
        except errors.ControllerError:
            self.close()
            raise
        if found is None:
            self.close()
            raise errors.InvalidInputError(
                f"there is no Kafka cluster at {self._hosts}: {paths.BROKER_IDS} does not exist; "
                "is the chroot right?"
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self.close()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    # --- reading ---------------------------------------------------------------------------------

    def get(self, path: str) -> Znode | None:
        """Read one znode."""
        return dict(self.get_many([path], str))[path]

    show = get

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode."""
        return self.stats([path], str)[path] is not None

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory in order; empty where there is none."""
        return dict(self.children_of_many([path]))[path]

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | None]]:
        """Read many znodes in order, each once."""
        return self._results(keys, path_of, self._client.get_async, znode_of, window=window)

    show_many = get_many

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """List many directories in order; empty where there is none."""
        listed = self._results(paths, str, self._client.get_children_async, sorted)
        return ((path, tuple(names or ())) for path, names in listed)

    def stats(self, keys: Iterable[Key], path_of: Callable[[Key], str]) -> dict[Key, Any]:
        """Return ZooKeeper's stat of many znodes; None where there is none."""
        return dict(self._results(keys, path_of, self._client.exists_async, lambda stat: stat))

    def acls(self, path: str) -> list[Any] | None:
        """Return the permissions of a znode; None where there is none."""
        read = self._client.get_acls_async
        return dict(self._results([path], str, read, lambda found: list(found[0])))[path]

    def unreadable(self, path: str, reason: str) -> None:
        """Record a znode that cannot be decoded, within ``noting_unreadable``."""
        if self._unreadable is not None:
            self._unreadable[path] = reason

    @contextmanager
    def noting_hidden(self) -> Iterator[Collection[str]]:
        """Treat hidden znodes as absent, and record their paths, until the context ends."""
        self._hidden = set()
        try:
            yield self._hidden
        finally:
            self._hidden = None

    @contextmanager
    def noting_unreadable(self) -> Iterator[Mapping[str, str]]:
        """Record the znodes that cannot be decoded, by path, until the context ends."""
        self._unreadable = {}
        try:
            yield self._unreadable
        finally:
            self._unreadable = None

    def _results(
        self,
        keys: Iterable[Key],
        path_of: Callable[[Key], str],
        begin: Callable[[str], Any],
        read: Callable[[Any], Value],
        *,
        window: int = WINDOW,
    ) -> Iterator[tuple[Key, Value | None]]:
        """Send a request for each of many znodes; None where there is none."""

        def sent() -> Iterator[tuple[Key, Any]]:
            for key in dict.fromkeys(keys):
                with self._translate_errors():
                    pending = begin(path_of(key))
                yield key, pending

        for key, pending in ahead(sent(), window):
            with self._translate_errors():
                try:
                    found = read(self._result_of(pending))
                except exceptions.NoNodeError:
                    found = None
                except exceptions.NoAuthError:
                    if self._hidden is None:
                        raise
                    self._hidden.add(path_of(key))
                    found = None
            yield key, found

    # --- writing ---------------------------------------------------------------------------------

    def create(self, path: str, data: bytes) -> Znode | None:
        """Create a znode, with its parents; None where there is one already."""
        with self._translate_errors():
            try:
                _, stat = self._create(path, data)
            except exceptions.NodeExistsError:
                return None
        return znode_of((data, stat))

    def create_sequential(self, path: str, data: bytes, *, until_closed: bool = False) -> str:
        """
        Create a znode to whose path ZooKeeper appends a number; return its name.

        ZooKeeper deletes it when this connection ends if ``until_closed``.
        """
        with self._translate_errors():
            made, _ = self._create(path, data, sequence=True, ephemeral=until_closed)
        return str(made).rpartition("/")[2]

    def _create(
        self, path: str, data: bytes, *, sequence: bool = False, ephemeral: bool = False
    ) -> Any:  # noqa: ANN401 - kazoo has no types
        return self._result_of(
            self._client.create_async(
                path,
                data,
                acl=acl_at(path, cluster_acl(self._acls_of)),
                ephemeral=ephemeral,
                sequence=sequence,
                makepath=True,
                include_data=True,
            )
        )

    def replace(self, path: str, data: bytes, version: ZkVersion) -> bool:
        """Replace the data of a znode at a version; False where it has changed or is gone."""
        return self._is_done(lambda: self._client.set_async(path, data, version))

    def delete(self, path: str, version: ZkVersion) -> bool:
        """Delete a znode at a version; False where it has changed or is gone."""
        return self._is_done(lambda: self._client.delete_async(path, version))

    def _is_done(self, begin: Callable[[], Any]) -> bool:
        with self._translate_errors():
            try:
                self._result_of(begin())
            except (exceptions.BadVersionError, exceptions.NoNodeError):
                return False
        return True

    def commit(self, multi: Iterable[Operation]) -> bool:
        """Write all or nothing; False where something has changed or is gone."""
        with self._translate_errors():
            transaction = self._client.transaction()
            fill(transaction, multi, cluster_acl(self._acls_of))
            try:
                multi_answer(transaction.commit_async(), self._connect_s)
            except MultiRejected as refused:
                if refused.is_race:
                    return False
                raise errors.RefusedError(f"ZooKeeper refused it: {refused.reason}") from refused
        return True

    def edit(self, path: str, change: Callable[[Znode | None], bytes]) -> Znode:
        """
        Replace a znode, or create it, from what it holds; return it as written.

        Of one that was replaced, ``mzxid`` is not known.

        Raises:
            ReassignmentConflictError: others changed it each time in between.
        """
        for _ in range(RACES_MAX):
            found = self.get(path)
            data = change(found)
            if found is None:
                made = self.create(path, data)
                if made is not None:
                    return made
            elif self.replace(path, data, found.version):
                return found._replace(
                    data=data, version=ZkVersion(found.version + 1), mzxid=Zxid(0)
                )
        raise contention_error(path)

    def drop(self, path: str) -> Znode | None:
        """
        Delete a znode; return it, None where there is none.

        Raises:
            ReassignmentConflictError: others changed it each time in between.
        """
        for _ in range(RACES_MAX):
            found = self.get(path)
            if found is None or self.delete(path, found.version):
                return found
        raise contention_error(path)

    # --- inside ----------------------------------------------------------------------------------

    def _acls_of(self, path: str) -> Any:  # noqa: ANN401 - kazoo has no types
        return self._result_of(self._client.get_acls_async(path))

    def _result_of(self, pending: Any) -> Any:  # noqa: ANN401 - kazoo has no types
        """Wait for an answer; without a limit kazoo would wait for the end of the session."""
        return pending.get(timeout=self._connect_s)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as error:
            raise errors.RefusedError(
                "ZooKeeper does not allow it: authenticate as the brokers do "
                "(zookeeper_auth_scheme or zookeeper_sasl_mechanism)"
            ) from error
        except (exceptions.KazooException, KazooTimeoutError) as error:
            raise errors.SessionSuspendedError(
                f"ZooKeeper at {self._hosts} does not answer: {type(error).__name__}"
            ) from error
