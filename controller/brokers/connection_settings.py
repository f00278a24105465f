"""
Settings of connections to brokers: the choice of a listener, TLS and SASL, and the pace of logins.

``broker_connections`` connects. The security protocol of a connection is always that of the chosen
listener in the broker's registration.

Directories behind brokers lock accounts after a few wrong passwords. Each daemon has several
connections to each broker, and each of them retries. So a password that was never accepted, or was
refused last, is tried by one connection at a time, and after a refusal only when a pause has
passed. The pause grows with each further refusal. A password that another broker accepts ends it
for all but the brokers that refuse it. Another password is tried at once. The same holds for a
Kerberos key table: without a ticket, each attempt asks the key distribution centre.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from tenacity import wait_exponential, wait_random
from tenacity.wait import wait_base

from controller.clocks import pause_s
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.credentials import ClientTls, Password, key_table_state
from controller.errors import BrokerUnreachableError, InvalidInputError
from controller.settings import Settings

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}
"""Ids of org.apache.kafka.common.security.auth.SecurityProtocol."""
FIRST_S: Final = 5.0
MOST_S: Final = 300.0
"""The first pause, and the longest."""
REFUSED: Final = wait_exponential(multiplier=FIRST_S, max=MOST_S) + wait_random(0, 1)
PROVEN_S: Final = 30.0
"""The longest pause, after refusals elsewhere, for a broker that has accepted the password."""


def _kerberos_error() -> type[Exception]:
    """Return what a login without a ticket raises; without the extra ``kerberos``, nothing does."""
    try:
        found: type[Exception] = import_module("gssapi.exceptions").GSSError
    except (ImportError, OSError):  # its library may be missing
        return type("GSSError", (Exception,), {})
    return found


GSSError: Final = _kerberos_error()


@dataclass(slots=True)
class _Refusals:
    """Consecutive refusals, of one broker or of all."""

    count: int = 0
    last: float = 0.0
    pause_s: float = 0.0

    def add(self, now: float, wait: wait_base) -> None:
        self.count, self.last = self.count + 1, now
        self.pause_s = pause_s(wait, self.count)

    def end(self, most_s: float = math.inf) -> float:
        """Return when the pause ends."""
        return self.last + min(most_s, self.pause_s)


class LoginAttempts:
    """Admits logins; safe from any thread."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, refused: wait_base = REFUSED
    ) -> None:
        """Begin without a verdict on any password; ``refused`` gives the pauses after refusals."""
        self._now = now
        self._wait = refused
        self._lock = threading.RLock()
        self._password: str | None = None
        self._forget()

    def _forget(self) -> None:
        self._trusted = False
        """Whether the last verdict on the password was its acceptance."""
        self._is_tried = False
        """Whether a connection tries the password, while it is not trusted."""
        self._proven: set[str] = set()
        self._refused: dict[str, _Refusals] = {}
        self._all = _Refusals()
        self._why = ""

    def check(self, where: str, password: str | None) -> None:
        """
        Return unless a pause has to pass before a login at ``host:port``.

        Raises:
            ConnectionError: there is a pause; the message has its length.
        """
        with self._lock:
            if password != self._password:
                self._password = password
                self._forget()
            here = self._refused.get(where, _Refusals())
            end = here.end()
            if not self._trusted:
                end = max(end, self._all.end(PROVEN_S if where in self._proven else math.inf))
            left_s = end - self._now()
            if left_s > 0:
                times = max(here.count, self._all.count)
                raise ConnectionError(
                    f"logins were refused {times} times in a row ({self._why}); the next attempt is"
                    f" in {left_s:.0f} s, or when the password changes"
                )

    def begin(self, where: str, password: str | None) -> bool:
        """Return True to try a login within ``verdict``, False to ask again soon; see ``check``."""
        with self._lock:
            self.check(where, password)
            if self._trusted:
                return True
            if self._is_tried:
                return False
            self._is_tried = True
            return True

    @contextmanager
    def verdict(self, where: str, password: str | None) -> Iterator[None]:
        """Note the verdict on the password: accepted, unless an exception says otherwise."""
        try:
            yield
        except (SaslAuthenticationFailedError, GSSError) as refusal:
            self._note(where, password, is_accepted=False)
            self._why = f"{where}: {refusal}"
            raise
        except KafkaConnectionError as lost:
            # A reset discards the refusal that the broker sent before it; until Kafka 1.0, brokers
            # sent none (KIP-152).
            is_doubtful = not self._trusted
            self._note(where, password, is_accepted=False if is_doubtful else None)
            if is_doubtful:
                self._why = f"{where}: the connection ended during the login ({lost})"
            raise
        except BaseException:
            self._note(where, password, is_accepted=None)
            raise
        self._note(where, password, is_accepted=True)

    def _note(self, where: str, password: str | None, *, is_accepted: bool | None) -> None:
        with self._lock:
            if password != self._password:
                return
            self._is_tried = False
            if is_accepted:
                self._trusted = True
                self._all = _Refusals()
                self._refused.pop(where, None)
                self._proven.add(where)
            elif is_accepted is False:
                self._trusted = False
                self._all.add(self._now(), self._wait)
                self._refused.setdefault(where, _Refusals()).add(self._now(), self._wait)


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings; a ``repr`` contains no secret."""

    security_protocol: str = "PLAINTEXT"
    tls: ClientTls = field(default_factory=ClientTls)
    sasl_mechanism: str | None = None
    sasl_service: str = "kafka"
    """Service part of the brokers' Kerberos principal."""
    sasl_username: str | None = None
    sasl_password: Password | None = None
    logins: LoginAttempts = field(default_factory=LoginAttempts, compare=False, repr=False)
    """Shared by all connections."""

    def password(self) -> str | None:
        """Return the password, as its file has it now; None for mechanisms without one."""
        return None if self.sasl_password is None else self.sasl_password.reveal()

    def credential(self, password: str | None) -> str | None:
        """Return what a refusal of a login is about: the password, or the present key table."""
        return key_table_state() if self.sasl_mechanism == "GSSAPI" else password

    def sasl_settings(self) -> dict[str, Any]:
        """Return the settings of a SASL exchange under kafka-python's names."""
        return {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_kerberos_service_name": self.sasl_service,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.password(),
        }


