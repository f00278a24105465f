"""
The time that work in progress still takes: a range, or the reason why there is none.

One function for a copy, a partition, a request and everything. What contains other work never ends
before it, so an estimate takes those of its parts into account. The forecast of a plan that is not
submitted yet has no measured rates: see ``forecast``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from controller.planning.forecast import STEP_HIGH_S

FASTER: Final = 1.25
SLOWER: Final = 0.6
"""The rates to come, relative to the measured one."""
UNMEASURED: Final = "its rate is not measured yet"
STILL: Final = "no bytes arrived lately"
OUTGROWN: Final = "producers write as fast as it is copied"
SIZELESS: Final = "its size is not known"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds to the end, at best and at worst."""

    low_s: float = 0.0
    high_s: float = 0.0
    why: str = ""
    """Why there is no estimate; empty: there is one."""
    is_lasting: bool = False
    """Whether that does not end by itself: what contains the work has no estimate, either."""

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        seconds = None if self.why else [round(self.low_s), round(self.high_s)]
        return {"eta_s": seconds, "no_estimate": self.why or None}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeft:
    """What is known of some work, and of what may delay it."""

    bytes: float | None
    """To be copied; None: no size is known."""
    rate: float | None
    """Bytes per second at present; None: unknown."""
    growth: float = 0.0
    """Bytes per second that producers add to what is copied."""
    throttled_s: float = 0.0
    """Seconds that the throttles in force take for it at least."""
    steps: int = 0
    """Steps to come: each takes some time besides its copies."""
    at_once: int = 1
    """The limit on partitions in flight."""
    ending_s: float = 0.0
    """Seconds that follow the last step at most."""
    blocked: str = ""
    """What holds it back until something else changes."""


def time_left(work: WorkLeft, parts: Iterable[Estimate] = ()) -> Estimate:
    """Return the estimate of work with these parts, which is never shorter than any of theirs."""
    parts = list(parts)
    blocked = work.blocked or next((p.why for p in parts if p.is_lasting), "")
    if blocked:
        return Estimate(why=blocked, is_lasting=True)
    if work.bytes is None:
        return Estimate(why=SIZELESS)
    low, high = work.throttled_s, work.throttled_s / SLOWER
    if work.bytes > 0:
        if work.rate is None:
            return Estimate(why=UNMEASURED)
        net = work.rate - work.growth
        if net < 1.0:
            return Estimate(why=STILL if work.rate < 1.0 else OUTGROWN)
        low = max(low, work.bytes / (FASTER * net))
        high = max(high, work.bytes / (SLOWER * net))
    high += STEP_HIGH_S * ceil(work.steps / max(1, work.at_once)) + work.ending_s
    known = [part for part in parts if not part.why]
    return Estimate(
        max((low, *(part.low_s for part in known))), max((high, *(part.high_s for part in known)))
    )
