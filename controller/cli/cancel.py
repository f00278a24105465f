"""
``cancel`` and ``undo``: cancel reassignments, and show how their partitions roll back.

Both write a cancellation; that of ``undo`` has the scope ``all``: it moves back what is done, too.

A cancellation that is being carried out can be added to, never reduced. It has one time, before
which it selects: so the command waits until its partitions are selected, and then adds to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import typer

from controller.actions.work_control import (
    Cancelled,
    nothing_text,
    request_ids,
    submit_cancellation,
)
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.options import argument, command, flag, option
from controller.cli.output import (
    NOTHING_WRITTEN,
    Exit,
    print_json,
    print_line,
    print_lines,
    print_note,
)
from controller.cli.progress_display import display_of
from controller.cli.request_state import history_of, outcome_documents, outcome_line
from controller.cli.submitting import FOLLOW_S, await_daemon, why_not_taken_up
from controller.cli.terminal_tables import Column, Listing, Name, Part
from controller.core.model import (
    OutcomeKind,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicPartition,
    count_text,
    request_text,
)
from controller.core.requests.outcomes import RequestHistory
from controller.core.requests.submissions import Cancellation, CancelScope
from controller.errors import InvalidInputError
from controller.previews.cancel_preview import CancelPreview, cancel_preview

if TYPE_CHECKING:
    from controller.previews.cluster_queries import ClusterQueries
    from controller.previews.plan_facts import Preview
    from controller.zk.operator_client import OperatorClient

TOPIC: Final = option(
    "TOPIC", "Select the reassignments of this topic; may be repeated. Default: none."
)
PARTITION: Final = option(
    "TOPIC-N", "Select the reassignment of this partition; may be repeated. Default: none."
)
YES: Final = flag("--yes", "Do not ask for confirmation.", "-y")


@command("dry_run", "timeout", "all_rows", "as_json")
def cancel(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    requests: list[str] | None = argument("REQUEST", "Ids of the requests to cancel."),
    *,
    topic: list[str] | None = TOPIC,
    partition: list[str] | None = PARTITION,
    everything: bool = flag("--everything", "Cancel all reassignments.", "--all"),
    yes: bool = YES,
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Cancel reassignments: pending ones do not start, those in flight roll back.

    Example: reassigner cancel request_0000000004 --zookeeper zk1:2181/kafka --wait

    Partitions that are done stay where they are; see `reassigner undo`. Exit code: 0 taken up (with
    --wait: complete) or nothing to cancel, 1 error, 2 not taken up yet or interrupted, 3 a
    partition could not be cancelled, or an earlier cancellation has not selected its partitions
    yet.
    """
    wanted = replace(
        _selection(requests, topic, partition),
        reason=reason,
        requested_by=context.requested_by(requested_by),
    )
    return _cancel(context, wanted, everything=everything, yes=yes, wait=wait)


@command("dry_run", "timeout", "all_rows", "as_json")
def undo(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    requests: list[str] | None = argument("REQUEST", "Ids of the requests to undo."),
    *,
    topic: list[str] | None = TOPIC,
    partition: list[str] | None = PARTITION,
    everything: bool = flag("--everything", "Undo all requests that are in progress."),
    yes: bool = YES,
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
    throttle: str | None = option(
        "RATE|auto",
        "Bytes per second and broker for what is moved back, for example 50MB. Default: the "
        "strictest throttle of the requests.",
    ),
    window: str | None = option(
        "HOURS",
        'Move back only in these hours, for example "22:00-05:00 Europe/Berlin". Default: at once.',
    ),
    wait: bool = options.WAIT,
) -> Exit:
    """
    Undo requests, in progress or ended: their partitions get the replicas of before.

    Example: reassigner undo request_0000000004 --throttle 50MB --wait --zookeeper zk1:2181/kafka

    What is in progress is cancelled, what is done is moved back. A partition that another request
    or client has moved since is left alone and named. Partitions in flight roll back at once,
    whatever --window says. Exit code: 0 taken up (with --wait: undone) or nothing to undo,
    1 error, 2 not taken up yet or interrupted, 3 a partition could not be moved back, or an earlier
    cancellation is in the way.
    """
    wanted = replace(
        _selection(requests, topic, partition),
        scope=CancelScope.ALL,
        reason=reason,
        requested_by=context.requested_by(requested_by),
        throttle=options.parse(options.parse_rate_option, "--throttle", throttle),
        window=options.parse(options.parse_window, "--window", window),
    )
    return _cancel(context, wanted, everything=everything, yes=yes, wait=wait)


