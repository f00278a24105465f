"""
``execute --legacy``: submit a plan by the route of Kafka's own tool.

The plan goes to ``/admin/reassign_partitions``; the daemon judges its entries. Accepted means
durable: the daemon has a record of the entry, or has finished it. Interrupting never stops what is
under way.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from controller.cli import report_text
from controller.cli.await_daemon import FOLLOW_S, Wishes, await_daemon
from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.plan_files import Entry, Plan, Standing, look
from controller.cli.plan_preview import (
    AskMinInsync,
    check_enabled,
    conflicts_of,
    judge,
    print_rollback,
    rollback_of,
    show_preview,
)
from controller.cli.ports import InspectorPort
from controller.cli.progress_display import DisplayOpener
from controller.cli.report_text import ids, names, say, say_json, status_about, tell
from controller.core.model import RequestId, Route
from controller.core.outcomes import Summary
from controller.core.requests.acceptance import legacy_request_id
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import LEGACY_PLAN


class LegacyExecution:
    """One run of ``execute --legacy``."""

    def __init__(  # noqa: PLR0913 - all it works with
        self,
        surroundings: CommandContext,
        operator: InspectorPort,
        plan: Plan,
        wishes: Wishes,
        display: DisplayOpener,
        *,
        ask: AskMinInsync,
    ) -> None:
        """Prepare to submit a plan that was read from a file."""
        self._around = surroundings
        self._operator = operator
        self._plan = plan
        self._wishes = wishes
        self._display = display
        self._ask = ask
        self._request: RequestId | None = None
        self._rollback: dict[str, object] = {}

    def run(self) -> Exit:
        """
        Submit, and wait as long as was asked for.

        Raises:
            ReassignmentConflictError: another plan stands in the way.

        """
        check_enabled(self._operator)
        self._check_free()
        before = look(self._operator, self._plan)
        if self._wishes.dry_run:
            conflicts = conflicts_of(before, Route.LEGACY)
            judged = judge(self._operator, before, self._ask)
            return show_preview(before, judged, conflicts, as_json=self._wishes.as_json)
        self._rollback = rollback_of(before)
        print_rollback(self._rollback, as_json=self._wishes.as_json)
        submit = (
            self._operator.extend_plan if self._wishes.additional else self._operator.create_plan
        )
        self._request = legacy_request_id(submit(self._plan))
        try:
            entries = self._await_acceptance()
            if self._wishes.wait and any(e.standing.is_open for e in entries):
                entries = self._follow()
        except KeyboardInterrupt:
            return self._interrupted()
        return self._report(entries)

    # --- before --------------------------------------------------------------------------------

    def _check_free(self) -> None:
        if not self._wishes.additional and self._operator.read_plan() is not None:
            raise ReassignmentConflictError(
                f"{LEGACY_PLAN} exists already: a plan is being carried out. Wait for its end, or "
                "add to it with --additional"
            )

    # --- waiting -------------------------------------------------------------------------------

    def _await_acceptance(self) -> list[Entry]:
        entries: list[Entry] = []

        def is_judged() -> bool:
            entries[:] = look(self._operator, self._plan)
            return all(e.standing is not Standing.SUBMITTED for e in entries)

        await_daemon(self._around, self._operator, is_judged, timeout_s=self._wishes.timeout_s)
        return entries

    def _follow(self) -> list[Entry]:
        with self._display() as display:
            while True:
                entries = look(self._operator, self._plan)
                ended = sum(not e.standing.is_open for e in entries)
                status = self._around.status_of_leader(self._operator)
                display.show(
                    report_text.counts_line(entries),
                    ended,
                    len(entries),
                    status_about(status, self._request),
                )
                if ended == len(entries):
                    return entries
                self._around.sleep(FOLLOW_S)

    def _interrupted(self) -> Exit:
        entries = look(self._operator, self._plan)
        tell(f"Interrupted; the reassignment goes on: {report_text.counts_line(entries)}.")
        tell("See `reassigner status` and `reassigner verify`.")
        return Exit.IN_PROGRESS

    # --- the end -------------------------------------------------------------------------------

    def _report(self, entries: list[Entry]) -> Exit:
        refused = [e for e in entries if e.standing is Standing.REFUSED]
        submitted = [e for e in entries if e.standing is Standing.SUBMITTED]
        details = self._refusals() if refused else []
        code = Exit.REFUSED if refused else Exit.IN_PROGRESS if submitted else Exit.DONE
        if self._wishes.as_json:
            say_json(self._document(entries, details, code))
            return code
        for entry in refused:
            say(f"{entry.partition} -> [{ids(entry.target)}] was refused{_why(entry, details)}")
        if submitted:
            tell(self._not_accepted(submitted))
        accepted = [e for e in entries if e.standing in (Standing.ACCEPTED, Standing.MOVING)]
        done = [e for e in entries if e.standing is Standing.DONE]
        if accepted:
            say(f"Accepted as {self._request}: {names(accepted)}")
        if done:
            say(f"Done: {names(done)}")
        return code

    def _not_accepted(self, submitted: list[Entry]) -> str:
        if self._operator.leader_address() is None:
            why = "no reassigner leads; one that starts takes it up, and so may Kafka's controller"
        else:
            why = f"not within {self._wishes.timeout_s:g} s; see `reassigner status`"
        return f"Written, but not accepted yet: {names(submitted)} ({why})"

    def _document(self, entries: list[Entry], details: list[Refused], code: Exit) -> dict[str, Any]:
        return {
            "request": self._request,
            "result": code.name.lower(),
            "entries": [report_text.entry_document(e) for e in entries],
            "refused": [asdict(r) for r in details],
            "rollback": self._rollback,
        }

    def _refusals(self) -> list[Refused]:
        """Return why: from the outcome once there is one, else from the daemon."""
        request = self._request
        outcome = self._operator.read_outcome(request) if request is not None else None
        if isinstance(outcome, Summary):
            return [
                Refused(entry=r.entry, reason=r.reason, detail=r.detail) for r in outcome.refused
            ]
        status = self._around.status_of_leader(self._operator)
        return [
            Refused(entry=r["entry"], reason=r["reason"], detail=r["detail"])
            for asked in (status or {}).get("requests", ())
            if asked["id"] == request
            for r in asked["refusals"]
        ]


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A refusal as the daemon words it."""

    entry: str
    reason: str
    detail: str


def _why(entry: Entry, details: list[Refused]) -> str:
    found = [r for r in details if r.entry.startswith(f"{entry.partition} ")]
    return f": {found[-1].detail}" if found else ""
