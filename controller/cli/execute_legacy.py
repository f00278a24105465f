"""
``execute --legacy``: submit a plan by the route of Kafka's tool.

The plan is written to ``/admin/reassign_partitions``. An entry is accepted when the daemon has a
record of it, or has finished it. Ctrl-C stops no reassignment.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from controller.cli.context import AskMinInsync, CommandContext
from controller.cli.exits import Exit
from controller.cli.output import ids, listed, say, say_json, tell
from controller.cli.plan_files import Plan
from controller.cli.plan_preview import (
    check_enabled,
    conflicts_of,
    print_rollback,
    rollback_of,
    show_preview,
    validate,
)
from controller.cli.progress_display import DisplayOpener
from controller.cli.request_state import Entry, EntryState, counts_line, read_entries
from controller.cli.status_text import status_about
from controller.cli.submitting import FOLLOW_S, SubmitOptions, await_daemon, why_not_taken_up
from controller.core.model import RequestId, Route
from controller.core.outcomes import Summary
from controller.core.requests.acceptance import legacy_request_id
from controller.errors import ReassignmentConflictError
from controller.zk.operator_client import OperatorClient
from controller.znodes.paths import LEGACY_PLAN


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A refused entry, in the words of the daemon."""

    entry: str
    reason: str
    detail: str


class LegacyExecution:
    """One submission of a plan by the legacy route."""

    def __init__(  # noqa: PLR0913 - everything it works with
        self,
        around: CommandContext,
        operator: OperatorClient,
        plan: Plan,
        submit: SubmitOptions,
        display: DisplayOpener,
        *,
        ask: AskMinInsync,
    ) -> None:
        """Prepare the submission of ``plan``."""
        self._around = around
        self._operator = operator
        self._plan = plan
        self._submit_options = submit
        self._display = display
        self._ask = ask
        self._request: RequestId | None = None
        self._rollback: dict[str, object] = {}

    def run(self) -> Exit:
        """
        Submit, wait as the options say, and report.

        Raises:
            ReassignmentConflictError: the kill switch is set, or another plan is in progress.

        """
        submit, operator = self._submit_options, self._operator
        check_enabled(operator)
        if not submit.additional and operator.requests.plan() is not None:
            raise ReassignmentConflictError(
                f"{LEGACY_PLAN} exists already: a plan is in progress. Wait for its end, or add to "
                "it with --additional"
            )
        before = read_entries(operator, self._plan)
        if submit.dry_run:
            conflicts = conflicts_of(before, Route.LEGACY)
            validation = validate(operator, before, self._ask)
            return show_preview(before, validation, conflicts, as_json=submit.as_json)
        self._rollback = rollback_of(before)
        print_rollback(self._rollback, as_json=submit.as_json)
        write = operator.writes.extend_plan if submit.additional else operator.writes.create_plan
        self._request = legacy_request_id(write(self._plan))
        try:
            entries = self._await_acceptance()
            if submit.wait and any(e.state.is_open for e in entries):
                entries = self._follow()
        except KeyboardInterrupt:
            return self._interrupted()
        return self._report(entries)

    # --- waiting -------------------------------------------------------------------------------

    def _await_acceptance(self) -> list[Entry]:
        entries: list[Entry] = []

        def is_accepted() -> bool:
            entries[:] = read_entries(self._operator, self._plan)
            return all(e.state is not EntryState.SUBMITTED for e in entries)

        timeout_s = self._submit_options.timeout_s
        await_daemon(self._around, self._operator, is_accepted, timeout_s=timeout_s)
        return entries

    def _follow(self) -> list[Entry]:
        with self._display() as display:
            while True:
                entries = read_entries(self._operator, self._plan)
                ended = sum(not e.state.is_open for e in entries)
                status = self._around.status_of_leader(self._operator)
                about = status_about(status, self._request)
                display.show(counts_line(entries), ended, len(entries), about)
                if ended == len(entries):
                    return entries
                self._around.sleep(FOLLOW_S)

    def _interrupted(self) -> Exit:
        entries = read_entries(self._operator, self._plan)
        tell(f"Interrupted; the reassignment continues: {counts_line(entries)}.")
        tell("See `reassigner status` and `reassigner verify`.")
        return Exit.IN_PROGRESS

    # --- the end -------------------------------------------------------------------------------

    def _report(self, entries: list[Entry]) -> Exit:
        refused = [e for e in entries if e.state is EntryState.REFUSED]
        submitted = [e for e in entries if e.state is EntryState.SUBMITTED]
        details = self._refusals() if refused else []
        code = Exit.REFUSED if refused else Exit.IN_PROGRESS if submitted else Exit.DONE
        if self._submit_options.as_json:
            say_json(self._document(entries, details, code))
            return code
        for entry in refused:
            say(f"{entry.partition} -> [{ids(entry.target)}] was refused{_why(entry, details)}")
        if submitted:
            why = why_not_taken_up(self._operator, self._submit_options.timeout_s)
            if self._operator.cluster.leader_address() is None:
                why += ", or Kafka's controller"
            tell(f"Written, but not accepted yet: {_names(submitted)} ({why})")
        accepted = [e for e in entries if e.state in (EntryState.ACCEPTED, EntryState.MOVING)]
        done = [e for e in entries if e.state is EntryState.DONE]
        if accepted:
            say(f"Accepted as {self._request}: {_names(accepted)}")
        if done:
            say(f"Done: {_names(done)}")
        return code

    def _document(self, entries: list[Entry], details: list[Refused], code: Exit) -> dict[str, Any]:
        return {
            "request": self._request,
            "result": code.name.lower(),
            "entries": [e.document() for e in entries],
            "refused": [asdict(r) for r in details],
            "rollback": self._rollback,
        }

    def _refusals(self) -> list[Refused]:
        """Return the refusals, from the outcome if there is one, otherwise from the daemon."""
        request = self._request
        outcome = self._operator.outcomes.outcome(request) if request is not None else None
        if isinstance(outcome, Summary):
            return [
                Refused(entry=r.entry, reason=r.reason, detail=r.detail) for r in outcome.refused
            ]
        status = self._around.status_of_leader(self._operator)
        return [
            Refused(entry=r["entry"], reason=r["reason"], detail=r["detail"])
            for known in (status or {}).get("requests", ())
            if known["id"] == request
            for r in known["refusals"]
        ]


def _names(entries: list[Entry]) -> str:
    return listed(entry.partition for entry in entries)


def _why(entry: Entry, details: list[Refused]) -> str:
    found = [r for r in details if r.entry.startswith(f"{entry.partition} ")]
    return f": {found[-1].detail}" if found else ""
