"""
Changes made from the status page, for holders of a token with the role ``operate``.

A form of a session carries the secret of the session, so that no other page can use a browser that
is logged in. Every attempt is audited with the name of the token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final, NamedTuple

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
from controller.web.pages import render_form, render_login, safe_path
from controller.web.plan_form import PLAN, PLAN_BYTES_MAX, SUBMIT, PlanForm
from controller.web.steering import PAGE_ACTIONS, Steering

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
CONTROL: Final = "/control"
NOT_A_FORM: Final = "not a form"
READ_ONLY: Final = "only GET and HEAD"
NEEDS_OPERATE: Final = "the role operate is needed"


class Attempt(NamedTuple):
    """An action that was tried."""

    action: str
    request: str
    by: str
    """The name of the token."""
    client: str
    result: str


class Sent(NamedTuple):
    """A form with its sender."""

    request: HttpRequest
    form: Mapping[str, str]
    who: Identity

    def attempt(self, result: str) -> Attempt:
        """Return what is audited of it."""
        action = self.form.get("action", "") if self.request.name == CONTROL else ""
        action = action if action in PAGE_ACTIONS else self.request.name.strip("/")
        subject = self.form.get("request", "")
        return Attempt(action, subject, self.who.name, self.request.client, result)


Audit = Callable[[Attempt], None]


class ControlForm:
    """Answers the forms, and the log-in."""

    def __init__(self, access: Access, steering: Steering, plans: PlanForm, audit: Audit) -> None:
        """
        Accept forms.

        Args:
            access: Identifies who sends them.
            steering: Carries out the actions.
            plans: Previews and submits plans.
            audit: Called for every attempt.

        """
        self._access = access
        self._steering = steering
        self._plans = plans
        self._audit = audit
        self._forms: Mapping[str, Callable[[Sent], Response]] = {
            LOGOUT: self._log_out,
            CONTROL: self._control,
            PLAN: lambda sent: self._plans.preview(sent.form, sent.who),
            SUBMIT: self._submit,
        }

    def body_max(self, request: HttpRequest) -> int:
        """Return the largest body of a request, of which only path and headers are known yet."""
        if request.name != PLAN:
            return FORM_BYTES_MAX
        who = self._access.identify(request)
        may_operate = isinstance(who, Identity) and who.may_operate
        return PLAN_BYTES_MAX if may_operate else FORM_BYTES_MAX

    def post(self, request: HttpRequest) -> Response:
        """Check a form and carry it out."""
        if request.name != LOGIN and request.name not in self._forms:
            return text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY, Allow="GET, HEAD")
        form = request.form()
        if form is None:
            return text(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, NOT_A_FORM)
        if request.name == LOGIN:
            return self._log_in(request, form)
        who = self._access.identify(request)
        if isinstance(who, Response):
            return who
        sent = Sent(request, form, who)
        problem = forgery_of(who, request.headers, form)
        if not problem and request.name != LOGOUT and not who.may_operate:
            problem = NEEDS_OPERATE
        if problem:
            self._audit(sent.attempt(problem))
            return text(HTTPStatus.FORBIDDEN, problem)
        return self._forms[request.name](sent)

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

    def _log_out(self, sent: Sent) -> Response:
        return redirect(LOGIN, Set_Cookie=self._access.log_out(sent.request))

    # --- actions ----------------------------------------------------------------------------------

    def _control(self, sent: Sent) -> Response:
        action = PAGE_ACTIONS.get(sent.form.get("action", ""))
        if action is None:
            return text(HTTPStatus.BAD_REQUEST, "no such action")
        subject = sent.form.get("request", "")
        try:
            self._steering.carry_out(action, subject, sent.who.name)
        except ControllerError as error:
            self._audit(sent.attempt(str(error)))
            page = render_form(action, subject, sent.who, problem=str(error))
            return html(page, HTTPStatus.CONFLICT)
        self._audit(sent.attempt("done"))
        return redirect("/")

    def _submit(self, sent: Sent) -> Response:
        response, result, name = self._plans.submit(sent.form, sent.who)
        self._audit(sent.attempt(result)._replace(request=name or ""))
        return response
