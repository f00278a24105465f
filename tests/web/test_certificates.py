"""TLS of the HTTP server: handshakes keep the limits, and certificates change while it runs."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from controller.credentials import ServerTls
from controller.errors import InvalidInputError
from controller.web import http_server as web_server
from tests.certificates import Pair
from tests.web.serving import TOKEN, WITHIN_S, Served


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Return a certificate with its key."""
    return Pair(tmp_path)


@pytest.fixture
def problems() -> list[str]:
    """Return what the server reports of its certificate."""
    return []


@pytest.fixture
def secure(pair: Pair, problems: list[str], tokens: Path) -> Iterator[Served]:
    """Return a server with TLS and tokens."""
    tls = ServerTls("http_tls", pair.certificate, pair.key, problems.append)
    found = Served(tokens=tokens, tls=tls)
    found.server.start()
    found.is_running()
    yield found
    found.server.stop()


def status_of(served: Served, pair: Pair, path: str = "/status") -> int:
    """Ask with the token, and accept the present certificate only."""
    tls = ssl.create_default_context(cafile=pair.certificate)
    connection = HTTPSConnection(*served.server.address, timeout=WITHIN_S, context=tls)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_server_speaks_tls_only(secure: Served, pair: Pair) -> None:
    """Plain HTTP gets no answer; the cookie is for TLS only."""
    assert status_of(secure, pair) == HTTPStatus.OK
    with socket.create_connection(secure.server.address, WITHIN_S) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert b"HTTP" not in plain.recv(100)
    assert status_of(secure, pair, "/healthz") == HTTPStatus.OK
    access = secure.routes._access
    assert access is not None
    found = access.log_in(TOKEN, "client")
    assert isinstance(found, tuple)
    assert found[1].endswith("; Secure")


def test_renewed_certificate_is_used_without_a_restart(
    secure: Served, pair: Pair, problems: list[str]
) -> None:
    """A pair that does not fit leaves the old one in place."""
    kept = pair.certificate.read_bytes()
    pair.renew(key=pair.key.with_suffix(".other"))
    fresh = pair.certificate.read_bytes()
    pair.certificate.write_bytes(fresh)
    with pytest.raises(ssl.SSLCertVerificationError):
        status_of(secure, pair)
    assert len(problems) == 1
    assert "KEY_VALUES_MISMATCH" in problems[0]
    pair.certificate.write_bytes(kept)
    assert status_of(secure, pair) == HTTPStatus.OK
    pair.renew()
    assert pair.certificate.read_bytes() != kept
    assert status_of(secure, pair) == HTTPStatus.OK


def test_invalid_certificate_is_refused_at_start(pair: Pair, tmp_path: Path) -> None:
    """The message names the file, and asks for no password."""
    with pytest.raises(InvalidInputError, match="No such file"):
        ServerTls("http_tls", tmp_path / "none", pair.key, pytest.fail)
    pair.renew(password="secret")  # noqa: S106 - of nothing
    with pytest.raises(InvalidInputError, match="is encrypted"):
        ServerTls("http_tls", pair.certificate, pair.key, pytest.fail)
    pair.key.write_text("nonsense")
    with pytest.raises(InvalidInputError, match=r"server\.pem with .*server\.key"):
        ServerTls("http_tls", pair.certificate, pair.key, pytest.fail)


def test_handshake_that_does_not_end_is_closed_at_its_deadline(
    secure: Served, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And blocks no other client meanwhile."""
    monkeypatch.setattr(web_server, "REQUEST_S", 1.0)
    with socket.create_connection(secure.server.address, WITHIN_S) as silent:
        begun = time.monotonic()
        assert status_of(secure, pair, "/healthz") == HTTPStatus.OK
        assert silent.recv(1) == b""
        assert 0.5 < time.monotonic() - begun < WITHIN_S / 2


def test_trickling_request_is_closed_at_its_deadline(
    secure: Served, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below TLS as without it."""
    monkeypatch.setattr(web_server, "REQUEST_S", 1.0)
    tls = ssl.create_default_context(cafile=pair.certificate)
    with (
        socket.create_connection(secure.server.address, WITHIN_S) as raw,
        tls.wrap_socket(raw, server_hostname="127.0.0.1") as slow,
    ):
        slow.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: ")
        begun = time.monotonic()
        assert slow.recv(1) == b""
        assert time.monotonic() - begun < WITHIN_S / 2
