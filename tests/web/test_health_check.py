"""The health check of the image, towards servers as daemons start them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.credentials import ServerTls
from controller.health_check import why_unhealthy
from tests.certificates import Pair
from tests.web.serving import Served


@pytest.fixture(params=["http", "https"])
def daemon(
    request: pytest.FixtureRequest, tokens: Path, tmp_path: Path
) -> Iterator[tuple[Served, Path]]:
    """Give a server, and the configuration of a daemon that serves so on every interface."""
    tls, written = None, ""
    if request.param == "https":
        pair = Pair(tmp_path)
        tls = ServerTls("http_tls", pair.certificate, pair.key, pytest.fail)
        written = f'http_tls_certfile = "{pair.certificate}"\nhttp_tls_keyfile = "{pair.key}"\n'
    served = Served(tokens=tokens, tls=tls)
    served.server.start()
    config = tmp_path / "reassigner.toml"
    config.write_text(f'http = "0.0.0.0:{served.server.address[1]}"\n{written}')
    yield served, config
    served.server.stop()


def test_it_finds_port_and_tls_in_the_configuration(daemon: tuple[Served, Path]) -> None:
    """And needs no token; the reason of a daemon that is not alive is passed on."""
    served, config = daemon
    environ = {"REASSIGNER_CONFIG": str(config)}
    assert why_unhealthy(environ).startswith("503: ")
    served.is_running()
    assert why_unhealthy(environ) == ""
    served.server.stop()
    assert "refused" in why_unhealthy(environ)


def test_the_environment_wins_over_the_configuration(daemon: tuple[Served, Path]) -> None:
    """As for the daemon."""
    served, config = daemon
    served.is_running()
    right = config.read_text().splitlines()[0].split('"')[1]
    config.write_text(config.read_text().replace(right, "127.0.0.1:1"))
    environ = {"REASSIGNER_CONFIG": str(config)}
    assert "refused" in why_unhealthy(environ)
    assert why_unhealthy({**environ, "REASSIGNER_HTTP": right}) == ""


def test_a_wrong_setting_is_named() -> None:
    """It is why the daemon did not start."""
    assert "REASSIGNER_HTTP" in why_unhealthy({"REASSIGNER_HTTP": "8095"})
