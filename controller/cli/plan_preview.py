"""The preview of a plan, as text, tables or JSON; and its file for approval."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.cli.context import CommandContext
from controller.cli.output import NOTHING_WRITTEN, Exit, print_line, print_note, write_json
from controller.cli.terminal_tables import Column, Listing, Name, Paragraph, Part, Words
from controller.core.model import Replicas, TopicPartition
from controller.core.requests.submissions import NamedDirs, plan_hash
from controller.errors import ReassignmentConflictError
from controller.previews import forecast_table
from controller.previews.entries import Entry
from controller.previews.plan_changes import PlanValidation
from controller.previews.plan_facts import DryRun, Preview
from controller.previews.plan_files import Plan, approval_document, document_of
from controller.units import ids, names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

AT_TARGET: Final = "at its target already"


def show_dry_run(
    context: CommandContext,
    found: DryRun,
    *,
    plan: Plan | None = None,
    approval: Approval | None = None,
    answer: str | None = None,
) -> Exit:
    """
    Print what a plan would do; return the exit code.

    In JSON, ``plan`` is printed in place of the entries. ``approval`` is the file that was
    written for approval, ``answer`` the last line.
    """
    validation, conflicts, preview = found.validation, found.conflicts, found.preview
    problems = validation.problems

    def document() -> dict[str, object]:
        entries = [_preview_of(e, found.refused, preview.relocated) for e in found.entries]
        return {
            "dry_run": True,
            **({"entries": entries} if plan is None else {"plan": document_of(plan)}),
            "problems": [{"partition": str(e.partition), "detail": w} for e, w in problems],
            "settings_unknown": dict(validation.unknown),
            "conflicts": [c.document() for c in conflicts],
            "forecast": preview.document(),
            **({} if approval is None else {"approval": approval.document()}),
            **({} if answer is None else {"answer": answer}),
        }

    lines = (*found.changes, *validation.lines(), *map(str, conflicts))
    forecast = forecast_table.forecast_lines(preview)
    context.print_result(document, chain(lines, forecast), _preview_screen(found))
    if not context.as_json:
        print_line(NOTHING_WRITTEN if approval is None else str(approval))
        if answer is not None:
            print_line(answer)
    is_refused = bool(problems) or any(c.is_refused for c in conflicts)
    return Exit.REFUSED if is_refused else Exit.DONE


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


def check_approvable(found: DryRun) -> None:
    """Refuse a plan with refused entries, or with partitions whose replicas are changing."""
    moving = [
        e.partition
        for e in found.entries
        if e.assignment is not None and e.assignment.is_reassigning
    ]
    if moving:
        raise ReassignmentConflictError(
            f"not written: {names_text(moving)} are being reassigned, so that their replicas will "
            "not be those that are approved"
        )
    refused = [*PlanValidation(found.validation.problems).lines()]
    refused += [str(conflict) for conflict in found.conflicts if conflict.is_refused]
    if refused:
        raise ReassignmentConflictError("\n".join(("not written:", *refused)))


def write_for_approval(
    operator: OperatorClient, out: Path, before: Sequence[Entry], log_dirs: NamedDirs
) -> Approval:
    """Write a plan with the present replicas of its partitions and the hash of both."""
    plan = {e.partition: e.target for e in before}
    present = {e.partition: e.assignment.replicas for e in before if e.assignment is not None}
    document = approval_document(plan, present, operator.cluster.cluster_id(), log_dirs)
    write_json(out, document, indent=1)
    return Approval(out, plan_hash(plan, present, log_dirs))


def _preview_of(
    entry: Entry, refused: Collection[TopicPartition], relocated: Collection[TopicPartition]
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
    if not rollback["partitions"]:
        return
    out = print_note if as_json else print_line
    out("Current partition replica assignment\n")
    out(json.dumps(rollback, separators=(",", ":")))
    out("\nSave this as the plan for a rollback.")


def _preview_screen(found: DryRun) -> Iterator[Part]:
    validation, conflicts, preview = found.validation, found.conflicts, found.preview
    yield Listing(
        title="would be refused",
        style="red",
        columns=(
            Column("partition", lambda p: Name(str(p[0].partition))),
            Column("reason", lambda p: Words(p[1]), folds=True),
        ),
        rows=validation.problems,
    )
    for line in validation.topic_lines():
        yield Paragraph(line, "yellow")
    for conflict in conflicts:
        yield Paragraph(str(conflict), "red" if conflict.is_refused else "yellow")
    refused = {entry.partition for entry, _ in validation.problems}
    changes = [e for e in found.entries if e.partition not in refused]
    if refused or validation.unknown or conflicts:
        yield ""
    yield _changes(changes, preview.relocated)
    yield from forecast_screen(preview)


def _changes(entries: Sequence[Entry], relocated: Mapping[TopicPartition, Replicas]) -> Part:
    """Return the changes; partitions that are at their target already come last."""
    known = [e for e in entries if e.assignment is not None]
    rows = [_change(e, relocated.get(e.partition, ())) for e in known]
    heads = ("partition", "replicas", "target", "adds", "drops", "")
    return _texts_table("changes", heads, sorted(rows, key=lambda row: row[-1] == AT_TARGET))


def _change(entry: Entry, relocated: Replicas) -> tuple[str, ...]:
    now = entry.assignment
    replicas = () if now is None else now.replicas
    added = [r for r in entry.target if r not in replicas]
    dropped = [r for r in replicas if r not in entry.target]
    note = ""
    if relocated:
        note = f"changes directories on {ids(relocated)}"
    elif now is not None and replicas == entry.target and not now.is_reassigning:
        note = AT_TARGET
    elif not added and not dropped:
        note = "order only"
    lists = map(ids, (replicas, entry.target, added, dropped))
    return str(entry.partition), *lists, note


def forecast_screen(preview: Preview) -> Iterator[Part]:
    """Return a forecast: amount and time, then brokers, directories, waits and notes."""
    found = preview.forecast
    if not found.changes:
        return
    yield ""
    for line in forecast_table.summary_lines(found):
        yield Paragraph(line, "bold")
    for heads, rows in (
        (forecast_table.BROKER_HEADS, forecast_table.broker_rows(found)),
        (forecast_table.DIRECTORY_HEADS, forecast_table.directory_rows(found)),
    ):
        yield _texts_table(" ", heads, list(rows), are_numbers=True)
    if found.waits or preview.notes:
        yield ""
    for wait in found.waits:
        yield Paragraph(forecast_table.wait_line(wait, found.changes), "yellow")
    for note in preview.notes:
        yield Paragraph(f"Note: {note}", "dim")


def _texts_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, are_numbers: bool = False
) -> Part:
    """Return a table of texts, the first of each row a name."""
    columns: list[Column[Sequence[str]]] = [Column(heads[0], lambda row: Name(row[0]))]
    for number, head in enumerate(heads[1:], start=1):
        columns.append(Column(head, itemgetter(number), is_number=are_numbers))
    return Listing(title=title, columns=columns, rows=rows)
