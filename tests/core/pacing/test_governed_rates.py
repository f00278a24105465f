"""The rates of a throttle ``auto``: whom they concern, how they are written, what explains them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pytest

from controller.core.cycle import apply, observe
from controller.core.disks.model import Copy, SizeReport
from controller.core.model import (
    BrokerId,
    Instant,
    RequestId,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing import governed_rates, limits_in_force
from controller.core.pacing.controls import UNTHROTTLED, Controls, Limits, RequestLimits
from controller.core.pacing.governor import HOLD_S, INTERVAL_S
from controller.core.pacing.model import IsrLoss, Signal, SignalKind
from controller.core.pacing.records import ControlsRead, LatencyMeasured, PaceRecord, RateRecord
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVE_RATE,
    AppliedThrottle,
    Entity,
)
from controller.core.reassignments.model import Load
from controller.core.requests.submissions import AUTO
from controller.core.worklist import Worklist
from tests.core.builders import replicas
from tests.core.pacing.throttle_rigs import REQUEST, ThrottleRig

ONE: Final = TopicPartition("orders", 0)
TWO: Final = TopicPartition("orders", 1)
MB: Final = 1_000_000
LEAST: Final = 5 * MB
PROBED: Final = frozenset({SignalKind.PROBE})


@pytest.fixture
def rig() -> ThrottleRig:
    """Return a cluster with a request of throttle auto, from brokers 1 to 3 to broker 4."""
    made = ThrottleRig()
    made.begin()
    made.want({ONE: (2, 3, 4)}, throttle=AUTO)
    return made


def measure(
    rig: ThrottleRig, seconds: int, strains: dict[int, float], silent: Iterable[int] = ()
) -> None:
    """Let seconds pass, in which the probes of brokers 1 to 7 are so strained; 0.01 by default."""
    rig.view.pacing.in_flight = max(1, rig.view.pacing.in_flight)
    for _ in range(seconds):
        rig.now = Instant(rig.now + 1)
        found = tuple(
            reading(rig, b, strains.get(b, 0.01)) for b in range(1, 8) if b not in set(silent)
        )
        observe(rig.view, LatencyMeasured(found, PROBED), rig.now)
        rig.settle()


def reading(rig: ThrottleRig, leader: int, strain: float) -> Signal:
    """Return a reading of the second that ends now."""
    return Signal(
        kind=SignalKind.PROBE,
        value=strain / 2,
        objective=0.5,
        since=Instant(rig.now - 1),
        at=rig.now,
        evidence=f"broker {leader} acknowledges in {strain / 2:g} s",
        broker=BrokerId(leader),
    )


def rate(rig: ThrottleRig, broker: int, key: str = FOLLOWER_RATE) -> int | None:
    """Return the rate in a broker's settings."""
    text = rig.values(f"brokers/{broker}").get(key)
    return None if text is None else int(text)


def test_every_concerned_broker_begins_with_the_least_rate(rig: ThrottleRig) -> None:
    """Sources and receivers; steps begin when it is in force."""
    assert {b: rate(rig, b) for b in range(1, 6)} == dict.fromkeys((1, 2, 3, 4), LEAST) | {5: None}
    assert rate(rig, 1, LEADER_RATE) == LEAST
    assert rig.gate(ONE) is None


def test_latency_is_measured_as_long_as_it_is_followed(rig: ThrottleRig) -> None:
    """Ahead of time, but not with each judgement."""
    measure(rig, 60, {})
    assert 3 <= len(rig.measured) <= 6
    assert rig.measured[-1].until >= rig.now
    rig.end(ONE)
    known = len(rig.measured)
    measure(rig, 60, {})
    assert len(rig.measured) == known


def test_without_copies_a_rate_does_not_grow_above_those_with_some(rig: ThrottleRig) -> None:
    """Its probe says nothing about a higher one; the next plan would begin with a share of it."""
    measure(rig, 10, {})
    for _ in range(20):
        rig.view.pacing.in_flight = 1
        rig.view.pacing.incoming = {BrokerId(2): 1}
        rig.now = Instant(rig.now + 1)
        found = tuple(reading(rig, b, 0.5 if b == 2 else 0.01) for b in range(1, 8))
        observe(rig.view, LatencyMeasured(found, PROBED), rig.now)
        rig.settle()
    assert LEAST < (rate(rig, 3) or 0) <= (rate(rig, 2) or 0) < 8 * LEAST


