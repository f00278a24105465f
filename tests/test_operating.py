"""The guide describes every blocked reason and every finding of ``doctor``, nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from controller.core.model import BlockedBy
from controller.doctor.findings import Finding, Severity

ROOT = Path(__file__).resolve().parent.parent


def described(page: str) -> list[str]:
    """Return the first column of the tables of a page, where it names one thing."""
    text = (ROOT / "docs" / "guide" / page).read_text()
    return re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)


def checks() -> set[str]:
    """Return the name of every finding that the checks make."""
    calls = (
        node
        for module in (ROOT / "controller" / "doctor").glob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {Finding.__name__, *(severity.value for severity in Severity)}
    )
    return {str(c.args[0].value) for c in calls if isinstance(c.args[0], ast.Constant)}


def test_every_reason_to_wait_is_described_once() -> None:
    """An operator who reads it in the status finds it there."""
    found = described("operating.md")
    assert sorted(found) == sorted(by.value for by in BlockedBy)


def test_every_finding_is_described_once() -> None:
    """By the name that scripts see."""
    found = described("doctor.md")
    assert sorted(found) == sorted(checks())
