"""
Draw mutants, judge them, print the share that was killed and every survivor.

``python -m tests.mutants [--count N] [--seed N] [--histories N] [--minutes N] [FILE ...]``. What
was judged is kept below ``.cache/mutants``: a run that was ended is resumed, and one on a
changed tree judges anew only what the change may concern. Which tests and histories execute each
line is recorded once for each tree, and kept there too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutants.executions import Executions
from tests.mutants.mutants import DECISIONS, Mutant, files, sample
from tests.mutants.time_limits import NO_END
from tests.mutants.trials import (
    CODE,
    Bench,
    Killers,
    TrialEndedError,
    Verdict,
    is_test,
    record_histories,
    record_tests,
)

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = ROOT / ".cache" / "mutants"
ACCEPTED: Final = Path(__file__).with_name("accepted.toml")
KILLED_MIN: Final = 0.9
"""The share of mutants that the tests have to kill; accepted ones do not count."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The digests of the tree in kept verdicts; new unit tests leave that of histories as it is."""

    tests: str
    """The digest of all code."""
    histories: str
    """The digest of all code but the files of unit tests."""

    @classmethod
    def of(cls, root: Path) -> Trees:
        """Return the digests of a tree."""
        tests, histories = hashlib.sha256(), hashlib.sha256()
        for name in CODE:
            for path in sorted((root / name).rglob("*.py")):
                code = path.read_bytes()
                tests.update(code)
                if not path.name.startswith("test_"):
                    histories.update(code)
            for path in sorted((root / name).rglob("testdata/*")):
                tests.update(path.read_bytes())
        return cls(tests.hexdigest(), histories.hexdigest())


class Ledger:
    """The verdicts, one line of JSON for each mutant and stage: by tests, by histories."""

    def __init__(self, file: Path, trees: Trees) -> None:
        self._file = file
        self._trees = trees
        self._lock = threading.Lock()
        self._known: dict[tuple[tuple[str, ...], bool], dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            row = json.loads(line)
            self._known[tuple(row["key"]), row["histories"] > 0] = row

    def stage(self, mutant: Mutant, histories: int) -> Verdict | None:
        """Return a verdict that is still valid: by that many histories, or by tests if it is 0."""
        row = self._known.get((mutant.key, histories > 0))
        if row is None:
            return None
        is_same = row["tree"] == self._tree(histories) and row["histories"] >= histories
        is_dead = row["killed_by"] is not None and row["module"] == _digest(mutant.code)
        return Verdict(row["killed_by"], row["judges"]) if is_same or is_dead else None

    def verdict(self, mutant: Mutant, histories: int) -> Verdict | None:
        """Return the verdict on a mutant: the histories judge where no test killed it."""
        by_tests = self.stage(mutant, 0)
        is_over = by_tests is None or by_tests.killed_by is not None or not histories
        return by_tests if is_over else self.stage(mutant, histories)

    def kills(self) -> Iterator[tuple[str, str]]:
        """Yield the path of each mutant that was killed in earlier runs, and what killed it."""
        for row in self._known.values():
            if row["killed_by"] is not None:
                yield row["key"][0], row["killed_by"]

    def write(self, mutant: Mutant, verdict: Verdict, histories: int) -> None:
        """Keep a verdict."""
        row: dict[str, Any] = {
            "key": mutant.key,
            "killed_by": verdict.killed_by,
            "judges": verdict.judges,
            "histories": histories,
            "tree": self._tree(histories),
            "module": _digest(mutant.code),
        }
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            self._known[mutant.key, histories > 0] = row
            file.write(json.dumps(row) + "\n")

    def _tree(self, histories: int) -> str:
        return self._trees.histories if histories else self._trees.tests


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def accepted() -> dict[tuple[str, str, str, str], str]:
    """Return the mutants that are equivalent to the original, each with the reason."""
    listed = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("mutant", [])
    return {(m["path"], m["function"], m["before"], m["after"]): m["why"] for m in listed}


class Trials:
    """The workers that judge, each on a copy of its own, as many as there are processors."""

    def __init__(self, ledger: Ledger, trees: Trees, modules: list[str], histories: int) -> None:
        """Copy the tree."""
        self.histories: Final = histories
        self._ledger = ledger
        self._killers = Killers()
        for path, killed_by in ledger.kills():
            self._killers.learn(path, killed_by)
        places = [PLACE / f"tree-{number}" for number in range(os.cpu_count() or 1)]
        self._benches = [Bench(ROOT, place, self._killers) for place in places]
        self._tests = PLACE / f"tests-{_digest(f'{trees.tests} {modules}')[:16]}"
        played = _digest(f"{trees.histories} {modules} {histories}")[:16]
        self._played = PLACE / f"histories-{played}"
        self._modules = modules

    def record(self) -> Executions:
        """Return what executes the modules; record it where that is not known yet."""
        if not self._tests.exists():
            record_tests(self._benches[0], self._tests, self._modules)
        if not self._played.exists():
            record_histories(self._benches, self._played, self._modules, self.histories)
        return Executions(self._tests, self._played)

    def judge(
        self, mutants: list[Mutant], executions: Executions, histories: int, ends_at: float
    ) -> Iterator[tuple[Mutant, Verdict]]:
        """
        Judge all; yield each verdict as it comes. Nothing is begun after ``ends_at``.

        Args:
            mutants: What is judged.
            executions: Which tests and histories execute them.
            histories: How many a mutant that no test killed has to pass; 0: the tests judge.
            ends_at: On the monotonic clock.

        """
        waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Mutant, Verdict] | Exception | None] = queue.SimpleQueue()
        for mutant in mutants:
            waiting.put(mutant)

        def work(bench: Bench) -> None:
            try:
                while time.monotonic() < ends_at:
                    mutant = waiting.get_nowait()
                    verdict = (
                        bench.by_histories(mutant, executions, histories)
                        if histories
                        else bench.by_tests(mutant, executions)
                    )
                    self._ledger.write(mutant, verdict, histories)
                    done.put((mutant, verdict))
            except (queue.Empty, TrialEndedError):
                pass
            except Exception as error:  # noqa: BLE001 - raised again where the verdicts are read
                done.put(error)
            finally:
                done.put(None)

        for bench in self._benches:
            threading.Thread(target=work, args=(bench,), daemon=True).start()
        working = len(self._benches)
        while working:
            match done.get():
                case None:
                    working -= 1
                case Exception() as error:
                    raise error
                case verdict:
                    yield verdict

    def end(self) -> None:
        """End what is running."""
        for bench in self._benches:
            bench.end()


