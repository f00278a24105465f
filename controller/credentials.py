"""
Passwords and certificates, of a client and of the servers; changed files need no restart.

A client reads its files at each connection: one that cannot be used fails that connection, and the
retry reads it again. A server's new pair of files counts only as a whole: while certificate and key
do not belong together, or cannot be read, connections get the former pair. A connection keeps the
one with which it began.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from controller.errors import InvalidInputError, errors_about
from controller.followed_files import FollowedFiles

PASSWORD_MAX: Final = 4096
KEY_TABLE: Final = "KRB5_CLIENT_KTNAME"
"""The environment variable by which MIT Kerberos finds the key table of a client."""


@dataclass(frozen=True, slots=True)
class Password:
    """A password from a setting, or from the file that another setting names."""

    setting: str
    """Name of the setting with the password; that of the file ends with ``_file``."""
    value: SecretStr | None = None
    file: Path | None = None

    def reveal(self) -> str:
        """
        Return the password; a file is read now, and the end of its line is no part of it.

        Raises:
            InvalidInputError: the file cannot be read, or is no password.

        """
        if self.file is None:
            return "" if self.value is None else self.value.get_secret_value()
        setting = f"{self.setting}_file: {self.file}"
        with errors_about(setting), self.file.open("rb") as file:
            content = file.read(PASSWORD_MAX + 1)
        try:
            password = content.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise InvalidInputError(f"{setting}: not UTF-8") from None
        if not password or len(content) > PASSWORD_MAX:
            raise InvalidInputError(f"{setting}: empty, or longer than {PASSWORD_MAX} bytes")
        return password


def key_table_state() -> str | None:
    """Return a text that changes with the Kerberos key table; None if it cannot be found."""
    table = os.environ.get(KEY_TABLE, "").removeprefix("FILE:")
    try:
        found = Path(table).stat() if table else None
    except OSError:
        return None
    return None if found is None else f"{found.st_ino} {found.st_mtime_ns} {found.st_size}"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS towards servers; a server's certificate is always verified."""

    prefix: str = "ssl"
    cafile: Path | None = None
    """The only authorities to trust; None trusts those of the system."""
    certfile: Path | None = None
    keyfile: Path | None = None
    """None: the key is in the file of the certificate."""
    password: Password | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """
        Return a context of the present files, for TLS 1.2 or later.

        Raises:
            InvalidInputError: a file cannot be used; the message names its setting.

        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        if self.cafile is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(self.cafile)
            except OSError as error:
                raise unusable(f"{self.prefix}_cafile: {self.cafile}", error) from error
        if self.certfile is not None:
            # Never asked for on the terminal, as OpenSSL does without a password.
            password = "" if self.password is None else self.password.reveal()
            try:
                context.load_cert_chain(self.certfile, self.keyfile, password)
            except (OSError, ValueError) as error:
                where = f"{self.certfile} with {self.keyfile or 'its own key'}"
                raise unusable(f"{self.prefix}_certfile: {where}", error) from error
        return context


class ServerTls:
    """
    The TLS context of a server, for TLS 1.2 or later.

    ``setting`` begins the names of the settings with the files (PEM); ``problem`` is called with
    what is wrong when they changed and cannot be used. With ``cafile``, peers have to present
    certificates of these roots.

    Raises:
        InvalidInputError: the files cannot be read, or do not belong together.

    """

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


def unusable(where: str, error: OSError | ValueError) -> InvalidInputError:
    """Return the error for a certificate, key or authority that cannot be loaded."""
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return InvalidInputError(f"{where}: {why}")
