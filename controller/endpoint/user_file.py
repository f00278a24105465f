"""
The users whom the endpoint authenticates: a file with a line ``user:password`` for each.

It is read again when it changes. A file that became invalid changes nothing: the users of before
stay. No message contains a line of the file.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from controller.endpoint.sasl import ITERATIONS, SCRAM_HASHES, ScramKeys
from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles

FILE_MAX: Final = 1 << 20
"""The longest file in bytes."""
_FORBIDDEN: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
"""Kubernetes gives mounted secrets to a group to read, so that this is allowed."""


class UserFile:
    """Users and passwords; used on one thread."""

    def __init__(self, path: Path, problem: Callable[[str], None]) -> None:
        """
        Read the file.

        Args:
            path: The file.
            problem: Called with what is wrong when the file became invalid.

        Raises:
            InvalidInputError: it cannot be read, is invalid, or others may read it.

        """
        self._file = FollowedFiles((path,), lambda: _Users(read_users(path)), problem)

    def is_password(self, user: str, password: str) -> bool:
        """Return whether a user has this password."""
        return self._file.content().is_password(user, password)

    def scram_keys(self, mechanism: str, user: str) -> ScramKeys:
        """
        Return the keys of a user.

        An unknown user gets a salt of its own, as known ones do, and keys that no proof matches.
        """
        return self._file.content().scram_keys(mechanism, user)


class _Users:
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
        known = self._passwords.get(user)
        # Digests under a key of this process: the time shows neither a length nor a prefix.
        expected = self._digest(known if known is not None else secrets.token_hex())
        return hmac.compare_digest(expected, self._digest(password)) and known is not None

    def scram_keys(self, mechanism: str, user: str) -> ScramKeys:
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
