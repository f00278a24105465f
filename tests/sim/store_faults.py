"""
Faults in the middle of a simulated daemon's commits.

The connection breaks, so that an unknown part is durable; something happens between two multis;
ZooKeeper refuses some. Each fault is counted where it takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from controller.reactor.ports import Operation, Rejected, SetData, WriteError
from tests.sim.zookeeper import AnyOperation


class Interruption(NamedTuple):
    """A fault: something happens just before a multi."""

    action: Callable[[], None]
    left: int
    """How many of those it is meant for go before it."""
    writing: str | None
    """It is meant for multis that write this path; None: for all."""
    is_inside: bool
    """It is meant for those that another multi of their commit went before."""


class Refusal(NamedTuple):
    """A fault: ZooKeeper refuses multis with an operation below a path."""

    below: str
    error: WriteError
    is_once: bool
    name: str = ""
    """What it is counted as."""


class CommitFaults:
    """The faults that wait for one daemon's next commits."""

    def __init__(self, struck: Callable[[str], None]) -> None:
        """Begin without faults; ``struck`` is called with each fault that takes effect."""
        self._struck = struck
        self._breaks_after: int | None = None
        self._refusal: Refusal | None = None
        self._interruption: Interruption | None = None

    def break_commit(self, *, after: int) -> None:
        """Let the connection break in the next commit, once ``after`` of its multis are durable."""
        self._breaks_after = after

    def breaks_before(self, number: int) -> bool:
        """Whether the connection breaks now, before the multi of this number."""
        if self._breaks_after != number:
            return False
        if number:
            self._struck("commit_broken_inside")
        return self.breaks_at_the_end()

    def breaks_at_the_end(self) -> bool:
        """Whether it breaks once all multis are durable."""
        breaks, self._breaks_after = self._breaks_after is not None, None
        if breaks:
            self._struck("commit_broken")
        return breaks

    def interrupt_commit(
        self,
        action: Callable[[], None],
        *,
        after: int,
        writing: str | None = None,
        is_inside: bool = False,
    ) -> None:
        """
        Let something happen before a multi, ``after`` more later.

        Args:
            action: What happens; what it raises ends the commit.
            after: How many multis go before.
            writing: Only multis that write this path count.
            is_inside: Only multis that another one of their commit went before count.

        """
        self._interruption = Interruption(action, after, writing, is_inside)

    def interrupt(self, multi: Sequence[Operation], number: int) -> None:
        """Let happen what is to happen before this multi, if this is the one."""
        interruption = self._interruption
        if interruption is None or (interruption.is_inside and number == 0):
            return
        written = {o.path for o in multi if isinstance(o, SetData)}
        if interruption.writing is not None and interruption.writing not in written:
            return
        left = interruption.left
        self._interruption = interruption._replace(left=left - 1) if left else None
        if not left:
            if number:
                self._struck("commit_interrupted_inside")
            interruption.action()

    def refuse(self, refusal: Refusal | None) -> None:
        """Let ZooKeeper refuse writes from now on, or none any more."""
        self._refusal = refusal

    def refused(self, multi: Sequence[AnyOperation]) -> Rejected | None:
        """Return the answer to a multi that hits what ZooKeeper refuses."""
        refusal = self._refusal
        if refusal is None:
            return None
        hit = next((n for n, o in enumerate(multi) if o.path.startswith(refusal.below)), None)
        if hit is None:
            return None
        self._struck(refusal.name)
        if refusal.is_once:
            self._refusal = None
        return Rejected(hit, refusal.error)
