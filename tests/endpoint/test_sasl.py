"""Tests of ``controller.endpoint.sasl``: the examples of the RFCs, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.endpoint.sasl import (
    SCRAM_HASHES,
    TOKEN_MAX,
    Authenticated,
    Challenge,
    PlainExchange,
    Refused,
    ScramExchange,
    ScramKeys,
    derive_keys,
)

EXAMPLES = {
    "RFC 5802, section 5": (
        "sha1",
        "QSXCR+Q6sek8bf92",
        "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "RFC 7677, section 3": (
        "sha256",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        (
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ),
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}
"""Hash, salt, and the messages of client and server in turn; the password is ``pencil``."""
SALT = b"a salt of bytes"
PASSWORD = "secret"  # noqa: S105 - of nobody
KEYS = derive_keys("sha512", PASSWORD, SALT, 4096)


def scram(nonce: str = "server") -> ScramExchange:
    """Return an exchange whose only user is ``ann`` with the password ``secret``."""
    nobody = derive_keys("sha512", "a password that nobody has", SALT, 4096)
    return ScramExchange("sha512", lambda user: KEYS if user == "ann" else nobody, nonce)


def proof(first_bare: str, server_first: str, final_bare: str, password: str) -> str:
    """Return the last message of a client that knows a password."""
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
    proven = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
    return f"{final_bare},p={proven.decode()}"


def converse(gs2: str, bare: str, *, password: str = PASSWORD, extension: str = "") -> object:
    """Play a whole exchange with a client and return its last step."""
    exchange = scram()
    first = exchange.step(f"{gs2}{bare}".encode())
    if not isinstance(first, Challenge):
        return first
    server_first = first.token.decode()
    nonce = server_first.removeprefix("r=").partition(",")[0]
    bound = base64.b64encode(gs2.encode()).decode()
    final = proof(bare, server_first, f"c={bound},r={nonce}{extension}", password)
    return exchange.step(final.encode())


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_scram_follows_the_examples_of_the_rfcs(example: tuple[str, ...]) -> None:
    """Every message of the server is the one that the RFC shows."""
    hash_name, salt, first, nonce, server_first, final, server_final = example
    keys = derive_keys(hash_name, "pencil", base64.b64decode(salt), 4096)
    exchange = ScramExchange(hash_name, lambda _: keys, nonce)
    assert exchange.step(first.encode()) == Challenge(server_first.encode())
    assert exchange.step(final.encode()) == Authenticated("user", server_final.encode())


def test_scram_authenticates_and_proves_that_the_server_knows_the_keys() -> None:
    """The last token is the server's signature."""
    step = converse("n,,", "n=ann,r=client")
    assert isinstance(step, Authenticated)
    assert step.user == "ann"
    assert step.token.startswith(b"v=")


@pytest.mark.parametrize(
    ("gs2", "bare"),
    [("n,a=ann,", "n=ann,r=c"), ("y,,", "n=ann,r=c"), ("n,,", "n=ann,r=c,x=1,tokenauth=false")],
)
def test_scram_takes_what_kafkas_brokers_take(gs2: str, bare: str) -> None:
    """An authorization id that is the user, the flag "y", and unknown extensions."""
    assert isinstance(converse(gs2, bare), Authenticated)
    assert isinstance(converse(gs2, bare, extension=",z=9"), Authenticated)


def test_names_may_contain_commas_and_equals_signs() -> None:
    """They are escaped on the wire."""
    asked = []

    def keys_of(user: str) -> ScramKeys:
        asked.append(user)
        return KEYS

    exchange = ScramExchange("sha512", keys_of, "server")
    assert isinstance(exchange.step(b"n,,n=a=2Cb=3Dc,r=x"), Challenge)
    assert asked == ["a,b=c"]


