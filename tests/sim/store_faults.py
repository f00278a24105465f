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
    """A fault: an action just before a multi."""

    action: Callable[[], None]
    left: int
    """The number of matching multis before the one that is hit."""
    writing: str | None
    """The path that a multi has to write to count; None: every multi counts."""
    is_inside: bool
    """True if only multis after the first of a commit count."""


class Refusal(NamedTuple):
    """A fault: ZooKeeper refuses multis with an operation below a path."""

    below: str
    error: WriteError
    is_once: bool
    name: str = ""
    """The name under which the fault is counted."""


class CommitFaults:
    """The faults that wait for one daemon's next commits."""

    def __init__(self, struck: Callable[[str], None]) -> None:
        """Begin without faults; ``struck`` is called with each fault that takes effect."""
        self._struck = struck
        self._breaks_after: int | None = None
        self._refusal: Refusal | None = None
        self._interruption: Interruption | None = None

    def end(self) -> None:
        """End the faults, also those that wait for a later commit."""
        self._breaks_after = self._refusal = self._interruption = None

    def break_commit(self, *, after: int) -> None:
        """Let the connection break in the next commit, once ``after`` of its multis are durable."""
        self._breaks_after = after

    def breaks_before(self, number: int) -> bool:
        """Return whether the connection breaks now, before the multi of this number."""
        if self._breaks_after != number:
            return False
        if number:
            self._struck("commit_broken_inside")
        return self.breaks_at_the_end()

    def breaks_at_the_end(self) -> bool:
        """Return whether the connection breaks once all multis are durable."""
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
        Run an action before a multi, ``after`` more later.

        Args:
            action: Called before the multi; an exception ends the commit.
            after: The number of multis before it.
            writing: Only multis that write this path count.
            is_inside: Only multis after the first of a commit count.

        """
        self._interruption = Interruption(action, after, writing, is_inside)

    def interrupt(self, multi: Sequence[Operation], number: int) -> None:
        """Run the action if it is due before this multi."""
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
