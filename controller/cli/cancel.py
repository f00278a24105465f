"""
``cancel``: cancel reassignments, and show how their partitions roll back.

A cancellation that is being carried out can be added to, never reduced. It has one time, before
which it selects: so the command waits until its partitions are selected, and then adds to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from controller.actions.cancelling import Cancelled, nothing_text, submit_cancellation
from controller.actions.named_requests import request_ids
from controller.cli import options
from controller.cli.context import CommandContext, context_of
from controller.cli.exits import Exit
from controller.cli.output import NOTHING_WRITTEN, print_json, print_line, print_lines, print_note
from controller.cli.preview_tables import selection_screen
from controller.cli.progress_display import DisplayOpener, display_of
from controller.cli.request_state import outcome_documents, outcome_line
from controller.cli.submitting import FOLLOW_S, SubmitOptions, await_daemon, why_not_taken_up
from controller.core.model import OutcomeKind, ReassignmentSpec
from controller.core.requests.outcomes import RequestHistory
from controller.core.requests.submissions import Cancellation, CancelScope
from controller.errors import InvalidInputError
from controller.previews.cancel_preview import CancelPreview, cancel_preview
from controller.units import names_text
from controller.zk.operator_client import OperatorClient


def cancel(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    requests: Annotated[
        list[str] | None, typer.Argument(metavar="REQUEST", help="Ids of the requests to cancel.")
    ] = None,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Cancel the reassignments of this topic; may be repeated. Default: none.",
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC-N",
            help="Cancel the reassignment of this partition; may be repeated. Default: none.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", "--all", help="Cancel all reassignments.")
    ] = False,
    scope: Annotated[
        CancelScope,
        typer.Option(
            metavar="|".join(CancelScope),
            help="all: also move finished partitions back to their original replicas.",
        ),
    ] = CancelScope.IN_FLIGHT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    reason: options.ReasonOption = "",
    requested_by: options.ByOption = None,
    wait: options.WaitOption = False,
    dry_run: options.DryRunOption = False,
    timeout: options.TimeoutOption = 60.0,
    all_rows: options.AllRowsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Cancel reassignments: pending ones do not start, those in flight roll back.

    Example: reassigner cancel request_0000000004 --zookeeper zk1:2181/kafka --wait

    Exit code: 0 taken up (with --wait: complete) or nothing to cancel, 1 error, 2 not taken up yet
    or interrupted, 3 a partition could not be cancelled, or an earlier cancellation has not
    selected its partitions yet.
    """
    context = context_of(ctx)
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
    submit = SubmitOptions(
        wait=wait, dry_run=dry_run, all_rows=all_rows, as_json=as_json, timeout_s=timeout
    )
    display = display_of(context.screen(), as_json=as_json)
    with context.connected(zookeeper, config) as operator:
        if everything and not (yes or dry_run):
            _confirm(context, len(operator.partitions.reassigned_partitions()))
        raise typer.Exit(CancelRun(context, operator, wanted, submit, display).run())


def _confirm(context: CommandContext, count: int) -> None:
    if not context.is_terminal():
        raise InvalidInputError("--everything needs --yes without a terminal")
    typer.confirm(f"Cancel everything, {count} partitions now?", abort=True)


