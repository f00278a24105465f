"""The table of shapes, and the one of mutants: what was explored, and what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from tests.explore.mutants import EQUIVALENT, FINDINGS, MUTANTS, Showing, shown_by
from tests.explore.search import Result, explore, scenario, stuck
from tests.explore.shapes import shape_named
from tests.explore.system import Shape

HEADINGS: Final = (
    "shape", "delays", "faults", "states", "transitions", "CPU s", "explored", "violations",
)  # fmt: skip


class Row(NamedTuple):
    """One line of the table of shapes."""

    shape: Shape
    states: int
    transitions: int
    seconds: float
    explored: str
    violations: str
    story: str = ""
    """The shortest history of a violation, or of a plan that cannot end."""


def row_of(result: Result) -> Row:
    """Return the line of an exploration."""
    story, found = "", "0"
    lost = stuck(result) if result.is_complete else []
    if result.violation is not None:
        found, story = "1", scenario(result)
    elif lost:
        found = f"{len(lost)} states without an end"
        story = f"{scenario(result, lost[0])}\n    STUCK: no continuation ends"
    end = "to the end" if result.is_complete else f"to {result.depth} steps"
    return Row(result.shape, result.states, result.transitions, result.seconds, end, found, story)


def explored(name: str, seconds: float) -> Row:
    """Explore a shape by its name: what a process of its own does."""
    return row_of(explore(shape_named(name), seconds=seconds, progress=sys.stderr))


def rows(names: Iterable[str], seconds: float, jobs: int) -> Iterator[Row]:
    """Yield the lines of shapes in their order, explored in some processes at once."""
    wanted = list(names)
    if jobs == 1:
        yield from (explored(name, seconds) for name in wanted)
        return
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        yield from pool.map(explored, wanted, [seconds] * len(wanted))


def bound_of(shape: Shape) -> tuple[str, str]:
    """Return how many delays and faults a shape has, and of what."""
    delays, faults = str(shape.budget.delays), "0"
    if shape.budget.delays and shape.delayed is not None:
        delays += f": {', '.join(sorted(shape.delayed))}"
    if shape.budget.faults:
        faults = f"{shape.budget.faults}: {', '.join(sorted(shape.faults))}"
    if shape.budget.operator:
        begun = " or ".join(sorted(shape.operations))
        faults += f"; {begun}" + (f", {shape.budget.operator} times" * (shape.budget.operator > 1))
    if shape.daemons > 1:
        faults += f"; {shape.daemons} daemons"
    return delays, faults


def text_of(row: Row) -> str:
    """Return a line for a terminal."""
    return (
        f"{row.shape.name:52} {row.states:8} states {row.transitions:9} transitions "
        f"{row.seconds:7.1f} s  {row.explored}, violations: {row.violations}"
    )


def markdown_of(row: Row) -> str:
    """Return a line of a table in Markdown."""
    cells = (
        row.shape.name,
        *bound_of(row.shape),
        f"{row.states:,}",
        f"{row.transitions:,}",
        f"{row.seconds:.0f}",
        row.explored,
        row.violations,
    )
    return f"| {' | '.join(cells)} |"


def heading() -> str:
    """Return the first lines of the table in Markdown."""
    return f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}"


# --- mutants -----------------------------------------------------------------------------------


def mutants_shown(names: Iterable[str], seconds: float, jobs: int) -> Iterator[tuple[str, Showing]]:
    """Yield each mutant's name with how it shows."""
    wanted = list(names)
    if jobs == 1:
        yield from ((name, showing(name, seconds)) for name in wanted)
        return
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        yield from zip(wanted, pool.map(showing, wanted, [seconds] * len(wanted)), strict=True)


def showing(name: str, seconds: float) -> Showing:
    """Return how a mutant shows."""
    mutant = next(m for m in (*MUTANTS, *FINDINGS, *EQUIVALENT) if m.name == name)
    return shown_by(mutant, seconds)


def verdict(shown: dict[str, Showing]) -> str:
    """Return how many of the mutants and of the former defects are found."""
    lines = []
    for what, mutants in (("mutants", MUTANTS), ("former defects", FINDINGS)):
        tried = [m for m in mutants if m.name in shown]
        found = sum(shown[m.name].law is not None for m in tried)
        if tried:
            share = 100 * found / len(tried)
            lines.append(f"{found} of {len(tried)} {what} found: {share:.1f} %")
    harmless = [shown[m.name] for m in EQUIVALENT if m.name in shown]
    if harmless:
        seen = sum(how.law is not None for how in harmless)
        whole = sum(how.law is None and how.is_complete for how in harmless)
        lines.append(
            f"{len(harmless)} changes are harmless, as another rule holds: {seen} of them show, "
            f"the shapes of {whole} were explored to the end"
        )
    return "\n".join(lines)


def is_as_expected(shown: dict[str, Showing]) -> bool:
    """Return whether each mutant and former defect is found, and no harmless change."""
    harmless = {m.name for m in EQUIVALENT}
    return all((how.law is None) == (name in harmless) for name, how in shown.items())
