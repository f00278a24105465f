"""
Leaves out what needs the extra ``pipeline`` where it is not installed; one Spark for all.

All tests of this room run in one process, also where the others are spread over several.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("pyspark", "numpy", "matplotlib"))

WITHIN_S: Final = 900
"""The time limit of a test with Spark."""

collect_ignore_glob = [] if HAS_EXTRA else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the test that is first wait for Spark to start."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(WITHIN_S))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Return a session of two cores."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from controller.pipeline.spark_session import open_session  # noqa: PLC0415 - may not be installed

    session = open_session("local[2]", memory="1g", shuffles=2, is_brief=True)
    # For a few hundred rows, compiling every query costs more than running it.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()
