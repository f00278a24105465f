"""
What a step may have to wait for in one cycle: holds of operators, and the limits.

The budget starts from what is in flight and is counted down as steps are planned. A step costs a
slot, a copy into each broker it adds, a copy out of the leader, and the bytes of those copies where
the size is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from controller.core.disks.disk_budget import DiskBudget
from controller.core.model import (
    NO_BROKERS,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    TopicPartition,
    request_text,
)
from controller.core.pacing import isr_health, limits_in_force
from controller.core.pacing.model import LimitKind
from controller.core.pacing.operator_holds import step_hold
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView


class Budget:
    """The capacity left in this cycle: what may still begin."""

    def __init__(
        self,
        view: ClusterView,
        now: Instant,
        hold: Blocked | None = None,
        health: Blocked | None = None,
    ) -> None:
        """
        Take the present counts of the view.

        ``hold`` forbids every new step; ``health`` those that copy, except rollbacks.
        """
        pacing = view.pacing
        self._view = view
        self._now = now
        self._in_flight = pacing.in_flight
        self._in_flight_max = limits_in_force.in_flight_max(view)
        self._of_requests: dict[RequestId, int] = {}
        self._incoming = Counter(pacing.incoming)
        self._outgoing = Counter(pacing.outgoing)
        self._bytes = pacing.bytes_in_flight
        self._moves: dict[BrokerId, int] = {}
        self._hold = hold
        self._health = health
        min_free = view.options.min_free
        self._disks = None if min_free is None else DiskBudget(view, now, min_free)
        self.refused_leader_moves = False
        """Whether a leader move has to wait for the next second."""

    @property
    def lacking_room(self) -> frozenset[BrokerId]:
        """The brokers whose disks had no room for a step of this cycle."""
        return NO_BROKERS if self._disks is None else frozenset(self._disks.lacking)

    @property
    def has_slot(self) -> bool:
        """Whether another partition may be in flight."""
        return self._hold is None and self._in_flight < self._in_flight_max

    def gate(
        self,
        partition: TopicPartition,
        reassignment: Reassignment,
        adding: Replicas,
        leader: BrokerId,
    ) -> Blocked | None:
        """Return the hold or limit that a step has to wait for."""
        if self._hold is not None:
            return self._hold
        brokers = (*adding, leader) if adding else ()
        held = step_hold(self._view, reassignment, brokers, self._now)
        if held is not None:
            return held
        if adding and not reassignment.spec.rolls_back:
            unwell = self._health or isr_health.exposure_gate(self._view, partition, brokers)
            if unwell is not None:
                return unwell
        request = reassignment.spec.request
        if self._in_flight >= self._in_flight_max:
            most = self._in_flight_max
            return _limit(limits_in_force.in_flight_text(most), LimitKind.PARTITIONS, most)
        cap = limits_in_force.in_flight_max_of(self._view, request)
        if cap is not None and self._count_of(request) >= cap:
            detail = limits_in_force.in_flight_text(cap, f" of {request_text(request)}")
            return _limit(detail, LimitKind.REQUEST, request, cap)
        blocked = self._copies(partition, adding, leader)
        if blocked is None and adding and self._disks is not None:
            blocked = self._disks.gate(partition, adding)
        return blocked

    def _copies(
        self, partition: TopicPartition, adding: Replicas, leader: BrokerId
    ) -> Blocked | None:
        view = self._view
        for broker in adding:
            if self._incoming[broker] >= limits_in_force.incoming_max(view, broker):
                detail = f"broker {broker} receives its limit of copies"
                return _limit(detail, LimitKind.INCOMING, broker)
        if adding and self._outgoing[leader] >= limits_in_force.outgoing_max(view, leader):
            detail = f"broker {leader} serves its limit of copies"
            return _limit(detail, LimitKind.OUTGOING, leader)
        most, size = limits_in_force.bytes_in_flight_max(view), self._size(partition, adding)
        # A partition larger than the limit starts alone rather than never.
        if most is not None and self._bytes and self._bytes + size > most:
            detail = f"{self._bytes} of {most} bytes are in flight"
            return _limit(detail, LimitKind.BYTES, self._bytes, most)
        return None

    def move_gate(
        self, partition: TopicPartition, reassignment: Reassignment, broker: BrokerId
    ) -> Blocked | None:
        """Return why a broker may not move a replica between directories now; else count it."""
        blocked = self._hold or step_hold(self._view, reassignment, (broker,), self._now)
        if blocked is None and self._disks is not None:
            blocked = self._disks.gate(partition, (broker,))
            if blocked is None:
                self._disks.take(partition, (broker,))
        return blocked

    def leader_gate(self, old: BrokerId, new: BrokerId) -> Blocked | None:
        """Return the limit that forbids a leader move now: each disturbs clients."""
        most = limits_in_force.leader_moves_max(self._view)
        for broker in (old, new):
            if self._moves_of(broker) >= most:
                self.refused_leader_moves = True
                detail = f"{most} leaderships of broker {broker} moved within a second"
                return Blocked(BlockedBy.LEADER_MOVES, detail)
        return None

    def move_leader(self, old: BrokerId, new: BrokerId) -> None:
        """Count a leader move of this cycle."""
        for broker in (old, new):
            self._moves[broker] = self._moves_of(broker) + 1

    def _moves_of(self, broker: BrokerId) -> int:
        if broker not in self._moves:
            since, count = self._view.leadership.leader_moves.get(broker, (self._now, 0))
            self._moves[broker] = count if self._now < since + 1.0 else 0
        return self._moves[broker]

    def _count_of(self, request: RequestId) -> int:
        if request not in self._of_requests:
            known = self._view.requests.by_id.get(request)
            self._of_requests[request] = 0 if known is None else known.in_flight
        return self._of_requests[request]

    def _size(self, partition: TopicPartition, adding: Replicas) -> int:
        return self._view.disks_process.sizes.get(partition, 0) * len(adding)

    def give_back(self, reassignment: Reassignment) -> None:
        """Count a step that ends in this cycle: its partition may use its own slot again."""
        load, request = reassignment.load, reassignment.spec.request
        self._in_flight -= 1
        self._of_requests[request] = self._count_of(request) - 1
        if load is None:
            return
        self._bytes -= load.size
        self._incoming.subtract(load.incoming)
        if load.outgoing is not None:
            self._outgoing[load.outgoing] -= 1

    def take(
        self, partition: TopicPartition, request: RequestId, adding: Replicas, leader: BrokerId
    ) -> None:
        """Count a step that begins in this cycle."""
        self._in_flight += 1
        self._of_requests[request] = self._count_of(request) + 1
        self._bytes += self._size(partition, adding)
        if adding and self._disks is not None:
            self._disks.take(partition, adding)
        self._incoming.update(adding)
        if adding:
            self._outgoing[leader] += 1


def _limit(detail: str, *obstacle: Hashable) -> Blocked:
    return Blocked(BlockedBy.LIMIT, detail, obstacle=obstacle)
