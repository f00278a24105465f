"""
Writes of operators' commands: plans, requests, cancellations, the kill switch, the queue, controls.

A znode is created, or changed by compare-and-set from what it held; one that is unreadable stays as
it is. Nothing is written that the daemon would find unreadable.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from controller.core.model import Replicas, RequestId, TopicPartition, ZkVersion, Zxid, request_text
from controller.core.pacing.controls import Drains, Evacuations, Limits, Pauses
from controller.core.requests.submissions import (
    FIRST_VERSION,
    NO_DIRS,
    UNASKED,
    Cancellation,
    LegacyPlan,
    NamedDirs,
    RequestOptions,
    Throttle,
)
from controller.errors import (
    CancellationPendingError,
    ControllerError,
    InvalidInputError,
    ReassignmentConflictError,
)
from controller.zk.races import RACES_MAX, contention_error
from controller.zk.readers import Znode
from controller.zk.request_znodes import (
    cancellation_of,
    drains_of,
    evacuations_of,
    plan_of,
)
from controller.znodes import operator_controls, paths
from controller.znodes.cancellations import (
    KillSwitch,
    combine,
    decode_cancellation,
    decode_kill_switch,
    encode_cancellation,
    encode_kill_switch,
)
from controller.znodes.json_documents import UnreadableError
from controller.znodes.plans import encode_legacy_plan, read_options, submissions_of, write_options

if TYPE_CHECKING:
    from controller.zk.operator_connection import ZooKeeperConnection

SELECTION_S: Final = 10.0
"""Seconds in which a leading daemon selects the partitions of a cancellation."""
AGAIN: Final = wait_random(0.05, 0.15)

_Value = TypeVar("_Value")
_Brokers = TypeVar("_Brokers", Drains, Evacuations)


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A request that was submitted."""

    request: RequestId
    names: tuple[str, ...] = ()
    """Its znodes, which are gone when it is accepted."""


