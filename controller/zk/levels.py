"""
What each level of znodes holds now, as events: the reading behind ``Store.read``.

A level is a znode, a directory or a tree, read as a whole. Each read sets the watch that causes the
next; our own records have none, as only the leading daemon writes them. When to read is not known
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from controller.core import events
from controller.core.model import TopicPartition
from controller.reactor.ports import Znode
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.outcome_znodes import OutcomeZnodes
from controller.zk.partition_znodes import PartitionZnodes
from controller.zk.readers import Reader, Watch, WatchedReader
from controller.zk.request_znodes import RequestZnodes
from controller.zk.throttle_znodes import ThrottleZnodes
from controller.zk.znode_reads import ZnodeReads, decode_many
from controller.znodes import paths
from controller.znodes.partition_lists import (
    decode_isr_notification,
    decode_log_dir_event,
    decode_preferred_election,
)

Value = TypeVar("Value")


def _topics(znodes: ZnodeReads) -> events.Event:
    return events.TopicsListed(frozenset(PartitionZnodes(znodes).topic_names()))


def _specs(znodes: ZnodeReads) -> events.Event:
    partitions = PartitionZnodes(znodes)
    return partitions.all_specs(partitions.list_specs())


def _isr_notifications(znodes: ZnodeReads) -> events.Event:
    names, read = _listed(znodes, paths.ISR_NOTIFICATIONS, decode_isr_notification)
    return events.IsrNotificationsRead(names, frozenset[TopicPartition]().union(*read))


def _log_dir_events(znodes: ZnodeReads) -> events.Event:
    names, read = _listed(znodes, paths.LOG_DIR_EVENTS, decode_log_dir_event)
    return events.LogDirEventsRead(names, frozenset(read))


def _listed(
    znodes: ZnodeReads, directory: str, decode: Callable[[bytes], Value | str]
) -> tuple[tuple[str, ...], list[Value]]:
    """List a directory and decode its children; unreadable ones are listed all the same."""
    names = znodes.children(directory)
    found = decode_many(
        znodes, names, lambda name: f"{directory}/{name}", lambda _, znode: decode(znode.data)
    )
    return names, [v for _, v in found if v is not None and not isinstance(v, str)]


def _preferred_election(znodes: ZnodeReads) -> events.Event:
    znode = znodes.get(paths.PREFERRED_ELECTION)
    if znode is None:
        return events.PreferredElectionRead(None)
    read = decode_preferred_election(znode.data)
    if isinstance(read, str):
        znodes.unreadable(paths.PREFERRED_ELECTION, read)
        read = frozenset()
    return events.PreferredElectionRead(read, znode.version)


_WATCHED: Mapping[Znode, Callable[[ZnodeReads], events.Event]] = {
    Znode.BROKERS: lambda z: events.BrokersRead(ClusterZnodes(z).brokers()),
    Znode.GUARDS: lambda z: ClusterZnodes(z).guards(),
    Znode.TOPICS: _topics,
    Znode.DELETIONS: lambda z: events.DeletionsRead(PartitionZnodes(z).deletions()),
    Znode.ISR_NOTIFICATIONS: _isr_notifications,
    Znode.LOG_DIR_EVENTS: _log_dir_events,
    Znode.PREFERRED_ELECTION: _preferred_election,
    Znode.LEGACY_PLAN: lambda z: events.LegacyPlanRead(RequestZnodes(z).plan()),
    Znode.QUEUE: lambda z: events.QueueRead(RequestZnodes(z).queue()),
    Znode.SUBMISSIONS: lambda z: events.SubmissionsListed(frozenset(RequestZnodes(z).open())),
    Znode.CANCELLATION: lambda z: events.CancellationRead(RequestZnodes(z).cancellation()),
    Znode.KILL_SWITCH: lambda z: events.KillSwitchRead(RequestZnodes(z).is_disabled()),
    Znode.CONTROLS: lambda z: events.ControlsRead(RequestZnodes(z).controls()),
}

_OURS: Mapping[Znode, Callable[[ZnodeReads], events.Event]] = {
    Znode.GOALS: _specs,
    Znode.ORPHANS: lambda z: events.OrphansRead(PartitionZnodes(z).orphans()),
    Znode.HISTORY: lambda z: OutcomeZnodes(z).history(),
    Znode.LEASES: lambda z: events.AppliedThrottlesRead(ThrottleZnodes(z).applied()),
}


def read_level(reader: Reader, level: Znode, watcher: Watch) -> events.Event:
    """
    Read a level.

    Args:
        reader: Reads the znodes.
        level: The level.
        watcher: Set on all that others may change.

    """
    ours = _OURS.get(level)
    return _WATCHED[level](WatchedReader(reader, watcher)) if ours is None else ours(reader)
