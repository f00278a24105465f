"""
What cannot go on, as few log lines: by reason, not by partition, and not more often than asked.

Each partition's own wait is a line for developers (``notes``). For operators there is one line for
a reason when it appears, changes or disappears, with the first few partitions by name; and one for
each partition that has become stalled or goes on again, the first few by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from controller.core.model import Instant, TopicPartition
from controller.telemetry.cluster_counts import Example, WorkCounts
from controller.telemetry.json_values import iso_time
from controller.telemetry.log_events import LINES_MAX, LogEvent, info, warning

EVERY_S: Final = 10.0
"""Shortest time between two lines about the same reason."""


class BlockedEvents:
    """Tells what waits, by reason; remembers what was told."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        """Tell about each reason not more often than that."""
        self._every_s = every_s
        self._told: dict[str, tuple[int, tuple[Example, ...]]] = {}
        self._told_at: dict[str, Instant] = {}
        self._stalled: dict[TopicPartition, str] = {}

    def of(self, work: WorkCounts, now: Instant, wall: datetime) -> Iterator[LogEvent]:
        """
        Return what is worth a line.

        Args:
            work: The newest counts.
            now: The loop's time they were made at.
            wall: The same moment of the day.

        """
        for by in sorted(work.blocked.keys() | self._told.keys()):
            found = (work.blocked[by], work.examples.get(by, ()))
            before = self._told.get(by, (0, ()))
            told_at = self._told_at.get(by)
            if found == before or (told_at is not None and now < told_at + self._every_s):
                continue
            self._told_at[by] = now
            if found[0]:
                self._told[by] = found
                yield _blocked(by, found, now, wall)
            else:
                del self._told[by]
                yield info("unblocked", by=by, partitions=before[0])
        yield from self._stalls(work.stalled)

    def _stalls(self, stalled: Mapping[TopicPartition, str]) -> Iterator[LogEvent]:
        fresh = {p: by for p, by in stalled.items() if p not in self._stalled}
        ended = {p: by for p, by in self._stalled.items() if p not in stalled}
        self._stalled = dict(stalled)
        yield from _by_name("stalled", fresh, warning)
        yield from _by_name("goes_on", ended, info)


def _by_name(
    kind: str, partitions: Mapping[TopicPartition, str], note: Callable[..., LogEvent]
) -> Iterator[LogEvent]:
    names = sorted(partitions)
    for partition in names[:LINES_MAX]:
        yield note(kind, **partition._asdict(), by=partitions[partition])
    if len(names) > LINES_MAX:
        more = Counter(partitions[p] for p in names[LINES_MAX:])
        yield note(f"{kind}_more", partitions=more.total(), by=more)


def _blocked(
    by: str, found: tuple[int, tuple[Example, ...]], now: Instant, wall: datetime
) -> LogEvent:
    count, examples = found
    sample = [
        f"{e.partition}: {e.detail}"
        + ("" if e.since is None else f" since {iso_time(wall - timedelta(seconds=now - e.since))}")
        for e in examples
    ]
    return info("blocked", by=by, partitions=count, sample=sample)
