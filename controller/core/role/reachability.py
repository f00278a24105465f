"""
Notice that a broker cannot reach the daemon as its controller.

From inter-broker protocol 2.7 on, such a broker can neither drop followers from the ISR of its
partitions nor add them: producers stall when a follower hangs. Nothing shows it directly, as
brokers connect only when they have something to ask. The evidence is a copy: an added replica has
the whole log for a while, and its leader, which sends nothing, does not ask for it. A leader that
asked before in this tenure is given more time: the network may break, but more often the copy is
only just behind.

Then the role is given back, and Kafka's controller finishes the step. With ``auto``, the delegated
engine works from then on; with ``native``, the role is claimed again after a back-off.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.gates import ids
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView

WHOLE_S: Final = 45.0
"""
How long an added replica has the whole log before its leader has to have asked.

Longer than ``controller.socket.timeout.ms``, 30 s: the leader may have asked a former controller
first, which hangs.
"""
CUT_OFF_S: Final = 120.0
"""The same of a leader that sent a request before in this tenure, and none since."""
UNMEASURED_S: Final = 900.0
"""
The same where brokers do not report sizes, from the begin of the copy on; not of leaders that sent
a request before.
"""


def silent_leaders(view: ClusterView, now: Instant) -> frozenset[BrokerId]:
    """Return the leaders that should have asked for an ISR change, and sent nothing."""
    if view.options.endpoint is None or view.tenure.held is None:
        return frozenset()
    return frozenset(
        leader
        for partition, reassignment in view.work.reassignments.items()
        if isinstance(reassignment.phase, phases.Syncing)
        and (leader := _asking_leader(view, partition)) is not None
        and _is_overdue(view, partition, reassignment, view.tenure.heard.get(leader), now)
    )


def unreached(view: ClusterView, leaders: frozenset[BrokerId]) -> str:
    """Return the reason for which the role is given back."""
    own = view.options.endpoint
    where = "" if own is None else f" at {own.endpoints[0].host}:{own.endpoints[0].port}"
    return (
        f"broker {ids(sorted(leaders))} sent no request to the controller endpoint{where}, "
        "although an added replica has the whole log: it cannot change the ISR of what it leads"
    )


def _asking_leader(view: ClusterView, partition: TopicPartition) -> BrokerId | None:
    """Return the live leader of a partition, if it asks the controller for ISR changes."""
    state = view.tenure.states.get(partition)
    broker = None if state is None else view.cluster.brokers.get(state.leader)
    return broker.id if broker is not None and broker.has_features else None


def _is_overdue(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    heard: Instant | None,
    now: Instant,
) -> bool:
    if partition not in view.work.copied:
        return heard is None and now >= reassignment.phase_since + UNMEASURED_S
    since = view.tenure.whole_since.get(partition)
    if since is None:
        return False
    if heard is None:
        return now >= since + WHOLE_S
    return heard < since and now >= since + CUT_OFF_S
