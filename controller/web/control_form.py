"""
Changes made from the status page, for clients that know the token.

The form carries the token itself, never a cookie, so that no other page can use a browser that
knows it; a form sent from another site is refused besides. Tokens are compared in constant time,
and a client that sends wrong ones too often has to wait. Every attempt is logged.
"""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

from controller.core.model import Instant, RequestId
from controller.errors import ControllerError
from controller.reactor.ports import Clock
from controller.web.pages import ACTIONS, render_form

BODY_MAX: Final = 4096
FORM: Final = "application/x-www-form-urlencoded"
WRONG_MAX: Final = 10
"""Wrong tokens from one client within ``WRONG_WITHIN_S`` after which its forms are refused."""
WRONG_WITHIN_S: Final = 60.0
CLIENTS_MAX: Final = 1000
"""
Clients whose wrong tokens are counted; beyond it the least recent client is forgotten.

Tokens are too long to be guessed even without the lock.
"""


class Steering(Protocol):
    """Writes what operators want, as the command line does; ``request`` None means everything."""

    def pause(self, request: RequestId | None) -> None:
        """Begin no new step."""
        ...

    def resume(self, request: RequestId | None) -> None:
        """Begin steps again."""
        ...

    def cancel(self, request: RequestId | None) -> None:
        """Cancel the reassignments in progress."""
        ...


@dataclass(frozen=True, slots=True)
class FormResult:
    """The response to a form: a redirect, or a page that says what is wrong."""

    status: HTTPStatus
    html: str = ""
    location: str = ""


Audit = Callable[[str, str, str, str], None]
"""Called for every attempt with action, request, client and result."""


class ControlForm:
    """Checks forms and carries them out."""

    def __init__(self, token: str, steering: Steering, clock: Clock, audit: Audit) -> None:
        """
        Accept forms.

        Args:
            token: The token that a form must carry.
            steering: Carries out the actions.
            clock: Measures how long a client is refused after wrong tokens.
            audit: Called for every attempt.

        """
        self._token = token.encode()
        self._steering = steering
        self._clock = clock
        self._audit = audit
        self._wrong: OrderedDict[str, deque[Instant]] = OrderedDict()
        """When each client sent its latest wrong tokens; the most recent client comes last."""
        self._lock = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes, client: str) -> FormResult:
        """
        Check a form and carry it out.

        Args:
            headers: Of the HTTP request, by lower-case name.
            body: The encoded form.
            client: The address it comes from; wrong tokens are counted for each address.

        """
        if headers.get("content-type", "").partition(";")[0].strip() != FORM:
            return FormResult(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not a form\n")
        form = {k: v[0] for k, v in parse_qs(body.decode("utf-8", "replace")).items()}
        action, request = form.get("action", ""), form.get("request", "")
        if action not in ACTIONS:
            return FormResult(HTTPStatus.BAD_REQUEST, "no such action\n")
        if not is_same_site(headers):
            self._audit(action, request, client, "another site")
            return FormResult(HTTPStatus.FORBIDDEN, "from another site\n")
        problem = self._problem(form.get("token", ""), client)
        if problem:
            self._audit(action, request, client, problem)
            return FormResult(HTTPStatus.FORBIDDEN, render_form(action, request, problem=problem))
        return self._carry_out(action, request, client)

    def _problem(self, token: str, client: str) -> str:
        """Return why a token is not accepted; empty if it is."""
        with self._lock:
            now = self._clock.now()
            wrong = self._wrong.get(client)
            if wrong and len(wrong) == WRONG_MAX and now - wrong[0] < WRONG_WITHIN_S:
                return "too many wrong tokens; submissions from this address wait for a minute"
            if hmac.compare_digest(token.encode(), self._token):
                return ""
            self._wrong.setdefault(client, deque(maxlen=WRONG_MAX)).append(now)
            self._wrong.move_to_end(client)
            if len(self._wrong) > CLIENTS_MAX:
                self._wrong.popitem(last=False)
            return "wrong token"

    def _carry_out(self, action: str, request: str, client: str) -> FormResult:
        name = RequestId(request) if request else None
        try:
            getattr(self._steering, action)(name)
        except ControllerError as error:
            self._audit(action, request, client, str(error))
            page = render_form(action, request, problem=str(error))
            return FormResult(HTTPStatus.CONFLICT, page)
        self._audit(action, request, client, "done")
        return FormResult(HTTPStatus.SEE_OTHER, location="/")


def is_same_site(headers: Mapping[str, str]) -> bool:
    """Return whether the form came from this server; only browsers report its origin."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")
