"""The governor of rates: its rules, and its goals in a model of brokers under load."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

import pytest

from controller.core.model import BrokerId, Instant
from controller.core.pacing import governor
from controller.core.pacing.governor import Measured, RateBounds
from controller.core.pacing.model import GovernedRate, Signal, SignalKind
from tests.core.pacing.broker_loads import (
    MB,
    LoadedCluster,
    first_met,
    random_cluster,
    spread,
)

BOUNDS: Final = RateBounds(5 * MB, 1000 * MB)
START: Final = Instant(100.0)
LATER: Final = Instant(110.0)
RATE: Final = GovernedRate(100 * MB, START, "before", floor=5 * MB)
SEEDS: Final = range(16)


def readings(*strains: float, last: float = LATER, leader: int = 1) -> tuple[Signal, ...]:
    """Return readings of the probe of successive seconds."""
    return tuple(
        _signal(SignalKind.PROBE, strain, last - len(strains) + 1 + n, leader)
        for n, strain in enumerate(strains)
    )


def _signal(kind: SignalKind, strain: float, at: float, leader: int | None = None) -> Signal:
    return Signal(
        kind=kind,
        value=strain / 2,
        objective=0.5,
        since=Instant(at - 1.0),
        at=Instant(at),
        evidence=f"{kind} {strain}",
        broker=None if leader is None else BrokerId(leader),
    )


def after(rate: GovernedRate, *strains: float, others: Sequence[Signal] = ()) -> GovernedRate:
    """Return a rate after readings of the last seconds."""
    measured = Measured(readings=readings(*strains), others=others, is_probed=True)
    return governor.judged(rate, measured, BOUNDS, LATER)


def test_the_rate_grows_while_the_objective_was_never_missed() -> None:
    """It doubles on a quiet broker."""
    assert after(RATE, 0.01, 0.01, 0.01, 0.01).bytes_per_s == 200 * MB


def test_the_rate_grows_as_fast_after_judgements_without_readings() -> None:
    """Before the first reading nothing is known of what is calm."""
    blind = governor.judged(RATE, Measured(), BOUNDS, Instant(START + governor.SLOW_EVERY_S))
    begun = replace(blind, changed_at=START, bytes_per_s=RATE.bytes_per_s)
    assert after(begun, 0.08, 0.08, 0.08, 0.08).bytes_per_s == 200 * MB


def test_the_more_strain_the_slower_the_rate_grows() -> None:
    """It is not to pass the objective by far."""
    found = [after(RATE, *[s] * 4).bytes_per_s for s in (0.02, 0.15, 0.25, 0.35, 0.55, 0.65)]
    assert found == sorted(found, reverse=True)
    assert found[-2] < 110 * MB
    assert found[-1] == 100 * MB


def test_the_rate_grows_up_to_what_its_strain_at_other_rates_says_is_possible() -> None:
    """The inverse of the strain falls in a straight line."""
    points = ((25 * MB, 1 / 12), (50 * MB, 1 / 9.5))
    assert governor.possible((*points, (100 * MB, 1 / 4.5))) == pytest.approx(132.5 * MB)
    known = after(replace(RATE, points=points), *[1 / 4.5] * 4)
    assert known.bytes_per_s == pytest.approx(100 * MB + 0.9 * 32.5 * MB, rel=0.001)
    assert known.points[:2] == points
    assert known.points[2] == pytest.approx((100 * MB, 1 / 4.5))
    assert governor.possible(((25 * MB, 0.2), (50 * MB, 0.2))) is None


def test_a_rate_that_began_with_a_burst_grows_less_the_next_time() -> None:
    """A single reading is enough for that."""
    changed = replace(RATE, changed_at=Instant(LATER - governor.INTERVAL_S - 1))
    assert after(changed, 0.8, 0.02, 0.02, 0.02, 0.02).bytes_per_s == 115 * MB


def test_a_rate_of_which_copies_use_little_does_not_grow() -> None:
    """Nothing shows what it would do to producers."""
    measured = Measured(readings=readings(*[0.01] * 4), is_probed=True, is_unused=True)
    assert governor.judged(RATE, measured, BOUNDS, LATER).bytes_per_s == RATE.bytes_per_s
    late = replace(measured, readings=readings(1.2, 1.2, 1.2))
    assert governor.judged(RATE, late, BOUNDS, LATER).bytes_per_s == 88 * MB


def test_the_rate_stays_near_the_objective() -> None:
    """Strain above ``CALM`` says that there is no room."""
    assert after(RATE, 0.7, 0.7, 0.7, 0.7).bytes_per_s == RATE.bytes_per_s


def test_a_missed_objective_lowers_the_rate_and_remembers_it() -> None:
    """By a little, with the evidence."""
    found = after(RATE, 0.5, 1.2, 1.3, 1.1)
    assert (found.bytes_per_s, found.too_high) == (88 * MB, 100 * MB)
    assert found.why == "probe 1.2"


def test_an_objective_that_is_missed_again_lowers_the_rate_by_more() -> None:
    """A slight cut was not enough: the load rose, or there is a backlog."""
    missed = replace(RATE, too_high=110 * MB, misses=1)
    found = after(missed, 1.2, 1.3, 1.1)
    assert (found.bytes_per_s, found.too_high, found.misses) == (40 * MB, 110 * MB, 2)


def test_one_reading_decides_nothing() -> None:
    """A pause of a broker's garbage collector is no load."""
    assert after(RATE, 0.01, 0.01, 9.0, 0.01).bytes_per_s >= RATE.bytes_per_s


