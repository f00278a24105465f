"""Pauses between attempts."""

from __future__ import annotations

import pytest
from tenacity import wait_exponential

from controller.brokers.channels import RECONNECT
from controller.brokers.connection_settings import REFUSED as REFUSED_BY_BROKERS
from controller.clocks import pause_s
from controller.zk.security import REFUSED as REFUSED_BY_ZOOKEEPER


def test_pauses_are_those_of_the_strategy() -> None:
    """After any number of failures: some go on for days."""
    wait = wait_exponential(multiplier=0.1, max=1.0)
    pauses = [pause_s(wait, failures) for failures in (1, 2, 3, 4, 5, 10_000_000)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_broker_that_is_about_to_listen_is_reached_within_a_quarter_of_a_second() -> None:
    """However long it was away; and never without any pause."""
    for failures in (1, 2, 5, 1_000):
        assert all(0.025 <= pause_s(RECONNECT, failures) <= 0.25 for _ in range(100))


def test_refused_logins_are_spread_also_after_many_refusals() -> None:
    """Several daemons share an account: they do not try it in step."""
    for wait, most_s in ((REFUSED_BY_BROKERS, 300.0), (REFUSED_BY_ZOOKEEPER, 60.0)):
        pauses = {pause_s(wait, 1_000) for _ in range(100)}
        assert len(pauses) > 1
        assert all(most_s <= pause <= most_s + 1 for pause in pauses)
