"""
Log events about blocked and stalled partitions, by reason.

There is one event when a reason appears, changes or disappears, with the first few partitions, and
not more often than every ``every_s`` seconds; and one for each partition that becomes stalled or
makes progress again, up to ``LINES_MAX``. ``log_events`` has an event for each blocked partition,
at debug level.
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
"""Shortest time between two events about one reason."""


class BlockedEvents:
    """Makes events of changes since the last call."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        """Limit the events about each reason to one in ``every_s``."""
        self._every_s = every_s
        self._logged: dict[str, tuple[int, tuple[Example, ...]]] = {}
        self._logged_at: dict[str, Instant] = {}
        self._stalled: dict[TopicPartition, str] = {}

    def of(self, work: WorkCounts, now: Instant, wall: datetime) -> Iterator[LogEvent]:
        """
        Return the events.

        Args:
            work: The newest counts.
            now: Their time on the loop's clock.
            wall: The same moment in UTC.

        """
        for by in sorted(work.blocked.keys() | self._logged.keys()):
            found = (work.blocked[by], work.examples.get(by, ()))
            before = self._logged.get(by, (0, ()))
            logged_at = self._logged_at.get(by)
            if found == before or (logged_at is not None and now < logged_at + self._every_s):
                continue
            self._logged_at[by] = now
            if found[0]:
                self._logged[by] = found
                yield _blocked(by, found, now, wall)
            else:
                del self._logged[by]
                yield info("unblocked", by=by, partitions=before[0])
        yield from self._stalls(work.stalled)

    def _stalls(self, stalled: Mapping[TopicPartition, str]) -> Iterator[LogEvent]:
        fresh = {p: by for p, by in stalled.items() if p not in self._stalled}
        ended = {p: by for p, by in self._stalled.items() if p not in stalled}
        self._stalled = dict(stalled)
        yield from _by_name("stalled", fresh, warning)
        yield from _by_name("goes_on", ended, info)


def _by_name(
    kind: str, partitions: Mapping[TopicPartition, str], make: Callable[..., LogEvent]
) -> Iterator[LogEvent]:
    names = sorted(partitions)
    for partition in names[:LINES_MAX]:
        yield make(kind, **partition._asdict(), by=partitions[partition])
    if len(names) > LINES_MAX:
        more = Counter(partitions[p] for p in names[LINES_MAX:])
        yield make(f"{kind}_more", partitions=more.total(), by=more)


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
