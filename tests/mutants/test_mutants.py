"""The mutants themselves: which are drawn, and what is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, accepted
from tests.mutants.mutants import DECISIONS, Mutant, sample
from tests.mutants.trials import COPIED, ROOMS

SOURCE = '''
from __future__ import annotations


class Gate:
    """Opens or not."""

    def opens(self, copies: int | None, floor: int) -> str | None:
        """Return what keeps it closed."""
        if copies is None:
            return "unknown"
        note(copies)
        return None if copies >= floor else "too few"
'''


def _all(root: Path) -> list[Mutant]:
    (root / "gate.py").write_text(SOURCE)
    return sample(root, 100, 1, ["gate.py"])


def test_the_same_seed_draws_the_same_mutants(tmp_path: Path) -> None:
    """Another seed draws other mutants."""
    drawn = _all(tmp_path)
    assert [m.key for m in _all(tmp_path)] == [m.key for m in drawn]
    assert sample(tmp_path, 2, 1, ["gate.py"]) == drawn[:2]
    assert any(sample(tmp_path, 100, n, ["gate.py"]) != drawn for n in range(2, 5))


def test_each_place_is_changed_once_and_annotations_never(tmp_path: Path) -> None:
    """No test can notice a change of an expression that is never evaluated."""
    drawn = _all(tmp_path)
    assert {m.function for m in drawn} == {"Gate.opens"}
    assert not any("def opens" in m.before for m in drawn)
    changes = {m.before: m.after for m in drawn}
    assert changes["note(copies)"] == "pass"
    assert changes['return "unknown"'] == "return None"
    assert any(m.after != m.before and "floor" in m.before for m in drawn)


def test_a_mutant_keeps_its_name_where_lines_above_it_change(tmp_path: Path) -> None:
    """The list of accepted ones names it so."""
    names = {m.key for m in _all(tmp_path)}
    (tmp_path / "gate.py").write_text(f"# One line more.\n{SOURCE}")
    assert {m.key for m in sample(tmp_path, 100, 1, ["gate.py"])} == names


def test_what_is_mutated_is_there() -> None:
    """Files and folders may be renamed."""
    assert all((ROOT / name).exists() for name in DECISIONS)


def test_a_trial_has_a_copy_of_all_that_its_tests_import() -> None:
    """Without it they fail, whatever the mutant."""
    judges = {ROOT / name for room in (*ROOMS.values(), ("tests/sim",)) for name in room}
    files = {file for name in judges for file in (name.rglob("*.py") if name.is_dir() else [name])}
    nodes = [n for file in files for n in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    imported = {
        n.module.partition(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and n.module
    }
    assert {name for name in imported if (ROOT / name).is_dir()} <= {*COPIED}


@pytest.mark.parametrize(("mutant", "why"), accepted().items(), ids=lambda part: part[1])
def test_an_accepted_mutant_has_a_reason_and_changes_code_that_is_there(
    mutant: tuple[str, str, str, str], why: str
) -> None:
    """A mutant of code that changed has to be judged again."""
    path, function, before, after = mutant
    code = (ROOT / path).read_text(encoding="utf-8")
    named = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.FunctionDef)]
    owners = [n for n in named if n.name == function.rpartition(".")[2]]
    assert len(owners) == bool(function)
    first, last = (owners[0].lineno - 1, owners[0].end_lineno) if owners else (0, None)
    lines = code.splitlines()[first:last]
    assert before in " ".join(line.strip() for line in lines)
    assert after not in {before, ""}
    assert why