def test_severe_strain_lowers_the_rate_to_a_tenth() -> None:
    """Three readings in succession are no accident."""
    found = after(RATE, 0.1, 3.0, 3.0, 3.0)
    assert (found.bytes_per_s, found.too_high) == (10 * MB, 75 * MB)


def test_no_rate_is_below_what_the_copies_need() -> None:
    """They would never end."""
    assert after(replace(RATE, floor=60 * MB), 3.0, 3.0, 3.0).bytes_per_s == 60 * MB


def test_readings_from_before_a_change_decide_nothing() -> None:
    """They are of another rate."""
    changed = replace(RATE, changed_at=Instant(104.0))
    early = readings(3.0, 3.0, 3.0, last=104.0)
    found = governor.judged(changed, Measured(readings=early, is_probed=True), BOUNDS, LATER)
    assert found == changed


def test_a_rate_is_changed_once_in_five_seconds() -> None:
    """Each change is a write and a notification of the broker."""
    changed = replace(RATE, changed_at=Instant(LATER - governor.INTERVAL_S + 0.1))
    assert after(changed, 3.0, 3.0, 3.0, 3.0) == changed


def test_without_readings_the_rate_is_held_and_falls_to_its_floor_then() -> None:
    """What is not measured is not risked."""
    assert after(RATE) == RATE
    measured = Measured(is_probed=True, missing="no reading of the probe for 31 s")
    found = governor.judged(RATE, measured, BOUNDS, LATER)
    assert (found.bytes_per_s, found.why) == (RATE.floor, measured.missing)
    assert governor.judged(found, measured, BOUNDS, Instant(LATER + 60)) == found


def test_without_a_probe_the_rate_grows_slowly() -> None:
    """Only coarse signals would say that it is too high."""
    blind = Measured()
    assert governor.judged(RATE, blind, BOUNDS, LATER).bytes_per_s == RATE.bytes_per_s
    later = Instant(START + governor.SLOW_EVERY_S)
    assert governor.judged(RATE, blind, BOUNDS, later).bytes_per_s == 115 * MB


def test_with_a_query_alone_the_rate_grows_as_fast_as_its_range_allows() -> None:
    """Half of the range has to be of the present rate."""

    def queried(at: float, range_s: float = 30.0) -> int:
        result = replace(_signal(SignalKind.QUERY, 0.02, at), since=Instant(at - range_s))
        measured = Measured(others=[result], is_queried=True)
        return governor.judged(RATE, measured, BOUNDS, Instant(at + 1)).bytes_per_s

    assert queried(START + governor.SETTLE_S + 14) == RATE.bytes_per_s
    assert queried(START + governor.SETTLE_S + 15) > 160 * MB
    assert queried(START + governor.SETTLE_S + 5, range_s=10) > 160 * MB


@pytest.mark.parametrize(
    ("kind", "rate"),
    [(SignalKind.ISR, 50), (SignalKind.ANSWER, 50), (SignalKind.QUERY, 88)],
)
def test_each_other_signal_counts_by_itself(kind: SignalKind, rate: int) -> None:
    """A lost replica or a late answer is far worse than a missed objective."""
    others = [_signal(kind, 1.5, LATER)]
    assert after(RATE, 0.1, 0.1, 0.1, others=others).bytes_per_s == rate * MB


def test_the_bounds_hold_always() -> None:
    """Also where they change while a rate stands."""
    high = replace(RATE, bytes_per_s=2000 * MB)
    assert after(high, 0.01, 0.01, 0.01).bytes_per_s == BOUNDS.most
    raised = replace(RATE, floor=300 * MB)
    assert after(raised, 0.7, 0.7, 0.7).bytes_per_s == 300 * MB


def test_the_first_rate_is_the_one_in_force_within_the_bounds() -> None:
    """A daemon that takes over changes nothing at first."""
    for present, first in ((None, 5 * MB), (70 * MB, 70 * MB), (1, 5 * MB), (10**12, 1000 * MB)):
        assert governor.begun(present, 5 * MB, BOUNDS, START).bytes_per_s == first


