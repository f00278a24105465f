"""
The view changes only where ``ARCHITECTURE.md`` says so.

A module changes the view if it assigns to a field of one of its parts, or of a mutable object in
them, or calls a method that changes a container in them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Final

from controller.core.reassignments.model import Reassignment
from controller.core.requests.model import PlanNode, Request
from controller.core.topics.model import Topic
from controller.core.view import ClusterView

PACKAGE: Final = Path(__file__).parents[2] / "controller"
PARTS: Final = frozenset(f.name for f in fields(ClusterView)) - {"options"}
KEPT_IN_IT: Final = frozenset(
    f.name for kind in (Topic, PlanNode, Reassignment, Request) for f in fields(kind)
) - {"refused"}
"""Fields of mutable objects in the view; a result of the same room has ``refused``, too."""
CHANGING: Final = frozenset(
    {
        *("add", "append", "clear", "discard", "extend", "pop", "popitem", "remove", "setdefault"),
        *(
            "update",
            "enter",
            "wait",
            "count_outcome",
            "invalidate",
            "pass_over",
            "sort",
            "forget_brokers",
        ),
        *("put", "drop", "note", "note_all", "settle", "id_written", "forget", "request_of"),
        *("record_deleted_znodes", "record_stop", "record_settings_request"),
    }
)
"""Methods that change the container, or the object of the view, that they belong to."""
VIEWS_OF_THEIR_OWN: Final = {
    "previews/validation.py",
    "previews/drain_preview.py",
    "doctor/environment_checks.py",
}
"""They fill a view for one question, and the daemon does not run there."""


def test_the_view_changes_where_the_architecture_says() -> None:
    """Another module that changes it is a third party to every decision."""
    assert set(changing_modules()) == documented() | VIEWS_OF_THEIR_OWN


def test_the_reactor_changes_the_view_through_documented_functions_only() -> None:
    """What it imports from a module that changes the view is named with it."""
    named = set(re.findall(r"`(\w+)`", section()))
    for path in sorted((PACKAGE / "reactor").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and module_of(node) in documented():
                functions = {a.name for a in node.names if a.name[0].islower()}
                assert functions <= named, path.name


def section() -> str:
    """Return the part of the architecture that lists what changes the view."""
    text = PACKAGE.with_name("ARCHITECTURE.md").read_text(encoding="utf-8")
    return text.split("## What changes the view\n")[1].split("\n## ")[0]


def documented() -> set[str]:
    """Return the modules that the architecture lists."""
    return {f"core/{name}" for name in re.findall(r"`([\w/]+\.py)`", section())}


def module_of(node: ast.ImportFrom) -> str:
    """Return the file of an imported module, relative to the package."""
    return (node.module or "").removeprefix("controller.").replace(".", "/") + ".py"


def changing_modules() -> Iterator[str]:
    """Yield the modules that change a view, relative to the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        has_view = any(isinstance(n, ast.Name) and n.id == "ClusterView" for n in ast.walk(tree))
        name = path.relative_to(PACKAGE).as_posix()
        if not has_view or name == "core/view.py":
            continue
        is_core = name.startswith("core/")
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            changed = chain.from_iterable(map(changed_by, ast.walk(function)))
            parts = frozenset(bound_parts(function)) if is_core else frozenset()
            if any(lies_in_view(target, parts, is_core=is_core) for target in changed):
                yield name
                break


def bound_parts(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the local names of a function that stand for parts of a view."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                pairs = []
        for target, value in pairs:
            if isinstance(target, ast.Name) and is_part(value, frozenset()):
                yield target.id


def changed_by(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement or a call changes."""
    match node:
        case ast.Assign(targets=assigned) | ast.Delete(targets=assigned):
            for target in assigned:
                yield from target.elts if isinstance(target, ast.Tuple) else (target,)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGING:
            yield ast.Subscript(value, ast.Slice())
        case _:
            pass


def lies_in_view(target: ast.expr, parts: frozenset[str], *, is_core: bool) -> bool:
    """Return whether a target is a part of a view, lies in one, or is kept in one."""
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return False
    node: ast.expr = target
    while isinstance(node, ast.Attribute | ast.Subscript):
        if is_part(node, parts):
            return True
        node = node.value
    is_kept = isinstance(target, ast.Attribute) and target.attr in KEPT_IN_IT
    is_own = isinstance(node, ast.Name) and node.id == "self"
    return is_core and (is_part(node, parts) or (is_kept and not is_own))


def is_part(node: ast.expr, parts: frozenset[str]) -> bool:
    """Return whether an expression is a part of a view, or one of the names bound to one."""
    match node:
        case ast.Attribute(value=ast.Name(id="view") | ast.Attribute(attr="view" | "_view")):
            return node.attr in PARTS
        case ast.Name(id=name):
            return name in parts
        case _:
            return False
