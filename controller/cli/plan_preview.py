"""
Preview of a plan: its changes, the entries that would be refused, and conflicts with requests.

Entries are checked with the daemon's own function. The daemon checks each entry again when it
accepts it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from controller.cli.context import Inquiry
from controller.cli.exits import Exit
from controller.cli.forecast_table import forecast_lines
from controller.cli.output import (
    NOTHING_WRITTEN,
    ids,
    listed,
    print_json,
    print_line,
    print_lines,
    print_note,
)
from controller.cli.plan_facts import Preview
from controller.cli.plan_files import Plan, approval_document, document_of
from controller.cli.preview_tables import preview_screen
from controller.cli.request_state import Entry
from controller.cli.status_text import since_words
from controller.cli.tables import Screen
from controller.core import model
from controller.core.approvals import plan_hash
from controller.core.cached_znodes import Topic
from controller.core.options import Options
from controller.core.requests.acceptance import refusal_of
from controller.core.view import ClusterView
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.zk.operator_client import OperatorClient
from controller.znodes.paths import KILL_SWITCH, reassignment_path

_PREVIEW: Final = model.RequestId("preview")


def rollback_of(entries: list[Entry]) -> dict[str, object]:
    """Return the plan that restores the original replicas."""
    return document_of({e.partition: e.original for e in entries if e.original})


def changes_of(
    entries: list[Entry], relocated: Mapping[model.TopicPartition, model.Replicas]
) -> Iterable[str]:
    """
    Describe the changes of a plan.

    Args:
        entries: Its entries.
        relocated: The replicas that move to other log directories of their brokers.

    """
    for entry in entries:
        now = entry.assignment
        if now is None:
            continue
        moved = relocated.get(entry.partition, ())
        if now.replicas == entry.target and not now.is_reassigning and not moved:
            yield f"{entry.partition}: is at {ids(entry.target)} already"
            continue
        added = [r for r in entry.target if r not in now.replicas]
        dropped = [r for r in now.replicas if r not in entry.target]
        parts = [f"adds {ids(added)}"] if added else []
        parts += [f"drops {ids(dropped)}"] if dropped else []
        parts += [f"changes directories on {ids(moved)}"] if moved else []
        what = ", ".join(parts) or "changes the order"
        yield f"{entry.partition}: {ids(now.replicas)} -> {ids(entry.target)} ({what})"


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of checking the entries of a plan."""

    problems: tuple[tuple[Entry, str], ...] = ()
    """Entries that would be refused, with the reason."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Topics with unknown settings, with the reason. Their entries would not be accepted."""

    def lines(self) -> Iterator[str]:
        """Describe the entries that would be refused or not accepted."""
        for entry, why in self.problems:
            yield f"{entry.partition} would be refused: {why}"
        yield from self.unknown_lines()

    def unknown_lines(self) -> Iterator[str]:
        """Describe the topics with unknown settings."""
        for topic, why in self.unknown.items():
            yield (
                f"{topic}: min.insync.replicas cannot be read from here; its entries are accepted "
                f"only once the daemon can read it: {why}"
            )


def validate(operator: OperatorClient, entries: Sequence[Entry], ask: Inquiry) -> Validation:
    """
    Check entries as the daemon does when it accepts them.

    Args:
        operator: The connection to ZooKeeper.
        entries: The entries of the plan.
        ask: Asks brokers for the effective min.insync.replicas of all topics at once.

    """
    plan = [entry.partition for entry in entries]
    topics = operator.partitions.topics(p.topic for p in plan)
    brokers = operator.cluster.brokers()
    known = {n: t for n, t in topics.items() if isinstance(t, model.TopicAssignment)}
    least = ask.min_insync(brokers.values(), known) if known else {}
    view = ClusterView(Options())
    view.cluster.brokers = dict(brokers)
    view.session.deletions = operator.partitions.deletions()
    view.session.topics = {n: Topic.of(t) for n, t in known.items()}
    view.session.unreadable_topics = {n: t for n, t in topics.items() if isinstance(t, str)}
    view.work.unreadable_specs = {
        reassignment_path(p): g
        for p, g in operator.partitions.specs(plan).items()
        if isinstance(g, str)
    }
    view.session.configs = {
        n: model.TopicConfig(m, unclean_leader_election=False)
        for n, m in least.items()
        if isinstance(m, int)
    }
    found = ((e, refusal_of(view, _PREVIEW, e.partition, e.target)) for e in entries)
    return Validation(
        tuple((entry, refusal.detail) for entry, refusal in found if refusal is not None),
        {n: m for n, m in sorted(least.items()) if isinstance(m, str)},
    )


