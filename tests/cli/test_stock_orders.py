"""The order of Java's hash sets, by what a Java program printed."""

from __future__ import annotations

import pytest

from controller.cli.stock_orders import (
    hashed_ints,
    hashed_partitions,
    hashed_texts,
    text_hash,
)
from controller.core.model import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("t", 116), ("hello", 99162322), ("orders", -1008770331)],
)
def test_a_text_has_javas_hash(text: str, expected: int) -> None:
    """As ``String.hashCode`` defines it, by its formula: s[0]*31^(n-1) + ... + s[n-1]."""
    assert text_hash(text) == expected & 0xFFFFFFFF


def test_small_numbers_come_in_order_and_large_ones_by_bucket() -> None:
    """A table of sixteen buckets: 17 shares the bucket of 1, 99 that of 3."""
    assert hashed_ints([5, 3, 1]) == [1, 3, 5]
    assert hashed_ints([5, 99, 17, 1]) == [17, 1, 99, 5]


def test_a_full_table_doubles() -> None:
    """From thirteen on there are 32 buckets."""
    assert hashed_ints([16, *range(11)]) == [16, *range(11)]
    assert hashed_ints([16, *range(12)]) == [*range(12), 16]


def test_texts_and_partitions_come_once() -> None:
    """A set holds everything once."""
    assert hashed_texts(["b", "a", "b"]) == ["a", "b"]
    once = TopicPartition("t", 0)
    assert hashed_partitions([once, once]) == [once]
