"""Forecasts of plans: examples computed by hand, and what holds for every plan."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.model import BlockedBy, BrokerId, LogDir, MinFree, TopicPartition
from controller.planning.copy_schedule import (
    CopyRole,
    ForecastLimits,
    ForecastMove,
    Pace,
    Place,
    play,
)
from controller.planning.forecast import (
    BURST_S,
    HELD_SHARE,
    PAST_FAST,
    PAST_SLOW,
    START_HIGH_S,
    START_LOW_S,
    STEP_HIGH_S,
    ForecastPlan,
    Rates,
    Wait,
    forecast,
)
from tests.core.builders import replicas, tp

MB = 1_000_000
ONE, TWO, THREE, FOUR = map(BrokerId, (1, 2, 3, 4))
ALL = frozenset(map(BrokerId, range(1, 7)))


def a_move(
    number: int, before: tuple[int, ...], target: tuple[int, ...], size: int, **parts: object
) -> ForecastMove:
    """Return a move, led by its first replica."""
    plain = ForecastMove(
        partition=tp(number),
        before=replicas(*before),
        target=replicas(*target),
        leader=BrokerId(before[0]),
        size=size,
    )
    return replace(plain, **parts)  # type: ignore[arg-type]


def a_disk(path: str, *, total: int = 1000 * MB, usable: int = 900 * MB, logs: int = 0) -> LogDir:
    """Return a log directory with a volume of its own."""
    return LogDir(path, total, usable, logs)


def at(rate: float, **parts: object) -> Pace:
    """Return a pace at which every broker has the same rate."""
    return replace(Pace(rate=lambda _broker, _way: rate), **parts)  # type: ignore[arg-type]


# --- the schedule --------------------------------------------------------------------------------


def test_one_copy_takes_its_bytes_at_the_rate_and_one_step_more_to_drop() -> None:
    """(1,2) to (1,3): one step adds 3, the next one drops 2."""
    found = play(
        [a_move(0, (1, 2), (1, 3), 100 * MB)], {}, ForecastLimits(), at(10 * MB, step_s=1.0)
    )
    assert found.steps == 2
    assert found.seconds == 10 + 1 + 1


def test_copies_share_the_rate_of_their_leader() -> None:
    """Two copies from broker 1 to 2 and 3: each at half its rate."""
    moves = [a_move(n, (1,), (1, 2 + n), 100 * MB) for n in range(2)]
    assert play(moves, {}, ForecastLimits(), at(10 * MB)).seconds == 20


def test_a_copy_takes_what_the_others_leave() -> None:
    """1 sends to 3 and 4; 2 sends to 3 as well: 5, 5 and 5; then the one to 4 has the rest."""
    moves = [
        a_move(0, (1,), (1, 3), 50 * MB),
        a_move(1, (1,), (1, 4), 100 * MB),
        a_move(2, (2,), (2, 3), 50 * MB),
    ]
    assert play(moves, {}, ForecastLimits(), at(10 * MB)).seconds == 10 + 5


def test_limits_make_copies_follow_one_another() -> None:
    """One at a time, though different brokers copy."""
    moves = [a_move(0, (1,), (1, 2), 100 * MB), a_move(1, (3,), (3, 4), 100 * MB)]
    found = play(moves, {}, ForecastLimits(partitions=1), at(10 * MB))
    assert (found.seconds, found.limited) == (20, 1)
    assert play(moves, {}, ForecastLimits(), at(10 * MB)).seconds == 10


def test_copies_that_producers_outrun_never_end() -> None:
    """And slower ones take longer."""
    move = a_move(0, (1,), (1, 2), 100 * MB, growth=5.0 * MB)
    assert play([move], {}, ForecastLimits(), at(10 * MB)).seconds == 20
    assert play([move], {}, ForecastLimits(), at(5 * MB)).seconds == math.inf


def test_the_broker_puts_new_logs_where_it_has_the_fewest() -> None:
    """Unless the directory is named."""
    disks = {TWO: (a_disk("/a", logs=3), a_disk("/b", logs=1, usable=300 * MB))}
    moves = [a_move(n, (1,), (1, 2), 10 * MB) for n in range(3)]
    found = play(moves, disks, ForecastLimits(), Pace())
    assert found.received == {Place(TWO, "/a"): 10 * MB, Place(TWO, "/b"): 20 * MB}
    named = [replace(m, wanted={TWO: "/a"}) for m in moves]
    assert play(named, disks, ForecastLimits(), Pace()).received[Place(TWO, "/a")] == 30 * MB


def test_dropped_logs_keep_their_bytes_until_they_are_deleted() -> None:
    """Two brokers exchange 80 MB each: both directories hold 160 MB for a while."""
    disks = {b: (a_disk("/a", total=200 * MB, usable=120 * MB),) for b in (ONE, TWO)}
    moves = [a_move(0, (1,), (2,), 80 * MB), a_move(1, (2,), (1,), 80 * MB)]
    found = play(moves, disks, ForecastLimits(), Pace())
    assert set(found.peaks.values()) == {160 * MB}
    assert set(found.ends.values()) == {80 * MB}


def test_slow_copies_reuse_what_was_deleted() -> None:
    """What leaves broker 2 is deleted before something arrives there ten minutes later."""
    disks = {TWO: (a_disk("/a", total=200 * MB, usable=100 * MB),)}
    moves = [
        a_move(n, *w, 60 * MB) for n, w in enumerate([((2,), (1,)), ((3,), (4,)), ((3,), (2,))])
    ]
    slow = play(moves, disks, ForecastLimits(partitions=1), at(MB / 10))
    assert slow.peaks == {Place(TWO, "/a"): 100 * MB}
    assert play(moves, disks, ForecastLimits(), Pace()).peaks == {Place(TWO, "/a"): 160 * MB}


def test_the_guard_delays_what_has_no_room_yet_and_stops_what_never_has() -> None:
    """The second copy waits for a deletion; the third one is larger than the disk."""
    disks = {TWO: (a_disk("/a", total=200 * MB, usable=100 * MB),)}
    limits = ForecastLimits(min_free=MinFree(50 * MB))
    moves = [
        a_move(0, (2,), (1,), 60 * MB),
        a_move(1, (3,), (2,), 60 * MB),
        a_move(2, (3,), (2,), 300 * MB),
    ]
    found = play(moves, disks, limits, at(10 * MB))
    assert found.delayed == {tp(1): "broker 2, /a", tp(2): "broker 2, /a"}
    assert found.stuck == {tp(2): "broker 2, /a"}
    assert found.peaks == {Place(TWO, "/a"): 100 * MB}


def test_replicas_change_directories_after_the_last_step() -> None:
    """100 MB are copied to broker 3, then broker 2 moves its own to /b within 20 s."""
    disks = {TWO: (a_disk("/a", usable=800 * MB), a_disk("/b"))}
    move = a_move(
        0, (1, 2), (1, 2, 3), 100 * MB, directories={TWO: "/a"}, wanted={TWO: "/b", THREE: "/a"}
    )
    assert move.relocations == (TWO,)
    pace = Pace(rate=lambda _, way: 5.0 * MB if way is CopyRole.RELOCATES else 10.0 * MB)
    found = play([move], disks, ForecastLimits(), pace)
    assert found.seconds == 10 + 20
    assert found.received == {Place(TWO, "/a"): 0, Place(TWO, "/b"): 100 * MB}
    assert found.freed == {Place(TWO, "/a"): 100 * MB, Place(TWO, "/b"): 0}
    assert found.peaks[Place(TWO, "/b")] == 200 * MB


def test_moves_between_directories_have_a_time_only_under_their_throttle() -> None:
    """How fast a broker copies within itself is not known."""
    move = a_move(0, (1,), (1,), 100 * MB, directories={ONE: "/a"}, wanted={ONE: "/b"})
    plan = ForecastPlan(moves=[move], live=ALL)
    found = forecast(plan)
    assert (found.steps, found.bytes, found.relocated) == (0, 0, (1, 100 * MB))
    assert found.time is not None
    assert found.time.high_s is None
    slow = forecast(replace(plan, relocation_throttle=10 * MB)).time
    assert slow is not None
    assert slow.high_s is not None
    assert 10 < slow.high_s < 20
    assert slow.busiest == ONE


def test_directories_of_one_volume_fill_together() -> None:
    """Both report the same free space."""
    disks = {TWO: (a_disk("/a"), a_disk("/b", logs=9))}
    found = play([a_move(0, (1,), (1, 2), 10 * MB)], disks, ForecastLimits(), Pace())
    assert set(found.peaks.values()) == {110 * MB}
    assert found.received == {Place(TWO, "/a"): 10 * MB, Place(TWO, "/b"): 0}


# --- the forecast --------------------------------------------------------------------------------


def test_bytes_leaders_and_steps_of_a_plan() -> None:
    """Broker 1 leads and serves both copies of (1,2) to (3,4); 3 leads afterwards."""
    found = forecast(ForecastPlan(moves=[a_move(0, (1, 2), (3, 4), 100 * MB)], live=ALL))
    assert (found.changes, found.steps, found.copies, found.bytes) == (1, 3, 2, 200 * MB)
    assert found.leaders_moved == 1
    one, three = found.brokers[ONE], found.brokers[THREE]
    assert (one.bytes_in, one.bytes_served, one.bytes_dropped) == (0, 200 * MB, 100 * MB)
    assert (one.leaders_lost, three.leaders_gained) == (1, 1)
    assert (three.copies_in, three.bytes_in) == (1, 100 * MB)
    assert found.time is None


def test_the_time_of_a_throttled_plan() -> None:
    """From what passes before the throttle holds to what the steps add."""
    plan = ForecastPlan(moves=[a_move(0, (1,), (1, 2), 300 * MB)], live=ALL, throttle=10 * MB)
    time = forecast(plan).time
    assert time is not None
    assert time.low_s == 30 - BURST_S + START_LOW_S
    assert time.high_s is not None
    assert math.isclose(time.high_s, 30 / HELD_SHARE + STEP_HIGH_S + START_HIGH_S)
    assert (time.basis, time.busiest) == (("throttle",), TWO)


def test_the_time_of_a_governed_throttle_is_between_its_bounds() -> None:
    """The least time is that of the highest rate, the most that of the lowest."""
    plan = ForecastPlan(moves=[a_move(0, (1,), (1, 2), 300 * MB)], live=ALL)
    fast, slow = (forecast(replace(plan, throttle=rate * MB)).time for rate in (100, 1))
    governed = forecast(replace(plan, throttle=100 * MB, throttle_least=MB)).time
    assert fast is not None
    assert slow is not None
    assert governed is not None
    assert (governed.low_s, governed.high_s) == (fast.low_s, slow.high_s)


def test_past_copies_bound_a_throttle_that_brokers_do_not_reach() -> None:
    """And give a range where there is no throttle."""
    plan = ForecastPlan(
        moves=[a_move(0, (1,), (1, 2), 300 * MB)],
        live=ALL,
        measured={TWO: Rates(10 * MB, 30 * MB)},
    )
    time = forecast(plan).time
    assert time is not None
    assert math.isclose(time.low_s, 10 / PAST_FAST + START_LOW_S)
    assert time.high_s is not None
    assert math.isclose(time.high_s, 30 / PAST_SLOW + STEP_HIGH_S + START_HIGH_S)
    assert time.basis == ("past_copies",)
    throttled = forecast(replace(plan, throttle=1000 * MB)).time
    assert throttled is not None
    assert throttled.high_s == time.high_s
    assert throttled.basis == ("throttle", "past_copies")


def test_what_copies_nothing_takes_its_steps() -> None:
    """Another order of replicas, or fewer of them; without a throttle as well."""
    moves = [a_move(0, (1, 2), (2, 1), 9 * MB), a_move(1, (1, 2), (1,), 9 * MB)]
    found = forecast(ForecastPlan(moves=moves, live=ALL))
    assert (found.steps, found.bytes, found.leaders_moved) == (2, 0, 0)
    assert found.time is not None
    assert found.time.high_s == START_HIGH_S + STEP_HIGH_S


def test_what_waits_and_for_what() -> None:
    """A dead target, no leader, a lagging replica, and the limit; the time has no upper bound."""
    moves = [
        a_move(0, (1,), (9,), MB),
        a_move(1, (1, 2), (1, 3), MB, leader=BrokerId(-1)),
        a_move(2, (1, 2), (1, 2, 3), MB, isr=replicas(1)),
        a_move(3, (1,), (2,), MB),
        a_move(4, (1,), (2,), MB),
    ]
    hold = Wait(BlockedBy.PAUSED, "everything is paused")
    plan = ForecastPlan(
        moves=moves, live=ALL, throttle=MB, limits=ForecastLimits(partitions=1), holds=[hold]
    )
    found = forecast(plan)
    assert [(w.by, w.partitions or w.count) for w in found.waits] == [
        (BlockedBy.PAUSED, 0),
        (BlockedBy.BROKER_DEAD, (tp(0),)),
        (BlockedBy.NO_LEADER, (tp(1),)),
        (BlockedBy.REPLICA_NOT_IN_ISR, (tp(2),)),
        (BlockedBy.LIMIT, 1),
    ]
    assert found.time is not None
    assert found.time.high_s is None
    assert [w["count"] for w in found.document()["waits"]] == [5, 1, 1, 1, 1]


def test_large_plans_are_not_played() -> None:
    """Their busiest broker gives the time, and disks are taken to receive all before any drop."""
    moves = [a_move(n, (1,), (2,), MB) for n in range(2000)]
    disks = {TWO: (a_disk("/a", total=9000 * MB, usable=9000 * MB),)}
    found = forecast(ForecastPlan(moves=moves, live=ALL, throttle=10 * MB, disks=disks))
    assert found.time is not None
    assert found.time.high_s is not None
    assert found.time.low_s == 200 - BURST_S + START_LOW_S
    assert 200 < found.time.high_s < 400
    assert found.directories[0].peak_bytes == 2000 * MB


def test_large_plans_that_copy_nothing() -> None:
    """Only the order of replicas changes: a step for each, a hundred at a time."""
    moves = [a_move(n, (1, 2), (2, 1), MB) for n in range(2000)]
    time = forecast(ForecastPlan(moves=moves, live=ALL)).time
    assert time is not None
    assert (time.low_s, time.high_s) == (START_LOW_S, START_HIGH_S + 20 * STEP_HIGH_S)
    assert time.busiest is None


@pytest.mark.parametrize(
    "limits",
    [
        ForecastLimits(),
        ForecastLimits(partitions=5),
        ForecastLimits(incoming=1, outgoing=1),
        ForecastLimits(step_size=None),
    ],
)
def test_the_range_of_a_large_plan_contains_that_of_its_steps(
    limits: ForecastLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not played is bounded more widely than what is."""
    brokers = list(range(1, 13))
    moves = []
    for n in range(300):
        first, second, third = brokers[n % 12], brokers[(5 * n + 1) % 12], brokers[(7 * n + 2) % 12]
        if len({first, second, third}) == 3:
            moves.append(a_move(n, (first, second), (second, third), (n % 17) ** 2 * MB))
    plan = ForecastPlan(
        moves=moves, live=frozenset(map(BrokerId, brokers)), throttle=10 * MB, limits=limits
    )
    played = forecast(plan).time
    monkeypatch.setattr("controller.planning.forecast.PLAYED_MAX", 10)
    bounded = forecast(plan).time
    assert played is not None
    assert bounded is not None
    assert played.high_s is not None
    assert bounded.high_s is not None
    assert played.low_s <= bounded.low_s < played.high_s <= bounded.high_s
    assert bounded.high_s < 3 * played.high_s


