"""
Daemons that die at the boundaries of what is asked of them, on real brokers and under a producer.

A few cells of the simulation's table (``tests/sim/request_shapes``): a plan is cancelled, a request
overtaken, accepted, throttled. The brokers' copies are held by a broker that is frozen until the
daemon is dead, so that the step is in flight when the second word comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import NATIVE
from integration.rigs.failpoints import Failpoint
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_end,
    await_tenure,
    children,
    configured,
    plan_of,
    submit,
)
from integration.rigs.recovery_cells import (
    DIES_WITHIN_S,
    ENDS_WITHIN_S,
    OPTIONS,
    Hand,
    Left,
    await_death,
    judge_kafkas_end,
    nothing_lost,
)
from integration.rigs.requests import CANCEL, REQUESTS, cancel, submit_request
from integration.rigs.waiting import eventually

SAFE: Final = {"min.insync.replicas": "2"}
APPLIED_THROTTLES: Final = "/reassigner/throttles"
RATE: Final = 50_000_000
THROTTLES: Final = frozenset(
    f"{side}.replication.throttled.{what}"
    for side in ("leader", "follower")
    for what in ("rate", "replicas")
)
"""The dynamic settings that a throttle is made of."""
ORIGINAL: Final = (1, 2, 3)
FIRST: Final = {0: (5, 4, 3), 1: (5, 1, 2)}
OTHER: Final = {0: (4, 2, 1), 1: (2, 4, 3)}
BACK: Final = dict.fromkeys(FIRST, ORIGINAL)


@dataclass(frozen=True, slots=True)
class RequestCase:
    """What is asked first and, while the first steps copy, what is asked second."""

    name: str
    first: Callable[[Cluster, Targets], object]
    second: Callable[[Cluster, str], object] | None = None
    ends: Mapping[int, tuple[int, ...]] | None = None


def plan(cluster: Cluster, targets: Targets) -> object:
    """Ask by the legacy znode."""
    return submit(cluster, plan_of(targets))


def others(cluster: Cluster, topic: str) -> object:
    """Ask for other replicas of the same partitions."""
    return submit_request(cluster, {(topic, n): replicas for n, replicas in OTHER.items()})


CANCELLED: Final = RequestCase("cancel", plan, lambda cluster, _: cancel(cluster), BACK)
TURNED: Final = RequestCase("turn", submit_request, others, OTHER)
REQUESTED: Final = RequestCase("request", submit_request)
THROTTLED: Final = RequestCase(
    "throttle", lambda cluster, targets: submit_request(cluster, targets, throttle=RATE)
)
CELLS: Final = [
    pytest.param(row, case, failpoint, hand, id=f"{row.name}-{case.name}-{failpoint}-{hand}")
    for row in NATIVE
    for case, failpoint, hands in (
        (CANCELLED, Failpoint.CANCELLED, (Hand.RESTARTED, Hand.KAFKA)),
        (CANCELLED, Failpoint.STEP_TURNED, (Hand.RESTARTED, Hand.KAFKA)),
        (CANCELLED, Failpoint.CANCELLATION_ENDED, (Hand.RESTARTED,)),
        (TURNED, Failpoint.RETARGETED, (Hand.RESTARTED,)),
        (TURNED, Failpoint.STEP_TURNED, (Hand.RESTARTED, Hand.KAFKA)),
        (REQUESTED, Failpoint.REQUEST_OPENED, (Hand.RESTARTED,)),
        (REQUESTED, Failpoint.REQUEST_DELETED, (Hand.KAFKA,)),
        (THROTTLED, Failpoint.THROTTLED, (Hand.RESTARTED,)),
        (THROTTLED, Failpoint.BEFORE_UNTHROTTLED, (Hand.RESTARTED,)),
    )
    for hand in hands
]


@pytest.fixture
def cluster(native_cluster: Cluster) -> Iterator[Cluster]:
    """Give the cluster of a row with everything up."""
    native_cluster.heal()
    yield native_cluster
    native_cluster.heal()


@pytest.mark.parametrize(
    ("native_cluster", "case", "failpoint", "hand"), CELLS, indirect=["native_cluster"]
)
def test_the_last_request_is_carried_out_with_each_successor(  # noqa: PLR0913, PLR0917 - fixtures
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    case: RequestCase,
    failpoint: Failpoint,
    hand: Hand,
) -> None:
    """Kill -9 of itself, then the hand: no order, no throttle and no stray directory is left."""
    topic = make_topic(dict.fromkeys(FIRST, ORIGINAL), SAFE)
    before = throttles(cluster, topic)  # other tests leave rates of their own
    doomed = daemons.start(*OPTIONS, "--tenure", "permanent", failpoint=("die", failpoint))
    await_tenure(doomed)
    with nothing_lost(cluster, {topic: len(FIRST)}):
        if case.second is not None:
            cluster.brokers[5].freeze()
        case.first(cluster, {(topic, n): replicas for n, replicas in FIRST.items()})
        if case.second is not None:
            eventually(
                lambda: len((cluster.topic(topic) or {}).get("adding_replicas", {})) == len(FIRST),
                within_s=DIES_WITHIN_S,
                every_s=0.02,
                what="the first steps are in flight",
            )
            case.second(cluster, topic)
            if failpoint is Failpoint.CANCELLATION_ENDED:
                cluster.brokers[5].thaw()
        await_death(doomed)
        cluster.brokers[5].thaw()
        if hand is Hand.KAFKA:
            judge_kafkas_end(cluster, topic, Left.behind(cluster, topic))
        daemons.start(*OPTIONS)
        ends = {(topic, n): replicas for n, replicas in (case.ends or FIRST).items()}
        await_end(cluster, ends, within_s=ENDS_WITHIN_S, any_leader=True)
        eventually(lambda: not left(cluster), within_s=30, what=lambda: f"left: {left(cluster)}")
    assert throttles(cluster, topic) == before


def throttles(cluster: Cluster, topic: str) -> list[tuple[str, str, str]]:
    """Return every throttle that is set on a broker or the topic."""
    entities = [*(f"brokers/{n}" for n in sorted(cluster.brokers)), f"topics/{topic}"]
    return [
        (entity, key, value)
        for entity in entities
        for key, value in sorted(configured(cluster, entity).items())
        if value and key in THROTTLES
    ]


def left(cluster: Cluster) -> list[str]:
    """Return what is still asked of the daemon, and what it lent."""
    order = [CANCEL] if cluster.zk.exists(CANCEL) is not None else []
    return [*children(cluster, REQUESTS), *children(cluster, APPLIED_THROTTLES), *order]
