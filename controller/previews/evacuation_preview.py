"""
The leaderships of brokers: what an evacuation would move, and what would return.

Only the order of replicas is changed, and the first replica is elected: nothing is copied, and
Kafka's own balancing of leaders keeps to the new order. The order before the first evacuation is
remembered for each partition; from it and from the brokers that are evacuated follows the order
that a partition is to have. A partition whose order was changed in another way since is left. The
next leader is the replica in sync whose broker leads fewest partitions then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

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
LEADERS_MAX: Final = 20_000
"""Of more partitions the leaders are not read: each is a znode."""


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


class _Choice(NamedTuple):
    """A partition with the replicas that can lead it."""

    able: Replicas
    """In the former order."""
    partition: TopicPartition
    former: Replicas
    leader: BrokerId
    """At present."""


def _balanced_orders(
    choices: Collection[_Choice], away: Collection[BrokerId], leaders: Mapping[BrokerId, int]
) -> dict[TopicPartition, Replicas]:
    """
    Return the order of each partition in which no broker that is away leads.

    The present leader stays where it may; otherwise the broker leads that has fewest of the
    ``leaders``, those chosen here included. What has the least choice is chosen first.
    """
    counts, first = Counter(leaders), dict[TopicPartition, BrokerId]()
    for able, partition, _, leader in sorted(choices, key=lambda c: (len(c.able), c.partition)):
        chosen = leader if leader in able else min(able, key=lambda broker: counts[broker])
        first[partition] = chosen
        counts[chosen] += chosen != leader
    return {
        partition: _order_behind(first[partition], former, away)
        for _, partition, former, _ in sorted(choices, key=lambda c: c.partition)
    }


def _order_behind(first: BrokerId, former: Replicas, away: Collection[BrokerId]) -> Replicas:
    """Return a former order with another first replica, and those that are away at its end."""
    rest = (r for r in former if r not in away and r != first)
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
        self._operator = operator
        self._doomed = operator.partitions.deletions()
        self._others: dict[TopicPartition, Replicas] = {}
        """The replicas of the other partitions."""
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
                else:
                    self._others[TopicPartition(name, number)] = assignment.replicas

    def led(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions that a broker leads."""
        found = (p for p, s in self._states.items() if _leader(s) == broker)
        return sorted(found) if broker in self.live else []

    def leader(self, partition: TopicPartition) -> BrokerId:
        """Return the present leader of a partition."""
        return _leader(self._states.get(partition))

    @cached_property
    def leaders(self) -> Counter[BrokerId]:
        """The partitions that each broker leads; of very many, the others by preferred leader."""
        found = Counter(map(self.leader, self._assignments))
        if len(self._assignments) + len(self._others) <= LEADERS_MAX:
            others = self._operator.partitions.states(self._others)
            found.update(map(_leader, others.values()))
        else:
            found.update(r[0] for r in self._others.values() if r and r[0] in self.live)
        del found[NO_LEADER]
        return found

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
        moves, choices = _Collected(), list[_Choice]()
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
            able = tuple(r for r in former if r not in away and r in good)
            if why is None and not able:
                why = "no other replica is in sync" if len(present) > 1 else "it has no other"
            if why is not None:
                moves.left[partition] = why
            else:
                choices.append(_Choice(able, partition, former, leader))
                moves.former[partition] = former
        moves.orders |= self._chosen(choices, away, moves)
        return moves.moves()

    def _chosen(
        self, choices: Collection[_Choice], away: Collection[BrokerId], moves: _Collected
    ) -> dict[TopicPartition, Replicas]:
        """Return the new orders, with the leaders balanced when everything has moved."""
        if not choices:
            return {}
        leaders = Counter(self.leaders)
        for partition, target in (*moves.under_way.items(), *moves.orders.items()):
            leaders[self.leader(partition)] -= 1
            leaders[target[0]] += 1
        return _balanced_orders(choices, away, leaders)

    def moves_back(self, found: Evacuations, brokers: Collection[BrokerId]) -> LeaderMoves:
        """Return what has to move so that partitions have their former order again."""
        away = found.away.difference(brokers)
        moves, choices = _Collected(dict(found.former)), list[_Choice]()
        for partition, former in sorted(found.former.items()):
            if set(former).isdisjoint(brokers):
                continue
            assignment = self._assignments.get(partition)
            if assignment is None:
                moves.changed[partition] = "it has other replicas, or does not exist any more"
                del moves.former[partition]
                continue
            present, wanted = assignment.replicas, self._wanted(partition)
            leader, target = self.leader(partition), self._order_back(partition, former, away)
            why = self._obstacle(partition)
            if why is not None:
                moves.left[partition] = why
            elif not is_as_left(former, present, found.brokers):
                moves.changed[partition] = f"its replicas are {list(present)} since"
                del moves.former[partition]
            elif isinstance(target, _Choice):
                choices.append(target)
            elif target is None or (wanted is None and target == present and leader == target[0]):
                if target == former:
                    del moves.former[partition]
            elif wanted == target:
                moves.under_way[partition] = target
            else:
                moves.orders[partition] = target
        moves.orders |= self._chosen(choices, away, moves)
        return moves.moves()

    def _order_back(
        self, partition: TopicPartition, former: Replicas, away: Collection[BrokerId]
    ) -> Replicas | _Choice | None:
        """Return the order that a partition is to have again; None where no replica can lead."""
        if former[0] not in away:
            return former
        good, leader = self._good(self._states.get(partition)), self.leader(partition)
        able = tuple(r for r in former if r not in away and r in good)
        wanted = self._wanted(partition) or ()
        first = next((broker for broker in (leader, *wanted[:1]) if broker in able), None)
        if first is not None:
            return _order_behind(first, former, away)
        return _Choice(able, partition, former, leader) if able else None

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


