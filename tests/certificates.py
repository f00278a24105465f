"""Self-signed certificates for tests of TLS, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class Pair:
    """A self-signed certificate for 127.0.0.1 with its key, made anew on demand."""

    def __init__(self, directory: Path, name: str = "server") -> None:
        """Make both, or skip the test where openssl is not installed."""
        self.certificate, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        self._name = name
        self.renew()

    def renew(self, *, key: Path | None = None, password: str = "") -> None:
        """Replace both files, or with ``key`` only the certificate."""
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("openssl is not installed")
        secret = ("-passout", f"pass:{password}") if password else ("-nodes",)
        subprocess.run(  # noqa: S603 - our own arguments
            [
                *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:prime256v1", "-days", "2"),
                *("-subj", f"/O=Example, Inc/CN={self._name}"),
                *("-addext", "subjectAltName=IP:127.0.0.1"),
                *("-out", self.certificate, "-keyout", key or self.key, *secret),
            ],
            check=True,
            capture_output=True,
        )
