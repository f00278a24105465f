"""
``cancel``: cancel reassignments, and show how their partitions roll back.

A cancellation that is being carried out can be added to, never reduced. It has one time, before
which it selects: so the command waits until its partitions are selected, and then adds to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from controller.cli.output import NOTHING_WRITTEN, Exit, print_json, print_line, print_note
from controller.cli.progress_display import display_of
from controller.cli.request_state import history_of, outcome_documents, outcome_line
from controller.cli.submitting import FOLLOW_S, await_daemon, why_not_taken_up
from controller.cli.terminal_tables import Column, Listing, Name, Part
from controller.core.model import OutcomeKind, ReassignmentSpec
from controller.core.requests.outcomes import RequestHistory
from controller.core.requests.submissions import Cancellation, CancelScope
from controller.errors import InvalidInputError
from controller.previews.cancel_preview import CancelPreview, cancel_preview
from controller.units import names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

SCOPES: Final = "|".join(CancelScope)


@command("dry_run", "timeout", "all_rows", "as_json")
def cancel(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    requests: list[str] | None = argument("REQUEST", "Ids of the requests to cancel."),
    *,
    topic: list[str] | None = option(
        "TOPIC", "Cancel the reassignments of this topic; may be repeated. Default: none."
    ),
    partition: list[str] | None = option(
        "TOPIC-N", "Cancel the reassignment of this partition; may be repeated. Default: none."
    ),
    everything: bool = flag("--everything", "Cancel all reassignments.", "--all"),
    scope: CancelScope = option(
        SCOPES,
        "all: also move finished partitions back to their original replicas.",
        default=CancelScope.IN_FLIGHT,
    ),
    yes: bool = flag("--yes", "Do not ask for confirmation.", "-y"),
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
    wait: bool = options.WAIT,
) -> Exit:
    """
    Cancel reassignments: pending ones do not start, those in flight roll back.

    Example: reassigner cancel request_0000000004 --zookeeper zk1:2181/kafka --wait

    Exit code: 0 taken up (with --wait: complete) or nothing to cancel, 1 error, 2 not taken up yet
    or interrupted, 3 a partition could not be cancelled, or an earlier cancellation has not
    selected its partitions yet.
    """
    wanted = Cancellation(
        requests=frozenset(request_ids(requests)),
        topics=frozenset(options.topics_of(topic)),
        partitions=frozenset(options.partitions_of(partition)),
        scope=scope,
        reason=reason,
        requested_by=context.requested_by(requested_by),
    )
    if wanted.is_everything is not everything:
        raise InvalidInputError(
            "--everything cannot be used with requests, --topic or --partition"
            if everything
            else "name requests, --topic or --partition, or use --everything"
        )
    with context.connected() as operator:
        if everything and not (yes or context.dry_run):
            if not context.is_terminal():
                raise InvalidInputError("--everything needs --yes without a terminal")
            count = len(operator.partitions.reassigned_partitions())
            typer.confirm(f"Cancel everything, {count} partitions now?", abort=True)
        return CancelRun(context, operator, wanted, wait=wait).run()


@dataclass(frozen=True, slots=True)
class CancelRun:
    """One run of ``cancel``."""

    context: CommandContext
    operator: OperatorClient
    wanted: Cancellation
    wait: bool

    def run(self) -> Exit:
        """Cancel, wait as the options say, and report."""
        if self.context.dry_run:
            preview = cancel_preview(self.operator, self.wanted, is_whole=True)
            return self._show(preview) if preview else self._nothing(nothing_text(self.operator))
        done = submit_cancellation(self.operator, self.wanted)
        if isinstance(done, str):
            return self._nothing(done)
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
        document = {"cancellation": None, "result": "nothing_to_do"}
        self.context.print_result(lambda: document, [why])
        return Exit.DONE

    def _show(self, preview: CancelPreview) -> Exit:
        document = {
            "dry_run": True,
            "in_progress": [str(p) for p in preview.in_progress],
            "not_accepted": list(preview.submissions),
            "finished": [str(p) for p in preview.finished],
            "drained": list(preview.drained),
        }
        selections: dict[str, Sequence[object]] = {
            "cancel, in progress or waiting": preview.in_progress,
            "cancel, not accepted yet": preview.submissions,
            "move back, finished already": preview.finished,
            "drain no longer": preview.drained,
        }
        lines = (
            f"would {what}: {len(found)} ({names_text(found)})"
            for what, found in selections.items()
            if found
        )
        self.context.print_result(lambda: document, lines, _screen(selections))
        if not self.context.as_json:
            print_line(NOTHING_WRITTEN)
        return Exit.DONE

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
                show(f"{left} partitions have not ended yet", 0, 0, status)
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
                }
            )
            return code
        for outcome in outcomes:
            if outcome.fate is OutcomeKind.SKIPPED:
                print_line(outcome_line(outcome))
        if not is_taken_up:
            why = why_not_taken_up(self.operator, self.context.timeout)
            print_line(f"Written as {written.request}, but not taken up yet: {why}")
        elif is_over:
            print_line(f"Cancellation {written.request} is complete: {_sentence(counts)}.")
        else:
            print_line(f"Cancelling as {written.request}; see `reassigner list {written.request}`.")
        return code


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
    return ", ".join(found) or "nothing was left to cancel"


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
