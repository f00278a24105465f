"""Histories of both engines with a throttle auto: its laws are those of any other throttle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.requests.submissions import AUTO
from tests.sim import delegated_histories, histories, plots


@pytest.mark.parametrize("seed", range(6))
def test_governed_native_histories_end_well(seed: int) -> None:
    """Every request ends, no throttle is left, and operators' settings are as they were."""
    plot = plots.plot_of(seed)
    histories.play(seed, replace(plot, options=replace(plot.options, throttle=AUTO)))


@pytest.mark.parametrize("seed", range(6))
def test_governed_delegated_histories_end_well(seed: int) -> None:
    """The same where Kafka's controller carries out the steps."""
    plot = delegated_histories.plot_of(seed)
    options = replace(plot.options, throttle=AUTO)
    delegated_histories.play(seed, replace(plot, options=options))
