"""No wake-up is missing: each flag has a producer, and each event and record has a row."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Final, get_args

from controller.core import wakeups
from controller.core.bases import Flag
from controller.core.records import Event, Record
from controller.core.wakeups import Trigger
from controller.core.worklist import Worklist
from tests.core.test_view_owners import PACKAGE, changed_by

FLAGS: Final = {f.name for f in fields(Worklist) if isinstance(getattr(Worklist(), f.name), bool)}
CONTENT: Final = {f.name for f in fields(Worklist)} - FLAGS
PRODUCED_BY_CYCLES: Final = {"held", "bounced_from"}
"""What ``take_due`` leaves for the next cycle, or finds in the view."""
MODULES: Final = sorted(PACKAGE.rglob("*.py"))
DECLARING: Final = (*get_args(Event), *get_args(Record))
TRIGGERS: Final = {name: row for name, row in vars(Trigger).items() if name.isupper()}
ROWS: Final = [
    *wakeups.TIMERS.values(),
    *TRIGGERS.values(),
    *(getattr(kind, "wakes", ()) for kind in DECLARING),
]
TIMERS: Final = {getattr(wakeups, name) for name in dir(wakeups) if name.endswith("_TIMER")}


def test_each_event_and_record_says_what_it_wakes() -> None:
    """An empty row states that nothing becomes due, or only by a trigger."""
    assert not [kind for kind in DECLARING if "wakes" not in vars(kind)]


def test_each_timer_has_a_row() -> None:
    """One without a row is a wake-up that was lost."""
    assert wakeups.TIMERS.keys() == TIMERS


def test_each_timer_is_requested_somewhere() -> None:
    """A row whose timer nothing sets never wakes anything."""
    found = re.compile(r"SetTimer\(\s*wakeups\.(\w+)")
    names = {name for path in MODULES for name in found.findall(path.read_text(encoding="utf-8"))}
    assert {getattr(wakeups, name) for name in names} == TIMERS


def test_each_flag_is_set_by_something() -> None:
    """And nothing else is set."""
    assert {flag for row in ROWS for flag in row} == FLAGS == set(get_args(Flag))


def test_a_row_sets_its_flags_and_clears_none() -> None:
    """A flag that was set before stays set until a cycle takes it."""
    for row in set(ROWS):
        for before in (set(), FLAGS):
            due = Worklist()
            for flag in before:
                setattr(due, flag, True)
            due.wake(row)
            assert {f for f in FLAGS if getattr(due, f)} == before | set(row)


def test_each_trigger_wakes_somewhere() -> None:
    """A row that nothing wakes is a wake-up that was lost."""
    found = re.compile(r"Trigger\.(\w+)\)|else Trigger\.(\w+)")
    names = {name for path in MODULES for name in found.findall(path.read_text(encoding="utf-8"))}
    assert TRIGGERS.keys() <= {name for pair in names for name in pair}


def test_flags_are_set_by_the_table_only() -> None:
    """A flag that a function sets by hand has no row, and no reason beside it."""
    assert {path for path in MODULES if not FLAGS.isdisjoint(notes_of(path))} == set()


def test_all_other_content_is_noted_where_it_is_folded_in() -> None:
    """Partitions, brokers, topics and orphans come with the content of events and records."""
    noted = {name for path in MODULES for name in notes_of(path)}
    assert noted >= CONTENT - PRODUCED_BY_CYCLES - {"partitions"}


@cache
def notes_of(path: Path) -> list[str]:
    """Return the fields of the worklist in the view that a module changes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        for target in changed_by(node):
            inner = target
            while isinstance(inner, ast.Attribute | ast.Subscript):
                match inner:
                    case ast.Attribute(value=ast.Attribute(attr="due") | ast.Name(id="due")):
                        found.append(inner.attr)
                    case _:
                        pass
                inner = inner.value
    return found
