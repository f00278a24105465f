"""
ZooKeeper as ``explain`` reads it: a partition's state, its orphan records, how requests ended.

Nothing is written. What cannot be understood is returned with its reason, never raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controller.core.events import Orphan
from controller.core.model import PartitionState, TopicPartition
from controller.core.outcomes import Summary
from controller.zk.archives import SHARD_WINDOW
from controller.zk.operator import Operator
from controller.znodes import paths
from controller.znodes.orphans import decode_orphan
from controller.znodes.outcomes import decode_outcome
from controller.znodes.states import decode_state

OUTCOMES_MAX: Final = 50
"""Outcomes read to find the last one about a partition; each may hold half a megabyte."""


class Inspector(Operator):
    """A connection for one look; use it as a context manager."""

    def read_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionState | str | None]:
        """Return states; None where there is none, a text where one is not understood."""
        return {
            partition: found and decode_state(found.data, found.version)
            for partition, found in self._get_all(partitions, paths.state_path).items()
        }

    def read_deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        return frozenset(self._children(paths.DELETIONS))

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records about a partition; a text where one is not understood."""
        brokers = self._children(paths.ORPHANS)
        records = self._get_all(brokers, lambda b: f"{paths.ORPHANS}/{b}/{partition}")
        return tuple(
            decode_orphan(broker, str(partition), found.data)
            for broker, found in records.items()
            if found is not None
        )

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how the last requests ended, the newest first; at most ``OUTCOMES_MAX``."""
        summaries = self._stats(self._named(), paths.outcome_path)
        written = sorted(((s.mzxid, r) for r, s in summaries.items() if s), reverse=True)
        newest = [request for _, request in written[:OUTCOMES_MAX]]
        found = self._get_all(newest, paths.outcome_path, window=SHARD_WINDOW)
        outcomes = (decode_outcome(f.data) for f in found.values() if f is not None)
        return tuple(o for o in outcomes if isinstance(o, Summary))
