"""
The users whom the endpoint authenticates: a file with a line ``user:password`` for each.

It is read again when it changes. A file that became invalid changes nothing: the users of before
stay. No message contains a line of the file.
"""

from __future__ import annotations

import hmac
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from controller.endpoint.sasl import ITERATIONS, ScramKeys, derive_keys
from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles

FILE_MAX: Final = 1 << 20
"""The longest file in bytes."""
CACHE_MAX: Final = 1000
"""Derived keys that are kept; a derivation takes milliseconds of the only thread."""
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
        self._secret = secrets.token_bytes()
        self._keys: dict[tuple[str, str], ScramKeys] = {}
        self._file = FollowedFiles((path,), lambda: read_users(path), problem)
        self._derived_from = self._file.content()

    @property
    def users(self) -> frozenset[str]:
        """The names of the users."""
        return frozenset(self._passwords())

    def is_password(self, user: str, password: str) -> bool:
        """Return whether a user has this password."""
        known = self._passwords().get(user)
        # Digests under a key of this process: the time shows neither a length nor a prefix.
        expected = self._digest(known if known is not None else secrets.token_hex())
        return hmac.compare_digest(expected, self._digest(password)) and known is not None

    def scram_keys(self, hash_name: str, user: str) -> ScramKeys:
        """
        Return the keys of a user.

        An unknown user gets a salt of its own, as known ones do, and keys that no proof matches.
        """
        passwords = self._passwords()
        keys = self._keys.get((hash_name, user))
        if keys is None:
            salt = self._digest(f"{hash_name}\0{user}")
            password = passwords.get(user)
            keys = derive_keys(
                hash_name, secrets.token_hex() if password is None else password, salt, ITERATIONS
            )
            if len(self._keys) >= CACHE_MAX:
                self._keys.clear()
            self._keys[hash_name, user] = keys
        return keys

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha256")

    def _passwords(self) -> Mapping[str, str]:
        """Return the present passwords, and forget keys that were derived from former ones."""
        present = self._file.content()
        if present is not self._derived_from:
            self._derived_from = present
            self._keys.clear()
        return present


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
        if not user or not password or user != user.strip():
            raise InvalidInputError(f"{path}, line {number}: must be user:password")
        if user in users:
            raise InvalidInputError(f"{path}, line {number}: a user for the second time")
        users[user] = password
    if not users:
        raise InvalidInputError(f"{path}: no users")
    return users
