"""Tests that play a reassignment play it with both engines."""

from __future__ import annotations

import pytest

from controller.core.core_settings import EngineName


@pytest.fixture(params=[EngineName.NATIVE, EngineName.DELEGATED], ids=lambda e: e.value)
def engine(request: pytest.FixtureRequest) -> EngineName:
    """Return each engine in turn."""
    found: EngineName = request.param
    return found
