"""
The server's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), the latter by scramp.

Pure state machines: a token of the client in, a step out. An exchange serves one authentication.
Names of SCRAM are ASCII, which SASLprep leaves as it is: Kafka's clients do not apply it.
Delegation tokens are the brokers' own, so that they are refused here. No reason, ``repr`` or
exception contains what a peer sent or a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from scramp import ScramException, ScramMechanism

TOKEN_MAX: Final = 16 * 1024
"""The longest token in bytes; a name and a password are far shorter."""
SCRAM_TOKEN_MAX: Final = 512
"""The longest of SCRAM, which has no password in it: scramp looks at each character many times."""
ITERATIONS: Final = 4096
"""Kafka's minimum, and its default for SCRAM credentials."""
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""

_MALFORMED: Final = "malformed token"
_WRONG: Final = "unknown user or wrong password"

ScramKeys = tuple[bytes, bytes, bytes, int]
"""What a server stores of a password: salt, stored key, server key, and number of iterations."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange continues after this token of the server."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is this user; the last token is still to be sent."""

    user: str
    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """The client is not authenticated, and the exchange is over."""

    why: str


SaslStep = Challenge | Authenticated | AuthenticationFailed


class SaslExchange(Protocol):
    """The server's side of one authentication."""

    def step(self, token: bytes) -> SaslStep:
        """Return what follows a token of the client; after the end, every token is refused."""
        ...


class PlainExchange:
    """PLAIN: one token with name and password."""

    def __init__(self, is_password: Callable[[str, str], bool]) -> None:
        """
        Prepare.

        Args:
            is_password: Whether a user has this password; takes equally long for unknown users.

        """
        self._is_password = is_password
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """Return whether name and password are right."""
        parts = _text(token).split("\0")
        if self._is_over or len(parts) != len(("authzid", "user", "password")):
            return AuthenticationFailed(_MALFORMED)
        self._is_over = True
        authzid, user, password = parts
        if not user or not password or authzid not in ("", user):
            return AuthenticationFailed(_MALFORMED)
        return (
            Authenticated(user, b"")
            if self._is_password(user, password)
            else AuthenticationFailed(_WRONG)
        )


class ScramExchange:
    """SCRAM: the client proves that it knows the password, then the server does."""

    def __init__(self, mechanism: str, keys_of: Callable[[str], ScramKeys]) -> None:
        """
        Prepare.

        Args:
            mechanism: One of ``SCRAM_HASHES``.
            keys_of: Returns the keys of a user; for an unknown user, in the same time, those of a
                password of no user, always with the same salt.

        """
        self._keys_of = keys_of
        self._server = ScramMechanism(mechanism).make_server(self._stored_keys)
        self._user: str | None = None
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """Return the server's first message, then whether the proof is right."""
        if self._is_over or len(token) > SCRAM_TOKEN_MAX:
            self._is_over = True
            return AuthenticationFailed(_MALFORMED)
        is_first = self._user is None
        self._is_over = not is_first
        try:
            if is_first:
                self._server.set_client_first(token.decode("ascii"))
                return Challenge(self._server.get_server_first().encode())
            self._server.set_client_final(token.decode("ascii"))
            return Authenticated(str(self._user), self._server.get_server_final().encode())
        except (ScramException, UnicodeDecodeError) as error:
            self._is_over = True
            reason = getattr(getattr(error, "server_error", None), "value", "")
            return AuthenticationFailed(_WRONG if reason == "invalid-proof" else _MALFORMED)

    def _stored_keys(self, user: str) -> ScramKeys:
        self._user = user
        return self._keys_of(user)


def _text(token: bytes) -> str:
    """Return a token as text; empty, which no mechanism takes, if it is none."""
    try:
        return token.decode() if len(token) <= TOKEN_MAX else ""
    except UnicodeDecodeError:
        return ""
