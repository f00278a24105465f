"""Actions from the page need the token, and come from our own page."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from controller.web.control_form import BODY_MAX, CLIENTS_MAX, FORM, ControlForm
from tests.telemetry.builders import FixedClock
from tests.web.serving import TOKEN, Served, Steered, press


def test_without_a_token_there_is_nothing_to_press(served: Served) -> None:
    """Neither a link, nor a form, nor an answer to one."""
    served.is_running()
    assert "/control" not in served.ask("/")[1]
    assert served.ask("/control?action=pause")[0].status == HTTPStatus.NOT_FOUND
    assert press(served, "pause")[0].status == HTTPStatus.METHOD_NOT_ALLOWED
    assert served.steered == []


def test_form_with_the_token_is_carried_out(steerable: Served) -> None:
    """For one request, or for everything; afterwards the overview is shown."""
    assert "/control?action=pause" in steerable.ask("/")[1]
    page = steerable.ask("/control?action=pause&request=r")[1]
    assert 'method="post"' in page
    assert "http-equiv" not in page
    response, _ = press(steerable, "pause")
    assert (response.status, response.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    press(steerable, "resume", request="")
    assert steerable.steered == [("pause", "r"), ("resume", None)]
    assert steerable.told[0] == ("pause", "r", "127.0.0.1", "done")


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\u00fc" * 30])
def test_wrong_token_changes_nothing(steerable: Served, token: str) -> None:
    """And is told."""
    response, body = press(steerable, "pause", token)
    assert response.status == HTTPStatus.FORBIDDEN
    assert "wrong token" in body
    assert steerable.steered == []
    assert steerable.told == [("pause", "r", "127.0.0.1", "wrong token")]


def test_a_client_is_locked_out_after_too_many_wrong_tokens(steerable: Served) -> None:
    """For a minute; guessing takes for ever, and keeps no other client from its work."""
    for _ in range(10):
        press(steerable, "pause", "wrong")
    assert "too many wrong tokens" in press(steerable, "pause")[1]
    assert press(steerable, "pause", source="127.0.0.2")[0].status == HTTPStatus.SEE_OTHER
    steerable.clock.go(61)
    assert press(steerable, "pause")[0].status == HTTPStatus.SEE_OTHER


def test_wrong_tokens_of_so_many_clients_are_remembered() -> None:
    """Memory is bounded; the client that was wrong last is not forgotten."""
    form = ControlForm(TOKEN, Steered([]), FixedClock(), lambda *_: None)
    body = urlencode({"action": "pause", "token": "wrong"}).encode()
    headers = {"content-type": FORM}
    for number in range(CLIENTS_MAX * 2):
        form.take(headers, body, f"client {number}")
        form.take(headers, body, "persistent")
    assert len(form._wrong) == CLIENTS_MAX
    assert "too many" in form.take(headers, body, "persistent").html


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_form_of_another_site_is_refused(steerable: Served, headers: dict[str, str]) -> None:
    """Even with the token."""
    response, _ = press(steerable, "pause", **headers)
    assert response.status == HTTPStatus.FORBIDDEN
    assert steerable.steered == []


def test_form_of_our_own_page_is_taken(steerable: Served) -> None:
    """As browsers send it."""
    host = "{}:{}".format(*steerable.server.address)
    response, _ = press(steerable, "pause", Origin=f"http://{host}", Sec_Fetch_Site="same-origin")
    assert response.status == HTTPStatus.SEE_OTHER


def test_what_cannot_be_done_is_said(steerable: Served) -> None:
    """With the form, to try again; escaped."""
    response, body = press(steerable, "cancel")
    assert response.status == HTTPStatus.CONFLICT
    assert "another &lt;cancel&gt; is being carried out" in body
    assert TOKEN not in body


def test_what_is_no_form_is_refused(steerable: Served) -> None:
    """Another type, another action, too much, or no length at all."""
    assert press(steerable, "pause", Content_Type="text/plain")[0].status == 415
    assert press(steerable, "shutdown")[0].status == HTTPStatus.BAD_REQUEST
    long = steerable.ask("/control", "POST", body="x" * (BODY_MAX + 1), Content_Type=FORM)
    assert long[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    odd = steerable.ask("/control", "POST", Content_Type=FORM, Content_Length="ten")
    assert odd[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert steerable.ask("/control?action=x")[0].status == HTTPStatus.NOT_FOUND
    assert steerable.ask("/status", "POST", body="", Content_Type=FORM)[0].status == 405
    assert steerable.steered == []
