"""
Trials of mutants on copies of the tree: by the unit tests that execute them, then by histories.

The tests and histories that killed mutants of the same module go first, then the quick ones, so
that most mutants die within seconds. A trial never touches the tree itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.executions import TESTS, Executions
from tests.mutants.histories import names
from tests.mutants.mutants import Mutant
from tests.mutants.time_limits import NO_END

CODE: Final = ("controller", "tests", "integration")
"""The directories of the code that tests and histories execute."""
COPIED: Final = (*CODE, "docs", "deploy", "pyproject.toml", "README.md", "ARCHITECTURE.md")
HISTORIES: Final = ("-m", "tests.mutants.histories")
ENVIRONMENT: Final = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "",  # a trial compiles what changed, and nothing else
    "COLUMNS": "1000",  # pytest shortens the reasons of failures to the terminal's width
    "COVERAGE_CORE": "ctrace",  # the one with a context for each test
}
ROOMS: Final = {
    "controller/core": ("tests/core", "tests/scenarios", "tests/spec", "tests/reactor"),
    "controller/reactor": ("tests/reactor", "tests/core", "tests/scenarios", "tests/spec"),
    "controller/zk": ("tests/zk", "tests/sim/test_store.py", "tests/sim/test_store_contract.py"),
}
"""The tests that judge a mutant that executes when its module is imported."""
TESTS_S: Final = 3600.0
"""The time limit of all unit tests; each of them also has a limit of processor time."""
HISTORY_S: Final = 900.0
"""The time limit of one history or one test, reached only in a deadlock."""
PYTEST: Final = (
    *("-m", "pytest", "-q", "--tb=no", "-p", "tests.mutants.hooks", "-p", "no:randomly"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0", f"--timeout={HISTORY_S:g}"),
)
RECORDING_S: Final = 3600.0
"""The time limit of the recording, which depends on the machine alone."""
MEMORY: Final = 4 * 2**30
"""The bytes of address space of a trial: endless growth kills the trial, not the machine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a mutant."""

    killed_by: str | None
    """A test, a history or a time limit; None: it survived everything."""
    judges: int
    """The number of tests or histories of the last stage that execute it."""


class TrialEndedError(Exception):
    """The whole run ends; the mutant is not judged."""


class Killers:
    """The tests and histories that killed mutants so far; shared by the workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kills: Counter[tuple[str, str]] = Counter()

    def learn(self, path: str, killed_by: str) -> None:
        """Count a kill of a mutant of a module."""
        with self._lock:
            for name in _parents(killed_by.partition(": ")[0]):
                self._kills[path, name] += 1
                self._kills["", name] += 1

    def ordered(self, path: str, names: Iterable[str], costs: dict[str, float]) -> list[str]:
        """
        Return tests or histories in the order in which they are to judge a mutant of a module.

        First those that killed mutants of the module, then those of test files that did or that
        bear the name of the module, then those that killed any mutant, then the quick ones.
        """
        stem = Path(path).stem.rstrip("s")

        def rank(name: str) -> tuple[int, int, bool, int, float]:
            file = name.partition("::")[0]
            own = self._kills[path, name]
            of_file = self._kills[path, file]
            return -own, -of_file, stem not in file, -self._kills["", name], costs.get(name, 0.0)

        with self._lock:
            return sorted(names, key=rank)


def _parents(name: str) -> tuple[str, ...]:
    """Return a history, or a test and its file."""
    file, separator, _ = name.partition("::")
    return (name, file) if separator else (name,)


def is_test(killed_by: str) -> bool:
    """Return whether a mutant was killed by a unit test, and not by a history."""
    return not killed_by.startswith(("native ", "endpoint ", "delegated ", "histories:"))


