"""
The base of the rules of a simulation: the present znodes, the trace, and violations.

A broken rule raises at once, in the event that broke it, with the trace before it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from controller.core.model import (
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicAssignment,
    TopicPartition,
)
from tests.sim.rules import Rule
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.schedule import Schedule

TRACE_MAX: Final = 60


class InvariantViolationError(AssertionError):
    """A rule was broken; the text contains the rule, the time and the trace."""


@dataclass(slots=True)
class Znodes:
    """The content of ZooKeeper, decoded once."""

    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    epoch: int = 0
    """``/controller_epoch``."""
    claims: dict[int, int] = field(default_factory=dict)
    """The zxid of each claim of a daemon, by its controller epoch."""
    led_since: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The leader epoch of a partition, and the zxid that brought it."""

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return the assignment of a partition in its topic znode."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def replicas(self, partition: TopicPartition) -> Replicas:
        """Return RS of a partition."""
        assignment = self.assignment(partition)
        return () if assignment is None else assignment.replicas


class Judge:
    """Counts judgements, keeps a trace, and raises when a rule is broken."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._trace: deque[tuple[float, Transaction | str]] = deque(maxlen=TRACE_MAX)
        self.applied: Counter[Rule | None] = Counter()
        """The number of times that each rule was applied; None: rules without a name."""
        self.broken: list[str] | None = None
        """Broken rules with the trace, where a recording is judged: it goes on after each."""

    @property
    def checks(self) -> int:
        """Rules applied so far: a history that checks nothing proves nothing."""
        return self.applied.total()

    def note(self, what: Transaction | str) -> None:
        """Add to the trace."""
        self._trace.append((self._schedule.now(), what))

    def applies(self, rule: Rule | None) -> None:
        """Count a rule that is applied."""
        self.applied[rule] += 1

    def ensure(
        self,
        condition: bool,  # noqa: FBT001 - reads as a sentence
        why: str,
        rule: Rule | None = None,
    ) -> None:
        """Apply a rule: if the condition does not hold, it is broken."""
        self.applies(rule)
        if condition:
            return
        if self.broken is None:
            self.fail(why)
        self.broken.append(self._said(why))

    def fail(self, why: str) -> NoReturn:
        """
        Raise for a broken rule, with the trace.

        Raises:
            InvariantViolationError: always.

        """
        raise InvariantViolationError(self._said(why))

    def _said(self, why: str) -> str:
        lines = [f"at {self._schedule.now():.3f} s: {why}", "before that:"]
        lines += [f"  {at:9.3f} {_text(what)}" for at, what in self._trace]
        return "\n".join(lines)


def _text(what: Transaction | str) -> str:
    if isinstance(what, str):
        return what
    changes = [
        f"{w.path} = {w.after.data.decode(errors='replace')}" if w.after else f"{w.path} deleted"
        for w in what.written
    ]
    return f"session {what.session}: " + "; ".join(changes)
