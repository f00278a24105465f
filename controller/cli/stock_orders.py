"""
The order in which Kafka's own tool lists what it keeps in a hash set.

The tool is a Java program and prints such sets as they come, so the order of brokers and topics in
its texts is that of Java's ``HashSet``: by bucket of a table that doubles when it is three quarters
full, and within a bucket as they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from controller.core.model import TopicPartition

_TABLE_MIN: Final = 16
_MASK: Final = 0xFFFFFFFF

_Item = TypeVar("_Item")


def hashed_ints(items: Iterable[int]) -> list[int]:
    """Order numbers."""
    return _hashed(items, lambda number: number & _MASK)


def hashed_texts(items: Iterable[str]) -> list[str]:
    """Order texts."""
    return _hashed(items, text_hash)


def hashed_partitions(items: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Order partitions."""
    return _hashed(items, lambda p: (31 * (31 + p.partition) + text_hash(p.topic)) & _MASK)


def text_hash(text: str) -> int:
    """Return Java's hash of a text, as 32 bits without a sign."""
    units = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & _MASK
    return found


def _hashed(items: Iterable[_Item], hash_of: Callable[[_Item], int]) -> list[_Item]:
    found = list(dict.fromkeys(items))
    table = _TABLE_MIN
    while len(found) > table * 3 // 4:
        table *= 2

    def bucket(item: _Item) -> int:
        number = hash_of(item)
        return (number ^ number >> 16) & (table - 1)

    # Sorting is stable: within a bucket the order is that of adding.
    return sorted(found, key=bucket)
