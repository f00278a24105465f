"""Settings and options of every test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

IN_ONE_PROCESS: Final = "tests/pipeline/"
"""The tests that share one Spark."""

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Give whole files to the processes, and all that share Spark to one of them."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only where it is in use

    class FileScheduling(LoadScopeScheduling):  # type: ignore[misc] # it has no types
        """Keeps the tests of a file together, so that what they share is made once."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", maxsplit=1)[0]
            return IN_ONE_PROCESS if file.startswith(IN_ONE_PROCESS) else file

    return FileScheduling(config, log)
