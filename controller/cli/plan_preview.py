"""
What a plan would do, and what stands against it, before anything is written.

What is judged here is judged by the daemon's own function; the daemon judges each entry again, on
what stands when it accepts it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.cli import report_text
from controller.cli.exits import Exit
from controller.cli.plan_files import Entry, document_of
from controller.cli.ports import InspectorPort, OperatorPort
from controller.cli.report_text import ids, names, say, say_json, tell
from controller.cli.units import show_time
from controller.core.cached_znodes import Topic
from controller.core.model import (
    LiveBroker,
    RequestId,
    Route,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
)
from controller.core.options import Options
from controller.core.requests.acceptance import refusal_of
from controller.core.view import ClusterView
from controller.errors import ReassignmentConflictError
from controller.znodes.paths import KILL_SWITCH, reassignment_path

AskMinInsync = Callable[[Collection[LiveBroker], Collection[str]], Mapping[str, int | str]]
"""Effective ``min.insync.replicas`` by topic; a text says why it is not known."""
_PREVIEW: Final = RequestId("preview")


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


@dataclass(frozen=True, slots=True)
class Judged:
    """What acceptance would say of a plan now."""

    problems: tuple[tuple[Entry, str], ...] = ()
    """Entries that would be refused, and why."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Topics whose settings brokers do not tell, and why: their entries would not be accepted."""


def judge(inspector: InspectorPort, entries: Sequence[Entry], ask: AskMinInsync) -> Judged:
    """
    Judge entries as the daemon does when it accepts them, on what stands now.

    Args:
        inspector: ZooKeeper.
        entries: The plan.
        ask: Returns the effective min.insync.replicas of topics, all asked for at once.

    """
    plan = [entry.partition for entry in entries]
    topics = inspector.read_topics(p.topic for p in plan)
    brokers = inspector.survey_brokers()
    known = {n: t for n, t in topics.items() if isinstance(t, TopicAssignment)}
    least = ask(brokers.values(), known) if known else {}
    view = ClusterView(Options())
    view.brokers = dict(brokers)
    view.deletions = inspector.read_deletions()
    view.topics = {
        n: Topic(dict(t.partitions), t.version, t.czxid, t.topic_id) for n, t in known.items()
    }
    view.unreadable_topics = {n: t for n, t in topics.items() if isinstance(t, str)}
    view.unreadable_specs = {
        reassignment_path(p): g for p, g in inspector.read_specs(plan).items() if isinstance(g, str)
    }
    view.configs = {
        n: TopicConfig(m, unclean_leader_election=False)
        for n, m in least.items()
        if isinstance(m, int)
    }
    found = ((e, refusal_of(view, _PREVIEW, e.partition, e.target)) for e in entries)
    return Judged(
        tuple((entry, refusal.detail) for entry, refusal in found if refusal is not None),
        {n: m for n, m in sorted(least.items()) if isinstance(m, str)},
    )


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
        spec = entry.spec
        if spec is None:
            continue
        is_other = route is not None and spec.route is not route
        if is_other or spec.target != entry.target:
            found.setdefault((spec.request, is_other), []).append(entry)
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
    before: list[Entry], judged: Judged, conflicts: Sequence[Conflict], *, as_json: bool
) -> Exit:
    """Print what a plan would do, and that nothing was written."""
    problems = judged.problems
    refused = {e.partition for e, _ in problems}
    refused |= {e.partition for c in conflicts if c.is_refused for e in c.entries}
    if as_json:
        say_json(
            {
                "dry_run": True,
                "entries": [_preview_of(e, refused) for e in before],
                **judged_document(judged),
                "conflicts": conflict_documents(conflicts),
            }
        )
    else:
        for line in changes_of(before):
            say(line)
        for line in judged_lines(judged):
            say(line)
        for conflict in conflicts:
            say(str(conflict))
        say("Nothing was written.")
    is_refused = bool(problems) or any(c.is_refused for c in conflicts)
    return Exit.REFUSED if is_refused else Exit.DONE


def judged_lines(judged: Judged) -> Iterator[str]:
    """Word what acceptance would say."""
    for entry, why in judged.problems:
        yield f"{entry.partition} would be refused: {why}"
    for topic, why in judged.unknown.items():
        yield (
            f"{topic}: min.insync.replicas cannot be read from here, and no entry of it is "
            f"accepted before the daemon can: {why}"
        )


def judged_document(judged: Judged) -> dict[str, object]:
    """Return for a program what acceptance would say."""
    return {
        "problems": [{"partition": str(e.partition), "detail": w} for e, w in judged.problems],
        "settings_unknown": dict(judged.unknown),
    }


def _preview_of(entry: Entry, refused: Collection[TopicPartition]) -> dict[str, object]:
    """Return an entry for a program, with what would become of it instead of what did."""
    now = entry.assignment
    if entry.partition in refused:
        state = "would_be_refused"
    elif now is not None and now.replicas == entry.target and not now.is_reassigning:
        state = "done"
    else:
        state = "would_change"
    return {**report_text.entry_document(entry), "state": state}


def print_rollback(rollback: dict[str, object], *, as_json: bool) -> None:
    """
    Print the plan that leads back, before anything is written: what follows may fail half-way.

    For a program it goes to standard error, as the document it reads comes at the end.
    """
    out = tell if as_json else say
    out("Current partition replica assignment\n")
    out(json.dumps(rollback, separators=(",", ":")))
    out("\nSave this to use as a plan for going back.")


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
