"""
What the singletons hold now, as events: the reading behind ``Store.read``.

What operators ask for is ``requests``, what is kept of it ``histories``.

Each reads a whole level (a znode, a directory, a tree), decodes it and sets the watch that will
make it be read again. What cannot be understood is logged with its reason and told as the event
allows. When to read is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from controller.core.events import (
    BrokersRead,
    DeletionsRead,
    Event,
    GoalsRead,
    GuardsRead,
    IsrNotificationsRead,
    LegacyPlanRead,
    LogDirEventsRead,
    Orphan,
    OrphansRead,
    PreferredElectionRead,
    TopicsListed,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Goal,
    LiveBroker,
    TopicPartition,
)
from controller.reactor.ports import Znode
from controller.zk.histories import Histories
from controller.zk.readers import Reader, Watch, warn_unreadable
from controller.zk.readers import Znode as ZnodeRead
from controller.zk.requests import Requests
from controller.znodes import paths
from controller.znodes.brokers import decode_broker
from controller.znodes.controllers import NOT_KRAFT, decode_controller
from controller.znodes.elections import decode_preferred_election
from controller.znodes.features import decode_feature, decode_migration
from controller.znodes.goals import decode_goal
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.notifications import decode_isr_notification, decode_log_dir_event
from controller.znodes.orphans import decode_orphan
from controller.znodes.paths import parse_number, valid_topic

Value = TypeVar("Value")


class Levels:
    """Reads one level at a time."""

    def __init__(self, reader: Reader) -> None:
        """Read by this reader."""
        self._reader = reader
        requests, histories = Requests(reader), Histories(reader)
        self._reads: Mapping[Znode, Callable[[Watch], Event]] = {
            Znode.BROKERS: self._brokers,
            Znode.TOPICS: self._topics,
            Znode.LEGACY_PLAN: self._legacy_plan,
            Znode.GOALS: self._goals,
            Znode.DELETIONS: self._deletions,
            Znode.ISR_NOTIFICATIONS: self._isr_notifications,
            Znode.LOG_DIR_EVENTS: self._log_dir_events,
            Znode.PREFERRED_ELECTION: self._preferred_election,
            Znode.ORPHANS: self._orphans,
            Znode.GUARDS: self._guards,
            Znode.SUBMISSIONS: requests.listed,
            Znode.CANCELLATION: requests.cancellation,
            Znode.KILL_SWITCH: requests.kill_switch,
            Znode.QUEUE: requests.queue,
            Znode.CONTROLS: requests.controls,
            Znode.HISTORY: lambda _: histories.history(),
            Znode.LEASES: lambda _: histories.leases(),
        }

    def read(self, znode: Znode, watcher: Watch) -> Event:
        """Read a level; our own records are not watched, nobody else writes them."""
        return self._reads[znode](watcher)

    def _brokers(self, watcher: Watch) -> Event:
        names = self._reader.children_watched(paths.BROKER_IDS, watcher)
        ids = [BrokerId(n) for n in map(parse_number, names) if n is not None]
        found = self._reader.get_many(ids, paths.broker_path, lambda _: watcher)
        brokers: dict[BrokerId, LiveBroker] = {}
        for broker_id, znode in found:
            if znode is None:
                continue
            epoch = BrokerEpoch(znode.czxid)
            read = decode_broker(broker_id, znode.data, epoch)
            if isinstance(read, str):
                warn_unreadable(paths.broker_path(broker_id), read)
                # It is alive, so it must not be taken for dead; and as it may speak any protocol,
                # it counts as one that forbids being its controller.
                read = LiveBroker(broker_id, epoch, (), has_features=True)
            brokers[broker_id] = read
        return BrokersRead(brokers)

    def _topics(self, watcher: Watch) -> Event:
        names = self._reader.children_watched(paths.TOPICS, watcher)
        return TopicsListed(frozenset(name for name in names if valid_topic(name)))

    def _legacy_plan(self, watcher: Watch) -> Event:
        znode = self._reader.get_watched(paths.LEGACY_PLAN, watcher)
        if znode is None:
            return LegacyPlanRead(None)
        return LegacyPlanRead(decode_legacy_plan(znode.data, znode.version, znode.czxid))

    def _goals(self, _: Watch) -> Event:
        goals: dict[TopicPartition, Goal] = {}
        unreadable: dict[str, str] = {}
        for path, topic, name, znode in self._grandchildren(paths.GOALS):
            partition = parse_number(name)
            read = (
                "not a partition"
                if partition is None or not valid_topic(topic)
                else decode_goal(znode.data, znode.version)
            )
            if isinstance(read, str) or partition is None:
                unreadable[path] = str(read)
                warn_unreadable(path, str(read))
            else:
                goals[TopicPartition(topic, partition)] = read
        return GoalsRead(goals, unreadable)

    def _deletions(self, watcher: Watch) -> Event:
        return DeletionsRead(frozenset(self._reader.children_watched(paths.DELETIONS, watcher)))

    def _isr_notifications(self, watcher: Watch) -> Event:
        names, read = self._listed(paths.ISR_NOTIFICATIONS, watcher, decode_isr_notification)
        return IsrNotificationsRead(names, frozenset[TopicPartition]().union(*read))

    def _log_dir_events(self, watcher: Watch) -> Event:
        names, read = self._listed(paths.LOG_DIR_EVENTS, watcher, decode_log_dir_event)
        return LogDirEventsRead(names, frozenset(read))

    def _preferred_election(self, watcher: Watch) -> Event:
        znode = self._reader.get_watched(paths.PREFERRED_ELECTION, watcher)
        if znode is None:
            return PreferredElectionRead(None)
        read = decode_preferred_election(znode.data)
        if isinstance(read, str):
            warn_unreadable(paths.PREFERRED_ELECTION, read)
            read = frozenset()
        return PreferredElectionRead(read, znode.version)

    def _orphans(self, _: Watch) -> Event:
        orphans: set[Orphan] = set()
        for path, broker, name, znode in self._grandchildren(paths.ORPHANS):
            read = decode_orphan(broker, name, znode.data)
            if isinstance(read, str):
                warn_unreadable(path, read)
            else:
                orphans.add(read)
        return OrphansRead(frozenset(orphans))

    def _guards(self, watcher: Watch) -> Event:
        controller = self._reader.get_watched(paths.CONTROLLER, watcher)
        feature = self._reader.get_watched(paths.FEATURE, watcher)
        migration = self._reader.get_watched(paths.MIGRATION, watcher)
        named = None if controller is None else decode_controller(controller.data)
        if isinstance(named, str):
            warn_unreadable(paths.CONTROLLER, named)
            named = None
        return GuardsRead(
            controller_broker=None if named is None else named.broker_id,
            controller_is_ephemeral=controller is not None and controller.owner != 0,
            kraft_controller_epoch=NOT_KRAFT if named is None else named.kraft_controller_epoch,
            # What cannot be understood counts as enabled: a wrong guess would freeze the ISR.
            feature_enabled=feature is not None and decode_feature(feature.data) is not False,
            migration=None if migration is None else decode_migration(migration.data),
        )

    # --- inside --------------------------------------------------------------------------------

    def _listed(
        self, directory: str, watcher: Watch, decode: Callable[[bytes], Value | str]
    ) -> tuple[tuple[str, ...], list[Value]]:
        """List a directory and decode its children; unreadable ones are listed all the same."""
        names = self._reader.children_watched(directory, watcher)
        read: list[Value] = []
        for name, znode in self._reader.get_many(names, lambda name: f"{directory}/{name}"):
            value = "it is gone" if znode is None else decode(znode.data)
            if isinstance(value, str):
                warn_unreadable(f"{directory}/{name}", value)
            else:
                read.append(value)
        return names, read

    def _grandchildren(self, root: str) -> list[tuple[str, str, str, ZnodeRead]]:
        """Read a tree of two levels: (path, child, grandchild, content)."""
        parents = [f"{root}/{name}" for name in self._reader.children(root) or ()]
        found = [
            f"{parent}/{name}"
            for parent, names in self._reader.children_of_many(parents)
            for name in names
        ]
        rows = []
        for path, znode in self._reader.get_many(found, str):
            if znode is not None:
                _, child, grandchild = path.rsplit("/", 2)
                rows.append((path, child, grandchild, znode))
        return rows
