"""
What operators ask for, as events: requests, cancellations, the kill switch, the queue, controls.

Everything here is watched, as anybody may write it. What is kept of it is ``histories``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from controller.core.controls import Controls, Limits, Pauses
from controller.core.events import (
    CancellationRead,
    ControlsRead,
    KillSwitchRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.model import LegacyPlan
from controller.core.submissions import Cancellation, Submission
from controller.zk.readers import Hidden, Reader, Watch, Znode, warn_unreadable
from controller.znodes import paths
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.operator_controls import decode_limits, decode_pauses, decode_throttle
from controller.znodes.submissions import decode_submission

Value = TypeVar("Value")


class Requests:
    """Reads one of them at a time."""

    def __init__(self, reader: Reader) -> None:
        """Read by this reader."""
        self._reader = reader

    def listed(self, watcher: Watch) -> SubmissionsListed:
        """List the requests; what is no request is left where it is."""
        names = self._reader.children_watched(paths.REQUESTS, watcher)
        for name in names:
            if not paths.is_submission(name):
                warn_unreadable(paths.submission_path(name), "it is not named like a request")
        return SubmissionsListed(frozenset(filter(paths.is_submission, names)))

    def read(self, names: Sequence[str]) -> SubmissionsRead:
        """Read requests as submitted."""
        read: dict[str, Submission | None] = {}
        for name, shown in self._reader.show_many(names, paths.submission_path):
            read[name] = shown and _submission(name, shown)
        return SubmissionsRead(read)

    def cancellation(self, watcher: Watch) -> CancellationRead:
        """Read what is to be cancelled."""
        znode = self._reader.show_watched(paths.CANCEL, watcher)
        if znode is None:
            return CancellationRead(None)
        if isinstance(znode, Hidden):
            return CancellationRead(
                Cancellation(znode.version, znode.born, znode.created_ms, unreadable=znode.reason)
            )
        return CancellationRead(
            decode_cancellation(
                znode.data, znode.version, znode.czxid, znode.created_ms, znode.mzxid
            )
        )

    def kill_switch(self, watcher: Watch) -> KillSwitchRead:
        """Look whether work may begin."""
        return KillSwitchRead(self._reader.exists(paths.KILL_SWITCH, watcher))

    def queue(self, watcher: Watch) -> QueueRead:
        """Read the queue."""
        znode = self._reader.show_watched(paths.QUEUE, watcher)
        return QueueRead(znode and plan_of(znode))

    def controls(self, watcher: Watch) -> ControlsRead:
        """Read what operators turned."""
        unreadable: dict[str, str] = {}

        def read(path: str, decode: Callable[[bytes], Value | str]) -> Value | None:
            znode = self._reader.show_watched(path, watcher)
            if isinstance(znode, Hidden):
                value: Value | str | None = znode.reason
            else:
                value = None if znode is None else decode(znode.data)
            if isinstance(value, str):
                unreadable[path] = value
                warn_unreadable(path, value)
                return None
            return value

        pauses = read(paths.PAUSES, decode_pauses)
        limits = read(paths.LIMITS, decode_limits)
        throttle = read(paths.THROTTLE, decode_throttle)
        return ControlsRead(Controls(pauses or Pauses(), limits or Limits(), throttle, unreadable))


def plan_of(shown: Znode | Hidden) -> LegacyPlan:
    """Return a plan like the legacy one, be it hidden."""
    if isinstance(shown, Hidden):
        return LegacyPlan({}, shown.version, shown.born, unreadable=shown.reason)
    return decode_legacy_plan(shown.data, shown.version, shown.czxid)


def _submission(name: str, shown: Znode | Hidden) -> Submission:
    if isinstance(shown, Hidden):
        # Refused like one that cannot be understood: whoever wrote it shall hear of it.
        return Submission(
            name, {}, shown.version, shown.born, shown.created_ms, unreadable=shown.reason
        )
    return decode_submission(name, shown.data, shown.version, shown.czxid, shown.created_ms)
