"""
What the cluster's own controller is still to be told: one call at a time, the rest merges.

The newest order of a partition replaces one that was not sent yet. Invariant: what is handed over
stands on what is known at that moment; an order of which that is not so any more is withdrawn.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from controller.core.effects import AlterReassignment, ElectPreferred, ProbeReassignments
from controller.core.model import TopicPartition
from controller.core.partition.alter_preconditions import AlterPreconditions, preconditions_of
from controller.core.view import ClusterView
from controller.errors import InvariantError
from controller.reactor.ports import AlterEntry, Reassignments

ORDERS_AT_ONCE: Final = 1000
"""The controller answers a call when all of it is written: nobody should wait for too many."""


class AlterQueue:
    """The queue of one controller, whoever that is."""

    def __init__(self, controller: Reassignments | None) -> None:
        """Start empty; without anybody to tell, nothing may be added."""
        self._controller = controller
        self._orders: dict[TopicPartition, tuple[AlterEntry, AlterPreconditions | None]] = {}
        self._elections: dict[TopicPartition, None] = {}
        self._probes = False
        self._is_out = False

    def __bool__(self) -> bool:
        return bool(self._orders or self._elections or self._probes)

    def add(
        self, view: ClusterView, effect: AlterReassignment | ElectPreferred | ProbeReassignments
    ) -> None:
        """Queue what is asked for, an order with what it stands on."""
        match effect:
            case AlterReassignment(partition=partition, target=target, cancels=cancels):
                self._orders.pop(partition, None)
                order = AlterEntry(partition, target, cancels)
                self._orders[partition] = (order, preconditions_of(view, partition))
            case ElectPreferred(partitions=partitions):
                self._elections.update(dict.fromkeys(partitions))
            case ProbeReassignments():
                self._probes = True

    def withdraw(self, view: ClusterView) -> tuple[TopicPartition, ...]:
        """Take back, and return, what does not stand on what is known any more."""
        unsound = tuple(
            partition
            for partition, (_, grounds) in self._orders.items()
            if grounds is None or grounds != preconditions_of(view, partition)
        )
        for partition in unsound:
            del self._orders[partition]
        return unsound

    def answered(self) -> None:
        """Note that the last call was answered: the next may go."""
        self._is_out = False

    def clear(self) -> None:
        """Forget everything: we do not lead any more."""
        self._orders.clear()
        self._elections.clear()
        self._probes = self._is_out = False
        if self._controller is not None:
            self._controller.forget()

    def send(self) -> None:
        """
        Hand over what may go now.

        Raises:
            InvariantError: there is something to tell, and nobody to be told.

        """
        if self._is_out and self._controller is not None:
            self._controller.vouch()
        if not self:
            return
        if self._controller is None:
            raise InvariantError("there is no way to tell the cluster's controller what to move")
        if self._probes:
            self._probes = False
            self._controller.probe()
        if self._orders and not self._is_out:
            self._is_out = True
            taken = tuple(order for order, _ in islice(self._orders.values(), ORDERS_AT_ONCE))
            for order in taken:
                del self._orders[order.partition]
            self._controller.alter(taken)
        if self._elections:
            partitions = tuple(self._elections)
            self._elections.clear()
            self._controller.elect(partitions)
