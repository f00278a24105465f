"""
Incremental computations over the view, which leave the loop time for other work.

Each is a generator: it yields where it may be interrupted and returns its result. The view may
change between two slices.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

T = TypeVar("T")
Item = TypeVar("Item")
Key = TypeVar("Key")

Incremental = Generator[None, None, T]
"""A computation with the result ``T``."""
SLICE: Final = 100
"""Items between two interruptions; they take well below a millisecond."""


def in_slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return the present items in slices."""
    everything = list(items)
    return (everything[n : n + SLICE] for n in range(0, len(everything), SLICE))


def visit_all(items: Mapping[Key, Item], visit: Callable[[Key, Item], None]) -> Incremental[None]:
    """Visit the present items with their latest values, without those deleted meanwhile."""
    for keys in in_slices(items):
        for key in keys:
            if key in items:
                visit(key, items[key])
        yield
