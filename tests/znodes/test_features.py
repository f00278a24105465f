"""The codecs of ``/feature`` and ``/migration``, and the address of the leading daemon."""

from __future__ import annotations

import pytest
from hypothesis import given

from controller.znodes.brokers_and_controller import (
    decode_feature,
    decode_leader,
    decode_migration,
    encode_leader,
)
from tests.znodes.strategies import ANY_BYTES, document


@pytest.mark.parametrize(("status", "enabled"), [(0, False), (1, True)])
def test_the_status_shows_whether_features_are_enabled(status: int, enabled: bool) -> None:  # noqa: FBT001 - a table row
    """0 below inter-broker protocol 2.7, 1 from there on."""
    assert decode_feature(document(version=1, status=status, features={})) is enabled


@pytest.mark.parametrize("status", [None, True, 2, "1"])
def test_an_unknown_status_is_not_taken_for_disabled(status: object) -> None:
    """Never guess."""
    assert isinstance(decode_feature(document(version=1, status=status)), str)


def test_a_kraft_controller_in_charge_forbids_a_claim() -> None:
    """The reason names it."""
    reason = decode_migration(document(version=0, kraft_controller_id=3000))
    assert reason is not None
    assert "3000" in reason


@pytest.mark.parametrize("data", [document(version=0, kraft_controller_id=-1), document(version=0)])
def test_a_migration_without_a_controller_forbids_nothing(data: bytes) -> None:
    """As after a migration that never began."""
    assert decode_migration(data) is None


@pytest.mark.parametrize("data", [b"", b"x", document(kraft_controller_id=True)])
def test_what_cannot_be_understood_forbids_a_claim(data: bytes) -> None:
    """Never guess."""
    assert decode_migration(data) is not None


def test_the_address_of_the_leader_is_read_back() -> None:
    """The CLI finds it there."""
    assert decode_leader(encode_leader("127.0.0.1:8095")) == "127.0.0.1:8095"


@given(ANY_BYTES)
def test_any_bytes_give_a_value_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_feature(data), str | bool)
    assert isinstance(decode_migration(data), str | None)
    assert isinstance(decode_leader(data), str | None)
