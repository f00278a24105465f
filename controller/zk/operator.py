"""
ZooKeeper as the operator's commands need it: read where things stand, write a plan.

Short-lived and synchronous, unlike the daemon's store: no watch, no claim, no fence. It writes
nothing but ``/admin/reassign_partitions``, by creation or by a versioned set. Errors of kazoo leave
here translated.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, TypeVar

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

from controller.core.histories import Summary
from controller.core.model import (
    BrokerId,
    Goal,
    LegacyPlan,
    Replicas,
    RequestId,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.errors import (
    PlanInvalidError,
    ReassignmentConflictError,
    RefusedError,
    SessionSuspendedError,
)
from controller.settings import Settings
from controller.znodes import paths
from controller.znodes.goals import decode_goal
from controller.znodes.leaders import decode_leader
from controller.znodes.legacy_plans import decode_legacy_plan, encode_legacy_plan
from controller.znodes.outcomes import decode_outcome
from controller.znodes.topics import decode_topic

CONNECT_S: Final = 10.0
WINDOW: Final = 500
"""Reads under way at once."""
RACES_MAX: Final = 20
PLAN_BYTES_MAX: Final = 1_000_000
"""ZooKeeper's ``jute.maxbuffer`` is 1 MiB by default, and the request needs some of it."""

