"""The file of tokens is checked, read again, and never shown."""

from __future__ import annotations

from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

import pytest
from pydantic import SecretStr

from controller.errors import InvalidInputError
from controller.web.access import OWN_NAME, TokenRole, Tokens, digest_of, read_tokens
from tests.web.serving import READ_TOKEN, TOKEN, Served, bearer

SECRET = "the secret of the file"  # noqa: S105 - of nothing


def test_tokens_have_a_name_and_a_role(tokens: Path) -> None:
    """Whether the file has them or their hashes; the token of the settings operates."""
    found = Tokens(tokens, SecretStr(SECRET), pytest.fail)
    for token, name, role in (
        (TOKEN, "alice", TokenRole.OPERATE),
        (READ_TOKEN, "grafana", TokenRole.READ),
        (SECRET, OWN_NAME, TokenRole.OPERATE),
    ):
        holder = found.holder_of(digest_of(token))
        assert holder is not None
        assert (holder.name, holder.role) == (name, role)
    assert found.holder_of(digest_of("another")) is None
    hashed = sha256(READ_TOKEN.encode()).hexdigest()
    assert found.holder_of(digest_of(hashed)) is None, "a hash is no token"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "lists no token"),
        (f'[a]\nrole = "operate"\ntoken = "{SECRET}', "not a TOML file"),
        ("a = 1", "must be a table"),
        (f'[a]\nrole = "admin"\ntoken = "{SECRET}"', "role must be read or operate"),
        (f'[a]\ntoken = "{SECRET}"', "role must be read or operate"),
        ('[a]\nrole = "read"', "either sha256 or token"),
        (f'[a]\nrole = "read"\ntoken = "{SECRET}"\nsha256 = "{"0" * 64}"', "either"),
        ('[a]\nrole = "read"\ntoken = "short"', "at least 16"),
        ('[a]\nrole = "read"\ntoken = 1234567890123456', "at least 16"),
        (f'[a]\nrole = "read"\nsha256 = "{SECRET}"', "64 hexadecimal"),
        (f'[a]\nrole = "read"\ntokens = "{SECRET}"', "must be a table with"),
        (f'["<b>"]\nrole = "read"\ntoken = "{SECRET}"', "must be letters"),
        (f'["{SECRET}"]\nrole = "read"\ntoken = "{SECRET}"', "must be letters"),
        (f'[http_token]\nrole = "read"\ntoken = "{SECRET}"', "not http_token"),
        (f'[a]\nrole="read"\ntoken="{SECRET}"\n[b]\nrole="read"\ntoken="{SECRET}"', "the same"),
    ],
)
def test_malformed_file_is_refused_without_its_secrets(
    tmp_path: Path, content: str, why: str
) -> None:
    """The message names the place."""
    path = tmp_path / "tokens.toml"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=why) as refused:
        read_tokens(path)
    assert SECRET not in str(refused.value)
    assert str(path) in str(refused.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """With the reason of the system."""
    with pytest.raises(InvalidInputError, match="No such file"):
        Tokens(tmp_path / "none", None, pytest.fail)


def test_changed_file_is_read_again(steerable: Served, tokens: Path) -> None:
    """A token that was removed ends its sessions; an invalid file changes nothing."""
    cookie, _ = steerable.log_in()
    tokens.write_text("[broken")
    assert steerable.fetch("/status", Cookie=cookie)[0].status == HTTPStatus.OK
    assert steerable.fetch("/status", **bearer())[0].status == HTTPStatus.OK
    (problem,) = steerable.problems
    assert "not a TOML file" in problem
    tokens.write_text(f'[bob]\nrole = "operate"\ntoken = "{SECRET}"\n')
    assert steerable.fetch("/status", Cookie=cookie)[0].status == HTTPStatus.UNAUTHORIZED
    assert steerable.fetch("/status", **bearer())[0].status == HTTPStatus.UNAUTHORIZED
    assert steerable.fetch("/status", **bearer(SECRET))[0].status == HTTPStatus.OK


def test_changed_role_holds_for_sessions(steerable: Served, tokens: Path) -> None:
    """At once."""
    cookie, _ = steerable.log_in()
    assert "/control" in steerable.fetch("/", Cookie=cookie)[1]
    tokens.write_text(tokens.read_text().replace("operate", "read"))
    assert "/control" not in steerable.fetch("/", Cookie=cookie)[1]


def test_probes_and_metrics_need_no_token(steerable: Served) -> None:
    """Prometheus and Kubernetes send none."""
    for path in ("/metrics", "/healthz", "/readyz"):
        assert steerable.fetch(path)[0].status == HTTPStatus.OK
    for path in ("/", "/status", "/explain?partition=t-0", "/history", "/reports/x", "/none"):
        assert steerable.fetch(path)[0].status == HTTPStatus.UNAUTHORIZED
        if path != "/none":
            assert steerable.fetch(path, **bearer(READ_TOKEN))[0].status != HTTPStatus.UNAUTHORIZED