def _selection(
    requests: list[str] | None, topics: list[str] | None, partitions: list[str] | None
) -> Cancellation:
    """Return a cancellation of what the options select."""
    return Cancellation(
        requests=frozenset(request_ids(requests)),
        topics=frozenset(options.topics_of(topics)),
        partitions=frozenset(options.partitions_of(partitions)),
    )


def _cancel(
    context: CommandContext, wanted: Cancellation, *, everything: bool, yes: bool, wait: bool
) -> Exit:
    if wanted.is_everything is not everything:
        raise InvalidInputError(
            "--everything cannot be used with requests, --topic or --partition"
            if everything
            else "name requests, --topic or --partition, or use --everything"
        )
    with context.inspected() as (operator, queries):
        if everything and not (yes or context.dry_run):
            if not context.is_terminal():
                raise InvalidInputError("--everything needs --yes without a terminal")
            count = len(operator.partitions.reassigned_partitions())
            now = count_text(count, "partition")
            verb = wanted.scope.verb.capitalize()
            typer.confirm(f"{verb} everything, {now} in progress?", abort=True)
        return CancelRun(context, operator, queries, wanted, wait=wait).run()


@dataclass(frozen=True, slots=True)
class CancelRun:
    """One run of ``cancel`` or ``undo``."""

    context: CommandContext
    operator: OperatorClient
    queries: ClusterQueries
    wanted: Cancellation
    wait: bool

    def run(self) -> Exit:
        """Cancel, wait as the options say, and report."""
        if self.context.dry_run:
            preview = cancel_preview(self.operator, self.wanted, is_whole=True)
            if not preview:
                return self._nothing(nothing_text(self.operator, self.wanted))
            return self._show(preview, self._forecast(preview))
        done = submit_cancellation(self.operator, self.wanted)
        if isinstance(done, str):
            return self._nothing(done)
        for text in done.preview.drain_texts():
            print_note(f"This ends the drain of {text}")
        for text in done.preview.evacuation_texts():
            print_note(f"Note: {text}")
        written = done.written
        try:
            taken_up = await_daemon(self.context, self.operator, lambda: self._is_taken_up(done))
            if taken_up and self.wait:
                self._follow(written)
        except KeyboardInterrupt:
            print_note(f"Interrupted; {written.request} continues.")
            return Exit.IN_PROGRESS
        return self._report(written, is_taken_up=taken_up)

    def _nothing(self, why: str) -> Exit:
        answer = self._answer()
        document = {"cancellation": None, "result": "nothing_to_do", **answer}
        self.context.print_result(lambda: document, [why, *answer.values()])
        return Exit.DONE

    def _forecast(self, preview: CancelPreview) -> Preview | None:
        """Return what an undo would copy; None if it would move nothing back."""
        if not preview.finished:
            return None
        from controller.previews.plan_facts import undo_dry_run  # noqa: PLC0415 - for a dry run alone

        return undo_dry_run(self.operator, self.wanted, preview, self.queries).preview

    def _show(self, preview: CancelPreview, forecast: Preview | None) -> Exit:
        document = {
            "dry_run": True,
            "in_progress": [str(p) for p in preview.in_progress],
            "not_accepted": list(preview.submissions),
            "finished": [str(p) for p in preview.finished],
            "drained": list(preview.drained),
            "drains": [{"broker": b, **asdict(about)} for b, about in preview.drained.items()],
            "evacuated": list(preview.evacuated),
            "forecast": None if forecast is None else forecast.document(),
        }
        lines, screen = preview.lines(), _screen(preview.selections)
        if forecast is not None:
            from controller.cli.plan_preview import forecast_screen  # noqa: PLC0415 - as above
            from controller.previews.forecast_table import forecast_lines  # noqa: PLC0415 - as above

            lines = chain(lines, forecast_lines(forecast))
            screen = chain(screen, forecast_screen(forecast))
        self.context.print_result(lambda: document, lines, screen)
        if not self.context.as_json:
            print_line(NOTHING_WRITTEN)
            if self.wanted.scope is CancelScope.ALL:
                count = len({*preview.in_progress, *preview.finished})
                print_line(f"{count_text(count, 'partition')} would have the replicas of before")
        return Exit.DONE

    def _answer(self) -> dict[str, str]:
        """Return what an operator who undoes requests wants to know, for both kinds of output."""
        if self.wanted.scope is not CancelScope.ALL or not self.wanted.requests:
            return {}
        return {"answer": undone_text(self.operator, sorted(self.wanted.requests))}

    def _is_taken_up(self, done: Cancelled) -> bool:
        """Return whether all partitions are selected, or the first one rolls back."""
        written, preview = done.written, done.preview
        if is_selected(self.operator, written):
            return True
        first = preview.in_progress[:1]
        if not first or preview.submissions:
            return False
        spec = self.operator.partitions.specs(first)[first[0]]
        return isinstance(spec, ReassignmentSpec) and spec.cancelled_by == written.request

    def _follow(self, written: Cancellation) -> None:
        with display_of(self.context) as show:
            while not has_ended(self.operator, written):
                left = len(self.operator.partitions.reassigned_partitions())
                status = self.context.status_of_leader(self.operator)
                have = "has" if left == 1 else "have"
                show(f"{count_text(left, 'partition')} {have} not ended yet", 0, 0, status)
                self.context.sleep(FOLLOW_S)

    def _report(self, written: Cancellation, *, is_taken_up: bool) -> Exit:
        is_over = has_ended(self.operator, written)
        history = history_of(self.operator, written.request)
        counts, outcomes = _counts(history), history.endings
        code = Exit.DONE
        if not is_taken_up or (self.wait and not is_over):
            code = Exit.IN_PROGRESS
        elif counts["skipped"]:
            code = Exit.REFUSED
        if self.context.as_json:
            print_json(
                {
                    "cancellation": written.request,
                    "result": code.name.lower(),
                    "partitions": counts,
                    "endings": outcome_documents(outcomes),
                    **self._answer(),
                }
            )
            return code
        for outcome in outcomes:
            if outcome.fate is OutcomeKind.SKIPPED:
                print_line(outcome_line(outcome, self.wanted.scope))
        if not is_taken_up:
            why = why_not_taken_up(self.operator, self.context.timeout)
            print_line(f"Written as {written.request}, but not taken up yet: {why}")
        elif is_over:
            noun = self.wanted.scope.noun.capitalize()
            print_line(f"{noun} {written.request} is complete: {_sentence(counts)}.")
        else:
            doing = "Undoing" if self.wanted.scope is CancelScope.ALL else "Cancelling"
            print_line(f"{doing} as {written.request}; see `reassigner list {written.request}`.")
        print_lines(self._answer().values())
        return code