def test_later_requests_begin_with_a_share_of_the_last_rate() -> None:
    """What was too high is remembered, too; after a while nothing is."""
    last = replace(RATE, bytes_per_s=60 * MB, too_high=70 * MB, misses=1)
    found = governor.begun(None, 5 * MB, BOUNDS, LATER, last)
    assert (found.bytes_per_s, found.too_high, found.is_missed) == (20 * MB, 70 * MB, False)
    assert found.why == "a third of the rate 10 s ago, to begin with"
    assert governor.begun(80 * MB, 5 * MB, BOUNDS, LATER, last).bytes_per_s == 80 * MB
    assert governor.begun(None, 40 * MB, BOUNDS, LATER, last).bytes_per_s == 40 * MB
    late = Instant(START + governor.REMEMBERED_S + 1)
    found = governor.begun(None, 5 * MB, BOUNDS, late, last)
    assert (found.bytes_per_s, found.too_high) == (5 * MB, None)


def test_the_follower_of_a_slow_broker_counts_with_its_own_probe() -> None:
    """Of the probe that it leads and the one that it follows, the lower reading counts."""
    slow, own = readings(3.0, 3.0, 3.0, leader=1), readings(0.1, 0.1, 0.1, leader=2)
    assert [s.strain for s in governor.attributed(own, slow)] == pytest.approx([0.1] * 3)
    assert governor.attributed((), slow) == slow


# --- the goals -----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=(0.0, 0.016), ids=("smooth", "bursts"))
def settled(request: pytest.FixtureRequest) -> list[LoadedCluster]:
    """Return random clusters after 400 seconds; 3 % of their readings are wrong, all are late."""
    clusters = [random_cluster(seed, bursts_s=request.param) for seed in SEEDS]
    for cluster in clusters:
        cluster.run(400)
    return clusters


def test_rates_settle_below_the_objective(settled: list[LoadedCluster]) -> None:
    """Within 20 % of their median, near what is free, while 99 % of the records are in time."""
    brokers = [b for c in settled for b in c.brokers]
    steady = [c for c in settled if all(spread(b.rates[200:]) <= 0.2 for b in c.brokers)]
    assert len(steady) >= 0.9 * len(settled)
    early = [next((n for n, r in enumerate(b.rates) if r >= 0.5 * b.free), 400) for b in brokers]
    assert median(early) <= 50
    # With bursts, 76 % is what a fixed rate may use while 99 % are in time.
    has_bursts = any(b.burst_s for b in brokers)
    used = median(sum(b.rates[200:]) / 200 / b.free for b in brokers)
    assert used >= (0.7 if has_bursts else 0.85)
    assert sum(sum(b.late[200:]) / 200 for b in brokers) / len(brokers) <= 0.01
    assert sum(sum(b.late[:100]) for b in brokers) / len(brokers) <= 2.0


def test_writes_are_few(settled: list[LoadedCluster]) -> None:
    """No broker's rate is written twice in five seconds, and most are left for longer."""
    for cluster in settled:
        for broker in cluster.brokers:
            times = [at for at, changed in cluster.writes if changed == broker.id]
            apart = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert min(apart) >= governor.INTERVAL_S
            assert len(times) <= 400 / 8


@pytest.mark.parametrize(("bursts_s", "met_again", "twice"), [(0.0, 0.9, 0.75), (0.016, 0.8, 0.65)])
def test_the_load_of_producers_comes_and_goes(
    bursts_s: float, met_again: float, twice: float
) -> None:
    """After it tripled, the objective is met within 30 s; after it fell, rates double in 60 s."""
    met, doubled = [], []
    for seed in SEEDS:
        cluster = random_cluster(seed, bursts_s=bursts_s)
        cluster.run(300)
        for broker in cluster.brokers:
            broker.produced *= 3
        cluster.run(160)
        met += [first_met(b.late[300:]) for b in cluster.brokers]
        before = [(b, median(b.rates[-40:])) for b in cluster.brokers]
        for broker in cluster.brokers:
            broker.produced /= 3
        cluster.run(60)
        # Where there is room for that, and the rate was governed at all.
        roomy = [(b, r) for b, r in before if b.free > 2.3 * r and r > 1.01 * BOUNDS.least]
        doubled += [max(b.rates[-60:]) >= 2 * r for b, r in roomy]
    assert median(met) <= 20
    assert sum(seconds <= 30 for seconds in met) >= met_again * len(met)
    assert sum(doubled) >= twice * len(doubled)


def test_a_frozen_broker_is_not_flooded() -> None:
    """Its probe is silent: the rate falls to the least after 30 s."""
    cluster = random_cluster(3)
    cluster.run(200)
    cluster.frozen = frozenset(b.id for b in cluster.brokers)
    cluster.run(45)
    assert {b.rate.bytes_per_s for b in cluster.brokers} == {BOUNDS.least}


def test_copies_that_need_a_rate_keep_it() -> None:
    """However strained the broker is."""
    cluster = random_cluster(4)
    cluster.needed = 80 * MB
    for broker in cluster.brokers:
        broker.produced = broker.capacity
    cluster.run(60)
    assert all(b.rate.bytes_per_s == 80 * MB for b in cluster.brokers)
    assert all(b.rate.is_at_floor for b in cluster.brokers)
