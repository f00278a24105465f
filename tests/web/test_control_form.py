"""Actions from the page need the role ``operate``, and forms of a session come from our page."""

from __future__ import annotations

import socket
from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from controller.web.access import CLIENTS_MAX, LOCKED
from controller.web.forms import CONTROL, LOGIN, LOGOUT, NEEDS_OPERATE
from controller.web.http_messages import FORM, FORM_BYTES_MAX, HttpRequest
from tests.web.serving import READ_TOKEN, TOKEN, WITHIN_S, Served, bearer, press


def send(served: Served, path: str, cookie: str, **fields: str) -> tuple[int, str]:
    """Send a form of a session; return the status and the body."""
    response, body = served.fetch(
        path, "POST", body=urlencode(fields), Content_Type=FORM, Cookie=cookie
    )
    return response.status, body


def test_page_without_tokens_is_read_only(served: Served) -> None:
    """No link, no form, no log-in, and forms are rejected."""
    served.is_running()
    assert "/control" not in served.fetch("/")[1]
    assert served.fetch("/control?action=pause")[0].status == HTTPStatus.NOT_FOUND
    assert served.fetch(LOGIN)[0].status == HTTPStatus.NOT_FOUND
    assert press(served, "pause")[0].status == HTTPStatus.METHOD_NOT_ALLOWED
    assert served.steered == []


def test_form_with_a_bearer_token_is_carried_out(steerable: Served) -> None:
    """For one request or for everything; the audit has the name of the token."""
    response, _ = press(steerable, "pause")
    assert (response.status, response.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    press(steerable, "resume", request="")
    press(steerable, "warn", request="")
    assert steerable.steered == [
        ("pause", "r", "alice"),
        ("resume", None, "alice"),
        ("warn", None, "alice"),
    ]
    assert steerable.audited[0] == ("pause", "r", "alice", "127.0.0.1", "done")


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\u00fc" * 30])
def test_wrong_token_changes_nothing(steerable: Served, token: str) -> None:
    """As a bearer token and in the log-in form, whose attempts are audited."""
    response, body = press(steerable, "pause", token.encode().decode("latin-1"))
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]
    assert body == "wrong token\n"
    form = urlencode({"token": token})
    response, body = steerable.fetch(LOGIN, "POST", body=form, Content_Type=FORM)
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert "Set-Cookie" not in response.headers
    assert 'name="token"' in body
    assert steerable.steered == []
    assert steerable.audited == [("login", "", "", "127.0.0.1", "wrong token")]


def test_reader_changes_nothing(steerable: Served) -> None:
    """By any way; its page offers no action."""
    response, body = press(steerable, "pause", READ_TOKEN)
    assert (response.status, body) == (HTTPStatus.FORBIDDEN, f"{NEEDS_OPERATE}\n")
    assert steerable.audited == [("pause", "r", "grafana", "127.0.0.1", NEEDS_OPERATE)]
    cookie, csrf = steerable.log_in(READ_TOKEN)
    assert send(steerable, CONTROL, cookie, action="pause", csrf=csrf)[0] == HTTPStatus.FORBIDDEN
    assert steerable.fetch("/control?action=pause", Cookie=cookie)[0].status == HTTPStatus.FORBIDDEN
    assert "/control" not in steerable.fetch("/", Cookie=cookie)[1]
    assert steerable.steered == []


def test_a_client_is_locked_out_after_too_many_wrong_tokens(steerable: Served) -> None:
    """For a minute; other clients and sessions are not affected."""
    cookie, _ = steerable.log_in()
    for _ in range(10):
        press(steerable, "pause", "wrong")
    response, body = press(steerable, "pause")
    assert (response.status, body) == (HTTPStatus.TOO_MANY_REQUESTS, f"{LOCKED}\n")
    assert response.headers["Retry-After"] == "60"
    assert steerable.fetch("/status", **bearer())[0].status == HTTPStatus.TOO_MANY_REQUESTS
    assert steerable.fetch("/status", Cookie=cookie)[0].status == HTTPStatus.OK
    assert press(steerable, "pause", source="127.0.0.2")[0].status == HTTPStatus.SEE_OTHER
    steerable.clock.go(61)
    assert press(steerable, "pause")[0].status == HTTPStatus.SEE_OTHER


def test_wrong_tokens_are_counted_for_a_bounded_number_of_clients(steerable: Served) -> None:
    """The least recent client is forgotten."""
    headers = {"authorization": "Bearer wrong", "content-type": FORM}
    for number in range(CLIENTS_MAX * 2):
        for client in (f"client {number}", "persistent"):
            steerable.routes.answer(HttpRequest("/status", headers, client))
    answer = steerable.routes.answer(HttpRequest("/status", headers, "persistent"))
    assert answer.status == HTTPStatus.TOO_MANY_REQUESTS
    access = steerable.routes._access
    assert access is not None
    assert len(access._wrong) == CLIENTS_MAX


# --- sessions ------------------------------------------------------------------------------------


def test_browser_is_shown_the_log_in(steerable: Served) -> None:
    """A program gets the status alone."""
    response, body = steerable.fetch("/history?request=r", Accept="text/html")
    assert response.status == HTTPStatus.UNAUTHORIZED
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="reassigner"'
    assert 'name="next" value="/history?request=r"' in body
    response, body = steerable.fetch("/status")
    assert (response.status, body) == (HTTPStatus.UNAUTHORIZED, "a token is needed\n")
    assert steerable.fetch("/status", Authorization="Basic eDp5")[0].status == 401


