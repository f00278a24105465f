"""
What people ask ZooKeeper about: plans, topics, records, controls, and where things are kept.

Reads and decodes, and decides nothing. What is missing is None; what is not understood is a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.controls import Controls, Limits, Pauses
from controller.core.model import (
    BrokerId,
    LegacyPlan,
    ReassignmentSpec,
    TopicAssignment,
    TopicPartition,
)
from controller.core.submissions import Cancellation, Submission
from controller.zk.connections import Connection, Found
from controller.znodes import paths
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.daemon_leader import decode_leader
from controller.znodes.json_documents import read_document
from controller.znodes.kill_switches import KillSwitch, decode_kill_switch
from controller.znodes.legacy_plans import decode_legacy_plan
from controller.znodes.operator_controls import decode_limits, decode_pauses, decode_throttle
from controller.znodes.reassignments import decode_spec
from controller.znodes.submissions import decode_submission
from controller.znodes.topics import decode_topic

LARGE_WINDOW: Final = 8
"""Znodes of up to a megabyte that are read at once."""


class Readings(Connection):
    """Reads what stands in ZooKeeper, for one command."""

    # --- the cluster ---------------------------------------------------------------------------

    def read_topics(self, names: Iterable[str]) -> dict[str, TopicAssignment | str | None]:
        """Return topics; None where there is none, a text where one is not understood."""
        return {
            name: found and decode_topic(found.data, found.version, found.czxid)
            for name, found in self._get_all(names, paths.topic_path).items()
        }

    def live_brokers(self) -> frozenset[BrokerId]:
        """Return the ids of the registered brokers."""
        return frozenset(BrokerId(int(n)) for n in self._children(paths.BROKER_IDS) if n.isdigit())

    def cluster_id(self) -> str | None:
        """Return ``id`` of ``/cluster/id``; None where there is none, or it is not understood."""
        found = self._get(paths.CLUSTER_ID)
        read = None if found is None else read_document(found.data)
        return None if read is None or isinstance(read, str) else str(read.get("id"))

    def leader_address(self) -> str | None:
        """Return ``HOST:PORT`` of the leading daemon's HTTP server, None when none leads."""
        # The first in the order of the sequence numbers that ZooKeeper appended leads.
        for name in sorted(self._children(paths.LEADER), key=lambda n: n[-10:]):
            found = self._get(f"{paths.LEADER}/{name}")
            if found is not None:
                return decode_leader(found.data)
        return None

    # --- what was asked for --------------------------------------------------------------------

    def read_plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``, None when it does not exist."""
        return self._plan_at(paths.LEGACY_PLAN)

    def read_queue(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions_queue``, None when it does not exist."""
        return self._plan_at(paths.QUEUE)

    def submission_names(self) -> list[str]:
        """Return the submitted requests that were not accepted yet, in their order."""
        return self._children(paths.REQUESTS)

    def read_submissions(self, names: Iterable[str]) -> dict[str, Submission | None]:
        """Return submitted requests."""
        found = self._get_all(names, paths.submission_path, window=LARGE_WINDOW)
        return {name: f and _submission(name, f) for name, f in found.items()}

    def read_cancellation(self) -> Cancellation | None:
        """Return ``/admin/cancel_reassignment_in_progress``, None when it does not exist."""
        found = self._get(paths.CANCEL)
        return found and decode_cancellation(
            found.data, found.version, found.czxid, found.created_ms
        )

    def read_kill_switch(self) -> KillSwitch | None:
        """Return ``/admin/reassign_cancel``, None when it does not exist."""
        found = self._get(paths.KILL_SWITCH)
        return found and decode_kill_switch(found.data, found.created_ms)

    def read_controls(self) -> Controls:
        """Return everything below ``/reassigner/control``."""
        found = self._get_all((paths.PAUSES, paths.LIMITS, paths.THROTTLE), str)
        pauses, limits, throttle = (
            found[paths.PAUSES],
            found[paths.LIMITS],
            found[paths.THROTTLE],
        )
        unreadable: dict[str, str] = {}
        read_pauses = decode_pauses(pauses.data) if pauses else Pauses()
        read_limits = decode_limits(limits.data) if limits else Limits()
        read_throttle = decode_throttle(throttle.data) if throttle else None
        if isinstance(read_pauses, str):
            unreadable[paths.PAUSES], read_pauses = read_pauses, Pauses()
        if isinstance(read_limits, str):
            unreadable[paths.LIMITS], read_limits = read_limits, Limits()
        if isinstance(read_throttle, str):
            unreadable[paths.THROTTLE], read_throttle = read_throttle, None
        return Controls(read_pauses, read_limits, read_throttle, unreadable)

    # --- what is being done --------------------------------------------------------------------

    def reassigned_partitions(self, topics: Iterable[str] | None = None) -> list[TopicPartition]:
        """Return the partitions that have a record of ours, of these topics or of all."""
        wanted = self._children(paths.GOALS) if topics is None else topics
        listed = self._children_all(wanted, paths.reassignment_topic_path)
        return sorted(
            TopicPartition(topic, number)
            for topic, names in listed.items()
            for number in map(paths.parse_number, names)
            if number is not None
        )

    def read_specs(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReassignmentSpec | str | None]:
        """Return our records of reassignments; None where there is none."""
        return {
            partition: found and decode_spec(found.data, found.version)
            for partition, found in self._get_all(partitions, paths.reassignment_path).items()
        }

    # --- inside --------------------------------------------------------------------------------

    def _plan_at(self, path: str) -> LegacyPlan | None:
        found = self._get(path)
        return found and decode_legacy_plan(found.data, found.version, found.czxid)


def _submission(name: str, found: Found) -> Submission:
    return decode_submission(name, found.data, found.version, found.czxid, found.created_ms)
