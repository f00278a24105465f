"""A daemon's telemetry while copies are made, read and ended, also over restarts and takeovers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from controller.core.core_settings import EngineName
from controller.core.leadership.records import StatesRead
from controller.core.model import Blocked, BlockedBy, BrokerId
from controller.core.reassignments.phases import Ended, Expanding, Starting, Syncing
from controller.core.reassignments.records import DONE, PhaseRecord, SpecEndedRecord
from controller.core.records import Change
from controller.telemetry.journal import Journal
from controller.telemetry.metrics import Metrics
from controller.telemetry.observer import TelemetryObserver
from controller.telemetry.status_publisher import StatusPublisher
from tests.core.builders import tp
from tests.core.disks.reports import report
from tests.telemetry.builders import (
    REQUEST,
    FixedClock,
    RecordedLog,
    a_view,
    partition_state,
    step_begins,
)

ORIGINAL = (1, 2, 3)


class WrittenAtOnce(Journal):
    """A journal without a thread."""

    def append(self, at: datetime, kind: str, content: object) -> None:
        """Write an entry."""
        self._append([(at, kind, content)])


class Played:
    """Partitions on 1, 2 and 3, of which 1 leads; each step replaces 3 by another broker."""

    def __init__(self, directory: Path, engine: EngineName) -> None:
        """Lead a cluster of eight brokers, and write a journal into this directory."""
        self.clock = FixedClock()
        self.built = a_view(*range(1, 9))
        self.view = self.built.view
        self.view.role.engine = engine
        self.sizes: dict[int, int] = {}
        self._directory = directory
        self._start(directory)

    def _start(self, directory: Path) -> None:
        clock, self.metrics = self.clock, Metrics()
        self.journal = WrittenAtOnce(directory)
        self.publisher = StatusPublisher(
            clock=clock,
            wall=clock.wall,
            engine="native",
            stalled_after_s=1e6,
            journal=directory,
        )
        self.observer = TelemetryObserver(
            log=RecordedLog(),
            metrics=self.metrics,
            journal=self.journal,
            publisher=self.publisher,
            clock=clock,
            wall=clock.wall,
        )

    def add(self, number: int, size: int, to: int = 4) -> None:
        """Accept a partition of a known size that replaces 3 by a broker."""
        self.built.with_partition(tp(number), ORIGINAL, state=partition_state(1, ORIGINAL))
        self.built.with_reassignment(tp(number), (1, 2, to), since=self.clock.at)
        self.sizes[number] = self.view.disks_process.sizes[tp(number)] = size

    def to(self, number: int) -> BrokerId:
        """Return the broker that a partition is copied to."""
        return self.view.reassignments.by_partition[tp(number)].spec.target[2]

    def begin(self, number: int) -> None:
        """Begin the step of a partition."""
        to = self.to(number)
        self.built.with_partition(tp(number), (1, 2, to, 3), adding=(to,), removing=(3,))
        self.view.reassignments.by_partition[tp(number)].step = 1
        step_begins(
            self.built,
            lambda event: self.observer.on_event(event, self.view),
            self._commit,
            at=self.clock.at,
            partition=tp(number),
        )
        copies = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, f"replica {to}", is_copying=True)
        self.view.reassignments.by_partition[tp(number)].wait(copies, self.clock.at)

    def _commit(self, record: PhaseRecord) -> None:
        self.observer.on_committed(Change((record,)), self.view)

    def read(self, number: int, held: int) -> None:
        """Read the bytes of a copy."""
        self.view.disks_process.sizes[tp(number)] = self.sizes[number]
        read = report(self.to(number), {tp(number): held}, at=self.clock.at)
        self.observer.on_event(read, self.view)

    def end(self, number: int) -> None:
        """Let a copy join the ISR, and the reassignment end."""
        view, partition, to = self.view, tp(number), self.to(number)
        view.leadership.states[partition] = state = partition_state(1, (1, 2, to))
        self.observer.on_event(StatesRead({partition: state}), view)
        self.built.with_partition(partition, (1, 2, to))
        request = view.requests.by_id[REQUEST]
        request.open, request.done_here = request.open - 1, request.done_here + 1
        if partition in view.disks_process.sizes:
            size = view.disks_process.sizes.pop(partition)
            request.moved_bytes = (request.moved_bytes or 0) + size
        del view.reassignments.by_partition[partition]
        phase = PhaseRecord(partition, Ended(), self.clock.at, "done")
        ended = SpecEndedRecord(partition, None, REQUEST, DONE)
        self.observer.on_committed(Change((phase, ended)), view)

    def go(self, seconds: float) -> dict[str, Any]:
        """Let time pass, and return the status document."""
        self.clock.go(seconds)
        self.observer.tend(self.view, at_once=True)
        assert self.publisher.latest is not None
        return dict(self.publisher.latest.status)

    def fail_over(self, directory: Path | None = None) -> None:
        """
        Let another process take over, which finds the steps in flight and knows no size yet.

        It has the journal of the former one, unless it has a directory of its own.
        """
        self.journal.close()
        view, request = self.view, self.view.requests.by_id[REQUEST]
        view.disks_process.sizes.clear()
        request.moved_bytes, request.done_here, request.is_inherited = None, 0, True
        request.since = self.clock.at
        self._start(directory or self._directory)
        for reassignment in view.reassignments.by_partition.values():
            reassignment.inherited = True
            if reassignment.in_flight:
                reassignment.phase, reassignment.phase_since = Expanding(), self.clock.at
        self.observer._phases.take_up(view)

    def resume(self, number: int) -> None:
        """Continue a step that was found in flight."""
        reassignment = self.view.reassignments.by_partition[tp(number)]
        is_native = self.view.role.engine is EngineName.NATIVE
        for phase in (Starting(5, None), Syncing()) if is_native else (Syncing(),):  # type: ignore[arg-type] # an epoch
            reassignment.phase, reassignment.phase_since = phase, self.clock.at
            self._commit(PhaseRecord(tp(number), phase, self.clock.at, "resumed"))