def test_session_acts_with_the_secret_of_its_forms(steerable: Served) -> None:
    """The cookie is for this site's requests only, and no script can read it."""
    form = urlencode({"token": TOKEN, "next": "/?topic=t"})
    response, _ = steerable.fetch(LOGIN, "POST", body=form, Content_Type=FORM)
    assert response.headers["Location"] == "/?topic=t"
    attributes = response.headers["Set-Cookie"].split("; ")[1:]
    assert attributes == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert TOKEN not in response.headers["Set-Cookie"]
    cookie, csrf = steerable.log_in()
    page = steerable.fetch("/control?action=pause&request=r", Cookie=cookie)[1]
    assert f'name="csrf" value="{csrf}"' in page
    assert "/control?action=pause" in steerable.fetch("/", Cookie=cookie)[1]
    fields = {"action": "pause", "request": "r", "csrf": csrf}
    assert send(steerable, CONTROL, cookie, **fields)[0] == HTTPStatus.SEE_OTHER
    assert steerable.steered == [("pause", "r", "alice")]


@pytest.mark.parametrize("csrf", ["", "wrong", "\u00fc"])
def test_form_without_the_secret_of_the_session_changes_nothing(
    steerable: Served, csrf: str
) -> None:
    """A page of another site can send the form, but does not know the secret."""
    cookie, _ = steerable.log_in()
    status, body = send(steerable, CONTROL, cookie, action="pause", csrf=csrf)
    assert status == HTTPStatus.FORBIDDEN
    assert "not of this session" in body
    other, secret = steerable.log_in()
    assert other != cookie
    assert send(steerable, CONTROL, cookie, action="pause", csrf=secret)[0] == 403
    assert send(steerable, LOGOUT, cookie, csrf=csrf)[0] == HTTPStatus.FORBIDDEN
    assert steerable.steered == []


def test_session_ends(steerable: Served) -> None:
    """With the log-out, and after its time."""
    cookie, csrf = steerable.log_in()
    other, _ = steerable.log_in()
    assert send(steerable, LOGOUT, cookie, csrf=csrf)[0] == HTTPStatus.SEE_OTHER
    assert steerable.fetch("/status", Cookie=cookie)[0].status == HTTPStatus.UNAUTHORIZED
    assert steerable.fetch("/status", Cookie=other)[0].status == HTTPStatus.OK
    steerable.clock.go(12 * 3600 + 1)
    assert steerable.fetch("/status", Cookie=other)[0].status == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize("cookie", ["session=x", "session", "a=b; session=\u00ff", "=;;"])
def test_unknown_session_is_nobodys(steerable: Served, cookie: str) -> None:
    """Also one that cannot be decoded."""
    assert steerable.fetch("/status", Cookie=cookie)[0].status == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/x\r\nSet-Cookie: a=b", "x", ""],
)
def test_log_in_leads_to_this_server_only(steerable: Served, target: str) -> None:
    """Whatever the form names."""
    form = urlencode({"token": TOKEN, "next": target})
    response, _ = steerable.fetch(LOGIN, "POST", body=form, Content_Type=FORM)
    assert response.headers["Location"] == "/"
    assert response.headers.get_all("Set-Cookie", [])[1:] == []


# --- forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_form_of_another_site_is_refused(steerable: Served, headers: dict[str, str]) -> None:
    """Even with the token; a log-in would exchange the user."""
    response, _ = press(steerable, "pause", **headers)
    assert response.status == HTTPStatus.FORBIDDEN
    form = urlencode({"token": TOKEN})
    response, _ = steerable.fetch(LOGIN, "POST", body=form, Content_Type=FORM, **headers)
    assert response.status == HTTPStatus.FORBIDDEN
    assert steerable.steered == []


def test_form_of_our_own_page_is_taken(steerable: Served) -> None:
    """As browsers send it."""
    host = "{}:{}".format(*steerable.server.address)
    response, _ = press(steerable, "pause", Origin=f"http://{host}", Sec_Fetch_Site="same-origin")
    assert response.status == HTTPStatus.SEE_OTHER


def test_failed_action_shows_the_form_with_the_error(steerable: Served) -> None:
    """The error is escaped."""
    response, body = press(steerable, "cancel", request="<i>")
    assert response.status == HTTPStatus.CONFLICT
    assert "&lt;i&gt;&#39; is not the id of a request" in body
    assert TOKEN not in body


def test_malformed_form_is_refused(steerable: Served) -> None:
    """Wrong type or action, too large, or without a length."""
    assert press(steerable, "pause", Content_Type="text/plain")[0].status == 415
    assert press(steerable, "shutdown")[0].status == HTTPStatus.BAD_REQUEST
    long = "x" * (FORM_BYTES_MAX + 1)
    response, _ = steerable.fetch(CONTROL, "POST", body=long, Content_Type=FORM, **bearer())
    assert response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    odd = steerable.fetch(CONTROL, "POST", Content_Type=FORM, Content_Length="ten")
    assert odd[0].status == HTTPStatus.BAD_REQUEST
    assert steerable.fetch("/control?action=x", **bearer())[0].status == HTTPStatus.NOT_FOUND
    response, _ = steerable.fetch("/status", "POST", body="", Content_Type=FORM, **bearer())
    assert response.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert steerable.steered == []


def test_form_that_is_cut_off_changes_nothing(steerable: Served) -> None:
    """A shorter body may name another request."""
    form = urlencode({"action": "pause", "request": "r-12"})
    head = (
        f"POST /control HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(form)}\r\n\r\n"
    )
    with socket.create_connection(steerable.server.address, WITHIN_S) as connection:
        connection.sendall((head + form[:-1]).encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert steerable.steered == []
