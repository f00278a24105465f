"""
What the singletons hold now, as events: the reading behind ``Store.read``.

What operators ask for is ``requests``, what is kept of it ``histories``.

Each reads a whole level (a znode, a directory, a tree), decodes it and sets the watch that will
make it be read again. What cannot be understood is logged with its reason and told as the event
allows. When to read is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from controller.core.events import (
    BrokersRead,
    ClaimGuardsRead,
    DeletionsRead,
    Event,
    IsrNotificationsRead,
    LegacyPlanRead,
    LogDirEventsRead,
    Orphan,
    OrphansRead,
    PreferredElectionRead,
    SpecsRead,
    TopicsListed,
)
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    LiveBroker,
    ReassignmentSpec,
    TopicPartition,
)
from controller.reactor.ports import Znode
from controller.zk.histories import Histories
from controller.zk.readers import Hidden, Reader, Watch, warn_unreadable
from controller.zk.readers import Znode as ZnodeRead
from controller.zk.requests import Requests, plan_of
from controller.znodes import paths
from controller.znodes.brokers import decode_broker
from controller.znodes.controller import NOT_KRAFT, decode_controller
from controller.znodes.elections import decode_preferred_election
from controller.znodes.feature_flags import decode_feature, decode_migration
from controller.znodes.notifications import decode_isr_notification, decode_log_dir_event
from controller.znodes.orphans import decode_orphan
from controller.znodes.paths import parse_number, valid_topic
from controller.znodes.reassignments import decode_spec

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
            Znode.GOALS: self._specs,
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
            Znode.LEASES: lambda _: histories.applied_throttles(),
        }

    def read(self, znode: Znode, watcher: Watch) -> Event:
        """Read a level; our own records are not watched, nobody else writes them."""
        return self._reads[znode](watcher)

    def _brokers(self, watcher: Watch) -> Event:
        names = self._reader.children_watched(paths.BROKER_IDS, watcher)
        ids = [BrokerId(n) for n in map(parse_number, names) if n is not None]
        found = self._reader.show_many(ids, paths.broker_path, lambda _: watcher)
        brokers: dict[BrokerId, LiveBroker] = {}
        for broker_id, shown in found:
            if shown is None:
                continue
            epoch = BrokerEpoch(shown.czxid)
            read = (
                shown.reason
                if isinstance(shown, Hidden)
                else decode_broker(broker_id, shown.data, epoch)
            )
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
        znode = self._reader.show_watched(paths.LEGACY_PLAN, watcher)
        return LegacyPlanRead(znode and plan_of(znode))

    def _specs(self, _: Watch) -> Event:
        specs: dict[TopicPartition, ReassignmentSpec] = {}
        unreadable: dict[str, str] = {}
        for path, read in self._grandchildren(paths.GOALS, _spec):
            if isinstance(read, str):
                unreadable[path] = read
            else:
                partition, spec = read
                specs[partition] = spec
        return SpecsRead(specs, unreadable)

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
        read = self._grandchildren(paths.ORPHANS, _orphan)
        return OrphansRead(frozenset(orphan for _, orphan in read if not isinstance(orphan, str)))

    def _guards(self, watcher: Watch) -> Event:
        controller = self._reader.get_watched(paths.CONTROLLER, watcher)
        feature = self._reader.get_watched(paths.FEATURE, watcher)
        migration = self._reader.get_watched(paths.MIGRATION, watcher)
        guards, problem = guards_of(controller, feature, migration)
        if problem is not None:
            warn_unreadable(paths.CONTROLLER, problem)
        return guards

    # --- inside --------------------------------------------------------------------------------

    def _listed(
        self, directory: str, watcher: Watch, decode: Callable[[bytes], Value | str]
    ) -> tuple[tuple[str, ...], list[Value]]:
        """List a directory and decode its children; unreadable ones are listed all the same."""
        names = self._reader.children_watched(directory, watcher)
        found = self._reader.decode_many(
            names, lambda name: f"{directory}/{name}", lambda _, znode: decode(znode.data)
        )
        return names, [v for _, v in found if v is not None and not isinstance(v, str)]

    def _grandchildren(
        self, root: str, decode: Callable[[str, str, ZnodeRead], Value | str]
    ) -> Iterator[tuple[str, Value | str]]:
        """
        Read a tree of two levels: path and content; a text where that is not understood.

        Args:
            root: Above the tree.
            decode: Makes a value of child, grandchild and its content.

        """
        parents = [f"{root}/{name}" for name in self._reader.children(root) or ()]
        paths_found: list[str] = []
        for parent, names in self._reader.children_of_many(parents):
            if isinstance(names, str):
                yield parent, names
            else:
                paths_found += (f"{parent}/{name}" for name in names)

        def decoded(path: str, znode: ZnodeRead) -> Value | str:
            _, child, grandchild = path.rsplit("/", 2)
            return decode(child, grandchild, znode)

        for path, read in self._reader.decode_many(paths_found, str, decoded):
            if read is not None:
                yield path, read


def _spec(topic: str, name: str, znode: ZnodeRead) -> tuple[TopicPartition, ReassignmentSpec] | str:
    partition = parse_number(name)
    if partition is None or not valid_topic(topic):
        return "not a partition"
    spec = decode_spec(znode.data, znode.version)
    return spec if isinstance(spec, str) else (TopicPartition(topic, partition), spec)


def _orphan(broker: str, name: str, znode: ZnodeRead) -> Orphan | str:
    return decode_orphan(broker, name, znode.data)


def guards_of(
    controller: ZnodeRead | None, feature: ZnodeRead | None, migration: ZnodeRead | None
) -> tuple[ClaimGuardsRead, str | None]:
    """Return what three znodes say about being the controller, and what is wrong with the first."""
    named = None if controller is None else decode_controller(controller.data)
    problem = named if isinstance(named, str) else None
    if isinstance(named, str):
        named = None
    guards = ClaimGuardsRead(
        controller_broker=None if named is None else named.broker_id,
        controller_is_ephemeral=controller is not None and controller.owner != 0,
        kraft_controller_epoch=NOT_KRAFT if named is None else named.kraft_controller_epoch,
        # What cannot be understood counts as enabled: a wrong guess would freeze the ISR.
        feature_enabled=feature is not None and decode_feature(feature.data) is not False,
        migration=None if migration is None else decode_migration(migration.data),
    )
    return guards, problem
