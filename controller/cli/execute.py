"""
``execute``: submit a plan, and wait until the daemon accepts it or until its end.

A request is written below ``/admin/reassignment_requests``, in as many znodes as it needs; it is
accepted when these are gone. With ``--legacy``, the plan is written to
``/admin/reassign_partitions``; an entry is accepted when the daemon has a record of it, or has
finished it. Ctrl-C stops no reassignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.actions.submission import PlanSubmission, SubmissionKind
from controller.cli import options, request_state, submitting
from controller.cli.context import CommandContext
from controller.cli.options import command, flag, option
from controller.cli.output import Exit, print_json, print_line, print_lines, print_note
from controller.cli.request_state import RequestState
from controller.core.model import TopicPartition, request_text
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.previews.entries import Entry, EntryState, read_entries
from controller.previews.plan_changes import Conflict
from controller.previews.plan_files import check_approval
from controller.units import ids, names_text


@command("dry_run", "out", "timeout", "all_rows", "as_json")
def execute(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    plan: Path = options.PLAN,
    *,
    requested: RequestOptions,
    allow_replication_factor_change: bool = options.MAY_CHANGE_FACTORS,
    additional: bool = flag("--additional", "With --legacy: add to the plan in progress."),
    legacy: bool = flag(
        "--legacy", "Write /admin/reassign_partitions, as Kafka's tool did before 2.6."
    ),
    approved: str | None = option(
        "HASH", "Submit the file as the plan approved by this hash. Default: without approval."
    ),
    approved_by: str = option(
        "NAME", "With --approved: name of the approver. Default: none.", default=""
    ),
    wait: bool = options.WAIT,
    out: Path | None = option(
        "FILE",
        "With --dry-run: write the plan for approval, with the present replicas and a "
        "hash. Default: write no file.",
    ),
) -> Exit:
    """
    Submit a plan and wait until the daemon accepts it.

    Example: reassigner execute plan.json --zookeeper zk1:2181/kafka --wait

    Several requests can be in progress. A new request supersedes earlier requests for the same
    partitions. Ctrl-C does not stop the reassignments. Of an approved plan, each partition begins
    only from the replicas that were approved. A plan that changes a replication factor is refused
    without --allow-replication-factor-change. Exit code: 0 accepted (with --wait: done), 1 error,
    2 not accepted yet or interrupted, 3 refused, 4 cancelled.
    """
    wanted = replace(requested, approved=approved or "", approved_by=approved_by)
    least = RequestOptions(reason=wanted.reason, requested_by=wanted.requested_by)
    if legacy and wanted != least:
        raise InvalidInputError("--legacy takes no option of a request")
    if out is not None and not context.dry_run:
        raise InvalidInputError(
            "--out needs --dry-run: the plan is approved before it is submitted"
        )
    if approved_by and approved is None:
        raise InvalidInputError("--approved-by needs --approved")
    file = options.read_plan_argument(plan)
    way = SubmissionKind.ADDITIONAL if additional else SubmissionKind.LEGACY
    submission = PlanSubmission(
        plan=file,
        way=way if legacy else SubmissionKind.REQUEST,
        options=wanted,
        expected=None if approved is None else check_approval(file, approved),
        may_change_factors=allow_replication_factor_change,
    )
    kind = LegacyExecution if legacy else Execution
    with context.inspected() as (operator, queries):
        run = kind(
            context=context,
            operator=operator,
            wanted=submission,
            queries=queries,
            wait=wait,
            out=out,
        )
        return run.run()


class Execution(submitting.PlanExecution):
    """One submission of a plan as a request."""

    _is_accepted: bool

    def _notes(self, conflicts: Sequence[Conflict]) -> Iterable[str]:
        refused = (str(c) for c in conflicts if c.is_refused)
        # With --wait the display shows what clients wait for.
        held = submitting.hold_lines(
            self.context,
            self.operator,
            self.wanted.options.window,
            names_clients=not self.wait,
        )
        return (*refused, *held)

    def _wait(self) -> None:
        operator, names = self.operator, set(self.names)
        self._is_accepted = submitting.await_daemon(
            self.context, operator, lambda: not names & set(operator.requests.open())
        )
        if self._is_accepted and self.wait:
            self._follow()

    def _look(self) -> submitting.PlanProgress:
        total = len(self.plan)
        has_ended = self.operator.outcomes.outcome(self.request) is not None
        ended = total if has_ended else total - len(self._open())
        return submitting.PlanProgress(f"{ended} of {total} ended", ended, is_over=has_ended)

    def _open(self) -> set[TopicPartition]:
        topics = dict.fromkeys(p.topic for p in self.plan)
        return self.plan.keys() & set(self.operator.partitions.reassigned_partitions(topics))

    def _report_interrupt(self) -> Exit:
        total, still = len(self.plan), len(self._open())
        print_note(
            f"Interrupted; {request_text(self.request)} continues: {still} of {total} are not done."
        )
        print_note(
            f"See `reassigner status` and `reassigner verify {self.request}`; "
            f"`reassigner cancel {self.request}` cancels it."
        )
        return Exit.IN_PROGRESS

    def _report(self) -> Exit:
        is_accepted = self._is_accepted
        state = request_state.read_request(self.operator, self.request)
        code = request_state.exit_of_request(state)
        if code is Exit.IN_PROGRESS and is_accepted and not self.wait:
            code = Exit.REFUSED if state.history.refused else Exit.DONE
        answer = None if self.answer is None else self.answer(self.operator)
        if self.context.as_json:
            document = self._document(state, read_entries(self.operator, self.plan), code)
            print_json(document if answer is None else {**document, "answer": answer})
            return code
        if not is_accepted:
            why = submitting.why_not_taken_up(self.operator, self.context.timeout)
            print_note(f"Written as {self.request}, but not accepted yet ({why})")
            return Exit.IN_PROGRESS
        print_lines(request_state.problem_lines(state))
        if state.has_ended:
            print_line(f"{request_text(self.request)} has ended: {state.sentence()}")
        elif len(state.history.refused) < len(self.plan):
            refused = {r.partition for r in state.history.refused}
            accepted = [p for p in self.plan if p not in refused]
            print_line(f"Accepted as {self.request}: {names_text(accepted)}")
        print_lines(self._superseded_lines())
        print_lines(() if answer is None else (answer,))
        return code

    def _document(
        self, state: RequestState, entries: Sequence[Entry], code: Exit
    ) -> dict[str, Any]:
        return {
            "request": self.request,
            "submitted": list(self.names),
            "result": code.name.lower(),
            "partitions": state.counts(),
            "entries": [e.document() for e in entries],
            "refused": [request_state.refusal_document(r) for r in state.history.refused],
            "conflicts": [c.document() for c in self.conflicts],
            "rollback": self.rollback,
        }


# --- the legacy route ---------------------------------------------------------------------------

RefusalDocument = Mapping[str, Any]
"""A refused entry as in ``--json``."""


class LegacyExecution(submitting.PlanExecution):
    """One submission of a plan by the legacy route."""

    _entries: list[Entry]
    """As last read."""

    def _wait(self) -> None:
        submitting.await_daemon(
            self.context,
            self.operator,
            lambda: all(e.state is not EntryState.SUBMITTED for e in self._read()),
        )
        if self.wait and any(e.state.is_open for e in self._entries):
            self._follow()

    def _read(self) -> list[Entry]:
        self._entries = read_entries(self.operator, self.plan)
        return self._entries

    def _look(self) -> submitting.PlanProgress:
        entries = self._read()
        ended = sum(not e.state.is_open for e in entries)
        return submitting.PlanProgress(
            request_state.counts_line(entries), ended, is_over=ended == len(entries)
        )

    def _report_interrupt(self) -> Exit:
        print_note(
            f"Interrupted; the reassignment continues: {request_state.counts_line(self._read())}."
        )
        print_note("See `reassigner status` and `reassigner verify`.")
        return Exit.IN_PROGRESS

    def _report(self) -> Exit:
        entries = self._entries
        refused = [e for e in entries if e.state is EntryState.REFUSED]
        submitted = [e for e in entries if e.state is EntryState.SUBMITTED]
        details = self._refusals() if refused else []
        code = Exit.REFUSED if refused else Exit.IN_PROGRESS if submitted else Exit.DONE
        if self.context.as_json:
            print_json(self._document(entries, details, code))
            return code
        for entry in refused:
            print_line(
                f"{entry.partition} -> [{ids(entry.target)}] was refused{_why(entry, details)}"
            )
        if submitted:
            why = submitting.why_not_taken_up(self.operator, self.context.timeout)
            if self.operator.cluster.leader_address() is None:
                why += ", or Kafka's controller"
            print_note(f"Written, but not accepted yet: {_names(submitted)} ({why})")
        accepted = [e for e in entries if e.state in (EntryState.ACCEPTED, EntryState.MOVING)]
        done = [e for e in entries if e.state is EntryState.DONE]
        if accepted:
            print_line(f"Accepted as {self.request}: {_names(accepted)}")
        if done:
            print_line(f"Done: {_names(done)}")
        print_lines(self._superseded_lines())
        return code

    def _document(
        self, entries: list[Entry], details: list[RefusalDocument], code: Exit
    ) -> dict[str, Any]:
        return {
            "request": self.request,
            "result": code.name.lower(),
            "entries": [e.document() for e in entries],
            "refused": details,
            "conflicts": [c.document() for c in self.conflicts],
            "rollback": self.rollback,
        }

    def _refusals(self) -> list[RefusalDocument]:
        """Return the refusals, from the outcome if there is one, otherwise from the daemon."""
        request = self.request
        outcome = self.operator.outcomes.outcome(request)
        if isinstance(outcome, Summary):
            return list(map(request_state.refusal_document, outcome.refused))
        status = self.context.status_of_leader(self.operator)
        return [
            {key: r[key] for key in ("entry", "reason", "detail")}
            for known in (status or {}).get("requests", ())
            if known["id"] == request
            for r in known["refusals"]
        ]


def _names(entries: list[Entry]) -> str:
    return names_text(entry.partition for entry in entries)


def _why(entry: Entry, details: list[RefusalDocument]) -> str:
    found = [r for r in details if r["entry"].startswith(f"{entry.partition} ")]
    return f": {found[-1]['detail']}" if found else ""
