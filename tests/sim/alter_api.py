"""
The daemon's connection to the cluster's own controller: alter entries that get lost or are late.

The broker that is the controller when an entry arrives carries it out, or refuses it. It may be
busy: then the entry waits, and is carried out after the daemon's time-out, or never, if the
controller dies. The controller may also die between its answer and its next write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.core.model import AlterOutcome, PartitionAssignment, TopicPartition
from controller.core.reassignments.records import AlterResult, ReassignmentsAltered
from controller.core.role.records import ReassignmentsProbed
from controller.kafka_errors import (
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.reactor.ports import AlterEntry, Inbox
from controller.znodes import paths
from tests.sim.alter_rules import Way

if TYPE_CHECKING:
    from tests.sim.alter_rules import AlterRules
    from tests.sim.kafka_duties import KafkaDuties
    from tests.sim.world import World
    from tests.sim.zookeeper import SimZooKeeper


DELAY_S: Final = (0.002, 0.05)
ANSWER_WITHIN_S: Final = 8.0
"""The time that the daemon waits for an answer."""
BUSY_S: Final = (0.5, 15.0)
"""The time that the controller spends on other events."""
PASSED_S: Final = (0.05, 0.4)
"""The time that the controller takes to write an entry, and to answer."""


@dataclass(slots=True, eq=False)
class _Call:
    entries: tuple[AlterEntry, ...]
    at: float
    """The time at which the daemon handed it over."""
    number: int
    is_answered: bool = False


class SimAlterApi:
    """Implements ``reactor.ports.Reassignments`` for one daemon."""

    def __init__(
        self,
        world: World,
        inbox: Inbox,
        rules: AlterRules,
        *,
        loss: float,
    ) -> None:
        """
        Prepare.

        Args:
            world: The cluster of the controller.
            inbox: Of the daemon.
            rules: Judges each entry that is carried out.
            loss: Probability that a call or its answer is lost, or that the controller is busy.

        """
        self._world = world
        self._inbox = inbox
        self._rules = rules
        self._loss = loss
        self._calls = 0
        """Grows with each ``forget``: earlier calls are dropped."""

    def alter(self, entries: Sequence[AlterEntry]) -> None:
        """Send entries to the controller, once."""
        for listener in self._world.fabric.on_sent:
            listener(-1, entries)
        call = _Call(tuple(entries), self._world.now, self._calls)
        self._later(DELAY_S, lambda: self._arrive(call))

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Request elections, once; nothing says whether they were held."""
        self._later(DELAY_S, lambda: self._elect(tuple(partitions)))

    def _elect(self, partitions: tuple[TopicPartition, ...]) -> None:
        duties = self._duties()
        if duties is not None and not self._is_lost():
            duties.elect(partitions)

    def probe(self) -> None:
        """Find out whether there is a controller."""
        call = self._calls
        self._later(DELAY_S, lambda: self._probed(call))

    def vouch(self) -> None:
        """Do nothing: a daemon that pauses is judged when its call arrives."""

    def forget(self) -> None:
        """Drop every call that is under way."""
        self._calls += 1

    def _later(self, within_s: tuple[float, float], act: object) -> None:
        self._world.schedule.call_between(*within_s, act)  # type: ignore[arg-type] # a callable

    def _probed(self, call: int) -> None:
        if call == self._calls:
            problem = None if self._duties() is not None else "there is no controller"
            self._inbox.put(ReassignmentsProbed(problem))

    def _duties(self) -> KafkaDuties | None:
        active = self._world.active_kafka_controller()
        return None if active is None else active.duties

    def _is_lost(self) -> bool:
        return self._world.schedule.random.random() < self._loss

    def _arrive(self, call: _Call) -> None:
        if call.number != self._calls:
            return
        duties = self._duties()
        if duties is None or self._is_lost():
            self._fail(call, AlterOutcome.UNSENT)
            return
        self._later(
            (ANSWER_WITHIN_S, ANSWER_WITHIN_S), lambda: self._fail(call, AlterOutcome.UNKNOWN)
        )
        if self._is_lost():
            return
        schedule, sent_at = self._world.schedule, self._world.now
        if self._is_lost():
            free_at = sent_at + schedule.random.uniform(*BUSY_S)
            duties.busy_until = max(duties.busy_until, free_at)
        way = Way(call.at, sent_at, self._rules.floors(call.entries))
        schedule.call_at(max(duties.busy_until, sent_at), lambda: self._make(duties, call, way))

    def _make(self, duties: KafkaDuties, call: _Call, way: Way) -> None:
        """Carry out a call if the broker is still the controller; the caller may be gone."""
        if duties is not self._duties():
            return
        results = tuple(self._judged(duties, entry, way) for entry in call.entries)
        if not self._is_lost():
            self._later(PASSED_S, lambda: self._answer(results, call))

    def _fail(self, call: _Call, fate: AlterOutcome) -> None:
        self._answer(
            tuple(
                AlterResult(e.partition, e.target, REQUEST_TIMED_OUT, "no answer", fate)
                for e in call.entries
            ),
            call,
        )

    def _answer(self, results: tuple[AlterResult, ...], call: _Call) -> None:
        if call.number == self._calls and not call.is_answered:
            call.is_answered = True
            self._inbox.put(ReassignmentsAltered(results, None))

    def _judged(self, duties: KafkaDuties, entry: AlterEntry, way: Way) -> AlterResult:
        """Carry out an entry, or refuse it as Kafka does (KIP-455)."""
        partition, target, cancels = entry
        world = self._world
        stored = world.assignment(partition) if partition in world.partitions() else None
        error = error_of(entry, stored, duties, world.zookeeper)
        if error == NONE:
            self._rules.judge(entry, way)
            duties.alter(partition, None if cancels else target)
        return AlterResult(partition, target, error, "" if error == NONE else f"error {error}")


def error_of(
    entry: AlterEntry,
    stored: PartitionAssignment | None,
    duties: KafkaDuties,
    zookeeper: SimZooKeeper,
) -> int:
    """Return the error with which Kafka's controller refuses an entry; NONE: it carries it out."""
    partition, target, cancels = entry
    doomed = zookeeper.children(paths.DELETIONS) or ()
    if stored is None or partition.topic in doomed:
        return UNKNOWN_TOPIC_OR_PARTITION
    if cancels:
        is_moving = stored.is_reassigning or duties.is_about_to_alter(partition)
        return NONE if is_moving else NO_REASSIGNMENT_IN_PROGRESS
    live = set(zookeeper.children(paths.BROKER_IDS) or ())
    if all(r in stored.replicas or str(r) in live for r in target):
        return NONE
    return INVALID_REPLICA_ASSIGNMENT
