"""The reassigner is ended on a cluster, whatever instant the command dies at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from controller.core.model import BrokerId, TopicPartition, ZkVersion, Zxid
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    AppliedThrottle,
    broker_entity,
    topic_entity,
)
from controller.core.reassignments.model import Orphan
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import Operation
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.readers import Key, Znode
from controller.zk.retirement import TOGETHER, Retired, Retirement
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_leader
from controller.znodes.entity_configs import (
    decode_entity_config,
    encode_applied_throttle,
    encode_entity_config,
)
from controller.znodes.reassignments import encode_orphan, encode_spec
from tests.core.builders import tp
from tests.sim.zookeeper import NO_SESSION, Make, SimZooKeeper, TransactionFailedError
from tests.telemetry.builders import a_goal

OF_BROKER = AppliedThrottle(
    broker_entity(BrokerId(3)),
    {LEADER_RATE: "7", FOLLOWER_RATE: "7"},
    {LEADER_RATE: "9", FOLLOWER_RATE: None},
)
OF_TOPIC = AppliedThrottle(topic_entity("t"), {LEADER_REPLICAS: "0:1"}, {LEADER_REPLICAS: None})
BEFORE = {OF_BROKER.entity: {LEADER_RATE: "9"}, OF_TOPIC.entity: {"retention.ms": "5"}}
"""The settings before the daemon set its throttles."""


class Killed(BaseException):
    """The command was killed."""


class SimConnection:
    """A connection to a simulated ZooKeeper that may be killed before or after a write."""

    def __init__(self, zookeeper: SimZooKeeper, writes_left: int | None = None) -> None:
        self._zookeeper = zookeeper
        self._session = zookeeper.open_session()
        self._writes_left = writes_left
        self.before_commit: Callable[[], None] = lambda: None
        self._unreadable: dict[str, str] = {}

    def close(self) -> None:
        """End the session, with which the candidacy goes."""
        self._zookeeper.close_session(self._session)

    def get(self, path: str) -> Znode | None:
        """Read a znode."""
        found = self._zookeeper.get(path)
        if found is None:
            return None
        return Znode(
            found.data,
            ZkVersion(found.version),
            Zxid(found.czxid),
            found.ephemeral_owner,
            found.created_ms,
            Zxid(found.mzxid),
        )

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = 0
    ) -> Iterator[tuple[Key, Znode | None]]:
        """Read znodes."""
        del window
        return ((key, self.get(path_of(key))) for key in keys)

    show, show_many = get, get_many

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode."""
        return self.get(path) is not None

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory."""
        return tuple(sorted(self._zookeeper.children(path) or ()))

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """List directories."""
        return ((path, self.children(path)) for path in paths)

    def unreadable(self, path: str, reason: str) -> None:
        """Note a znode that cannot be decoded."""
        self._unreadable[path] = reason

    @contextmanager
    def noting_unreadable(self) -> Iterator[Mapping[str, str]]:
        """Return the notes."""
        self._unreadable = {}
        yield self._unreadable

    def create_sequential(self, path: str, data: bytes, *, until_closed: bool = False) -> str:
        """Create a znode with its parents."""
        self._zookeeper.ensure(path.rpartition("/")[0])
        make = Make(path, data, ephemeral=until_closed, sequential=True)
        return self._written(make)[0].rpartition("/")[2]

    def delete(self, path: str, version: ZkVersion) -> bool:
        """Delete a znode that exists."""
        del version
        if not self.exists(path):
            return False
        self._zookeeper.remove_tree(path, self._session)
        return True

    def commit(self, multi: Iterable[Operation]) -> bool:
        """Write all or nothing."""
        self.before_commit()
        try:
            self._written(*multi)
        except TransactionFailedError:
            return False
        return True

    def _written(self, *operations: Any) -> list[str]:  # noqa: ANN401 - of either kind
        if self._writes_left == 0:
            raise Killed
        made = self._zookeeper.transact(self._session, operations)
        if self._writes_left is not None:
            self._writes_left -= 1
        return made


def settings_of(zookeeper: SimZooKeeper, entity: str) -> Mapping[str, str]:
    """Return the dynamic settings that stand."""
    found = zookeeper.get(f"/config/{entity}")
    if found is None:
        return {}
    read = decode_entity_config(found.data, ZkVersion(found.version))
    assert not isinstance(read, str)
    return read.values


def left_by_a_daemon() -> SimZooKeeper:
    """Return a cluster on which a daemon died in a throttled plan."""
    zookeeper = SimZooKeeper()
    for path in (paths.BROKER_IDS, paths.TOPICS, paths.CONFIG_CHANGES, paths.LEADER):
        zookeeper.ensure(path)
    zookeeper.ensure(paths.EPOCH, b"4")
    for applied in (OF_BROKER, OF_TOPIC):
        values = {**BEFORE[applied.entity], **applied.ours}
        zookeeper.ensure(f"/config/{applied.entity}", encode_entity_config(values.items()))
        zookeeper.ensure(
            paths.applied_throttle_path(applied.entity), encode_applied_throttle(applied)
        )
    for number in range(TOGETHER + 5):
        zookeeper.ensure(paths.reassignment_path(tp(number)), encode_spec(a_goal((2, 3, 4))))
    orphan = Orphan(BrokerId(2), tp(7), Zxid(3), "not live")
    zookeeper.ensure(paths.orphan_path(BrokerId(2), tp(7)), encode_orphan(orphan))
    zookeeper.ensure(paths.submission_path("request_0000000001"), b"{}")
    for path in (paths.QUEUE, paths.CANCEL, paths.KILL_SWITCH, paths.LIMITS, paths.PAUSES):
        zookeeper.ensure(path, b"{}")
    zookeeper.ensure(f"{paths.OUTCOMES}/r/summary", b"{}")
    zookeeper.ensure(paths.LEGACY_PLAN, b"{}")
    return zookeeper


def retire(zookeeper: SimZooKeeper, writes_left: int | None = None) -> list[Retired]:
    """Run the command; it may be killed after so many writes."""
    connection = SimConnection(zookeeper, writes_left)
    try:
        return list(Retirement(cast("ZooKeeperConnection", connection)).retire())
    finally:
        connection.close()


def assert_gone(zookeeper: SimZooKeeper) -> None:
    """Nothing of a daemon is left, and what was there before it stands."""
    for path in (paths.ROOT, paths.REASSIGNMENTS, paths.REQUESTS, paths.QUEUE, paths.CANCEL):
        assert not zookeeper.exists(path), path
    assert not zookeeper.exists(paths.KILL_SWITCH)
    for entity, values in BEFORE.items():
        assert settings_of(zookeeper, entity) == values
    assert zookeeper.exists(paths.LEGACY_PLAN), "Kafka's controller reads it"


def test_settings_are_restored_and_records_deleted() -> None:
    """With an announcement for the brokers; a second run finds nothing."""
    zookeeper = left_by_a_daemon()
    done = retire(zookeeper)
    assert_gone(zookeeper)
    assert all(retired.is_done for retired in done)
    assert (
        Retired(
            OF_BROKER.entity, "removed the throttle of", {LEADER_RATE: "9", FOLLOWER_RATE: None}
        )
        in done
    )
    assert len(zookeeper.children(paths.CONFIG_CHANGES) or ()) == 2
    assert retire(zookeeper) == []
    assert_gone(zookeeper)


def test_command_that_dies_at_any_instant_is_repeated() -> None:
    """No record is gone before what it owns is restored."""
    for writes in range(100):
        zookeeper = left_by_a_daemon()
        try:
            retire(zookeeper, writes)
        except Killed:
            pass
        else:
            assert writes > 5
            break
        for applied in (OF_BROKER, OF_TOPIC):
            if not zookeeper.exists(paths.applied_throttle_path(applied.entity)):
                assert settings_of(zookeeper, applied.entity) == BEFORE[applied.entity]
        if zookeeper.children(paths.APPLIED_THROTTLES):
            assert zookeeper.exists(paths.reassignment_path(tp(0))), "its owner"
            assert zookeeper.exists(paths.submission_path("request_0000000001"))
        retire(zookeeper)
        assert_gone(zookeeper)
    else:
        raise AssertionError("it never ends")


def test_nothing_is_changed_while_a_daemon_lives() -> None:
    """A standby counts as well; the message has the address."""
    zookeeper = left_by_a_daemon()
    zookeeper.ensure(f"{paths.LEADER}/a__lock__0000000001", encode_leader("host:8095"))
    before = zookeeper.zxid
    with pytest.raises(ReassignmentConflictError, match="host:8095"):
        retire(zookeeper)
    assert zookeeper.zxid == before
    with pytest.raises(ReassignmentConflictError):
        Retirement(cast("ZooKeeperConnection", SimConnection(zookeeper))).refuse_daemons()


def test_daemon_that_starts_meanwhile_waits_and_leads_next() -> None:
    """It finds its lock and its epoch, and no record."""
    zookeeper = left_by_a_daemon()
    connection = SimConnection(zookeeper)
    daemon = f"{paths.LEADER}/b__lock__9999999999"
    connection.before_commit = lambda: zookeeper.ensure(daemon, encode_leader("host:8095"))
    done = list(Retirement(cast("ZooKeeperConnection", connection)).retire())
    assert [r.subject for r in done if not r.is_done] == [paths.ROOT]
    assert zookeeper.children(paths.ROOT) == ("leader", "epoch")
    assert zookeeper.children(paths.LEADER) == (daemon.rpartition("/")[2],)
    assert zookeeper.exists(daemon)
    assert settings_of(zookeeper, OF_TOPIC.entity) == BEFORE[OF_TOPIC.entity]


def test_suspended_leader_is_fenced() -> None:
    """Its session may have expired without its notice: the epoch that it checks is another."""
    zookeeper = left_by_a_daemon()
    connection = SimConnection(zookeeper)
    for _ in Retirement(cast("ZooKeeperConnection", connection)).retire():
        found = zookeeper.get(paths.EPOCH)
        assert found is not None
        assert (found.data, found.version) == (b"5", 1)
        break


def test_session_that_ends_writes_nothing_more() -> None:
    """Another daemon may lead from then on."""
    zookeeper = left_by_a_daemon()
    connection = SimConnection(zookeeper)
    retiring = Retirement(cast("ZooKeeperConnection", connection)).retire()
    next(retiring)
    (candidacy,) = zookeeper.children(paths.LEADER) or ()
    zookeeper.remove_tree(f"{paths.LEADER}/{candidacy}", NO_SESSION)
    before = zookeeper.zxid
    with pytest.raises(Exception, match="changes all the time"):
        list(retiring)
    assert zookeeper.zxid == before


def test_unreadable_throttle_stays_with_its_record() -> None:
    """Everything else goes; what it set is not known, or cannot be replaced."""
    zookeeper = left_by_a_daemon()
    record = f"{paths.APPLIED_THROTTLES}/topics:other"
    zookeeper.ensure(record, b"nonsense")
    zookeeper.transact(NO_SESSION, [Make("/config/topics/broken", b"nonsense")])
    broken = AppliedThrottle(topic_entity("broken"), OF_TOPIC.ours, OF_TOPIC.before)
    zookeeper.ensure(paths.applied_throttle_path(broken.entity), encode_applied_throttle(broken))
    done = retire(zookeeper)
    kept = {record, paths.applied_throttle_path(broken.entity)}
    assert {retired.subject for retired in done if not retired.is_done} == kept
    left = {
        f"{paths.APPLIED_THROTTLES}/{n}" for n in zookeeper.children(paths.APPLIED_THROTTLES) or ()
    }
    assert left == kept
    assert set(zookeeper.children(paths.ROOT) or ()) == {"throttles", "leader", "epoch"}
    assert not zookeeper.exists(paths.REASSIGNMENTS)


def test_dry_run_lists_what_would_be_deleted() -> None:
    """Kafka's own znodes are not among them."""
    zookeeper = left_by_a_daemon()
    listed = Retirement(cast("ZooKeeperConnection", SimConnection(zookeeper))).records()
    assert paths.reassignment_path(TopicPartition("t", 3)) in listed
    assert paths.QUEUE in listed
    assert not [path for path in listed if path.startswith(("/brokers", "/config"))]
    assert paths.LEGACY_PLAN not in listed
