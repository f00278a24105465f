"""Print the preview of a plan, and write it to a file for approval."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from controller.cli.exits import Exit
from controller.cli.output import NOTHING_WRITTEN, print_json, print_line, print_lines, print_note
from controller.cli.preview_tables import preview_screen
from controller.cli.tables import Screen
from controller.core import model
from controller.core.requests.submissions import NamedDirs, plan_hash
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews.dry_run import DryRun
from controller.previews.entries import Entry
from controller.previews.forecast_table import forecast_lines
from controller.previews.plan_files import Plan, approval_document, document_of
from controller.previews.validation import PlanValidation
from controller.units import names_text
from controller.zk.operator_client import OperatorClient


def show_dry_run(
    found: DryRun,
    *,
    as_json: bool,
    plan: Plan | None = None,
    approval: Approval | None = None,
    screen: Screen | None = None,
) -> Exit:
    """
    Print what a plan would do; return the exit code.

    Args:
        found: What it would do.
        as_json: Print JSON.
        plan: Printed in JSON in place of the entries.
        approval: The file that was written for approval.
        screen: The terminal, None if the output goes elsewhere.

    """
    validation, conflicts, preview = found.validation, found.conflicts, found.preview
    problems = validation.problems
    if as_json:
        entries = [_preview_of(e, found.refused, preview.relocated) for e in found.entries]
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
            screen.print(*preview_screen(found, screen.rows_max))
        else:
            print_lines((*found.changes, *validation.lines(), *map(str, conflicts)))
            print_lines(forecast_lines(preview))
        print_line(NOTHING_WRITTEN if approval is None else str(approval))
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
    """
    Check that a plan can be written for approval: it would be accepted as it is.

    Raises:
        ReassignmentConflictError: an entry would be refused, or its replicas are changing.

    """
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
    if not rollback["partitions"]:
        return
    out = print_note if as_json else print_line
    out("Current partition replica assignment\n")
    out(json.dumps(rollback, separators=(",", ":")))
    out("\nSave this as the plan for a rollback.")
