"""Tests of ``controller.doctor.examinations``."""

from __future__ import annotations

import inspect
from types import ModuleType

from controller.doctor import (
    assignments,
    health,
    logs,
    neighbours,
    records,
    surroundings,
    throttles,
)
from controller.doctor.examinations import CHECKS, examine
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder

ROOMS = (assignments, health, logs, neighbours, records, surroundings, throttles)


def test_a_sound_cluster_has_no_findings() -> None:
    """Not even a remark."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1, 2)).min_isr("t", 2)
    assert examine(built.disk(1, [tp()]).disk(2, [tp()]).build()) == []


def test_the_worst_comes_first() -> None:
    """Whatever the order of the checks."""
    built = SnapshotBuilder(1).partition(tp(), (1,)).partition(tp(1), (2,))
    built.with_znodes(daemons=("a:1", "b:1"), kill_switch=True)
    found = [f.severity.value for f in examine(built.build())]
    assert found == sorted(found, key=("critical", "warning", "info").index)
    assert set(found) == {"critical", "warning", "info"}


def test_every_check_is_run() -> None:
    """One that is written and forgotten finds nothing."""

    def checks(room: ModuleType) -> set[object]:
        functions = inspect.getmembers(room, inspect.isfunction)
        return {f for n, f in functions if f.__module__ == room.__name__ and n[0] != "_"}

    assert set(CHECKS) == set().union(*map(checks, ROOMS))
