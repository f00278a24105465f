"""
The leaderships of brokers: what an evacuation would move, and what would return.

Only the order of replicas is changed, and the first replica is elected: nothing is copied, and
Kafka's own balancing of leaders keeps to the new order. The order before the first evacuation is
remembered for each partition; from it and from the brokers that are evacuated follows the order
that a partition is to have. A partition whose order was changed in another way since is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.core.model import (
    NO_LEADER,
    BrokerId,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    TopicPartition,
    count_text,
)
from controller.core.pacing.controls import Evacuations
from controller.doctor import findings
from controller.previews.holds import by_reason
from controller.units import ids, names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

Orders = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True)
class LeaderMoves:
    """The partitions whose leadership is to move, by the order that they are to have."""

    orders: Orders = field(default_factory=dict)
    """Those that have to be requested."""
    under_way: Orders = field(default_factory=dict)
    """Those that a request moves already."""
    left: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Those that cannot move now, and why."""
    changed: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Of a return: those whose replicas another client changed since, and how."""
    former: Orders = field(default_factory=dict)
    """The former order that has to be remembered from now on."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be moved."""
        return not (self.orders or self.under_way or self.left)


def order_without(
    former: Replicas, away: Collection[BrokerId], good: Collection[BrokerId], leader: BrokerId
) -> Replicas | None:
    """
    Return the order in which no broker that is away leads; None where no other replica can lead.

    The present leader stays where it may; otherwise the first good replica of the former order
    leads.
    """
    staying = [r for r in former if r not in away]
    able = [r for r in staying if r in good]
    if not able:
        return None
    first = leader if leader in able else able[0]
    rest = (r for r in staying if r != first)
    return (first, *rest, *(r for r in former if r in away))


def is_as_left(former: Replicas, present: Replicas, away: Collection[BrokerId]) -> bool:
    """Return whether an order follows from a former one by evacuations of some of these brokers."""
    if present == former:
        return True
    kept = [r for r in present[1:] if r not in away]
    expected = [r for r in former if r not in away and r != present[0]]
    return set(former) == set(present) and kept == expected


