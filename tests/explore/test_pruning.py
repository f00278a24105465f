"""What keeps the space small loses no violation, and what is copied shares nothing."""

from __future__ import annotations

from collections import deque

import pytest

from tests.explore.canonical import RULES, without
from tests.explore.mutants import MUTANTS, applied
from tests.explore.search import Edge, edges, explore, replay, stuck, take
from tests.explore.shapes import ALL, FOCUSED, MOVE, RECREATE, native
from tests.explore.system import Budget, Shape, System, initial, submit

SHOWN_BY_ORDER = "await no deletion"
PRUNED = (
    native("a broker dies", (1,), (2,), faults=frozenset({"kill"})),
    native("a late request", (1,), (2,), delays=1, delayed=frozenset({"link"})),
    native("a topic created again", (1,), (2,), operator=2, operations=RECREATE),
)
"""Small shapes in which rules make two states one."""
COMPARED = 300
"""How many pairs of states are compared in each."""


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


def futures(system: System, budget: Budget) -> dict[Edge, tuple[bytes, str | None]]:
    """Return where each next step leads, and the law that it breaks."""
    found: dict[Edge, tuple[bytes, str | None]] = {}
    for edge in edges(system, budget):
        if budget.spend(edge.cost) is not None:
            following = system.copied({})
            violation = take(following, edge)
            found[edge] = (following.key(), violation)
    return found


def precise(system: System) -> bytes:
    """Return what identifies a state without the rules."""
    with without(RULES):
        system.zookeeper.contents = None
        key = system.key()
    system.zookeeper.contents = None
    return key


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", PRUNED, ids=lambda shape: shape.name)
def test_states_that_a_rule_makes_one_have_the_same_futures(shape: Shape) -> None:
    """So no violation is lost: where one of them is explored, the other is not needed."""
    root = initial(shape)
    submit(root)
    first: dict[tuple[bytes, Budget], tuple[bytes, System]] = {}
    queue: deque[tuple[System, Budget]] = deque([(root, shape.budget)])
    compared = 0
    while queue and compared < COMPARED:
        system, budget = queue.popleft()
        for edge in list(edges(system, budget)):
            left = budget.spend(edge.cost)
            if left is None:
                continue
            following = system.copied({})
            assert take(following, edge) is None
            key = following.key()
            known = first.get((key, left))
            if known is None:
                first[key, left] = (precise(following), following)
                queue.append((following.copied({}), left))
            elif known[0] != precise(following):
                compared += 1
                assert futures(known[1], left) == futures(following, left), edge
    assert compared


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_loses_no_violation(rule: str) -> None:
    """Without it there are more states, or as many, and the same is found."""
    shape = native("RF 1 moves", (1,), (2,), faults=frozenset({"refuse"}))
    with_rule = explore(shape)
    with without({rule}):
        every = explore(shape)
    assert every.states >= with_rule.states
    for result in (with_rule, every):
        assert result.violation is None
        assert not stuck(result)
    mutant = next(m for m in MUTANTS if m.name == SHOWN_BY_ORDER)
    with applied(mutant):
        found = explore(shape)
        with without({rule}):
            again = explore(shape)
    assert found.violation is not None
    assert again.violation is not None
    assert len(found.history(found.at)) == len(again.history(again.at))


def test_a_larger_budget_shows_what_a_smaller_one_shows() -> None:
    """A state is not expanded again with a budget that an earlier one covers."""
    shape = native("late fetches", (1,), (2,), delays=1, delayed=frozenset({"fetch"}))
    mutant = next(m for m in MUTANTS if m.name == SHOWN_BY_ORDER)
    for is_changed in (False, True):
        results = []
        for covers in (True, False):
            if is_changed:
                with applied(mutant):
                    results.append(explore(shape, is_covering=covers))
            else:
                results.append(explore(shape, is_covering=covers))
        assert [r.violation is not None for r in results] == [is_changed, is_changed]
        assert results[0].transitions <= results[1].transitions


def test_no_two_brokers_can_be_exchanged() -> None:
    """
    So symmetry would make no two states one.

    A broker that a plan names has a position there, on which decisions depend; of brokers that
    nothing names, no shape has two.
    """
    for shape in (*ALL, *FOCUSED):
        named = {*shape.before, *shape.target, *shape.retarget, *shape.tolerates, shape.drained}
        others = set(range(1, shape.brokers + 1)) - named.union(shape.mortal or ())
        assert len(others) <= 1, shape.name
