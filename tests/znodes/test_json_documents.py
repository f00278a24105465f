"""Reading JSON that anybody may have written."""

from __future__ import annotations

import pytest
from hypothesis import given

from controller.znodes.json_documents import (
    EXCERPT_MAX,
    excerpt,
    is_int,
    is_text,
    read_document,
    read_replicas,
    total,
    write_document,
)
from tests.znodes.strategies import ANY_BYTES, JSON


@given(ANY_BYTES)
def test_any_bytes_give_an_object_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise anything else."""
    read = total(read_document)(data)
    assert isinstance(read, str | dict)


@given(JSON)
def test_an_excerpt_is_short_ascii_whatever_the_value(value: object) -> None:
    """What a reason quotes can be printed anywhere."""
    text = excerpt(value)
    assert text.isascii()
    assert len(text) <= EXCERPT_MAX


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\xff", "UTF-8"),
        (b"{", "position 1"),
        (b"[1]", "object"),
        (b'{"a":NaN}', "NaN"),
        (b"[" * 100_000, "deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "digits"),
    ],
)
def test_a_reason_says_what_is_wrong(data: bytes, why: str) -> None:
    """An operator can act on the reason."""
    read = total(read_document)(data)
    assert isinstance(read, str)
    assert why in read


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, -1, 2**31])
def test_only_integers_within_bounds_are_integers(value: object) -> None:
    """Neither ``true`` nor 1.0 nor what overflows a Java int is a number here."""
    assert not is_int(value)


def test_a_lone_surrogate_is_no_text() -> None:
    """It could not be written to a log or a znode name."""
    assert not is_text("\ud800")
    assert is_text("é")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "empty"),
        ([1, 1], "twice"),
        ([True], "true"),
        ([-1], "-1"),
        ([2**31], "2147483648"),
        ([1.0], "1.0"),
        ("12", "list"),
        (None, "list"),
    ],
)
def test_replicas_are_refused_with_the_culprit(value: object, why: str) -> None:
    """Each way a replica list can be wrong has its own reason."""
    read = total(read_replicas)(value)
    assert isinstance(read, str)
    assert why in read


def test_documents_are_written_compact_and_in_ascii() -> None:
    """As Kafka writes them, and safe for every reader."""
    assert write_document({"a": [1, 2], "b": "é"}) == b'{"a":[1,2],"b":"\\u00e9"}'