class BrokerLeaderships:
    """The partitions of some brokers, with their leaders and reassignments, as read once."""

    def __init__(self, operator: OperatorClient, brokers: Collection[BrokerId]) -> None:
        """Read the partitions with a replica on one of the brokers; records before topics."""
        self._brokers = frozenset(brokers)
        recorded = operator.partitions.reassigned_partitions()
        specs = operator.partitions.specs(recorded)
        self._doomed = operator.partitions.deletions()
        self._assignments = dict(self._concerned(operator))
        self._specs = {p: s for p, s in specs.items() if p in self._assignments and s is not None}
        self._states = operator.partitions.states(self._assignments)
        self.live = frozenset(operator.cluster.brokers())

    def _concerned(
        self, operator: OperatorClient
    ) -> Iterator[tuple[TopicPartition, PartitionAssignment]]:
        for name, topic in operator.partitions.readable_topics().items():
            for number, assignment in topic.partitions.items():
                if not self._brokers.isdisjoint(assignment.replicas):
                    yield TopicPartition(name, number), assignment

    def led(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions that a broker leads."""
        found = (p for p, s in self._states.items() if _leader(s) == broker)
        return sorted(found) if broker in self.live else []

    def leader_text(self, partition: TopicPartition) -> str:
        """Return the present leader of a partition in words."""
        leader = _leader(self._states.get(partition))
        return "none" if leader == NO_LEADER else str(leader)

    def replicas(self, partition: TopicPartition) -> Replicas:
        """Return the present replicas of a partition."""
        found = self._assignments.get(partition)
        return () if found is None else found.replicas

    def lacking(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions in sync on a broker of which another replica is not in sync."""
        return sorted(
            p
            for p, state in self._states.items()
            if isinstance(state, PartitionState)
            and broker in state.isr
            and not set(self._assignments[p].replicas) <= set(state.isr)
        )

    def verdict(self, broker: BrokerId, found: Evacuations) -> str:
        """Say of an evacuated broker whether it can be restarted, or what is to move before."""
        led, about = len(self.led(broker)), found.brokers[broker]
        if about.returning:
            return f"broker {broker} leads {count_text(led, 'partition')}"
        if not led and not self.moves_away(found, [broker]).is_over:
            return (
                f"broker {broker} leads no partition now, but would again: run `reassigner leaders "
                f"--evacuate {broker}`"
            )
        return self.restart_text(broker)

    def restart_text(self, broker: BrokerId) -> str:
        """Say whether a broker can be restarted."""
        return findings.restart_text(
            broker,
            leads=len(self.led(broker)),
            is_live=broker in self.live,
            lacking=names_text(self.lacking(broker)),
        )

    def moves_away(self, found: Evacuations, brokers: Collection[BrokerId]) -> LeaderMoves:
        """Return what has to move so that brokers lead nothing, besides those that are away."""
        away = found.away.union(brokers)
        moves = _Collected()
        for partition, assignment in sorted(self._assignments.items()):
            present, state = assignment.replicas, self._states.get(partition)
            leader = _leader(state)
            wanted = self._wanted(partition)
            preferred = present[0] if wanted is None else wanted[0]
            if leader not in brokers and preferred not in brokers:
                if wanted is not None and present[0] in brokers:
                    moves.under_way[partition] = wanted
                continue
            good = self._good(state)
            if wanted is not None and wanted[0] not in away and wanted[0] in good:
                moves.under_way[partition] = wanted
                continue
            why = self._obstacle(partition)
            former = found.former.get(partition, present)
            if not is_as_left(former, present, found.brokers):
                former = present
            target = order_without(former, away, good, leader)
            if why is None and target is None:
                why = "no other replica is in sync" if len(present) > 1 else "it has no other"
            if why is not None or target is None:
                moves.left[partition] = why or ""
            else:
                moves.orders[partition] = target
                moves.former[partition] = former
        return moves.moves()

    def moves_back(self, found: Evacuations, brokers: Collection[BrokerId]) -> LeaderMoves:
        """Return what has to move so that partitions have their former order again."""
        away = found.away.difference(brokers)
        moves = _Collected(dict(found.former))
        for partition, former in sorted(found.former.items()):
            if set(former).isdisjoint(brokers):
                continue
            assignment = self._assignments.get(partition)
            if assignment is None:
                moves.changed[partition] = "it has other replicas, or does not exist any more"
                del moves.former[partition]
                continue
            present, state = assignment.replicas, self._states.get(partition)
            leader, wanted = _leader(state), self._wanted(partition)
            target: Replicas | None = former
            if former[0] in away:
                target = order_without(former, away, self._good(state), leader)
            why = self._obstacle(partition)
            if why is not None:
                moves.left[partition] = why
            elif not is_as_left(former, present, found.brokers):
                moves.changed[partition] = f"its replicas are {list(present)} since"
                del moves.former[partition]
            elif target is None or (wanted is None and target == present and leader == target[0]):
                if target == former:
                    del moves.former[partition]
            elif wanted == target:
                moves.under_way[partition] = target
            else:
                moves.orders[partition] = target
        return moves.moves()

    def _wanted(self, partition: TopicPartition) -> Replicas | None:
        """Return the order to which a reassignment of the order alone leads."""
        spec = self._specs.get(partition)
        if isinstance(spec, ReassignmentSpec) and spec.is_order_alone:
            return spec.target
        return None

    def _obstacle(self, partition: TopicPartition) -> str | None:
        """Return why the order of a partition is not changed now."""
        spec, state = self._specs.get(partition), self._states.get(partition)
        if partition.topic in self._doomed:
            return "its topic is queued for deletion"
        if isinstance(spec, ReassignmentSpec) and not spec.is_order_alone:
            return f"it is being reassigned by {spec.request}"
        if isinstance(spec, str):
            return f"its record cannot be decoded: {spec}"
        if self._assignments[partition].is_reassigning:
            return "it is being reassigned"
        if not isinstance(state, PartitionState):
            return f"its state is unknown: {state or 'it has none'}"
        return None

    def _good(self, state: PartitionState | str | None) -> Replicas:
        """Return the live replicas in sync."""
        isr = state.isr if isinstance(state, PartitionState) else ()
        return tuple(r for r in isr if r in self.live)


@dataclass(slots=True)
class _Collected:
    """Leader moves as they are found."""

    former: dict[TopicPartition, Replicas] = field(default_factory=dict)
    orders: dict[TopicPartition, Replicas] = field(default_factory=dict)
    under_way: dict[TopicPartition, Replicas] = field(default_factory=dict)
    left: dict[TopicPartition, str] = field(default_factory=dict)
    changed: dict[TopicPartition, str] = field(default_factory=dict)

    def moves(self) -> LeaderMoves:
        """Return them."""
        return LeaderMoves(self.orders, self.under_way, self.left, self.changed, self.former)


def _leader(state: PartitionState | str | None) -> BrokerId:
    return state.leader if isinstance(state, PartitionState) else NO_LEADER


def verdicts(operator: OperatorClient) -> dict[BrokerId, str]:
    """Say of each evacuated broker whether it can be restarted, as ``leaders`` does."""
    found = operator.requests.evacuations()
    if not found.brokers:
        return {}
    leaderships = BrokerLeaderships(operator, found.brokers)
    return {broker: leaderships.verdict(broker, found) for broker in sorted(found.brokers)}


def leader_changes(
    operator: OperatorClient, brokers: Collection[BrokerId], orders: Orders
) -> Iterator[str]:
    """Describe the changes of leaders that orders of replicas bring."""
    leaderships = BrokerLeaderships(operator, brokers)
    for partition, order in sorted(orders.items()):
        yield (
            f"{partition}: leader {leaderships.leader_text(partition)} -> {order[0]}, replicas "
            f"{ids(leaderships.replicas(partition))} -> {ids(order)}"
        )


def left_lines(moves: LeaderMoves) -> Iterator[str]:
    """Describe what has not moved, by reason."""
    for why, partitions in by_reason(moves.left).items():
        yield f"{names_text(partitions)}: {why}"
    if moves.under_way:
        yield f"{names_text(moves.under_way)}: being moved; see `reassigner status`"
