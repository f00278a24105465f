"""
The bearer tokens that the HTTP server accepts, each with a name and a role.

The file is TOML: a table for each name. It is read again when it changes; a file that became
invalid changes nothing. Only digests are kept, and no error or log line contains a token.
"""

from __future__ import annotations

import hmac
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles
from controller.setting_values import TOKEN_MIN

OWN_NAME: Final = "http_token"
"""The name of the token in the settings."""
FILE_BYTES_MAX: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_KEYS: Final = frozenset({"role", "token", "sha256"})


class TokenRole(StrEnum):
    """What the holder of a token may do."""

    READ = "read"
    """Read the pages and their JSON."""
    OPERATE = "operate"
    """Also pause, resume, cancel and submit."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The name and the role of an accepted token."""

    name: str
    role: TokenRole
    digest: bytes
    """The SHA-256 of the token."""


class Tokens:
    """The accepted tokens, of the settings and of the present file; safe from any thread."""

    def __init__(
        self, path: Path | None, own: SecretStr | None, problem: Callable[[str], None]
    ) -> None:
        """
        Read the file.

        Args:
            path: The file; None: there is none.
            own: The token in the settings.
            problem: Called with what is wrong when the file became invalid.

        Raises:
            InvalidInputError: the file cannot be read, or is invalid.

        """
        self._own: tuple[Holder, ...] = ()
        if own is not None:
            self._own = (Holder(OWN_NAME, TokenRole.OPERATE, digest_of(own.get_secret_value())),)
        self._file = (
            None if path is None else FollowedFiles((path,), lambda: read_tokens(path), problem)
        )

    def holder_of(self, digest: bytes) -> Holder | None:
        """
        Return the holder of the token with this SHA-256; None if there is none.

        All tokens are compared, each in constant time.
        """
        found = None
        for holder in (*self._own, *(() if self._file is None else self._file.content())):
            if hmac.compare_digest(holder.digest, digest):
                found = holder
        return found


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of a token; tokens are random, so that no slow hash is needed."""
    return sha256(token.encode()).digest()


def read_tokens(path: Path) -> tuple[Holder, ...]:
    """
    Read and check a file of tokens.

    Raises:
        InvalidInputError: it cannot be read, or a value is wrong; the message names its place.

    """
    try:
        with path.open("rb") as file:
            content = tomllib.loads(file.read(FILE_BYTES_MAX).decode())
    except OSError as error:
        raise InvalidInputError(f"http_tokens: {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError):
        # The text of the error may quote the line, and with it a token.
        raise InvalidInputError(f"http_tokens: {path}: not a TOML file") from None
    holders = tuple(_holder(path, name, table) for name, table in content.items())
    if not holders:
        raise InvalidInputError(f"http_tokens: {path}: lists no token")
    if len({holder.digest for holder in holders}) < len(holders):
        raise InvalidInputError(f"http_tokens: {path}: two names have the same token")
    return holders


def _holder(path: Path, name: str, table: Any) -> Holder:  # noqa: ANN401 - any TOML value
    where = f"http_tokens: {path}, {name if _NAME.fullmatch(name) else 'a name'}"
    if _NAME.fullmatch(name) is None or name == OWN_NAME:
        raise InvalidInputError(f"{where}: must be letters, digits and . _ @ -, not {OWN_NAME}")
    if not isinstance(table, dict) or table.keys() - _KEYS:
        raise InvalidInputError(f"{where}: must be a table with role, and sha256 or token")
    try:
        role = TokenRole(table.get("role", ""))
    except ValueError:
        raise InvalidInputError(f"{where}: role must be {' or '.join(TokenRole)}") from None
    token, digest = table.get("token"), table.get("sha256")
    if (token is None) == (digest is None):
        raise InvalidInputError(f"{where}: needs either sha256 or token")
    if token is not None:
        if not isinstance(token, str) or len(token) < TOKEN_MIN:
            raise InvalidInputError(f"{where}: token must have at least {TOKEN_MIN} characters")
        return Holder(name, role, digest_of(token))
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidInputError(f"{where}: sha256 must have 64 hexadecimal digits")
    return Holder(name, role, bytes.fromhex(digest))
