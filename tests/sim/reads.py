"""
Reading the simulated ZooKeeper as the daemon's store does: whole levels, as events, with watches.

A watch never carries data: it makes the store read again. While a read of something is on its way,
another is not begun for it. What is a fault of the connection is ``sessions``; what is written is
``store``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from controller.core.calls.records import ProducerIdsRead
from controller.core.cluster.model import LiveBroker
from controller.core.deletions.model import DeletionMarker, TopicTree
from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.disks.records import LogDirEventsRead
from controller.core.leadership.records import (
    IsrNotificationsRead,
    PreferredElectionRead,
    StateChanged,
    StatesRead,
)
from controller.core.model import (
    BrokerId,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.records import Event
from controller.core.requests.records import CancellationRead, LegacyPlanRead
from controller.core.role.records import BrokersRead, ClaimGuardsRead
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.reactor.ports import Inbox, ZnodeFamily
from controller.reactor.reads import CANCELLABLE, OWN_RECORDS
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    decode_broker,
    decode_controller,
    decode_feature,
    decode_migration,
)
from controller.znodes.plans import decode_legacy_plan
from controller.znodes.producer_ids import decode_producer_ids
from controller.znodes.reassignments import decode_orphan, decode_spec
from controller.znodes.topics import (
    decode_log_dir_event,
    decode_partition_list,
)
from tests.sim.decoded import read_state, read_topic
from tests.sim.requests import SimRequests
from tests.sim.zookeeper import NO_SESSION, SimZooKeeper, Watch

if TYPE_CHECKING:
    from tests.sim.lanes import Lane, Lanes
    from tests.sim.sessions import SimSession


class SimReads:
    """The reading half of the store, for one session."""

    def __init__(
        self, zookeeper: SimZooKeeper, session: SimSession, inbox: Inbox, lanes: Lanes
    ) -> None:
        self._zookeeper = zookeeper
        self._session = session
        self._inbox = inbox
        self._lanes = lanes
        self._reading: set[ZnodeFamily] = set()
        self._watched_topics: set[str] = set()
        self._watched_states: set[TopicPartition] = set()
        self._reading_states: dict[int, tuple[tuple[TopicPartition, ...], bool]] = {}
        """Reads of states that are not answered yet."""
        self._requested: dict[int, tuple[Callable[[], Event], Lane]] = {}
        """Single reads that are not answered yet."""
        self._sequence = 0
        self._read_generation = 0
        """The read generation of the loop's last read."""
        self._requests = SimRequests(zookeeper)
        self.znodes: dict[ZnodeFamily, None] = {}
        """The znode families that ``read`` was called with."""
        self._readers: dict[ZnodeFamily, Callable[[], Event]] = {
            ZnodeFamily.BROKERS: self._brokers,
            ZnodeFamily.TOPICS: self._topics_listed,
            ZnodeFamily.LEGACY_PLAN: self._legacy_plan,
            ZnodeFamily.SPECS: self._specs,
            ZnodeFamily.DELETIONS: self._deletions,
            ZnodeFamily.ISR_NOTIFICATIONS: self._isr_notifications,
            ZnodeFamily.LOG_DIR_EVENTS: self._log_dir_events,
            ZnodeFamily.PREFERRED_ELECTION: self._preferred_election,
            ZnodeFamily.PRODUCER_IDS: self._producer_ids,
            ZnodeFamily.ORPHANS: self._orphans,
            ZnodeFamily.GUARDS: self._guards,
            **self._of_requests(),
        }

    def take_over(self, former: SimReads) -> None:
        """Continue for a session that ended: repeat its watches and its open reads."""
        for znode in former.znodes:
            self.read(znode)
        self._read_generation = former._read_generation
        if former._watched_topics:
            self.read_topics(sorted(former._watched_topics))
        for partition in sorted(former._watched_states):
            self._inbox.put(StateChanged(partition))
        for partitions, watch in former._reading_states.values():
            self.read_states(partitions, watch=watch, read_generation=self._read_generation)
        for read, lane in former._requested.values():
            self._send(read, lane)

    # --- whole levels --------------------------------------------------------------------------

    def read(self, znode: ZnodeFamily) -> None:
        """Read a level and watch it."""
        self.znodes[znode] = None
        if znode in self._reading:
            return
        self._reading.add(znode)

        def at_server() -> Callable[[], None]:
            self._reading.discard(znode)
            event = self._readers[znode]()
            meant = isinstance(event, CancellationRead) and event.cancellation is not None
            before = [self._readers[other]() for other in CANCELLABLE] if meant else []
            lane = self._lanes.bulk if znode in OWN_RECORDS else self._lanes.levels
            return lambda: lane.put(lambda: self._report((*before, event)))

        self._session.send(at_server)

    def _report(self, events: Sequence[Event]) -> None:
        for event in events:
            self._inbox.put(event)

    def _watch(self, znode: ZnodeFamily) -> Watch:
        return self._session.watch(znode, lambda: self.read(znode))

    def _of_requests(self) -> dict[ZnodeFamily, Callable[[], Event]]:
        requests = self._requests
        return {
            ZnodeFamily.SUBMISSIONS: lambda: requests.listed(self._watch(ZnodeFamily.SUBMISSIONS)),
            ZnodeFamily.CANCELLATION: lambda: requests.cancellation(
                self._watch(ZnodeFamily.CANCELLATION)
            ),
            ZnodeFamily.KILL_SWITCH: lambda: requests.kill_switch(
                self._watch(ZnodeFamily.KILL_SWITCH)
            ),
            ZnodeFamily.QUEUE: lambda: requests.queue(self._watch(ZnodeFamily.QUEUE)),
            ZnodeFamily.CONTROLS: lambda: requests.controls(self._watch(ZnodeFamily.CONTROLS)),
            ZnodeFamily.HISTORY: requests.history,
            ZnodeFamily.APPLIED_THROTTLES: requests.applied_throttles,
        }

    def _listed(self, path: str, znode: ZnodeFamily) -> tuple[str, ...]:
        """List a directory that may not exist yet, in order."""
        names = self._zookeeper.children(path, self._watch(znode))
        if names is None:
            self._zookeeper.exists(path, self._watch(znode))
        return tuple(sorted(names or ()))

    def _brokers(self) -> BrokersRead:
        brokers: dict[BrokerId, LiveBroker] = {}
        for name in self._listed(paths.BROKER_IDS, ZnodeFamily.BROKERS):
            broker_id = BrokerId(int(name))
            znode = self._zookeeper.get(
                paths.broker_path(broker_id), self._watch(ZnodeFamily.BROKERS)
            )
            if znode is not None:
                read = decode_broker(broker_id, znode.data, Zxid(znode.czxid))
                if isinstance(read, LiveBroker):
                    brokers[broker_id] = read
        return BrokersRead(brokers)

    def _topics_listed(self) -> TopicsListed:
        return TopicsListed(frozenset(self._listed(paths.TOPICS, ZnodeFamily.TOPICS)))

    def _legacy_plan(self) -> LegacyPlanRead:
        znode = self._zookeeper.exists(paths.LEGACY_PLAN, self._watch(ZnodeFamily.LEGACY_PLAN))
        if znode is None:
            return LegacyPlanRead(None)
        version, czxid = ZkVersion(znode.version), Zxid(znode.czxid)
        return LegacyPlanRead(decode_legacy_plan(znode.data, version, czxid))

    def _specs(self) -> SpecsRead:
        specs: dict[TopicPartition, ReassignmentSpec] = {}
        unreadable: dict[str, str] = {}
        for topic in sorted(self._zookeeper.children(paths.REASSIGNMENTS) or ()):
            directory = paths.reassignment_topic_path(topic)
            for name in sorted(self._zookeeper.children(directory) or ()):
                path = f"{directory}/{name}"
                znode = self._zookeeper.get(path)
                if znode is None:
                    continue
                read = decode_spec(znode.data, ZkVersion(znode.version))
                if isinstance(read, ReassignmentSpec) and name.isdigit():
                    specs[TopicPartition(topic, int(name))] = read
                else:
                    unreadable[path] = read if isinstance(read, str) else "not a partition"
        return SpecsRead(specs, unreadable)

    def _deletions(self) -> DeletionsRead:
        return DeletionsRead(frozenset(self._listed(paths.DELETIONS, ZnodeFamily.DELETIONS)))

    def _isr_notifications(self) -> IsrNotificationsRead:
        names = self._listed(paths.ISR_NOTIFICATIONS, ZnodeFamily.ISR_NOTIFICATIONS)
        partitions: set[TopicPartition] = set()
        for name in names:
            znode = self._zookeeper.get(f"{paths.ISR_NOTIFICATIONS}/{name}")
            read = decode_partition_list(znode.data) if znode is not None else "gone"
            if not isinstance(read, str):
                partitions |= read
        return IsrNotificationsRead(names, frozenset(partitions))

    def _log_dir_events(self) -> LogDirEventsRead:
        names = self._listed(paths.LOG_DIR_EVENTS, ZnodeFamily.LOG_DIR_EVENTS)
        brokers: set[BrokerId] = set()
        for name in names:
            znode = self._zookeeper.get(f"{paths.LOG_DIR_EVENTS}/{name}")
            read = decode_log_dir_event(znode.data) if znode is not None else "gone"
            if not isinstance(read, str):
                brokers.add(read)
        return LogDirEventsRead(names, frozenset(brokers))

    def _preferred_election(self) -> PreferredElectionRead:
        watch = self._watch(ZnodeFamily.PREFERRED_ELECTION)
        znode = self._zookeeper.exists(paths.PREFERRED_ELECTION, watch)
        if znode is None:
            return PreferredElectionRead(None)
        read = decode_partition_list(znode.data)
        partitions = frozenset[TopicPartition]() if isinstance(read, str) else read
        return PreferredElectionRead(partitions, ZkVersion(znode.version))

    def _producer_ids(self) -> ProducerIdsRead:
        watch = self._watch(ZnodeFamily.PRODUCER_IDS)
        znode = self._zookeeper.exists(paths.PRODUCER_IDS, watch)
        if znode is None:
            return ProducerIdsRead(None)
        return ProducerIdsRead(decode_producer_ids(znode.data), ZkVersion(znode.version))

    def _orphans(self) -> OrphansRead:
        orphans: set[Orphan] = set()
        for broker in sorted(self._zookeeper.children(paths.ORPHANS) or ()):
            directory = f"{paths.ORPHANS}/{broker}"
            for name in sorted(self._zookeeper.children(directory) or ()):
                znode = self._zookeeper.get(f"{directory}/{name}")
                read = "gone" if znode is None else decode_orphan(broker, name, znode.data)
                if isinstance(read, Orphan):
                    orphans.add(read)
        return OrphansRead(frozenset(orphans))

    def _guards(self) -> ClaimGuardsRead:
        watch = self._watch(ZnodeFamily.GUARDS)
        controller = self._zookeeper.exists(paths.CONTROLLER, watch)
        feature = self._zookeeper.exists(paths.FEATURE, watch)
        migration = self._zookeeper.exists(paths.MIGRATION, watch)
        read = None if controller is None else decode_controller(controller.data)
        return ClaimGuardsRead(
            controller_broker=None if read is None or isinstance(read, str) else read.broker_id,
            controller_is_ephemeral=controller is not None
            and controller.ephemeral_owner != NO_SESSION,
            kraft_controller_epoch=(
                -1 if read is None or isinstance(read, str) else read.kraft_controller_epoch
            ),
            feature_enabled=feature is not None and decode_feature(feature.data) is not False,
            migration=None if migration is None else decode_migration(migration.data),
        )

    # --- topics and states ---------------------------------------------------------------------

    def read_topics(self, topics: Sequence[str], *, read_generation: int | None = None) -> None:
        """Read topic znodes and watch them; without a read generation a watch caused it."""
        wanted = tuple(topics)
        self._watched_topics.update(wanted)
        self._read_generation = known = (
            self._read_generation if read_generation is None else read_generation
        )

        def at_server() -> Callable[[], None]:
            read = {topic: self._topic(topic) for topic in wanted}
            return lambda: self._lanes.bulk.put(lambda: self._inbox.put(TopicsRead(read, known)))

        self._session.send(at_server)

    def _topic(self, topic: str) -> TopicAssignment | str | None:
        watch = self._session.watch(
            "topic", lambda: self._lanes.read_again(lambda: self.read_topics((topic,)))
        )
        znode = self._zookeeper.get(paths.topic_path(topic), watch)
        if znode is None:
            self._watched_topics.discard(topic)
            return None
        return read_topic(znode)

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Read partition states; a requested watch is reported as ``StateChanged``."""
        wanted = tuple(partitions)
        self._read_generation = read_generation
        self._sequence += 1
        number = self._sequence
        self._reading_states[number] = (wanted, watch)

        def at_server() -> Callable[[], None]:
            states = {partition: self._state(partition, watch=watch) for partition in wanted}

            def report() -> None:
                armed = frozenset(self._watched_states.intersection(wanted)) if watch else None
                self._inbox.put(StatesRead(states, read_generation, armed))

            def answer() -> None:
                del self._reading_states[number]
                self._lanes.bulk.put(report)

            return answer

        self._session.send(at_server)

    def _state(self, partition: TopicPartition, *, watch: bool) -> PartitionState | str | None:
        def changed() -> None:
            self._watched_states.discard(partition)
            self._inbox.put(StateChanged(partition))

        wanted = self._session.watch("state", changed) if watch else None
        znode = self._zookeeper.get(paths.state_path(partition), wanted)
        if znode is None:
            return None
        if watch:
            self._watched_states.add(partition)
        return read_state(znode)

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """List the znodes of topics that are to be deleted."""
        wanted = tuple(topics)
        self._send(lambda: TopicTreesRead({t: self._tree(t) for t in wanted}), self._lanes.bulk)

    def _tree(self, topic: str) -> TopicTree | None:
        znode = self._zookeeper.get(paths.topic_path(topic))
        if znode is None:
            return None
        below = [paths.topic_path(topic)]
        for path in below:
            below.extend(f"{path}/{name}" for name in self._zookeeper.children(path) or ())
        has_configs = self._zookeeper.get(paths.topic_config_path(topic)) is not None
        mark = self._zookeeper.get(paths.deletion_path(topic))
        marker = None
        if mark is not None:
            marker = DeletionMarker(Zxid(mark.czxid), ZkVersion(mark.version))
        version, paths_below = ZkVersion(znode.version), tuple(reversed(below[1:]))
        return TopicTree(Zxid(znode.czxid), version, paths_below, has_configs, marker)

    # --- asked once ----------------------------------------------------------------------------

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests as submitted."""
        wanted = tuple(names)
        self._send(lambda: self._requests.read(wanted), self._lanes.levels)

    def read_accepted(self, request: RequestId) -> None:
        """Read the accepted entries of a request."""
        self._send(lambda: self._requests.accepted_of(request), self._lanes.bulk)

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Read dynamic settings."""
        wanted = tuple(entities)
        self._send(lambda: self._requests.entity_configs(wanted), self._lanes.bulk)

    def _send(self, read: Callable[[], Event], lane: Lane) -> None:
        self._sequence += 1
        number = self._sequence
        self._requested[number] = (read, lane)

        def at_server() -> Callable[[], None]:
            event = read()

            def answer() -> None:
                del self._requested[number]
                lane.put(lambda: self._inbox.put(event))

            return answer

        self._session.send(at_server)