def test_rates_follow_the_probe_and_each_change_is_explained(rig: ThrottleRig) -> None:
    """The strained broker's rate falls, with its evidence; those of the others grow."""
    measure(rig, 22, {})
    before = rate(rig, 2)
    assert before is not None
    assert before >= 4 * LEAST
    measure(rig, 14, {2: 1.4})
    after, other = rate(rig, 2), rate(rig, 3)
    assert after is not None
    assert other is not None
    assert after < before < other
    (fallen,) = [
        r
        for r in rig.decided
        if isinstance(r, RateRecord) and r.before is not None and r.bytes_per_s < r.before
    ][:1]
    assert (fallen.broker, fallen.signal) == (BrokerId(2), SignalKind.PROBE)
    assert (fallen.value, fallen.objective) == (0.7, 0.5)
    assert fallen.evidence == "broker 2 acknowledges in 0.7 s"


def test_one_write_for_each_broker_in_five_seconds(rig: ThrottleRig) -> None:
    """And none where nothing changes."""
    times: dict[BrokerId, Instant] = {}
    for _ in range(60):
        known = len(rig.decided)
        measure(rig, 1, {2: 0.01 if rig.now % 9 else 3.0})
        for record in rig.decided[known:]:
            if isinstance(record, RateRecord):
                assert rig.now - times.get(record.broker, Instant(0.0)) >= INTERVAL_S
                times[record.broker] = rig.now
    assert times
    writes = len(rig.writes)
    measure(rig, 30, dict.fromkeys(range(1, 8), 0.8))
    assert len(rig.writes) == writes


def test_without_readings_rates_are_held_and_fall_to_the_least_then(rig: ThrottleRig) -> None:
    """Of the broker whose probe is silent."""
    measure(rig, 40, {})
    before = rate(rig, 2)
    assert before is not None
    measure(rig, int(HOLD_S) - 5, {}, silent=(2,))
    assert rate(rig, 2) == before
    measure(rig, 20, {}, silent=(2,))
    assert rate(rig, 2) == LEAST
    assert (rate(rig, 3) or 0) > LEAST
    known = rig.view.pacing_leadership.rates[BrokerId(2)]
    assert known.why.startswith("no reading of the probe for")


def test_a_broker_that_is_emptied_has_no_probe_and_follows_the_others() -> None:
    """The topic of the probe has no replica on it: it grows slowly, and no further than they."""
    rig = ThrottleRig(topics={"orders": 1})
    rig.begin()
    rig.want({ONE: (2, 3, 4)}, throttle=AUTO)
    measure(rig, 34, {}, silent=(1, 5, 6, 7))
    assert LEAST < (rate(rig, 1) or 0) < (rate(rig, 2) or 0)
    measure(rig, 600, {2: 0.8, 3: 0.8, 4: 0.8}, silent=(1, 5, 6, 7))
    assert rate(rig, 1) == max(rate(rig, b) or 0 for b in (2, 3, 4))


def test_rates_fall_to_the_least_while_nothing_is_copied(rig: ThrottleRig) -> None:
    """During a pause no reading is of a copy: it would rise, and flood brokers afterwards."""
    measure(rig, 22, {})
    assert (rate(rig, 2) or 0) > LEAST
    rig.view.pacing.in_flight = 0
    measured = len(rig.measured)
    for _ in range(2):
        rig.refresh(INTERVAL_S)
    assert (rate(rig, 2) or 0) > LEAST
    for _ in range(6):
        rig.refresh(INTERVAL_S)
    assert rate(rig, 2) == LEAST
    assert rig.view.pacing_leadership.rates[BrokerId(2)].why == "nothing is being copied"
    assert len(rig.measured) == measured


