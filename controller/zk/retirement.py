"""
Writes of operators' commands that end throttles, or the reassigner on a cluster.

``Retirement`` is for a cluster where no daemon will run again. The settings before every throttle
of a daemon are restored, then all of its znodes are deleted. Topic znodes stay as they are: they
contain the steps in flight, which the cluster's controller ends.

A candidacy keeps daemons from leading meanwhile: one that starts waits. It heads every multi, so
that nothing is written once the session is over. Each multi leaves records from which a daemon, or
a second run, continues: a record is deleted in the multi that restores what it owns, or later.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from controller.core.model import BrokerId, ZkVersion
from controller.core.pacing import throttle_settings
from controller.core.pacing.records import AppliedThrottleEndedRecord
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import Check, Delete, SetData
from controller.reactor.znode_operations import config_operations, lifting
from controller.zk.cluster_znodes import ClusterZnodes, ThrottleZnodes
from controller.zk.operator_connection import ZooKeeperConnection
from controller.zk.races import RACES_MAX, contention_error
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_leader
from controller.znodes.entity_configs import decode_entity_config

_THROTTLES: Final = frozenset({*throttle_settings.LISTS, *throttle_settings.RATES})
TOGETHER: Final = 100
"""Znodes that one multi deletes."""
_CANDIDACY: Final = "__lock__"
"""The part of a candidacy's name by which kazoo's lock knows it."""
SUBMITTED: Final = (paths.REQUESTS, paths.QUEUE, paths.CANCEL, paths.KILL_SWITCH)
"""What operators submit, and no daemon will read; deleted before the records of what it began."""


class ThrottleWrites:
    """Writes these znodes for one command."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        self._connection = connection

    def clear(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[throttle_settings.Entity]:
        """
        Remove the throttles of brokers and topics; return those that had one.

        That is what Kafka's own tool does when nothing is reassigned any more. A throttle that a
        daemon set stays.

        Raises:
            ReassignmentConflictError: settings are unreadable, or others change them all the time.
        """
        entities = [
            *map(throttle_settings.broker_entity, brokers),
            *map(throttle_settings.topic_entity, topics),
        ]
        return frozenset(entity for entity in entities if self._clear(entity))

    def lift(
        self, applied: throttle_settings.AppliedThrottle, lock: Check | None = None
    ) -> Mapping[str, str | None] | None:
        """
        Restore the settings before a daemon's throttle, and delete the record of it.

        Settings that others have changed since stay as they are. ``lock`` is the check that no
        daemon can lead; None: none leads now.

        Returns:
            The values now of the settings that were changed, None for one that was removed. None
            where a daemon leads, which lifts it itself, or where others changed it meanwhile.

        Raises:
            ReassignmentConflictError: the settings are unreadable.
        """
        connection = self._connection
        epoch = connection.get(paths.EPOCH)
        if applied.version is None or (lock is None and connection.children(paths.LEADER)):
            return None
        config = self._config(applied.entity) or throttle_settings.EntityConfig({}, None)
        values = throttle_settings.settings_without_ours(applied, config)
        record = AppliedThrottleEndedRecord(applied.entity, applied.version, values, config.version)
        # A daemon that has become the leader meanwhile has raised it.
        fence = [] if epoch is None else [Check(paths.EPOCH, epoch.version)]
        if lock is not None:
            fence.append(lock)
        if not connection.commit([*fence, *lifting(record)]):
            return None
        after = dict(config.values if values is None else values)
        return {k: after.get(k) for k in applied.ours if after.get(k) != config.values.get(k)}

    # --- inside ----------------------------------------------------------------------------------

    def _clear(self, entity: throttle_settings.Entity) -> bool:
        record = paths.applied_throttle_path(entity)
        for _ in range(RACES_MAX):
            # A daemon writes its record in one multi with the settings, so that the version of the
            # settings shows one that is written after this.
            found = self._connection.get(paths.entity_config_path(entity))
            if found is None or self._connection.get(record) is not None:
                return False
            config = _decode_config(entity, found.data, found.version)
            left = {key: value for key, value in config.values.items() if key not in _THROTTLES}
            if left == config.values:
                return False
            if self._connection.commit(config_operations(entity, left.items(), found.version)):
                return True
        raise contention_error(paths.entity_config_path(entity))

    def _config(self, entity: throttle_settings.Entity) -> throttle_settings.EntityConfig | None:
        found = self._connection.get(paths.entity_config_path(entity))
        return found and _decode_config(entity, found.data, found.version)


def _decode_config(
    entity: throttle_settings.Entity, data: bytes, version: ZkVersion
) -> throttle_settings.EntityConfig:
    read = decode_entity_config(data, version)
    if isinstance(read, str):
        path = paths.entity_config_path(entity)
        raise ReassignmentConflictError(f"{path} cannot be changed: {read}")
    return read


@dataclass(frozen=True, slots=True)
class Retired:
    """Settings that were restored, or znodes that were deleted, or what had to stay."""

    subject: str
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    """The restored settings; None: the setting was deleted."""
    is_done: bool = True
    stays: bool = False
    """Whether it could not be deleted."""


class Retirement:
    """Writes for ``doctor --fix --no-daemon``."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        self._connection = connection
        self._throttles = ThrottleZnodes(connection)
        self._writes = ThrottleWrites(connection)

    def retire(self) -> Iterator[Retired]:
        """
        Restore and delete everything, and yield what was done.

        A throttle whose record or settings are unreadable stays with its record, and so does the
        root of the records.

        Raises:
            ReassignmentConflictError: a daemon lives, or others change the same znodes each time.
        """
        with self._hold_lock() as lock:
            kept: set[str] = set()
            for retired in self._lift_all(lock):
                if not retired.is_done:
                    kept.add(retired.subject)
                yield retired
            for root in (*SUBMITTED, paths.REASSIGNMENTS, paths.ORPHANS):
                yield from self._delete(root, lock)
            own = {paths.ROOT, paths.LEADER, paths.EPOCH}
            if kept:
                own |= {paths.APPLIED_THROTTLES, *kept}
            yield from self._delete(paths.ROOT, lock, own)
            if kept:
                return
            if not self._end(lock):
                what = "stays: a daemon has started and leads next, or a command wrote there"
                yield Retired(paths.ROOT, what, is_done=False, stays=True)

    def refuse_daemons(self, candidacy: str | None = None) -> None:
        """
        Refuse where a daemon lives, or has a candidacy older than this one.

        Raises:
            ReassignmentConflictError: there is one.
        """
        first = next(iter(ClusterZnodes(self._connection).candidates()), candidacy)
        if first == candidacy:
            return
        address = ClusterZnodes(self._connection).leader_address() or "an unknown address"
        raise ReassignmentConflictError(
            f"a daemon leads ({address}): stop it first. A daemon that was killed counts as alive "
            "until its ZooKeeper session expires (zookeeper_session_timeout)"
        )

    def records(self) -> list[str]:
        """Return the paths of all znodes that would be deleted."""
        roots = (*SUBMITTED, paths.REASSIGNMENTS, paths.ROOT)
        return [path for root in roots for path in self._below(root)[::-1]]

    # --- the lock --------------------------------------------------------------------------------

    @contextmanager
    def _hold_lock(self) -> Iterator[Check]:
        """Hold the lock of the daemons' election; yield the check that this session has it."""
        self.refuse_daemons()
        connection = self._connection
        prefix = f"{paths.LEADER}/{uuid.uuid4().hex}{_CANDIDACY}"
        candidacy = connection.create_sequential(prefix, encode_leader(""), until_closed=True)
        lock = Check(f"{paths.LEADER}/{candidacy}", ZkVersion(0))
        try:
            self.refuse_daemons(candidacy)
            self._fence(lock)
            yield lock
        finally:
            connection.delete(lock.path, lock.version)

    def _fence(self, lock: Check) -> None:
        """Raise the daemons' epoch: a daemon that was suspended writes nothing any more."""
        epoch = self._connection.get(paths.EPOCH)
        if epoch is None:
            return
        following = int(epoch.data) + 1 if epoch.data.isdigit() else 1
        raised = SetData(paths.EPOCH, str(following).encode("ascii"), epoch.version)
        if not self._connection.commit([lock, raised]):
            raise ReassignmentConflictError("a daemon took the lead meanwhile: stop it first")

    def _end(self, lock: Check) -> bool:
        """Delete the lock with the root; False where a daemon waits for it, which leads next."""
        epoch = () if self._connection.get(paths.EPOCH) is None else (paths.EPOCH,)
        own = (lock.path, paths.LEADER, *epoch, paths.ROOT)
        return self._connection.commit([Delete(path, None) for path in own])

    # --- what the records own --------------------------------------------------------------------

    def _lift_all(self, lock: Check) -> Iterator[Retired]:
        """Restore the settings before each throttle, and delete its record with that."""
        failed: dict[str, str] = {}
        for _ in range(RACES_MAX):
            with self._connection.noting_unreadable() as unreadable:
                applied = self._throttles.applied_throttles()
            failed |= unreadable
            left = [
                throttle
                for _, throttle in sorted(applied.items())
                if paths.applied_throttle_path(throttle.entity) not in failed
            ]
            if not left:
                break
            for throttle in left:
                path = paths.applied_throttle_path(throttle.entity)
                try:
                    restored = self._writes.lift(throttle, lock)
                except ReassignmentConflictError as error:
                    failed[path] = str(error)
                    continue
                if restored is not None:
                    yield Retired(throttle.entity, "removed the throttle of", restored)
        else:
            raise contention_error(paths.APPLIED_THROTTLES)
        for path, why in sorted(failed.items()):
            yield Retired(
                path, f"stays, as its throttle cannot be removed: {why}", is_done=False, stays=True
            )

    # --- the records -----------------------------------------------------------------------------

    def _delete(self, root: str, lock: Check, but: Collection[str] = ()) -> Iterator[Retired]:
        """Delete a znode with all below it, the deepest first, except those named."""
        deleted = 0
        for _ in range(RACES_MAX):
            found = [path for path in self._below(root) if path not in but]
            # A daemon that waits for the lock is left alone.
            found = [path for path in found if not path.startswith(f"{paths.LEADER}/")]
            if not found:
                break
            for first in range(0, len(found), TOGETHER):
                some = found[first : first + TOGETHER]
                if not self._connection.commit([lock, *(Delete(path, None) for path in some)]):
                    break
                deleted += len(some)
        else:
            raise contention_error(root)
        if deleted:
            yield Retired(root, f"deleted {deleted} znodes:" if deleted > 1 else "deleted")

    def _below(self, root: str) -> list[str]:
        """Return a znode and all below it, each after its children."""
        if not self._connection.exists(root):
            return []
        found = [root]
        level: Iterable[str] = [root]
        while True:
            listed = self._connection.children_of_many(level)
            level = [f"{path}/{name}" for path, names in listed for name in names]
            if not level:
                return found[::-1]
            found += level
