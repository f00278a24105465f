"""
What each event and record says of itself, beside its class.

``wakes`` are the flags of the worklist that ``observe`` or ``apply`` sets for it. An empty row
states that nothing becomes due, or only by a ``wakeups.Trigger``. The base of a record says whether
it is durable, and ``is_journaled`` whether the journal has a line for it.
"""

from __future__ import annotations

from typing import ClassVar

from controller.core.worklist import Flags


class Fact:
    """An event: a fact that was read or answered, or a timer that fired."""

    __slots__ = ()

    wakes: ClassVar[Flags]


class Durable:
    """A record of a change in ZooKeeper; ``znode_operations`` has the operations of each class."""

    __slots__ = ()

    wakes: ClassVar[Flags]
    is_journaled: ClassVar[bool] = True


class Shared(Durable):
    """A durable record that shares a write with others: of a topic, a plan, a shard of outcomes."""

    __slots__ = ()


class Volatile:
    """A record that is not written: it accompanies durable ones, or what a cycle found."""

    __slots__ = ()

    wakes: ClassVar[Flags]
    is_journaled: ClassVar[bool] = True
