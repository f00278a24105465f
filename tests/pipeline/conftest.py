"""
Leaves out what needs the extra ``pipeline`` where it is not installed; one Spark for all.

Tests that need it run in one process, also where the tests are spread over several.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("pyspark", "numpy", "matplotlib"))

collect_ignore_glob = [] if HAS_EXTRA else ["test_*.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the group of the tests that share the session."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


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
