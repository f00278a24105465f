"""Brokers authenticate to the endpoint by TLS and SASL; who fails gets no answer at all."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.protocol.api_key import ApiKey
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from controller.credentials import ServerTls
from controller.endpoint import codec
from controller.endpoint.authentication import Authentication, Sasl, subject_of
from controller.endpoint.peers import EndpointLimits
from controller.endpoint.sasl import Users, user_file
from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles
from controller.setting_values import SASL_SERVED
from tests.certificates import Pair
from tests.endpoint.requests import frame_of, request_frame
from tests.endpoint.serving import Served, answer_of, eventually, framed, serving

ALTER = framed(request_frame(ApiKey.AlterPartition, 0))
HELLO = framed(request_frame(ApiKey.ApiVersions, 3))
WAIT_S = EndpointLimits(unauthenticated_s=2.0)


def users(tmp_path: Path) -> FollowedFiles[Users]:
    """Return a file with two users."""
    path = tmp_path / "users"
    path.touch(mode=0o600)
    path.write_text("kafka:secret\nann:hers\n")
    return user_file(path, print)


@contextmanager
def sasl(tmp_path: Path, *mechanisms: str, principals: str | None = None) -> Iterator[Served]:
    """Run a server that authenticates by SASL."""
    allowed = None if principals is None else frozenset({principals})
    authentication = Authentication(sasl=Sasl(mechanisms, users(tmp_path)), principals=allowed)
    with serving(limits=WAIT_S, authentication=authentication) as served:
        yield served


def handshake(peer: socket.socket, mechanism: str, version: int = 1) -> bytes:
    """Choose a mechanism; return the answer."""
    peer.sendall(framed(frame_of(SaslHandshakeRequest(version=version, mechanism=mechanism))))
    return answer_of(peer)


def authenticate(peer: socket.socket, token: bytes) -> bytes:
    """Send a token; return the answer."""
    peer.sendall(framed(frame_of(SaslAuthenticateRequest(version=2, auth_bytes=token))))
    return answer_of(peer)


def test_a_broker_authenticates_by_plain_and_is_answered(tmp_path: Path) -> None:
    """ApiVersions may be asked before and after, and lists SASL."""
    with sasl(tmp_path, "PLAIN") as served, served.connect() as broker:
        broker.sendall(HELLO)
        assert struct.pack(">h", ApiKey.SaslHandshake) in answer_of(broker)
        assert handshake(broker, "PLAIN")[4:6] == b"\0\0"
        assert authenticate(broker, b"\0kafka\0secret")
        broker.sendall(HELLO + ALTER)
        assert answer_of(broker)
        assert answer_of(broker)
        assert len(served.loop.requested) == 1


@pytest.mark.parametrize(
    "token", [b"\0kafka\0wrong", b"\0nobody\0secret", b"", b"\0ann\0hers"], ids=repr
)
def test_failed_authentication_closes_the_connection_without_a_byte(
    tmp_path: Path, token: bytes
) -> None:
    """Also of a user who exists and may not act as a broker: no answer to requests follows."""
    with sasl(tmp_path, "PLAIN", principals="User:kafka") as served, served.connect() as peer:
        assert handshake(peer, "PLAIN")
        if authenticate(peer, token):
            assert token == b"\0ann\0hers"
            assert answer_of(peer) == b""
        assert served.counts.refused == {"unauthenticated": 1}
        assert not served.loop.requested


@pytest.mark.parametrize("mechanism", SASL_SERVED)
@pytest.mark.parametrize(
    ("password", "refused"), [("secret", set[str]()), ("wrong", {"unauthenticated"})]
)
def test_librdkafka_authenticates(
    tmp_path: Path, mechanism: str, password: str, refused: set[str]
) -> None:
    """With the right password it is connected, and finds that no metadata are served."""
    settings: dict[str, str | int | float] = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": "kafka",
        "sasl.password": password,
        "log_level": 0,
    }
    with sasl(tmp_path, mechanism) as served:
        client = AdminClient({"bootstrap.servers": str(served.server.address), **settings})
        with pytest.raises(KafkaException) as caught:
            client.list_topics(timeout=1.0)
        is_connected = caught.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
        assert is_connected is not bool(refused)
        assert set(served.counts.refused) == refused


def test_a_mechanism_that_is_not_enabled_closes_the_connection(tmp_path: Path) -> None:
    """An answer with the enabled ones would be an authentication error for the broker."""
    with sasl(tmp_path, "SCRAM-SHA-512") as served, served.connect() as peer:
        assert handshake(peer, "PLAIN") == b""
        assert served.counts.refused == {"unauthenticated": 1}


@pytest.mark.parametrize(
    "sent",
    [
        ALTER,
        framed(request_frame(ApiKey.SaslAuthenticate, 2)),
        framed(frame_of(SaslHandshakeRequest(version=0, mechanism="PLAIN"))),
        HELLO * 11,
        struct.pack(">i", 65_537),
    ],
    ids=["request", "token", "old handshake", "only versions", "long"],
)
def test_nothing_else_is_served_before_authentication(tmp_path: Path, sent: bytes) -> None:
    """No request of a broker, no token before the handshake, no end of it."""
    with sasl(tmp_path, "PLAIN") as served, served.connect() as peer:
        peer.sendall(sent)
        while answer_of(peer):
            pass
        assert served.counts.refused == {"protocol": 1}
        assert not served.loop.requested


def test_nothing_else_is_decoded_before_authentication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a peer may cost before it is known does not depend on what it sends."""
    decoded: list[bytes] = []
    decode = codec.decode

    def noted(frame: bytes) -> tuple[codec.RequestHeader, codec.Request]:
        decoded.append(frame)
        return decode(frame)

    monkeypatch.setattr(codec, "decode", noted)
    with sasl(tmp_path, "PLAIN") as served, served.connect() as peer:
        peer.sendall(HELLO + ALTER)
        assert answer_of(peer)
        assert answer_of(peer) == b""
        assert [codec.header_of(frame).api_key for frame in decoded] == [ApiKey.ApiVersions]


