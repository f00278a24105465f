"""TLS with a broker that is a socket: what is refused, the reason given, and rotated files."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from controller.brokers.channels import BrokerChannels, ChannelOptions, ChannelState
from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice, Security
from controller.core.model import BrokerId
from controller.credentials import ClientTls
from integration.rigs.certificates import CertificateAuthority
from tests.brokers.builders import CONTROLLER
from tests.brokers.fakes import WAIT_S, CollectingInbox, FakeBroker

VALID = timedelta(days=1)
EXPIRED = timedelta(minutes=-1)


@dataclass
class Rig:
    """The authority of both certificates, and the state of the channel."""

    authority: CertificateAuthority
    state: Callable[[], ChannelState]

    def await_error(self, reason: str) -> None:
        """Wait until the channel reports this reason."""
        end = time.monotonic() + WAIT_S
        while reason not in str(self.state().last_error):
            assert time.monotonic() < end, self.state()
            time.sleep(0.01)
        assert not self.state().connected

    def await_connection(self) -> None:
        """Wait until the channel is connected."""
        end = time.monotonic() + WAIT_S
        while not self.state().connected:
            assert time.monotonic() < end, self.state()
            time.sleep(0.01)


@contextmanager
def connecting(
    directory: Path,
    *,
    hosts: Sequence[str] = ("127.0.0.1",),
    broker_valid_for: timedelta = VALID,
    daemon_valid_for: timedelta = VALID,
    trusted: Path | None = None,
) -> Iterator[Rig]:
    """Give a channel to a broker that requires certificates."""
    authority = CertificateAuthority(directory)
    own = authority.issue("broker", hosts=hosts, valid_for=broker_valid_for)
    client = authority.issue("daemon", valid_for=daemon_valid_for)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.file)
    server.load_cert_chain(own.bundle)
    tls = ClientTls(
        cafile=trusted or authority.file, certfile=client.certificate, keyfile=client.key
    )
    options = ChannelOptions(
        CONTROLLER, ConnectionSettings(Security("SSL", tls=tls), ListenerChoice("SSL"))
    )
    with FakeBroker(tls=server) as broker:
        plain = broker.registration()
        endpoints = tuple(e._replace(security_protocol="SSL") for e in plain.endpoints)
        channels = BrokerChannels(CollectingInbox(), options)
        channels.start()
        try:
            channels.open(replace(plain, endpoints=endpoints))
            yield Rig(authority, lambda: channels.describe()[BrokerId(1)])
        finally:
            channels.stop()


def test_certificates_of_the_authority_are_accepted(tmp_path: Path) -> None:
    """The broker's by the daemon, the daemon's by the broker."""
    with connecting(tmp_path) as rig:
        rig.await_connection()


def test_a_broker_with_the_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    """The reason names the host of the listener."""
    with connecting(tmp_path, hosts=["elsewhere.example"]) as rig:
        rig.await_error("certificate is not valid for '127.0.0.1'")


def test_a_broker_whose_certificate_has_expired_is_refused(tmp_path: Path) -> None:
    """As a client of Kafka refuses it."""
    with connecting(tmp_path, broker_valid_for=EXPIRED) as rig:
        rig.await_error("certificate has expired")


def test_a_broker_of_another_authority_is_refused(tmp_path: Path) -> None:
    """Only the configured one is trusted."""
    other = CertificateAuthority(tmp_path / "other")
    with connecting(tmp_path / "own", trusted=other.file) as rig:
        rig.await_error("certificate verify failed")


def test_a_rotated_certificate_of_the_daemon_is_used_by_the_next_connection(
    tmp_path: Path,
) -> None:
    """The broker refuses the expired one; its replacement needs no restart."""
    with connecting(tmp_path, daemon_valid_for=EXPIRED) as rig:
        rig.await_error("the broker refuses the daemon's certificate")
        rig.authority.issue("daemon")
        rig.await_connection()


def test_a_file_that_is_gone_for_a_moment_is_read_again(tmp_path: Path) -> None:
    """The setting and the file are named meanwhile."""
    missing = tmp_path / "later.pem"
    with connecting(tmp_path / "own", trusted=missing) as rig:
        rig.await_error(f"ssl_cafile: {missing}: No such file")
        missing.write_bytes(rig.authority.file.read_bytes())
        rig.await_connection()
