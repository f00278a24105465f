"""Actions from the page need the token, and come from our own page."""

from __future__ import annotations

import socket
from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from controller.web.control_form import BODY_MAX, CLIENTS_MAX, FORM, ControlForm
from tests.telemetry.builders import FixedClock
from tests.web.serving import TOKEN, WITHIN_S, Served, Steered, press


def test_page_without_a_token_is_read_only(served: Served) -> None:
    """No link, no form, and forms are rejected."""
    served.is_running()
    assert "/control" not in served.ask("/")[1]
    assert served.ask("/control?action=pause")[0].status == HTTPStatus.NOT_FOUND
    assert press(served, "pause")[0].status == HTTPStatus.METHOD_NOT_ALLOWED
    assert served.steered == []


def test_form_with_the_token_is_carried_out(steerable: Served) -> None:
    """For one request or for everything; then the overview is shown."""
    assert "/control?action=pause" in steerable.ask("/")[1]
    page = steerable.ask("/control?action=pause&request=r")[1]
    assert 'method="post"' in page
    assert "http-equiv" not in page
    response, _ = press(steerable, "pause")
    assert (response.status, response.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    press(steerable, "resume", request="")
    assert steerable.steered == [("pause", "r"), ("resume", None)]
    assert steerable.audited[0] == ("pause", "r", "127.0.0.1", "done")


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\u00fc" * 30])
def test_wrong_token_changes_nothing(steerable: Served, token: str) -> None:
    """The attempt is logged."""
    response, body = press(steerable, "pause", token)
    assert response.status == HTTPStatus.FORBIDDEN
    assert "wrong token" in body
    assert steerable.steered == []
    assert steerable.audited == [("pause", "r", "127.0.0.1", "wrong token")]


def test_a_client_is_locked_out_after_too_many_wrong_tokens(steerable: Served) -> None:
    """For a minute; other clients are not affected."""
    for _ in range(10):
        press(steerable, "pause", "wrong")
    assert "too many wrong tokens" in press(steerable, "pause")[1]
    assert press(steerable, "pause", source="127.0.0.2")[0].status == HTTPStatus.SEE_OTHER
    steerable.clock.go(61)
    assert press(steerable, "pause")[0].status == HTTPStatus.SEE_OTHER


def test_wrong_tokens_are_counted_for_a_bounded_number_of_clients() -> None:
    """The least recent client is forgotten."""
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


def test_failed_action_shows_the_form_with_the_error(steerable: Served) -> None:
    """The error is escaped."""
    response, body = press(steerable, "cancel")
    assert response.status == HTTPStatus.CONFLICT
    assert "another &lt;cancel&gt; is being carried out" in body
    assert TOKEN not in body


def test_malformed_form_is_refused(steerable: Served) -> None:
    """Wrong type or action, too large, or without a length."""
    assert press(steerable, "pause", Content_Type="text/plain")[0].status == 415
    assert press(steerable, "shutdown")[0].status == HTTPStatus.BAD_REQUEST
    long = steerable.ask("/control", "POST", body="x" * (BODY_MAX + 1), Content_Type=FORM)
    assert long[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    odd = steerable.ask("/control", "POST", Content_Type=FORM, Content_Length="ten")
    assert odd[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert steerable.ask("/control?action=x")[0].status == HTTPStatus.NOT_FOUND
    assert steerable.ask("/status", "POST", body="", Content_Type=FORM)[0].status == 405
    assert steerable.steered == []


def test_form_that_is_cut_off_changes_nothing(steerable: Served) -> None:
    """A shorter body may name another request."""
    form = urlencode({"action": "pause", "token": TOKEN, "request": "r-12"})
    head = f"POST /control HTTP/1.1\r\nContent-Type: {FORM}\r\nContent-Length: {len(form)}\r\n\r\n"
    with socket.create_connection(steerable.server.address, WITHIN_S) as connection:
        connection.sendall((head + form[:-1]).encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert steerable.steered == []
