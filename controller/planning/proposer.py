"""
The planner of ``generate``: reaches the goal for a few topics with as few copies as possible.

First it applies to every partition what the goal forces: no replica on emptied brokers, the
replication factor, the racks. Then, if the goal asks for it, it evens out the brokers; a replica
that is copied in any case moves at no cost, any other costs one copy. The order of all steps is
fixed, so the same cluster has the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.core.model import TopicPartition
from controller.errors import InvalidInputError
from controller.planning.draft import Draft, Leaderships
from controller.planning.even_out import even_out, fill
from controller.planning.lower_bounds import copies_of_partition, copies_to_balance, copies_to_fill
from controller.planning.placement import wanted_racks
from controller.planning.plan_goal import Assignment, PlanGoal, Proposal, replica_counts


def propose(
    before: Assignment, goal: PlanGoal, sizes: Mapping[TopicPartition, int] | None = None
) -> Proposal:
    """
    Plan the replicas of some partitions.

    Args:
        before: The current replicas of every partition that may change.
        goal: The goal.
        sizes: Bytes of partitions, as far as known; smaller ones move first.

    Raises:
        InvalidInputError: the goal cannot be reached.

    """
    _check(before, goal)
    draft = Draft(before, goal, sizes or {})
    for partition in draft.partitions:
        _satisfy(draft, partition)
    notes: list[str] = []
    if goal.rebalance and not even_out(draft):
        notes.append("replicas cannot be evened out because of racks")
    elif goal.receivers and not fill(draft, goal.receivers):
        notes.append("not every broker could be filled to an even share because of racks")
    order = Leaderships(before, draft.replicas, goal.brokers)
    if (goal.rebalance or goal.receivers) and not even_out(order):
        notes.append("leaders cannot be evened out with these replicas")
    return Proposal(
        before={p: tuple(before[p]) for p in sorted(before)},
        after=order.assignment(),
        copies_min=copies_min(before, goal),
        notes=tuple(notes),
    )


def copies_min(before: Assignment, goal: PlanGoal) -> int:
    """Return the minimum number of copies of any plan with this goal."""
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
        yield "no broker may hold a replica"
    if goal.replication_factor is not None and goal.replication_factor < 1:
        yield f"the replication factor must be positive, not {goal.replication_factor}"
    strangers = goal.receivers - goal.brokers
    if strangers:
        yield f"broker {','.join(map(str, sorted(strangers)))} cannot be both filled and emptied"
    for partition, replicas in before.items():
        if not replicas:
            yield f"{partition} has no replica"
        if goal.factor_of(replicas) > len(goal.brokers):
            yield (
                f"{partition} needs {goal.factor_of(replicas)} replicas, but only "
                f"{len(goal.brokers)} brokers may hold one"
            )


def _satisfy(draft: Draft, partition: TopicPartition) -> None:
    """Give a partition the planned number of replicas, on allowed brokers and in enough racks."""
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
