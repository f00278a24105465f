"""
Leaders that wait for an answer that they will not get.

Up to Kafka 2.8, a leader may get a new leader epoch while a request of the former one is under way.
When that request is answered, the leader drops the next one unsent. It changes no ISR until it gets
another leader epoch (KAFKA-12686). So another one is written a moment after such an answer. It is
also written after a claim, where a live replica is outside the ISR: another controller may have
answered. No epoch is written where the leader asks for a change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core import wakeups
from controller.core.broker_requests import (
    FENCED_LEADER_EPOCH,
    AlterPartition,
    AlterPartitionResponse,
    BrokerAnswer,
    BrokerAsk,
)
from controller.core.model import Instant, PartitionState, TopicPartition
from controller.core.state.tenure import LostAsk
from controller.core.view import ClusterView

ANEW_S: Final = 2.0
"""How long the leader has to handle the answer and to ask by itself."""
FORGETTING: Final = 0
"""The version of the request in the releases that forget; others have it as well."""


def overtaken(request: BrokerAsk, answer: BrokerAnswer) -> tuple[TopicPartition, ...]:
    """Return the partitions whose leader asked with a former leader epoch, and may forget more."""
    if not isinstance(request, AlterPartition) or not isinstance(answer, AlterPartitionResponse):
        return ()
    if request.version > FORGETTING:
        return ()
    return tuple(
        TopicPartition(result.topic, result.partition)
        for result in answer.results
        if result.error == FENCED_LEADER_EPOCH
        and result.leader == request.broker
        and result.topic is not None
    )


def due_at(view: ClusterView) -> list[Instant]:
    """Return when leaders will have had their time."""
    return [Instant(lost.since + ANEW_S) for lost in view.tenure.lost_asks.values()]


# --- folding in ----------------------------------------------------------------------------------


def answered(view: ClusterView, partitions: Iterable[TopicPartition], now: Instant) -> None:
    """Note the partitions of ``overtaken``."""
    for partition in partitions:
        view.tenure.lost_asks[partition] = LostAsk(now, was_answered=True)
        wakeups.wake(view.due, wakeups.Finding.ASK_CONCERNED)


def first_read(
    view: ClusterView, partition: TopicPartition, state: PartitionState, now: Instant
) -> None:
    """Note a partition whose leader may have asked another controller before the claim."""
    assignment = view.session.known_assignment(partition)
    if view.options.endpoint is None or assignment is None:
        return
    if any(r not in state.isr and view.is_live(r, partition) for r in assignment.replicas):
        view.tenure.lost_asks[partition] = LostAsk(now, was_answered=False)
        wakeups.wake(view.due, wakeups.Finding.ASK_CONCERNED)


def written(
    view: ClusterView,
    partition: TopicPartition,
    before: PartitionState | None,
    state: PartitionState,
) -> None:
    """
    Note that a state is written: the leader asked for it, or hears of its leader epoch.

    A leader may hear of an epoch before the answer to its former request. Then it forgets the
    request of that epoch, too.
    """
    tenure = view.tenure
    tenure.asking_anew.discard(partition)
    lost = tenure.lost_asks.get(partition)
    if lost is None:
        return
    has_asked = before is not None and before.leader_epoch == state.leader_epoch
    if has_asked or not lost.was_answered:
        del tenure.lost_asks[partition]


def time_passed(view: ClusterView, now: Instant) -> None:
    """Have the next leader epoch written where the leader had its time."""
    tenure = view.tenure
    for partition in [p for p, lost in tenure.lost_asks.items() if now >= lost.since + ANEW_S]:
        del tenure.lost_asks[partition]
        tenure.asking_anew.add(partition)
        view.due.add((partition,))
