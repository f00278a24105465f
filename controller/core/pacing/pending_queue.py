"""
The queue of pending reassignments: round robin between requests, by priority.

A request with a hundred thousand partitions does not precede one with three, and a request that is
held costs nothing to skip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from controller.core.model import RequestId, TopicPartition


@dataclass(slots=True)
class PendingQueue:
    """Pending partitions; each request has a line of its own."""

    _lines: dict[RequestId, dict[TopicPartition, None]] = field(default_factory=dict)
    _request_of: dict[TopicPartition, RequestId] = field(default_factory=dict)

    def __contains__(self, partition: object) -> bool:
        return partition in self._request_of

    def __len__(self) -> int:
        return len(self._request_of)

    def __iter__(self) -> Iterator[TopicPartition]:
        for line in self._lines.values():
            yield from line

    def requests(self) -> tuple[RequestId, ...]:
        """Return the requests with pending partitions, in the order of their first arrival."""
        return tuple(self._lines)

    def line(self, request: RequestId) -> Iterator[TopicPartition]:
        """Return the pending partitions of a request, in their order."""
        return iter(self._lines.get(request, {}))

    def length(self, request: RequestId) -> int:
        """Return the number of pending partitions of a request."""
        return len(self._lines.get(request, ()))

    def add(self, partition: TopicPartition, request: RequestId) -> None:
        """Put a partition at the end of its request's line; it leaves any other."""
        if self._request_of.get(partition) == request:
            return
        self.discard(partition)
        self._request_of[partition] = request
        self._lines.setdefault(request, {})[partition] = None

    def discard(self, partition: TopicPartition) -> None:
        """Remove a partition, if it is pending."""
        request = self._request_of.pop(partition, None)
        if request is None:
            return
        line = self._lines[request]
        del line[partition]
        if not line:
            del self._lines[request]

    def pass_over(self, partition: TopicPartition) -> None:
        """Put a partition behind the others of its request."""
        request = self._request_of.get(partition)
        if request is not None:
            del self._lines[request][partition]
            self._lines[request][partition] = None

    def sort(self, request: RequestId, key: Callable[[TopicPartition], Any]) -> None:
        """Sort the line of a request."""
        line = self._lines.get(request)
        if line is not None:
            self._lines[request] = dict.fromkeys(sorted(line, key=key))

    def clear(self) -> None:
        """Forget all partitions."""
        self._lines.clear()
        self._request_of.clear()

    def in_turn(self, requests: Iterable[RequestId]) -> Iterator[TopicPartition]:
        """Yield the partitions of these requests, round robin."""
        lines = [iter(self._lines[r]) for r in requests if r in self._lines]
        while lines:
            left = []
            for line in lines:
                partition = next(line, None)
                if partition is not None:
                    yield partition
                    left.append(line)
            lines = left