def test_who_does_not_authenticate_in_time_is_closed(tmp_path: Path) -> None:
    """However often it asks for versions meanwhile."""
    authentication = Authentication(sasl=Sasl(("PLAIN",), users(tmp_path)))
    limits = EndpointLimits(unauthenticated_s=0.2)
    with serving(limits=limits, authentication=authentication) as served:
        with served.connect() as peer:
            peer.sendall(HELLO)
            assert answer_of(peer)
            assert answer_of(peer) == b""
        assert served.counts.refused == {"slow": 1}


def test_peers_that_do_not_authenticate_are_closed_for_others(tmp_path: Path) -> None:
    """Whatever they are answered before: the connections of brokers stay."""
    authentication = Authentication(sasl=Sasl(("PLAIN",), users(tmp_path)))
    limits = EndpointLimits(connections_max=2)
    with (
        serving(limits=limits, authentication=authentication) as served,
        served.connect() as broker,
        served.connect() as other,
    ):
        assert handshake(broker, "PLAIN")
        assert authenticate(broker, b"\0kafka\0secret")
        broker.sendall(ALTER)
        assert answer_of(broker)
        other.sendall(HELLO)
        assert answer_of(other)
        with served.connect() as third:
            assert answer_of(other) == b""
            broker.sendall(ALTER)
            assert answer_of(broker)
            third.sendall(HELLO)
            assert answer_of(third)


# --- TLS -----------------------------------------------------------------------------------------


def of_client(server: Pair, own: Pair | None = None) -> ssl.SSLContext:
    """Return the context of a broker that trusts a server."""
    context = ssl.create_default_context(cafile=str(server.certificate))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


