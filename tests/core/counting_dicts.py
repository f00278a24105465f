"""Dicts that count how they are used: the cost of a turn, without a clock."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TypeVar

from controller.core.model import TopicPartition
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView

Key = TypeVar("Key")
Value = TypeVar("Value")


class Walked(dict[Key, Value]):
    """Counts the entries that were yielded one after the other, not those that were looked up."""

    walked = 0

    def __iter__(self) -> Iterator[Key]:
        for key in super().__iter__():
            self.walked += 1
            yield key

    def keys(self) -> KeysView[Key]:  # type: ignore[override]
        """Return a view whose walk is counted."""
        return KeysView(self)

    def values(self) -> ValuesView[Value]:  # type: ignore[override]
        """Return a view whose walk is counted."""
        return ValuesView(self)

    def items(self) -> ItemsView[Key, Value]:  # type: ignore[override]
        """Return a view whose walk is counted."""
        return ItemsView(self)


class Looked(dict[Key, Value]):
    """Counts how often something was looked up, by whatever way."""

    looked = 0

    def __contains__(self, key: object) -> bool:
        self.looked += 1
        return super().__contains__(key)

    def __getitem__(self, key: Key) -> Value:
        self.looked += 1
        return super().__getitem__(key)

    def get(self, key: Key, default: Value | None = None) -> Value | None:  # type: ignore[override]
        """Return what is there, as a dict does."""
        self.looked += 1
        return super().get(key, default)


def watch_reassignments(view: ClusterView) -> Walked[TopicPartition, Reassignment]:
    """Have the walks through the reassignments counted from now on."""
    walked = Walked(view.reassignments.by_partition)
    view.reassignments.by_partition = walked
    return walked
