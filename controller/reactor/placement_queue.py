"""
A queue of requests about log directories: those of one cycle to one broker are one request.

A request for a broker that is not live any more is dropped: its registration has ended, and with it
everything that depends on an answer.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.disks.records import LogDirsDescribed
from controller.core.effects import DescribeLogDirs, PlaceReplica
from controller.core.events import Event
from controller.core.model import Instant, LiveBroker, TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import Directories

NO_ADAPTER = "the daemon has no connection for it"


class PlacementQueue:
    """The requests of a cycle that were not handed over yet."""

    def __init__(self, directories: Directories | None, put: Callable[[Event], None]) -> None:
        """
        Start empty.

        Args:
            directories: The brokers; None: every question is answered with a problem.
            put: Receives these answers.

        """
        self._directories = directories
        self._put = put
        self._placements: dict[LiveBroker, dict[TopicPartition, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._placements)

    def add(self, view: ClusterView, effect: DescribeLogDirs | PlaceReplica) -> None:
        """Queue a placement; ask a question at once."""
        broker = view.cluster.brokers.get(effect.broker)
        if broker is None:
            return
        if isinstance(effect, PlaceReplica):
            self._placements.setdefault(broker, {})[effect.partition] = effect.directory
        elif self._directories is not None:
            self._directories.describe(broker, effect.partitions)
        else:
            requested = frozenset(effect.partitions)
            none = LogDirsDescribed(
                broker.id, broker.epoch, Instant(0.0), {}, requested, problem=NO_ADAPTER
            )
            self._put(none)

    def clear(self) -> None:
        """Drop everything: the daemon no longer leads."""
        self._placements.clear()
        if self._directories is not None:
            self._directories.forget()

    def send(self) -> None:
        """Hand over what is queued."""
        placements, self._placements = self._placements, {}
        for broker, replicas in placements.items():
            if self._directories is not None:
                self._directories.alter(broker, replicas)
