"""
What a plan would do, and what stands against it, before anything is written.

What is seen from here is a preview; the daemon judges each entry when it accepts it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from controller.cli import reports
from controller.cli.exits import Exit
from controller.cli.plans import Entry, document_of
from controller.cli.ports import OperatorPort
from controller.cli.quantities import show_time
from controller.cli.reports import ids, names, say, say_json
from controller.core.model import BrokerId, RequestId, Route, TopicPartition
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import KILL_SWITCH


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


@dataclass(frozen=True, slots=True)
class Conflict:
    """Partitions of a plan that another request is at work on."""

    request: RequestId
    entries: tuple[Entry, ...]
    is_refused: bool
    """It came by the other route, so the entries would be refused; else it is superseded."""

    def __str__(self) -> str:
        count = len(self.entries)
        number = "1 partition" if count == 1 else f"{count} partitions"
        if self.is_refused:
            return (
                f"{number} of request {self.request} would be refused, because that came by the "
                f"other route: {names(self.entries)}"
            )
        return f"would supersede {number} of request {self.request}: {names(self.entries)}"


def conflicts_of(entries: Iterable[Entry], route: Route | None) -> list[Conflict]:
    """
    Find the requests at work on partitions of a plan.

    Args:
        entries: The plan.
        route: Which one it is to take; None is the queue, which takes over by whatever route.

    """
    found: dict[tuple[RequestId, bool], list[Entry]] = {}
    for entry in entries:
        goal = entry.goal
        if goal is None:
            continue
        is_other = route is not None and goal.route is not route
        if is_other or goal.target != entry.target:
            found.setdefault((goal.request, is_other), []).append(entry)
    return [Conflict(name, tuple(some), refused) for (name, refused), some in found.items()]


def conflict_documents(conflicts: Iterable[Conflict]) -> list[dict[str, object]]:
    """Return conflicts for a program."""
    return [
        {
            "request": c.request,
            "would": "be_refused" if c.is_refused else "supersede",
            "partitions": [str(e.partition) for e in c.entries],
        }
        for c in conflicts
    ]


def show_preview(
    before: list[Entry],
    live: frozenset[BrokerId],
    conflicts: Sequence[Conflict],
    *,
    as_json: bool,
) -> Exit:
    """Print what a plan would do, and that nothing was written."""
    problems = list(problems_of(before, live))
    refused = {e.partition for e, _ in problems}
    refused |= {e.partition for c in conflicts if c.is_refused for e in c.entries}
    if as_json:
        say_json(
            {
                "dry_run": True,
                "entries": [_preview_of(e, refused) for e in before],
                "problems": [{"partition": str(e.partition), "detail": w} for e, w in problems],
                "conflicts": conflict_documents(conflicts),
            }
        )
    else:
        for line in changes_of(before):
            say(line)
        for entry, why in problems:
            say(f"{entry.partition} would be refused: {why}")
        for conflict in conflicts:
            say(str(conflict))
        say("Nothing was written.")
    is_refused = bool(problems) or any(c.is_refused for c in conflicts)
    return Exit.REFUSED if is_refused else Exit.DONE


def _preview_of(entry: Entry, refused: Collection[TopicPartition]) -> dict[str, object]:
    """Return an entry for a program, with what would become of it instead of what did."""
    now = entry.assignment
    if entry.partition in refused:
        state = "would_be_refused"
    elif now is not None and now.replicas == entry.target and not now.is_reassigning:
        state = "done"
    else:
        state = "would_change"
    return {**reports.entry_document(entry), "state": state}


def print_rollback(rollback: dict[str, object]) -> None:
    """Print the plan that leads back."""
    say("Current partition replica assignment\n")
    say(json.dumps(rollback, separators=(",", ":")))
    say("\nSave this to use as a plan for going back.")


def check_enabled(operator: OperatorPort) -> None:
    """
    See whether new work is taken.

    Raises:
        ReassignmentConflictError: somebody disabled it.

    """
    switch = operator.read_kill_switch()
    if switch is not None:
        by = f" by {switch.by}" if switch.by else ""
        why = f": {switch.reason}" if switch.reason else ""
        raise ReassignmentConflictError(
            f"new reassignments are disabled since {show_time(switch.since_ms)}{by}{why} "
            f"({KILL_SWITCH} exists; `reassigner enable` deletes it)"
        )
