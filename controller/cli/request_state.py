"""
The state of requests, entry by entry, from ZooKeeper alone.

The order of reads matters, as in ``previews.entries``. Entries of a request are read before their
records, and records before outcomes. So no entry is missed, and none that ends between two reads is
taken for done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from controller.cli.output import Exit
from controller.core import model
from controller.core.model import OutcomeKind, RequestId, TopicPartition, Zxid
from controller.core.requests.outcomes import RequestHistory, Undone, undone_requests
from controller.core.requests.submissions import (
    AcceptedEntry,
    CancelScope,
    RequestOptions,
    Submission,
)
from controller.errors import InvalidInputError
from controller.previews.entries import STATE_OF_OUTCOME, Entry, EntryState, has_begun
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

DETAILS_MAX: Final = 100
"""Partitions that are printed with their outcome; ``--json`` has all of them."""


def counts_line(entries: Iterable[Entry]) -> str:
    """Summarize the states of entries."""
    counts = Counter(entry.state for entry in entries)
    return counts_sentence(counts.total(), counts)


def counts_sentence(total: int, counts: Counter[EntryState]) -> str:
    """Summarize counts; those that are zero are left out."""
    parts = [f"{counts[EntryState.DONE]} of {total} done"]
    for word, *states in (
        ("moving", EntryState.MOVING),
        ("waiting", EntryState.ACCEPTED),
        ("rolling back", EntryState.ROLLING_BACK),
        ("not accepted yet", EntryState.SUBMITTED),
        ("undone", EntryState.UNDONE),
        ("refused", EntryState.REFUSED),
        ("cancelled", EntryState.CANCELLED, EntryState.ROLLED_BACK),
        ("superseded", EntryState.SUPERSEDED),
    ):
        number = sum(counts[EntryState(state)] for state in states)
        if number:
            parts.append(f"{number} {word}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class LaterChange:
    """A partition that reached its target, and has other replicas since."""

    by: RequestId | None
    """The cancellation or the request that changed them; None: it is not known."""
    is_open: bool
    """Whether it is in progress."""

    @property
    def is_undo(self) -> bool:
        """Whether a cancellation of scope all moved the partition back."""
        return self.by is not None and self.by.startswith("cancel-")

    @property
    def state(self) -> EntryState:
        """The state of the entry since."""
        if self.by is None:
            return EntryState.REFUSED
        if not self.is_undo:
            return EntryState.SUPERSEDED
        return EntryState.ROLLING_BACK if self.is_open else EntryState.UNDONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """The state of one request."""

    request: RequestId
    entries: tuple[Entry, ...]
    """The entries that are not refused, as far as they are kept."""
    history: RequestHistory
    submitted: tuple[Submission, ...] = ()
    """Its znodes that are not accepted yet."""
    departed: Mapping[TopicPartition, LaterChange] = field(default_factory=dict)
    """Completed entries that are not at their target any more; ``compare`` fills it."""
    undone: Undone | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the request has an outcome."""
        return self.history.summary is not None

    @property
    def options(self) -> RequestOptions:
        """The options that the request was submitted with."""
        if self.history.parts:
            return self.history.options
        return next((s.options for s in self.submitted), RequestOptions())

    @property
    def total(self) -> int:
        """The number of known entries."""
        return max(self.history.total, len(self.entries) + len(self.history.refused))

    def counts(self) -> dict[str, int]:
        """Return the number of entries by state."""
        counted = self._counts()
        return {"total": self.total} | {s.value: counted[s] for s in EntryState}

    def sentence(self) -> str:
        """Summarize the states of the entries."""
        return counts_sentence(self.total, self._counts())

    def _counts(self) -> Counter[EntryState]:
        counted = Counter(entry.state for entry in self.entries)
        counted[EntryState.REFUSED] += len(self.history.refused)
        summary = self.history.summary
        if summary is not None:
            # A plan by the legacy route keeps no entries, only the summary.
            counted = Counter({EntryState.DONE: summary.done})
            counted[EntryState.REFUSED] = summary.refused_count
            for kind, state in STATE_OF_OUTCOME.items():
                counted[state] = summary.fates.get(kind, 0)
            for departure in self.departed.values():
                counted[EntryState.DONE] -= 1
                counted[departure.state] += 1
            if self.undone is not None and not self.departed:
                gone = min(self.undone.entries, summary.done)
                state = EntryState.ROLLING_BACK if self.undone.is_open else EntryState.UNDONE
                counted[EntryState.DONE] -= gone
                counted[state] += gone
        return counted


