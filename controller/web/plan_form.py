"""
The form that submits a plan, or drains a broker, after a preview.

The first step makes a draft and shows what it would do; the second submits that draft. Drafts stay
in memory, a few of them and for a while, so that a plan of many partitions is sent once. A draft
belongs to the name that made it and is submitted once at most.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final, NamedTuple

from controller.core.model import BrokerId, Instant, RequestId
from controller.core.requests.submissions import RequestOptions
from controller.errors import ControllerError, InvalidInputError
from controller.previews.plan_files import PlanFile
from controller.reactor.ports import Clock
from controller.units import parse_bytes
from controller.web.access import Identity, author
from controller.web.http_messages import Response, html, is_number, text
from controller.web.page_plans import PagePlans
from controller.web.pages import render_plan_form, render_preview, render_submitted

PLAN: Final = "/plan"
SUBMIT: Final = "/submit"
PLAN_BYTES_MAX: Final = 8 << 20
"""The largest encoded form; larger plans are submitted with ``execute``."""
DRAFTS_MAX: Final = 8
DRAFT_S: Final = 900.0


class _Draft(NamedTuple):
    owner: str
    plan: PlanFile
    options: RequestOptions
    until: Instant


class PlanForm:
    """Answers both steps of the form; safe from any thread."""

    def __init__(self, plans: PagePlans, clock: Clock) -> None:
        """
        Start without drafts.

        Args:
            plans: Drafts, previews and submits.
            clock: Measures the age of drafts.

        """
        self._plans = plans
        self._clock = clock
        self._drafts: OrderedDict[str, _Draft] = OrderedDict()
        self._lock = threading.Lock()
        self._previewing = threading.Lock()
        """A preview takes processor time of the daemon: one at a time."""

    def preview(self, form: Mapping[str, str], who: Identity) -> Response:
        """Make a draft of a form and show what it would do."""
        if not self._previewing.acquire(blocking=False):
            why = "another preview is being computed; try again"
            return html(render_plan_form(who, form, problem=why), HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            options = options_of(form)
            plan = self._plan_of(form)
            shown = self._plans.preview(plan, options)
        except ControllerError as error:
            page = render_plan_form(who, form, problem=str(error))
            return html(page, HTTPStatus.CONFLICT)
        finally:
            self._previewing.release()
        draft = secrets.token_urlsafe(16)
        with self._lock:
            until = Instant(self._clock.now() + DRAFT_S)
            self._drafts[draft] = _Draft(who.name, plan, options, until)
            while len(self._drafts) > DRAFTS_MAX:
                self._drafts.popitem(last=False)
        return html(render_preview(who, draft, shown, options))

    def submit(
        self, form: Mapping[str, str], who: Identity
    ) -> tuple[Response, str, RequestId | None]:
        """
        Submit a draft, if this identity made it.

        Returns:
            The response, the result in words, and the id of the request.

        """
        with self._lock:
            draft = self._drafts.get(form.get("draft", ""))
            if draft is None or draft.owner != who.name or self._clock.now() >= draft.until:
                why = "the draft is not known any more; preview the plan again"
                return text(HTTPStatus.CONFLICT, why), why, None
            del self._drafts[form["draft"]]
        try:
            name = self._plans.submit(
                draft.plan, replace(draft.options, requested_by=author(who.name))
            )
        except ControllerError as error:
            why = " ".join((str(error), *getattr(error, "__notes__", ())))
            page = render_plan_form(who, {}, problem=why)
            return html(page, HTTPStatus.CONFLICT), why, None
        return html(render_submitted(who, name)), "done", name

    def _plan_of(self, form: Mapping[str, str]) -> PlanFile:
        broker = form.get("broker", "").strip()
        if bool(broker) is bool(form.get("plan", "").strip()):
            raise InvalidInputError("name either a broker to drain or a plan")
        if not broker:
            return self._plans.parse(form["plan"])
        if not is_number(broker):
            raise InvalidInputError("broker: must be the id of a broker")
        return self._plans.drain(BrokerId(int(broker)))


def options_of(form: Mapping[str, str]) -> RequestOptions:
    """
    Return the options of a request.

    Raises:
        InvalidInputError: a value is wrong.

    """
    throttle = form.get("throttle", "").strip()
    return RequestOptions(
        reason=form.get("reason", "").strip(),
        throttle=parse_bytes("throttle", throttle) if throttle else None,
        atomic=bool(form.get("atomic")),
    )
