"""
``execute --legacy``: submit a plan by the route of Kafka's tool.

The plan is written to ``/admin/reassign_partitions``. An entry is accepted when the daemon has a
record of it, or has finished it. Ctrl-C stops no reassignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cli import request_state, submitting
from controller.cli.exits import Exit
from controller.cli.output import ids, listed, print_json, print_line, print_note
from controller.cli.request_state import Entry, EntryState
from controller.core.model import Route
from controller.core.outcomes import Summary
from controller.core.requests.acceptance import legacy_request_id
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import LEGACY_PLAN

Refusal = Mapping[str, Any]
"""A refused entry as in ``--json``."""


class LegacyExecution(submitting.PlanExecution):
    """One submission of a plan by the legacy route."""

    route = Route.LEGACY
    _entries: list[Entry]
    """As last read."""

    def _check(self) -> None:
        super()._check()
        if not self._options.additional and self._operator.requests.plan() is not None:
            raise ReassignmentConflictError(
                f"{LEGACY_PLAN} exists already: a plan is in progress. Wait for its end, or add to "
                "it with --additional"
            )

    def _write(self) -> None:
        writes = self._operator.writes
        write = writes.extend_plan if self._options.additional else writes.create_plan
        self._request = legacy_request_id(write(self._plan))

    # --- waiting -------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._await_daemon(lambda: all(e.state is not EntryState.SUBMITTED for e in self._read()))
        if self._options.wait and any(e.state.is_open for e in self._entries):
            self._follow()

    def _read(self) -> list[Entry]:
        self._entries = request_state.read_entries(self._operator, self._plan)
        return self._entries

    def _look(self) -> submitting.Progress:
        entries = self._read()
        ended = sum(not e.state.is_open for e in entries)
        return submitting.Progress(
            request_state.counts_line(entries), ended, is_over=ended == len(entries)
        )

    def _interrupted(self) -> Exit:
        print_note(
            f"Interrupted; the reassignment continues: {request_state.counts_line(self._read())}."
        )
        print_note("See `reassigner status` and `reassigner verify`.")
        return Exit.IN_PROGRESS

    # --- the end -------------------------------------------------------------------------------

    def _report(self) -> Exit:
        entries = self._entries
        refused = [e for e in entries if e.state is EntryState.REFUSED]
        submitted = [e for e in entries if e.state is EntryState.SUBMITTED]
        details = self._refusals() if refused else []
        code = Exit.REFUSED if refused else Exit.IN_PROGRESS if submitted else Exit.DONE
        if self._options.as_json:
            print_json(self._document(entries, details, code))
            return code
        for entry in refused:
            print_line(
                f"{entry.partition} -> [{ids(entry.target)}] was refused{_why(entry, details)}"
            )
        if submitted:
            why = submitting.why_not_taken_up(self._operator, self._options.timeout_s)
            if self._operator.cluster.leader_address() is None:
                why += ", or Kafka's controller"
            print_note(f"Written, but not accepted yet: {_names(submitted)} ({why})")
        accepted = [e for e in entries if e.state in (EntryState.ACCEPTED, EntryState.MOVING)]
        done = [e for e in entries if e.state is EntryState.DONE]
        if accepted:
            print_line(f"Accepted as {self._request}: {_names(accepted)}")
        if done:
            print_line(f"Done: {_names(done)}")
        return code

    def _document(self, entries: list[Entry], details: list[Refusal], code: Exit) -> dict[str, Any]:
        return {
            "request": self._request,
            "result": code.name.lower(),
            "entries": [e.document() for e in entries],
            "refused": details,
            "rollback": self._rollback,
        }

    def _refusals(self) -> list[Refusal]:
        """Return the refusals, from the outcome if there is one, otherwise from the daemon."""
        request = self._request
        outcome = self._operator.outcomes.outcome(request)
        if isinstance(outcome, Summary):
            return list(map(request_state.refusal_document, outcome.refused))
        status = self._context.status_of_leader(self._operator)
        return [
            {key: r[key] for key in ("entry", "reason", "detail")}
            for known in (status or {}).get("requests", ())
            if known["id"] == request
            for r in known["refusals"]
        ]


def _names(entries: list[Entry]) -> str:
    return listed(entry.partition for entry in entries)


def _why(entry: Entry, details: list[Refusal]) -> str:
    found = [r for r in details if r["entry"].startswith(f"{entry.partition} ")]
    return f": {found[-1]['detail']}" if found else ""
