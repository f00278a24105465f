"""
Controlled shutdown: a broker requests to lose its leaderships before it stops (KIP-49, KIP-380).

From its request on the broker counts as not live wherever a controller chooses replicas: elections,
the ISR, replicas that a step adds. ``duties.repair`` moves its leaderships and takes it out of the
ISRs, as for a broker that died, except where only this broker can lead: there it leads until it
stops. The request is answered when nothing is left to move, with the partitions that it leads on.

The same rules as KafkaController.doControlledShutdown (3.9): partitions with one replica and topics
that are to be deleted are left alone and not part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller import kafka_errors
from controller.core import effects
from controller.core.calls.broker_requests import ControlledShutdown, ControlledShutdownAnswer
from controller.core.leadership import duties
from controller.core.leadership.records import ShutdownBegunRecord
from controller.core.model import BrokerId, TopicPartition
from controller.core.records import Change
from controller.core.view import ClusterView


def answer_shutdown(
    view: ClusterView, request: ControlledShutdown
) -> ControlledShutdownAnswer | Change | None:
    """
    Return the answer, or the note that the broker is shutting down.

    None while leaderships are being moved, or while it is not known what the broker leads.
    """
    broker = view.cluster.brokers.get(request.broker)
    if broker is None:
        return ControlledShutdownAnswer(kafka_errors.BROKER_NOT_AVAILABLE)
    epoch = broker.epoch if request.broker_epoch is None else request.broker_epoch
    if epoch < broker.epoch:
        return ControlledShutdownAnswer(kafka_errors.STALE_BROKER_EPOCH)
    if epoch != broker.epoch or not view.tenure.accepted_by_broker or view.leadership.unseeded:
        return None  # Its registration, or what it leads, is being read.
    if view.leadership.shutting_down.get(broker.id) != broker.epoch:
        begun = ShutdownBegunRecord(broker.id, broker.epoch)
        return Change((begun,), tuple(_stops(view, broker.id)))
    return _answer(view, broker.id)


def _answer(view: ClusterView, broker: BrokerId) -> ControlledShutdownAnswer | None:
    """Return the partitions that a broker leads on; None: some are not moved or not known yet."""
    remaining: list[TopicPartition] = []
    for partition, assignment in view.topics.assignments():
        is_spared = len(assignment.replicas) == 1 or view.is_to_be_deleted(partition.topic)
        if broker not in assignment.replicas or is_spared:
            continue
        state = view.leadership.states.get(partition)
        is_stale = view.topics.assignment(partition) is None
        if is_stale or partition in view.leadership.distrusted or _is_due(view, partition, broker):
            return None
        if state is not None and state.leader == broker:
            remaining.append(partition)
    return ControlledShutdownAnswer(kafka_errors.NONE, tuple(remaining))


def _is_due(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> bool:
    """Return whether the broker is still to lose the leadership, or its place in the ISR."""
    state = view.leadership.states.get(partition)
    if state is None:
        return False
    if state.leader == broker:
        return duties.hand_over(view, partition) is not None
    return broker in state.isr and view.is_live(state.leader, partition)


def _stops(view: ClusterView, broker: BrokerId) -> Iterator[effects.Effect]:
    """
    Stop the followers on a broker that are not in the ISR: they must not enter it any more.

    Those in the ISR are stopped by the change that takes them out.
    """
    for partition, state in view.leadership.states.items():
        is_follower = broker in view.serving_replicas(partition) and broker not in state.isr
        if is_follower and not view.is_to_be_deleted(partition.topic):
            yield effects.SendStopReplica(partition, broker, state.leader_epoch, delete=False)
