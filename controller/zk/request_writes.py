"""
Writes of operators' commands: plans, requests, cancellations, the kill switch, the queue, controls.

A znode is created, or changed by compare-and-set from what it held; one that is unreadable stays as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from controller.core.model import (
    NO_DIRS,
    LegacyPlan,
    NamedDirs,
    Replicas,
    TopicPartition,
    Zxid,
)
from controller.core.pacing.controls import Limits, Pauses
from controller.core.requests.submissions import Cancellation
from controller.errors import (
    CancellationPendingError,
    InvalidInputError,
    ReassignmentConflictError,
)
from controller.zk.connections import RACES_MAX, Connection, contended
from controller.zk.request_znodes import cancellation_of, plan_of
from controller.zk.znode_reads import Znode
from controller.znodes import operator_controls, paths
from controller.znodes.cancellations import decode_cancellation, encode_cancellation, joined
from controller.znodes.kill_switches import KillSwitch, decode_kill_switch, encode_kill_switch
from controller.znodes.legacy_plans import encode_legacy_plan

SELECTION_S: Final = 10.0
"""Seconds in which a leading daemon selects the partitions of a cancellation."""
AGAIN: Final = wait_random(0.05, 0.15)

_Value = TypeVar("_Value")


class RequestWrites:
    """Writes these znodes for one command."""

    def __init__(self, connection: Connection) -> None:
        """Write through this connection."""
        self._connection = connection

    # --- the legacy plan -------------------------------------------------------------------------

    def create_plan(
        self,
        entries: Mapping[TopicPartition, Replicas],
        log_dirs: NamedDirs = NO_DIRS,
    ) -> Zxid:
        """
        Create ``/admin/reassign_partitions``.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: it exists.
            InvalidInputError: the plan is too large for one znode.

        """
        made = self._connection.create(paths.LEGACY_PLAN, self._encoded(entries, log_dirs))
        if made is None:
            raise ReassignmentConflictError(
                f"{paths.LEGACY_PLAN} exists already: a plan is being carried out"
            )
        return made.czxid

    def extend_plan(
        self,
        entries: Mapping[TopicPartition, Replicas],
        log_dirs: NamedDirs = NO_DIRS,
    ) -> Zxid:
        """
        Add entries to ``/admin/reassign_partitions``, or create it.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: it is unreadable, or others change it all the time.
            InvalidInputError: it would be too large for one znode.

        """

        def extended(found: Znode | None) -> bytes:
            plan = plan_of(found)
            if plan is not None and plan.unreadable is not None:
                raise ReassignmentConflictError(
                    f"{paths.LEGACY_PLAN} cannot be added to: {plan.unreadable}"
                )
            if plan is None:
                return self._encoded(entries, log_dirs)
            kept = {p: named for p, named in plan.log_dirs.items() if p not in entries}
            return self._encoded({**plan.entries, **entries}, {**kept, **log_dirs})

        return self._connection.edit(paths.LEGACY_PLAN, extended).czxid

    # --- requests --------------------------------------------------------------------------------

    def submit(self, data: bytes) -> str:
        """
        Submit a request, or one part of it.

        Returns:
            The name that ZooKeeper gave its znode.

        """
        return self._connection.create_sequential(paths.submissions_path(), data)

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, wanted: Cancellation, *, wait_s: float = SELECTION_S) -> Cancellation:
        """
        Create ``/admin/cancel_reassignment_in_progress``, or change it as ``joined`` defines.

        Args:
            wanted: The cancellation; its version, czxid and age have no meaning.
            wait_s: Seconds to wait for an earlier one whose partitions are not all selected.

        Returns:
            The cancellation as written.

        Raises:
            ReassignmentConflictError: others change it all the time, it is unreadable, or an
                earlier one is not selected in time.

        """
        written = Retrying(
            retry=retry_if_exception_type(CancellationPendingError),
            stop=stop_after_delay(wait_s),
            wait=AGAIN,
            reraise=True,
        )(self._connection.edit, paths.CANCEL, lambda z: self._joined(z, wanted))
        return decode_cancellation(written.data, written.version, written.czxid, written.created_ms)

    def _joined(self, znode: Znode | None, wanted: Cancellation) -> bytes:
        found = cancellation_of(znode)
        # Once recorded it stays so, and the write requires the version that was looked up.
        is_selected = found is not None and self._connection.exists(
            paths.part_path(found.request, str(found.version))
        )
        return encode_cancellation(joined(found, wanted, is_selected=is_selected))

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Create ``/admin/reassign_cancel``; return the one that exists already and leave it."""
        for _ in range(RACES_MAX):
            if self._connection.create(paths.KILL_SWITCH, encode_kill_switch(switch)) is not None:
                return None
            found = self._connection.get(paths.KILL_SWITCH)
            if found is not None:
                return decode_kill_switch(found.data, found.created_ms)
        raise contended(paths.KILL_SWITCH)

    def enable(self) -> bool:
        """Delete ``/admin/reassign_cancel``; return False where there is none."""
        return self._connection.drop(paths.KILL_SWITCH) is not None

    # --- the queue -------------------------------------------------------------------------------

    def create_queue(
        self,
        entries: Mapping[TopicPartition, Replicas],
        log_dirs: NamedDirs = NO_DIRS,
    ) -> Zxid:
        """
        Create ``/admin/reassign_partitions_queue``; return its czxid.

        Raises:
            ReassignmentConflictError: it exists.
            InvalidInputError: it is too large for one znode.

        """
        made = self._connection.create(paths.QUEUE, self._encoded(entries, log_dirs))
        if made is None:
            raise ReassignmentConflictError(
                f"{paths.QUEUE} exists already: wait until its entries have started, or see "
                "`reassigner queue list`"
            )
        return made.czxid

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """
        Remove entries from the queue, and the queue with its last entry.

        Returns:
            Those that were in it; the others have started, or were never queued.

        Raises:
            ReassignmentConflictError: it is unreadable, or others change it all the time.

        """
        wanted = frozenset(partitions)
        for _ in range(RACES_MAX):
            found = self._connection.get(paths.QUEUE)
            queue = plan_of(found)
            if found is None or queue is None:
                return frozenset()
            if queue.unreadable is not None or queue.refused:
                why = queue.unreadable or queue.refused[0][1]
                raise ReassignmentConflictError(f"{paths.QUEUE} cannot be changed: {why}")
            taken = wanted & queue.entries.keys()
            left = {p: r for p, r in queue.entries.items() if p not in wanted}
            if not taken:
                return frozenset()
            if (
                self._connection.replace(
                    paths.QUEUE, self._encoded(left, queue.log_dirs), found.version
                )
                if left
                else self._connection.delete(paths.QUEUE, found.version)
            ):
                return taken
        raise contended(paths.QUEUE)

    def clear_queue(self) -> LegacyPlan | None:
        """Delete the queue, readable or not; return it, None where there is none."""
        return plan_of(self._connection.drop(paths.QUEUE))

    # --- controls --------------------------------------------------------------------------------

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """
        Change ``/reassigner/control/pauses``.

        Raises:
            ReassignmentConflictError: it is unreadable, or others change it all the time.

        """
        return self._edit(
            paths.PAUSES,
            operator_controls.decode_pauses,
            operator_controls.encode_pauses,
            change,
            Pauses(),
        )

    def edit_limits(self, change: Callable[[Limits], Limits]) -> Limits:
        """
        Change ``/reassigner/control/limits``.

        Raises:
            ReassignmentConflictError: it is unreadable, or others change it all the time.

        """
        return self._edit(
            paths.LIMITS,
            operator_controls.decode_limits,
            operator_controls.encode_limits,
            change,
            Limits(),
        )

    def set_throttle(self, bytes_per_s: int | None) -> int | None:
        """Set ``/reassigner/control/throttle``, or delete it for None; return what it was."""
        if bytes_per_s is None:
            return _throttle(self._connection.drop(paths.THROTTLE))
        before: list[int | None] = []

        def change(found: Znode | None) -> bytes:
            before.append(_throttle(found))
            return operator_controls.encode_throttle(bytes_per_s)

        self._connection.edit(paths.THROTTLE, change)
        return before[-1]

    # --- inside ----------------------------------------------------------------------------------

    def _edit(
        self,
        path: str,
        decode: Callable[[bytes], _Value | str],
        encode: Callable[[_Value], bytes],
        change: Callable[[_Value], _Value],
        absent: _Value,
    ) -> _Value:
        """Change the value of a znode by compare-and-set; a missing znode has ``absent``."""
        written = self._connection.edit(
            path, lambda found: encode(change(_read(path, decode, found) if found else absent))
        )
        return _read(path, decode, written)

    def _encoded(
        self,
        entries: Mapping[TopicPartition, Replicas],
        log_dirs: NamedDirs,
    ) -> bytes:
        data = encode_legacy_plan(entries, log_dirs)
        if len(data) > self._connection.request_bytes:
            raise InvalidInputError(
                f"the plan takes {len(data)} bytes, more than the {self._connection.request_bytes} "
                "that fit into one znode; split it, or see zookeeper_jute_maxbuffer"
            )
        return data


def _throttle(found: Znode | None) -> int | None:
    read = operator_controls.decode_throttle(found.data) if found else None
    return None if isinstance(read, str) else read


def _read(path: str, decode: Callable[[bytes], _Value | str], found: Znode) -> _Value:
    value = decode(found.data)
    if isinstance(value, str):
        raise ReassignmentConflictError(
            f"{path} cannot be changed: {value}; look at it, and delete it to start anew"
        )
    return value
