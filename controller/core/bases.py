"""
The base classes of the ledgers, events and records of each subject.

A ledger holds the facts of a subject that live equally long. It stands in the ``model`` of its
subject; the event that ends its lifetime replaces it as a whole (``ClusterView.end``), so that
nothing outlives it. ``wakes`` in the header of an event or record are the flags of the worklist
that ``observe`` or ``apply`` sets for it: an empty row states that nothing becomes due, or only by
a trigger of ``wakeups``. ``is_journaled`` says whether the journal has a line for a record.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import ClassVar, Literal, Self

Flag = Literal[
    "listed_topics",
    "elections",
    "tenure",
    "claimed",
    "plan",
    "timer",
    "orphans",
    "capacity",
    "line",
    "brokers_changed",
    "answered",
    "submissions",
    "cancel",
    "queue",
    "drains",
    "endings",
    "throttles",
    "health",
    "order",
    "log_dirs",
    "pending_requests",
    "deletions",
]
Flags = tuple[Flag, ...]
"""Flags of the worklist, by name."""


class Lifetime(Enum):
    """How long the facts of a ledger are valid."""

    PROCESS = auto()
    """As long as the process: no read shows them again, or reads correct them one by one."""
    SESSION = auto()
    """
    Until the leadership is lost; the loss of the ZooKeeper session is one cause.

    Watches report every change of what was read, and they are lost with the session.
    """
    LEADERSHIP = auto()
    """
    Until a tenure ends or a leadership begins.

    Another daemon may write them while this one does not lead, and a write at the end of a tenure
    may have an unknown outcome.
    """
    TENURE = auto()
    """Until a claim, and until the end of a tenure."""


class Ledger:
    """The facts of one subject that live equally long."""

    __slots__ = ()

    lifetime: ClassVar[Lifetime]

    def successor(self) -> Self:
        """Return the ledger that takes the place of this one when its lifetime ends."""
        return type(self)()


class Fact:
    """An event: a fact that was read or answered, or a timer that fired."""

    __slots__ = ()

    wakes: ClassVar[Flags]

    def __init_subclass__(cls, *, wakes: Flags | None = None) -> None:
        """Take the row in the header; ``dataclass`` makes a class with slots again without it."""
        if wakes is not None:
            cls.wakes = wakes


class _Record:
    """A change of the view that was decided."""

    __slots__ = ()

    wakes: ClassVar[Flags]
    is_journaled: ClassVar[bool]

    def __init_subclass__(cls, *, wakes: Flags | None = None, is_journaled: bool = True) -> None:
        """Take what the header says, as for a ``Fact``."""
        if wakes is not None:
            cls.wakes, cls.is_journaled = wakes, is_journaled


class Durable(_Record):
    """A record of a change in ZooKeeper; ``znode_operations`` has the operations of each class."""

    __slots__ = ()


class Shared(Durable):
    """A durable record that shares a write with others: of a topic, a plan, a shard of outcomes."""

    __slots__ = ()


class Volatile(_Record):
    """A record that is not written: it accompanies durable ones, or what a cycle found."""

    __slots__ = ()
