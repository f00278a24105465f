"""The scenario files: what the daemon decides is what they expect."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.clusters import ScenarioCluster
from tests.scenarios.scenario_files import format_blocks, parse_command, read_blocks

FILES: Final = sorted(Path(__file__).with_name("testdata").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_decisions_are_those_of_the_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    """Each command has the output that the file expects; ``--rewrite`` writes the present one."""
    cluster = ScenarioCluster()
    blocks = read_blocks(path)
    played = [b._replace(expected=cluster.execute(parse_command(b.command))) for b in blocks]
    if request.config.getoption("--rewrite"):
        path.write_text(format_blocks(played), encoding="utf-8")
    else:
        difference = unified_diff(
            format_blocks(blocks).splitlines(),
            format_blocks(played).splitlines(),
            f"expected by {path.name}",
            "decided",
            lineterm="",
        )
        text = "\n".join(difference)
        if text:
            pytest.fail(text, pytrace=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_states_its_rule_on_top(path: Path) -> None:
    """The comment before the first command is one sentence or more."""
    assert read_blocks(path)[0].comment.startswith("# ")