@dataclass(frozen=True, slots=True)
class LeaderForecast:
    """What orders of replicas change."""

    changes: Sequence[str] = ()
    """Each new leader in words, and the partitions of which only the order of replicas changes."""
    leaders: Mapping[BrokerId, tuple[int, int]] = field(default_factory=dict)
    """The partitions that brokers lead, now and then."""
    moved: int = 0
    """The partitions with another leader."""

    def lines(self) -> Iterator[str]:
        """Describe the changes, and then their sum by broker."""
        yield from self.changes
        for broker, (now, then) in self.leaders.items():
            yield f"broker {broker}: leads {count_text(now, 'partition')} now, {then} then"


def forecast_leaders(
    operator: OperatorClient, brokers: Collection[BrokerId], orders: Orders
) -> LeaderForecast:
    """Return the changes of leaders that orders of replicas bring."""
    if not orders:
        return LeaderForecast()
    leaderships = BrokerLeaderships(operator, brokers)
    changes, alike, then = [], list[TopicPartition](), Counter(leaderships.leaders)
    for partition, order in sorted(orders.items()):
        leader = leaderships.leader(partition)
        if leader == order[0]:
            alike.append(partition)
            continue
        then[leader] -= 1
        then[order[0]] += 1
        present = ids(leaderships.replicas(partition))
        named = "none" if leader == NO_LEADER else str(leader)
        changes.append(
            f"{partition}: leader {named} -> {order[0]}, replicas {present} -> {ids(order)}"
        )
    if alike:
        changes.append(f"{names_text(alike)}: the leader stays, the order of replicas changes")
    shown = sorted({broker for order in orders.values() for broker in order})
    leaders = {broker: (leaderships.leaders[broker], then[broker]) for broker in shown}
    return LeaderForecast(changes, leaders, len(orders) - len(alike))


def left_lines(moves: LeaderMoves) -> Iterator[str]:
    """Describe what has not moved, by reason."""
    for why, partitions in by_reason(moves.left).items():
        yield f"{names_text(partitions)}: {why}"
    if moves.under_way:
        yield f"{names_text(moves.under_way)}: being moved; see `reassigner status`"
