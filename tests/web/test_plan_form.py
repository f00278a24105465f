"""A plan is previewed before it is submitted, by a role that may, once."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from controller.actions.evacuating import LeadershipTask
from controller.core.model import BrokerId, TopicPartition
from controller.core.requests.submissions import Cancellation, CancelScope
from controller.previews.proposal import Goal
from controller.web.access import author
from controller.web.forms import DRAFT_S, DRAFTS_MAX, NEEDS_OPERATE, PLAN, PLAN_BYTES_MAX, SUBMIT
from controller.web.http_messages import FORM, FORM_BYTES_MAX
from controller.web.page_plans import NewQuiesce
from tests.web.serving import READ_TOKEN, TOKEN, WITHIN_S, Served, bearer


class Page:
    """The forms of a session, as a browser sends them."""

    def __init__(self, served: Served, token: str = TOKEN) -> None:
        self._served = served
        self._cookie, self._csrf = served.log_in(token)

    def send(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form with the secret of the session."""
        form = urlencode({"csrf": self._csrf, **fields})
        response, body = self._served.fetch(
            path, "POST", body=form, Content_Type=FORM, Cookie=self._cookie
        )
        return response.status, body

    def get(self, path: str) -> tuple[int, str]:
        """Load a page."""
        response, body = self._served.fetch(path, Cookie=self._cookie)
        return response.status, body

    def draft(self, **fields: str) -> str:
        """Preview a plan and return its draft."""
        status, body = self.send(PLAN, **{"plan": "t", **fields})
        assert status == HTTPStatus.OK, body
        return body.partition('name="draft" value="')[2].partition('"')[0]


def test_plan_is_previewed_and_submitted(steerable: Served) -> None:
    """Nothing is written by the preview; the request names its author."""
    page = Page(steerable)
    assert 'href="/plan#submit"' in page.get("/")[1]
    chosen = page.get("/plan?broker=6")[1]
    assert 'name="broker-6" value="1" checked> 6 <span class="muted">dead</span>' in chosen
    assert chosen.count(" checked>") == 1
    status, body = page.send(PLAN, plan="t", reason="<r>", throttle="50MB", atomic="1")
    assert status == HTTPStatus.OK
    for words in ("1 partition in 2 steps", "t-0: moves", "1 GB", "50 MB/s for each broker"):
        assert words in body
    for words in ("<4>", "<problem>", "<conflict>", "<wait>", "<note", "<r>"):
        assert words not in body
        assert words.replace("<", "&lt;").replace(">", "&gt;") in body
    assert steerable.plans.submitted == []
    draft = page.draft(reason="<r>", throttle="50MB", atomic="1")
    status, body = page.send(SUBMIT, draft=draft)
    assert status == HTTPStatus.OK
    assert "request_&lt;7&gt;" in body
    ((plan, options),) = steerable.plans.submitted
    assert len(plan) == 1
    assert (options.requested_by, options.reason) == (author("alice"), "<r>")
    assert (options.throttle, options.atomic) == (50_000_000, True)
    assert steerable.audited[-1] == ("submit", "request_<7>", "alice", "127.0.0.1", "done")


def test_brokers_are_drained_after_a_preview(steerable: Served) -> None:
    """The drain names its author; the audit has its request."""
    page = Page(steerable)
    fields = {"broker": "5, 6", "reason": "<swap>", "throttle": "5MB", "approved_by": "bob"}
    status, body = page.send(PLAN, kind="drain", window="22:00-05:00", **fields)
    assert status == HTTPStatus.OK
    for words in ("the drain of broker 5,6: 1 partition now", "Drain broker 5,6 as alice"):
        assert words in body
    assert steerable.plans.drained == []
    draft = body.partition('name="draft" value="')[2].partition('"')[0]
    status, body = page.send(SUBMIT, draft=draft)
    assert (status, "Broker 5,6 is being drained" in body) == (HTTPStatus.OK, True)
    ((wanted, by),) = steerable.plans.drained
    assert (list(wanted.brokers), by) == ([5, 6], author("alice"))
    assert (wanted.about.reason, wanted.about.approved_by) == ("<swap>", "bob")
    assert (wanted.throttle, str(wanted.window)) == (5_000_000, "22:00-05:00 UTC")
    assert steerable.audited[-1] == ("submit", "drain-<7>", "alice", "127.0.0.1", "done")


