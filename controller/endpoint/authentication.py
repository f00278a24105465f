"""
Authenticate the peers of the endpoint, and decide who may act as a broker.

Whatever fails closes the connection without an answer: a broker that loses a connection tries
again, while an error answer counts as failed authentication, after which some brokers stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.api_key import ApiKey

from controller.credentials import ServerTls
from controller.endpoint import codec
from controller.endpoint.peers import ANONYMOUS, Peer
from controller.endpoint.sasl import (
    SCRAM_HASHES,
    Authenticated,
    AuthenticationFailed,
    PlainExchange,
    SaslExchange,
    ScramExchange,
    Users,
)
from controller.endpoint.strict_decoding import UNPACED_MAX
from controller.errors import RemoteProtocolError
from controller.followed_files import FollowedFiles

FRAMES_MAX: Final = 10
"""Frames of one authentication; SCRAM needs four."""
SASL_VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    # Version 0 of the handshake is followed by bare tokens; Kafka 1.0 and later send version 1.
    ApiKey.SaslHandshake: (1, 1),
    ApiKey.SaslAuthenticate: codec.ADVERTISED[ApiKey.SaslAuthenticate],
}
_BEFORE: Final = frozenset({ApiKey.ApiVersions, *SASL_VERSIONS})
"""Nothing else is decoded before the peer is known."""
_KEYWORDS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Attribute types by the names that ``ssl`` gives them (RFC 2253)."""
_ESCAPED: Final = frozenset(',+"\\<>;')


class UnauthenticatedError(RemoteProtocolError):
    """A peer is not who it says it is, or may not act as a broker."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """The mechanisms that are enabled, and the users."""

    mechanisms: tuple[str, ...]
    users: FollowedFiles[Users]

    def exchange(self, mechanism: str) -> SaslExchange:
        """Begin an authentication by a mechanism that is enabled."""
        if mechanism not in self.mechanisms:
            raise UnauthenticatedError("a SASL mechanism that is not enabled")
        users = self.users.content
        if mechanism not in SCRAM_HASHES:
            return PlainExchange(lambda user, password: users().is_password(user, password))
        return ScramExchange(mechanism, lambda user: users().scram_keys(mechanism, user))


@dataclass(frozen=True, slots=True)
class Authentication:
    """How peers authenticate, and which of them may act as brokers."""

    tls: ServerTls | None = None
    sasl: Sasl | None = None
    principals: frozenset[str] | None = None
    """Principals that may act as brokers; None: all who authenticate."""
    is_relayed: bool = False
    """Whether a broker authenticates the peers, by SASL that is relayed to it."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """What ApiVersions lists for it."""
        return {} if self.sasl is None else SASL_VERSIONS

    async def secure(self, peer: Peer) -> None:
        """Begin TLS, if it is configured; the first use of a connection."""
        if self.tls is not None:
            await peer.start_tls(self.tls.context(), peer.limits.unauthenticated_s)

    async def identify(
        self, peer: Peer, api_versions: Callable[[codec.RequestHeader], bytes]
    ) -> None:
        """
        Set the principal of a secured peer, unless a broker authenticates it later.

        Raises:
            UnauthenticatedError: it may not act as a broker.
            RemoteProtocolError: it sent something else before it authenticated.
            TimeoutError: it took too long.
        """
        if self.sasl is not None:
            async with asyncio.timeout(peer.limits.unauthenticated_s):
                peer.principal = f"User:{await _user_of(peer, self.sasl, api_versions)}"
        elif self.tls is not None:
            subject = subject_of(peer.certificate)
            peer.principal = ANONYMOUS if subject is None else f"User:{subject}"
        if self.principals is not None and peer.principal not in self.principals:
            raise UnauthenticatedError(f"{peer.principal} may not act as a broker")
        peer.is_authenticated = not self.is_relayed


async def _user_of(
    peer: Peer, sasl: Sasl, api_versions: Callable[[codec.RequestHeader], bytes]
) -> str:
    """Return the user who proved to be at the other end."""
    exchange: SaslExchange | None = None
    for _ in range(FRAMES_MAX):
        frame = await peer.next_frame(UNPACED_MAX, peer.limits.unauthenticated_s)
        if codec.header_of(frame).api_key not in _BEFORE:
            raise RemoteProtocolError("a request before authentication")
        header, request = codec.decode(frame)
        match request:
            case codec.ApiVersions():
                await peer.send(api_versions(header))
            case codec.SaslHandshake(mechanism=mechanism) if (
                exchange is None and header.version > 0
            ):
                exchange = sasl.exchange(mechanism)
                await peer.send(codec.encode(header, codec.SaslHandshakeAnswer(sasl.mechanisms)))
            case codec.SaslAuthenticate(auth_bytes=token) if exchange is not None:
                step = exchange.step(token)
                if isinstance(step, AuthenticationFailed):
                    raise UnauthenticatedError(f"authentication failed: {step.why}")
                await peer.send(codec.encode(header, codec.SaslAuthenticate(step.token)))
                if isinstance(step, Authenticated):
                    return step.user
            case _:
                raise RemoteProtocolError("a request before authentication")
    raise RemoteProtocolError("too many requests before authentication")


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the subject in a result of ``getpeercert`` as Kafka's principals have it, or None."""
    subject = (certificate or {}).get("subject")
    if not subject:
        return None
    # RFC 2253: the last relative name first.
    return ",".join(
        "+".join(f"{_KEYWORDS.get(kind, kind)}={_escape(value)}" for kind, value in names)
        for names in reversed(subject)
    )


def _escape(value: str) -> str:
    text = "".join(f"\\{c}" if c in _ESCAPED else c for c in value)
    if text[:1] in {" ", "#"}:
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text
