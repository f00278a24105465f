"""
The rules of the simulation, applied to what a real ZooKeeper recorded.

A transaction log has every write with its time and its session, so the rules that see only znodes
judge a real run as they judge a history. What ZooKeeper does not know is left open in favour of the
writer: requests between daemon and brokers, logs on disks, records of producers, and when a daemon
heard of an event.
"""

from __future__ import annotations

import math
from typing import Final

from controller.core.model import (
    BrokerId,
    Instant,
    PartitionState,
    TopicConfig,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import Check
from controller.znodes import paths
from controller.znodes.brokers_and_controller import decode_controller
from controller.znodes.entity_configs import decode_entity_config
from tests.sim.brokers import SimBroker
from tests.sim.endpoint_rules import EndpointRules
from tests.sim.fabric import DEFAULT_CONFIG, Fabric
from tests.sim.invariants import Invariants
from tests.sim.judges import InvariantViolationError
from tests.sim.logs import Log
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import (
    NO_SESSION,
    AnyOperation,
    Make,
    SimZooKeeper,
    Transaction,
    parent_of,
)

NEWS_S: Final = 30.0
"""How late a daemon may hear of an event: any later, and its session has expired."""
LEAVING_S: Final = 30.0
"""The time after which a broker that announced its shutdown to its controller is gone."""


class RecordedRun:
    """What a ZooKeeper recorded of one cluster, transaction by transaction."""

    def __init__(self, *, step_size: int | None = None) -> None:
        """Begin with an empty ZooKeeper; ``step_size`` is that of every daemon, None: unknown."""
        self._clock = _Clock()
        self._zookeeper = _RecordedZooKeeper()
        self._fabric = Fabric(self._clock, self._zookeeper)
        self._fabric.accepted_epochs = _Everything()
        self._invariants = Invariants(self._fabric)
        self._invariants.judge_a_recording(_AnyIsr(self._fabric, self._invariants.judge), NEWS_S)
        self._invariants.records.owes_logs = False
        self._invariants.records.step_size = step_size
        self._broken: list[str] = []
        self._invariants.judge.broken = self._broken
        self._daemons: set[int] = set()
        self._brokers: list[_RecordedBroker] = []
        self._sessions: dict[int, BrokerId] = {}
        """The sessions of brokers."""
        self.session_ends: dict[int, float] = {}
        """
        When each session ends, on ZooKeeper's clock. A broker announces its shutdown in a request,
        which is not recorded, and leaves a little later.
        """

    @property
    def checks(self) -> int:
        """Rules applied so far."""
        return self._invariants.checks

    def replay(
        self, zxid: int, session: int, at_s: float, operations: tuple[AnyOperation, ...]
    ) -> list[str]:
        """
        Apply a transaction; return the rules that a daemon broke with it, and what came before.

        Args:
            zxid: Its number.
            session: The session that wrote it.
            at_s: When, on ZooKeeper's clock.
            operations: With paths within the cluster's chroot.

        """
        self._clock.set(at_s)
        for broker in self._brokers:
            ends = self.session_ends.get(broker.session_id, math.inf)
            broker.logs.may_leave = ends - at_s < LEAVING_S
        for operation in operations:
            if not isinstance(operation, Check):
                self._note(session, operation)
        is_known = session in self._daemons or session in self._sessions
        writer = session if is_known else NO_SESSION
        # The znode of which reassignments the writer's records depend differs by engine.
        is_delegated = not any(_checks(op, paths.CONTROLLER_EPOCH) for op in operations)
        self._invariants.records.fence = paths.EPOCH if is_delegated else paths.CONTROLLER_EPOCH
        self._broken.clear()
        try:
            self._zookeeper.replay(zxid, session, operations, writer)
        except InvariantViolationError as violation:
            self._broken.append(str(violation))
        return list(self._broken) if writer in self._daemons else []

    def end_session(self, session: int, zxid: int) -> None:
        """End a session: its ephemeral znodes are gone."""
        self._zookeeper.zxid = zxid - 1
        self._zookeeper.close_session(session)

    def _note(self, session: int, operation: AnyOperation) -> None:
        """Note who writes: a daemon, a broker, or another client; and topics' settings."""
        data = getattr(operation, "data", None)
        match operation.path.split("/")[1:]:
            case ["reassigner", "epoch"] if session != NO_SESSION:
                self._daemons.add(session)
            case ["brokers", "ids", name] if data is not None:
                self._sessions[session] = BrokerId(int(name))
                self._broker(self._sessions[session], session).logs.may_be_offline = False
            case ["controller"] if data is not None and session not in self._daemons:
                claimed = decode_controller(data)
                if not isinstance(claimed, str):
                    self._sessions[session] = claimed.broker_id
                    self._broker(claimed.broker_id, session)
            case ["log_dir_event_notification", _] if session in self._sessions:
                self._broker(self._sessions[session], session).logs.may_be_offline = True
            case ["config", "topics", topic]:
                self._fabric.change_config(topic, _config(data))
            case _:
                pass

    def _broker(self, broker_id: BrokerId, session: int) -> _RecordedBroker:
        known = self._fabric.brokers.get(broker_id)
        if not isinstance(known, _RecordedBroker):
            known = self._fabric.brokers[broker_id] = _RecordedBroker(broker_id, self._fabric)
            self._brokers.append(known)
        known.session_id = session
        return known


def _checks(operation: AnyOperation, path: str) -> bool:
    return isinstance(operation, Check) and operation.path == path


def _config(data: bytes | None) -> TopicConfig:
    """Return what the rules need of a topic's settings; brokers' defaults are taken for Kafka's."""
    read = decode_entity_config(data or b"", ZkVersion(0))
    values = {} if isinstance(read, str) else read.values
    return TopicConfig(
        int(values.get("min.insync.replicas", DEFAULT_CONFIG.min_insync_replicas)),
        unclean_leader_election=values.get("unclean.leader.election.enable") == "true",
    )


class _Clock(Schedule):
    """ZooKeeper's clock."""

    def __init__(self) -> None:
        super().__init__(0)
        self._at_s = 0.0

    def set(self, at_s: float) -> None:
        self._at_s = at_s

    def now(self) -> Instant:
        return Instant(self._at_s)


class _RecordedZooKeeper(SimZooKeeper):
    """A tree that repeats recorded transactions with their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._writer = NO_SESSION

    def replay(
        self, zxid: int, session: int, operations: tuple[AnyOperation, ...], writer: int
    ) -> None:
        """Apply a transaction; listeners hear of ``writer`` as its session."""
        self._sessions.setdefault(session, {})
        for operation in operations:
            if isinstance(operation, Make):
                self.zxid = zxid - 1
                self.ensure(parent_of(operation.path))
        self.zxid, self._writer = zxid - 1, writer
        self.transact(session, operations)

    def _finish(self, transaction: Transaction) -> None:
        super()._finish(transaction._replace(session=self._writer))


class _RecordedBroker(SimBroker):
    """A broker of which only the registration is known: it is said to have every log."""

    logs: _AnyLogs
    session_id = NO_SESSION

    def __init__(self, broker_id: BrokerId, fabric: Fabric) -> None:
        super().__init__(broker_id, fabric)
        self.logs = _AnyLogs()

    def copy(self, partition: TopicPartition) -> None:
        """Return None: no log is known to be left."""


class _AnyLogs(dict[TopicPartition, Log]):
    """Each log is there if it is read, and none is known to be left."""

    may_be_offline = False
    """Whether the broker lost a log directory since it registered; it does not say which logs."""
    may_leave = False
    """Whether the broker may have announced its shutdown."""

    def get(self, partition: TopicPartition, default: object = None) -> Log:
        """Return a log, online unless it may be in a lost directory or its broker shuts down."""
        del partition, default
        log = Log(0)
        log.is_online = not (self.may_be_offline or self.may_leave)
        return log


class _Everything(set[int]):
    """Brokers accept the requests of every claim."""

    def __contains__(self, epoch: object) -> bool:
        return True


class _AnyIsr(EndpointRules):
    """Leaders may request any ISR: what they request is not recorded."""

    def is_as_requested(
        self, partition: TopicPartition, before: PartitionState, after: PartitionState
    ) -> bool:
        """Return whether the leader may have decided so."""
        del partition
        kept = (after.leader, after.leader_epoch, after.controller_epoch)
        return kept == (before.leader, before.leader_epoch, before.controller_epoch)
