"""What keeps the space small loses no violation, and what is copied shares nothing."""

from __future__ import annotations

from tests.explore.mutants import MUTANTS, applied
from tests.explore.search import explore, replay
from tests.explore.shapes import MOVE, native
from tests.explore.system import initial, submit

SHOWN_BY_ORDER = "await no deletion"


def test_states_with_one_key_have_the_same_future() -> None:
    """A copy of a state, played on, stays equal to the state, played on."""
    shape = native("move", *MOVE)
    system = initial(shape)
    submit(system)
    copy = system.copied({})
    for _ in range(60):
        assert copy.key() == system.key()
        action = next(system.actors(), None) or next(system.timers(), None)
        if action is None:
            break
        system.do(action)
        copy.do(action)


def test_a_copy_is_not_changed_by_what_happens_to_the_state() -> None:
    """What is shared is immutable."""
    system = initial(native("move", *MOVE))
    submit(system)
    for _ in range(40):
        copy = system.copied({})
        key = copy.key()
        action = next(system.actors())
        system.do(action)
        assert copy.key() == key


def test_a_history_repeats() -> None:
    """A violation is found again when its history is played again."""
    mutant = next(m for m in MUTANTS if m.name == SHOWN_BY_ORDER)
    with applied(mutant):
        result = explore(native("move", *MOVE))
        assert result.violation is not None
        last = [violation for _, _, violation in replay(result.shape, result.history(result.at))]
    assert last[-1] == result.violation
    assert not any(last[:-1])


def test_a_fixed_order_shows_what_any_order_shows() -> None:
    """Bounded delays explore less than every order of messages, and find the same defect."""
    mutant = next(m for m in MUTANTS if m.name == SHOWN_BY_ORDER)
    with applied(mutant):
        bounded = explore(native("move", *MOVE))
        every = explore(native("move", (1,), (2,), is_bounded=False), seconds=60)
    assert bounded.violation is not None
    assert every.violation is not None
