"""
The login to ZooKeeper: SASL, credentials of other schemes, and TLS, from the settings.

Files of passwords are read at each connection, so that a changed one needs no restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tenacity import wait_exponential, wait_random

from controller.credentials import ClientTls
from controller.settings import Settings

REFUSED: Final = wait_exponential(multiplier=1, max=60) + wait_random(0, 1)
"""The pauses before credentials that ZooKeeper refused are tried again."""


class Credentials(NamedTuple):
    """kazoo's arguments for a login."""

    sasl: dict[str, str] | None
    auth_data: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Login:
    """The login to ZooKeeper, whose files are read at each connection."""

    settings: Settings

    def present(self) -> Credentials:
        """
        Return the present credentials.

        Raises:
            InvalidInputError: a file cannot be used.

        """
        settings = self.settings
        credential = settings.password("zookeeper_auth_credential")
        scheme = settings.zookeeper_auth_scheme
        auth = () if credential is None or scheme is None else ((scheme, credential.reveal()),)
        return Credentials(self._sasl(), auth)

    def _sasl(self) -> dict[str, str] | None:
        settings = self.settings
        password = settings.password("zookeeper_sasl_password")
        match settings.zookeeper_sasl_mechanism:
            case "DIGEST-MD5" if settings.zookeeper_sasl_username and password is not None:
                return {
                    "mechanism": "DIGEST-MD5",
                    "username": settings.zookeeper_sasl_username,
                    "password": password.reveal(),
                }
            case "GSSAPI":
                principal = settings.zookeeper_sasl_principal
                named = {"principal": principal} if principal else {}
                return {"mechanism": "GSSAPI", "service": settings.zookeeper_sasl_service, **named}
            case _:
                return None


def zookeeper_tls(settings: Settings) -> ClientTls | None:
    """Return TLS towards ZooKeeper, None where it is not configured."""
    if not settings.zookeeper_tls:
        return None
    return ClientTls(
        prefix="zookeeper_tls",
        cafile=settings.zookeeper_tls_cafile,
        certfile=settings.zookeeper_tls_certfile,
        keyfile=settings.zookeeper_tls_keyfile,
        password=settings.password("zookeeper_tls_password"),
        check_hostname=settings.zookeeper_tls_check_hostname,
    )
