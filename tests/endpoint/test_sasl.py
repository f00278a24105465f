"""Tests of ``controller.endpoint.sasl``: what clients of Kafka send, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from controller.endpoint.sasl import (
    SCRAM_HASHES,
    SCRAM_TOKEN_MAX,
    TOKEN_MAX,
    Authenticated,
    AuthenticationFailed,
    Challenge,
    PlainExchange,
    ScramExchange,
    ScramKeys,
    derive_keys,
)

SALT = b"a salt of bytes"
PASSWORD = "secret"  # noqa: S105 - of nobody
KEYS = derive_keys("sha512", PASSWORD, SALT, 4096)


def scram() -> ScramExchange:
    """Return an exchange whose only user is ``ann`` with the password ``secret``."""
    nobody = derive_keys("sha512", "a password that nobody has", SALT, 4096)
    return ScramExchange("SCRAM-SHA-512", lambda user: KEYS if user == "ann" else nobody)


def proof(first_bare: str, server_first: str, final_bare: str, password: str) -> str:
    """Return the last message of a client that knows a password."""
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
    proven = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
    return f"{final_bare},p={proven.decode()}"


def nonce_of(challenge: object) -> str:
    """Return the nonce of client and server."""
    assert isinstance(challenge, Challenge)
    return challenge.token.decode().removeprefix("r=").partition(",")[0]


def converse(gs2: str, bare: str, *, password: str = PASSWORD, extension: str = "") -> object:
    """Play a whole exchange with a client and return its last step."""
    exchange = scram()
    first = exchange.step(f"{gs2}{bare}".encode())
    if not isinstance(first, Challenge):
        return first
    server_first, nonce = first.token.decode(), nonce_of(first)
    bound = base64.b64encode(gs2.encode()).decode()
    final = proof(bare, server_first, f"c={bound},r={nonce}{extension}", password)
    return exchange.step(final.encode())


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("password", ["pencil", "pass,word=\u00e4\u00a0\ufb01"])
def test_scram_and_a_client_of_kafka_prove_themselves_to_each_other(
    mechanism: str, password: str
) -> None:
    """The client verifies the server's signature; passwords are taken as they are."""
    keys = derive_keys(SCRAM_HASHES[mechanism], password, SALT, 4096)
    exchange, client = (
        ScramExchange(mechanism, lambda _: keys),
        ScramClient("a", password, mechanism),
    )
    first = exchange.step(client.first_message())
    assert isinstance(first, Challenge)
    assert f",s={base64.b64encode(SALT).decode()},i=4096" in first.token.decode()
    client.process_server_first_message(first.token)
    last = exchange.step(client.final_message())
    assert isinstance(last, Authenticated)
    client.process_server_final_message(last.token)
    assert last.user == "a"


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    """A proof cannot be used twice."""
    first, second = (nonce_of(scram().step(b"n,,n=ann,r=client")) for _ in range(2))
    assert first.startswith("client")
    assert len(first) > len("client") + 20
    assert first != second


@pytest.mark.parametrize(
    ("gs2", "bare"),
    [("n,,", "n=ann,r=c"), ("y,,", "n=ann,r=c"), ("n,,", "n=ann,r=c,x=1,y=2")],
)
def test_scram_takes_what_kafkas_brokers_take(gs2: str, bare: str) -> None:
    """The flag "y", and unknown extensions."""
    assert isinstance(converse(gs2, bare), Authenticated)
    assert isinstance(converse(gs2, bare, extension=",z=9"), Authenticated)


def test_names_may_contain_commas_and_equals_signs() -> None:
    """They are escaped on the wire."""
    requested = []

    def keys_of(user: str) -> ScramKeys:
        requested.append(user)
        return KEYS

    exchange = ScramExchange("SCRAM-SHA-512", keys_of)
    assert isinstance(exchange.step(b"n,,n=a=2Cb=3Dc,r=x"), Challenge)
    assert requested == ["a,b=c"]


@pytest.mark.parametrize(
    ("bare", "password"), [("n=ann,r=c", "wrong"), ("n=bob,r=c", "secret"), ("n=ann,r=c", "")]
)
def test_scram_refuses_a_wrong_proof(bare: str, password: str) -> None:
    """Unknown users and wrong passwords fail at the same step with the same words."""
    assert converse("n,,", bare, password=password) == AuthenticationFailed(
        "unknown user or wrong password"
    )


