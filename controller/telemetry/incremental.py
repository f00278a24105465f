"""
Long walks through the view in slices: the loop goes on with its work between two of them.

A walk is a generator that yields where it may be interrupted and returns what it found. The view
may have changed by the time it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

T = TypeVar("T")
Item = TypeVar("Item")
Key = TypeVar("Key")

Incremental = Generator[None, None, T]
"""A walk that finds a ``T``."""
SLICE: Final = 100
"""Items between two places where a walk may be interrupted: well below a millisecond."""


def run_to_end(walk: Incremental[T]) -> T:
    """Go the whole way at once; return what was found."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            found: T = end.value
            return found


def in_slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return the items as they are now, in slices."""
    everything = list(items)
    return (everything[n : n + SLICE] for n in range(0, len(everything), SLICE))


def visit_all(items: Mapping[Key, Item], visit: Callable[[Key, Item], None]) -> Incremental[None]:
    """Visit what is there now, as it is when its turn comes; what is gone by then is left out."""
    for keys in in_slices(items):
        for key in keys:
            if key in items:
                visit(key, items[key])
        yield