_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # What kazoo says while it retries is summed up in one sentence here.

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Operator:
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
        self._client = KazooClient(logger=_LOG, **client_options(settings))

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
            raise PlanInvalidError(
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

    def read_plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``, None when it does not exist."""
        with self._translated():
            try:
                data, stat = self._ask(self._client.get_async(paths.LEGACY_PLAN))
            except NoNodeError:
                return None
        return decode_legacy_plan(data, ZkVersion(stat.version), Zxid(stat.czxid))

    def read_topics(self, names: Iterable[str]) -> dict[str, TopicAssignment | str | None]:
        """Return topics; None where there is none, a text where one is not understood."""
        return self._read(
            names,
            paths.topic_path,
            lambda data, stat: decode_topic(data, ZkVersion(stat.version), Zxid(stat.czxid)),
        )

    def read_goals(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Goal | str | None]:
        """Return our records of reassignments; None where there is none."""
        return self._read(
            partitions,
            paths.goal_path,
            lambda data, stat: decode_goal(data, ZkVersion(stat.version)),
        )

    def live_brokers(self) -> frozenset[BrokerId]:
        """Return the ids of the registered brokers."""
        with self._translated():
            names = self._ask(self._client.get_children_async(paths.BROKER_IDS))
        return frozenset(BrokerId(int(n)) for n in names if n.isdigit())

    def read_outcome(self, request: RequestId) -> Summary | str | None:
        """Return how a request ended, None while it has not."""
        return self._read([request], paths.outcome_path, lambda data, _: decode_outcome(data))[
            request
        ]

    def leader_address(self) -> str | None:
        """Return ``HOST:PORT`` of the leading daemon's HTTP server, None when none leads."""
        with self._translated():
            try:
                names = self._ask(self._client.get_children_async(paths.LEADER))
            except NoNodeError:
                return None
        # The first in the order of the sequence numbers that ZooKeeper appended leads.
        for name in sorted(names, key=lambda n: n[-10:]):
            with self._translated():
                try:
                    data, _ = self._ask(self._client.get_async(f"{paths.LEADER}/{name}"))
                except NoNodeError:
                    continue
            return decode_leader(data)
        return None

    # --- writing -------------------------------------------------------------------------------

    def create_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """
        Write a plan where there is none.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: there is one already.
            PlanInvalidError: it is too large for one znode.

        """
        data = _encoded(entries)
        with self._translated():
            acls, _ = self._ask(self._client.get_acls_async("/admin"))
            try:
                _, stat = self._ask(
                    self._client.create_async(
                        paths.LEGACY_PLAN, data, acl=acls or None, include_data=True
                    )
                )
            except NodeExistsError as error:
                raise ReassignmentConflictError(
                    f"{paths.LEGACY_PLAN} exists already: a plan is being carried out"
                ) from error
        return Zxid(stat.czxid)

    def extend_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """
        Add entries to the plan that is there, or write one where it has just ended.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: what is there cannot be read, or changes all the time.
            PlanInvalidError: it would be too large for one znode.

        """
        for _ in range(RACES_MAX):
            plan = self.read_plan()
            if plan is None:
                return self.create_plan(entries)
            if plan.unreadable is not None:
                raise ReassignmentConflictError(
                    f"{paths.LEGACY_PLAN} cannot be added to: {plan.unreadable}"
                )
            data = _encoded({**plan.entries, **entries})
            with self._translated():
                try:
                    self._ask(self._client.set_async(paths.LEGACY_PLAN, data, plan.version))
                except (BadVersionError, NoNodeError):
                    continue
            return plan.czxid
        raise ReassignmentConflictError(f"{paths.LEGACY_PLAN} changes all the time; try again")

    # --- inside --------------------------------------------------------------------------------

    def _read(
        self,
        keys: Iterable[_Key],
        path_of: Callable[[_Key], str],
        decode: Callable[[bytes, Any], _Value],
    ) -> dict[_Key, _Value | None]:
        """Read znodes, many at a time; None where there is none."""
        found: dict[_Key, _Value | None] = {}
        remaining = iter(dict.fromkeys(keys))
        with self._translated():
            while window := list(islice(remaining, WINDOW)):
                pending = [(key, self._client.get_async(path_of(key))) for key in window]
                for key, answer in pending:
                    try:
                        data, stat = self._ask(answer)
                    except NoNodeError:
                        found[key] = None
                    else:
                        found[key] = decode(data, stat)
        return found

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


def client_options(settings: Settings) -> dict[str, Any]:
    """
    Return the settings that concern the connection, as kazoo's client takes them.

    Raises:
        PlanInvalidError: they ask for SASL and the library for it is not installed.

    """
    if settings.zookeeper_sasl_mechanism and importlib.util.find_spec("puresasl") is None:
        raise PlanInvalidError("zookeeper_sasl_mechanism needs the Python package pure-sasl")
    credential = settings.zookeeper_auth_credential
    return {
        "hosts": settings.zookeeper,
        "timeout": settings.zookeeper_session_timeout_s,
        "auth_data": (
            [(settings.zookeeper_auth_scheme, credential.get_secret_value())]
            if credential
            else None
        ),
        "sasl_options": _sasl_options(settings),
        "use_ssl": settings.zookeeper_tls,
        "ca": _text(settings.zookeeper_tls_cafile),
        "certfile": _text(settings.zookeeper_tls_certfile),
        "keyfile": _text(settings.zookeeper_tls_keyfile),
        "keyfile_password": (
            settings.zookeeper_tls_password.get_secret_value()
            if settings.zookeeper_tls_password
            else None
        ),
        "check_hostname": settings.zookeeper_tls_check_hostname,
    }


def _sasl_options(settings: Settings) -> dict[str, str] | None:
    password = settings.zookeeper_sasl_password
    match settings.zookeeper_sasl_mechanism:
        case "DIGEST-MD5" if settings.zookeeper_sasl_username and password:
            return {
                "mechanism": "DIGEST-MD5",
                "username": settings.zookeeper_sasl_username,
                "password": password.get_secret_value(),
            }
        case "GSSAPI":
            principal = settings.zookeeper_sasl_principal
            named = {"principal": principal} if principal else {}
            return {"mechanism": "GSSAPI", "service": settings.zookeeper_sasl_service, **named}
        case _:
            return None


def _text(path: object) -> str | None:
    return None if path is None else str(path)


def _encoded(entries: Mapping[TopicPartition, Replicas]) -> bytes:
    data = encode_legacy_plan(entries)
    if len(data) > PLAN_BYTES_MAX:
        raise PlanInvalidError(
            f"the plan takes {len(data)} bytes, more than the {PLAN_BYTES_MAX} that fit into one "
            "znode; split it"
        )
    return data
