"""
A certificate authority for tests: certificates and keys as PEM files that servers and clients read.

Kafka from 2.7 and ZooKeeper from 3.5 take PEM files as key and trust stores, so no ``keytool`` is
needed: ``Identity.bundle`` is a key store, ``CertificateAuthority.file`` a trust store. Kafka up to
3.2 takes no PEM key without a password: ``Identity.store`` is for all releases.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from integration.rigs.reserved_ports import LOCALHOST

STORE_PASSWORD: Final = "password-of-every-store"  # noqa: S105 - of test certificates
_EARLIER: Final = timedelta(minutes=5)
"""The start of every validity, before now: clocks of clients may be behind."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The files of one certificate; issuing it again replaces them."""

    certificate: Path
    key: Path
    bundle: Path
    """Key and certificate in one file: a key store of type PEM."""
    store: Path
    """The same as a key store of type PKCS12, with ``STORE_PASSWORD``."""


class CertificateAuthority:
    """
    An authority that issues certificates for servers and clients.

    Args:
        directory: Receives its own certificate and everything that it issues.
        name: Its common name.

    Attributes:
        file: Its certificate (PEM).
    """

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = _key_usage(signs_certificates=True)
        certificate = (
            _unsigned(self._name, self._name, self._key, timedelta(days=2))
            .add_extension(constraints, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._own_id(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / "authority.pem"
        _replace(self.file, certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        file: str | None = None,
        hosts: Sequence[str] = (LOCALHOST, "localhost"),
        valid_for: timedelta = timedelta(days=1),
        password: str | None = None,
    ) -> Identity:
        """
        Write a new certificate and key for a name, over those of the same file.

        Args:
            name: The common name.
            file: The name of the files without their endings; by default the common name.
            hosts: Host names and IP addresses of the certificate.
            valid_for: From now on; below zero for a certificate that has expired.
            password: Encrypts the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _unsigned(_common_name(name), self._name, key, valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(map(_general_name, hosts)), critical=False)
            .add_extension(_authority_id(self._own_id()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        shown = certificate.public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode()),
        )
        identity = Identity(
            *(self._directory / f"{file or name}{e}" for e in (".crt", ".key", ".pem", ".p12"))
        )
        _replace(identity.key, private)
        _replace(identity.certificate, shown)
        _replace(identity.bundle, private + shown)
        sealed = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        _replace(
            identity.store,
            pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, sealed),
        )
        return identity

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """Return a client's TLS context that trusts this authority, with a certificate if given."""
        context = ssl.create_default_context(cafile=str(self.file))
        if identity is not None:
            context.load_cert_chain(identity.certificate, identity.key)
        return context

    def _own_id(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid_for: timedelta
) -> x509.CertificateBuilder:
    until = datetime.now(tz=UTC) + valid_for
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(tz=UTC), until) - _EARLIER)
        .not_valid_after(until)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _authority_id(subject: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _replace(path: Path, content: bytes) -> None:
    """Replace a file at once, as a rotation has to; only the owner may read it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_bytes(content)
    fresh.replace(path)
