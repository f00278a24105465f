"""
The rates of brokers under a throttle ``auto``, and the partitions in flight that they allow.

Every broker that a request with this throttle concerns has a rate, which the governor judges about
once a second, by the readings of the probe that count for it, the query, and what the daemon knows
without them: live replicas outside the plan that leave the ISR or catch up, and late answers to
requests. A changed rate is a record with its evidence. ``throttles`` writes it as it writes any
other rate, so that it is owned, restored and taken over in the same way: the first rate of a daemon
is the one that it finds applied.

No rate is below what the copies of a broker need to overtake the producers. Where the objective is
missed at such a rate, fewer partitions are in flight instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from controller.core import effects, model, wakeups
from controller.core.disks.model import SizeReport
from controller.core.model import START, BrokerId, Instant, RequestId
from controller.core.pacing import governor, isr_health, limits_in_force, records
from controller.core.pacing.governor import RateBounds
from controller.core.pacing.model import GovernedRate, Signal, SignalKind
from controller.core.pacing.probe_topic import probe_hosts
from controller.core.pacing.throttle_settings import FOLLOWER_RATE, broker_entity
from controller.core.records import Change, Decision
from controller.core.requests.submissions import AUTO
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

HEADROOM: Final = 1.25
"""The multiple of the produce rate at which copies overtake it in time."""
MEASURE_S: Final = 30.0
"""How long the latency is measured after a judgement, in seconds; half of it before it renews."""
EVENT_S: Final = 15.0
"""The age from which a lost replica or a late answer says nothing about the present."""
QUERY_S: Final = 90.0
"""The same for a result of the query, which covers a longer time."""
PACE_EVERY_S: Final = 30.0
"""The time between two changes of the limit of partitions in flight, in seconds."""
PACE_GROWTH: Final = 0.1
"""The share of the configured limit that each interval without strain adds."""


def knows_throttles(view: ClusterView) -> bool:
    """Return whether the open reassignments, their requests and the applied throttles are known."""
    return (
        view.role.leading
        and view.pacing_leadership.applied_throttles_read
        and view.reassignments_leadership.specs_read
        and view.requests_leadership.history_read
        and view.pacing_process.controls_known
        and (view.tenure.held is not None or view.is_warm)
    )


def rate_of(view: ClusterView, broker: BrokerId) -> int:
    """Return the rate of a broker under a throttle ``auto``, also before it was judged."""
    known = view.pacing_leadership.rates.get(broker)
    if known is None:
        known = _first_rate(view, broker, view.options.throttle_min, START)
    return known.bytes_per_s


def is_governed(view: ClusterView, request: RequestId) -> bool:
    """Return whether a request has a throttle ``auto``."""
    return limits_in_force.throttle_of(view, request) == AUTO


def governed_brokers(view: ClusterView) -> tuple[BrokerId, ...]:
    """Return the live brokers that a request with a throttle ``auto`` concerns."""
    requests, live = view.pacing_process.participants.requests, sorted(view.cluster.brokers)
    concerned = {b: requests.get(broker_entity(b), ()) for b in live}
    names = {name for of_broker in concerned.values() for name in of_broker}
    governed = {name for name in names if is_governed(view, name)}
    return tuple(b for b, of_broker in concerned.items() if not governed.isdisjoint(of_broker))


def govern_rates(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Judge the rates of the governed brokers, and begin or continue to measure the latency."""
    leadership = view.pacing_leadership
    if not (due.throttles or due.timer) or not knows_throttles(view):
        return Decision()
    brokers = governed_brokers(view)
    if not brokers:
        return Decision(tuple(_forgotten(view, now)))
    needed, speeds = _needed_by_copies(view), _speeds_of_copies(view)
    judged = {b: _judge(view, b, needed.get(b, 0.0), speeds.get(b), now) for b in brokers}
    changes = [
        Change((_record_of(b, leadership.rates.get(b), rate),))
        for b, rate in judged.items()
        if b not in leadership.rates or leadership.rates[b].bytes_per_s != rate.bytes_per_s
    ]
    if judged != leadership.rates:
        # Before the others: the throttles that follow them are of these rates.
        changes.insert(0, Change((records.RatesJudgedRecord(judged, now),)))
    changes += _adapted_pace(view, judged, now)
    following: list[effects.Effect] = [
        effects.SetTimer(wakeups.RATES_TIMER, Instant(now + governor.INTERVAL_S))
    ]
    if view.pacing.in_flight and now >= leadership.measured_until - MEASURE_S / 2:
        until = Instant(now + MEASURE_S)
        following.append(effects.MeasureLatency(until, probe_hosts(view)))
    return Decision(tuple(changes), tuple(following))


