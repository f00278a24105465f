"""The preview of a plan as tables for a terminal: what would be refused first, then the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from controller.cli.tables import Column, Listing, Name, paragraph
from controller.core.model import Replicas, TopicPartition
from controller.previews import forecast_table
from controller.previews.entries import Entry
from controller.previews.plan_facts import Preview
from controller.units import ids

if TYPE_CHECKING:
    from controller.previews.dry_run import DryRun

Cells = tuple[str, ...]
AT_TARGET: Final = "at its target already"


def preview_screen(found: DryRun, rows_max: int | None) -> Iterator[RenderableType]:
    """Return what a plan would do."""
    validation, conflicts, preview = found.validation, found.conflicts, found.preview
    yield Listing(
        title="would be refused",
        style="red",
        columns=(
            Column("partition", lambda p: Name(str(p[0].partition))),
            Column("reason", lambda p: Text(p[1]), folds=True),
        ),
        rows=validation.problems,
        rows_max=rows_max,
    )
    for line in validation.unknown_lines():
        yield paragraph(line, "yellow")
    for conflict in conflicts:
        yield paragraph(str(conflict), "red" if conflict.is_refused else "yellow")
    refused = {entry.partition for entry, _ in validation.problems}
    changes = [e for e in found.entries if e.partition not in refused]
    if refused or validation.unknown or conflicts:
        yield ""
    yield _changes(changes, preview.relocated, rows_max)
    yield from forecast_screen(preview, rows_max)


def _changes(
    entries: Sequence[Entry], relocated: Mapping[TopicPartition, Replicas], rows_max: int | None
) -> RenderableType:
    """Return the changes; partitions that are at their target already come last."""
    known = [e for e in entries if e.assignment is not None]
    cells = {e.partition: _change(e, relocated.get(e.partition, ())) for e in known}
    rows = sorted(cells.items(), key=lambda row: row[1][-1] == AT_TARGET)
    return Listing(
        title="changes",
        columns=(
            Column("partition", lambda r: Name(str(r[0]))),
            Column("replicas", lambda r: r[1][0]),
            Column("target", lambda r: r[1][1]),
            Column("adds", lambda r: r[1][2]),
            Column("drops", lambda r: r[1][3]),
            Column("", lambda r: r[1][4]),
        ),
        rows=rows,
        rows_max=rows_max,
    )


def _change(entry: Entry, relocated: Replicas) -> Cells:
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
    return ids(replicas), ids(entry.target), ids(added), ids(dropped), note


def forecast_screen(preview: Preview, rows_max: int | None) -> Iterator[RenderableType]:
    """Return a forecast: amount and time, then brokers, directories, waits and notes."""
    found = preview.forecast
    if not found.changes:
        return
    yield ""
    for line in forecast_table.summary_lines(found):
        yield paragraph(line, "bold")
    for heads, rows in (
        (forecast_table.BROKER_HEADS, forecast_table.broker_rows(found)),
        (forecast_table.DIRECTORY_HEADS, forecast_table.directory_rows(found)),
    ):
        yield Listing(
            columns=[_column(heads, number) for number in range(len(heads))],
            rows=list(rows),
            title=" ",
            rows_max=rows_max,
        )
    if found.waits or preview.notes:
        yield ""
    for wait in found.waits:
        yield paragraph(forecast_table.wait_line(wait, found.changes), "yellow")
    for note in preview.notes:
        yield paragraph(f"Note: {note}", "dim")


def _column(heads: Cells, number: int) -> Column[Cells]:
    if number:
        return Column(heads[number], lambda row: row[number], is_number=True)
    return Column(heads[0], lambda row: Name(row[0]))


def selection_screen(
    selections: Mapping[str, Sequence[object]], rows_max: int | None
) -> Iterator[RenderableType]:
    """Return what a cancellation would select, by what would happen to it."""
    for what, found in selections.items():
        yield Listing(
            title=f"would {what}: {len(found)}",
            columns=(Column("", lambda name: Name(str(name))),),
            rows=found,
            rows_max=rows_max,
        )
