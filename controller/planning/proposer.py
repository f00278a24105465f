"""
The small planner: moves as few replicas as possible, for topics that fit into one look.

First every partition gets what the goal forces on it: off the brokers that are emptied, the
replication factor, racks. Then, where that is wished, brokers are evened out; a replica that is
copied anyway goes elsewhere for nothing, another costs one copy. Everything is done in a fixed
order, so the same cluster has the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.core.model import TopicPartition
from controller.errors import InvalidInputError
from controller.planning.draft import Draft
from controller.planning.even_out import even_out, fill
from controller.planning.leadership import Leaderships
from controller.planning.lower_bounds import copies_of_partition, copies_to_balance, copies_to_fill
from controller.planning.placement import wanted_racks
from controller.planning.plan_goal import Assignment, PlanGoal, Proposal, replica_counts


def propose(
    before: Assignment, goal: PlanGoal, sizes: Mapping[TopicPartition, int] | None = None
) -> Proposal:
    """
    Plan.

    Args:
        before: The replicas of every partition that may move; all others are left alone.
        goal: What to achieve.
        sizes: Bytes of partitions, as far as they are known; the smaller ones move.

    Raises:
        PlanInvalidError: nothing could achieve it.

    """
    _check(before, goal)
    draft = Draft(before, goal, sizes or {})
    for partition in draft.partitions:
        _satisfy(draft, partition)
    notes: list[str] = []
    if goal.rebalance and not even_out(draft):
        notes.append("replicas do not come out even: racks stand against it")
    elif goal.receivers and not fill(draft, goal.receivers):
        notes.append("not every broker could be filled to an even share: racks stand against it")
    order = Leaderships(before, draft.replicas, goal.brokers)
    if (goal.rebalance or goal.receivers) and not even_out(order):
        notes.append("leaders do not come out even with the replicas where they are")
    return Proposal(
        before={p: tuple(before[p]) for p in sorted(before)},
        after=order.assignment(),
        copies_min=copies_min(before, goal),
        notes=tuple(notes),
    )


def copies_min(before: Assignment, goal: PlanGoal) -> int:
    """Return how many replicas any plan with this goal copies at least."""
    forced = sum(
        copies_of_partition(
            replicas,
            replication_factor=goal.factor_of(replicas),
            brokers=goal.brokers,
            racks=goal.racks,
            racks_min=wanted_racks(
                replicas, goal.factor_of(replicas), goal.brokers, goal.racks, widest=goal.widest
            ),
        )
        for replicas in before.values()
    )
    counts = replica_counts(before, goal.brokers)
    current = {broker: counts[broker] for broker in goal.brokers}
    total = sum(goal.factor_of(replicas) for replicas in before.values())
    if goal.rebalance:
        return max(forced, copies_to_balance(current, total))
    return max(forced, copies_to_fill(current, total, goal.receivers))


def _check(before: Assignment, goal: PlanGoal) -> None:
    for problem in _problems(before, goal):
        raise InvalidInputError(problem)


def _problems(before: Assignment, goal: PlanGoal) -> Iterator[str]:
    if not goal.brokers:
        yield "no broker is left that may hold a replica"
    if goal.replication_factor is not None and goal.replication_factor < 1:
        yield f"a replication factor of {goal.replication_factor} is none"
    strangers = goal.receivers - goal.brokers
    if strangers:
        yield f"broker {','.join(map(str, sorted(strangers)))} is to be filled and emptied"
    for partition, replicas in before.items():
        if not replicas:
            yield f"{partition} has no replica"
        if goal.factor_of(replicas) > len(goal.brokers):
            yield (
                f"{partition} is to have {goal.factor_of(replicas)} replicas, but only "
                f"{len(goal.brokers)} brokers may hold one"
            )


def _satisfy(draft: Draft, partition: TopicPartition) -> None:
    """Give a partition as many replicas as it is to have, where they may be."""
    factor = draft.goal.factor_of(draft.before[partition])
    replicas = draft.replicas[partition]
    for broker in [b for b in replicas if b not in draft.goal.brokers]:
        draft.take(partition, broker)
    while len(replicas) > factor:
        draft.take(partition, draft.worst_of(partition))
    while len(replicas) < factor:
        draft.put(partition, draft.best_for(partition))
    while draft.racks_of(replicas) < draft.racks_min(partition):
        draft.take(partition, draft.worst_of(partition))
        draft.put(partition, draft.best_for(partition))
