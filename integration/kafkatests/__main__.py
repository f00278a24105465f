"""
Run Kafka's own integration tests with the daemon in the place of Kafka's controller.

Without a class, those of classes.txt run. A line of excluded.txt names a test that cannot apply
with the daemon, and the reason; it still runs in the other modes, and where it is named. Modes:
baseline is Kafka alone; with daemon, the daemon is the controller (native engine, permanent tenure,
public endpoint); with idle, it runs beside with its defaults. Results and the logs of brokers and
of daemons are in the folder of --work. A pass with the daemon says if a broker served a part of it,
and why.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from integration.kafkatests.class_runs import ClassRun, Mode, Result
from integration.kafkatests.compiled_harness import compiled_harness
from integration.rigs.processes import exit_on_sigterm

_HERE: Final = Path(__file__).parent
_SHOWN_CHARACTERS: Final = 300
_NAMES_BEFORE_3_7: Final = {
    "org.apache.kafka.tools.LeaderElectionCommandTest": "kafka.admin.LeaderElectionCommandTest",
    "org.apache.kafka.tools.TopicCommandIntegrationTest": "kafka.admin.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest": (
        "kafka.admin.ReassignPartitionsIntegrationTest"
    ),
}
"""What classes were called while the tools were part of the broker's module."""


def main() -> int:
    """Run what the command line names, print a line for each test, and return the exit code."""
    arguments = _parser().parse_args()
    exit_on_sigterm()
    modes = [Mode(mode) for mode in arguments.modes.split(",")]
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    harness = compiled_harness(arguments.kafka)
    run = ClassRun(
        arguments.kafka,
        harness,
        work,
        arguments.reassigner,
        arguments.options,
        arguments.without_ids,
    )
    excluded = _exclusions(arguments.kafka)
    failures = 0
    names = [_name_in(arguments.kafka, name) for name in arguments.names or _lines("classes.txt")]
    for name, methods in _methods_of(names).items():
        named = methods if arguments.names else ()
        reasons = {m: why for m, why in excluded.get(name, {}).items() if m not in named}
        results = {mode: run.results(mode, name, methods, reasons) for mode in modes}
        for test in dict.fromkeys(test for mode in modes for test in results[mode]):
            row = {mode: results[mode].get(test) for mode in modes}
            method = test.split()[0].split("(")[0].split(".")[0]
            print(name.rsplit(".", 1)[-1], test, *_cells(row, reasons.get(method)), sep="  ")
            sys.stdout.flush()
            failures += sum(
                result is not None and result.verdict == "FAIL"
                for mode, result in row.items()
                if mode is not Mode.BASELINE
            )
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="integration/kafkatests/run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command = os.environ.get("REASSIGNER", str(Path(sys.executable).with_name("reassigner")))
    work = Path(tempfile.gettempdir()) / "kafkatests"
    parser.add_argument("--modes", default="baseline,daemon", help="baseline, daemon, idle")
    parser.add_argument("--kafka", default="3.9.1", help="the release")
    parser.add_argument("--work", type=Path, default=work, help="folder of results and logs")
    parser.add_argument("--reassigner", default=command, help="the command of the daemon")
    parser.add_argument("--options", default="", help="further options of `reassigner run`")
    parser.add_argument(
        "--without-ids",
        action="store_true",
        help="leave the topics that the harness writes to ZooKeeper without topic ids",
    )
    parser.add_argument("names", nargs="*", metavar="CLASS[#METHOD]")
    return parser


def _lines(name: str) -> list[str]:
    """Return the lines of a file of this folder, without comments."""
    lines = (_HERE / name).read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _methods_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the methods to run of each class; none means all."""
    methods: dict[str, list[str]] = {}
    for name in names:
        owner, _, method = name.partition("#")
        methods.setdefault(owner, []).extend([method] if method else [])
    return methods


def _name_in(kafka: str, name: str) -> str:
    """Return what a class, or a method of it, is called in a release."""
    owner, mark, method = name.partition("#")
    is_before = tuple(int(part) for part in kafka.split(".")[:2]) < (3, 7)
    return (_NAMES_BEFORE_3_7.get(owner, owner) if is_before else owner) + mark + method


def _exclusions(kafka: str) -> dict[str, dict[str, str]]:
    """Return the reason for each method of each class; a line may be about one release."""
    reasons: dict[str, dict[str, str]] = {}
    for line in _lines("excluded.txt"):
        name, reason = line.split(None, 1)
        name, _, release = name.partition("@")
        if release not in {"", kafka}:
            continue
        owner, _, method = _name_in(kafka, name).partition("#")
        reasons.setdefault(owner, {})[method] = reason
    return reasons


def _cells(row: Mapping[Mode, Result | None], exclusion: str | None) -> Sequence[str]:
    """Return the verdict of each mode, then what is to be said of them."""
    cells, notes = [], []
    for mode, result in row.items():
        if result is None:
            cells.append(f"{mode}={'n/a' if exclusion else '-'}")
            notes.extend([exclusion] if exclusion else [])
            continue
        cells.append(f"{mode}={result.verdict}({result.seconds:.0f}s)")
        if result.verdict != "skip" and result.reason:
            notes.append(f"{mode}: {result.reason[:_SHOWN_CHARACTERS]}")
    return [*cells, *notes]


if __name__ == "__main__":
    sys.exit(main())