@dataclass(frozen=True, slots=True)
class ListenerChoice:
    """
    The choice of a broker's listener, as in Kafka's controller.

    The control plane listener (KIP-291) if it is named, else the inter-broker listener if it is
    named, else the first endpoint with the wanted security protocol.
    """

    security_protocol: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    inter_broker_listener: str | None = None

    def endpoint_of(self, broker: LiveBroker) -> Endpoint | None:
        """Return the broker's matching endpoint, None if it has none."""
        wanted = self.control_plane_listener or self.inter_broker_listener
        of_protocol = (e for e in broker.endpoints if e.security_protocol == self.security_protocol)
        of_name = (e for e in broker.endpoints if e.listener == wanted)
        return next(of_protocol if wanted is None else of_name, None)

    def required_of(self, broker: LiveBroker) -> Endpoint:
        """
        Return the broker's matching endpoint.

        Raises:
            BrokerUnreachableError: it has none, or one with an unknown security protocol.
        """
        endpoint = self.endpoint_of(broker)
        if endpoint is None:
            wanted = self.control_plane_listener or self.inter_broker_listener
            what = f"listener named {wanted}" if wanted else f"{self.security_protocol} listener"
            raise BrokerUnreachableError(f"broker {broker.id} has no {what}")
        if endpoint.security_protocol not in SECURITY_PROTOCOL_IDS:
            raise BrokerUnreachableError(
                f"broker {broker.id}, listener {endpoint.listener}:"
                f" unknown security protocol {endpoint.security_protocol!r}"
            )
        return endpoint


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Security and listener of connections to brokers."""

    security: Security = field(default_factory=Security)
    listeners: ListenerChoice = field(default_factory=ListenerChoice)

    def for_queries(self) -> ConnectionSettings:
        """Return the same without the control plane's listener, which does not serve queries."""
        return replace(self, listeners=replace(self.listeners, control_plane_listener=None))


def connection_settings_of(settings: Settings) -> ConnectionSettings:
    """
    Return the settings of connections to brokers; the files that they name are tried now.

    Raises:
        InvalidInputError: a file cannot be used, or a library is not installed.
    """
    protocol = settings.security_protocol
    if settings.sasl_mechanism == "GSSAPI" and find_spec("gssapi") is None:
        raise InvalidInputError("sasl_mechanism GSSAPI needs the Python package gssapi")
    tls = ClientTls(
        prefix="ssl",
        cafile=settings.ssl_cafile,
        certfile=settings.ssl_certfile,
        keyfile=settings.ssl_keyfile,
        password=settings.password("ssl_password"),
        check_hostname=settings.ssl_check_hostname,
    )
    security = Security(
        security_protocol=protocol,
        tls=tls,
        sasl_mechanism=settings.sasl_mechanism,
        sasl_service=settings.sasl_service,
        sasl_username=settings.sasl_username,
        sasl_password=settings.password("sasl_password"),
    )
    security.password()
    if protocol.endswith("SSL"):
        tls.context()
    listeners = ListenerChoice(
        protocol, settings.control_plane_listener, settings.inter_broker_listener
    )
    return ConnectionSettings(security, listeners)
