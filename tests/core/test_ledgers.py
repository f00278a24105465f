"""Ledgers: each declares how long it lives, and the end of a lifetime replaces exactly its own."""

from __future__ import annotations

import ast
from dataclasses import fields
from inspect import get_annotations, signature
from pathlib import Path
from typing import Final

import pytest

from controller.core.bases import Ledger, Lifetime
from controller.core.core_settings import Options
from controller.core.model import TopicPartition
from controller.core.view import ClusterView

CORE: Final = Path(__file__).parents[2] / "controller" / "core"
NO_LEDGERS: Final = {"options", "due"}
"""The settings of the daemon, and the worklist, which lasts for a cycle."""
NOT_FORGOTTEN: Final = {
    *("leadership.seeding", "leadership.refreshing", "leadership.awaited_reads"),
    *("topics.missing", "topics.requested", "topics.unreadable", "topics.names_by_id"),
}
"""Reads under way, what the next list of topics ends, and names by the ids that went with them."""
SUFFIXES: Final = {f"_{lifetime.name.lower()}": lifetime for lifetime in Lifetime}


def ledgers(view: ClusterView) -> dict[str, Ledger]:
    """Return the ledgers of a view by their names."""
    return {f.name: getattr(view, f.name) for f in fields(view) if f.name not in NO_LEDGERS}


def test_the_view_is_the_sum_of_ledgers() -> None:
    """One of another kind would outlive every lifetime."""
    for name, ledger in ledgers(ClusterView(Options())).items():
        assert isinstance(ledger, Ledger), name
        assert "lifetime" in vars(type(ledger)), name


def test_a_second_ledger_of_a_subject_is_named_by_its_lifetime() -> None:
    """The name shows at every use how long the fact lives."""
    for name, ledger in ledgers(ClusterView(Options())).items():
        for suffix, lifetime in SUFFIXES.items():
            if name.endswith(suffix):
                assert ledger.lifetime is lifetime, name


def test_a_ledger_stands_in_the_model_of_its_subject() -> None:
    """There it is found beside the values that it holds."""
    for name, ledger in ledgers(ClusterView(Options())).items():
        subject = "role" if name == "tenure" else name.partition("_")[0]
        assert type(ledger).__module__ == f"controller.core.{subject}.model"


def test_every_ledger_is_part_of_the_view() -> None:
    """Facts in another one would not be ended."""
    defined = {
        node.name
        for path in CORE.glob("*/model.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Ledger" for base in node.bases)
    }
    assert defined == {type(x).__name__ for x in ledgers(ClusterView(Options())).values()}


@pytest.mark.parametrize("lifetime", Lifetime)
def test_the_end_of_a_lifetime_replaces_its_ledgers_and_no_other(lifetime: Lifetime) -> None:
    """Nothing outlives the event that ends it, and nothing else is forgotten."""
    view = ClusterView(Options())
    before = ledgers(view)
    view.end(lifetime)
    for name, ledger in ledgers(view).items():
        assert (ledger is not before[name]) == (ledger.lifetime is lifetime), name


def test_nothing_is_left_of_what_is_gone_but_reads_under_way() -> None:
    """A later topic of the name would be judged by the facts of the former."""
    keys = {"TopicPartition": TopicPartition("t", 0), "str": "t"}
    left = set()
    for name, ledger in ledgers(ClusterView(Options())).items():
        forget = getattr(ledger, "forget", None)
        if forget is None:
            continue
        (kind,) = (parameter.annotation for parameter in signature(forget).parameters.values())
        of_kind = (f"dict[{kind}", f"set[{kind}")
        found = {
            n: getattr(ledger, n)
            for n, t in get_annotations(type(ledger)).items()
            if t.startswith(of_kind)
        }
        for facts in found.values():
            facts.update({keys[kind]: None} if isinstance(facts, dict) else {keys[kind]})
        forget(keys[kind])
        left |= {f"{name}.{field}" for field, facts in found.items() if facts}
    assert left == NOT_FORGOTTEN