@contextmanager
def connected(served: Served, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """Connect with TLS."""
    with served.connect() as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as peer:
        yield peer


def test_a_broker_is_answered_by_tls_with_the_certificate_of_the_moment(
    tmp_path: Path,
) -> None:
    """New files count from the next connection on; a pair that does not fit changes nothing."""
    pair, problems = Pair(tmp_path, "server"), list[str]()
    tls = ServerTls("endpoint", pair.certificate, pair.key, problems.append)
    first = of_client(pair)
    with serving(authentication=Authentication(tls)) as served:
        with connected(served, first) as broker:
            broker.sendall(ALTER)
            assert answer_of(broker)
        pair.renew(key=pair.key.with_suffix(".other"))
        with connected(served, first) as broker:
            broker.sendall(HELLO)
            assert answer_of(broker)
        assert len(problems) == 1
        pair.renew()
        with connected(served, of_client(pair)) as broker:
            broker.sendall(ALTER * 2)
            assert answer_of(broker)
            assert answer_of(broker)


def test_only_named_certificates_may_act_as_brokers(tmp_path: Path) -> None:
    """Others are closed without an alert: a broker would take one for a final refusal."""
    pair, kafka, other, stranger = (
        Pair(tmp_path, name) for name in ("server", "kafka", "other", "stranger")
    )
    roots = tmp_path / "roots.pem"
    roots.write_text(kafka.certificate.read_text() + other.certificate.read_text())
    tls = ServerTls("endpoint", pair.certificate, pair.key, print, cafile=roots)
    principals = frozenset({r"User:CN=kafka,O=Example\, Inc"})
    with serving(authentication=Authentication(tls, principals=principals)) as served:
        with connected(served, of_client(pair, kafka)) as broker:
            broker.sendall(ALTER)
            assert answer_of(broker)
        with connected(served, of_client(pair, other)) as peer:
            peer.sendall(ALTER)
            assert answer_of(peer) == b""
        assert served.counts.refused == {"unauthenticated": 1}
        for context in (of_client(pair, stranger), of_client(pair)):
            try:
                with connected(served, context) as peer:
                    peer.sendall(ALTER)
                    assert answer_of(peer) == b""
            except ssl.SSLEOFError:
                pass  # a closed connection; an alert would be another error
        assert len(served.loop.requested) == 1
        eventually(lambda: served.counts.refused == {"unauthenticated": 1, "tls": 2})


def test_a_handshake_has_a_deadline(tmp_path: Path) -> None:
    """So do bytes that are no handshake."""
    pair = Pair(tmp_path, "server")
    tls = ServerTls("endpoint", pair.certificate, pair.key, print)
    limits = EndpointLimits(unauthenticated_s=0.2)
    with serving(limits=limits, authentication=Authentication(tls)) as served:
        with served.connect() as peer:
            assert answer_of(peer) == b""
        with served.connect() as peer:
            peer.sendall(ALTER)
            assert answer_of(peer) == b""
        eventually(lambda: served.counts.refused == {"slow": 1, "tls": 1})


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """At the start, with their names and without a secret."""
    pair, other = Pair(tmp_path, "server"), Pair(tmp_path, "other")
    with pytest.raises(InvalidInputError, match="endpoint_certfile"):
        ServerTls("endpoint", pair.certificate, other.key, print)
    with pytest.raises(InvalidInputError, match="endpoint_certfile"):
        ServerTls("endpoint", tmp_path / "none", pair.key, print)


def test_a_subject_is_written_as_kafka_writes_principals() -> None:
    """RFC 2253: the last name first, with escapes."""
    certificate = {
        "subject": (
            (("countryName", "DE"),),
            (("organizationName", "A, B"), ("organizationalUnitName", " x ")),
            (("commonName", "#kafka"),),
        )
    }
    assert subject_of(certificate) == r"CN=\#kafka,O=A\, B+OU=\ x\ ,C=DE"
    assert subject_of(None) is None
    assert subject_of({}) is None