def undone_in(operator: OperatorClient) -> dict[RequestId, Undone]:
    """Return what cancellations undid of requests."""
    names = [name for name in operator.outcomes.requests() if name.startswith("cancel-")]
    kept = operator.outcomes.histories(names)
    return undone_requests({n: (h.undoes, h.summary is None) for n, h in kept.items()})


def open_requests(operator: OperatorClient) -> list[RequestId]:
    """Return the accepted requests that have not ended."""
    known = operator.outcomes.ended_requests()
    return [name for name, has_ended in known.items() if not has_ended]


def history_of(operator: OperatorClient, request: RequestId) -> RequestHistory:
    """Return what is kept of a request, which may be nothing."""
    return operator.outcomes.history_of(request) or _empty_history(request)


def _empty_history(request: RequestId) -> RequestHistory:
    return RequestHistory(request=request, czxid=Zxid(0))


def read_request(operator: OperatorClient, request: RequestId) -> RequestState:
    """Read the state of a request; it must be known."""
    submitted = [s for s in operator.requests.open_submissions() if s.request == request]
    accepted = operator.outcomes.accepted_entries(request)
    specs = operator.partitions.specs(e.partition for e in accepted)
    assignments = operator.partitions.assignments(e.partition for e in accepted)
    kept = operator.outcomes.history_of(request)
    if kept is None and not submitted:
        named = model.request_text(request)
        raise InvalidInputError(f"{named} is not known; see `reassigner list`")
    history = kept or _empty_history(request)
    kinds = {e.partition: e.fate for e in history.endings}
    entries: dict[TopicPartition, Entry] = {}
    for entry in accepted:
        p = entry.partition
        entries[p] = _accepted_entry(request, entry, specs.get(p), assignments[p], kinds.get(p))
    for submission in submitted:
        for partition, target in submission.entries.items():
            waiting = Entry(partition, target, EntryState.SUBMITTED, None, None)
            entries.setdefault(partition, waiting)
    return RequestState(
        request=request,
        entries=tuple(entries.values()),
        history=history,
        submitted=tuple(submitted),
        undone=undone_in(operator).get(request) if history.summary is not None else None,
    )


def compare(operator: OperatorClient, state: RequestState) -> RequestState:
    """Compare the completed entries of a request with the cluster: they may be changed since."""
    left = {
        e.partition: e.assignment
        for e in state.entries
        if e.state is EntryState.DONE and e.assignment != model.PartitionAssignment(e.target)
    }
    if not left:
        return state
    later = _changed_by(operator, state, left)
    specs = operator.partitions.specs(left)
    departed: dict[TopicPartition, LaterChange] = {}
    for partition, now in left.items():
        spec = specs.get(partition)
        if isinstance(spec, model.ReassignmentSpec):
            departed[partition] = LaterChange(spec.request, is_open=True)
        else:
            is_open = now is not None and now.is_reassigning
            departed[partition] = LaterChange(later.get(partition), is_open)
    entries = tuple(
        replace(e, state=departed[e.partition].state) if e.partition in departed else e
        for e in state.entries
    )
    return replace(state, entries=entries, departed=departed)


def _changed_by(
    operator: OperatorClient,
    state: RequestState,
    present: Mapping[TopicPartition, model.PartitionAssignment | None],
) -> Mapping[TopicPartition, RequestId]:
    """Return the last request or cancellation that brought each partition to what it has now."""
    found: dict[TopicPartition, RequestId] = {}
    for history in reversed(operator.outcomes.histories().values()):
        # A cancellation that was in progress before may have been added to.
        is_later = history.czxid > state.history.czxid or history.request.startswith("cancel-")
        if history.request == state.request or not is_later:
            continue
        missed = {e.partition for e in history.endings}
        for entry in operator.outcomes.accepted_entries(history.request):
            now = present.get(entry.partition)
            is_reached = now is not None and now.replicas == entry.target
            if is_reached and entry.partition not in missed:
                found.setdefault(entry.partition, history.request)
    return found


