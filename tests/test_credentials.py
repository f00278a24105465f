"""Passwords and certificates whose files are read at each use."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from pydantic import SecretStr

from controller.credentials import PASSWORD_MAX, ClientTls, Password
from controller.errors import InvalidInputError
from integration.rigs.certificates import CertificateAuthority


def test_a_changed_file_is_another_password(tmp_path: Path) -> None:
    """The end of the line, which editors add, is no part of it; spaces are."""
    file = tmp_path / "password"
    password = Password("sasl_password", file=file)
    for content, expected in (("one\n", "one"), ("two \r\n", "two "), ("three", "three")):
        file.write_bytes(content.encode())
        assert password.reveal() == expected


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"x" * (PASSWORD_MAX + 1)])
def test_a_file_without_a_password_is_refused_without_showing_it(
    tmp_path: Path, content: bytes
) -> None:
    """The message has the setting and the file."""
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"^sasl_password_file: .*password: ") as refused:
        Password("sasl_password", file=file).reveal()
    assert "xxx" not in str(refused.value)


def test_a_missing_file_is_named() -> None:
    """As an operator finds it in the configuration."""
    with pytest.raises(InvalidInputError, match="ssl_password_file: /nowhere/p: No such file"):
        Password("ssl_password", file=Path("/nowhere/p")).reveal()


def test_a_password_does_not_show() -> None:
    """Settings can be logged."""
    assert "hunter" not in repr(Password("sasl_password", SecretStr("hunter2")))


def test_only_the_given_authority_is_trusted(tmp_path: Path) -> None:
    """Not those of the system; a file of key and certificate needs no second one."""
    authority = CertificateAuthority(tmp_path)
    own = authority.issue("client", password="secret")  # noqa: S106 - an example
    password = Password("ssl_password", SecretStr("secret"))
    tls = ClientTls(cafile=authority.file, certfile=own.bundle, password=password)
    context = tls.context()
    assert [each["serialNumber"] for each in context.get_ca_certs()] != []
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize("password", [None, Password("ssl_password", SecretStr("wrong"))])
def test_a_key_without_its_password_is_refused_at_once(
    tmp_path: Path, password: Password | None
) -> None:
    """OpenSSL would ask for it on the terminal, and block the daemon."""
    own = CertificateAuthority(tmp_path).issue("client", password="secret")  # noqa: S106 - as above
    tls = ClientTls(certfile=own.certificate, keyfile=own.key, password=password)
    with pytest.raises(InvalidInputError, match=r"ssl_certfile: .*client.crt with .*client.key: "):
        tls.context()


def test_unusable_files_are_named(tmp_path: Path) -> None:
    """With the prefix of their settings."""
    file = tmp_path / "ca.pem"
    tls = ClientTls(prefix="zookeeper_tls", cafile=file)
    with pytest.raises(InvalidInputError, match=r"zookeeper_tls_cafile: .*ca.pem: No such file"):
        tls.context()
    file.write_text("no certificate")
    with pytest.raises(InvalidInputError, match=r"zookeeper_tls_cafile: .*ca.pem: "):
        tls.context()
