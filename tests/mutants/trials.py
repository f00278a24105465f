"""
Trials of mutants on copies of the tree: by the unit tests of their room, then by histories.

The test files that killed mutants of the same module go first, so that most mutants die within
seconds. A trial never touches the tree itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutants import Mutant

COPIED: Final = ("controller", "tests", "docs", "deploy", "pyproject.toml", "README.md")
TESTS: Final = {
    "controller/core": ("tests/core", "tests/spec", "tests/reactor"),
    "controller/reactor": ("tests/reactor", "tests/core", "tests/spec"),
    "controller/zk": ("tests/zk", "tests/sim/test_store.py", "tests/sim/test_store_contract.py"),
}
"""Which tests judge the mutants of a room."""
DELEGATED: Final = ("delegated.py", "grounds.py", "resting.py", "replicas.py", "engines.py")
"""Modules that only or mostly the delegated engine uses."""
TESTS_S: Final = 900.0
"""How long the unit tests may take: a mutant that runs for ever is dead."""
HISTORY_S: Final = 120.0
"""How long one history may take."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    killed_by: str | None
    """A test, a history or a time limit; None: it survived everything."""


class TrialEndedError(Exception):
    """The whole run ends; the mutant is not judged."""


class Killers:
    """Which tests and seeds killed so far; shared by the workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: Counter[tuple[str, str]] = Counter()
        self._seeds: Counter[int] = Counter()

    def learn(self, path: str, killed_by: str) -> None:
        """Count a kill."""
        with self._lock:
            if killed_by.startswith("tests/"):
                self._files[path, killed_by.partition("::")[0]] += 1
            elif killed_by.startswith("native "):
                self._seeds[int(killed_by.split()[1].rstrip(":"))] += 1

    def ordered(self, path: str, files: list[str]) -> list[str]:
        """Return test files: those that killed mutants of the module first, then its own."""
        stem = Path(path).stem.rstrip("s")
        with self._lock:
            return sorted(files, key=lambda f: (-self._files[path, f], stem not in f))

    def seeds(self) -> list[int]:
        """Return the ten seeds that killed the most."""
        with self._lock:
            return [seed for seed, _ in self._seeds.most_common(10)]


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

    def baseline(self, paths: list[str]) -> str | None:
        """Return which test fails without a mutant, of all that will judge; None: none does."""
        files = {f: None for path in paths for f in self._tests(path)}
        return self._tests_fail(list(files))

    def judge(self, mutant: Mutant, histories: int) -> Verdict:
        """Try a mutant until something kills it."""
        file = self._place / mutant.path
        original = file.read_text(encoding="utf-8")
        try:
            self._write(file, mutant.code)
            killed_by = self._tests_fail(self._tests(mutant.path))
            if killed_by is None and histories:
                killed_by = self._histories_fail(mutant, histories)
        finally:
            self._write(file, original)
        if killed_by is not None:
            self._killers.learn(mutant.path, killed_by)
        return Verdict(killed_by)

    def end(self) -> None:
        """End what is running: the trial has no verdict."""
        self._is_ended = True
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    @staticmethod
    def _write(file: Path, code: str) -> None:
        """Write a module, and let no cache of another version of it be taken for this one."""
        file.write_text(code, encoding="utf-8")
        for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            cached.unlink()

    def _tests(self, path: str) -> list[str]:
        room = next(room for room in TESTS if path.startswith(f"{room}/"))
        files: list[str] = []
        for name in TESTS[room]:
            found = self._place / name
            listed = sorted(found.glob("test_*.py")) if found.is_dir() else [found]
            files += [f.relative_to(self._place).as_posix() for f in listed]
        return self._killers.ordered(path, files)

    def _tests_fail(self, files: list[str]) -> str | None:
        options = ("-x", "-q", "--tb=no", "-p", "no:randomly", "-p", "no:cacheprovider")
        code, text = self._run(["-m", "pytest", *options, *files], TESTS_S)
        if code is None:
            return f"the unit tests took more than {TESTS_S:g} s"
        if code == 0:
            return None
        failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return failed[0].split()[1] if failed else f"pytest ended with {code}"

    def _histories_fail(self, mutant: Mutant, histories: int) -> str | None:
        arguments = ["-m", "tests.mutants.histories", "--count", str(histories)]
        if mutant.path.endswith(DELEGATED):
            arguments.append("--delegated-first")
        seeds = self._killers.seeds()
        if seeds:
            arguments += ["--first", ",".join(map(str, seeds))]
        code, text = self._run(arguments, HISTORY_S, each_line=True)
        if code == 0:
            return None
        lines = text.splitlines()
        if code is None:
            return f"{lines[-1] if lines else 'a history'}: no end within {HISTORY_S:g} s"
        return ": ".join(lines[-2:]) if code == 1 else f"histories ended with {code}"

    def _run(
        self, arguments: list[str], within_s: float, *, each_line: bool = False
    ) -> tuple[int | None, str]:
        """Run Python on the copy; return its code, None if it took too long, and its output."""
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self._place,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
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