@pytest.mark.parametrize(
    "message",
    [
        "",
        "n,,",
        "n,,n=ann",
        "n,,n=,r=c",
        "n,,r=c,n=ann",
        "n,,n=ann,r=",
        "n,,n=ann,r=\x7f",
        "n,,n=ann,r=c,",
        "n,,n=a=n,r=c",
        "n,,n=a=2D,r=c",
        "p=tls-unique,,n=ann,r=c",
        "n,,m=must,n=ann,r=c",
        "n,a=bob,n=ann,r=c",
        "n,,n=ann,r=c,tokenauth=true",
        "n,,n=\u00e4nn,r=c",
        "n,,n=ann,r=c,r=d",
        "n,,n=ann,r=" + "c" * SCRAM_TOKEN_MAX,
    ],
)
def test_scram_refuses_other_first_messages(message: str) -> None:
    """Channel binding, another user's rights, delegation tokens and whatever is malformed."""
    exchange = scram()
    assert isinstance(exchange.step(message.encode()), AuthenticationFailed)
    assert isinstance(exchange.step(b"n,,n=ann,r=c"), AuthenticationFailed)


@pytest.mark.parametrize(
    "final_bare", ["c=biws,r=client", "c=biws,r={}x", "c=eSws,r={}", "c=%,r={}", "r={}"]
)
def test_scram_refuses_another_nonce_or_header(final_bare: str) -> None:
    """A proof for other messages than those of this exchange is worth nothing."""
    exchange = scram()
    first = exchange.step(b"n,,n=ann,r=client")
    assert isinstance(first, Challenge)
    bare = final_bare.format(nonce_of(first))
    final = proof("n=ann,r=client", first.token.decode(), bare, PASSWORD)
    assert exchange.step(final.encode()) == AuthenticationFailed("malformed token")


@pytest.mark.parametrize("text", ["p=", "p=%%%", "p=c2hvcnQ=", "p=c2hvcnQ=,x=1", "q=c2hvcnQ="])
def test_scram_refuses_a_malformed_proof(text: str) -> None:
    """Bytes that are no proof are a refusal, never an exception."""
    exchange = scram()
    nonce = nonce_of(exchange.step(b"n,,n=ann,r=client"))
    assert isinstance(exchange.step(f"c=biws,r={nonce},{text}".encode()), AuthenticationFailed)


def test_an_exchange_ends_once() -> None:
    """A second proof after a refusal is not looked at."""
    exchange = scram()
    first = exchange.step(b"n,,n=ann,r=client")
    assert isinstance(first, Challenge)
    final = f"c=biws,r={nonce_of(first)}"
    right = proof("n=ann,r=client", first.token.decode(), final, PASSWORD).encode()
    assert isinstance(exchange.step(right.replace(b"p=", b"p=AAAA")), AuthenticationFailed)
    assert isinstance(exchange.step(right), AuthenticationFailed)


@pytest.mark.parametrize(
    ("token", "is_right"),
    [
        (b"\0ann\0secret", True),
        (b"ann\0ann\0secret", True),
        (b"\0ann\0wrong", False),
        (b"\0bob\0secret", False),
        (b"bob\0ann\0secret", False),
        (b"\0ann\0", False),
        (b"\0\0secret", False),
        (b"ann\0secret", False),
        (b"\0ann\0secret\0", False),
        (b"", False),
        (b"\0ann\0\xff", False),
        (b"\0ann\0" + b"x" * TOKEN_MAX, False),
    ],
)
def test_plain_takes_one_token_with_name_and_password(token: bytes, is_right: bool) -> None:  # noqa: FBT001 - a column of the table
    """As Kafka's PlainSaslServer: an authorization id may only be the user itself."""
    exchange = PlainExchange(lambda user, password: (user, password) == ("ann", "secret"))
    step = exchange.step(token)
    assert step == Authenticated("ann", b"") if is_right else isinstance(step, AuthenticationFailed)
    assert isinstance(exchange.step(b"\0ann\0secret"), AuthenticationFailed) or not is_right


@given(st.lists(st.binary(max_size=200), max_size=4), st.sampled_from(sorted(SCRAM_HASHES)))
def test_no_bytes_raise_or_authenticate(tokens: list[bytes], mechanism: str) -> None:
    """Whatever a peer sends, the result is a step."""
    exchanges = (
        PlainExchange(lambda _user, _password: False),
        ScramExchange(mechanism, lambda _: (SALT, b"stored", b"server", 4096)),
    )
    for exchange in exchanges:
        for token in tokens:
            assert isinstance(exchange.step(token), Challenge | AuthenticationFailed)


def test_nothing_secret_is_shown() -> None:
    """Tokens stay out of logs and tracebacks."""
    assert "hidden" not in repr((Challenge(b"hidden"), Authenticated("ann", b"hidden")))
