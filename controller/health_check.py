"""
Ask the daemon beside it whether it is alive: the health check of the image.

It takes the daemon's settings from the environment and ``REASSIGNER_CONFIG``, and so finds the port
and whether to use TLS. Like a probe of Kubernetes it needs no token and accepts any certificate,
which is for the names that other machines use.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final

from controller.errors import InvalidInputError
from controller.setting_sources import load_settings
from controller.settings import Settings

_ANSWER_WITHIN_S: Final = 4.0
_LOOPBACK: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here
"""Addresses at which a server on all interfaces is asked."""
_UNUSED: Final = {"zookeeper": "localhost:2181"}
"""A required setting, which may be an option of the daemon's command line."""


def why_unhealthy(environ: Mapping[str, str]) -> str:
    """Return why the daemon with this environment is not alive; empty if it is."""
    try:
        with closing(_connection(load_settings(_UNUSED, environ))) as connection:
            connection.request("GET", "/healthz", headers={"Host": "localhost"})
            response = connection.getresponse()
            said = response.read().decode(errors="replace").strip()
    except (InvalidInputError, HTTPException, OSError) as error:
        return str(error) or type(error).__name__
    return "" if response.status == HTTPStatus.OK else f"{response.status}: {said}"


def _connection(settings: Settings) -> HTTPConnection:
    host, port = settings.http
    host = _LOOPBACK.get(host, host)
    if settings.http_tls_certfile is None:
        return HTTPConnection(host, port, timeout=_ANSWER_WITHIN_S)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=_ANSWER_WITHIN_S, context=tls)


def main() -> int:
    """Print the reason, if there is one; return the exit code."""
    reason = why_unhealthy(os.environ)
    if reason:
        print(reason)  # noqa: T201 - the engine shows it
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