def main(arguments: list[str]) -> int:
    """Judge a sample of mutants; return 0 if enough of them were killed."""
    # The exit runs the clean-up that ends the running trials.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--histories", type=int, default=300, help="that a survivor has to pass")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no trial after that")
    parser.add_argument("under", nargs="*", default=DECISIONS, help="files or folders to mutate")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    PLACE.mkdir(parents=True, exist_ok=True)
    excused = accepted()
    drawn = sample(ROOT, chosen.count, chosen.seed, chosen.under)
    mutants = [m for m in drawn if m.key not in excused]
    trees = Trees.of(ROOT)
    ledger = Ledger(PLACE / "trials.jsonl", trees)
    ends_at = began + 60 * chosen.minutes
    if any(ledger.verdict(m, chosen.histories) is None for m in mutants):
        modules = list(files(ROOT, chosen.under))
        judge(mutants, Trials(ledger, trees, modules, chosen.histories), ledger, ends_at)
    judged = {m: v for m in mutants if (v := ledger.verdict(m, chosen.histories)) is not None}
    survivors = [mutant for mutant, verdict in judged.items() if verdict.killed_by is None]
    for mutant in survivors:
        original = (ROOT / mutant.path).read_text(encoding="utf-8")
        sys.stdout.write(f"\nsurvived in {mutant.function}\n{mutant.diff(original)}")
    killers = [verdict.killed_by for verdict in judged.values() if verdict.killed_by is not None]
    share = len(killers) / len(judged) if judged else 0.0
    sys.stdout.write(
        f"\n{len(killers)} of {len(judged)} mutants killed ({share:.1%}), "
        f"{sum(is_test(name) for name in killers)} by tests, "
        f"{sum(not is_test(name) for name in killers)} by histories, "
        f"{sum(NO_END in name for name in killers)} of all by time limits; "
        f"{len(mutants) - len(judged)} not judged, {len(drawn) - len(mutants)} accepted as "
        f"equivalent, seed {chosen.seed}, {time.monotonic() - began:.0f} s\n"
    )
    return 0 if share >= KILLED_MIN and len(judged) == len(mutants) else 1


def judge(mutants: list[Mutant], trials: Trials, ledger: Ledger, ends_at: float) -> None:
    """Judge mutants: all by the tests, then those that none killed by histories."""
    try:
        executions = trials.record()
        for histories in dict.fromkeys((0, trials.histories)):
            left = [m for m in mutants if ledger.verdict(m, histories) is None]
            verdicts = trials.judge(left, executions, histories, ends_at)
            for number, (mutant, verdict) in enumerate(verdicts, start=1):
                of = f"{verdict.judges} {'histories' if histories else 'tests'}"
                result = verdict.killed_by or f"SURVIVED {of}"
                at = f"{mutant.path}:{mutant.line}"
                sys.stdout.write(f"{number}/{len(left)} {at} {mutant.function}: {result}\n")
                sys.stdout.flush()
    finally:
        trials.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
