"""
``cancel``: call off reassignments, and follow them back to where the partitions were.

A cancellation that is being carried out is added to, never made smaller. Two of different scope
are not joined: that would undo what nobody asked to undo.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from controller.cli.await_daemon import FOLLOW_S, Wishes, await_daemon
from controller.cli.cancel_preview import CancelPreview, cancel_preview
from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.ports import OperatorPort
from controller.cli.progress_display import DisplayOpener
from controller.cli.report_text import listed, say, say_json, tell
from controller.cli.request_standing import ending_line
from controller.core.model import OutcomeKind, ReassignmentSpec
from controller.core.outcomes import RequestHistory
from controller.core.submissions import Cancellation, CancelScope
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import CANCEL


class Cancelling:
    """One run of ``cancel``."""

    def __init__(
        self,
        surroundings: CommandContext,
        operator: OperatorPort,
        wanted: Cancellation,
        wishes: Wishes,
        display: DisplayOpener,
    ) -> None:
        """Prepare to cancel; of ``wanted`` only what to cancel, why and for whom counts."""
        self._around = surroundings
        self._operator = operator
        self._wanted = wanted
        self._wishes = wishes
        self._display = display

    def run(self) -> Exit:
        """
        Cancel, and wait as long as was asked for.

        Raises:
            ReassignmentConflictError: a cancellation of another scope is being carried out.
            PlanInvalidError: a request is named that nothing is known of.

        """
        matches = cancel_preview(self._operator, self._wanted, is_whole=self._wishes.dry_run)
        if not matches:
            return self._nothing()
        if self._wishes.dry_run:
            return self._preview(matches)
        written = self._operator.cancel(lambda found: joined(found, self._wanted))
        try:
            taken_up = await_daemon(
                self._around,
                self._operator,
                lambda: self._is_taken_up(written, matches),
                timeout_s=self._wishes.timeout_s,
            )
            if taken_up and self._wishes.wait:
                self._follow(written)
        except KeyboardInterrupt:
            tell(f"Interrupted; {written.request} goes on.")
            return Exit.IN_PROGRESS
        return self._report(written, is_taken_up=taken_up)

    # --- before --------------------------------------------------------------------------------

    def _nothing(self) -> Exit:
        running = self._operator.read_cancellation()
        more = "" if running is None else f"; {running.request} is being carried out already"
        if self._wishes.as_json:
            say_json({"cancellation": None, "result": "nothing_to_do"})
        else:
            say(f"There is nothing to do: nothing of that is in progress{more}.")
        return Exit.DONE

    def _preview(self, matches: CancelPreview) -> Exit:
        if self._wishes.as_json:
            say_json(
                {
                    "dry_run": True,
                    "in_progress": [str(p) for p in matches.in_progress],
                    "not_accepted": list(matches.submissions),
                    "finished": [str(p) for p in matches.finished],
                }
            )
            return Exit.DONE
        for what, found in (
            ("call off, in progress or waiting", matches.in_progress),
            ("call off, not accepted yet", matches.submissions),
            ("move back, finished already", matches.finished),
        ):
            if found:
                say(f"would {what}: {len(found)} ({listed(found)})")
        say("Nothing was written.")
        return Exit.DONE

    # --- waiting -------------------------------------------------------------------------------

    def _is_taken_up(self, written: Cancellation, matches: CancelPreview) -> bool:
        """Whether all is chosen, it has ended, or the first partition is on its way back."""
        if is_chosen(self._operator, written):
            return True
        first = matches.in_progress[:1]
        if not first or matches.submissions:
            return False
        spec = self._operator.read_specs(first)[first[0]]
        return isinstance(spec, ReassignmentSpec) and spec.cancelled_by == written.request

    def _follow(self, written: Cancellation) -> None:
        with self._display() as display:
            while not has_ended(self._operator, written):
                left = len(self._operator.reassigned_partitions())
                status = self._around.status_of_leader(self._operator)
                display.show(f"{left} partitions have not ended yet", 0, 0, status)
                self._around.sleep(FOLLOW_S)

    # --- the end -------------------------------------------------------------------------------

    def _report(self, written: Cancellation, *, is_taken_up: bool) -> Exit:
        is_over = has_ended(self._operator, written)
        history = self._operator.read_history([written.request]).get(written.request)
        fates, endings = _fates(history), () if history is None else history.endings
        code = Exit.DONE
        if not is_taken_up or (self._wishes.wait and not is_over):
            code = Exit.IN_PROGRESS
        elif fates[OutcomeKind.SKIPPED]:
            code = Exit.REFUSED
        if self._wishes.as_json:
            say_json(_document(written, history, code))
            return code
        for ending in endings:
            if ending.fate is OutcomeKind.SKIPPED:
                say(ending_line(ending))
        if not is_taken_up:
            say(f"Written as {written.request}, but not taken up yet: {self._why()}")
        elif is_over:
            done = _sentence(fates, _moved_back(history))
            say(f"Cancellation {written.request} is complete: {done}.")
        else:
            say(f"Cancelling as {written.request}; see `reassigner list {written.request}`.")
        return code

    def _why(self) -> str:
        if self._operator.leader_address() is None:
            return "no reassigner leads; one that starts takes it up"
        return f"not within {self._wishes.timeout_s:g} s; see `reassigner status`"


def _fates(history: RequestHistory | None) -> Counter[OutcomeKind]:
    """Return what became of what was called off."""
    if history is None:
        return Counter()
    if history.summary is not None:
        return Counter(history.summary.fates)
    return Counter(ending.fate for ending in history.endings)


def _moved_back(history: RequestHistory | None) -> int:
    """Return how many finished partitions were moved back."""
    if history is None or history.summary is None:
        return 0
    fates = history.summary.fates
    called_off = fates.get(OutcomeKind.CANCELLED, 0) + fates.get(OutcomeKind.ROLLED_BACK, 0)
    return max(0, history.summary.done - called_off)


def _sentence(fates: Counter[OutcomeKind], moved_back: int) -> str:
    counts = (
        (fates[OutcomeKind.CANCELLED], "cancelled before they began"),
        (fates[OutcomeKind.ROLLED_BACK], "rolled back"),
        (moved_back, "moved back that were finished"),
        (fates[OutcomeKind.SKIPPED], "skipped"),
    )
    return ", ".join(f"{n} {word}" for n, word in counts if n) or "nothing was left to call off"


def _document(written: Cancellation, history: RequestHistory | None, code: Exit) -> dict[str, Any]:
    fates = _fates(history)
    return {
        "cancellation": written.request,
        "result": code.name.lower(),
        "partitions": {
            "cancelled": fates[OutcomeKind.CANCELLED],
            "rolled_back": fates[OutcomeKind.ROLLED_BACK],
            "moved_back": _moved_back(history),
            "skipped": fates[OutcomeKind.SKIPPED],
        },
        "endings": [
            {"partition": str(e.partition), "fate": e.fate.value, "detail": e.detail}
            for e in (() if history is None else history.endings)
        ],
    }


def has_ended(operator: OperatorPort, written: Cancellation) -> bool:
    """Return whether a cancellation that was written is gone."""
    found = operator.read_cancellation()
    return found is None or found.czxid != written.czxid


def is_chosen(operator: OperatorPort, written: Cancellation) -> bool:
    """Return whether the daemon knows all it has to call off; all of that may be back already."""
    if has_ended(operator, written):
        return True
    history = operator.read_history([written.request]).get(written.request)
    versions = () if history is None else history.parts
    return any(v.isdecimal() and int(v) >= written.version for v in versions)


def joined(found: Cancellation | None, wanted: Cancellation) -> Cancellation:
    """
    Return what is to stand in the znode: all that stood there, and what is wanted.

    Raises:
        ReassignmentConflictError: what stands there cannot be read, or has another scope.

    """
    if found is None:
        return wanted
    if found.unreadable is not None:
        raise ReassignmentConflictError(f"{CANCEL} cannot be added to: {found.unreadable}")
    covers = wanted.is_everything and wanted.scope is CancelScope.ALL
    if found.scope is not wanted.scope and not covers:
        raise ReassignmentConflictError(
            f"a cancellation with scope {found.scope.value} is being carried out; wait for its "
            f"end (`reassigner list {found.request}`), or cancel with the same scope"
        )
    reasons = dict.fromkeys(r for r in (found.reason, wanted.reason) if r)
    people = dict.fromkeys(p for p in (found.requested_by, wanted.requested_by) if p)
    whole = replace(
        wanted, reason="; ".join(reasons), requested_by=", ".join(people), scope=wanted.scope
    )
    if found.is_everything or wanted.is_everything:
        return replace(whole, requests=frozenset(), topics=frozenset(), partitions=frozenset())
    return replace(
        whole,
        requests=found.requests | wanted.requests,
        topics=found.topics | wanted.topics,
        partitions=found.partitions | wanted.partitions,
    )
