"""The HTTP server is not open to other machines by accident."""

from __future__ import annotations

import pytest

from controller.errors import InvalidInputError
from controller.setting_sources import load_settings
from controller.web.http_server import check_exposure

TLS = {"http_tls_certfile": "none.crt", "http_tls_keyfile": "none.key"}


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "a.example"])  # noqa: S104 - not bound
@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "set http_tls_certfile and http_tls_keyfile and http_tokens, or insecure_http"),
        (TLS, "set http_tokens, or insecure_http"),
        ({"http_tokens": "none"}, "set http_tls_certfile and http_tls_keyfile, or insecure_http"),
    ],
)
def test_open_address_needs_tls_and_tokens(host: str, given: dict[str, str], missing: str) -> None:
    """The message names what is missing."""
    settings = load_settings({"zookeeper": "zk:2181", "http": f"{host}:0", **given}, {})
    with pytest.raises(InvalidInputError, match=missing):
        check_exposure(settings)


@pytest.mark.parametrize(
    "given",
    [
        {"http": "127.0.0.1:0"},
        {"http": "127.9.9.9:0"},
        {"http": "[::1]:0"},
        {"http": "localhost:0"},
        {"http": "0.0.0.0:0", "insecure_http": True},
        {"http": "0.0.0.0:0", "http_tokens": "none", **TLS},
    ],
)
def test_protected_address_is_accepted(given: dict[str, object]) -> None:
    """Loopback, TLS with tokens, or what the operator insists on."""
    check_exposure(load_settings({"zookeeper": "zk:2181", **given}, {}))


def test_certificate_and_key_belong_together() -> None:
    """One without the other is a mistake."""
    with pytest.raises(InvalidInputError, match="needs http_tls_keyfile"):
        load_settings({"zookeeper": "zk:2181", "http_tls_certfile": "a"}, {})
