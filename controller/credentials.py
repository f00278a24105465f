"""
Passwords and certificates of a client, read from their files at each connection.

A changed password and a rotated certificate are used by the next connection, without a restart. A
file that cannot be used fails that connection, and the retry reads it again.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from controller.errors import InvalidInputError

PASSWORD_MAX: Final = 4096
"""The longest password in a file, in bytes."""
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
        try:
            with self.file.open("rb") as file:
                content = file.read(PASSWORD_MAX + 1)
        except OSError as error:
            raise InvalidInputError(f"{setting}: {error.strerror or error}") from error
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
    """Begins the names of the settings."""
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


def unusable(where: str, error: OSError | ValueError) -> InvalidInputError:
    """Return the error for a certificate, key or authority that cannot be loaded."""
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return InvalidInputError(f"{where}: {why}")
