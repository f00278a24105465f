"""
AlterPartitionReassignments: requests of a daemon to Kafka's controller, under way and answered.

The controller carries them out in their order; whether it refuses an entry is decided as in
``tests.sim.alter_api``. The daemon that waits hears the answer, or that there is none: then the
request may still be carried out, as long as that controller has the role.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.explore import production as p

NOBODY: Final = -1


class Call(NamedTuple):
    """A request."""

    number: int
    """Which it is of those that are under way."""
    daemon: int
    """The daemon that waits for the answer, or ``NOBODY``."""
    epoch: int | None
    """The tenure of the controller that it was sent to; None: there was none."""
    entries: tuple[Any, ...]
    results: tuple[Any, ...] | None = None
    """The answer on its way back; None while the request is not carried out."""


class DaemonReassignments:
    """``reactor.ports.Reassignments``: what the loop handed over since that was last looked at."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.handed: list[tuple[Any, ...] | None] = []
        """The entries of each request; None where all requests so far are forgotten."""

    def alter(self, entries: Sequence[Any]) -> None:
        """Send entries."""
        self.handed.append(tuple(entries))

    def elect(self, partitions: Sequence[Any]) -> None:
        """Do nothing: an election may be lost."""

    def probe(self) -> None:
        """Find out whether there is a controller."""
        self.store.put("alter", ("probe",))

    def vouch(self) -> None:
        """Do nothing: a process that stands still is one whose requests are late."""

    def forget(self) -> None:
        """Wait for no answer any more."""
        self.handed.append(None)


def carried_out(duties: Any, assignment: Any, zookeeper: Any, call: Call) -> tuple[Any, ...]:
    """Hand the entries to Kafka's controller, for its next event; return the results."""
    results: list[Any] = []
    for entry in call.entries:
        error = p.error_of(entry, assignment, duties, zookeeper)
        if error == p.kafka_errors.NONE:
            duties.alter(entry.partition, None if entry.cancels else entry.target)
        why = "" if error == p.kafka_errors.NONE else f"error {error}"
        results.append(p.AlterResult(entry.partition, entry.target, error, why))
    return tuple(results)


def unanswered(call: Call, fate: Any) -> Any:
    """Return the event of a request without an answer."""
    return p.ReassignmentsAltered(
        tuple(
            p.AlterResult(
                e.partition, e.target, p.kafka_errors.REQUEST_TIMED_OUT, "no answer", fate
            )
            for e in call.entries
        ),
        None,
    )
