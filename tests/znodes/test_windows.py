"""The hours in which steps may begin."""

from __future__ import annotations

import pytest
from hypothesis import given

from controller.core.requests.submissions import Window
from controller.znodes.json_documents import read_window
from tests.znodes.strategies import JSON, WINDOWS


@given(WINDOWS)
def test_what_is_written_is_read(window: Window) -> None:
    """The text form says everything."""
    assert read_window(str(window)) == window


@given(JSON)
def test_anything_else_is_a_reason(value: object) -> None:
    """No value whatever raises."""
    assert isinstance(read_window(value), str | Window)


def test_without_a_zone_it_is_utc() -> None:
    """No local time zone is assumed."""
    assert read_window("22:00-05:00") == Window(22 * 60, 5 * 60, "UTC")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22-05",
        "22:00-24:00",
        "22:60-05:00",
        "2:00-5:00",
        "22:00-05:00 Europe",
        "22:00-05:00 ../../etc/passwd",
        "22:00-05:00 /etc/localtime",
        "22:00-05:00 Europe/Berlin x",
        "22:00-05:00 \u00e9",
    ],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    """Steps at the wrong hours would be worse than none."""
    assert isinstance(read_window(text), str)
