"""The reads of a new tenure: accepted work first, the rest in bounded parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.effects import ReadPurpose, ReadStates, SetTimer
from controller.core.leadership.cluster_loading import HEAD_START_S, SEED_TIMER, seed
from controller.core.model import Instant, TopicPartition
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import Driver, tp

CHUNK = 2


def unread(*, work: str) -> tuple[ClusterView, Instant]:
    """Return a tenure that has read no state yet, with the last partition reassigned or listed."""
    driver = Driver({tp(n): (1, 2) for n in range(6)})
    if work == "reassigned":
        driver.submit({tp(5): (1, 3)})
        driver.view.requests.legacy = None
    elif work == "listed":
        driver.submit({tp(5): (1, 3)})
        driver.view.reassignments.by_partition.clear()
    view = driver.view
    view.options = replace(Options(), seed_chunk=CHUNK)
    view.leadership.states.clear()
    view.leadership.unseeded = {tp(n): None for n in range(6)}
    assert view.tenure.held is not None
    return view, view.tenure.held.since


def reads(view: ClusterView, due: Worklist, now: Instant) -> list[tuple[TopicPartition, ...]]:
    """Return the first states that are read."""
    effects = seed(view, due, now).effects
    assert all(e.purpose is ReadPurpose.SEED for e in effects if isinstance(e, ReadStates))
    return [e.partitions for e in effects if isinstance(e, ReadStates)]


@pytest.mark.parametrize("work", ["reassigned", "listed"])
@pytest.mark.parametrize("news", ["claimed", "plan"])
def test_the_states_of_the_work_are_read_at_once(work: str, news: str) -> None:
    """Steps go on as soon as these are known."""
    view, since = unread(work=work)
    due = Worklist()
    setattr(due, news, True)
    assert reads(view, due, since) == [(tp(5),)]


@pytest.mark.parametrize("work", ["reassigned", "listed"])
def test_the_states_of_the_rest_wait_a_moment_where_there_is_work(work: str) -> None:
    """Reading thousands of states keeps a processor busy."""
    view, since = unread(work=work)
    ready_at = Instant(since + HEAD_START_S)
    early = Instant(ready_at - 0.001)
    assert seed(view, Worklist(), early).effects == (SetTimer(SEED_TIMER, ready_at),)
    assert reads(view, Worklist(), ready_at) == [(tp(0), tp(1))]


def test_the_states_of_an_idle_cluster_are_read_at_once_in_parts() -> None:
    """Nothing waits for the processor; one part is read at a time."""
    view, since = unread(work="none")
    view.requests.legacy = None
    assert reads(view, Worklist(), since) == [(tp(0), tp(1))]
    view.leadership.seeding = {tp(0), tp(1)}
    assert seed(view, Worklist(), since).effects == ()
    del view.leadership.unseeded[tp(0)], view.leadership.unseeded[tp(1)]
    view.leadership.seeding.clear()
    assert reads(view, Worklist(), since) == [(tp(2), tp(3))]


def test_what_is_being_read_is_not_read_twice() -> None:
    """A plan that arrives meanwhile concerns a state that is under way already."""
    view, since = unread(work="reassigned")
    view.leadership.seeding = {tp(5)}
    assert reads(view, Worklist(plan=True), Instant(since + 1.0)) == []
    view.leadership.seeding.clear()
    del view.leadership.unseeded[tp(5)]
    assert reads(view, Worklist(plan=True), Instant(since + 1.0)) == [(tp(0), tp(1))]


def test_nothing_is_read_without_a_tenure_or_when_every_state_is_known() -> None:
    """Outside a tenure no state is kept."""
    view, since = unread(work="none")
    unseeded, view.leadership.unseeded = view.leadership.unseeded, {}
    assert seed(view, Worklist(claimed=True), since).effects == ()
    view.leadership.unseeded, view.tenure.held = unseeded, None
    assert seed(view, Worklist(claimed=True), since).effects == ()
