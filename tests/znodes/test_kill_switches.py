"""Tests of ``controller.znodes.kill_switches``."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.znodes.cancellations import KillSwitch, decode_kill_switch, encode_kill_switch

SWITCH = KillSwitch("incident 42", "ann@desk", 1_750_000_000_000)


def test_what_is_written_is_read() -> None:
    """Why, who and since when."""
    assert decode_kill_switch(encode_kill_switch(SWITCH), 7) == SWITCH


def test_an_empty_node_is_on_since_it_was_created() -> None:
    """KIP-236 asks for no content."""
    assert decode_kill_switch(b"", 7) == KillSwitch(since_ms=7)


def test_a_text_is_the_reason() -> None:
    """It was written by hand."""
    assert decode_kill_switch(b"do not touch", 7).reason == '"do not touch"'


@given(st.binary(max_size=60))
def test_any_content_means_that_it_is_on(data: bytes) -> None:
    """Whatever is there."""
    assert isinstance(decode_kill_switch(data, 7), KillSwitch)


def test_members_of_a_wrong_kind_are_left_out() -> None:
    """They are for people; the switch is on all the same."""
    assert decode_kill_switch(b'{"reason":1,"by":null,"since_ms":"x"}', 7) == KillSwitch(since_ms=7)