@dataclass(frozen=True, slots=True)
class Conflict:
    """Partitions of a plan that another request is reassigning."""

    request: model.RequestId
    entries: tuple[Entry, ...]
    is_refused: bool
    """Whether the entries would be refused, because the other request has another route.

    Otherwise they supersede it.
    """

    def __str__(self) -> str:
        count = len(self.entries)
        number = "1 partition" if count == 1 else f"{count} partitions"
        partitions = listed(entry.partition for entry in self.entries)
        if self.is_refused:
            return (
                f"would be refused: {number} of request {self.request}, which has another route: "
                f"{partitions}"
            )
        return f"would supersede {number} of request {self.request}: {partitions}"

    def document(self) -> dict[str, object]:
        """Return the conflict for ``--json``."""
        return {
            "request": self.request,
            "would": "be_refused" if self.is_refused else "supersede",
            "partitions": [str(e.partition) for e in self.entries],
        }


def conflicts_of(entries: Iterable[Entry], route: model.Route | None) -> list[Conflict]:
    """
    Find the requests that are reassigning partitions of a plan.

    Args:
        entries: The entries of the plan.
        route: The route of the plan; None for the queue, which supersedes requests of any route.

    """
    found: dict[tuple[model.RequestId, bool], list[Entry]] = {}
    for entry in entries:
        spec = entry.spec
        if spec is None:
            continue
        is_other = route is not None and spec.route is not route
        if is_other or spec.target != entry.target:
            found.setdefault((spec.request, is_other), []).append(entry)
    return [Conflict(name, tuple(some), refused) for (name, refused), some in found.items()]


def show_preview(  # noqa: PLR0913 - what is shown
    before: list[Entry],
    validation: Validation,
    conflicts: Sequence[Conflict],
    *,
    as_json: bool,
    preview: Preview,
    plan: Plan | None = None,
    approval: Approval | None = None,
    screen: Screen | None = None,
) -> Exit:
    """
    Print what a plan would do; return the exit code.

    Args:
        before: The entries of the plan.
        validation: The result of checking them.
        conflicts: The requests that reassign their partitions.
        as_json: Print JSON.
        preview: The forecast.
        plan: Printed in JSON in place of the entries.
        approval: The file that was written for approval.
        screen: The terminal, None if the output goes elsewhere.

    """
    problems, refused = validation.problems, refused_of(validation, conflicts)
    if as_json:
        entries = [_preview_of(e, refused, preview.relocated) for e in before]
        print_json(
            {
                "dry_run": True,
                **({"entries": entries} if plan is None else {"plan": document_of(plan)}),
                "problems": [{"partition": str(e.partition), "detail": w} for e, w in problems],
                "settings_unknown": dict(validation.unknown),
                "conflicts": [c.document() for c in conflicts],
                "forecast": preview.document(),
                **({} if approval is None else {"approval": approval.document()}),
            }
        )
    else:
        if screen is not None:
            rows_max = screen.rows_max
            screen.print(*preview_screen(before, validation, conflicts, preview, rows_max))
        else:
            changes = changes_of(before, preview.relocated)
            print_lines((*changes, *validation.lines(), *map(str, conflicts)))
            print_lines(forecast_lines(preview))
        print_line(NOTHING_WRITTEN if approval is None else str(approval))
    is_refused = bool(problems) or any(c.is_refused for c in conflicts)
    return Exit.REFUSED if is_refused else Exit.DONE