class CancelRun:
    """One run of ``cancel``."""

    def __init__(
        self,
        context: CommandContext,
        operator: OperatorClient,
        wanted: Cancellation,
        submit: SubmitOptions,
        display: DisplayOpener,
    ) -> None:
        """Prepare a cancellation, see ``Cancellation``."""
        self._context = context
        self._operator = operator
        self._wanted = wanted
        self._submit = submit
        self._display = display

    def run(self) -> Exit:
        """
        Cancel, wait as the options say, and report.

        Raises:
            ReassignmentConflictError: an earlier one has not selected its partitions yet.
            InvalidInputError: a request is not known.

        """
        if self._submit.dry_run:
            preview = cancel_preview(self._operator, self._wanted, is_whole=True)
            return self._show(preview) if preview else self._nothing(nothing_text(self._operator))
        done = submit_cancellation(self._operator, self._wanted)
        if isinstance(done, str):
            return self._nothing(done)
        written = done.written
        try:
            taken_up = await_daemon(
                self._context,
                self._operator,
                lambda: self._is_taken_up(done),
                timeout_s=self._submit.timeout_s,
            )
            if taken_up and self._submit.wait:
                self._follow(written)
        except KeyboardInterrupt:
            print_note(f"Interrupted; {written.request} continues.")
            return Exit.IN_PROGRESS
        return self._report(written, is_taken_up=taken_up)

    # --- before --------------------------------------------------------------------------------

    def _nothing(self, why: str) -> Exit:
        if self._submit.as_json:
            print_json({"cancellation": None, "result": "nothing_to_do"})
        else:
            print_line(why)
        return Exit.DONE

    def _show(self, preview: CancelPreview) -> Exit:
        if self._submit.as_json:
            print_json(
                {
                    "dry_run": True,
                    "in_progress": [str(p) for p in preview.in_progress],
                    "not_accepted": list(preview.submissions),
                    "finished": [str(p) for p in preview.finished],
                }
            )
            return Exit.DONE
        selections: dict[str, Sequence[object]] = {
            "cancel, in progress or waiting": preview.in_progress,
            "cancel, not accepted yet": preview.submissions,
            "move back, finished already": preview.finished,
        }
        screen = self._context.screen(all_rows=self._submit.all_rows)
        if screen is not None:
            screen.print(*selection_screen(selections, screen.rows_max))
        else:
            print_lines(
                f"would {what}: {len(found)} ({names_text(found)})"
                for what, found in selections.items()
                if found
            )
        print_line(NOTHING_WRITTEN)
        return Exit.DONE

    # --- waiting -------------------------------------------------------------------------------

    def _is_taken_up(self, done: Cancelled) -> bool:
        """Return whether all partitions are selected, or the first one rolls back."""
        written, preview = done.written, done.preview
        if is_selected(self._operator, written):
            return True
        first = preview.in_progress[:1]
        if not first or preview.submissions:
            return False
        spec = self._operator.partitions.specs(first)[first[0]]
        return isinstance(spec, ReassignmentSpec) and spec.cancelled_by == written.request

    def _follow(self, written: Cancellation) -> None:
        with self._display() as display:
            while not has_ended(self._operator, written):
                left = len(self._operator.partitions.reassigned_partitions())
                status = self._context.status_of_leader(self._operator)
                display.show(f"{left} partitions have not ended yet", 0, 0, status)
                self._context.sleep(FOLLOW_S)

    # --- the end -------------------------------------------------------------------------------

    def _report(self, written: Cancellation, *, is_taken_up: bool) -> Exit:
        is_over = has_ended(self._operator, written)
        history = self._operator.outcomes.history_of(written.request)
        counts, outcomes = _counts(history), () if history is None else history.endings
        code = Exit.DONE
        if not is_taken_up or (self._submit.wait and not is_over):
            code = Exit.IN_PROGRESS
        elif counts[OutcomeKind.SKIPPED]:
            code = Exit.REFUSED
        if self._submit.as_json:
            print_json(_document(written, history, code))
            return code
        for outcome in outcomes:
            if outcome.fate is OutcomeKind.SKIPPED:
                print_line(outcome_line(outcome))
        if not is_taken_up:
            why = why_not_taken_up(self._operator, self._submit.timeout_s)
            print_line(f"Written as {written.request}, but not taken up yet: {why}")
        elif is_over:
            done = _sentence(counts, _moved_back(history))
            print_line(f"Cancellation {written.request} is complete: {done}.")
        else:
            print_line(f"Cancelling as {written.request}; see `reassigner list {written.request}`.")
        return code


def _counts(history: RequestHistory | None) -> Counter[OutcomeKind]:
    """Return the number of cancelled partitions by outcome."""
    if history is None:
        return Counter()
    if history.summary is not None:
        return Counter(history.summary.fates)
    return Counter(outcome.fate for outcome in history.endings)


def _moved_back(history: RequestHistory | None) -> int:
    """Return the number of finished partitions that were moved back."""
    if history is None or history.summary is None:
        return 0
    counts = history.summary.fates
    cancelled = counts.get(OutcomeKind.CANCELLED, 0) + counts.get(OutcomeKind.ROLLED_BACK, 0)
    return max(0, history.summary.done - cancelled)


def _sentence(counts: Counter[OutcomeKind], moved_back: int) -> str:
    parts = (
        (counts[OutcomeKind.CANCELLED], "cancelled before their first step"),
        (counts[OutcomeKind.ROLLED_BACK], "rolled back"),
        (moved_back, "finished ones moved back"),
        (counts[OutcomeKind.SKIPPED], "skipped"),
    )
    return ", ".join(f"{n} {word}" for n, word in parts if n) or "nothing was left to cancel"


def _document(written: Cancellation, history: RequestHistory | None, code: Exit) -> dict[str, Any]:
    counts = _counts(history)
    return {
        "cancellation": written.request,
        "result": code.name.lower(),
        "partitions": {
            "cancelled": counts[OutcomeKind.CANCELLED],
            "rolled_back": counts[OutcomeKind.ROLLED_BACK],
            "moved_back": _moved_back(history),
            "skipped": counts[OutcomeKind.SKIPPED],
        },
        "endings": outcome_documents(() if history is None else history.endings),
    }


def has_ended(operator: OperatorClient, written: Cancellation) -> bool:
    """Return whether a cancellation has ended."""
    found = operator.requests.cancellation()
    return found is None or found.czxid != written.czxid


def is_selected(operator: OperatorClient, written: Cancellation) -> bool:
    """Return whether the daemon has selected all partitions of a cancellation."""
    if has_ended(operator, written):
        return True
    history = operator.outcomes.history_of(written.request)
    versions = () if history is None else history.parts
    return any(v.isdecimal() and int(v) >= written.version for v in versions)