# --- laws ----------------------------------------------------------------------------------------


@st.composite
def moves_of(draw: st.DrawFn) -> list[ForecastMove]:
    """Return moves between six brokers."""
    lists = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)
    return [
        a_move(
            n,
            tuple(draw(lists)),
            tuple(draw(lists)),
            draw(st.integers(0, 100 * MB)),
            growth=float(draw(st.sampled_from((0, MB // 10)))),
        )
        for n in range(draw(st.integers(0, 8)))
    ]


SOME_DISKS = {
    b: (
        a_disk("/a", logs=2, usable=(400 + 20 * b) * MB),
        a_disk("/b", logs=1, usable=(100 + 20 * b) * MB),
    )
    for b in ALL
}


@settings(max_examples=60, deadline=None)
@given(
    moves=moves_of(),
    throttle=st.sampled_from((None, 2 * MB, 20 * MB)),
    limits=st.builds(
        ForecastLimits,
        step_size=st.sampled_from((1, 2, None)),
        partitions=st.integers(1, 10),
        incoming=st.integers(1, 3),
        outgoing=st.integers(1, 3),
        min_free=st.sampled_from((None, MinFree(90 * MB))),
    ),
)
def test_laws_of_forecasts(
    moves: list[ForecastMove], throttle: int | None, limits: ForecastLimits
) -> None:
    """Every byte that arrives was served; peaks bound what is there before and after."""
    plan = ForecastPlan(moves=moves, live=ALL, throttle=throttle, limits=limits, disks=SOME_DISKS)
    found = forecast(plan)
    shares = found.brokers.values()
    assert sum(s.bytes_in for s in shares) == sum(s.bytes_served for s in shares) == found.bytes
    assert sum(s.copies_in for s in shares) == sum(s.copies_served for s in shares)
    assert sum(s.leaders_gained for s in shares) == found.leaders_moved
    stuck: set[TopicPartition] = {
        p for w in found.waits if w.detail.endswith("for good") for p in w.partitions
    }
    for row in found.directories:
        assert row.peak_bytes is not None
        assert row.used_bytes is not None
        assert row.end_bytes is not None
        assert row.peak_bytes >= max(row.used_bytes, row.end_bytes)
        assert row.peak_bytes <= row.used_bytes + row.bytes_in
    if not stuck:
        for broker in ALL:
            share = found.brokers.get(broker)
            arrived = sum(d.bytes_in for d in found.directories if d.broker == broker)
            assert arrived == (0 if share is None else share.bytes_in)
    if limits.min_free is not None:
        for row in found.directories:
            assert row.peak_bytes is not None
            assert row.used_bytes is not None
            assert row.peak_bytes <= max(row.used_bytes, 1000 * MB - 90 * MB)
    if found.time is not None and found.time.high_s is not None:
        assert found.time.low_s <= found.time.high_s
        assert not stuck
    if throttle is not None and not stuck and not any(m.growth for m in moves):
        assert found.time is not None
        assert found.time.high_s is not None
        least = max((s.bytes_served for s in shares), default=0) / throttle
        assert found.time.high_s >= least
