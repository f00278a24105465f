"""
Changes made from the status page, for holders of a token with the role ``operate``.

A form of a session carries the secret of the session, so that no other page can use a browser that
is logged in. Every attempt is audited with the name of the token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

from controller.core.model import RequestId
from controller.errors import ControllerError
from controller.web.access import Access, Identity, forgery_of, is_same_site
from controller.web.http_messages import (
    FORM_BYTES_MAX,
    HttpRequest,
    Response,
    html,
    redirect,
    text,
)
from controller.web.pages import ACTIONS, render_form, render_login, safe_path

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
CONTROL: Final = "/control"
NOT_A_FORM: Final = "not a form"
READ_ONLY: Final = "only GET and HEAD"
NEEDS_OPERATE: Final = "the role operate is needed"


class Steering(Protocol):
    """Writes what operators want, as the command line does; ``request`` None means everything."""

    def pause(self, request: RequestId | None, by: str) -> None:
        """Begin no new step."""
        ...

    def resume(self, request: RequestId | None, by: str) -> None:
        """Begin steps again."""
        ...

    def cancel(self, request: RequestId | None, by: str) -> None:
        """Cancel the reassignments in progress."""
        ...


class Attempt(NamedTuple):
    """An action that was tried."""

    action: str
    request: str
    by: str
    """The name of the token."""
    client: str
    result: str


Audit = Callable[[Attempt], None]


class ControlForm:
    """Answers the forms, and the log-in."""

    def __init__(self, access: Access, steering: Steering, audit: Audit) -> None:
        """
        Accept forms.

        Args:
            access: Identifies who sends them.
            steering: Carries out the actions.
            audit: Called for every attempt.

        """
        self._access = access
        self._steering = steering
        self._audit = audit

    def body_max(self, request: HttpRequest) -> int:
        """Return the largest body of a request, of which only path and headers are known yet."""
        del request
        return FORM_BYTES_MAX

    def post(self, request: HttpRequest) -> Response:
        """Check a form and carry it out."""
        if request.name not in {LOGIN, LOGOUT, CONTROL}:
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY, Allow="GET, HEAD")
        form = request.form()
        if form is None:
            return text(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, NOT_A_FORM)
        if request.name == LOGIN:
            return self._log_in(request, form)
        who = self._access.identify(request)
        if isinstance(who, Response):
            return who
        if request.name == LOGOUT:
            return self._log_out(request, form, who)
        return self._control(request, form, who)

    # --- sessions ---------------------------------------------------------------------------------

    def _log_in(self, request: HttpRequest, form: dict[str, str]) -> Response:
        target = safe_path(form.get("next", ""))
        if not is_same_site(request.headers):
            return text(HTTPStatus.FORBIDDEN, "from another site")
        found = self._access.log_in(form.get("token", ""), request.client)
        if isinstance(found, Response):
            problem = found.body.decode().strip()
            self._audit(Attempt("login", "", "", request.client, problem))
            page = html(render_login(target, problem=problem), found.status)
            return replace(page, headers={**page.headers, **found.headers})
        who, cookie = found
        self._audit(Attempt("login", "", who.name, request.client, "done"))
        return redirect(target, Set_Cookie=cookie)

    def _log_out(self, request: HttpRequest, form: dict[str, str], who: Identity) -> Response:
        problem = forgery_of(who, request.headers, form)
        if problem:
            return text(HTTPStatus.FORBIDDEN, problem)
        return redirect(LOGIN, Set_Cookie=self._access.log_out(request))

    # --- actions ----------------------------------------------------------------------------------

    def _control(self, request: HttpRequest, form: dict[str, str], who: Identity) -> Response:
        action, subject = form.get("action", ""), form.get("request", "")
        if action not in ACTIONS:
            return text(HTTPStatus.BAD_REQUEST, "no such action")
        attempt = Attempt(action, subject, who.name, request.client, "done")
        problem = forgery_of(who, request.headers, form)
        if not problem and not who.may_operate:
            problem = NEEDS_OPERATE
        if problem:
            self._audit(attempt._replace(result=problem))
            return text(HTTPStatus.FORBIDDEN, problem)
        name = RequestId(subject) if subject else None
        try:
            getattr(self._steering, action)(name, who.name)
        except ControllerError as error:
            self._audit(attempt._replace(result=str(error)))
            page = render_form(action, subject, who, problem=str(error))
            return html(page, HTTPStatus.CONFLICT)
        self._audit(attempt)
        return redirect("/")