def _forgotten(view: ClusterView, now: Instant) -> Iterator[Change]:
    """Forget rates and the limit in flight: no request has a throttle ``auto`` any more."""
    if view.pacing_leadership.rates:
        yield Change((records.RatesJudgedRecord({}, now),))
    if view.pacing.pace is not None:
        why = "no request has a throttle auto any more"
        yield Change((records.PaceRecord(view.pacing.pace, None, why, now),))


def _record_of(
    broker: BrokerId, before: GovernedRate | None, rate: GovernedRate
) -> records.RateRecord:
    by = rate.by
    return records.RateRecord(
        broker,
        None if before is None else before.bytes_per_s,
        rate.bytes_per_s,
        rate.why,
        None if by is None else by.kind,
        None if by is None else by.value,
        None if by is None else by.objective,
    )


# --- one broker ----------------------------------------------------------------------------------


def _judge(
    view: ClusterView, broker: BrokerId, needed: float, speed: _Speed | None, now: Instant
) -> GovernedRate:
    floor = governor.floor_of(_bounds(view), needed * HEADROOM)
    known = view.pacing_leadership.rates.get(broker)
    if known is None:
        return _first_rate(view, broker, floor, now)
    rate = governor.with_floor(known, floor)
    bounds = _bounds_of(view, broker, rate)
    if not view.pacing.in_flight:
        # Paused, outside of the window, or between two steps: no reading is of a copy.
        return governor.idle(rate, now)
    readings = readings_of(view, broker)
    measured = governor.Measured(
        readings=readings,
        led=tuple(view.pacing_process.readings.get((SignalKind.PROBE, broker), ())),
        others=tuple(_other_signals(view, broker, now)),
        is_probed=_is_probed(view, broker),
        is_queried=SignalKind.QUERY in view.pacing_process.expected,
        is_unused=speed is not None and speed.is_small(rate),
        missing=_missing(view, broker, readings, rate, now),
    )
    return governor.judged(rate, measured, bounds, now)


def _has_copies(view: ClusterView, broker: BrokerId) -> bool:
    """Return whether copies in flight go to the broker, come from it, or are made within it."""
    disk = view.disks.brokers.get(broker)
    is_moving = disk is not None and any(copy.is_move for copy in disk.copies.values())
    pacing = view.pacing
    return bool(pacing.incoming.get(broker) or pacing.outgoing.get(broker) or is_moving)


def _is_probed(view: ClusterView, broker: BrokerId) -> bool:
    """Return whether there are to be readings of the probe: not of a broker that is emptied."""
    is_expected = SignalKind.PROBE in view.pacing_process.expected
    return is_expected and broker in view.pacing_leadership.probed


def _bounds(view: ClusterView) -> RateBounds:
    return RateBounds(view.options.throttle_min, view.options.throttle_max)


def _bounds_of(view: ClusterView, broker: BrokerId, rate: GovernedRate) -> RateBounds:
    """
    Return the bounds of a rate.

    Without readings it is no higher than any with them. Without copies it does not grow above any
    with them: it would be in force for those to come, and nothing shows what it does.
    """
    bounds, leadership = _bounds(view), view.pacing_leadership
    most = bounds.most
    if SignalKind.PROBE in view.pacing_process.expected and broker not in leadership.probed:
        probed = (r.bytes_per_s for b, r in leadership.rates.items() if b in leadership.probed)
        most = max(probed, default=most)
    if not _has_copies(view, broker):
        busy = (r.bytes_per_s for b, r in leadership.rates.items() if _has_copies(view, b))
        most = min(most, max(rate.bytes_per_s, max(busy, default=most)))
    return RateBounds(bounds.least, max(bounds.least, most))


