"""Where the end of a request is in doubt, it is refused and the connection ends."""

from __future__ import annotations

import random
import re
import socket
from http import HTTPStatus
from typing import Final

import pytest
from structlog.testing import capture_logs

from controller.web.http_connections import HEAD_MAX
from tests.web.serving import WITHIN_S, Served

INNER: Final = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""What must not be taken for a request."""
FORM: Final = b"Content-Type: application/x-www-form-urlencoded\r\n"


def statuses(served: Served, *parts: bytes) -> list[bytes]:
    """Return the statuses of all that is answered until the connection ends."""
    with socket.create_connection(served.server.address, timeout=WITHIN_S) as connection:
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
    return re.findall(rb"HTTP/1\.1 (\d+)", found)


def request(*headers: bytes, method: bytes = b"GET", host: bytes = b"localhost") -> bytes:
    """Return the head of a request."""
    lines = (method + b" / HTTP/1.1", b"Host: " + host, *headers, b"", b"")
    return b"\r\n".join(lines)


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
@pytest.mark.parametrize("how", [b"Content-Length: %d" % len(INNER), b"Transfer-Encoding: chunked"])
def test_body_of_a_get_is_no_request(served: Served, method: bytes, how: bytes) -> None:
    """A proxy that reuses its connection would give its answer to the next client."""
    requested = request(how, method=method)
    assert statuses(served, requested, INNER, request(b"Cookie: session=another")) == [b"400"]


@pytest.mark.parametrize(
    "headers",
    [
        (b"Content-Length: 3", b"Content-Length: 5"),
        (b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 3, 5",),
        (b"Content-Length: +3",),
        (b"Content-Length : 3",),
        (b"X: a", b" Content-Length: 3"),
        (b"X: a\rContent-Length: 3",),
        (b"X: a\0b",),
        (b"X: a", b"\t b"),
        (b"no colon",),
        (b"Host: another",),
        (b"Authorization: Bearer a", b"Authorization: Bearer b"),
        (b"Cookie: a=1", b"Cookie: a=2"),
    ],
)
def test_head_that_two_readers_may_understand_differently_is_refused(
    steerable: Served, headers: tuple[bytes, ...]
) -> None:
    """Two lengths, folds, names with spaces: the proxy in front may have read another request."""
    for method in (b"GET", b"POST"):
        assert statuses(steerable, request(*headers, method=method), b"a=b", INNER) == [b"400"]


def test_one_length_named_twice_is_that_length(steerable: Served) -> None:
    """As RFC 9112 allows; the connection ends after a form."""
    for length in ((b"Content-Length: 3, 3",), (b"Content-Length: 3",) * 2):
        requested = request(FORM.strip(), *length, method=b"POST")
        assert len(statuses(steerable, requested, b"a=b", INNER)) == 1


def test_a_host_is_required_of_http_1_1(served: Served) -> None:
    """As RFC 9112 requires; HTTP/1.0 has none, and ends the connection."""
    assert statuses(served, b"GET / HTTP/1.1\r\n\r\n") == [b"400"]
    assert statuses(served, b"GET / HTTP/1.0\r\n\r\n", INNER) == [b"200"]


def test_lines_may_end_without_a_carriage_return(served: Served) -> None:
    """A test by hand is answered."""
    assert statuses(served, b"GET / HTTP/1.1\nHost: localhost\n\n") == [b"200"]


def test_headers_share_a_limit(served: Served) -> None:
    """One connection cannot make the server hold as much as a hundred headers of 64 KiB."""
    lines = [b"X-%d: %s" % (n, b"x" * 1000) for n in range(HEAD_MAX // 1000 + 1)]
    assert statuses(served, request(*lines), INNER) == [b"431"]
    assert statuses(served, request(*lines[:20]), request()) == [b"200", b"200"]


def test_connection_goes_on_after_a_get_without_a_body(served: Served) -> None:
    """Also with a length of zero, which some clients send."""
    requested = request(b"Content-Length: 0")
    assert statuses(served, requested, requested, request()) == [b"200"] * 3


def test_answer_of_a_refused_request_arrives_whole(served: Served) -> None:
    """Closing while the client sends would take the answer away from it."""
    requested = request(b"Content-Length: 3000000", method=b"POST")
    assert statuses(served, requested, bytes(3_000_000)) == [b"405"]


def test_answer_to_a_form_arrives_whole(steerable: Served) -> None:
    """The connection ends after a form, whatever the client sends after it."""
    requested = request(FORM.strip(), b"Content-Length: 3", method=b"POST")
    assert len(statuses(steerable, requested, b"a=b", bytes(3_000_000))) == 1


def test_expected_body_is_requested_only_where_it_is_read(steerable: Served) -> None:
    """A client that waits for 100 keeps a body that is refused."""
    head = (FORM.strip(), b"Expect: 100-continue")
    requested = request(*head, b"Content-Length: 9999999", method=b"POST")
    assert statuses(steerable, requested) == [b"413"]
    found = statuses(steerable, request(*head, b"Content-Length: 3", method=b"POST"), b"a=b")
    assert found[0] == b"100"
    assert len(found) == 2


def test_hostile_bytes_end_their_connection_and_nothing_else(steerable: Served) -> None:
    """Whatever is sent, no defect is logged, and a probe is answered after it."""
    chance = random.Random(7)
    sent = [
        request(),
        request(b"Content-Length: 3", b"Expect: 100-continue", method=b"POST") + b"a=b",
        request(b"Transfer-Encoding: chunked", method=b"POST") + b"3\r\na=b\r\n0\r\n\r\n",
        request(b"Connection: upgrade", b"Upgrade: websocket", method=b"CONNECT"),
    ]
    with capture_logs() as logs:
        for _ in range(300):
            mutated = bytearray(b"".join(chance.choices(sent, k=2)))
            for _ in range(chance.randrange(4)):
                at = chance.randrange(len(mutated))
                piece = chance.choice((b"", b"\n", b"\0", b" ", b"\xff", b"Content-Length: 9\r\n"))
                mutated[at : at + chance.randrange(3)] = piece
            statuses(steerable, bytes(mutated))
    assert not logs
    assert steerable.fetch("/healthz")[0].status == HTTPStatus.OK
