"""
Who sends a request, and what they may do: bearer tokens, each with a name and a role, and sessions.

Programs send a token with each request. Browsers send one once, in the log-in form, and get a
cookie with the random id of a session. A session ends after a time, at a log-out, and when its
token is removed from the file. Forms of a session also carry a secret of the session, as a browser
sends the cookie for forms of other sites as well (CSRF); ``SameSite`` and the ``Origin`` header are
checked besides. An address that sends wrong tokens too often has to wait.

The file of tokens is TOML: a table for each name. It is read again when it changes; a file that
became invalid changes nothing. Only digests are kept, and no error or log line contains a token.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import tomllib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from controller.core.model import Instant
from controller.errors import InvalidInputError, errors_about
from controller.followed_files import FollowedFiles
from controller.reactor.ports import Clock
from controller.setting_values import TOKEN_MIN
from controller.web.http_messages import HttpRequest, Response, text

WRONG_MAX: Final = 10
"""Wrong tokens from one client within ``WRONG_WITHIN_S`` after which its tokens are refused."""
WRONG_WITHIN_S: Final = 60.0
CLIENTS_MAX: Final = 1000
"""
Clients whose wrong tokens are counted; beyond it the least recent client is forgotten.

Tokens are too long to be guessed even without the limit.
"""
SESSIONS_MAX: Final = 1000
"""Beyond it the oldest session ends."""
SESSION_S: Final = 12 * 3600.0
REALM: Final = 'Bearer realm="reassigner"'
LOCKED: Final = "too many wrong tokens; tokens from this address are refused for a minute"

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
    """
    The accepted tokens, ``own`` of the settings and those of the file; safe from any thread.

    ``problem`` is called with what is wrong when the file became invalid.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid.

    """

    def __init__(
        self, path: Path | None, own: SecretStr | None, problem: Callable[[str], None]
    ) -> None:
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
        with errors_about(f"http_tokens: {path}"), path.open("rb") as file:
            content = tomllib.loads(file.read(FILE_BYTES_MAX).decode())
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


# --- senders -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a request."""

    name: str
    """Empty: tokens are not configured, and everyone may read."""
    role: TokenRole
    csrf: str = ""
    """The secret that forms of a session carry; empty for a bearer token."""

    @property
    def may_operate(self) -> bool:
        """Whether the sender may change anything."""
        return self.role is TokenRole.OPERATE


ANYONE: Final = Identity("", TokenRole.READ)


@dataclass(frozen=True, slots=True)
class _Session:
    digest: bytes
    """Of the token with which it began."""
    csrf: str
    until: Instant


class Access:
    """
    Identifies the senders of requests; safe from any thread.

    ``cookie`` is the name of the cookie, as browsers do not separate cookies by port. It is for TLS
    only if the server speaks TLS.
    """

    def __init__(self, tokens: Tokens, clock: Clock, *, cookie: str, is_tls: bool) -> None:
        self._tokens = tokens
        self._clock = clock
        self._cookie = cookie
        self._attributes = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_tls else "")
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._wrong: OrderedDict[str, deque[Instant]] = OrderedDict()
        """When each client sent its latest wrong tokens; the most recent client comes last."""
        self._lock = threading.Lock()

    def identify(self, request: HttpRequest) -> Identity | Response:
        """Return the sender of a request, or the response to one without a right to any."""
        given = request.headers.get("authorization")
        if given is None:
            return self._of_session(request) or text(
                HTTPStatus.UNAUTHORIZED, "a token is needed", WWW_Authenticate=REALM
            )
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer":
            return text(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", WWW_Authenticate=REALM)
        holder = self._check(token.strip(), request.client)
        return holder if isinstance(holder, Response) else Identity(holder.name, holder.role)

    def log_in(self, token: str, client: str) -> tuple[Identity, str] | Response:
        """Begin a session; return its identity and the cookie, or the refusal of the token."""
        holder = self._check(token, client)
        if isinstance(holder, Response):
            return holder
        until = Instant(self._clock.now() + SESSION_S)
        session = _Session(holder.digest, secrets.token_urlsafe(24), until)
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[key] = session
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        who = Identity(holder.name, holder.role, session.csrf)
        return who, f"{self._cookie}={key}; Max-Age={SESSION_S:.0f}{self._attributes}"

    def log_out(self, request: HttpRequest) -> str:
        """End the session of a request; return the cookie that replaces its own."""
        with self._lock:
            self._sessions.pop(self._key_of(request), None)
        return f"{self._cookie}=; Max-Age=0{self._attributes}"

    def _of_session(self, request: HttpRequest) -> Identity | None:
        key = self._key_of(request)
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                return None
            holder = self._tokens.holder_of(session.digest)
            if holder is None or self._clock.now() >= session.until:
                del self._sessions[key]
                return None
        return Identity(holder.name, holder.role, session.csrf)

    def _key_of(self, request: HttpRequest) -> str:
        try:
            morsel = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value

    def _check(self, token: str, client: str) -> Holder | Response:
        """Return the holder of an accepted token, or the refusal."""
        with self._lock:
            now = self._clock.now()
            wrong = self._wrong.get(client)
            if wrong and len(wrong) == WRONG_MAX and now - wrong[0] < WRONG_WITHIN_S:
                wait = f"{WRONG_WITHIN_S:.0f}"
                return text(HTTPStatus.TOO_MANY_REQUESTS, LOCKED, Retry_After=wait)
            holder = self._tokens.holder_of(digest_of(token))
            if holder is not None:
                return holder
            self._wrong.setdefault(client, deque(maxlen=WRONG_MAX)).append(now)
            self._wrong.move_to_end(client)
            if len(self._wrong) > CLIENTS_MAX:
                self._wrong.popitem(last=False)
        why = f'{REALM}, error="invalid_token"'
        return text(HTTPStatus.UNAUTHORIZED, "wrong token", WWW_Authenticate=why)


def author(name: str) -> str:
    """Return the author of an action as znodes name it."""
    return f"{name}, on the status page"


def forgery_of(who: Identity, headers: Mapping[str, str], form: Mapping[str, str]) -> str:
    """Return why a form may not be one of our own pages; empty if it is, or has a bearer token."""
    if not is_same_site(headers):
        return "from another site"
    given = form.get("csrf", "").encode()
    if who.csrf and not hmac.compare_digest(given, who.csrf.encode()):
        return "the form is not of this session; load the page again"
    return ""


def is_same_site(headers: Mapping[str, str]) -> bool:
    """Return whether the form came from this server; only browsers report its origin."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")