def _first_rate(view: ClusterView, broker: BrokerId, floor: int, now: Instant) -> GovernedRate:
    """Return the rate that is applied to the broker, within the bounds, or the lowest."""
    applied = view.pacing_process.applied_throttles.get(broker_entity(broker))
    text = "" if applied is None else applied.ours.get(FOLLOWER_RATE, "")
    present = int(text) if text.isascii() and text.isdigit() else None
    former = view.pacing_process.former_rates.get(broker)
    return governor.begun(present, floor, _bounds(view), now, former)


def readings_of(view: ClusterView, broker: BrokerId) -> tuple[Signal, ...]:
    """Return the readings of the probe that count for a broker, in order."""
    readings = view.pacing_process.readings
    led = readings.get((SignalKind.PROBE, broker), ())
    followed = next(
        (
            kept
            for (kind, leader), kept in readings.items()
            if kind is SignalKind.PROBE and leader != broker and kept[-1].follower == broker
        ),
        (),
    )
    return governor.attributed(tuple(led), tuple(followed))


def _missing(
    view: ClusterView,
    broker: BrokerId,
    readings: tuple[Signal, ...],
    rate: GovernedRate,
    now: Instant,
) -> str:
    """Return which reading is overdue, as evidence; empty if none is."""
    process = view.pacing_process
    last = dict.fromkeys(process.expected, START)
    if not _is_probed(view, broker):
        last.pop(SignalKind.PROBE, None)
    elif readings:
        last[SignalKind.PROBE] = readings[-1].at
    if SignalKind.QUERY in last:
        last[SignalKind.QUERY] = max((s.at for s in _query_results(view, broker)), default=START)
    for kind, at in sorted(last.items()):
        waited = now - max(at, rate.changed_at)
        if waited > governor.HOLD_S:
            problem = process.unmeasured.get(kind)
            why = f": {problem}" if problem else ""
            return f"no reading of the {kind} for {waited:.0f} s{why}"
    return ""


def _query_results(view: ClusterView, broker: BrokerId) -> tuple[Signal, ...]:
    """Return the latest results of the query for a broker, and for all brokers."""
    readings = view.pacing_process.readings
    kept = (readings.get((SignalKind.QUERY, concerned), ()) for concerned in (broker, None))
    return tuple(of_one[-1] for of_one in kept if of_one)


def _other_signals(view: ClusterView, broker: BrokerId, now: Instant) -> Iterator[Signal]:
    """Yield the latest results of the query, and what is known without measurements."""
    yield from (s for s in _query_results(view, broker) if now - s.at <= QUERY_S)
    pacing = view.pacing
    for loss in pacing.isr_losses:
        if broker in loss.brokers and now - loss.at <= EVENT_S:
            what = f"{loss.partition}, which is outside of the plan, lost a replica from its ISR"
            yield _signal(SignalKind.ISR, 2.0, loss.at, what, broker)
    for answer in pacing.slow_answers:
        if answer.broker == broker and now - answer.at <= EVENT_S:
            strain = answer.took_s / isr_health.SLOW_ANSWER_S
            what = f"broker {broker} took {answer.took_s:.1f} s to answer a request"
            yield _signal(SignalKind.ANSWER, strain, answer.at, what, broker)
    offline = pacing.went_offline.get(broker)
    if offline is not None and now - offline.at <= EVENT_S:
        which = ", ".join(str(b) for b in sorted(offline.brokers))
        what = f"{offline.partition} is without its replica on broker {which}, which went offline"
        yield _signal(SignalKind.OFFLINE, 1.0, offline.at, what, broker)
    if pacing.recovering:
        what = f"{len(pacing.recovering)} partitions outside of the plan are catching up"
        yield _signal(SignalKind.ISR, 1.0, now, what, None)