def test_other_signals_are_enough(rig: ThrottleRig) -> None:
    """Where nothing is measured, a lost replica of another partition halves the rates there."""
    rig.view.pacing.in_flight = 1
    for _ in range(30):
        rig.refresh(INTERVAL_S)
    before = rate(rig, 2)
    assert before is not None
    assert before > 2 * LEAST
    lost = IsrLoss(TopicPartition("other", 0), rig.now, frozenset(replicas(2, 9)))
    rig.view.pacing.isr_losses.append(lost)
    rig.view.pacing_leadership.rates = {
        b: replace(r, changed_at=Instant(rig.now - INTERVAL_S))
        for b, r in rig.view.pacing_leadership.rates.items()
    }
    rig.refresh(1.0)
    after = rate(rig, 2)
    assert after == before // 2
    assert (rate(rig, 3) or 0) >= before
    assert "other-0" in rig.view.pacing_leadership.rates[BrokerId(2)].why


def test_no_rate_grows_while_replicas_go_offline(rig: ThrottleRig) -> None:
    """Their leaders and clients move to the other brokers."""
    measure(rig, 12, {})
    before = rate(rig, 2)
    gone = IsrLoss(TopicPartition("other", 0), Instant(rig.now + 1), frozenset(replicas(9)))
    rig.view.pacing.went_offline[BrokerId(2)] = gone
    measure(rig, 12, {})
    assert rate(rig, 2) == before
    assert (rate(rig, 3) or 0) > (before or 0)
    measure(rig, 12, {})
    assert (rate(rig, 2) or 0) > (before or 0)


def test_a_rate_grows_as_far_as_copies_use_it(rig: ThrottleRig) -> None:
    """The reports of log directories show how fast they come."""
    receiver, leader = BrokerId(4), BrokerId(2)
    rig.view.reassignments.by_partition[ONE].load = Load((receiver,), leader)

    def copy(bytes_per_s: float) -> None:
        for _ in range(60):
            report = SizeReport(rig.now, 1, receiver, bytes_per_s)
            rig.view.disks_process.copied[ONE] = {receiver: report}
            measure(rig, 1, {})

    copy(20 * MB)
    assert 20 * MB < (rate(rig, receiver) or 0) < 200 * MB
    assert 20 * MB < (rate(rig, leader) or 0) < 200 * MB
    copy(200 * MB)
    assert (rate(rig, receiver) or 0) > 200 * MB


def test_the_next_request_begins_where_the_last_one_was(rig: ThrottleRig) -> None:
    """With a share of it: the load of producers is known to change."""
    measure(rig, 30, {})
    last = rate(rig, 4) or 0
    assert last > 4 * LEAST
    rig.end(ONE)
    measure(rig, 5, {})
    assert rate(rig, 4) is None
    rig.want({TWO: (2, 3, 4)}, throttle=AUTO, request=RequestId("request_0000000002"))
    assert rate(rig, 4) == round(last / 3)
    (begun,) = [r for r in rig.decided if isinstance(r, RateRecord) and r.broker == 4][-1:]
    assert begun.evidence.startswith("a third of the rate ")


