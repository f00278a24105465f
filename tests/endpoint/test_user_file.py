"""Tests of the users in ``controller.endpoint.sasl``: what is valid, and what a change does."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest

from controller.endpoint.sasl import SCRAM_HASHES, derive_keys, read_users, user_file
from controller.errors import InvalidInputError


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write the file at once, as tools do that replace a secret."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(mode)
    fresh.replace(path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with two users."""
    return written(tmp_path / "users", "# brokers\nann:secret\n\nkafka:a:b c \n")


def no_problem(why: str) -> None:
    """Fail: the file is valid."""
    raise AssertionError(why)


def test_passwords_may_contain_colons_and_spaces(path: Path) -> None:
    """The first colon ends the name; nothing else is special."""
    assert read_users(path) == {"ann": "secret", "kafka": "a:b c "}
    users = user_file(path, no_problem)
    assert users.content().is_password("kafka", "a:b c ")
    assert not users.content().is_password("kafka", "a:b c")
    assert not users.content().is_password("nobody", "secret")


def test_windows_line_ends_are_no_part_of_a_password(tmp_path: Path) -> None:
    """An editor that writes them changes no password."""
    assert read_users(written(tmp_path / "users", "ann:secret\r\n")) == {"ann": "secret"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no users"),
        ("# ann:x\n", "no users"),
        ("ann\n", "line 1: must be user:password"),
        ("ann:x\nbob:\n", "line 2: must be user:password"),
        (":hidden\n", "line 1: must be user:password"),
        (" ann:hidden\n", "line 1: must be user:password"),
        ("ann:x\nann:hidden\n", "line 2: a user for the second time"),
        ("\u00e4nn:hidden\n", "line 1: a name must be printable ASCII"),
        ("a\tb:hidden\n", "line 1: a name must be printable ASCII"),
    ],
)
def test_wrong_lines_are_named_by_number(tmp_path: Path, text: str, why: str) -> None:
    """The message has no part of the line, which may be a password."""
    with pytest.raises(InvalidInputError, match=why) as caught:
        read_users(written(tmp_path / "users", text))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o666, 0o601])
def test_files_that_others_may_access_are_refused(tmp_path: Path, mode: int) -> None:
    """Passwords that other users of the machine can read are not secret."""
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read_users(written(tmp_path / "users", "ann:secret", mode))


def test_a_group_may_read_it(tmp_path: Path) -> None:
    """Kubernetes mounts secrets in this way."""
    assert read_users(written(tmp_path / "users", "ann:secret", 0o440)) == {"ann": "secret"}


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    """The daemon does not start without its users."""
    with pytest.raises(InvalidInputError, match="No such file"):
        read_users(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"ann:\xff")
    (tmp_path / "binary").chmod(0o600)
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        read_users(tmp_path / "binary")


def test_a_changed_file_is_read_again(path: Path) -> None:
    """A password is replaced without a restart, for PLAIN and for SCRAM."""
    users = user_file(path, no_problem)
    before = users.content().scram_keys("SCRAM-SHA-256", "ann")
    assert users.content().scram_keys("SCRAM-SHA-256", "ann") == before
    written(path, "ann:another")
    assert users.content().is_password("ann", "another")
    assert not users.content().is_password("ann", "secret")
    assert users.content().scram_keys("SCRAM-SHA-256", "ann")[1] != before[1]


def test_a_file_that_became_invalid_changes_nothing(path: Path) -> None:
    """The users of before stay, and the problem is reported once."""
    problems: list[str] = []
    users = user_file(path, problems.append)
    written(path, "nonsense")
    for _ in range(3):
        assert users.content().is_password("ann", "secret")
    os.remove(path)  # noqa: PTH107 - as an operator does
    assert users.content().is_password("ann", "secret")
    assert len(problems) == 2


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_unknown_users_look_like_known_ones(path: Path, mechanism: str) -> None:
    """The server's first message does not show whether a user exists."""
    users = user_file(path, no_problem)
    salt, *_, iterations = users.content().scram_keys(mechanism, "nobody")
    assert (salt, iterations) == users.content().scram_keys(mechanism, "nobody")[::3]
    assert salt != users.content().scram_keys(mechanism, "nobody else")[0]
    known, unknown = (users.content().scram_keys(mechanism, name) for name in ("ann", "nobody"))
    assert [len(key) for key in known[:3]] == [len(key) for key in unknown[:3]]


def test_no_key_is_derived_while_a_peer_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time does not show who exists, or logged in before, and hostile peers cost little."""
    users = user_file(path, no_problem)
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)
    for name in ("ann", "ann", "nobody", "kafka"):
        for mechanism in SCRAM_HASHES:
            assert users.content().scram_keys(mechanism, name)


def test_keys_are_those_that_kafka_keeps_in_zookeeper() -> None:
    """What Kafka's ``ScramFormatter`` writes to ``/config/users`` for the example of RFC 7677."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    _, stored_key, server_key, _ = derive_keys("sha256", "pencil", salt, 4096)
    assert base64.b64encode(stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