@pytest.mark.parametrize(
    ("bare", "password"), [("n=ann,r=c", "wrong"), ("n=bob,r=c", "secret"), ("n=ann,r=c", "")]
)
def test_scram_refuses_a_wrong_proof(bare: str, password: str) -> None:
    """Unknown users and wrong passwords fail at the same step with the same words."""
    assert converse("n,,", bare, password=password) == Refused("unknown user or wrong password")


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
        "x" * (TOKEN_MAX + 1),
        "n,,n=ann,r=" + "c" * TOKEN_MAX,
    ],
)
def test_scram_refuses_other_first_messages(message: str) -> None:
    """Channel binding, another user's rights, delegation tokens and whatever is malformed."""
    exchange = scram()
    assert isinstance(exchange.step(message.encode()), Refused)
    assert isinstance(exchange.step(b"n,,n=ann,r=c"), Refused)


@pytest.mark.parametrize(
    "final_bare",
    ["c=biws,r=client", "c=biws,r=clientserverx", "c=eSws,r=clientserver", "c=,r=clientserver"],
)
def test_scram_refuses_another_nonce_or_header(final_bare: str) -> None:
    """A proof for other messages than those of this exchange is worth nothing."""
    exchange = scram()
    first = exchange.step(b"n,,n=ann,r=client")
    assert isinstance(first, Challenge)
    final = proof("n=ann,r=client", first.token.decode(), final_bare, PASSWORD)
    assert exchange.step(final.encode()) == Refused("malformed token")


@pytest.mark.parametrize("text", ["p=", "p=%%%", "p=c2hvcnQ=", "p=c2hvcnQ=,x=1", "q=c2hvcnQ="])
def test_scram_refuses_a_malformed_proof(text: str) -> None:
    """Bytes that are no proof are a refusal, never an exception."""
    exchange = scram()
    exchange.step(b"n,,n=ann,r=client")
    assert isinstance(exchange.step(f"c=biws,r=clientserver,{text}".encode()), Refused)


def test_an_exchange_ends_once() -> None:
    """A second proof after a refusal is not looked at."""
    exchange = scram()
    first = exchange.step(b"n,,n=ann,r=client")
    assert isinstance(first, Challenge)
    right = proof(
        "n=ann,r=client", first.token.decode(), "c=biws,r=clientserver", PASSWORD
    ).encode()
    assert isinstance(exchange.step(right.replace(b"p=", b"p=AAAA")), Refused)
    assert isinstance(exchange.step(right), Refused)


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
    ],
)
def test_plain_takes_one_token_with_name_and_password(token: bytes, is_right: bool) -> None:  # noqa: FBT001 - a column of the table
    """As Kafka's PlainSaslServer: an authorization id may only be the user itself."""
    exchange = PlainExchange(lambda user, password: (user, password) == ("ann", "secret"))
    step = exchange.step(token)
    assert step == Authenticated("ann", b"") if is_right else isinstance(step, Refused)
    assert isinstance(exchange.step(b"\0ann\0secret"), Refused) or not is_right


@given(st.lists(st.binary(max_size=200), max_size=4), st.sampled_from(sorted(SCRAM_HASHES)))
def test_no_bytes_raise_or_authenticate(tokens: list[bytes], mechanism: str) -> None:
    """Whatever a peer sends, the result is a step."""
    keys = ScramKeys(SALT, b"stored", b"server")
    exchanges = (
        PlainExchange(lambda _user, _password: False),
        ScramExchange(SCRAM_HASHES[mechanism], lambda _: keys, "server"),
    )
    for exchange in exchanges:
        for token in tokens:
            assert isinstance(exchange.step(token), Challenge | Refused)


def test_nothing_secret_is_shown() -> None:
    """Keys and tokens stay out of logs and tracebacks."""
    shown = repr((KEYS, Challenge(b"hidden"), Authenticated("ann", b"hidden")))
    assert "hidden" not in shown
    assert "salt" not in shown
    assert KEYS.stored_key.hex() not in shown
