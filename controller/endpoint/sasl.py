"""
The server's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), the latter by scramp.

The exchanges are pure: a token of the client in, a step out; each serves one authentication. Names
of SCRAM are ASCII, which SASLprep leaves as it is: Kafka's clients do not apply it. Delegation
tokens are the brokers' own, so that they are refused here.

The users are in a file with a line ``user:password`` for each. It is read again when it changes. A
file that became invalid changes nothing: the users of before stay.

No reason, ``repr``, message or exception contains what a peer sent, a line of the file or a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scramp import ScramException, ScramMechanism

from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles

TOKEN_MAX: Final = 16 * 1024
"""The longest token in bytes; a name and a password are far shorter."""
SCRAM_TOKEN_MAX: Final = 512
"""The longest of SCRAM, which has no password in it: scramp looks at each character many times."""
ITERATIONS: Final = 4096
"""Kafka's minimum, and its default for SCRAM credentials."""
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""

FILE_MAX: Final = 1 << 20
"""The longest file of users in bytes."""
_FORBIDDEN: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
"""Kubernetes gives mounted secrets to a group to read, so that this is allowed."""

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
"""What follows a token of the client; after the end of an exchange, every token is refused."""


@dataclass(eq=False, repr=False, slots=True)
class PlainExchange:
    """PLAIN: one token with name and password."""

    is_password: Callable[[str, str], bool]
    """Whether a user has this password; takes equally long for unknown users."""
    _is_over: bool = False

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
            if self.is_password(user, password)
            else AuthenticationFailed(_WRONG)
        )


class ScramExchange:
    """SCRAM: the client proves that it knows the password, then the server does."""

    def __init__(self, mechanism: str, keys_of: Callable[[str], ScramKeys]) -> None:
        """
        Prepare for a mechanism of ``SCRAM_HASHES``.

        ``keys_of`` returns the keys of a user; for an unknown user, in the same time, those of a
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


SaslExchange = PlainExchange | ScramExchange


def _text(token: bytes) -> str:
    """Return a token as text; empty, which no mechanism takes, if it is none."""
    try:
        return token.decode() if len(token) <= TOKEN_MAX else ""
    except UnicodeDecodeError:
        return ""


# --- users --------------------------------------------------------------------------------------


def user_file(path: Path, problem: Callable[[str], None]) -> FollowedFiles[Users]:
    """
    Read the file; ``problem`` is called with what is wrong when it became invalid.

    Raises:
        InvalidInputError: it cannot be read, is invalid, or others may read it.
    """
    return FollowedFiles((path,), lambda: Users(read_users(path)), problem)


class Users:
    """
    The users of one version of the file.

    What is known of a user costs the same time as what is not: all keys are derived beforehand, as
    a derivation takes milliseconds of the only thread, and nothing is for the first time.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._secret = secrets.token_bytes()
        self._passwords = passwords
        self._keys = {
            (mechanism, user): derive_keys(
                hash_name, password, self._salt(mechanism, user), ITERATIONS
            )
            for mechanism, hash_name in SCRAM_HASHES.items()
            for user, password in passwords.items()
        }

    def is_password(self, user: str, password: str) -> bool:
        """Return whether a user has this password."""
        known = self._passwords.get(user)
        # Digests under a key of this process: the time shows neither a length nor a prefix.
        expected = self._digest(known if known is not None else secrets.token_hex())
        return hmac.compare_digest(expected, self._digest(password)) and known is not None

    def scram_keys(self, mechanism: str, user: str) -> ScramKeys:
        """
        Return the keys of a user.

        An unknown user gets a salt of its own, as known ones do, and keys that no proof matches.
        """
        size = hashlib.new(SCRAM_HASHES[mechanism]).digest_size
        stored_key, server_key = secrets.token_bytes(size), secrets.token_bytes(size)
        unknown = (self._salt(mechanism, user), stored_key, server_key, ITERATIONS)
        return self._keys.get((mechanism, user), unknown)

    def _salt(self, mechanism: str, user: str) -> bytes:
        return self._digest(f"{mechanism}\0{user}")

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")


def derive_keys(hash_name: str, password: str, salt: bytes, iterations: int) -> ScramKeys:
    """Derive the keys of a password as Kafka does: RFC 5802, section 3, without SASLprep."""
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return salt, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations


def read_users(path: Path) -> Mapping[str, str]:
    """
    Read and check a file of users; empty lines and those that start with # are skipped.

    Raises:
        InvalidInputError: it cannot be read, or a line is wrong; the message has its number only.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(path.stat().st_mode) & _FORBIDDEN:
                raise InvalidInputError(
                    f"{path}: other users of the machine may access it; chmod 600"
                )
            text = file.read(FILE_MAX + 1).decode()
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not UTF-8") from None
    if len(text) > FILE_MAX:
        raise InvalidInputError(f"{path}: longer than {FILE_MAX} bytes")
    users: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        user, colon, password = line.removesuffix("\r").partition(":")
        if (not user.strip() and not colon) or user.startswith("#"):
            continue
        if user in users:
            raise InvalidInputError(f"{path}, line {number}: a user for the second time")
        problem = _problem_of(user, password)
        if problem:
            raise InvalidInputError(f"{path}, line {number}: {problem}")
        users[user] = password
    if not users:
        raise InvalidInputError(f"{path}: no users")
    return users


def _problem_of(user: str, password: str) -> str:
    """Return what is wrong with a line; empty: nothing is."""
    if not user or not password or user != user.strip():
        return "must be user:password"
    if not (user.isascii() and user.isprintable()):
        return "a name must be printable ASCII"
    return ""
