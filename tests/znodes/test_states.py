"""The state of a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import PartitionState, ZkVersion
from controller.znodes.topics import decode_state, encode_state
from tests.znodes.strategies import ANY_BYTES, EPOCHS, document, without

GOOD: dict[str, object] = {
    "version": 1,
    "leader": 1,
    "leader_epoch": 5,
    "controller_epoch": 9,
    "isr": [1, 2],
}


@given(
    leader=st.integers(-1, 2**31 - 1),
    leader_epoch=EPOCHS,
    isr=st.lists(EPOCHS, unique=True, max_size=4),
    controller_epoch=EPOCHS,
    recovery=st.sampled_from([0, 1]),
)
def test_what_is_encoded_is_decoded(
    leader: int, leader_epoch: int, isr: list[int], controller_epoch: int, recovery: int
) -> None:
    """A round trip loses nothing."""
    data = encode_state(
        leader=leader,
        leader_epoch=leader_epoch,
        isr=tuple(isr),
        controller_epoch=controller_epoch,
        leader_recovery_state=recovery,
    )
    read = decode_state(data, ZkVersion(3))
    assert isinstance(read, PartitionState)
    assert (read.leader, read.leader_epoch, read.isr) == (leader, leader_epoch, tuple(isr))
    assert (read.controller_epoch, read.leader_recovery_state) == (controller_epoch, recovery)
    assert read.version == 3


@given(ANY_BYTES)
def test_any_bytes_give_a_state_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_state(data, ZkVersion(0)), str | PartitionState)


def test_recovered_is_not_written() -> None:
    """Brokers below 3.2 do not know the key."""
    data = encode_state(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)
    assert b"leader_recovery_state" not in data


@pytest.mark.parametrize("key", ["leader", "leader_epoch", "controller_epoch", "isr"])
def test_a_missing_member_is_named(key: str) -> None:
    """Nothing is made up for it."""
    read = decode_state(without(GOOD, key), ZkVersion(0))
    assert isinstance(read, str)
    assert key in read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("leader", -2),
        ("leader", True),
        ("leader_epoch", -1),
        ("controller_epoch", 2**31),
        ("isr", [1, 1]),
        ("leader_recovery_state", 2),
    ],
)
def test_a_wrong_member_is_named(key: str, value: object) -> None:
    """An operator can act on the reason."""
    read = decode_state(document(**(GOOD | {key: value})), ZkVersion(0))
    assert isinstance(read, str)
    assert key in read