def test_a_fixed_throttle_beside_it_keeps_its_own(rig: ThrottleRig) -> None:
    """A broker has the lower of both."""
    rig.want({TWO: (2, 3, 5)}, throttle=LEAST // 2, request=RequestId("request_0000000002"))
    measure(rig, 40, {})
    assert rate(rig, 5) == rate(rig, 2) == LEAST // 2
    assert (rate(rig, 4) or 0) > LEAST


def test_the_throttle_changes_live_both_ways(rig: ThrottleRig) -> None:
    """From auto to a fixed rate, which is where auto begins from again, and to none."""

    def live(value: int | str) -> None:
        own = RequestLimits(throttle=AUTO if value == AUTO else int(value))
        controls = Controls(limits=Limits(requests={REQUEST: own}))
        observe(rig.view, ControlsRead(controls), rig.now)
        rig.settle()

    measure(rig, 20, {})
    live(70 * MB)
    assert rate(rig, 4) == 70 * MB
    assert not rig.view.pacing_leadership.rates
    live(AUTO)
    assert rate(rig, 4) == 70 * MB
    live(UNTHROTTLED)
    assert rate(rig, 4) is None


def test_the_common_throttle_may_be_auto() -> None:
    """Set live, or in the settings; a live one comes first."""
    rig = ThrottleRig()
    rig.begin()
    rig.want({ONE: (2, 3, 4)}, throttle=None)
    assert rate(rig, 4) is None
    observe(rig.view, ControlsRead(Controls(throttle=AUTO)), rig.now)
    rig.settle()
    assert rate(rig, 4) == LEAST
    rig.view.options = replace(rig.view.options, throttle=AUTO)
    observe(rig.view, ControlsRead(Controls()), rig.now)
    rig.settle()
    assert rate(rig, 4) == LEAST
    observe(rig.view, ControlsRead(Controls(throttle=9)), rig.now)
    rig.settle()
    assert rate(rig, 4) == 9


def test_moves_between_directories_are_governed_too(rig: ThrottleRig) -> None:
    """Unless the request has a throttle of its own for them."""
    dirs = ((BrokerId(4), "/disk"),)
    rig.want({ONE: (2, 3, 4)}, throttle=AUTO, log_dirs=dirs)
    assert limits_in_force.move_throttle_of(rig.view, REQUEST) == AUTO
    assert rate(rig, 4, MOVE_RATE) == LEAST
    rig.want({ONE: (2, 3, 4)}, throttle=AUTO, moves=7, log_dirs=dirs)
    rig.change_controls()
    assert rate(rig, 4, MOVE_RATE) == 7


def test_a_daemon_that_takes_over_begins_with_the_applied_rate() -> None:
    """It neither floods nor starves what another daemon found right."""
    applied = AppliedThrottle(
        Entity("brokers/4"),
        {FOLLOWER_RATE: str(80 * MB), LEADER_RATE: str(80 * MB)},
        {FOLLOWER_RATE: None, LEADER_RATE: None},
        ZkVersion(0),
    )
    rig = ThrottleRig(applied_throttles={applied.entity: applied})
    rig.operator_sets("brokers/4", **{k.replace(".", "_"): v for k, v in applied.ours.items()})
    rig.want({ONE: (2, 3, 4)}, throttle=AUTO)
    rig.begin()
    assert rate(rig, 4) == 80 * MB
    assert rate(rig, 1) == LEAST


def test_the_end_restores_what_was_there(rig: ThrottleRig) -> None:
    """Nothing of the rates is left."""
    measure(rig, 30, {})
    rig.end(ONE)
    assert [rig.values(f"brokers/{b}") for b in range(1, 8)] == [{}] * 7
    measure(rig, 2, {})
    assert not rig.view.pacing_leadership.rates


def test_copies_get_what_they_need_or_fewer_run_at_a_time(rig: ThrottleRig) -> None:
    """A rate below the produce rate is a copy that never ends."""
    rig.view.disks.of(BrokerId(4)).copies[ONE] = Copy(100 * MB, growth=40.0 * MB)
    rig.view.pacing.in_flight = 8
    measure(rig, 70, {4: 3.0})
    assert rate(rig, 4) == int(40 * MB * governed_rates.HEADROOM)
    paces = [r for r in rig.decided if isinstance(r, PaceRecord)]
    assert paces
    assert (paces[0].before, paces[0].in_flight_max) == (None, 4)
    assert paces[0].evidence.startswith("the copies of broker 4 need 50000000 bytes/s")
    assert limits_in_force.in_flight_max(rig.view) < 8
    rig.view.disks.of(BrokerId(4)).copies.clear()
    for _ in range(20):
        measure(rig, 30, {})
    assert rig.view.pacing.pace is None


def test_nothing_is_decided_without_a_throttle_auto() -> None:
    """No timer, no measurement, no record."""
    rig = ThrottleRig()
    rig.begin()
    rig.want({ONE: (2, 3, 4)}, throttle=1000)
    found = governed_rates.govern_rates(rig.view, Worklist(throttles=True, timer=True), rig.now)
    assert (found.changes, found.effects) == ((), ())
    assert not any(isinstance(r, RateRecord) for r in rig.decided)
    apply(rig.view, PaceRecord(None, 3, "a test", rig.now), rig.now)
    (change,) = governed_rates.govern_rates(rig.view, Worklist(timer=True), rig.now).changes
    assert isinstance(change.records[0], PaceRecord)
    assert change.records[0].in_flight_max is None