class Bench:
    """One copy of the tree, on which one mutant after the other is tried."""

    def __init__(self, root: Path, place: Path, killers: Killers) -> None:
        """Copy the tree to ``place``, which is replaced."""
        shutil.rmtree(place, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, place / name, ignore=ignored)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name)
        self._place = place
        self._killers = killers
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def record(self, arguments: list[str]) -> None:
        """
        Run a recording, without any mutant.

        Raises:
            AssertionError: a test or a history fails, so that no verdict would mean anything.

        """
        code, text = self._run(arguments, RECORDING_S)
        if code != 0:
            raise AssertionError(f"this fails without any mutant:\n{text[-2000:]}")

    def by_tests(self, mutant: Mutant, executions: Executions) -> Verdict:
        """Try a mutant by the unit tests that execute it, until one kills it."""
        found = executions.of(mutant.path, self._source(mutant), mutant.line)
        if found is None:
            room = next(tests for path, tests in ROOMS.items() if mutant.path.startswith(path))
            chosen = [test for test in executions.durations if test.startswith(room)]
        else:
            chosen = [t for t in executions.durations if not found.isdisjoint(_parents(t))]
        known = executions.tests_file
        return self._judge(mutant, lambda t: self._tests_fail(t, known), chosen, executions)

    def by_histories(self, mutant: Mutant, executions: Executions, count: int) -> Verdict:
        """Try a mutant by the histories that execute it, until one kills it."""
        found = executions.of(mutant.path, self._source(mutant), mutant.line)
        chosen = [name for name in names(count) if found is None or name in found]
        return self._judge(mutant, self._histories_fail, chosen, executions)

    def end(self) -> None:
        """End what is running: the trial has no verdict."""
        self._is_ended = True
        self.stop()

    def stop(self) -> None:
        """Kill the process that is running, if any."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _source(self, mutant: Mutant) -> str:
        return (self._place / mutant.path).read_text(encoding="utf-8")

    def _judge(
        self,
        mutant: Mutant,
        kill: Callable[[list[str]], str | None],
        judges: list[str],
        executions: Executions,
    ) -> Verdict:
        if not judges:
            return Verdict(None, 0)
        file, original = self._place / mutant.path, self._source(mutant)
        try:
            self._write(file, mutant.code)
            killed_by = kill(self._killers.ordered(mutant.path, judges, executions.durations))
        finally:
            self._write(file, original)
        if killed_by is not None:
            self._killers.learn(mutant.path, killed_by)
        return Verdict(killed_by, len(judges))

    @staticmethod
    def _write(file: Path, code: str) -> None:
        """Write a module, and let no cache of another version of it be taken for this one."""
        file.write_text(code, encoding="utf-8")
        for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            cached.unlink()

    def _tests_fail(self, tests: list[str], known: Path) -> str | None:
        selected = self._place / "selected.json"
        selected.write_text(json.dumps(tests), encoding="utf-8")
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        options = ["-x", "--selected", str(selected), "--known", str(known)]
        code, text = self._run([*PYTEST, *options, *files], TESTS_S)
        if code is None:
            return f"the unit tests: {NO_END} {TESTS_S:g} s"
        if code == 0:
            return None
        failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if not failed:
            return f"pytest: ended with {code}"
        name, _, reason = failed[0].partition(" ")[2].partition(" - ")
        is_late = NO_END in reason or "Timeout (>" in reason
        return f"{name}: {NO_END} its time limit" if is_late else name

    def _histories_fail(self, histories: list[str]) -> str | None:
        code, text = self._run([*HISTORIES, *histories], HISTORY_S, each_line=True)
        if code == 0:
            return None
        lines = text.splitlines()
        if code is None:
            return f"{lines[-1] if lines else 'histories'}: {NO_END} {HISTORY_S:g} s"
        return ": ".join(lines[-2:]) if code == 1 else f"histories: ended with {code}"

    def _run(
        self, arguments: list[str], within_s: float, *, each_line: bool = False
    ) -> tuple[int | None, str]:
        """Run Python on the copy; return its code, None if it took too long, and its output."""
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self._place,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            late = threading.Event()

            def end() -> None:
                late.set()
                os.killpg(process.pid, signal.SIGKILL)

            assert process.stdout is not None
            timer = threading.Timer(within_s, end)
            timer.start()
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if each_line:
                    timer.cancel()
                    timer = threading.Timer(within_s, end)
                    timer.start()
            process.wait()
            timer.cancel()
        if self._is_ended:
            raise TrialEndedError
        return (None if late.is_set() else process.returncode), "".join(lines)


def record_tests(bench: Bench, place: Path, modules: Sequence[str]) -> None:
    """Record to the folder ``place`` which tests execute each line of some modules."""
    tests = sorted({test for room in ROOMS.values() for test in room})
    with _made(place) as made:
        bench.record([*PYTEST, *_recorded(made / f"{TESTS}.coverage", modules), *tests])


def record_histories(
    benches: Sequence[Bench], place: Path, modules: Sequence[str], count: int
) -> None:
    """Record to the folder ``place`` which of so many histories execute each line."""
    played = names(count)

    def play(nth: int, bench: Bench) -> None:
        options = _recorded(made / f"part-{nth}.coverage", modules)
        bench.record([*HISTORIES, *options, *played[nth :: len(benches)]])

    with _made(place) as made, ThreadPoolExecutor(len(benches)) as pool:
        try:
            list(pool.map(play, range(len(benches)), benches))
        finally:
            for bench in benches:
                bench.stop()


def _recorded(file: Path, modules: Sequence[str]) -> list[str]:
    return ["--record", str(file), *(f"--module={path}" for path in modules)]


@contextlib.contextmanager
def _made(place: Path) -> Iterator[Path]:
    """Make a folder that is there only once it is complete."""
    unfinished = place.with_name(f"{place.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    unfinished.rename(place)
