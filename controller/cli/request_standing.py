"""
Where one request stands: from what is kept of it, the daemon's records, and what waits to be read.

The accepted entries are read first, then the records of those that are open, then what ended
otherwise than done: in this order an entry that ends meanwhile is never taken for done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controller.cli.exits import Exit
from controller.cli.plan_files import STANDING_OF, Entry, Standing
from controller.cli.ports import OperatorPort
from controller.cli.report_text import counts_sentence
from controller.core.model import (
    AcceptedEntry,
    OutcomeKind,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    RequestId,
    TopicAssignment,
    TopicPartition,
)
from controller.core.outcomes import RequestHistory, Summary
from controller.core.submissions import RequestOptions, Submission
from controller.errors import InvalidInputError

DETAILS_MAX: Final = 100
"""Lines about single partitions that are printed; programs get them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStanding:
    """One request as it stands."""

    request: RequestId
    entries: tuple[Entry, ...]
    """Each entry that is not refused, as far as entries are kept."""
    history: RequestHistory | None = None
    submitted: tuple[Submission, ...] = ()
    """Its znodes that were not accepted yet."""

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """What is not carried out."""
        return () if self.history is None else self.history.refused

    @property
    def endings(self) -> tuple[PartitionOutcome, ...]:
        """What ended otherwise than done."""
        return () if self.history is None else self.history.endings

    @property
    def summary(self) -> Summary | None:
        """How it ended."""
        return None if self.history is None else self.history.summary

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it will change any more."""
        return self.summary is not None

    @property
    def options(self) -> RequestOptions:
        """How it wants to be carried out."""
        if self.history is not None and self.history.parts:
            return self.history.options
        return next((s.options for s in self.submitted), RequestOptions())

    @property
    def total(self) -> int:
        """Entries known of."""
        return max(
            0 if self.history is None else self.history.total,
            len(self.entries) + len(self.refused),
        )

    def counts(self) -> dict[str, int]:
        """Return how many entries stand where."""
        by_standing = self._counted()
        return {"total": self.total} | {s.value: by_standing[s] for s in Standing}

    def sentence(self) -> str:
        """Sum up."""
        return counts_sentence(self.total, self._counted())

    def _counted(self) -> Counter[Standing]:
        counted = Counter(entry.standing for entry in self.entries)
        counted[Standing.REFUSED] += len(self.refused)
        summary = self.summary
        if summary is not None:
            # Its shards may be fewer than its entries: a plan by the legacy route keeps none.
            counted[Standing.DONE] = summary.done
            counted[Standing.REFUSED] = len(summary.refused) + summary.refused_left_out
            for fate, standing in STANDING_OF.items():
                counted[standing] = summary.fates.get(fate, 0)
        return counted


def stand_of(operator: OperatorPort, request: RequestId) -> RequestStanding:
    """
    Read where a request stands.

    Raises:
        PlanInvalidError: nothing is known of it.

    """
    submitted = [
        s
        for s in operator.read_submissions(operator.submission_names()).values()
        if s is not None and s.request == request
    ]
    accepted = operator.read_accepted(request)
    specs = operator.read_specs(e.partition for e in accepted)
    topics = operator.read_topics(e.partition.topic for e in accepted)
    history = operator.read_history([request]).get(request)
    if history is None and not submitted:
        raise InvalidInputError(f"nothing is known of a request {request}; see `reassigner list`")
    fates = {e.partition: e.fate for e in history.endings} if history is not None else {}
    entries: dict[TopicPartition, Entry] = {}
    for entry in accepted:
        partition = entry.partition
        found = topics.get(partition.topic)
        entries[partition] = _entry(
            request,
            entry,
            specs.get(partition),
            found if isinstance(found, TopicAssignment) else None,
            fates.get(partition),
        )
    for submission in submitted:
        for partition, target in submission.entries.items():
            waiting = Entry(partition, target, Standing.SUBMITTED, None, None)
            entries.setdefault(partition, waiting)
    return RequestStanding(
        request=request,
        entries=tuple(entries.values()),
        history=history,
        submitted=tuple(submitted),
    )


def _entry(
    request: RequestId,
    accepted: AcceptedEntry,
    found: ReassignmentSpec | str | None,
    topic: TopicAssignment | None,
    fate: OutcomeKind | None,
) -> Entry:
    spec = found if isinstance(found, ReassignmentSpec) and found.request == request else None
    assignment = topic.partitions.get(accepted.partition.partition) if topic else None
    standing = STANDING_OF.get(fate) if fate is not None else None
    if standing is None:
        standing = Standing.DONE
        if spec is not None and spec.rolls_back:
            standing = Standing.ROLLING_BACK
        elif spec is not None:
            moving = assignment is not None and assignment.is_reassigning
            standing = Standing.MOVING if moving else Standing.ACCEPTED
    return Entry(accepted.partition, accepted.target, standing, assignment, spec)


def exit_of_standing(standing: RequestStanding) -> Exit:
    """Return the exit code that says where a request stands."""
    counts = standing.counts()
    if standing.submitted or not standing.has_ended:
        return Exit.IN_PROGRESS
    if counts[Standing.CANCELLED] or counts[Standing.ROLLED_BACK]:
        return Exit.CANCELLED
    if counts[Standing.REFUSED] or counts[Standing.SUPERSEDED]:
        return Exit.REFUSED
    return Exit.DONE


def standing_lines(standing: RequestStanding) -> Iterator[str]:
    """Word what of a request is not simply done or under way, so many lines at most."""
    lines = [
        *(f"{r.entry} was refused: {r.detail}" for r in standing.refused),
        *(ending_line(e) for e in standing.endings),
    ]
    yield from lines[:DETAILS_MAX]
    if len(lines) > DETAILS_MAX:
        yield f"and {len(lines) - DETAILS_MAX} more; --json lists them all"


def ending_line(ending: PartitionOutcome) -> str:
    """Word how a partition ended."""
    what = {
        OutcomeKind.CANCELLED: "was cancelled before it began",
        OutcomeKind.ROLLED_BACK: "was rolled back",
        OutcomeKind.SKIPPED: "could not be cancelled",
        OutcomeKind.SUPERSEDED: "was superseded",
    }[ending.fate]
    return f"{ending.partition} {what}" + (f": {ending.detail}" if ending.detail else "")
