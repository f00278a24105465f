"""
A pytest plugin: record what each test executes, or run some tests in a given order.

``pytest -p tests.mutants.hooks`` adds the options ``--record`` and ``--selected``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.mutants import time_limits
from tests.mutants.executions import IMPORT, Recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    parser.addoption("--record", type=Path, help="record what each test executes, to this file")
    parser.addoption("--module", action="append", help="the path of a module to record")
    parser.addoption("--selected", type=Path, help="a JSON list of the tests to run, in order")
    parser.addoption("--known", type=Path, help="JSON of all tests to select from")


def pytest_configure(config: pytest.Config) -> None:
    """Record or select, as the options say."""
    record: Path | None = config.getoption("--record")
    if record is not None:
        recording = Recording(record, config.getoption("--module"))
        config.pluginmanager.register(recording)
    selected: Path | None = config.getoption("--selected")
    if selected is not None:
        tests = json.loads(selected.read_text(encoding="utf-8"))
        known = json.loads(config.getoption("--known").read_text(encoding="utf-8"))
        config.pluginmanager.register(Selection(tests, known))


class Selection:
    """
    Run the selected tests alone, in the order of the list.

    Then those that are not known: a mutated constant may be part of the name of a test.
    """

    def __init__(self, tests: list[str], known: Iterable[str]) -> None:
        self._left_out: Final = set(known).difference(tests)
        self._rank: Final = {test: rank for rank, test in enumerate(tests)}

    def pytest_runtest_logstart(self) -> None:
        """Give each test a limit of its own."""
        time_limits.begin()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        chosen = [item for item in items if item.nodeid not in self._left_out]
        last = len(self._rank)
        items[:] = sorted(chosen, key=lambda item: self._rank.get(item.nodeid, last))


class Recording:
    """Give each test a context of its own, and each file while its tests are collected."""

    def __init__(self, file: Path, modules: list[str]) -> None:
        self._durations_file: Final = file.with_suffix(".json")
        self._durations: Final[dict[str, float]] = {}
        self._recorder: Final = Recorder(file, modules)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, object, object]:
        """Record what the file itself executes, such as the parameters of its tests."""
        if isinstance(collector, pytest.Module):
            self._recorder.enter(collector.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.enter(IMPORT)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record a test with its fixtures, and measure how long it takes."""
        self._recorder.enter(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self._durations[item.nodeid] = round(time.process_time() - began, 4)
            self._recorder.enter(IMPORT)

    def pytest_sessionfinish(self) -> None:
        """Write the recording."""
        self._recorder.close()
        self._durations_file.write_text(json.dumps(self._durations), encoding="utf-8")
