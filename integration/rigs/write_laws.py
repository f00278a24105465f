"""
The laws that every write of the daemon obeys, in every test.

Judged from ZooKeeper's transaction log, without the project's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from integration.rigs.transaction_log import Write

CONTROLLER_ID: Final = 1_000_000
"""The daemon's default id as a controller."""

_TOPICS: Final = "/brokers/topics/"
_LEGACY_PLAN: Final = "/admin/reassign_partitions"
_EPOCH: Final = "/reassigner/epoch"
_PAPERWORK: Final = (
    "/reassigner/",
    "/admin/reassignments/",
    "/admin/reassignment_requests/",
    "/admin/cancel_reassignment_in_progress",
    "/admin/reassign_partitions_queue",
)
"""No Kafka controller reads these: the leading daemon may write them at any time."""
_OF_THE_LEADER: Final = ("isr", "leader_recovery_state")
"""The members of a partition state that its leader decides."""
_CLAIMS: Final = ("/reassigner/leader", _EPOCH)


def broken_laws(history: list[Write], *, uses_alter_partition: bool = False) -> list[str]:
    """
    Return in words every write of a daemon that broke a law.

    Args:
        history: Every write, in order.
        uses_alter_partition: Whether leaders send ISR changes to the controller: it writes them
            as the leader would, with the epochs as they are.

    """
    return list(_Judge(history, uses_alter_partition=uses_alter_partition).judge())


class _Judge:
    """Goes through the writes in order and keeps the present value of each znode."""

    def __init__(self, history: list[Write], *, uses_alter_partition: bool) -> None:
        self._history = history
        self._uses_alter_partition = uses_alter_partition
        self._daemons = {
            write.session
            for write in history
            if (write.path == "/controller" and write.content.get("brokerid") == CONTROLLER_ID)
            or write.path == _EPOCH
        }
        self._holder: int | None = None
        self._claimant: int | None = None
        """The session that set the epoch last: ``/controller`` alone does not permit writes yet."""
        self._leader: int | None = None
        self._epoch = 0
        self._topics: dict[str, dict[str, Any]] = {}
        self._states: dict[tuple[str, str], dict[str, Any]] = {}

    def judge(self) -> Iterator[str]:
        for _zxid, multi in groupby(self._history, key=attrgetter("zxid")):
            together = list(multi)
            for write in together:
                yield from self._judge_write(write)
                self._remember(write)
            if together[0].session in self._daemons:
                yield from self._judge_states(together)

    def _judge_write(self, write: Write) -> Iterator[str]:
        if write.session not in self._daemons:
            return
        needs_the_role = write.path.startswith(_TOPICS) or write.path == _LEGACY_PLAN
        if needs_the_role and not self._may_write_as_controller(write.session):
            yield f"{_text(write)} is written without the controller role"
        is_paperwork = write.path.startswith(_PAPERWORK) and not write.path.startswith(_CLAIMS)
        if is_paperwork and write.session != self._leader:
            yield f"{_text(write)} is written by a daemon that does not lead"
        state, before = write.content, self._states.get(_partition_of(write))
        if (
            self._uses_alter_partition
            and before is not None
            and _without_isr(state) == _without_isr(before)
        ):
            return
        if write.path.endswith("/state") and state:
            if state["controller_epoch"] != self._epoch:
                yield f"{_text(write)} is not of controller epoch {self._epoch}"
            if before is not None and state["leader_epoch"] != before["leader_epoch"] + 1:
                yield f"{_text(write)} does not raise leader epoch {before['leader_epoch']} by one"

    def _may_write_as_controller(self, session: int) -> bool:
        """
        Return whether a session set the epoch last, and no other holds the role.

        If another client deletes ``/controller``, the daemon writes until its watch fires.
        That is harmless: each write checks the epoch, and the next controller takes the role and
        raises the epoch at once (KAFKA-6082, ``registerControllerAndIncrementControllerEpoch``).
        """
        return session == self._claimant and self._holder in (session, None)

    def _judge_states(self, together: list[Write]) -> Iterator[str]:
        """Judge the states after a multi: the leader is in the ISR, the ISR in the replicas."""
        for write in together:
            topic, partition = _partition_of(write)
            state = self._states.get((topic, partition))
            if not write.path.endswith("/state") or state is None or topic not in self._topics:
                continue
            if state["leader"] not in (-1, *state["isr"]):
                yield f"{_text(write)} has a leader outside the ISR"
            replicas = self._topics[topic]["partitions"].get(partition, [])
            if not set(state["isr"]) <= set(replicas):
                yield f"{_text(write)} has an ISR beyond the replicas {replicas}"

    def _remember(self, write: Write) -> None:
        if write.path == "/controller":
            self._holder = None if write.data is None else write.session
        elif write.path == _EPOCH:
            self._leader = write.session
        elif write.path == "/controller_epoch" and write.data:
            self._epoch = int(write.data)
            self._claimant = write.session
        elif write.path.endswith("/state"):
            self._states[_partition_of(write)] = write.content
            if write.data is None:
                del self._states[_partition_of(write)]
        elif write.path.startswith(_TOPICS) and "partitions" in write.content:
            self._topics[write.path.removeprefix(_TOPICS)] = write.content


def _partition_of(write: Write) -> tuple[str, str]:
    """Return topic and partition of a state's path."""
    topic, _, rest = write.path.removeprefix(_TOPICS).partition("/partitions/")
    return topic, rest.removesuffix("/state")


def _without_isr(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in _OF_THE_LEADER}


def _text(write: Write) -> str:
    return f"{write.path} = {(write.data or b'')[:300]!r} (zxid {write.zxid:#x})"
