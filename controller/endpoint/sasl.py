"""
The server's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677).

Pure state machines: a token of the client in, a step out. An exchange serves one authentication.
As in Kafka, texts are plain UTF-8 without SASLprep, and delegation tokens are the brokers' own, so
that they are refused here. No reason, ``repr`` or exception contains what a peer sent or a secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

TOKEN_MAX: Final = 16 * 1024
"""The longest token in bytes; a name and a password are far shorter."""
ITERATIONS: Final = 4096
"""Kafka's minimum, and its default for SCRAM credentials."""
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""

_MALFORMED: Final = "malformed token"
_WRONG: Final = "unknown user or wrong password"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,]*)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>[^,]*))?,)"
    rf"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<gs2>[^,]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[^,]+)"
)
_DELEGATION: Final = ",tokenauth=true"
"""The extension by which Kafka's clients authenticate with a delegation token (KIP-48)."""


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
class Refused:
    """The client is not authenticated, and the exchange is over."""

    why: str


SaslStep = Challenge | Authenticated | Refused


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
            return Refused(_MALFORMED)
        self._is_over = True
        authzid, user, password = parts
        if not user or not password or authzid not in ("", user):
            return Refused(_MALFORMED)
        return Authenticated(user, b"") if self._is_password(user, password) else Refused(_WRONG)


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a server stores of a password for one mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = ITERATIONS


def derive_keys(hash_name: str, password: str, salt: bytes, iterations: int) -> ScramKeys:
    """Derive the keys of a password (RFC 5802, section 3)."""
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return ScramKeys(salt, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations)


class ScramExchange:
    """SCRAM: the client proves that it knows the password, then the server does."""

    def __init__(self, hash_name: str, keys_of: Callable[[str], ScramKeys], nonce: str) -> None:
        """
        Prepare.

        Args:
            hash_name: The hash of the mechanism, as in ``hashlib``.
            keys_of: Returns the keys of a user; for an unknown user, always the same keys of a
                password that nobody has.
            nonce: The server's part of the nonce: unpredictable, printable, without a comma.

        """
        self._hash = hash_name
        self._keys_of = keys_of
        self._nonce = nonce
        self._second: Callable[[str], SaslStep] | None = None
        self._is_over = False

    def step(self, token: bytes) -> SaslStep:
        """Return the server's first message, then whether the proof is right."""
        if self._is_over:
            return Refused(_MALFORMED)
        answer = self._first(_text(token)) if self._second is None else self._second(_text(token))
        self._is_over = not isinstance(answer, Challenge)
        return answer

    def _first(self, message: str) -> SaslStep:
        found = _CLIENT_FIRST.fullmatch(message)
        user = None if found is None else _unescaped(found["user"])
        if found is None or user is None:
            return Refused(_MALFORMED)
        if _unescaped(found["authzid"] or "") not in ("", user):
            return Refused("another authorization id")
        if _DELEGATION in found["extensions"]:
            return Refused("delegation token")
        keys = self._keys_of(user)
        nonce, bare = found["nonce"] + self._nonce, found["bare"]
        gs2 = base64.b64encode(found["gs2"].encode())
        salt = base64.b64encode(keys.salt).decode()
        server_first = f"r={nonce},s={salt},i={keys.iterations}"

        def final(message: str) -> SaslStep:
            found = _CLIENT_FINAL.fullmatch(message)
            if found is None or found["nonce"] != nonce or found["gs2"].encode() != gs2:
                return Refused(_MALFORMED)
            signed = f"{bare},{server_first},{found['bare']}".encode()
            if not self._is_proof(keys, signed, found["proof"]):
                return Refused(_WRONG)
            signature = hmac.digest(keys.server_key, signed, self._hash)
            return Authenticated(user, b"v=" + base64.b64encode(signature))

        self._second = final
        return Challenge(server_first.encode())

    def _is_proof(self, keys: ScramKeys, signed: bytes, text: str) -> bool:
        try:
            proof = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return False
        signature = hmac.digest(keys.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        return hmac.compare_digest(stored_key, keys.stored_key)


def _text(token: bytes) -> str:
    """Return a token as text; empty, which no mechanism takes, if it is none."""
    try:
        return token.decode() if len(token) <= TOKEN_MAX else ""
    except UnicodeDecodeError:
        return ""


def _unescaped(name: str) -> str | None:
    """Return a name of SCRAM, where =2C stands for a comma and =3D for an equals sign."""
    if name.count("=") != name.count("=2C") + name.count("=3D"):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")