@pytest.mark.parametrize(
    ("fields", "goal"),
    [
        (
            {"kind": "add", "broker-6": "1", "broker-7": "1"},
            Goal(all_topics=True, added=frozenset({BrokerId(6), BrokerId(7)})),
        ),
        ({"kind": "rebalance"}, Goal(all_topics=True, rebalance=True)),
        (
            {"kind": "replication", "topic-orders": "1", "topic-payments": "1", "factor": "3"},
            Goal(topics=["orders", "payments"], replication_factor=3),
        ),
        (
            {"kind": "replication", "topic": "orders, more", "factor": "2"},
            Goal(topics=["orders", "more"], replication_factor=2),
        ),
    ],
)
def test_tasks_are_planned_as_their_commands_do(
    steerable: Served, fields: dict[str, str], goal: Goal
) -> None:
    """Of brokers that are chosen; with the options of a request."""
    page = Page(steerable)
    options = {"reason": "<why>", "throttle": "5MB", "window": "22:00-05:00"}
    status, body = page.send(PLAN, **fields, **options)
    assert status == HTTPStatus.OK, body
    assert steerable.plans.goals == [goal]
    draft = body.partition('name="draft" value="')[2].partition('"')[0]
    assert page.send(SUBMIT, draft=draft)[0] == HTTPStatus.OK
    ((plan, found),) = steerable.plans.submitted
    assert list(plan) == [TopicPartition("g", 0)]
    assert (found.reason, found.throttle, str(found.window)) == (
        "<why>",
        5_000_000,
        "22:00-05:00 UTC",
    )


def test_a_request_is_undone_after_a_preview(steerable: Served) -> None:
    """From the link at the request, with a throttle and a window."""
    page = Page(steerable)
    assert "Preview the undo" not in page.get(PLAN)[1]
    body = page.get(f"{PLAN}?kind=undo&request=r%3C7%3E")[1]
    assert 'name="request" size="26" required value="r&lt;7&gt;"' in body
    fields = {"kind": "undo", "request": "r", "reason": "<why>", "throttle": "5MB"}
    status, body = page.send(PLAN, window="22:00-05:00", **fields)
    assert status == HTTPStatus.OK, body
    for words in ("the undo of r: 1 partition", "Undo r as alice", "Throttle: 5 MB/s", "22:00"):
        assert words in body
    assert steerable.plans.tasks == []
    draft = body.partition('name="draft" value="')[2].partition('"')[0]
    status, body = page.send(SUBMIT, draft=draft)
    assert (status, "r is being undone" in body) == (HTTPStatus.OK, True)
    ((wanted, by),) = steerable.plans.tasks
    assert isinstance(wanted, Cancellation)
    assert (sorted(wanted.requests), wanted.scope, by) == (["r"], CancelScope.ALL, author("alice"))
    assert (wanted.reason, wanted.throttle, str(wanted.window)) == (
        "<why>",
        5_000_000,
        "22:00-05:00 UTC",
    )
    assert steerable.audited[-1] == ("submit", "other-<7>", "alice", "127.0.0.1", "done")


