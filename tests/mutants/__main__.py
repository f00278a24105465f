"""
Draw mutants, judge them, print the share that was killed and every survivor.

``python -m tests.mutants [--count N] [--seed N] [--histories N] [--minutes N] [FILE ...]``. What
was judged is kept below ``.cache/mutants``: a run that was ended goes on where it was, and one on a
changed tree judges anew only what the change may concern.
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
from pathlib import Path
from typing import Any, Final

from tests.mutants.mutants import DECISIONS, Mutant, sample
from tests.mutants.trials import Bench, Killers, TrialEndedError, Verdict

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = ROOT / ".cache" / "mutants"
ACCEPTED: Final = Path(__file__).with_name("accepted.toml")
GOAL: Final = 0.9
"""The share of mutants that the tests have to kill; accepted ones do not count."""


class Ledger:
    """What was judged, one line of JSON each."""

    def __init__(self, file: Path, tree: str) -> None:
        self._file = file
        self._tree = tree
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            row = json.loads(line)
            self._known[tuple(row["key"])] = row

    def verdict(self, mutant: Mutant, histories: int) -> Verdict | None:
        """Return what became of a mutant that need not be judged again."""
        row = self._known.get(mutant.key)
        if row is None:
            return None
        is_same = row["tree"] == self._tree and row["histories"] >= histories
        is_dead = row["killed_by"] is not None and row["module"] == _digest(mutant.code)
        return Verdict(row["killed_by"]) if is_same or is_dead else None

    def kills(self) -> Iterator[tuple[str, str]]:
        """Yield the path of each mutant that was killed in earlier runs, and what killed it."""
        for row in self._known.values():
            if row["killed_by"] is not None:
                yield row["key"][0], row["killed_by"]

    def write(self, mutant: Mutant, verdict: Verdict, histories: int) -> None:
        """Keep a verdict."""
        row = {
            "key": mutant.key,
            "killed_by": verdict.killed_by,
            "histories": histories,
            "tree": self._tree,
            "module": _digest(mutant.code),
        }
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def tree_digest() -> str:
    """Return what the code and the tests are, as a number."""
    found = hashlib.sha256()
    for name in ("controller", "tests"):
        for path in sorted((ROOT / name).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def accepted() -> dict[tuple[str, str, str, str], str]:
    """Return the mutants that nothing can tell from the original, each with the reason."""
    listed = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("mutant", [])
    return {(m["path"], m["function"], m["before"], m["after"]): m["why"] for m in listed}


class Trials:
    """The workers that judge, each on a copy of its own, as many as there are processors."""

    def __init__(self, mutants: list[Mutant], ledger: Ledger, histories: int) -> None:
        self._ledger = ledger
        self._histories = histories
        self._waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Mutant, Verdict] | Exception | None]
        self._done = queue.SimpleQueue()
        self._killers = Killers()
        self._paths = list(dict.fromkeys(m.path for m in mutants))
        self._workers = min(os.cpu_count() or 1, len(mutants))
        for path, killed_by in ledger.kills():
            self._killers.learn(path, killed_by)
        for mutant in mutants:
            self._waiting.put(mutant)

    def judge(self, ends_at: float) -> Iterator[tuple[Mutant, Verdict]]:
        """
        Judge all; yield each verdict as it comes. Nothing is begun after ``ends_at``.

        Raises:
            AssertionError: a test fails without any mutant, so that no verdict would mean anything.

        """
        places = [PLACE / f"tree-{number}" for number in range(self._workers)]
        benches = [Bench(ROOT, place, self._killers) for place in places]
        try:
            broken = benches[0].baseline(self._paths)
            if broken is not None:
                raise AssertionError(f"{broken} fails without any mutant")
            for bench in benches:
                threading.Thread(target=self._work, args=(bench, ends_at), daemon=True).start()
            working = self._workers
            while working:
                match self._done.get():
                    case None:
                        working -= 1
                    case Exception() as error:
                        raise error
                    case verdict:
                        yield verdict
        finally:
            for bench in benches:
                bench.end()

    def _work(self, bench: Bench, ends_at: float) -> None:
        try:
            while time.monotonic() < ends_at:
                mutant = self._waiting.get_nowait()
                verdict = bench.judge(mutant, self._histories)
                self._ledger.write(mutant, verdict, self._histories)
                self._done.put((mutant, verdict))
        except (queue.Empty, TrialEndedError):
            pass
        except Exception as error:  # noqa: BLE001 - raised again where the verdicts are read
            self._done.put(error)
        finally:
            self._done.put(None)


def main(arguments: list[str]) -> int:
    """Judge a sample of mutants; return 0 if enough of them were killed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs has to end with us
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
    ledger = Ledger(PLACE / "verdicts.jsonl", tree_digest())
    verdicts = {m.key: v for m in mutants if (v := ledger.verdict(m, chosen.histories)) is not None}
    left = [m for m in mutants if m.key not in verdicts]
    ends_at = began + 60 * chosen.minutes
    for mutant, verdict in Trials(left, ledger, chosen.histories).judge(ends_at) if left else ():
        verdicts[mutant.key] = verdict
        told = verdict.killed_by or "SURVIVED"
        at = f"{mutant.path}:{mutant.line}"
        sys.stdout.write(f"{len(verdicts)}/{len(mutants)} {at} {mutant.function}: {told}\n")
        sys.stdout.flush()
    survivors = [m for m in mutants if m.key in verdicts and verdicts[m.key].killed_by is None]
    for mutant in survivors:
        original = (ROOT / mutant.path).read_text(encoding="utf-8")
        sys.stdout.write(f"\nsurvived in {mutant.function}\n{mutant.diff(original)}")
    killed = len(verdicts) - len(survivors)
    share = killed / len(verdicts) if verdicts else 0.0
    sys.stdout.write(
        f"\n{killed} of {len(verdicts)} mutants killed ({share:.1%}), "
        f"{len(mutants) - len(verdicts)} not judged, {len(drawn) - len(mutants)} accepted as "
        f"equivalent, seed {chosen.seed}, {time.monotonic() - began:.0f} s\n"
    )
    return 0 if share >= GOAL and len(verdicts) == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
