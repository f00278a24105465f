"""
The server's side of TLS: its certificate, which is read again when its files change.

A new pair of files counts only as a whole: while certificate and key do not belong together, or
cannot be read, connections get the former pair.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from controller.credentials import unusable
from controller.followed_files import FollowedFiles

KEYWORDS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Attribute types by the names that ``ssl`` gives them (RFC 2253)."""
_ESCAPED: Final = frozenset(',+"\\<>;')


class ServerTls:
    """The TLS context of the server; used on its thread."""

    def __init__(
        self,
        certfile: Path,
        keyfile: Path,
        password: str | None,
        cafile: Path | None,
        problem: Callable[[str], None],
    ) -> None:
        """
        Read the files.

        Args:
            certfile: The server's certificate and those that lead to its root (PEM).
            keyfile: Its private key (PEM).
            password: Of the key.
            cafile: The roots of the peers' certificates, which are required then; None: peers show
                none.
            problem: Called with what is wrong when files changed and cannot be used.

        Raises:
            InvalidInputError: they cannot be read, or do not belong together.

        """
        files = (certfile, keyfile, *(() if cafile is None else (cafile,)))
        self._context = FollowedFiles(
            files, lambda: _made(certfile, keyfile, password, cafile), problem
        )

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        return self._context.content()


def _made(
    certfile: Path, keyfile: Path, password: str | None, cafile: Path | None
) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certfile, keyfile, password or "")
    except (OSError, ValueError) as error:
        raise unusable(f"endpoint_certfile: {certfile} with {keyfile}", error) from None
    if cafile is not None:
        try:
            context.load_verify_locations(cafile)
        except (OSError, ValueError) as error:
            raise unusable(f"endpoint_cafile: {cafile}", error) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """
    Return the subject of a peer's certificate as Kafka's principals have it; None without one.

    Args:
        certificate: As ``SSLSocket.getpeercert`` returns it.

    """
    subject = (certificate or {}).get("subject")
    if not subject:
        return None
    # RFC 2253: the last relative name first.
    return ",".join(
        "+".join(f"{KEYWORDS.get(kind, kind)}={_escaped(value)}" for kind, value in names)
        for names in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{c}" if c in _ESCAPED else c for c in value)
    if text[:1] in {" ", "#"}:
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text
