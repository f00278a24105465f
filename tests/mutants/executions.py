"""
Record which unit tests and which histories execute each line of the mutated modules.

Without a mutant, a test or history repeats itself exactly. One that does not execute the mutated
statement therefore runs as it would without the mutant, and cannot kill it. Lines that execute
while modules are imported concern all tests and all histories.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from coverage import Coverage, CoverageData

IMPORT: Final = ""
"""The context of lines that execute outside of any test file, test or history."""
TESTS: Final = "tests"
"""The name of the recording of the unit tests."""


class Recorder:
    """Record each executed line of some modules together with its context, until it is closed."""

    def __init__(self, file: Path, modules: list[str]) -> None:
        """Begin with the import of the modules, named by their paths."""
        self._coverage = Coverage(str(file), include=modules, config_file=False, messages=False)
        self._coverage.set_option("run:relative_files", True)  # noqa: FBT003 - its interface
        self._coverage.start()
        for path in modules:
            name = ".".join(Path(path).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))

    def enter(self, context: str) -> None:
        """Attribute the lines that follow to a test or a history."""
        self._coverage.switch_context(context)

    def close(self) -> None:
        """Write the recording."""
        self._coverage.stop()
        self._coverage.save()


class Executions:
    """The tests and histories that execute each statement."""

    def __init__(self, tests: Path, histories: Path) -> None:
        """Read the recordings in two folders."""
        files = [*tests.glob("*.coverage"), *histories.glob("*.coverage")]
        self._recordings = [_read(file) for file in files]
        self.tests_file = tests / f"{TESTS}.json"
        """The file that the durations are read from."""
        self.durations: dict[str, float] = json.loads(self.tests_file.read_text(encoding="utf-8"))
        """Each unit test, with the processor time that it takes, in seconds."""

    def of(self, path: str, source: str, line: int) -> frozenset[str] | None:
        """
        Return the test files, tests and histories that execute the statement at a line.

        None means all: the statement executes when the module is imported.
        """
        lines = statement_lines(source, line)
        if lines is None:
            return None
        found = frozenset[str]().union(*self._contexts(path, lines))
        return None if IMPORT in found else found

    def _contexts(self, path: str, lines: frozenset[int]) -> Iterator[list[str]]:
        for recording in self._recordings:
            by_line = _by_line(recording, path)
            yield from (by_line[n] for n in lines if n in by_line)


def _read(file: Path) -> CoverageData:
    data = CoverageData(str(file))
    data.read()
    return data


@lru_cache(maxsize=64)
def _by_line(recording: CoverageData, path: str) -> dict[int, list[str]]:
    return recording.contexts_by_lineno(path)


def statement_lines(source: str, line: int) -> frozenset[int] | None:
    """
    Return the lines of the innermost statement at a line, without the statements inside it.

    None: the statement is outside of any function, or is the head of such a function.
    """
    statement: ast.stmt | None = None
    is_in_function = False
    inner: list[ast.stmt] = [child for child in ast.parse(source).body if _spans(child, line)]
    while inner:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            is_in_function = True
        statement = inner[0]
        inner = [child for child in _children(statement) if _spans(child, line)]
    if statement is None or not is_in_function:
        return None
    lines = set(_lines(statement))
    for child in _children(statement):
        lines -= set(_lines(child))
    return frozenset(lines)


def _children(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements inside a statement, also those of its cases and handlers."""
    for child in ast.iter_child_nodes(statement):
        match child:
            case ast.stmt():
                yield child
            case ast.match_case() | ast.ExceptHandler():
                yield from child.body
            case _:
                pass


def _lines(statement: ast.stmt) -> range:
    decorators = getattr(statement, "decorator_list", [])
    first = min(node.lineno for node in [statement, *decorators])
    return range(first, (statement.end_lineno or first) + 1)


def _spans(statement: ast.stmt, line: int) -> bool:
    return line in _lines(statement)
