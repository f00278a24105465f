"""
Brokers that come and go during a tenure: their channels, and what a joined broker is sent.

``duties.repair`` handles what this means for each partition.
"""

from __future__ import annotations

from controller.core import effects
from controller.core.leadership.duties import send_leader_and_isr
from controller.core.model import BrokerId
from controller.core.reassignments import phases
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist


def channels(view: ClusterView, due: Worklist) -> Decision:
    """Open and close channels, and send every broker the live brokers."""
    cluster = view.cluster
    following: list[effects.Effect] = []
    if due.claimed:
        following += [effects.OpenChannel(b) for b in cluster.brokers.values()]
    else:
        following += [
            effects.CloseChannel(b) for b in sorted(due.left | due.bounced | due.elsewhere)
        ]
        following += [
            effects.OpenChannel(cluster.brokers[b])
            for b in sorted(due.joined)
            if b in cluster.brokers
        ]
    if due.claimed or due.brokers_changed:
        following.append(effects.SendLiveBrokers())
    return Decision(effects=tuple(following))


def inform_joined(view: ClusterView, due: Worklist) -> Decision:
    """
    Send a joined broker everything: all metadata, every replica it has, every pending StopReplica.

    The same for one with new endpoints: requests under way to it are lost.

    After a claim nothing is needed: the seeding informs every broker.
    """
    leadership, deletions = view.leadership, view.deletions
    joined = tuple(b for b in sorted(due.joined) if b in view.cluster.brokers)
    if due.claimed or not joined:
        return Decision()
    following: list[effects.Effect] = [effects.SendUpdateMetadata(tuple(leadership.states), joined)]
    for broker in joined:
        # A dictionary: it keeps the order, and a broker may lead tens of thousands.
        led = dict.fromkeys(
            p
            for p, state in leadership.states.items()
            if state.leader == broker and p.topic not in deletions.running
        )
        for partition in leadership.states:
            if broker in view.serving_replicas(partition) and partition not in led:
                following += send_leader_and_isr(view, partition, (broker,))
        if led:
            # It lost the state of what it led, and it may have changed the ISR since we read it: a
            # leader that gets an older ISR of its own epoch commits without the replicas it lacks.
            following.append(effects.ReadStates(tuple(led), effects.ReadPurpose.CONFLICT))
        following += _stops(view, broker)
    return Decision(effects=tuple(following))


def _stops(view: ClusterView, broker: BrokerId) -> list[effects.Effect]:
    """Repeat the StopReplica requests that may be lost with a broker's former channel."""
    leadership = view.leadership
    return [
        effects.SendStopReplica(
            partition, broker, leadership.states[partition].leader_epoch, delete
        )
        for partition, reassignment in view.reassignments.by_partition.items()
        if isinstance(reassignment.phase, phases.Stopping)
        and broker in reassignment.phase.waiting
        and partition in leadership.states
        for delete in (False, True)
    ]
