"""
The certificate of the HTTP server, read again when its files change.

A new context is made of new files, so that a key that does not fit leaves the old pair in place.
Connections keep the certificate with which they began.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles


class ServerCertificate:
    """Wraps accepted connections in TLS 1.2 or later."""

    def __init__(self, certfile: Path, keyfile: Path, problem: Callable[[str], None]) -> None:
        """
        Read certificate and key.

        Args:
            certfile: The certificate with its chain (PEM).
            keyfile: Its private key (PEM).
            problem: Called with what is wrong when they became invalid.

        Raises:
            InvalidInputError: they cannot be read, or do not fit.

        """
        self._context = FollowedFiles(
            (certfile, keyfile), lambda: _context(certfile, keyfile), problem
        )

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return the connection with TLS, before its handshake; never waits for the client."""
        return self._context.content().wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )


def _context(certfile: Path, keyfile: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def refuse_password() -> str:
        raise InvalidInputError(f"http_tls_keyfile: {keyfile}: is encrypted")

    try:
        context.load_cert_chain(certfile, keyfile, refuse_password)
    except OSError as error:
        why = getattr(error, "reason", None) or error.strerror or error
        raise InvalidInputError(f"http_tls_certfile: {certfile} with {keyfile}: {why}") from error
    return context
