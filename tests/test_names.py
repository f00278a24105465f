"""Names of the product: each public name stands for one thing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent.parent / "controller"

REPEATED: Final = {
    "model": "each subject of the core has its values there",
    "records": "each subject of the core has its events and records there",
    "fold": "each subject of the core says there what they change",
    "reassignments": "a subject of the core, and the codecs of its znodes",
    "topics": "a subject of the core, and the codecs of its znodes",
    "doctor": "the checks, and the command that runs them",
    "pipeline": "the planner on Spark, and its commands",
}
"""The names of modules and packages that may stand in several rooms, and why."""


def test_each_module_name_stands_in_one_room() -> None:
    """Modules of one name say what each holds: ``http_server``, ``endpoint_server``."""
    count = Counter(
        path.parent.name if path.stem == "__init__" else path.stem for path in PACKAGE.rglob("*.py")
    )
    assert {name for name in count if count[name] > 1} == REPEATED.keys()


def test_each_public_class_name_is_defined_once() -> None:
    """Two of one name say whose they are: ``ForecastMove``, ``VolumeMove``."""
    defined = Counter(
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(
            r"^ *class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert [name for name, count in defined.items() if count > 1] == []


def test_requests_and_queries_are_called_so() -> None:
    """``ReassignmentSpec.asked`` is a key of its znode and of the journal."""
    named = re.compile(r"^ *(?:(?:async )?def |class )?(\w*ask\w*) *[(:=]", re.MULTILINE)
    found = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
        if re.search(r"(?:^|_)ask", name)
    }
    assert found == {"asked"}
