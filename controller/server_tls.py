"""
TLS of the servers: a certificate, which is read again when its files change.

A new pair of files counts only as a whole: while certificate and key do not belong together, or
cannot be read, connections get the former pair. A connection keeps the one with which it began.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from controller.credentials import unusable
from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles


class ServerTls:
    """The TLS context of a server, for TLS 1.2 or later."""

    def __init__(  # noqa: PLR0913 - the files, and what to say of them
        self,
        setting: str,
        certfile: Path,
        keyfile: Path,
        problem: Callable[[str], None],
        *,
        password: str | None = None,
        cafile: Path | None = None,
    ) -> None:
        """
        Read the files.

        Args:
            setting: Begins the names of the settings with the files.
            certfile: The server's certificate and those that lead to its root (PEM).
            keyfile: Its private key (PEM).
            problem: Called with what is wrong when files changed and cannot be used.
            password: Of the key.
            cafile: The roots of the peers' certificates, which are required then; None: peers show
                none.

        Raises:
            InvalidInputError: they cannot be read, or do not belong together.

        """
        files = (certfile, keyfile, *(() if cafile is None else (cafile,)))
        self._context = FollowedFiles(
            files, lambda: _make_context(setting, certfile, keyfile, password, cafile), problem
        )

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        return self._context.content()


def _make_context(
    setting: str, certfile: Path, keyfile: Path, password: str | None, cafile: Path | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def present() -> str:  # without it, OpenSSL would ask for a password on the terminal
        if password is None:
            raise InvalidInputError(f"{setting}_keyfile: {keyfile}: is encrypted")
        return password

    try:
        context.load_cert_chain(certfile, keyfile, present)
    except (OSError, ValueError) as error:
        raise unusable(f"{setting}_certfile: {certfile} with {keyfile}", error) from None
    if cafile is not None:
        try:
            context.load_verify_locations(cafile)
        except (OSError, ValueError) as error:
            raise unusable(f"{setting}_cafile: {cafile}", error) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
