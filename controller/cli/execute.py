"""
``execute``: submit a plan, wait until it is accepted, follow it to its end if asked for.

The plan goes to ``/admin/reassign_partitions``; the daemon judges its entries. Accepted means
durable: the daemon has a record of the entry, or has finished it. Interrupting never stops what is
under way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from controller.cli import reports
from controller.cli.displays import DisplayOpener
from controller.cli.exits import Exit
from controller.cli.plans import Entry, Plan, Standing, document_of, look
from controller.cli.reports import ids, names, say, say_json, tell
from controller.cli.surroundings import OperatorPort, Surroundings
from controller.core.acceptance import legacy_request_id
from controller.core.histories import Summary
from controller.core.model import BrokerId, RequestId
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import LEGACY_PLAN

POLL_S: Final = 0.25
FOLLOW_S: Final = 0.5
LEADERLESS_S: Final = 15.0
"""A standby takes over within a session timeout; without a leader for longer there is none."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the person asked for besides the plan."""

    additional: bool = False
    wait: bool = False
    dry_run: bool = False
    as_json: bool = False
    timeout_s: float = 60.0


class Execution:
    """One run of ``execute``."""

    def __init__(
        self,
        surroundings: Surroundings,
        operator: OperatorPort,
        plan: Plan,
        wishes: Wishes,
        display: DisplayOpener,
    ) -> None:
        """Prepare to submit a plan that was read from a file."""
        self._around = surroundings
        self._operator = operator
        self._plan = plan
        self._wishes = wishes
        self._display = display
        self._request: RequestId | None = None
        self._rollback: dict[str, object] = {}

    def run(self) -> Exit:
        """
        Submit, and wait as long as was asked for.

        Raises:
            ReassignmentConflictError: another plan stands in the way.

        """
        before = look(self._operator, self._plan)
        if self._wishes.dry_run:
            return self._dry_run(before)
        self._check_free()
        submit = (
            self._operator.extend_plan if self._wishes.additional else self._operator.create_plan
        )
        self._request = legacy_request_id(submit(self._plan))
        self._rollback = rollback_of(before)
        self._print_rollback()
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

    def _dry_run(self, before: list[Entry]) -> Exit:
        problems = list(problems_of(before, self._operator.live_brokers()))
        if self._wishes.as_json:
            say_json(
                {
                    "dry_run": True,
                    "entries": [reports.entry_document(e) for e in before],
                    "problems": [{"partition": str(e.partition), "detail": w} for e, w in problems],
                }
            )
        else:
            for line in changes_of(before):
                say(line)
            for entry, why in problems:
                say(f"{entry.partition} would be refused: {why}")
            say("Nothing was written.")
        return Exit.REFUSED if problems else Exit.DONE

    def _print_rollback(self) -> None:
        if self._wishes.as_json:
            return
        say("Current partition replica assignment\n")
        say(json.dumps(self._rollback, separators=(",", ":")))
        say("\nSave this to use as a plan for going back.")

    # --- waiting -------------------------------------------------------------------------------

    def _await_acceptance(self) -> list[Entry]:
        started = self._around.now()
        leaderless_since: float | None = None
        while True:
            entries = look(self._operator, self._plan)
            now = self._around.now()
            if all(e.standing is not Standing.SUBMITTED for e in entries):
                return entries
            if self._operator.leader_address() is not None:
                leaderless_since = None
            elif leaderless_since is None:
                leaderless_since = now
                tell("No reassigner leads just now; waiting for one.")
            elif now - leaderless_since >= LEADERLESS_S:
                return entries
            if now - started >= self._wishes.timeout_s:
                return entries
            self._around.sleep(POLL_S)

    def _follow(self) -> list[Entry]:
        with self._display() as display:
            while True:
                entries = look(self._operator, self._plan)
                ended = sum(not e.standing.is_open for e in entries)
                status = self._around.status_of_leader(self._operator)
                display.show(
                    reports.counts_line(entries), ended, len(entries), _ours(status, self._request)
                )
                if ended == len(entries):
                    return entries
                self._around.sleep(FOLLOW_S)

    def _interrupted(self) -> Exit:
        entries = look(self._operator, self._plan)
        tell(f"Interrupted; the reassignment goes on: {reports.counts_line(entries)}.")
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
            "entries": [reports.entry_document(e) for e in entries],
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


def _ours(status: Mapping[str, Any] | None, request: RequestId | None) -> Mapping[str, Any] | None:
    """Return the part of a status that is about one request."""
    if status is None:
        return None
    in_flight = [p for p in status["in_flight"] if p.get("request") == request]
    return {**status, "requests": [], "in_flight": in_flight}


def rollback_of(entries: list[Entry]) -> dict[str, object]:
    """Return the plan that leads back."""
    return document_of({e.partition: e.original for e in entries if e.original})


def changes_of(entries: list[Entry]) -> Iterable[str]:
    """Word what a plan would change."""
    for entry in entries:
        now = entry.assignment
        if now is None:
            continue
        if now.replicas == entry.target and not now.is_reassigning:
            yield f"{entry.partition}: is at {ids(entry.target)} already"
            continue
        added = [r for r in entry.target if r not in now.replicas]
        dropped = [r for r in now.replicas if r not in entry.target]
        parts = [f"adds {ids(added)}"] if added else []
        parts += [f"drops {ids(dropped)}"] if dropped else []
        what = ", ".join(parts) or "changes the order"
        yield f"{entry.partition}: {ids(now.replicas)} -> {ids(entry.target)} ({what})"


def problems_of(entries: list[Entry], live: frozenset[BrokerId]) -> Iterable[tuple[Entry, str]]:
    """Say what can be seen from here to stand against entries; the daemon knows more."""
    for entry in entries:
        if entry.assignment is None:
            yield entry, "there is no such partition"
            continue
        dead = [r for r in entry.target if r not in live and r not in entry.assignment.replicas]
        if dead:
            yield entry, f"broker {ids(dead)} is not live"
