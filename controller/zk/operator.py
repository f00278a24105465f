"""
ZooKeeper as the operator's commands need it: what they write, beside all they read.

Everything is created, or changed by compare-and-set from what stood there; nothing is overwritten
unseen, and what cannot be understood is left for somebody to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from controller.core.applied_throttles import AppliedThrottle, EntityConfig
from controller.core.controls import Limits, Pauses
from controller.core.model import LegacyPlan, Replicas, TopicPartition, ZkVersion, Zxid
from controller.core.records import AppliedThrottleEndedRecord
from controller.core.submissions import Cancellation
from controller.core.throttling.throttle_settings import restored
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.reactor.ports import Check
from controller.reactor.znode_operations import lifting
from controller.zk.connections import Found
from controller.zk.unthrottling import Unthrottling
from controller.znodes import paths
from controller.znodes.cancellations import decode_cancellation, encode_cancellation
from controller.znodes.entity_configs import decode_entity_config
from controller.znodes.kill_switches import KillSwitch, decode_kill_switch, encode_kill_switch
from controller.znodes.legacy_plans import decode_legacy_plan, encode_legacy_plan
from controller.znodes.operator_controls import (
    decode_limits,
    decode_pauses,
    decode_throttle,
    encode_limits,
    encode_pauses,
    encode_throttle,
)

RACES_MAX: Final = 20

_Value = TypeVar("_Value")


class Operator(Unthrottling):
    """A connection for one command; use it as a context manager."""

    # --- the legacy plan -----------------------------------------------------------------------

    def create_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """
        Write a plan where there is none.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: there is one already.
            PlanInvalidError: it is too large for one znode.

        """
        made = self._create(paths.LEGACY_PLAN, self._encoded(entries))
        if made is None:
            raise ReassignmentConflictError(
                f"{paths.LEGACY_PLAN} exists already: a plan is being carried out"
            )
        return made.czxid

    def extend_plan(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """
        Add entries to the plan that is there, or write one where it has just ended.

        Returns:
            The czxid of the znode, which identifies the request.

        Raises:
            ReassignmentConflictError: what is there cannot be read, or changes all the time.
            PlanInvalidError: it would be too large for one znode.

        """

        def extended(found: Found | None) -> bytes:
            plan = _plan(found)
            if plan is not None and plan.unreadable is not None:
                raise ReassignmentConflictError(
                    f"{paths.LEGACY_PLAN} cannot be added to: {plan.unreadable}"
                )
            return self._encoded({**(plan.entries if plan else {}), **entries})

        return self._edit(paths.LEGACY_PLAN, extended).czxid

    # --- requests ------------------------------------------------------------------------------

    def submit(self, data: bytes) -> str:
        """
        Write a request, or one part of it.

        Returns:
            The name ZooKeeper gave its znode.

        """
        return self._create_sequential(paths.submissions_path(), data)

    # --- cancelling ----------------------------------------------------------------------------

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """
        Write ``/admin/cancel_reassignment_in_progress``, or change what is there.

        Args:
            join: Returns what is to stand there, from what does; its versions are not looked at.

        Returns:
            What stands there now.

        Raises:
            ReassignmentConflictError: it changes all the time, or ``join`` refuses.

        """
        written = self._edit(
            paths.CANCEL, lambda found: encode_cancellation(join(_cancellation(found)))
        )
        return decode_cancellation(written.data, written.version, written.czxid, written.created_ms)

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Create ``/admin/reassign_cancel``; what is there already is returned and stays."""
        for _ in range(RACES_MAX):
            if self._create(paths.KILL_SWITCH, encode_kill_switch(switch)) is not None:
                return None
            found = self._get(paths.KILL_SWITCH)
            if found is not None:
                return decode_kill_switch(found.data, found.created_ms)
        raise _restless(paths.KILL_SWITCH)

    def enable(self) -> bool:
        """Delete ``/admin/reassign_cancel``; False where there is none."""
        return self._drop(paths.KILL_SWITCH) is not None

    # --- the queue -----------------------------------------------------------------------------

    def create_queue(self, entries: Mapping[TopicPartition, Replicas]) -> Zxid:
        """
        Write ``/admin/reassign_partitions_queue``.

        Raises:
            ReassignmentConflictError: there is one already.
            PlanInvalidError: it is too large for one znode.

        """
        made = self._create(paths.QUEUE, self._encoded(entries))
        if made is None:
            raise ReassignmentConflictError(
                f"{paths.QUEUE} exists already: wait until its entries have started, or see "
                "`reassigner queue list`"
            )
        return made.czxid

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """
        Take entries out of the queue, and the queue away with the last one.

        Returns:
            Those that were in it; the others have started, or were never there.

        Raises:
            ReassignmentConflictError: what is there cannot be read, or changes all the time.

        """
        wanted = frozenset(partitions)
        for _ in range(RACES_MAX):
            found = self._get(paths.QUEUE)
            queue = _plan(found)
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
                self._replace(paths.QUEUE, self._encoded(left), found.version)
                if left
                else self._delete(paths.QUEUE, found.version)
            ):
                return taken
        raise _restless(paths.QUEUE)

    def clear_queue(self) -> LegacyPlan | None:
        """Delete the queue, readable or not; return what was in it, None where there is none."""
        return _plan(self._drop(paths.QUEUE))

    # --- controls ------------------------------------------------------------------------------

    def edit_pauses(self, change: Callable[[Pauses], Pauses]) -> Pauses:
        """
        Change ``/reassigner/control/pauses``.

        Raises:
            ReassignmentConflictError: what is there cannot be read, or changes all the time.

        """
        path = paths.PAUSES
        written = self._edit(
            path,
            lambda f: encode_pauses(change(_read(path, decode_pauses, f) if f else Pauses())),
        )
        return _read(path, decode_pauses, written)

    def edit_limits(self, change: Callable[[Limits], Limits]) -> Limits:
        """
        Change ``/reassigner/control/limits``.

        Raises:
            ReassignmentConflictError: what is there cannot be read, or changes all the time.

        """
        path = paths.LIMITS
        written = self._edit(
            path,
            lambda f: encode_limits(change(_read(path, decode_limits, f) if f else Limits())),
        )
        return _read(path, decode_limits, written)

    def set_throttle(self, bytes_per_s: int | None) -> int | None:
        """Set ``/reassigner/control/throttle``, None for none; return what stood there."""
        if bytes_per_s is None:
            return _throttle(self._drop(paths.THROTTLE))
        before: list[int | None] = []

        def change(found: Found | None) -> bytes:
            before.append(_throttle(found))
            return encode_throttle(bytes_per_s)

        self._edit(paths.THROTTLE, change)
        return before[-1]

    # --- throttles -----------------------------------------------------------------------------

    def lift_throttle(self, lease: AppliedThrottle) -> Mapping[str, str | None] | None:
        """
        Restore what stood where a daemon set a throttle, tell the brokers, and end its lease.

        What others have changed since stays as it is.

        Returns:
            What stands now in the settings that were changed, None for no such setting; None where
            a daemon leads by now, which does it itself, or where somebody else was faster.

        Raises:
            ReassignmentConflictError: the settings cannot be read.

        """
        epoch = self._get(paths.EPOCH)
        if lease.version is None or self._children(paths.LEADER):
            return None
        path = paths.entity_config_path(lease.entity)
        config = _config(path, self._get(path))
        values = restored(lease, config)
        version = None if values is None else config.version
        record = AppliedThrottleEndedRecord(lease.entity, lease.version, values, version)
        # Whoever has become the leader meanwhile has counted it up.
        fence = [] if epoch is None else [Check(paths.EPOCH, epoch.version)]
        if not self._commit([*fence, *lifting(record)]):
            return None
        after = dict(config.values if values is None else values)
        return {k: after.get(k) for k in lease.ours if after.get(k) != config.values.get(k)}

    # --- inside --------------------------------------------------------------------------------

    def _edit(self, path: str, change: Callable[[Found | None], bytes]) -> Found:
        """Replace what stands there, or create it, until nobody was in between."""
        for _ in range(RACES_MAX):
            found = self._get(path)
            data = change(found)
            if found is None:
                made = self._create(path, data)
                if made is not None:
                    return made
            elif self._replace(path, data, found.version):
                return found._replace(data=data, version=ZkVersion(found.version + 1))
        raise _restless(path)

    def _encoded(self, entries: Mapping[TopicPartition, Replicas]) -> bytes:
        data = encode_legacy_plan(entries)
        if len(data) > self._request_bytes:
            raise InvalidInputError(
                f"the plan takes {len(data)} bytes, more than the {self._request_bytes} that fit "
                "into one znode; split it, or see zookeeper_jute_maxbuffer"
            )
        return data

    def _drop(self, path: str) -> Found | None:
        """Delete what stands there; None where there is nothing."""
        for _ in range(RACES_MAX):
            found = self._get(path)
            if found is None or self._delete(path, found.version):
                return found
        raise _restless(path)


def _restless(path: str) -> ReassignmentConflictError:
    return ReassignmentConflictError(f"{path} changes all the time; try again")


def _plan(found: Found | None) -> LegacyPlan | None:
    return found and decode_legacy_plan(found.data, found.version, found.czxid)


def _cancellation(found: Found | None) -> Cancellation | None:
    return found and decode_cancellation(found.data, found.version, found.czxid, found.created_ms)


def _config(path: str, found: Found | None) -> EntityConfig:
    read = decode_entity_config(found.data, found.version) if found else EntityConfig({}, None)
    if isinstance(read, str):
        raise ReassignmentConflictError(f"{path} cannot be changed: {read}")
    return read


def _throttle(found: Found | None) -> int | None:
    read = decode_throttle(found.data) if found else None
    return None if isinstance(read, str) else read


def _read(path: str, decode: Callable[[bytes], _Value | str], found: Found) -> _Value:
    value = decode(found.data)
    if isinstance(value, str):
        raise ReassignmentConflictError(
            f"{path} cannot be changed: {value}; look at it, and delete it to start anew"
        )
    return value
