"""
ZooKeeper as ``explain`` and ``doctor`` read it: everything, and nothing is written.

Beyond what the other verbs read: states, orphan records, outcomes, and the whole of the cluster's
znodes as one snapshot. What cannot be understood is returned with its reason, never raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kazoo.exceptions import NoNodeError

from controller.core.events import Orphan
from controller.core.histories import Summary
from controller.core.model import PartitionState, TopicPartition, ZkVersion
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
        return self._read(
            partitions,
            paths.state_path,
            lambda data, stat: decode_state(data, ZkVersion(stat.version)),
        )

    def read_deletions(self) -> frozenset[str]:
        """Return the topics queued for deletion."""
        return frozenset(self._children(paths.DELETIONS))

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return the orphan records about a partition; a text where one is not understood."""
        brokers = self._children(paths.ORPHANS)
        found = self._read(
            sorted(brokers),
            lambda broker: f"{paths.ORPHANS}/{broker}/{partition}",
            lambda data, _: data,
        )
        return tuple(
            decode_orphan(broker, str(partition), data)
            for broker, data in found.items()
            if data is not None
        )

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how the last requests ended, the newest first; at most ``OUTCOMES_MAX``."""
        names = self._children(paths.OUTCOMES)
        with self._translated():
            pending = [
                (name, self._client.exists_async(f"{paths.OUTCOMES}/{name}/summary"))
                for name in names
            ]
            written = [(s.mzxid, n) for n, answer in pending if (s := self._ask(answer))]
        newest = [name for _, name in sorted(written, reverse=True)[:OUTCOMES_MAX]]
        found = self._read(
            newest,
            lambda name: f"{paths.OUTCOMES}/{name}/summary",
            lambda data, _: decode_outcome(data),
        )
        return tuple(o for o in found.values() if isinstance(o, Summary))

    def _children(self, path: str) -> list[str]:
        """List a directory, empty where there is none."""
        with self._translated():
            try:
                return list(self._ask(self._client.get_children_async(path)))
            except NoNodeError:
                return []
