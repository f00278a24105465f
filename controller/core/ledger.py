"""
The ledgers that the view is the sum of: the facts of a subject, and how long they live.

A ledger stands in the ``model`` of its subject. It declares its lifetime once, and the event that
ends it replaces the ledger as a whole (``ClusterView.end``), so that nothing outlives it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import ClassVar, Self


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