def _accepted_entry(
    request: RequestId,
    accepted: AcceptedEntry,
    found: model.ReassignmentSpec | str | None,
    assignment: model.PartitionAssignment | None,
    kind: OutcomeKind | None,
) -> Entry:
    is_own = isinstance(found, model.ReassignmentSpec) and found.request == request
    spec = found if isinstance(found, model.ReassignmentSpec) and is_own else None
    state = STATE_OF_OUTCOME.get(kind) if kind is not None else None
    if state is None:
        state = EntryState.DONE
        if spec is not None and spec.rolls_back:
            state = EntryState.ROLLING_BACK
        elif spec is not None:
            begun = has_begun(spec, assignment)
            state = EntryState.MOVING if begun else EntryState.ACCEPTED
    return Entry(accepted.partition, accepted.target, state, assignment, spec)


def exit_of_request(state: RequestState) -> Exit:
    """Return the exit code for the state of a request."""
    counts = state.counts()
    if state.submitted or not state.has_ended or counts[EntryState.ROLLING_BACK]:
        return Exit.IN_PROGRESS
    if any(departure.by is None for departure in state.departed.values()):
        return Exit.ERROR
    if any(counts[state] for state in EntryState if state.is_cancelled):
        return Exit.CANCELLED
    if counts[EntryState.REFUSED] or counts[EntryState.SUPERSEDED]:
        return Exit.REFUSED
    return Exit.DONE


def problem_lines(state: RequestState) -> Iterator[str]:
    """Describe refused entries and other outcomes than done, at most ``DETAILS_MAX``."""
    lines = [
        *map(refusal_line, state.history.refused),
        *map(outcome_line, state.history.endings),
    ]
    yield from lines[:DETAILS_MAX]
    if len(lines) > DETAILS_MAX:
        yield f"and {len(lines) - DETAILS_MAX} more; --json lists all of them"


def refusal_line(refusal: model.Refusal) -> str:
    """Describe a refused entry, or those that are refused together."""
    were = "was" if refusal.entries == 1 else "were"
    return f"{refusal.entry} {were} refused: {refusal.detail}"


def departure_line(entry: Entry, departure: LaterChange) -> str:
    """Describe what became of a completed entry."""
    what = f"{entry.partition} was completed, and"
    if entry.assignment is None:
        return f"{what} does not exist any more"
    present = f"its replicas are {ids(entry.assignment.replicas)} rather than {ids(entry.target)}"
    if departure.by is None:
        return f"{what} was changed since by another client: {present}"
    if departure.is_undo:
        done = "is being undone" if departure.is_open else "was undone since"
    else:
        done = "is being reassigned" if departure.is_open else "was reassigned since"
    return f"{what} {done} by {departure.by}: {present}"


def outcome_line(
    outcome: model.PartitionOutcome, scope: CancelScope = CancelScope.IN_FLIGHT
) -> str:
    """Describe the outcome of a partition, of a cancellation with this scope."""
    skipped = "undone" if scope is CancelScope.ALL else "cancelled"
    what = {
        OutcomeKind.CANCELLED: "was cancelled before its first step",
        OutcomeKind.ROLLED_BACK: "was rolled back",
        OutcomeKind.SKIPPED: f"could not be {skipped}",
        OutcomeKind.SUPERSEDED: "was superseded",
    }[outcome.fate]
    return f"{outcome.partition} {what}" + (f": {outcome.detail}" if outcome.detail else "")


def refusal_document(refusal: model.Refusal) -> dict[str, Any]:
    """Return a refusal for ``--json``."""
    return {"entry": refusal.entry, "reason": refusal.reason.value, "detail": refusal.detail}


def outcome_documents(outcomes: Iterable[model.PartitionOutcome]) -> list[dict[str, str]]:
    """Return the outcomes of partitions for ``--json``."""
    return [
        {"partition": str(o.partition), "fate": o.fate.value, "detail": o.detail} for o in outcomes
    ]
