"""Tests of ``controller.units``, and of the options with units of their own."""

from __future__ import annotations

import re

import pytest

from controller.cli.options import parse_step_size
from controller.core.requests.submissions import AUTO
from controller.errors import InvalidInputError
from controller.units import (
    low_rate_text,
    parse_bytes,
    parse_duration,
    parse_throttle,
    show_bytes,
    show_time,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("50000000", 50_000_000),
        ("50MB", 50_000_000),
        ("50 mb", 50_000_000),
        ("50M", 50_000_000),
        ("50MB/s", 50_000_000),
        ("1.5KiB", 1536),
        ("2GiB", 2 * 1024**3),
        ("10TB", 10**13),
        ("7B", 7),
    ],
)
def test_bytes_are_read_as_people_write_them(text: str, amount: int) -> None:
    """Decimal, unless the unit says otherwise."""
    assert parse_bytes("--throttle", text) == amount


@pytest.mark.parametrize(
    "text", ["", "fast", "-1", "0", "0.5", "50MB!", "5ib", "1e9", "MB", "50 apples", "9" * 30]
)
def test_what_is_no_amount_is_refused_by_the_name_of_the_option(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidInputError, match="--throttle: bytes such as"):
        parse_bytes("--throttle", text)


@pytest.mark.parametrize("text", ["0", "5furlongs"])
def test_what_is_no_throttle_is_refused_with_the_words_that_are_one(text: str) -> None:
    """Where none is one of them, it is named."""
    rate = f"R: a rate such as 50000000, 50MB or 1.5GiB, or auto, not '{text}'"
    with pytest.raises(InvalidInputError, match=f"^{re.escape(rate)}$"):
        parse_throttle("R", text)
    with pytest.raises(InvalidInputError, match=r"1\.5GiB, auto or none, not"):
        parse_throttle("R", text, or_none=True)


def test_a_throttle_that_lacks_a_unit_is_doubted() -> None:
    """With the rate that was probably meant."""
    text = "a throttle of 50 B/s is very low: a number without a unit is in bytes"
    assert low_rate_text(50) == f"{text} (did you mean 50MB?)"
    assert "(did you mean 5000KB?)" in str(low_rate_text(5000))
    for meant in (10_000, AUTO, None):
        assert low_rate_text(meant) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("30 min", 1800), ("1.5h", 5400), ("2d", 172_800)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    """As people write them."""
    assert parse_duration("--deadline", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "1w", "1h30m", "9" * 10])
def test_what_is_no_duration_is_refused_by_the_name_of_the_option(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidInputError, match="--deadline: a duration such as"):
        parse_duration("--deadline", text)


@pytest.mark.parametrize("text", ["0", "-1", "ALL", "1.0", "two", ""])
def test_a_step_is_a_number_or_all(text: str) -> None:
    """One replica at least."""
    assert parse_step_size("--step-size", "all") == "all"
    assert parse_step_size("--step-size", "2") == 2
    with pytest.raises(InvalidInputError, match="--step-size"):
        parse_step_size("--step-size", text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (7, "7 B"),
        (50_000_000, "50 MB"),
        (1_536, "1.54 KB"),
        (999_700, "1 MB"),
        (10**16, "10000 TB"),
        (0, "0 B"),
    ],
)
def test_bytes_are_worded_short(amount: int, text: str) -> None:
    """Three digits are enough for people."""
    assert show_bytes(amount) == text


def test_times_are_in_utc() -> None:
    """The same text for everybody."""
    assert show_time(1_750_000_000_000) == "2025-06-15 15:06:40Z"