def refused_of(
    validation: Validation, conflicts: Iterable[Conflict]
) -> frozenset[model.TopicPartition]:
    """Return the partitions whose entries would be refused."""
    clashing = {e.partition for c in conflicts if c.is_refused for e in c.entries}
    return frozenset(clashing | {e.partition for e, _ in validation.problems})


class Approval(NamedTuple):
    """A plan that was written to a file for approval."""

    path: Path
    hash: str

    def __str__(self) -> str:
        return (
            f"Written for approval, nothing submitted. Its hash is\n{self.hash}\n"
            f"Submit it with `reassigner execute {self.path} --approved {self.hash}`"
        )

    def document(self) -> dict[str, object]:
        """Return the file and its hash for ``--json``."""
        return {"hash": self.hash, "file": str(self.path)}


def check_approvable(
    before: Sequence[Entry], validation: Validation, conflicts: Sequence[Conflict]
) -> None:
    """
    Check that a plan can be written for approval: it would be accepted as it is.

    Raises:
        ReassignmentConflictError: an entry would be refused, or its replicas are changing.

    """
    moving = [
        e.partition for e in before if e.assignment is not None and e.assignment.is_reassigning
    ]
    if moving:
        raise ReassignmentConflictError(
            f"not written: {listed(moving)} are being reassigned, so that their replicas will not "
            "be those that are approved"
        )
    refused = [*Validation(validation.problems).lines()]
    refused += [str(conflict) for conflict in conflicts if conflict.is_refused]
    if refused:
        raise ReassignmentConflictError("\n".join(("not written:", *refused)))


def write_for_approval(
    operator: OperatorClient, out: Path, before: Sequence[Entry], log_dirs: model.NamedDirs
) -> Approval:
    """
    Write a plan with the present replicas of its partitions and the hash of both.

    Raises:
        InvalidInputError: the file cannot be written.

    """
    plan = {e.partition: e.target for e in before}
    present = {e.partition: e.assignment.replicas for e in before if e.assignment is not None}
    document = approval_document(plan, present, operator.cluster.cluster_id(), log_dirs)
    try:
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{out}: {error.strerror or error}") from error
    return Approval(out, plan_hash(plan, present, log_dirs))


def _preview_of(
    entry: Entry,
    refused: Collection[model.TopicPartition],
    relocated: Collection[model.TopicPartition],
) -> dict[str, object]:
    """Return an entry for ``--json``, with the state it would get."""
    now, stays = entry.assignment, entry.partition not in relocated
    if entry.partition in refused:
        state = "would_be_refused"
    elif stays and now is not None and now.replicas == entry.target and not now.is_reassigning:
        state = "done"
    else:
        state = "would_change"
    return {**entry.document(), "state": state}


def print_rollback(rollback: dict[str, object], *, as_json: bool) -> None:
    """
    Print the plan that restores the original replicas, before anything is written.

    With ``--json`` it goes to standard error: standard output has one document, at the end.
    """
    out = print_note if as_json else print_line
    out("Current partition replica assignment\n")
    out(json.dumps(rollback, separators=(",", ":")))
    out("\nSave this as the plan for a rollback.")


def check_enabled(operator: OperatorClient) -> None:
    """
    Check that the kill switch is not set.

    Raises:
        ReassignmentConflictError: new reassignments are disabled.

    """
    switch = operator.requests.kill_switch()
    if switch is not None:
        raise ReassignmentConflictError(
            f"new reassignments are disabled since {since_words(switch)} ({KILL_SWITCH} exists; "
            f"`reassigner enable` deletes it)"
        )
