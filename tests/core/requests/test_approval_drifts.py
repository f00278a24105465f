"""Drifts between an approval and the first step: nothing moves that was not approved."""

from __future__ import annotations

import pytest

from tests.core.requests.drift_rigs import play

SEEDS = 5
"""``python -m tests.core.drift_rigs`` plays fifty times as many."""


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "delegated"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_drift_moves_what_was_not_approved(seed: int, is_native: bool) -> None:  # noqa: FBT001
    """What drifted is refused, each once; what did not drift reaches its target."""
    play(seed, is_native=is_native)
