"""The completeness of a campaign."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.campaigns import ENOUGH, EVERYTHING, missing
from tests.sim.rules import Rule


def test_a_campaign_that_met_with_everything_misses_nothing() -> None:
    """A campaign is complete if every rule, fault and action occurred."""
    assert missing(Counter(EVERYTHING), ENOUGH) == []


@pytest.mark.parametrize("name", [Rule.THROTTLED_FIRST, "broker_bounced", "cancelled"])
def test_rules_and_faults_that_a_campaign_never_met_are_reported(name: str) -> None:
    """A rule that was never applied and a fault that never took effect prove nothing."""
    met = Counter(EVERYTHING)
    del met[name]
    assert missing(met, ENOUGH) == [name]
    assert missing(met, ENOUGH - 1) == []
