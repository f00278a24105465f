"""The tests and histories that judge a mutant: those that execute its statement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, Ledger, Trees
from tests.mutants.executions import TESTS, Executions, statement_lines
from tests.mutants.mutants import Mutant
from tests.mutants.time_limits import NO_END
from tests.mutants.trials import ENVIRONMENT, Killers, Verdict

SOURCE = """
LIMIT = 3


@note
class Gate:
    floor: int = 1

    @note
    def opens(self, copies):
        if (
            copies is None
            or copies < self.floor
        ):
            return no(
                copies,
            )
        match copies:
            case 1:
                return True
            case _:
                return copies > LIMIT
"""
GATES = """
LIMIT = 3


def opens(copies):
    if copies > LIMIT:
        return True
    return None
"""
TEST_GATES = """
import pytest

from gates import opens


@pytest.mark.parametrize("found", [opens(4)])
def test_found(found):
    assert found


def test_few():
    assert opens(1) is None


def test_nothing():
    assert True
"""


def _line(source: str, code: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), start=1) if code in line)


@pytest.mark.parametrize(
    ("code", "first", "last"),
    [
        ("or copies < self.floor", "if (", "        ):"),
        ("copies,", "return no(", "            )"),
        ("return True", "return True", "return True"),
    ],
)
def test_a_statement_is_all_its_lines_without_the_statements_inside(
    code: str, first: str, last: str
) -> None:
    """Python reports only some lines of a statement that spans several."""
    lines = range(_line(SOURCE, first), _line(SOURCE, last) + 1)
    assert statement_lines(SOURCE, _line(SOURCE, code)) == frozenset(lines)


def test_the_cases_belong_to_their_statement() -> None:
    """A case that is not taken is executed all the same, as it is compared."""
    heads = frozenset(_line(SOURCE, head) for head in ("match copies", "case 1", "case _"))
    assert statement_lines(SOURCE, _line(SOURCE, "case _")) == heads


@pytest.mark.parametrize("code", ["LIMIT = 3", "floor: int", "@note", "class Gate", "def opens"])
def test_what_executes_at_import_concerns_everything(code: str) -> None:
    """Constants, fields, decorators and defaults."""
    assert statement_lines(SOURCE, _line(SOURCE, code)) is None


def _pytest(place: Path, *options: str) -> str:
    """Run the tests of two files in a folder of their own."""
    (place / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (place / "gates.py").write_text(GATES)
    (place / "test_gates.py").write_text(TEST_GATES)
    path = f"import sys; sys.path[:0] = ['.', {str(ROOT)!r}]; import pytest; "
    plugins = ["-p", "tests.mutants.hooks", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-c", f"{path}sys.exit(pytest.main())", "-v", *plugins, *options],
        cwd=place,
        env={**os.environ, **ENVIRONMENT},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_recording_names_the_tests_that_execute_a_line(tmp_path: Path) -> None:
    """The test file is named, too, if the line executes while its tests are collected."""
    recording = tmp_path / "recording"
    recording.mkdir()
    _pytest(tmp_path, "--record", str(recording / f"{TESTS}.coverage"), "--module", "gates.py")
    found = Executions(recording, tmp_path)
    assert found.of("gates.py", GATES, _line(GATES, "LIMIT = 3")) is None
    file, few = "test_gates.py", "test_gates.py::test_few"
    assert found.of("gates.py", GATES, _line(GATES, "if copies")) == frozenset((file, few))
    assert found.of("gates.py", GATES, _line(GATES, "return True")) == frozenset((file,))
    assert found.of("gates.py", GATES, _line(GATES, "return None")) == frozenset((few,))
    assert len(found.durations) == 3


def test_the_selected_tests_run_alone_and_in_order(tmp_path: Path) -> None:
    """Tests that are unknown because the mutant renames them run last."""
    selected = tmp_path / "selected.json"
    selected.write_text('["test_gates.py::test_nothing"]')
    known = tmp_path / "known.json"
    known.write_text('["test_gates.py::test_nothing", "test_gates.py::test_few"]')
    options = ["--selected", str(selected), "--known", str(known)]
    lines = _pytest(tmp_path, *options).splitlines()
    passed = [line.split()[0].partition("::")[2] for line in lines if " PASSED" in line]
    assert passed == ["test_nothing", "test_found[True]"]


def test_what_runs_for_ever_is_ended_by_its_processor_time() -> None:
    """Waiting takes none, however slow the machine is."""
    code = (
        "import time; from tests.mutants import time_limits; time_limits.begin(1); "
        "time.sleep(3); print('waited', flush=True)\nwhile True: pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.stdout == "waited\n"
    assert f"TimeoutError: {NO_END}" in done.stderr


def test_what_is_ended_by_its_processor_time_has_time_to_report_it() -> None:
    """The kernel repeats the signal each second: it would kill the process at its shutdown."""
    code = (
        "import time; from tests.mutants import time_limits; time_limits.begin(1)\n"
        "try:\n    while True: time.time()\n"
        "finally:\n    ends = time.process_time() + 2.5\n"
        "    while time.process_time() < ends: pass\n    print('reported')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "reported\n")


def test_what_killed_before_goes_first_then_what_is_quick() -> None:
    """First what killed mutants of the same module."""
    killers = Killers()
    killers.learn("a/gates.py", "tests/test_x.py::test_slow")
    killers.learn("a/turns.py", "native 7: InvariantViolationError: twice")
    costs = {"tests/test_x.py::test_slow": 9.0, "tests/test_x.py::test_b": 2.0, "native 3": 1.0}
    listed = ["native 3", "native 7", "tests/test_gates.py::test_a", *costs]
    assert killers.ordered("a/gates.py", dict.fromkeys(listed), costs) == [
        "tests/test_x.py::test_slow",
        "tests/test_x.py::test_b",
        "tests/test_gates.py::test_a",
        "native 7",
        "native 3",
    ]


def test_a_new_unit_test_leaves_the_verdict_of_the_histories(tmp_path: Path) -> None:
    """The tests judge survivors again; a history plays the same again."""
    survivor = Mutant("a.py", "f", "a", "b", 1, "b")
    dead = Mutant("a.py", "f", "c", "d", 1, "d")
    ledger = Ledger(tmp_path / "rows", Trees("before", "same"))
    ledger.write(survivor, Verdict(None, 5), 0)
    assert ledger.verdict(survivor, 300) is None
    ledger.write(survivor, Verdict(None, 20), 300)
    ledger.write(dead, Verdict("tests/test_a.py::test_a", 5), 0)
    assert ledger.verdict(survivor, 300) == Verdict(None, 20)
    after = Ledger(tmp_path / "rows", Trees("after", "same"))
    assert after.verdict(survivor, 300) is None
    assert after.stage(survivor, 300) == Verdict(None, 20)
    assert after.verdict(dead, 300) == Verdict("tests/test_a.py::test_a", 5)
