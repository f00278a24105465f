"""
The share of one cycle of the loop: its worklist, and its part of long lists.

A cycle takes the worklist as a whole. What it cannot examine yet stays behind: partitions that
exceed its share, and bounces of partitions that cannot be judged.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.core.deletions.pending_deletions import is_leader_withheld
from controller.core.leadership.duties import leader_bounced
from controller.core.model import BrokerId, TopicPartition
from controller.core.requests.acceptance import cycle_share
from controller.core.view import ClusterView
from controller.core.worklist import Worklist


def take_due(view: ClusterView) -> Worklist:
    """
    Return the worklist of this cycle and start a new one with the surplus.

    A bounce is passed on once the partition can be judged, and kept until then. So is an entry
    that was taken out of the legacy znode.
    """
    due = view.due
    _keep_removed(view, due)
    _keep_bounces(view, due)
    view.due = due.leave(cycle_share(view, view.options.look_chunk))
    for partition in tuple(due.bounced_from):
        if not _is_judgeable(view, due, partition):
            _keep_bounce(view, partition, due.bounced_from.pop(partition))
    for partition in due.partitions if view.leadership.bounced else ():
        # A state that is being read again may be an older ISR of a leader that lost the newer
        # one.
        is_read = _is_judgeable(view, due, partition) and partition not in view.leadership.seeding
        if is_read and partition in view.leadership.bounced:
            bounced = view.leadership.bounced.pop(partition)
            due.bounced_from.setdefault(partition, set()).update(bounced)
    return due


def _keep_removed(view: ClusterView, due: Worklist) -> None:
    removed = view.requests_tenure.removed_entries | due.dropped
    view.requests_tenure.removed_entries = {
        p for p in removed & view.reassignments.by_partition.keys() if not view.topics.assignment(p)
    }
    due.dropped = removed - view.requests_tenure.removed_entries


def _keep_bounces(view: ClusterView, due: Worklist) -> None:
    """
    Keep the bounces of partitions that cannot be judged now.

    A broker that left counts as well: it may be back when the state is read, which would then
    show a live leader. So does one that joined: the state may be from before it left.
    """
    came = due.bounced | due.left | (due.joined - due.elsewhere)
    for partition in due.partitions if came and view.tenure.held is not None else ():
        if not _is_judgeable(view, due, partition):
            _keep_bounce(view, partition, came)


def _keep_bounce(
    view: ClusterView, partition: TopicPartition, brokers: Collection[BrokerId]
) -> None:
    assignment = view.topics.known_assignment(partition)
    replicas = () if assignment is None else assignment.replicas
    concerned = [r for r in replicas if r in brokers]
    if concerned:
        view.leadership.bounced.setdefault(partition, set()).update(concerned)


def _is_judgeable(view: ClusterView, due: Worklist, partition: TopicPartition) -> bool:
    """
    Return whether a bounce can be handled: topic and state are known and valid.

    That there is no state is known as well. A topic that is to be deleted gets no new leader unless
    it is reassigned: its bounces wait while it needs one, as an operator may withdraw the deletion.
    """
    if partition.topic in view.deletions.running:
        return False  # no state of it is written, unless the deletion is revoked
    state = view.leadership.states.get(partition)
    if (
        is_leader_withheld(view, partition.topic)
        and partition not in view.reassignments.by_partition
    ):
        if state is None or not view.is_live(state.leader, partition):
            return False
        if leader_bounced(view, due, partition):
            return False
    is_read = state is not None or partition in view.leadership.stateless
    return is_read and view.topics.assignment(partition) is not None