@pytest.mark.parametrize(
    ("task", "button", "done"),
    [
        ("evacuate", "Move leaderships off broker 5,7", "Broker 5,7 is evacuated"),
        ("return", "Return leaderships to broker 5,7", "The leaderships of broker 5,7 return"),
        ("forget", "Keep the present order of broker 5,7", "Broker 5,7 is no longer evacuated"),
    ],
)
def test_leaderships_move_after_a_preview(
    steerable: Served, task: str, button: str, done: str
) -> None:
    """Of the brokers that are chosen, in each direction."""
    page = Page(steerable)
    chosen = page.get(f"{PLAN}?kind=leaders&task=return&broker=5")[1]
    assert '<option value="return" selected>' in chosen
    assert chosen.count(" checked>") == 1
    fields = {"kind": "leaders", "task": task, "broker-5": "1", "broker-7": "1"}
    status, body = page.send(PLAN, reason="<kernel>", window="22:00-05:00", **fields)
    assert (status, f"{button} as alice" in body) == (HTTPStatus.OK, True), body
    draft = body.partition('name="draft" value="')[2].partition('"')[0]
    status, body = page.send(SUBMIT, draft=draft)
    assert (status, done in body) == (HTTPStatus.OK, True)
    ((wanted, by),) = steerable.plans.tasks
    assert isinstance(wanted, LeadershipTask)
    assert (wanted.kind, list(wanted.brokers), by) == (task, [5, 7], author("alice"))
    assert (wanted.about.reason, wanted.options.reason) == ("<kernel>", "<kernel>")
    assert str(wanted.options.window) == "22:00-05:00 UTC"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"deadline": "30m"}, NewQuiesce("<bye>", 1800.0)),
        ({"cancel": "1"}, NewQuiesce("<bye>", at_once=True)),
        ({}, NewQuiesce("<bye>")),
    ],
)
def test_quiesce_follows_a_preview(
    steerable: Served, fields: dict[str, str], wanted: NewQuiesce
) -> None:
    """With a deadline, at once, or in its own time."""
    page = Page(steerable)
    status, body = page.send(PLAN, kind="quiesce", reason="<bye>", **fields)
    assert (status, "Quiesce as alice" in body) == (HTTPStatus.OK, True), body
    draft = body.partition('name="draft" value="')[2].partition('"')[0]
    status, body = page.send(SUBMIT, draft=draft)
    assert (status, "The reassigner is quiesced" in body) == (HTTPStatus.OK, True)
    assert steerable.plans.tasks == [(wanted, author("alice"))]


def test_brokers_to_drain_are_chosen(steerable: Served) -> None:
    """A wrong option keeps what was chosen."""
    page = Page(steerable)
    fields = {"kind": "drain", "broker-5": "1", "broker-7": "1"}
    status, body = page.send(PLAN, **fields, window="<late>")
    assert status == HTTPStatus.CONFLICT
    assert 'name="broker-7" value="1" checked> 7 <span class="muted">&lt;new&gt;</span>' in body
    status, body = page.send(PLAN, **fields)
    assert "Drain broker 5,7 as alice" in body


def test_draft_is_submitted_once_and_by_its_owner(steerable: Served) -> None:
    """It ends after a while, and the oldest gives way to newer ones."""
    page = Page(steerable)
    draft = page.draft()
    other = steerable.fetch(
        SUBMIT, "POST", body=f"draft={draft}", Content_Type=FORM, **bearer(READ_TOKEN)
    )[0]
    assert other.status == HTTPStatus.FORBIDDEN
    assert page.send(SUBMIT, draft=draft)[0] == HTTPStatus.OK
    for unknown in (draft, "", "x"):
        status, body = page.send(SUBMIT, draft=unknown)
        assert (status, "preview the plan again" in body) == (HTTPStatus.CONFLICT, True)
    late = page.draft()
    steerable.clock.go(DRAFT_S)
    assert page.send(SUBMIT, draft=late)[0] == HTTPStatus.CONFLICT
    oldest, *_ = [page.draft() for _ in range(DRAFTS_MAX + 1)]
    assert page.send(SUBMIT, draft=oldest)[0] == HTTPStatus.CONFLICT
    assert len(steerable.plans.submitted) == 1


def test_reader_neither_previews_nor_submits(steerable: Served) -> None:
    """By any way; both are audited."""
    page = Page(steerable, READ_TOKEN)
    assert 'href="/plan' not in page.get("/")[1]
    assert page.get(PLAN)[0] == HTTPStatus.FORBIDDEN
    for path in (PLAN, SUBMIT):
        assert page.send(path, broker="3") == (HTTPStatus.FORBIDDEN, f"{NEEDS_OPERATE}\n")
    assert [a.action for a in steerable.audited if a.result == NEEDS_OPERATE] == ["plan", "submit"]


