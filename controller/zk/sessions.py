"""
The session with ZooKeeper: connect, wait for answers, detect its loss, connect again.

Listeners are called when the connection is established and when the session is lost. kazoo itself
opens a new session; the listeners read and claim again. Errors of the connection are translated
(``errors``); ZooKeeper's refusal of an operation, for example because a znode does not exist, stays
kazoo's exception.

Invariant: listeners are called on a thread of kazoo or of the alarm, so they must not wait for
ZooKeeper.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import structlog
from kazoo import exceptions
from kazoo.protocol.states import KazooState, KeeperState
from tenacity import Retrying, retry_if_not_result, wait_random

from controller import errors
from controller.reactor.ports import Clock
from controller.settings import Settings
from controller.zk.clients import client_options
from controller.zk.leased_client import LeasedClient
from controller.zk.pending_calls import answer
from controller.zk.security import cluster_acl, present_credentials
from controller.znodes import paths
from controller.znodes.brokers_and_controller import decode_cluster_id

RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0}
"""For ever: only ZooKeeper knows whether the session survived."""

LOOK_S: Final = 1.0
"""Between two checks for the end of a silent session: a wait stops while the machine sleeps."""

CLUSTER_LOOK_S: Final = 1.0
"""Between two looks whether brokers created their directories."""

_DEAD: Final = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)


class SessionListener(Protocol):
    """Receives changes of the session; never waits for ZooKeeper."""

    def connected(self, *, is_new: bool) -> None:
        """Note that the connection is established (again); every earlier watch is gone."""

    def lost(self, reason: str) -> None:
        """Note that the session is over, or may be: its ephemeral znodes no longer count."""


def build_client(settings: Settings, clock: Clock) -> LeasedClient:
    """
    Build the daemon's client; ``clock`` measures the session's life.

    Raises:
        InvalidInputError: the settings ask for SASL and the library for it is not installed.
    """
    options, credentials = client_options(settings), partial(present_credentials, settings)
    return LeasedClient(clock, credentials, connection_retry=dict(RECONNECT), **options)


class Session:
    """One daemon's connection to ZooKeeper, over any number of sessions."""

    def __init__(self, client: LeasedClient) -> None:
        """Wrap a client that was not started; see ``build_client``."""
        self.client = client
        self.lease = client.lease
        """The certain life of the session."""
        self.acls: list[Any] = []
        """The permissions of the cluster's ordinary znodes; ``start`` reads them."""
        self.cluster_id: str | None = None
        """The id of the cluster; ``start`` reads it. None: it is unknown."""
        self.awaited: str | None = None
        """What is missing of a cluster, while ``start`` waits for it."""
        self._listeners: list[SessionListener] = []
        self._connected = threading.Event()
        self._alarm: threading.Event | None = None
        self._last_id: int | None = None
        self._running = False
        self._log = structlog.stdlib.get_logger(__name__)
        client.add_listener(self._changed)

    def add_listener(self, listener: SessionListener) -> None:
        """Call this listener from now on, after those added before."""
        self._listeners.append(listener)

    def start(self, *, within_s: float, look_s: float = CLUSTER_LOOK_S) -> None:
        """
        Connect, wait until there is a cluster, and from then on stay connected.

        The connection is awaited for ``within_s``, the cluster without a limit: every ``look_s``
        seconds it is looked for.

        Raises:
            SessionSuspendedError: there is no connection in time.
            InvalidInputError: the permissions of the cluster's znodes cannot be read.
        """
        self._running = True
        hosts = ",".join(f"{host}:{port}" for host, port in self.client.hosts)
        self.client.start_async()
        try:
            if not self._connected.wait(within_s):
                raise errors.SessionSuspendedError(
                    f"ZooKeeper at {hosts} cannot be reached in {within_s:g} s"
                )
            self._await_cluster(hosts, look_s)
            # Brokers must be able to change the daemon's znodes, so these get their permissions.
            self.client.default_acl = self.acls = cluster_acl(self._acls_of)
            self.cluster_id = self._read_cluster_id()
        except errors.ControllerError:
            self.stop()
            raise

    def _await_cluster(self, hosts: str, look_s: float) -> None:
        """
        Wait until brokers created their directories, whose permissions the daemon's znodes get.

        Nothing is created here: in a wrong chroot it would look like another cluster.
        """

        def missing() -> list[str] | None:
            found = self._missing_roots()
            if found:
                self._note_missing(f"{hosts}{self.client.chroot}", found)
            return found

        wait = wait_random(look_s / 2, look_s * 1.5)
        Retrying(retry=retry_if_not_result(lambda found: found == []), wait=wait)(missing)
        self.awaited = None

    def _note_missing(self, where: str, missing: list[str]) -> None:
        awaited = (
            f"there is no Kafka cluster at {where}: {', '.join(missing)} missing; a broker that "
            "starts creates it, or is the chroot wrong?"
        )
        if awaited != self.awaited:
            self._log.warning("cluster awaited", reason=awaited)
            self.awaited = awaited

    def _missing_roots(self) -> list[str] | None:
        """Return what a cluster has and is not there; None: ZooKeeper does not say."""
        try:
            looked = [(path, self.client.exists_async(path)) for path in paths.CLUSTER_ROOTS]
            missing = [path for path, pending in looked if self._is_absent(pending)]
            if missing and self.client.chroot and self._is_absent(self.client.exists_async("/")):
                return [f"the chroot {self.client.chroot}"]
        except (errors.SessionSuspendedError, errors.SessionLostError):
            if not self.is_usable:
                raise
            return None
        return missing

    def _is_absent(self, pending: Any) -> bool:  # noqa: ANN401 - kazoo has no types
        try:
            return self.result_of(pending) is None
        except exceptions.NoAuthError:
            return False  # Newer servers hide whether it exists; its permissions are read next.

    def _read_cluster_id(self) -> str | None:
        """Return the id of the cluster; None where it cannot be read, as only people need it."""
        with suppress(exceptions.KazooException, errors.TransientError, errors.SessionLostError):
            data, _ = self.result_of(self.client.get_async(paths.CLUSTER_ID))
            return decode_cluster_id(data)
        return None

    def stop(self) -> None:
        """End the session, and its ephemeral znodes with it."""
        self._running = False
        self._quiet()
        self.client.stop()
        self.client.close()

    def _acls_of(self, path: str) -> Any:  # noqa: ANN401 - kazoo has no types
        return self.result_of(self.client.get_acls_async(path))

    def result_of(self, pending: Any) -> Any:  # noqa: ANN401 - kazoo has no types
        """Wait for an answer, at most for the session time-out; see ``answer``."""
        return answer(pending, self.timeout_s)

    @property
    def timeout_s(self) -> float:
        """The session time-out granted by the server; a slower answer counts as none."""
        return self.lease.timeout_s

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection."""
        return self._connected.is_set()

    @property
    def is_lost(self) -> bool:
        """Whether the last session is over and no other is open yet."""
        return bool(self.client.state == KazooState.LOST)

    @property
    def is_usable(self) -> bool:
        """Whether a connection is possible at all: not after the credentials were refused."""
        return not self._running or self.client.client_state not in _DEAD

    @property
    def id(self) -> int | None:
        """The present session; None without a connection."""
        known = self.client.client_id
        return None if known is None else known[0]

    def wait(self, timeout_s: float) -> bool:
        """Wait for a connection; return False when there is none in time."""
        return self._connected.wait(timeout_s)

    # --- on kazoo's connection thread ------------------------------------------------------------

    def _changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._quiet()
            is_new, self._last_id = self.id != self._last_id, self.id
            self._log.info("zookeeper connected", new_session=is_new)
            self._connected.set()
            for listener in self._listeners:
                listener.connected(is_new=is_new)
        elif state == KazooState.SUSPENDED:
            self._connected.clear()
            self._log.warning("zookeeper connection lost")
            self._await_expiry()
        else:
            self._connected.clear()
            self._quiet()
            if self._running:
                self._lost("the ZooKeeper session expired")

    def _lost(self, reason: str) -> None:
        self._log.error("zookeeper session lost", reason=reason)
        for listener in self._listeners:
            listener.lost(reason)

    def _await_expiry(self) -> None:
        """
        Give up the session when it must have expired.

        ZooKeeper reports that only after we connected again; by then there may be another
        controller.
        """
        self._quiet()
        self._alarm = quiet = threading.Event()
        threading.Thread(
            target=self._sound, args=(quiet,), name="zookeeper alarm", daemon=True
        ).start()

    def _sound(self, quiet: threading.Event) -> None:
        while (left_s := self.lease.left_s) > 0:
            if quiet.wait(min(left_s, LOOK_S)):
                return
        if not quiet.is_set():
            self._lost(f"no contact with ZooKeeper for {self.timeout_s:g} s")

    def _quiet(self) -> None:
        if self._alarm is not None:
            self._alarm.set()
            self._alarm = None
