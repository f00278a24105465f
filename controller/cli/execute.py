"""
``execute``: submit a plan as a request, wait until it is accepted, follow it if asked for.

The plan goes below ``/admin/reassignment_requests``, in as many znodes as it takes; it is accepted
when they are gone. Interrupting never stops what is under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.cli.await_daemon import FOLLOW_S, Wishes, await_daemon
from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.pause_text import pause_lines
from controller.cli.plan_files import Entry, Plan, look
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
from controller.cli.report_text import (
    entry_document,
    listed,
    refusal_document,
    say,
    say_json,
    status_about,
    tell,
)
from controller.cli.request_standing import (
    RequestStanding,
    exit_of_standing,
    stand_of,
    standing_lines,
)
from controller.cli.submissions import submissions_of
from controller.core.model import RequestId, Route, TopicPartition
from controller.errors import ControllerError


class Execution:
    """One run of ``execute``."""

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
        self._request = RequestId("")
        self._names: list[str] = []
        self._rollback: dict[str, object] = {}

    def run(self) -> Exit:
        """
        Submit, and wait as long as was asked for.

        Raises:
            ReassignmentConflictError: new work is disabled.

        """
        check_enabled(self._operator)
        before = look(self._operator, self._plan)
        conflicts = conflicts_of(before, Route.REQUEST)
        if self._wishes.dry_run:
            judged = judge(self._operator, before, self._ask)
            return show_preview(before, judged, conflicts, as_json=self._wishes.as_json)
        for line in (*map(str, conflicts), *pause_lines(self._operator.read_controls().pauses)):
            tell(f"Note: {line}")
        self._rollback = rollback_of(before)
        print_rollback(self._rollback, as_json=self._wishes.as_json)
        self._submit()
        try:
            accepted = await_daemon(
                self._around, self._operator, self._is_judged, timeout_s=self._wishes.timeout_s
            )
            if accepted and self._wishes.wait:
                self._follow()
        except KeyboardInterrupt:
            return self._interrupted()
        return self._report(is_accepted=accepted)

    # --- before --------------------------------------------------------------------------------

    def _submit(self) -> None:
        own = self._around.new_request_id()
        parts = submissions_of(self._plan, self._wishes.options, own)
        try:
            for part in parts:
                self._names.append(self._operator.submit(part))
        except (ControllerError, KeyboardInterrupt):
            if len(parts) == 1:
                tell("Whether the request was written is not known: see `reassigner list`.")
            elif self._names:
                tell(
                    f"At least {len(self._names)} of {len(parts)} parts of request {own} were "
                    f"written; `reassigner cancel {own}` calls them off."
                )
            raise
        self._request = RequestId(self._names[0]) if len(parts) == 1 else own

    # --- waiting -------------------------------------------------------------------------------

    def _is_judged(self) -> bool:
        return not set(self._names) & set(self._operator.submission_names())

    def _follow(self) -> None:
        """Show progress until the request's summary is there."""
        total = len(self._plan)
        with self._display() as display:
            while True:
                has_ended = self._operator.read_outcome(self._request) is not None
                ended = total if has_ended else total - len(self._open())
                status = self._around.status_of_leader(self._operator)
                display.show(
                    f"{ended} of {total} ended", ended, total, status_about(status, self._request)
                )
                if has_ended:
                    return
                self._around.sleep(FOLLOW_S)

    def _open(self) -> set[TopicPartition]:
        topics = dict.fromkeys(p.topic for p in self._plan)
        return self._plan.keys() & set(self._operator.reassigned_partitions(topics))

    def _interrupted(self) -> Exit:
        total, still = len(self._plan), len(self._open())
        tell(f"Interrupted; request {self._request} goes on: {still} of {total} are not done yet.")
        tell(
            f"See `reassigner status` and `reassigner verify {self._request}`; "
            f"`reassigner cancel {self._request}` calls it off."
        )
        return Exit.IN_PROGRESS

    # --- the end -------------------------------------------------------------------------------

    def _report(self, *, is_accepted: bool) -> Exit:
        standing = stand_of(self._operator, self._request)
        code = exit_of_standing(standing)
        if code is Exit.IN_PROGRESS and is_accepted and not self._wishes.wait:
            # Accepted was all that was asked for.
            code = Exit.REFUSED if standing.refused else Exit.DONE
        if self._wishes.as_json:
            say_json(self._document(standing, look(self._operator, self._plan), code))
            return code
        if not is_accepted:
            tell(self._not_accepted())
            return Exit.IN_PROGRESS
        for line in standing_lines(standing):
            say(line)
        if standing.has_ended:
            say(f"Request {self._request} has ended: {standing.sentence()}")
        elif len(standing.refused) < len(self._plan):
            say(f"Accepted as {self._request}: {listed(self._good(standing))}")
        return code

    def _good(self, standing: RequestStanding) -> list[TopicPartition]:
        bad = {r.partition for r in standing.refused}
        return [p for p in self._plan if p not in bad]

    def _not_accepted(self) -> str:
        if self._operator.leader_address() is None:
            why = "no reassigner leads; one that starts takes it up"
        else:
            why = f"not within {self._wishes.timeout_s:g} s; see `reassigner status`"
        return f"Written as {self._request}, but not accepted yet ({why})"

    def _document(
        self, standing: RequestStanding, entries: Sequence[Entry], code: Exit
    ) -> dict[str, Any]:
        return {
            "request": self._request,
            "submitted": self._names,
            "result": code.name.lower(),
            "partitions": standing.counts(),
            "entries": [entry_document(e) for e in entries],
            "refused": [refusal_document(r) for r in standing.refused],
            "rollback": self._rollback,
        }
