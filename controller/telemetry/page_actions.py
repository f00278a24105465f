"""
What can be changed from the status page, for whoever knows the token.

The token comes in the form itself, never in a cookie, so no other page can use a browser that knows
it; a request that another site started is refused besides. Tokens are compared in constant time,
and after some wrong ones a client is locked out for a while. Each try is told.
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
from controller.telemetry.page import ACTIONS, render_form

BODY_MAX: Final = 4096
FORM: Final = "application/x-www-form-urlencoded"
WRONG_MAX: Final = 10
"""Wrong tokens of one client within ``WRONG_WITHIN_S``, which lock its submissions."""
WRONG_WITHIN_S: Final = 60.0
CLIENTS_MAX: Final = 1000
"""Clients whose wrong tokens are remembered; beyond, those of the one that has been quiet longest
are forgotten. Tokens are too long to be guessed even without a lock."""


class Steering(Protocol):
    """Writes what operators want, as the command line does; None means everything."""

    def pause(self, request: RequestId | None) -> None:
        """Let no new step begin."""
        ...

    def resume(self, request: RequestId | None) -> None:
        """Let steps begin again."""
        ...

    def cancel(self, request: RequestId | None) -> None:
        """Call off what is in progress."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a form: where to go, or a page that says what is wrong."""

    status: HTTPStatus
    html: str = ""
    location: str = ""


Told = Callable[[str, str, str, str], None]
"""Told of each try: action, request, client, result."""


class Actions:
    """Takes forms."""

    def __init__(self, token: str, steering: Steering, clock: Clock, told: Told) -> None:
        """
        Begin to listen.

        Args:
            token: What a form has to carry.
            steering: Carries out what is asked for.
            clock: For how long a client is locked out after wrong tokens.
            told: Told of each try.

        """
        self._token = token.encode()
        self._steering = steering
        self._clock = clock
        self._told = told
        self._wrong: OrderedDict[str, deque[Instant]] = OrderedDict()
        """When each client sent its last wrong tokens; the client that did so last comes last."""
        self._lock = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes, client: str) -> Verdict:
        """
        Judge a form and carry it out.

        Args:
            headers: Of the HTTP request, by lower-case name.
            body: The form, encoded.
            client: The address it comes from: wrong tokens are counted for each.

        """
        if headers.get("content-type", "").partition(";")[0].strip() != FORM:
            return Verdict(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not a form\n")
        form = {k: v[0] for k, v in parse_qs(body.decode("utf-8", "replace")).items()}
        action, request = form.get("action", ""), form.get("request", "")
        if action not in ACTIONS:
            return Verdict(HTTPStatus.BAD_REQUEST, "no such action\n")
        if not is_same_site(headers):
            self._told(action, request, client, "another site")
            return Verdict(HTTPStatus.FORBIDDEN, "from another site\n")
        problem = self._problem(form.get("token", ""), client)
        if problem:
            self._told(action, request, client, problem)
            return Verdict(HTTPStatus.FORBIDDEN, render_form(action, request, problem=problem))
        return self._carry_out(action, request, client)

    def _problem(self, token: str, client: str) -> str:
        """Return why a token does not count, empty if it does."""
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

    def _carry_out(self, action: str, request: str, client: str) -> Verdict:
        name = RequestId(request) if request else None
        try:
            getattr(self._steering, action)(name)
        except ControllerError as error:
            self._told(action, request, client, str(error))
            page = render_form(action, request, problem=str(error))
            return Verdict(HTTPStatus.CONFLICT, page)
        self._told(action, request, client, "done")
        return Verdict(HTTPStatus.SEE_OTHER, location="/")


def is_same_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that the form was on a page of ours; other clients say nothing."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")
