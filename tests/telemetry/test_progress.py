"""Rates, estimates and bars of copies, partitions, requests and all agree, and never mislead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.core_settings import EngineName
from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, RequestId, Route, ZkVersion
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    EntityConfig,
    broker_entity,
)
from controller.core.requests.model import Request
from controller.telemetry.json_values import Clocks
from controller.telemetry.progress import SLOTS, ProgressTracker
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, START, a_view, measured
from tests.telemetry.playing import Played

Document = Mapping[str, Any]
MB = 1_000_000


@pytest.fixture
def played(tmp_path: Path, engine: EngineName) -> Iterator[Played]:
    """Yield a daemon that leads, with each engine."""
    found = Played(tmp_path, engine)
    yield found
    found.journal.close()


def copying(played: Played, *sizes: int) -> dict[str, Any]:
    """Begin copies of these sizes to brokers 4, 5 and so on, and read each after 30 s."""
    for number, size in enumerate(sizes):
        played.add(number, size, to=4 + number)
        played.begin(number)
    played.go(30)
    for number in range(len(sizes)):
        played.read(number, 30 * MB)
    return played.go(0)


def request_of(status: Document) -> Document:
    """Return the only request."""
    (request,) = status["requests"]
    found: Document = request
    return found


def partition_of(status: Document, number: int) -> Document:
    """Return a partition in flight."""
    found: Document = next(p for p in status["in_flight"] if p["partition"] == number)
    return found


# --- rates and estimates --------------------------------------------------------------------------


def test_rates_of_all_levels_are_those_of_the_copies(played: Played) -> None:
    """The same number stands for one copy, its partition, the request, the brokers and all."""
    status = copying(played, 90 * MB, 300 * MB)
    first, second = partition_of(status, 0), partition_of(status, 1)
    assert [c["bytes_per_s"] for p in (first, second) for c in p["copies"]] == [MB, MB]
    assert first["bytes_per_s"] == MB
    assert request_of(status)["bytes_per_s"] == status["total"]["bytes_per_s"] == 2 * MB
    loads = {load["broker"]: load for load in status["broker_loads"]}
    assert loads[1]["out_bytes_per_s"] == 2 * MB
    assert [loads[b]["in_bytes_per_s"] for b in (4, 5, 6)] == [MB, MB, 0]


def test_request_takes_as_long_as_its_longest_copy(played: Played) -> None:
    """Its own bytes and rate say less, as the rate falls when the shorter copies end."""
    status = copying(played, 40 * MB, 300 * MB)
    (copy,) = partition_of(status, 1)["copies"]
    assert copy["eta_s"] == [216, 450]
    assert partition_of(status, 0)["copies"][0]["eta_s"] == [8, 17]
    assert request_of(status)["eta_s"] == [216, 451]
    assert status["total"]["eta_s"] == [216, 451]


def test_rate_is_unknown_before_it_is_read(played: Played) -> None:
    """Not 0, and there is a reason why there is no estimate."""
    played.add(0, 90 * MB)
    played.begin(0)
    status = played.go(10)
    (copy,) = partition_of(status, 0)["copies"]
    assert (copy["bytes"], copy["share"], copy["bytes_per_s"]) == (0, 0.0, None)
    for document in (copy, request_of(status), status["total"]):
        assert (document["bytes_per_s"], document["eta_s"]) == (None, None)
        assert document["no_estimate"] == "its rate is not measured yet"


def test_reading_has_an_age_and_gets_too_old(played: Played) -> None:
    """A broker that does not answer any more makes its copy unknown."""
    copying(played, 90 * MB)
    (copy,) = partition_of(played.go(29), 0)["copies"]
    assert copy["read_at"] == "2026-01-02T03:04:35.000Z"
    assert copy["bytes_per_s"] == MB
    status = played.go(2)
    (copy,) = partition_of(status, 0)["copies"]
    assert (copy["bytes"], copy["bytes_per_s"]) == (30 * MB, None)
    assert status["total"]["bytes_per_s"] is None


def test_throttle_in_force_limits_the_estimate(played: Played) -> None:
    """As the settings of the brokers have it; a lower one than the rate so far counts at once."""
    view = played.view
    view.pacing_process.controls = Controls(throttle=9 * MB)
    for broker, key, rate in ((4, FOLLOWER_RATE, MB // 2), (1, LEADER_RATE, 9 * MB)):
        config = EntityConfig({key: str(rate)}, ZkVersion(0))
        view.pacing_leadership.entity_configs[broker_entity(BrokerId(broker))] = config
    status = copying(played, 90 * MB)
    (copy,) = partition_of(status, 0)["copies"]
    assert copy["throttle_bytes_per_s"] == MB // 2
    assert copy["eta_s"] == [120, 200]
    assert request_of(status)["eta_s"] == [120, 206]
    throttles = {x["broker"]: x["throttle_bytes_per_s"] for x in status["broker_loads"]}
    assert (throttles[1], throttles[4], throttles[5]) == (9 * MB, MB // 2, None)


def test_copies_of_a_broker_share_its_throttle(played: Played) -> None:
    """One that was just set counts at once: parts and whole take as long."""
    for number, size in enumerate((60 * MB, 40 * MB, 100 * MB)):
        played.add(number, size, to=4)
        played.begin(number)
    played.go(30)
    for number in range(3):
        played.read(number, 30 * MB)
    view = played.view
    view.pacing_process.controls = Controls(throttle=MB)
    for broker in (1, 4):
        values = {LEADER_RATE: str(MB), FOLLOWER_RATE: str(MB)}
        entity = broker_entity(BrokerId(broker))
        view.pacing_leadership.entity_configs[entity] = EntityConfig(values, ZkVersion(0))
    status = played.go(0)
    lows = [partition_of(status, n)["copies"][0]["eta_s"][0] for n in range(3)]
    # The shortest one has a third of the rate to its end, then the next one half.
    assert lows == [30 + 10 + 30, 30, 30 + 10 + 70]
    assert request_of(status)["eta_s"][0] == status["total"]["eta_s"][0] == max(lows)


def test_what_is_paused_with_steps_left_has_no_estimate(played: Played) -> None:
    """Also while a step in flight still copies, whose own end is known."""
    status = copying(played, 90 * MB)
    assert request_of(status)["eta_s"]
    played.view.pacing_process.controls = Controls(pauses=Pauses(Pause("lunch")))
    assert request_of(played.go(0))["eta_s"], "it has no other step"
    spec = played.view.reassignments.by_partition[tp()].spec
    more = (*spec.target[:1], BrokerId(7), *spec.target[2:])
    played.view.reassignments.by_partition[tp()].spec = replace(spec, target=more)
    status = played.go(0)
    why = "everything is paused: lunch"
    for document in (partition_of(status, 0), request_of(status), status["total"]):
        assert (document["eta_s"], document["no_estimate"]) == (None, why)
    assert partition_of(status, 0)["copies"][0]["eta_s"]


def test_producers_lengthen_the_estimate_or_end_it(played: Played) -> None:
    """What they write has to be copied, too."""
    played.view.disks_process.growth[tp()] = MB / 2
    status = copying(played, 90 * MB)
    assert partition_of(status, 0)["copies"][0]["eta_s"] == [96, 200]
    assert request_of(status)["eta_s"] == [96, 206]
    played.view.disks_process.growth[tp()] = 2.0 * MB
    assert request_of(played.go(0))["no_estimate"] == "producers write as fast as it is copied"


@pytest.mark.parametrize(
    ("by", "detail"),
    [(BlockedBy.BROKER_DEAD, "broker 4 is not live"), (BlockedBy.DISK_FULL, "no room")],
)
def test_what_waits_for_something_else_has_no_estimate(
    played: Played, by: BlockedBy, detail: str
) -> None:
    """Nor has the request, nor has all: nobody knows."""
    copying(played, 90 * MB)
    played.view.reassignments.by_partition[tp()].wait(Blocked(by, detail), played.clock.at)
    if by is BlockedBy.BROKER_DEAD:
        del played.view.cluster.brokers[BrokerId(4)]
    status = played.go(0)
    (copy,) = partition_of(status, 0)["copies"]
    for document in (copy, partition_of(status, 0), request_of(status), status["total"]):
        assert (document["eta_s"], document["no_estimate"]) == (None, detail)


def test_a_copy_beside_a_dead_replica_goes_on(played: Played) -> None:
    """Its progress and its end are shown, and that the step waits."""
    copying(played, 90 * MB)
    why = "broker 2 is not live"
    dead = Blocked(BlockedBy.BROKER_DEAD, why)
    played.view.reassignments.by_partition[tp()].wait(dead, played.clock.at)
    status = played.go(0)
    partition = partition_of(status, 0)
    assert (partition["state"], partition["copying_to"]) == ("blocked", [4])
    assert (partition["no_estimate"], request_of(status)["no_estimate"]) == (why, why)
    (copy,) = partition["copies"]
    assert copy["no_estimate"] is None
    assert copy["bytes_per_s"]
    assert status["partitions"]["copying"] == 1
    loads = {load["broker"]: load for load in status["broker_loads"]}
    assert (loads[4]["incoming"], loads[4]["incoming_blocked"]) == (1, 0)


def test_partition_that_waits_for_its_turn_does_not_end_the_estimate(played: Played) -> None:
    """Its bytes are part of what is left."""
    played.add(9, 60 * MB, to=8)
    waits = Blocked(BlockedBy.LIMIT, "1 partition is in flight")
    played.view.reassignments.by_partition[tp(9)].wait(waits, played.clock.at)
    status = copying(played, 90 * MB)
    assert request_of(status)["bytes"]["remaining"] == 120 * MB
    assert request_of(status)["eta_s"] == [96, 206]


def test_request_that_waits_says_for_what(played: Played) -> None:
    """It copies nothing: its rate is 0, and known."""
    played.add(0, 90 * MB)
    waits = Blocked(BlockedBy.LIMIT, "100 partitions are in flight")
    played.view.reassignments.by_partition[tp()].wait(waits, played.clock.at)
    request = request_of(played.go(10))
    assert (request["bytes_per_s"], request["eta_s"]) == (0, None)
    assert request["no_estimate"] == "100 partitions are in flight"


def test_partitions_of_unknown_size_count_as_the_others(played: Played) -> None:
    """Without any known size there is no estimate."""
    played.add(9, 0, to=8)
    del played.view.disks_process.sizes[tp(9)]
    status = copying(played, 90 * MB)
    assert request_of(status)["sizes_unknown"] == 1
    assert request_of(status)["eta_s"] == [96, 206]
    played.view.disks_process.sizes.clear()
    assert request_of(played.go(0))["no_estimate"] == "its size is not known"


def test_empty_partitions_take_the_time_of_their_steps(played: Played) -> None:
    """The bar is that of partitions, as there are no bytes."""
    for number in range(10):
        played.add(number, 0)
    assert request_of(played.go(10))["eta_s"] == [0, 6]
    played.begin(0)
    played.end(0)
    assert request_of(played.go(1))["share"] == 0.1


def test_ended_request_keeps_its_bytes() -> None:
    """Without a rate, and without an estimate."""
    view = a_view(1).view
    request = view.requests.by_id[REQUEST] = Request(Route.REQUEST, Instant(0.0), total=4)
    request.moved_bytes, request.uncounted, request.done_here = 500, 2, 4
    assert measured(view, Clocks(Instant(0.0), START)).latest.requests[REQUEST] == {
        "slot": None,
        "bytes": {"total": 500, "moved": 500, "remaining": 0},
        "bytes_since": None,
        "sizes_unknown": 2,
        "share": 1.0,
        "bytes_per_s": None,
        "eta_s": None,
        "no_estimate": None,
    }


def test_slots_are_few_and_reused() -> None:
    """An ended request keeps its slot until another needs it."""
    tracker, view = ProgressTracker(), a_view(1).view
    names = [RequestId(f"r{n}") for n in range(SLOTS + 1)]
    view.requests.by_id.update({n: Request(Route.REQUEST, Instant(0), open=1) for n in names})
    tracker._give_slots(view)
    assert [tracker.slot_of(n) for n in names] == [*range(SLOTS), None]
    view.requests.by_id[names[3]].open = 0
    assert tracker.slot_of(names[3]) == 3
    tracker._give_slots(view)
    assert tracker.slot_of(names[-1]) == 3
    assert tracker.slot_of(names[3]) is None


# --- restarts and takeovers -----------------------------------------------------------------------


def halfway(played: Played) -> Document:
    """End one of three partitions, and copy half of the second; the third waits."""
    for number in range(3):
        played.add(number, 100 * MB, to=4 + number)
    played.begin(0)
    played.go(10)
    played.read(0, 50 * MB)
    played.go(10)
    played.end(0)
    played.begin(1)
    played.go(10)
    played.read(1, 50 * MB)
    return request_of(played.go(10))


def take_over(played: Played, directory: Path | None) -> tuple[Document, Document]:
    """Return the request before and after the new process has read the sizes."""
    played.fail_over(directory)
    unread = request_of(played.go(1))
    played.resume(1)
    played.read(1, 50 * MB)
    for number in (1, 2):
        played.view.disks_process.sizes[tp(number)] = 100 * MB
    return unread, request_of(played.go(1))


def test_restarted_daemon_shows_the_bytes_of_before(played: Played) -> None:
    """Its journal has them; until sizes are read again, the bar is unknown."""
    before = halfway(played)
    unread, after = take_over(played, None)
    assert unread["share"] is None
    assert before["bytes"] == {"total": 300 * MB, "moved": 150 * MB, "remaining": 150 * MB}
    assert after["bytes"] == before["bytes"]
    assert (after["share"], after["bytes_since"]) == (before["share"], None) == (0.5, None)


def test_bar_of_a_restarted_daemon_is_not_behind_that_of_the_journal(played: Played) -> None:
    """Although the leader has grown since."""
    copying(played, 60 * MB)
    played.go(10)
    played.sizes[0] = 600 * MB
    played.fail_over()
    played.resume(0)
    played.read(0, 31 * MB)
    request = request_of(played.go(1))
    assert (request["bytes"]["total"], request["share"]) == (600 * MB, 0.5)


def test_standby_that_takes_over_says_since_when_it_knows(played: Played, tmp_path: Path) -> None:
    """It cannot know what the partitions had that ended before: the bar stays unknown."""
    assert halfway(played)["share"] == 0.5
    _, after = take_over(played, tmp_path / "standby")
    assert after["bytes"] == {"total": 200 * MB, "moved": 50 * MB, "remaining": 150 * MB}
    assert (after["share"], after["bytes_since"]) == (None, "2026-01-02T03:04:45.000Z")


def test_standby_knows_everything_of_a_request_of_which_nothing_ended(
    played: Played, tmp_path: Path
) -> None:
    """Brokers report what the copies in progress have."""
    copying(played, 90 * MB)
    played.fail_over(tmp_path / "standby")
    assert request_of(played.go(1))["share"] is None
    played.resume(0)
    status = played.go(1)
    (copy,) = partition_of(status, 0)["copies"]
    assert (copy["bytes"], copy["share"], copy["inherited"]) == (None, None, True)
    assert partition_of(status, 0)["share"] is None
    played.read(0, 45 * MB)
    status = played.go(1)
    (copy,) = partition_of(status, 0)["copies"]
    assert request_of(status)["share"] == copy["share"] == 0.5
    assert partition_of(status, 0)["share"] == 0.75  # the second of two steps
    assert request_of(status)["bytes_since"] is None


# --- what always holds ----------------------------------------------------------------------------


def test_bar_stays_where_it_is_while_the_leader_grows(played: Played) -> None:
    """The bytes beside it say what is missing."""
    copying(played, 60 * MB)
    played.sizes[0] = 600 * MB
    played.clock.go(10)
    played.read(0, 40 * MB)
    status = played.go(0)
    (copy,) = partition_of(status, 0)["copies"]
    assert (copy["bytes"], copy["total_bytes"], copy["share"]) == (40 * MB, 600 * MB, 0.5)
    assert (request_of(status)["share"], partition_of(status, 0)["share"]) == (0.5, 0.75)


class Bars:
    """The largest share of each bar so far."""

    def __init__(self) -> None:
        self._seen: dict[object, float] = {}

    def look_at(self, status: Document) -> None:
        """Compare the bars of a status with those before."""
        bars: dict[object, float | None] = {"request": request_of(status)["share"]}
        for partition in status["in_flight"]:
            bars[partition["partition"]] = partition["share"]
            for copy in partition["copies"]:
                bars[partition["partition"], copy["broker"]] = copy["share"]
        for name, share in bars.items():
            if share is not None:
                assert 0.0 <= share <= 1.0
                assert share >= self._seen.get(name, 0.0) - 1e-9, name
                self._seen[name] = share


def check_estimates(status: Document) -> None:
    """Compare the estimate of what contains other work with theirs, and the rates with the sum."""
    request, total = request_of(status), status["total"]
    inner = [(p, copy) for p in status["in_flight"] for copy in p["copies"]]
    pairs = [*inner, *((request, p) for p in status["in_flight"]), (total, request)]
    for outer, part in pairs:
        if outer["eta_s"] is not None and part["eta_s"] is not None:
            assert all(o >= p for o, p in zip(outer["eta_s"], part["eta_s"], strict=True))
        assert outer["eta_s"] is None or outer["eta_s"][0] <= outer["eta_s"][1]
    received = [x["in_bytes_per_s"] for x in status["broker_loads"]]
    if total["bytes_per_s"] is not None:
        assert total["bytes_per_s"] == pytest.approx(
            sum(r or 0 for r in received), abs=len(received)
        )
        assert request["bytes_per_s"] in {None, total["bytes_per_s"]}


@contextmanager
def playing(engine: EngineName) -> Iterator[tuple[Played, Path]]:
    """Yield a daemon, and a directory for the journals of others."""
    with TemporaryDirectory() as directory:
        found = Played(Path(directory), engine)
        try:
            yield found, Path(directory)
        finally:
            found.journal.close()


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["begin", "read", "read", "read", "end", "grow", "restart", "stand_in"]),
        st.integers(0, 2),
        st.sampled_from([0, 20, 60, 100]),
        st.sampled_from([1, 6, 20]),
    ),
    min_size=30,
    max_size=40,
)


@given(MOVES, st.sampled_from([EngineName.NATIVE, EngineName.DELEGATED]))
@settings(max_examples=25, deadline=None)
def test_bars_never_run_backwards_and_estimates_contain_each_other(
    moves: list[tuple[str, int, int, int]], engine: EngineName
) -> None:
    """Whatever is copied, read and ended, over restarts and takeovers."""
    with playing(engine) as (played, directory):
        course = Course(played, directory)
        for move, number, amount, seconds in moves:
            if move in {"restart", "stand_in"}:
                course.fail_over(is_restart=move == "restart")
            elif number in course.open and (move == "begin") != (number in course.held):
                course.make(move, number, amount)
            course.look(seconds)


class Course:
    """What happens to three partitions of different sizes, and what the status says meanwhile."""

    def __init__(self, played: Played, directory: Path) -> None:
        self._played = played
        self._directory = directory
        self._bars = Bars()
        self.open = set(range(3))
        self.held: dict[int, int] = {}
        """The bytes of the copies that were begun."""
        self.has_grown = self.has_failed_over = False
        """A standby does not know how small a leader was before: one excludes the other."""
        for number in self.open:
            played.add(number, (number + 1) * 10 * MB, to=4 + number)

    def make(self, move: str, number: int, amount: int) -> None:
        """Make one move of a partition."""
        played = self._played
        if move == "begin":
            played.begin(number)
            self.held[number] = 0
        elif move == "read":
            self.held[number] += (played.sizes[number] - self.held[number]) * amount // 100
            played.read(number, self.held[number])
        elif move == "grow" and not self.has_failed_over:
            self.has_grown = True
            played.sizes[number] += amount * MB // 10
        elif move == "end":
            played.end(number)
            self.open.discard(number)

    def fail_over(self, *, is_restart: bool) -> None:
        """Let another process lead, which reads everything again bit by bit."""
        if self.has_grown:
            return
        self.has_failed_over = True
        played = self._played
        played.fail_over(None if is_restart else self._directory / f"standby{played.clock.at}")
        self.look(1)
        for number in sorted(self.open):
            if number in self.held:
                played.resume(number)
                self.look(0)
            played.view.disks_process.sizes[tp(number)] = played.sizes[number]
            self.look(0)

    def look(self, seconds: float) -> None:
        """Look at the status after some seconds."""
        status = self._played.go(seconds)
        self._bars.look_at(status)
        check_estimates(status)
