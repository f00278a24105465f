"""
The mutants of a tree: single changes of an expression or a statement, and a sample of them.

The operators are Cosmic Ray's, without those whose mutants never differ in Python (``is`` for
``==``) or always crash (``<<`` for ``+``), and two of our own: a function that returns None, and a
call that is left out. A change that only annotations see is none.
"""

from __future__ import annotations

import ast
import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import parso
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

DECISIONS: Final = (
    "controller/core/calls",
    "controller/core/deletions",
    "controller/core/leadership",
    "controller/core/pacing/fold.py",
    "controller/core/pacing/throttle_settings.py",
    "controller/core/pacing/throttles.py",
    "controller/core/reassignments",
    "controller/core/requests/cancellation.py",
    "controller/core/role",
    "controller/core/topics",
    "controller/reactor/commits.py",
    "controller/zk/claims.py",
)
"""The files and rooms that are mutated."""
_IDENTITIES: Final = {"Is", "IsNot"}
_ARITHMETIC: Final = {
    ("Add", "Sub"),
    ("Sub", "Add"),
    ("Mul", "FloorDiv"),
    ("Div", "Mul"),
    ("FloorDiv", "Mul"),
    ("Mod", "Mul"),
    ("BitOr", "BitAnd"),
    ("BitAnd", "BitOr"),
}
_UNARY: Final = {("Delete", "Not"), ("Delete", "USub")}
_PLAIN: Final = {
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ZeroIterationForLoop",
}
Place = tuple[int, int]


class Operator(Protocol):
    """A mutation operator, as Cosmic Ray calls it on each node of a parso tree."""

    def mutation_positions(self, node: Any) -> Iterable[tuple[Place, Place]]:  # noqa: ANN401
        """Return where the node can be mutated."""
        ...

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401
        """Return the mutated node."""
        ...


class ReturnNone:
    """Let a function return None in place of what it says."""

    def mutation_positions(self, node: Any) -> Iterable[tuple[Place, Place]]:  # noqa: ANN401
        """Return where a value is returned."""
        value = node.children[1].get_code().strip() if node.type == "return_stmt" else "None"
        if value not in {"None", "False"}:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401
        """Return the statement without its value."""
        del index
        return _code(node, "return None")


class SkipCall:
    """Leave out a call whose result nothing uses."""

    def mutation_positions(self, node: Any) -> Iterable[tuple[Place, Place]]:  # noqa: ANN401
        """Return where a call is a statement of its own."""
        is_call = node.type == "atom_expr" and node.children[-1].get_code().endswith(")")
        if is_call and node.parent.type == "simple_stmt":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401
        """Return a statement that does nothing."""
        del index
        return _code(node, "pass")


def _code(node: Any, code: str) -> Any:  # noqa: ANN401 - parso has no types
    parse: Any = parso.parse  # in some of its versions typed, and without types of its own
    return parse(node.get_first_leaf().prefix + code)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file; its name does not depend on its line."""

    path: str
    """Relative to the root of the tree."""
    function: str
    """The qualified name of the function or class around it."""
    before: str
    """The lines that change, without indentation."""
    after: str
    line: int
    code: str
    """The whole file with the change."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity of the mutant in the list of accepted ones and between runs."""
        return self.path, self.function, self.before, self.after

    def diff(self, original: str) -> str:
        """Return the change as a unified diff."""
        lines = difflib.unified_diff(
            original.splitlines(keepends=True),
            self.code.splitlines(keepends=True),
            f"a/{self.path}",
            f"b/{self.path}",
        )
        return "".join(lines)


def sample(root: Path, count: int, seed: int, under: Sequence[str] = DECISIONS) -> list[Mutant]:
    """
    Draw mutants of a tree: first the places, each with the same chance, then one change of each.

    Args:
        root: The tree.
        count: The number of mutants, at most.
        seed: Decides the choice; the same tree and seed give the same mutants in the same order.
        under: The files and folders to mutate.

    """
    chance = Random(seed)
    places = [(path, place) for path in files(root, under) for place in _places(root, path)]
    chance.shuffle(places)
    drawn: list[Mutant] = []
    for path, (_, changes) in places:
        if len(drawn) == count:
            break
        chance.shuffle(changes)
        source = (root / path).read_text(encoding="utf-8")
        mutants = (_mutant(path, source, operator, nth) for operator, nth in changes)
        drawn += [m for m in mutants if m is not None and m.key not in {d.key for d in drawn}][:1]
    return drawn


def files(root: Path, under: Sequence[str]) -> Iterator[str]:
    """Yield the paths of the modules in some files and folders of a tree."""
    for name in under:
        found = sorted((root / name).rglob("*.py")) if (root / name).is_dir() else [root / name]
        yield from (path.relative_to(root).as_posix() for path in found)


def _places(root: Path, path: str) -> list[tuple[tuple[Place, Place], list[tuple[Operator, int]]]]:
    """Return where a file can change, each place with the operators and their occurrences."""
    tree = get_ast((root / path).read_text(encoding="utf-8"))
    found: defaultdict[tuple[Place, Place], list[tuple[Operator, int]]] = defaultdict(list)
    for operator in operators():
        positions = (p for node in ast_nodes(tree) for p in operator.mutation_positions(node))
        for nth, place in enumerate(positions):
            found[place].append((operator, nth))
    return sorted(found.items(), key=lambda entry: entry[0])


def operators() -> list[Operator]:
    """Return the operators in use."""
    names = sorted(name for name in plugins.operator_names() if _is_used(name.rpartition("/")[2]))
    return [*(plugins.get_operator(name)() for name in names), ReturnNone(), SkipCall()]


def _is_used(name: str) -> bool:
    kind, _, pair = name.partition("_")
    before, _, after = pair.partition("_")
    match kind:
        case "ReplaceComparisonOperator":
            return (before in _IDENTITIES) == (after in _IDENTITIES)
        case "ReplaceBinaryOperator":
            return (before, after) in _ARITHMETIC
        case "ReplaceUnaryOperator":
            return (before, after) in _UNARY
        case _:
            return name in _PLAIN


def _mutant(path: str, source: str, operator: Operator, nth: int) -> Mutant | None:
    """Return what an operator makes of a file; None where no behaviour can differ."""
    code = mutate_code(source, operator, nth)
    if code is None:
        return None
    try:
        if _behaviour(code) == _behaviour(source):
            return None
    except SyntaxError:
        return None
    old, new = source.splitlines(), code.splitlines()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    first, last = changed[0], changed[-1]
    return Mutant(
        path,
        _function_at(source, first[1] + 1),
        _stripped(old[first[1] : last[2]]),
        _stripped(new[first[3] : last[4]]),
        first[1] + 1,
        code,
    )


def _stripped(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _behaviour(source: str) -> str:
    """Return a file without its annotations, which nothing evaluates, and its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(None)
            case ast.Expr(value=ast.Constant(value=str())):
                node.value = ast.Constant(None)
            case _:
                pass
    return ast.dump(tree)


def _function_at(source: str, line: int) -> str:
    """Return the qualified name of the innermost function or class around a line."""
    names: list[str] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    if child.lineno <= line <= (child.end_lineno or 0):
                        names.append(child.name)
                        visit(child)
                case _:
                    visit(child)

    visit(ast.parse(source))
    return ".".join(names)
