"""The completeness of a campaign."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim import endpoint_campaigns
from tests.sim.campaigns import ENOUGH, EVERYTHING, missing
from tests.sim.endpoint_campaigns import NAMES
from tests.sim.first_histories import histories
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


def test_what_only_brokers_with_requests_meet_with_is_expected_of_half_the_histories() -> None:
    """Its rules and faults have a campaign of their own."""
    half = [kind for kind, _ in histories(ENOUGH)].count("endpoint")
    assert endpoint_campaigns.missing(Counter(NAMES), half) == []
    met = Counter(NAMES)
    del met["request_forgotten"]
    assert endpoint_campaigns.missing(met, half) == ["request_forgotten"]


def test_no_seed_is_played_by_both_kinds_of_native_histories() -> None:
    """The plots of a seed are the same but for the brokers that ask."""
    seeds = [seed for kind, seed in histories(ENOUGH) if kind != "delegated"]
    assert sorted(seeds) == list(range(ENOUGH))
