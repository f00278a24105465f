"""Settings and options of every test."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites the scenario files."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the daemon decides into the files in tests/scenarios/testdata",
    )
