"""The explorer notices changed rules, and repairs of former defects that are taken back."""

from __future__ import annotations

import pytest

from tests.explore.mutants import EQUIVALENT, FINDINGS, MUTANTS, Mutant, applied, shown_by
from tests.explore.search import explore
from tests.explore.shapes import MOVE, native

QUICK = {
    "",
    "move",
    "swap",
    "RF 1 to 2",
    "jump",
    "drain of the added broker",
    "delegated RF 1 moves, topic replaced while requests wait",
}
"""The first shapes that take less than a second."""


def is_quick(mutant: Mutant) -> bool:
    """Return whether a mutant shows at once."""
    return (mutant.shapes or ("",))[0] in QUICK


@pytest.mark.parametrize(
    "mutant", [*MUTANTS, *EQUIVALENT, *FINDINGS], ids=lambda mutant: mutant.name
)
def test_the_text_of_a_mutant_is_found(mutant: Mutant) -> None:
    """A change of the code that moves the rule has to move the mutant."""
    with applied(mutant):
        pass


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if is_quick(m)], ids=lambda mutant: mutant.name
)
def test_a_changed_rule_shows_without_a_fault(mutant: Mutant) -> None:
    """The ordinary course of a plan breaks a law, or does not end."""
    assert shown_by(mutant).law is not None


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    [*(m for m in MUTANTS if not is_quick(m)), *FINDINGS],
    ids=lambda mutant: mutant.name,
)
def test_a_changed_rule_shows_with_a_fault(mutant: Mutant) -> None:
    """With one fault or one delay at some instant."""
    assert shown_by(mutant, seconds=250).law is not None


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", EQUIVALENT, ids=lambda mutant: mutant.name)
def test_a_harmless_change_does_not_show(mutant: Mutant) -> None:
    """The shapes in which it could show are explored to the end."""
    how = shown_by(mutant, seconds=250)
    assert how.law is None
    assert how.is_complete


@pytest.mark.exhaustive
def test_one_of_three_rules_minds_a_restart() -> None:
    """A restart while a topic is read again is noted twice, and a deletion relies on the state."""
    kept = next(m for m in EQUIVALENT if m.name.startswith("forget restarts"))
    relied = next(m for m in MUTANTS if m.name.startswith("delete by an ISR"))
    noted = Mutant(
        "note no restart that no controller treated",
        "controller.core.role.fold",
        "        _note_untreated(view, joined)\n",
        "        pass\n",
        (kept.shapes[0],),
    )
    assert shown_by(noted).law is None
    with applied(kept):
        assert shown_by(noted).law is None
        with applied(relied):
            assert shown_by(noted).law is not None


@pytest.mark.parametrize("name", ["in the ISR", "in the ISR at the start"])
def test_one_of_two_rules_excludes_what_is_dropped(name: str) -> None:
    """The write of the exclusion does, or the next cycle."""
    kept = next(m for m in EQUIVALENT if m.name == f"keep the dropped replicas {name}")
    left = next(m for m in MUTANTS if m.name.startswith("leave an excluded replica"))
    assert shown_by(kept).law is None
    with applied(left):
        assert shown_by(kept).law is not None


def test_nothing_stays_changed() -> None:
    """The code is as it was."""
    with applied(next(m for m in MUTANTS if m.name == "await no deletion")):
        assert explore(native("move", *MOVE)).violation is not None
    assert explore(native("move", *MOVE)).violation is None