def undone_text(operator: OperatorClient, requests: Sequence[RequestId]) -> str:
    """Describe how many partitions of requests have the replicas that they had before them."""
    former: dict[TopicPartition, set[Replicas | None]] = {}
    for request in requests:
        for entry in operator.outcomes.accepted_entries(request):
            former.setdefault(entry.partition, set()).add(entry.original)
    present = operator.partitions.assignments(former)
    back = sum(
        now is not None and not now.is_reassigning and now.replicas in former[partition]
        for partition, now in present.items()
    )
    named = request_text(*requests)
    if not former:
        return f"{named} has no accepted entries: it moved nothing"
    total = count_text(len(former), "partition")
    if back == len(former):
        return f"{named} is undone: {total} with the replicas of before"
    return f"{named} is not undone yet: {back} of {total} with the replicas of before"


def _counts(history: RequestHistory) -> dict[str, int]:
    kinds: Mapping[OutcomeKind, int] = Counter(outcome.fate for outcome in history.endings)
    moved_back = 0
    if history.summary is not None:
        kinds = history.summary.fates
        cancelled = kinds.get(OutcomeKind.CANCELLED, 0) + kinds.get(OutcomeKind.ROLLED_BACK, 0)
        moved_back = max(0, history.summary.done - cancelled)
    return {
        "cancelled": kinds.get(OutcomeKind.CANCELLED, 0),
        "rolled_back": kinds.get(OutcomeKind.ROLLED_BACK, 0),
        "moved_back": moved_back,
        "skipped": kinds.get(OutcomeKind.SKIPPED, 0),
    }


def _sentence(counts: Mapping[str, int]) -> str:
    words = {
        "cancelled": "cancelled before their first step",
        "rolled_back": "rolled back",
        "moved_back": "finished ones moved back",
        "skipped": "skipped",
    }
    found = (f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind])
    return ", ".join(found) or "nothing was left to do"


def has_ended(operator: OperatorClient, written: Cancellation) -> bool:
    """Return whether a cancellation has ended."""
    found = operator.requests.cancellation()
    return found is None or found.czxid != written.czxid


def is_selected(operator: OperatorClient, written: Cancellation) -> bool:
    """Return whether the daemon has selected all partitions of a cancellation."""
    if has_ended(operator, written):
        return True
    versions = history_of(operator, written.request).parts
    return any(v.isdecimal() and int(v) >= written.version for v in versions)


def _screen(selections: Mapping[str, Sequence[object]]) -> Iterator[Part]:
    """Return what a cancellation would select, by what would happen to it."""
    for what, found in selections.items():
        yield Listing(
            title=f"would {what}: {len(found)}",
            columns=(Column("", lambda name: Name(str(name))),),
            rows=found,
        )
