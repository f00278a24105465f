"""
The adaptive limit: as many partitions in flight as the cluster sustains.

Each interval without evidence of strain allows a few more (additive increase); an ISR loss of a
partition without a reassignment, or a slow broker, halves the limit (multiplicative decrease). It
lies between 1 and the configured limit. Every change has its evidence.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from controller.core.effects import SetTimer
from controller.core.model import BrokerId, Instant
from controller.core.pacing.limits_in_force import in_flight_limit
from controller.core.pacing.model import SlowAnswer
from controller.core.pacing.records import PaceRecord
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

PACE_TIMER: Final = "pace"
PACE_EVERY_S: Final = 30.0
FIRST_SHARE: Final = 0.25
"""The share of the limit at the begin of a tenure, when nothing is known of the load."""
GROWTH_SHARE: Final = 0.1
"""The share of the limit that each good interval adds."""


def adapt_limit(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Begin with a share of the limit, then adjust it interval by interval."""
    tenure, pacing = view.tenure, view.pacing
    if not view.options.adaptive or tenure.held is None:
        return Decision()
    timer = SetTimer(PACE_TIMER, Instant(now + PACE_EVERY_S))
    limit = in_flight_limit(view)
    if pacing.pace is None:
        first = max(1, ceil(limit * FIRST_SHARE))
        record = PaceRecord(None, first, f"start at a quarter of the limit of {limit}", now)
        return Decision((Change((record,)),), (timer,))
    if not due.timer:
        return Decision()
    over_at = Instant(pacing.pace_since + PACE_EVERY_S)
    if now < over_at:
        return Decision(effects=(SetTimer(PACE_TIMER, over_at),))
    against = evidence_against(view)
    before = min(pacing.pace, limit)
    if against:
        after = max(1, before // 2)
    else:
        after = min(limit, before + max(1, int(limit * GROWTH_SHARE)))
    why = against or "no ISR shrank outside the plan, and brokers answer quickly"
    return Decision((Change((PaceRecord(before, after, why, now),)),), (timer,))


def evidence_against(view: ClusterView) -> str:
    """Return the evidence against the present limit since the interval began; empty if none."""
    pacing = view.pacing
    since = pacing.pace_since
    lost = [loss for loss in pacing.isr_losses if loss.at > since]
    slow = [answer for answer in pacing.slow_answers if answer.at > since]
    said = []
    if lost:
        said.append(f"{len(lost)} times the ISR of a partition outside the plan shrank, ")
        said[-1] += f"the last was {lost[-1].partition}"
    if slow:
        worst = max(slow, key=lambda answer: answer.took_s)
        said.append(f"broker {worst.broker} took {worst.took_s:.1f} s to answer")
    return "; ".join(said)


# --- what is folded into the view --------------------------------------------------------------


def limit_adapted(view: ClusterView, record: PaceRecord) -> None:
    """Fold in a new limit; the next interval begins."""
    view.pacing.pace = record.in_flight_max
    view.pacing.pace_since = record.at


def note_answer(view: ClusterView, broker: BrokerId, took_s: float, now: Instant) -> None:
    """Keep a slow answer of a broker as evidence."""
    if took_s > view.options.slow_answer_s:
        view.pacing.slow_answers.append(SlowAnswer(broker, took_s, now))
