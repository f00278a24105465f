"""
Forms of the status page: the log-in, and changes by holders of a token with the role ``operate``.

A form of a session carries the secret of the session, so that no other page can use a browser that
is logged in. Every attempt is audited with the name of the token.

Work is submitted after a preview: the first step makes a draft and shows what it would do; the
second submits that draft. Drafts stay in memory, a few of them and for a while, so that a plan of
many partitions is sent once. A draft belongs to the name that made it and is submitted once at
most.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final, NamedTuple

from controller.actions.draining import NewDrains
from controller.actions.evacuating import LeadershipTask, LeadershipTaskKind
from controller.actions.submission import PlanSubmission, submission_of
from controller.actions.work_control import request_ids
from controller.core.model import BrokerId, Instant, RequestId
from controller.core.pacing.controls import Drain, Evacuation
from controller.core.requests.submissions import (
    Cancellation,
    CancelScope,
    RequestOptions,
    Throttle,
    Window,
)
from controller.errors import ControllerError, InvalidInputError
from controller.previews.proposal import Goal
from controller.reactor.ports import Clock
from controller.units import parse_duration, parse_throttle
from controller.web import pages
from controller.web.access import Access, Identity, author, forgery_of, is_same_site
from controller.web.http_messages import (
    FORM_BYTES_MAX,
    HttpRequest,
    Response,
    html,
    is_number,
    redirect,
    text,
)
from controller.web.limits_form import changes_of
from controller.web.page_plans import NewQuiesce, PagePlans, Wanted
from controller.web.steering import PAGE_ACTIONS, Steering
from controller.znodes.json_documents import read_window

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
CONTROL: Final = "/control"
NOT_A_FORM: Final = "not a form"
PLAN: Final = "/plan"
SUBMIT: Final = "/submit"
LIMITS: Final = "/limits"
ACCEPTED: Final = "/?accepted=1"
"""The overview, with a note that it does not show yet what a form changed."""
PLANNED: Final = frozenset({"add", "rebalance", "replication"})
"""Kinds of forms whose plan is made here."""
CHOSEN: Final = "broker-"
"""Begins the name of the box of a broker, before its id."""
CHOSEN_TOPIC: Final = "topic-"
"""The same of a topic, before its name."""
PLAN_BYTES_MAX: Final = 8 << 20
"""The largest encoded form; larger plans are submitted with ``execute``."""
DRAFTS_MAX: Final = 8
DRAFT_S: Final = 900.0
READ_ONLY: Final = "only GET and HEAD"
NEEDS_OPERATE: Final = "the role operate is needed"


class _Draft(NamedTuple):
    owner: str
    wanted: Wanted
    until: Instant


class PlanForm:
    """Answers both steps of the form for a plan; safe from any thread."""

    def __init__(self, plans: PagePlans, clock: Clock) -> None:
        self._plans = plans
        self._clock = clock
        self._drafts: OrderedDict[str, _Draft] = OrderedDict()
        self._lock = threading.Lock()
        self._previewing = threading.Lock()
        """A preview takes processor time of the daemon: one at a time."""

    def page(
        self,
        form: Mapping[str, str],
        who: Identity,
        problem: str = "",
        status: HTTPStatus = HTTPStatus.CONFLICT,
    ) -> Response:
        """
        Return the forms, filled in as one of them was sent, with what is wrong with it.

        That of an undo is among them only if the form names a request.
        """
        page = pages.render_plan_form(
            who, form, self._plans.brokers(), self._plans.topics(), problem=problem
        )
        return html(page, status if problem else HTTPStatus.OK)

    def preview(self, form: Mapping[str, str], who: Identity) -> Response:
        """Make a draft of a form and show what it would do."""
        if not self._previewing.acquire(blocking=False):
            why = "another preview is being computed; try again"
            return self.page(form, who, why, HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            wanted = self._wanted_by(form)
            shown = self._plans.preview(wanted)
        except ControllerError as error:
            return self.page(form, who, str(error))
        finally:
            self._previewing.release()
        draft = secrets.token_urlsafe(16)
        with self._lock:
            until = Instant(self._clock.now() + DRAFT_S)
            self._drafts[draft] = _Draft(who.name, wanted, until)
            while len(self._drafts) > DRAFTS_MAX:
                self._drafts.popitem(last=False)
        return html(pages.render_preview(who, draft, shown, wanted))

    def submit(
        self, form: Mapping[str, str], who: Identity
    ) -> tuple[Response, str, RequestId | None]:
        """Submit a draft of this identity; return the response, the result and the request."""
        with self._lock:
            draft = self._drafts.get(form.get("draft", ""))
            if draft is None or draft.owner != who.name or self._clock.now() >= draft.until:
                why = "the draft is not known any more; preview the plan again"
                return text(HTTPStatus.CONFLICT, why), why, None
            del self._drafts[form["draft"]]
        try:
            name, is_shown = self._plans.submit(draft.wanted, author(who.name))
        except ControllerError as error:
            why = " ".join((str(error), *getattr(error, "__notes__", ())))
            return self.page({}, who, why), why, None
        page = pages.render_submitted(who, name, draft.wanted, is_shown=is_shown)
        return html(page), "done", name

    def _wanted_by(self, form: Mapping[str, str]) -> Wanted:
        kind = form.get("kind", "")
        if kind in FORMS:
            return FORMS[kind](form)
        if kind in PLANNED:
            options, goal = options_of(form), goal_of(form)
            return submission_of(self._plans.propose(goal), goal, options)
        return PlanSubmission(
            plan=self._plans.parse(form.get("plan", "")),
            options=options_of(form),
            may_change_factors=bool(form.get("allow-replication-factor-change")),
        )


def drains_of(form: Mapping[str, str]) -> NewDrains:
    """Return the drains that a form asks for; a wrong value raises ``InvalidInputError``."""
    return NewDrains(
        brokers=brokers_of(form),
        about=Drain(reason=_reason_of(form), approved_by=form.get("approved_by", "").strip()),
        throttle=_throttle_of(form),
        window=_window_of(form),
    )


def undo_of(form: Mapping[str, str]) -> Cancellation:
    """Return the undo of a request; a wrong value raises ``InvalidInputError``."""
    request = form.get("request", "").strip()
    if not request:
        raise InvalidInputError("request: name the request to undo")
    return Cancellation(
        requests=frozenset(request_ids([request])),
        scope=CancelScope.ALL,
        reason=_reason_of(form),
        throttle=_throttle_of(form),
        window=_window_of(form),
    )


def leaderships_of(form: Mapping[str, str]) -> LeadershipTask:
    """Return what a form asks for leaderships; a wrong value raises ``InvalidInputError``."""
    task = form.get("task", "")
    if task not in list(LeadershipTaskKind):
        raise InvalidInputError(f"task: one of {', '.join(LeadershipTaskKind)}")
    reason = _reason_of(form)
    return LeadershipTask(
        kind=LeadershipTaskKind(task),
        brokers=sorted(set(brokers_of(form))),
        about=Evacuation(reason),
        options=RequestOptions(reason=reason, window=_window_of(form)),
    )


def quiesce_of(form: Mapping[str, str]) -> NewQuiesce:
    """Return the quiesce that a form asks for; a wrong value raises ``InvalidInputError``."""
    deadline = form.get("deadline", "").strip()
    new = NewQuiesce(
        _reason_of(form),
        parse_duration("deadline", deadline) if deadline else None,
        at_once=bool(form.get("cancel")),
    )
    if new.at_once and deadline:
        raise InvalidInputError("deadline: none is needed where all is rolled back at once")
    return new


FORMS: Final[Mapping[str, Callable[[Mapping[str, str]], Wanted]]] = {
    "drain": drains_of,
    "undo": undo_of,
    "leaders": leaderships_of,
    "quiesce": quiesce_of,
}
"""Reads the forms that need no plan, by their kind."""


def goal_of(form: Mapping[str, str]) -> Goal:
    """Return the goal of a task, as its command has it."""
    match form.get("kind"):
        case "add":
            return Goal(all_topics=True, added=frozenset(brokers_of(form)))
        case "replication":
            return Goal(topics=topics_of(form), replication_factor=_factor_of(form))
        case _:
            return Goal(all_topics=True, rebalance=True)


def brokers_of(form: Mapping[str, str]) -> list[BrokerId]:
    """Return the brokers that a form names: those chosen, or a list of ids."""
    brokers = _chosen(form, CHOSEN, "broker")
    if not brokers or not all(map(is_number, brokers)):
        raise InvalidInputError("broker: choose a broker, or several")
    return [BrokerId(int(broker)) for broker in brokers]


def topics_of(form: Mapping[str, str]) -> list[str]:
    """Return the topics that a form names: those chosen, or a list of names."""
    topics = _chosen(form, CHOSEN_TOPIC, "topic")
    if not topics:
        raise InvalidInputError("topic: choose a topic, or several")
    return topics


def _chosen(form: Mapping[str, str], begin: str, typed: str) -> list[str]:
    """Return the boxes that are checked, or what was typed in their place."""
    chosen = [name.removeprefix(begin) for name in form if name.startswith(begin)]
    return chosen or form.get(typed, "").replace(",", " ").split()


def _factor_of(form: Mapping[str, str]) -> int:
    factor = form.get("factor", "").strip()
    if not is_number(factor) or int(factor) < 1:
        raise InvalidInputError(f"replicas: a whole number, 1 or more, not {factor!r}")
    return int(factor)


def options_of(form: Mapping[str, str]) -> RequestOptions:
    """Return the options of a request; a wrong value raises ``InvalidInputError``."""
    return RequestOptions(
        reason=_reason_of(form),
        throttle=_throttle_of(form),
        window=_window_of(form),
        atomic=bool(form.get("atomic")),
    )


def _reason_of(form: Mapping[str, str]) -> str:
    return form.get("reason", "").strip()


def _window_of(form: Mapping[str, str]) -> Window | None:
    hours = form.get("window", "").strip()
    window = read_window(hours) if hours else None
    if isinstance(window, str):
        raise InvalidInputError(f"window: {window}")
    return window


def _throttle_of(form: Mapping[str, str]) -> Throttle | None:
    throttle = form.get("throttle", "").strip()
    return parse_throttle("throttle", throttle) if throttle else None


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
    """Answers the forms, and the log-in; ``audit`` is called for every attempt."""

    def __init__(self, access: Access, steering: Steering, plans: PlanForm, audit: Audit) -> None:
        self._access = access
        self._steering = steering
        self._plans = plans
        self._audit = audit
        self._forms: Mapping[str, Callable[[Sent], Response]] = {
            LOGOUT: lambda sent: redirect(LOGIN, Set_Cookie=access.log_out(sent.request)),
            CONTROL: self._control,
            PLAN: lambda sent: self._plans.preview(sent.form, sent.who),
            SUBMIT: self._submit,
            LIMITS: self._change_limits,
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
        target = pages.safe_path(form.get("next", ""))
        if not is_same_site(request.headers):
            return text(HTTPStatus.FORBIDDEN, "from another site")
        found = self._access.log_in(form.get("token", ""), request.client)
        if isinstance(found, Response):
            problem = found.body.decode().strip()
            self._audit(Attempt("login", "", "", request.client, problem))
            page = html(pages.render_login(target, problem=problem), found.status)
            return replace(page, headers={**page.headers, **found.headers})
        who, cookie = found
        self._audit(Attempt("login", "", who.name, request.client, "done"))
        return redirect(target, Set_Cookie=cookie)

    # --- actions ----------------------------------------------------------------------------------

    def _control(self, sent: Sent) -> Response:
        action = PAGE_ACTIONS.get(sent.form.get("action", ""))
        if action is None:
            return text(HTTPStatus.BAD_REQUEST, "no such action")
        subject = sent.form.get("request", "")
        try:
            is_shown = self._steering.carry_out(action, subject, sent.who.name)
        except ControllerError as error:
            self._audit(sent.attempt(str(error)))
            page = pages.render_form(action, subject, sent.who, problem=str(error))
            return html(page, HTTPStatus.CONFLICT)
        self._audit(sent.attempt("done"))
        return redirect("/" if is_shown else ACCEPTED)

    def limits(
        self, who: Identity, form: Mapping[str, str] | None = None, problem: str = ""
    ) -> Response:
        """Return the form for throttle, window and limits, as they are set now."""
        try:
            known, in_force = self._steering.limits()
        except ControllerError as error:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        page = pages.render_limits(who, known, in_force, form, problem=problem)
        return html(page, HTTPStatus.CONFLICT if problem else HTTPStatus.OK)

    def _change_limits(self, sent: Sent) -> Response:
        try:
            is_shown = self._steering.change_limits(changes_of(sent.form))
        except ControllerError as error:
            self._audit(sent.attempt(str(error)))
            return self.limits(sent.who, sent.form, str(error))
        self._audit(sent.attempt("done"))
        return redirect("/" if is_shown else ACCEPTED)

    def plan(self, who: Identity, chosen: Mapping[str, str]) -> Response:
        """Return the forms with what a link chose: a broker and a task, or a request to undo."""
        return self._plans.page(chosen, who)

    def _submit(self, sent: Sent) -> Response:
        response, result, name = self._plans.submit(sent.form, sent.who)
        self._audit(sent.attempt(result)._replace(request=name or ""))
        return response
