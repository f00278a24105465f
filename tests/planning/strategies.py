"""Clusters to plan for, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.core.topics.replica_choice import Racks
from controller.planning.plan_goal import PlanGoal, count_racks


@dataclass(frozen=True, slots=True)
class Problem:
    """A cluster and what is wished of it."""

    before: dict[TopicPartition, Replicas]
    goal: PlanGoal
    sizes: dict[TopicPartition, int]


def assignment(
    chances: Random, brokers: int, partitions_max: int = 20
) -> dict[TopicPartition, Replicas]:
    """Return where partitions of up to three topics are."""
    ids = [BrokerId(broker) for broker in range(brokers)]
    return {
        TopicPartition(chances.choice("abc"), number): tuple(
            chances.sample(ids, chances.randint(1, min(4, brokers)))
        )
        for number in range(chances.randint(1, partitions_max))
    }


@st.composite
def problems(
    draw: st.DrawFn, *, racks_max: int = 0, rebalance: bool | None = None, drains: bool = True
) -> Problem:
    """
    Draw a problem that can be solved.

    Args:
        draw: Hypothesis.
        racks_max: How many racks at most; none at all for 0.
        rebalance: Whether brokers are to be evened out, None for either.
        drains: Whether brokers may have to be emptied.

    """
    brokers = draw(st.integers(2, 7))
    # One draw for all of them: drawing each replica by itself takes most of the time.
    chances = Random(draw(st.integers(0, 2**32)))
    before = assignment(chances, brokers)
    widest = max(map(len, before.values()))
    keep = draw(st.integers(widest, brokers)) if drains else brokers
    racks = draw(st.integers(1, racks_max)) if racks_max else 0
    new = draw(st.integers(0, 2))
    allowed = frozenset(BrokerId(b) for b in [*range(keep), *range(brokers, brokers + new)])
    goal = PlanGoal(
        brokers=allowed,
        racks={
            BrokerId(b): f"rack-{chances.randrange(racks)}" for b in range(brokers + new) if racks
        },
        replication_factor=draw(st.none() | st.integers(1, len(allowed))),
        rebalance=draw(st.booleans()) if rebalance is None else rebalance,
        receivers=frozenset(BrokerId(b) for b in range(brokers, brokers + new)),
        widest=draw(st.booleans()) if racks else False,
    )
    sizes = {p: chances.randint(0, 1000) for p in before}
    return Problem(before, goal, sizes)


def placement_problems(
    replicas: Replicas, *, brokers: Collection[BrokerId], racks: Racks, racks_min: int = 0
) -> Iterator[str]:
    """
    Yield the problems of a placement.

    Args:
        replicas: The planned replicas.
        brokers: The brokers that may hold a replica.
        racks: Racks of all brokers.
        racks_min: Minimum number of racks, see ``wanted_racks``.

    """
    if not replicas:
        yield "it has no replica"
    if len(set(replicas)) < len(replicas):
        yield f"a broker appears twice in {_listed(replicas)}"
    strangers = [broker for broker in replicas if broker not in brokers]
    if strangers:
        yield f"broker {_listed(strangers)} is not to hold a replica"
    spread = count_racks(replicas, racks)
    if spread < racks_min:
        yield f"it is spread over {spread} racks instead of {racks_min}"


def _listed(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))
