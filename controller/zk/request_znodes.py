"""
Reads of operators' submissions: plans, requests, cancellations, the kill switch, controls.

``outcome_znodes`` reads the daemon's records of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.core.pacing.controls import Controls, Limits, Pauses
from controller.core.requests.submissions import Cancellation, LegacyPlan, Submission
from controller.zk.znode_reads import WINDOW, Hidden, Value, Znode, ZnodeReads
from controller.znodes import operator_controls, paths
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.kill_switches import KillSwitch, decode_kill_switch
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.submissions import decode_submission


class RequestZnodes:
    """Reads these znodes through either reader; a hidden one is a value with ``unreadable``."""

    def __init__(self, znodes: ZnodeReads, *, window: int = WINDOW) -> None:
        """
        Prepare to read.

        Args:
            znodes: Reads them.
            window: Requests read at a time; each may take a megabyte.

        """
        self._znodes = znodes
        self._window = window

    def plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``; None where it does not exist."""
        return plan_of(self._znodes.show(paths.LEGACY_PLAN))

    def queue(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions_queue``; None where it does not exist."""
        return plan_of(self._znodes.show(paths.QUEUE))

    def open(self) -> list[str]:
        """Return the names of the requests that are not accepted yet, in order."""
        names = self._znodes.children(paths.REQUESTS)
        for name in names:
            if not paths.is_submission(name):
                self._znodes.unreadable(paths.submission_path(name), "not a name of a request")
        return [name for name in names if paths.is_submission(name)]

    def submissions(self, names: Iterable[str]) -> dict[str, Submission | None]:
        """Return requests as submitted; None where there is none."""
        found = self._znodes.show_many(names, paths.submission_path, window=self._window)
        return {name: shown and _submission(name, shown) for name, shown in found}

    def open_submissions(self) -> list[Submission]:
        """Return the submitted requests that are not accepted yet, in order."""
        return [s for s in self.submissions(self.open()).values() if s is not None]

    def cancellation(self) -> Cancellation | None:
        """Return ``/admin/cancel_reassignment_in_progress``; None where it does not exist."""
        shown = self._znodes.show(paths.CANCEL)
        if isinstance(shown, Hidden):
            return Cancellation(
                shown.version, shown.born, shown.created_ms, unreadable=shown.reason
            )
        return cancellation_of(shown)

    def is_disabled(self) -> bool:
        """Return whether ``/admin/reassign_cancel`` exists."""
        return self._znodes.exists(paths.KILL_SWITCH)

    def kill_switch(self) -> KillSwitch | None:
        """Return ``/admin/reassign_cancel``; None where it does not exist."""
        found = self._znodes.get(paths.KILL_SWITCH)
        return found and decode_kill_switch(found.data, found.created_ms)

    def controls(self) -> Controls:
        """Return everything below ``/reassigner/control``."""
        unreadable: dict[str, str] = {}

        def read(path: str, decode: Callable[[bytes], Value | str]) -> Value | None:
            shown = self._znodes.show(path)
            if isinstance(shown, Hidden):
                value: Value | str | None = shown.reason
            else:
                value = None if shown is None else decode(shown.data)
            if isinstance(value, str):
                unreadable[path] = value
                self._znodes.unreadable(path, value)
                return None
            return value

        pauses = read(paths.PAUSES, operator_controls.decode_pauses)
        limits = read(paths.LIMITS, operator_controls.decode_limits)
        throttle = read(paths.THROTTLE, operator_controls.decode_throttle)
        return Controls(pauses or Pauses(), limits or Limits(), throttle, unreadable)


def plan_of(shown: Znode | Hidden | None) -> LegacyPlan | None:
    """Decode a plan like the legacy one; it may be hidden."""
    if isinstance(shown, Hidden):
        return LegacyPlan({}, shown.version, shown.born, unreadable=shown.reason)
    return shown and decode_legacy_plan(shown.data, shown.version, shown.czxid)


def cancellation_of(found: Znode | None) -> Cancellation | None:
    """Decode a cancellation."""
    return found and decode_cancellation(
        found.data, found.version, found.czxid, found.created_ms, found.mzxid
    )


def _submission(name: str, shown: Znode | Hidden) -> Submission:
    if isinstance(shown, Hidden):
        # Refused like an unreadable one, so that its outcome reports it.
        return Submission(
            name, {}, shown.version, shown.born, shown.created_ms, unreadable=shown.reason
        )
    return decode_submission(name, shown.data, shown.version, shown.czxid, shown.created_ms)
