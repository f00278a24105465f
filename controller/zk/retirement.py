"""
End the reassigner on a cluster where no daemon will run again.

The settings before every throttle of a daemon are restored, then all of its znodes are deleted.
Topic znodes stay as they are: they contain the steps in flight, which the cluster's controller
ends.

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

from controller.core.model import ZkVersion
from controller.errors import ReassignmentConflictError
from controller.reactor.ports import Check, Delete, SetData
from controller.zk.cluster_znodes import ClusterZnodes
from controller.zk.connections import RACES_MAX, ZooKeeperConnection, contention_error
from controller.zk.throttle_writes import ThrottleWrites
from controller.zk.throttle_znodes import ThrottleZnodes
from controller.znodes import paths
from controller.znodes.controller import encode_leader

TOGETHER: Final = 100
"""Znodes that one multi deletes."""
_CANDIDACY: Final = "__lock__"
"""The part of a candidacy's name by which kazoo's lock knows it."""
SUBMITTED: Final = (paths.REQUESTS, paths.QUEUE, paths.CANCEL, paths.KILL_SWITCH)
"""What operators submit, and no daemon will read; deleted before the records of what it began."""


@dataclass(frozen=True, slots=True)
class Retired:
    """Settings that were restored, or znodes that were deleted, or what had to stay."""

    subject: str
    what: str
    restored: Mapping[str, str | None] = field(default_factory=dict)
    """The restored settings; None: the setting was deleted."""
    is_done: bool = True


class Retirement:
    """Writes for ``doctor --fix --no-daemon``."""

    def __init__(self, connection: ZooKeeperConnection) -> None:
        """Write through this connection."""
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
        with self._hold_lock() as candidacy:
            kept: set[str] = set()
            for retired in self._lift_all(candidacy):
                if not retired.is_done:
                    kept.add(retired.subject)
                yield retired
            for root in (*SUBMITTED, paths.REASSIGNMENTS, paths.ORPHANS):
                yield from self._delete(root, candidacy)
            own = {paths.ROOT, paths.LEADER, paths.EPOCH}
            if kept:
                own |= {paths.APPLIED_THROTTLES, *kept}
            yield from self._delete(paths.ROOT, candidacy, own)
            if kept:
                return
            if not self._end(candidacy):
                what = "stays: a daemon has started and leads next, or a command wrote there"
                yield Retired(paths.ROOT, what, is_done=False)

    def refuse_daemons(self) -> None:
        """
        Refuse where a daemon lives.

        Raises:
            ReassignmentConflictError: there is one.

        """
        self._refuse_others()

    def records(self) -> list[str]:
        """Return the paths of all znodes that would be deleted."""
        roots = (*SUBMITTED, paths.REASSIGNMENTS, paths.ROOT)
        return [path for root in roots for path in self._below(root)[::-1]]

    # --- the lock --------------------------------------------------------------------------------

    @contextmanager
    def _hold_lock(self) -> Iterator[str]:
        """Hold the lock of the daemons' election; yield the name of the candidacy."""
        self._refuse_others()
        connection = self._connection
        prefix = f"{paths.LEADER}/{uuid.uuid4().hex}{_CANDIDACY}"
        candidacy = connection.create_sequential(prefix, encode_leader(""), until_closed=True)
        try:
            self._refuse_others(candidacy)
            self._fence(candidacy)
            yield candidacy
        finally:
            connection.delete(f"{paths.LEADER}/{candidacy}", ZkVersion(0))

    def _refuse_others(self, candidacy: str | None = None) -> None:
        """
        Refuse where a daemon has a candidacy older than this one.

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

    def _fence(self, candidacy: str) -> None:
        """
        Raise the daemons' epoch: one that was suspended with its session writes nothing any more.

        Raises:
            ReassignmentConflictError: another daemon raised it at the same time.

        """
        epoch = self._connection.get(paths.EPOCH)
        if epoch is None:
            return
        following = int(epoch.data) + 1 if epoch.data.isdigit() else 1
        raised = SetData(paths.EPOCH, str(following).encode("ascii"), epoch.version)
        if not self._connection.commit([_lock_check(candidacy), raised]):
            raise ReassignmentConflictError("a daemon took the lead meanwhile: stop it first")

    def _end(self, candidacy: str) -> bool:
        """Delete the lock with the root; False where a daemon waits for it, which leads next."""
        epoch = () if self._connection.get(paths.EPOCH) is None else (paths.EPOCH,)
        own = (f"{paths.LEADER}/{candidacy}", paths.LEADER, *epoch, paths.ROOT)
        return self._connection.commit([Delete(path, None) for path in own])

    # --- what the records own --------------------------------------------------------------------

    def _lift_all(self, candidacy: str) -> Iterator[Retired]:
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
                    restored = self._writes.lift(throttle, _lock_check(candidacy))
                except ReassignmentConflictError as error:
                    failed[path] = str(error)
                    continue
                if restored is not None:
                    yield Retired(throttle.entity, "removed the throttle of", restored)
        else:
            raise contention_error(paths.APPLIED_THROTTLES)
        for path, why in sorted(failed.items()):
            yield Retired(path, f"stays, as its throttle cannot be removed: {why}", is_done=False)

    # --- the records -----------------------------------------------------------------------------

    def _delete(self, root: str, candidacy: str, but: Collection[str] = ()) -> Iterator[Retired]:
        """
        Delete a znode with all below it, the deepest first, except those named.

        Raises:
            ReassignmentConflictError: others create znodes there all the time.

        """
        deleted = 0
        for _ in range(RACES_MAX):
            found = [path for path in self._below(root) if path not in but]
            # A daemon that waits for the lock is left alone.
            found = [path for path in found if not path.startswith(f"{paths.LEADER}/")]
            if not found:
                break
            for first in range(0, len(found), TOGETHER):
                some = found[first : first + TOGETHER]
                if not self._connection.commit(
                    [_lock_check(candidacy), *(Delete(path, None) for path in some)]
                ):
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


def _lock_check(candidacy: str) -> Check:
    """Return the check that this session still holds the lock."""
    return Check(f"{paths.LEADER}/{candidacy}", ZkVersion(0))
