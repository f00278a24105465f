"""Queues of requests to the cluster's own controller, and of requests for log directories."""

from __future__ import annotations

from itertools import islice
from typing import Final

from controller.core.cluster.model import LiveBroker
from controller.core.effects import (
    AlterReassignment,
    ElectPreferred,
    PlaceReplica,
    ProbeReassignments,
)
from controller.core.model import TopicPartition
from controller.core.reassignments.gates import AlterPreconditions, preconditions_of
from controller.core.view import ClusterView
from controller.errors import InvariantError
from controller.reactor.ports import AlterEntry, LogDirs, Reassignments

ENTRIES_AT_ONCE: Final = 1000
"""Entries per call. The controller answers a call only after it has written all entries."""


class AlterQueue:
    """
    Requests to the controller, whichever broker has the role: one call at a time, others merge.

    The newest entry of a partition replaces an older one that was not handed over. Invariant: the
    preconditions of an entry hold at the moment it is handed over; an entry whose preconditions no
    longer hold is withdrawn (``core.reassignments.gates``).
    """

    def __init__(self, controller: Reassignments | None) -> None:
        self._controller = controller
        self._entries: dict[TopicPartition, tuple[AlterEntry, AlterPreconditions | None]] = {}
        self._elections: dict[TopicPartition, None] = {}
        self._probes = False
        self._is_out = False

    def __bool__(self) -> bool:
        return bool(self._entries or self._elections or self._probes)

    def add(
        self, view: ClusterView, effect: AlterReassignment | ElectPreferred | ProbeReassignments
    ) -> None:
        """Queue an effect, an entry together with its preconditions."""
        match effect:
            case AlterReassignment(partition=partition, target=target, cancels=cancels):
                self._entries.pop(partition, None)
                entry = AlterEntry(partition, target, cancels)
                self._entries[partition] = (entry, preconditions_of(view, partition))
            case ElectPreferred(partitions=partitions):
                self._elections.update(dict.fromkeys(partitions))
            case ProbeReassignments():
                self._probes = True

    def withdraw(self, view: ClusterView) -> tuple[TopicPartition, ...]:
        """Remove the entries whose preconditions changed; return their partitions."""
        unsound = tuple(
            partition
            for partition, (_, preconditions) in self._entries.items()
            if preconditions is None or preconditions != preconditions_of(view, partition)
        )
        for partition in unsound:
            del self._entries[partition]
        return unsound

    def note_answer(self) -> None:
        """Note that the last call was answered: the next may be handed over."""
        self._is_out = False

    def clear(self) -> None:
        """Drop everything: the daemon no longer leads."""
        self._entries.clear()
        self._elections.clear()
        self._probes = self._is_out = False
        if self._controller is not None:
            self._controller.forget()

    def send(self) -> None:
        """Hand over what may be sent now."""
        if self._is_out and self._controller is not None:
            self._controller.vouch()
        if not self:
            return
        if self._controller is None:
            raise InvariantError("no adapter sends requests to the cluster's controller")
        if self._probes:
            self._probes = False
            self._controller.probe()
        if self._entries and not self._is_out:
            self._is_out = True
            taken = tuple(entry for entry, _ in islice(self._entries.values(), ENTRIES_AT_ONCE))
            for entry in taken:
                del self._entries[entry.partition]
            self._controller.alter(taken)
        if self._elections:
            partitions = tuple(self._elections)
            self._elections.clear()
            self._controller.elect(partitions)


class PlacementQueue:
    """
    Requests for log directories of replicas: those of one cycle to one broker are one.

    A request for a broker that is not live any more is dropped: its registration has ended, and
    with it everything that depends on an answer.
    """

    def __init__(self, log_dirs: LogDirs | None) -> None:
        self._log_dirs = log_dirs
        self._placements: dict[LiveBroker, dict[TopicPartition, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._placements)

    def add(self, view: ClusterView, effect: PlaceReplica) -> None:
        """Queue a request."""
        broker = view.cluster.brokers.get(effect.broker)
        if broker is not None:
            self._placements.setdefault(broker, {})[effect.partition] = effect.directory

    def clear(self) -> None:
        """Drop everything: the daemon no longer leads."""
        self._placements.clear()
        if self._log_dirs is not None:
            self._log_dirs.forget()

    def send(self) -> None:
        """Hand over what is queued."""
        placements, self._placements = self._placements, {}
        for broker, replicas in placements.items():
            if self._log_dirs is not None:
                self._log_dirs.alter(broker, replicas)
