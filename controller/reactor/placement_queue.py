"""
A queue of requests for log directories of replicas: those of one cycle to one broker are one.

A request for a broker that is not live any more is dropped: its registration has ended, and with it
everything that depends on an answer.
"""

from __future__ import annotations

from controller.core.cluster.model import LiveBroker
from controller.core.effects import PlaceReplica
from controller.core.model import TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import LogDirs


class PlacementQueue:
    """The requests of a cycle that were not handed over yet."""

    def __init__(self, log_dirs: LogDirs | None) -> None:
        """
        Start empty.

        Args:
            log_dirs: Receives the requests; None: there is no adapter.

        """
        self._log_dirs = log_dirs
        self._placements: dict[LiveBroker, dict[TopicPartition, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._placements)

    def add(self, view: ClusterView, effect: PlaceReplica) -> None:
        """Queue a request."""
        broker = view.cluster.brokers.get(effect.broker)
        if broker is not None:
            self._placements.setdefault(broker, {})[effect.partition] = effect.directory

    def clear(self) -> None:
        """Drop everything: the daemon no longer leads."""
        self._placements.clear()
        if self._log_dirs is not None:
            self._log_dirs.forget()

    def send(self) -> None:
        """Hand over what is queued."""
        placements, self._placements = self._placements, {}
        for broker, replicas in placements.items():
            if self._log_dirs is not None:
                self._log_dirs.alter(broker, replicas)