@pytest.mark.parametrize("path", [PLAN, SUBMIT])
def test_forged_form_does_nothing(steerable: Served, path: str) -> None:
    """The secret of the session is needed."""
    page = Page(steerable)
    draft = page.draft()
    status, body = page.send(path, broker="3", draft=draft, csrf="x")
    assert status == HTTPStatus.FORBIDDEN
    assert "not of this session" in body
    assert steerable.plans.submitted == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "drain", "broker": "9"}, "there is no broker &lt;9&gt;"),
        ({"kind": "drain", "broker": "three"}, "choose a broker, or several"),
        ({"kind": "drain"}, "choose a broker, or several"),
        ({"kind": "add"}, "choose a broker, or several"),
        ({"kind": "add", "broker-x": "1"}, "choose a broker, or several"),
        ({"kind": "drain", "broker": "5", "window": "<late>"}, "window: "),
        ({"throttle": "<fast>"}, "throttle: a rate such as"),
        ({"kind": "undo"}, "name the request to undo"),
        ({"kind": "undo", "request": "a/b"}, "&#39;a/b&#39; is not the id of a request"),
        ({"kind": "leaders", "broker": "5"}, "task: one of evacuate, return, forget"),
        ({"kind": "leaders", "task": "evacuate"}, "choose a broker, or several"),
        ({"kind": "quiesce", "deadline": "<soon>"}, "deadline: "),
        ({"kind": "quiesce", "deadline": "5m", "cancel": "1"}, "rolled back at once"),
        ({"kind": "replication", "factor": "2"}, "choose a topic, or several"),
        ({"kind": "replication", "topic": "orders", "factor": "<two>"}, "replicas: a whole"),
        ({"kind": "replication", "topic": "orders", "factor": "0"}, "replicas: a whole"),
    ],
)
def test_wrong_form_is_shown_again(steerable: Served, fields: dict[str, str], why: str) -> None:
    """Filled in as it was sent, and escaped."""
    status, body = Page(steerable).send(PLAN, **{"plan": "t", **fields})
    assert status == HTTPStatus.CONFLICT
    assert why in body
    assert "<late>" not in body
    assert "<fast>" not in body
    assert "<soon>" not in body
    assert "<two>" not in body


def test_plan_may_be_larger_than_other_forms(steerable: Served) -> None:
    """For operators only."""
    page = Page(steerable)
    plan = "x" * (FORM_BYTES_MAX * 10)
    assert page.draft(plan=plan)
    reader = Page(steerable, READ_TOKEN)
    assert reader.send(PLAN, plan=plan)[0] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    length = str(PLAN_BYTES_MAX + 1)
    response, _ = steerable.fetch(
        PLAN, "POST", Content_Type=FORM, Content_Length=length, **bearer()
    )
    assert response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_failed_submission_is_shown_and_audited(steerable: Served) -> None:
    """With the reason."""
    page = Page(steerable)
    status, body = page.send(SUBMIT, draft=page.draft(reason="conflict"))
    assert status == HTTPStatus.CONFLICT
    assert "new reassignments are &lt;disabled&gt;" in body
    assert "At least 1 of 2 parts &lt;were&gt; written." in body
    assert steerable.audited[-1].result == (
        "new reassignments are <disabled> At least 1 of 2 parts <were> written."
    )


def test_one_preview_is_computed_at_a_time(steerable: Served) -> None:
    """A further one is asked to try again."""
    form = steerable.routes._form
    assert form is not None
    assert form._plans._previewing.acquire(timeout=WITHIN_S)
    page = Page(steerable)
    status, body = page.send(PLAN, broker="3")
    assert (status, "try again" in body) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    form._plans._previewing.release()
    assert page.draft()