class RequestWrites:
    """
    Writes these znodes for one command.

    A write raises ``ReassignmentConflictError`` where a znode to create exists, or one to change is
    unreadable or changed by others all the time; ``InvalidInputError`` where the daemon would not
    read it, or it is too large for one znode.
    """

    def __init__(self, connection: ZooKeeperConnection) -> None:
        self._connection = connection

    # --- the legacy plan -------------------------------------------------------------------------

    def create_plan(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Create ``/admin/reassign_partitions``; return its czxid, which identifies the request."""
        return self._create(paths.LEGACY_PLAN, entries, log_dirs, "a plan is being carried out")

    def extend_plan(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Add entries to ``/admin/reassign_partitions``, or create it; return its czxid."""

        def extended(found: Znode | None) -> bytes:
            plan = plan_of(found)
            if plan is None:
                return self._encode(entries, log_dirs)
            if plan.unreadable is not None:
                raise ReassignmentConflictError(
                    f"{paths.LEGACY_PLAN} cannot be added to: {plan.unreadable}"
                )
            kept = {p: named for p, named in plan.log_dirs.items() if p not in entries}
            return self._encode({**plan.entries, **entries}, {**kept, **log_dirs})

        return self._connection.edit(paths.LEGACY_PLAN, extended).czxid

    # --- requests --------------------------------------------------------------------------------

    def submit_plan(
        self,
        plan: Mapping[TopicPartition, Replicas],
        options: RequestOptions,
        *,
        expected: Mapping[TopicPartition, Replicas] | None = None,
        log_dirs: NamedDirs = NO_DIRS,
    ) -> WrittenRequest:
        """
        Submit a plan as one request, in as many znodes as it needs.

        ``expected`` are the replicas of each partition for which the plan was approved. An error
        after which something may have been written has a note that says so.
        """
        check_options(options)
        own = self.new_request_id()
        parts = submissions_of(plan, options, own, expected=expected, log_dirs=log_dirs)
        names: list[str] = []
        try:
            for part in parts:
                names.append(self.submit(part))  # noqa: PERF401 - those before an error count
        except (ControllerError, KeyboardInterrupt) as error:
            if len(parts) == 1:
                error.add_note(
                    "The request may or may not have been written: see `reassigner list`."
                )
            elif names:
                error.add_note(
                    f"At least {len(names)} of {len(parts)} parts of {request_text(own)} were "
                    f"written; `reassigner cancel {own}` cancels them."
                )
            raise
        # ZooKeeper names a request of a single znode.
        return WrittenRequest(RequestId(names[0]) if len(names) == 1 else own, tuple(names))

    def submit(self, data: bytes) -> str:
        """Submit a request, or one part of it; return the name that ZooKeeper gave its znode."""
        return self._connection.create_sequential(paths.NEW_SUBMISSION, data)

    def new_request_id(self) -> RequestId:
        """Return a unique id that shows when it was made, for a request of several znodes."""
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return RequestId(f"req-{moment}-{secrets.token_hex(3)}")

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, wanted: Cancellation, *, wait_s: float = SELECTION_S) -> Cancellation:
        """
        Create ``/admin/cancel_reassignment_in_progress``, or change it as ``combine`` defines.

        An earlier one whose partitions are not all selected is awaited for ``wait_s``; after that,
        it is a conflict. Return the cancellation as written.
        """
        written = Retrying(
            retry=retry_if_exception_type(CancellationPendingError),
            stop=stop_after_delay(wait_s),
            wait=AGAIN,
            reraise=True,
        )(self._connection.edit, paths.CANCEL, lambda z: self._join(z, wanted))
        return decode_cancellation(written.data, written.version, written.czxid, written.created_ms)

    def _join(self, znode: Znode | None, wanted: Cancellation) -> bytes:
        found = cancellation_of(znode)
        # Once recorded it stays so, and the write requires the version that was looked up.
        is_selected = found is not None and self._connection.exists(
            paths.part_path(found.request, str(found.version))
        )
        data = encode_cancellation(combine(found, wanted, is_selected=is_selected))
        read = decode_cancellation(data, wanted.version, wanted.czxid, 0)
        if read.unreadable is not None:
            raise InvalidInputError(read.unreadable)
        return data

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Create ``/admin/reassign_cancel``; return the one that exists already and leave it."""
        for _ in range(RACES_MAX):
            if self._connection.create(paths.KILL_SWITCH, encode_kill_switch(switch)) is not None:
                return None
            found = self._connection.get(paths.KILL_SWITCH)
            if found is not None:
                return decode_kill_switch(found.data, found.created_ms)
        raise contention_error(paths.KILL_SWITCH)

    def enable(self) -> bool:
        """Delete ``/admin/reassign_cancel``; return False where there is none."""
        return self._connection.drop(paths.KILL_SWITCH) is not None

    # --- the queue -------------------------------------------------------------------------------

    def create_queue(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Create ``/admin/reassign_partitions_queue``; return its czxid."""
        remedy = "wait until its entries have started, or see `reassigner queue list`"
        return self._create(paths.QUEUE, entries, log_dirs, remedy)

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """
        Remove entries from the queue, and the queue with its last entry.

        Return those that were in it; the others have started, or were never queued.
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
            if left:
                data = self._encode(left, queue.log_dirs)
                is_written = self._connection.replace(paths.QUEUE, data, found.version)
            else:
                is_written = self._connection.delete(paths.QUEUE, found.version)
            if is_written:
                return taken
        raise contention_error(paths.QUEUE)

    def clear_queue(self) -> LegacyPlan | None:
        """Delete the queue, readable or not; return it, None where there is none."""
        return plan_of(self._connection.drop(paths.QUEUE))

    # --- controls --------------------------------------------------------------------------------

    def edit_pauses(self, change: Callable[[Pauses], Pauses], *, dry_run: bool = False) -> Pauses:
        """Change ``/reassigner/control/pauses``; with ``dry_run``, only check the change."""
        return self._edit(
            paths.PAUSES,
            operator_controls.decode_pauses,
            operator_controls.encode_pauses,
            change,
            Pauses(),
            dry_run=dry_run,
        )

    def edit_limits(self, change: Callable[[Limits], Limits], *, dry_run: bool = False) -> Limits:
        """Change ``/reassigner/control/limits``; with ``dry_run``, only check the change."""
        return self._edit(
            paths.LIMITS,
            operator_controls.decode_limits,
            operator_controls.encode_limits,
            change,
            Limits(),
            dry_run=dry_run,
        )

    def edit_drains(self, change: Callable[[Drains], Drains], *, dry_run: bool = False) -> Drains:
        """
        Change ``/reassigner/control/drains``, and delete it with its last broker.

        With ``dry_run``, only check the change. Return the drains as written.
        """
        encode = operator_controls.encode_drains
        return self._edit_brokers(
            paths.DRAINS, drains_of, encode, change, Drains(), dry_run=dry_run
        )

    def set_throttle(self, throttle: Throttle | None) -> Throttle | None:
        """Set ``/reassigner/control/throttle``, or delete it for None; return what it was."""
        if throttle is None:
            return _throttle(self._connection.drop(paths.THROTTLE))
        before: list[Throttle | None] = []

        def change(found: Znode | None) -> bytes:
            before.append(_throttle(found))
            return operator_controls.encode_throttle(throttle)

        self._connection.edit(paths.THROTTLE, change)
        return before[-1]

    def edit_evacuations(
        self, change: Callable[[Evacuations], Evacuations], *, dry_run: bool = False
    ) -> Evacuations:
        """Change ``/reassigner/control/evacuations``; as ``edit_drains``."""
        encode = operator_controls.encode_evacuations
        absent = Evacuations()
        return self._edit_brokers(
            paths.EVACUATIONS, evacuations_of, encode, change, absent, dry_run=dry_run
        )

    # --- inside ----------------------------------------------------------------------------------

    def _edit(  # noqa: PLR0913 - the codec of a znode
        self,
        path: str,
        decode: Callable[[bytes], _Value | str],
        encode: Callable[[_Value], bytes],
        change: Callable[[_Value], _Value],
        absent: _Value,
        *,
        dry_run: bool,
    ) -> _Value:
        """Change the value of a znode by compare-and-set; a missing znode has ``absent``."""

        def changed(found: Znode | None) -> bytes:
            data = encode(change(_read(path, lambda z: decode(z.data), found) if found else absent))
            read = decode(data)
            if isinstance(read, str):
                raise InvalidInputError(read)
            return data

        if dry_run:
            would_be = decode(changed(self._connection.get(path)))
            return absent if isinstance(would_be, str) else would_be
        return _read(path, lambda z: decode(z.data), self._connection.edit(path, changed))

    def _edit_brokers(  # noqa: PLR0913 - the codec of a znode
        self,
        path: str,
        decode: Callable[[Znode], _Brokers | str],
        encode: Callable[[_Brokers], bytes],
        change: Callable[[_Brokers], _Brokers],
        absent: _Brokers,
        *,
        dry_run: bool,
    ) -> _Brokers:
        """Change the value of a znode that is there as long as it has brokers."""
        for _ in range(RACES_MAX):
            found = self._connection.get(path)
            before = absent if found is None else _read(path, decode, found)
            wanted = change(before)
            data = encode(wanted)
            self._check_size(data, f"{path} would take")
            as_written = found or Znode(data, FIRST_VERSION, UNASKED, 0, 0)
            version = ZkVersion(as_written.version + (found is not None))
            read = decode(as_written._replace(data=data, version=version))
            if isinstance(read, str):
                raise InvalidInputError(read)
            if dry_run or wanted == before or (found is None and not wanted.brokers):
                return wanted
            if found is None:
                made = self._connection.create(path, data)
                if made is not None:
                    return _read(path, decode, made)
            elif not wanted.brokers:
                if self._connection.delete(path, found.version):
                    return wanted
            elif self._connection.replace(path, data, found.version):
                return read
        raise contention_error(path)

    def _create(
        self,
        path: str,
        entries: Mapping[TopicPartition, Replicas],
        log_dirs: NamedDirs,
        remedy: str,
    ) -> Zxid:
        made = self._connection.create(path, self._encode(entries, log_dirs))
        if made is None:
            raise ReassignmentConflictError(f"{path} exists already: {remedy}")
        return made.czxid

    def _encode(self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs) -> bytes:
        data = encode_legacy_plan(entries, log_dirs)
        self._check_size(data, "split the plan: it takes")
        return data

    def _check_size(self, data: bytes, what: str) -> None:
        most = self._connection.request_bytes
        if len(data) > most:
            raise InvalidInputError(
                f"{what} {len(data)} bytes, more than the {most} that fit into one znode; see "
                "zookeeper_jute_maxbuffer"
            )


def check_options(options: RequestOptions) -> None:
    """
    Check that the daemon would read the options of a request.

    Raises:
        InvalidInputError: it would not, so that the whole request would be refused.
    """
    try:
        read_options(write_options(options))
    except UnreadableError as error:
        raise InvalidInputError(str(error)) from error


def _throttle(found: Znode | None) -> Throttle | None:
    read = operator_controls.decode_throttle(found.data) if found else None
    return None if read is None or isinstance(read, str) else read.throttle


def _read(path: str, decode: Callable[[Znode], _Value | str], found: Znode) -> _Value:
    value = decode(found)
    if isinstance(value, str):
        raise ReassignmentConflictError(
            f"{path} cannot be changed: {value}; look at it, and delete it to start anew"
        )
    return value