def _signal(
    kind: SignalKind, strain: float, at: Instant, evidence: str, broker: BrokerId | None
) -> Signal:
    return Signal(
        kind=kind,
        value=strain,
        objective=1.0,
        since=at,
        at=at,
        evidence=evidence,
        broker=broker,
    )


# --- the copies ----------------------------------------------------------------------------------


def _needed_by_copies(view: ClusterView) -> dict[BrokerId, float]:
    """Return what producers add to the copies that a broker receives, or serves if that is more."""
    received: dict[BrokerId, float] = {}
    served: dict[BrokerId, float] = {}
    for broker, disk in view.disks.brokers.items():
        for partition, copy in disk.copies.items():
            if copy.is_move or copy.ended is not None or not copy.growth:
                continue
            received[broker] = received.get(broker, 0.0) + copy.growth
            state = view.leadership.states.get(partition)
            if state is not None and state.leader != model.NO_LEADER:
                served[state.leader] = served.get(state.leader, 0.0) + copy.growth
    return {
        b: max(received.get(b, 0.0), served.get(b, 0.0)) for b in received.keys() | served.keys()
    }


@dataclass(slots=True)
class _Speed:
    """How fast a broker received and sent copies in flight, by its reports."""

    received: float = 0.0
    sent: float = 0.0
    since: Instant = START
    """The oldest report; with one missing, nothing is known."""
    is_known: bool = True

    def add(self, report: SizeReport | None, *, is_sent: bool) -> None:
        """Count a copy."""
        if report is None or report.bytes_per_s is None:
            self.is_known = False
            return
        self.since = report.at if self.since == START else min(self.since, report.at)
        if is_sent:
            self.sent += report.bytes_per_s
        else:
            self.received += report.bytes_per_s

    def is_small(self, rate: GovernedRate) -> bool:
        """Return whether copies used a small share of a rate since it is in force."""
        if not self.is_known or self.since < rate.changed_at + governor.SETTLE_S:
            return False
        return max(self.received, self.sent) < governor.USED * rate.bytes_per_s


def _speeds_of_copies(view: ClusterView) -> dict[BrokerId, _Speed]:
    """Return the speeds of brokers that receive or send copies, as far as they are reported."""
    speeds: dict[BrokerId, _Speed] = {}
    for partition, known in view.disks_process.copied.items():
        reassignment = view.reassignments.by_partition.get(partition)
        load = None if reassignment is None else reassignment.load
        for broker in () if load is None else load.incoming:
            speeds.setdefault(broker, _Speed()).add(known.get(broker), is_sent=False)
            if load is not None and load.outgoing is not None:
                speeds.setdefault(load.outgoing, _Speed()).add(known.get(broker), is_sent=True)
    return speeds


def _adapted_pace(
    view: ClusterView, judged: Mapping[BrokerId, GovernedRate], now: Instant
) -> Iterator[Change]:
    """Yield the limit in flight after the rates: halved where lower rates would not end copies."""
    pacing, limit = view.pacing, limits_in_force.in_flight_limit(view)
    if view.tenure.held is None or now < pacing.pace_since + PACE_EVERY_S:
        return
    strained = [b for b, rate in judged.items() if rate.is_at_floor and _is_raised(view, rate)]
    present = limit if pacing.pace is None else min(pacing.pace, limit)
    after: int | None
    if strained:
        after = max(1, min(present, max(pacing.in_flight, 1)) // 2)
        worst = judged[strained[0]]
        why = f"the copies of broker {strained[0]} need {worst.floor} bytes/s, and {worst.why}"
    elif pacing.pace is None:
        return
    else:
        after = present + max(1, ceil(limit * PACE_GROWTH))
        after = None if after >= limit else after
        why = "the objective is met at the rates that the copies need"
    if after != pacing.pace:
        yield Change((records.PaceRecord(pacing.pace, after, why, now),))


def _is_raised(view: ClusterView, rate: GovernedRate) -> bool:
    """Return whether the copies need more than the lowest rate."""
    return rate.floor > view.options.throttle_min
