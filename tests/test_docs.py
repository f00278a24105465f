"""The documentation: links lead somewhere, commands and metrics exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from controller.cli.app import build_app
from controller.cli.context import CommandContext
from controller.core.reassignments.phases import LABELS, LEGAL
from controller.setting_sources import load_settings
from controller.settings import Settings, variable_of
from controller.web.access import Tokens
from tests.deploy.exported import exported

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
HELP: Final = frozenset({"-h", "--help"})
COMMAND: Final[Any] = typer.main.get_command(build_app(CommandContext(environ={})))


def name_of(page: Path) -> str:
    """Return how a page is called in messages."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return what can be linked to within a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


def commands(text: str) -> Iterator[str]:
    """Yield every call of ours in a page: in backticks, and in blocks, without comments."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines:
        call = re.match(r"(?:.*exec \S+ (?:-- )?|\S*/)?reassigner +([a-z].*)", line.strip())
        if call is not None:
            yield call[1].partition(" #")[0].rstrip(".,;")


def problem_of(call: str) -> str | None:
    """Return what of a call does not exist: a verb, an option."""
    command = COMMAND
    words = shlex.split(call.replace("...", ""))
    while hasattr(command, "commands") and words and words[0][:1].isalpha():
        if words[0] not in command.commands:
            return f"no verb {words[0]}"
        command, words = command.get_command(None, words[0]), words[1:]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | HELP
    return next((w for w in words if w[:1] == "-" and w.partition("=")[0] not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files exist, and so do the headings that are named."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(found), f"{name_of(page)}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_exists(page: Path) -> None:
    """With every option that is shown."""
    wrong = {call: problem_of(call) for call in commands(page.read_text())}
    assert {call: problem for call, problem in wrong.items() if problem} == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("`reassigner move plan.json`", "no verb move"),
        ("```\n.venv/bin/reassigner execute p.json --fast  # soon\n```", "--fast"),
        ("`reassigner queue drop`", "no verb drop"),
        ("`reassigner cancel --partition t-0 --wait`", None),
        ("`kubectl exec reassigner-0 -- reassigner status --json`", None),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, problem: str | None) -> None:
    """A verb, an option, a verb below a verb."""
    assert [problem_of(call) for call in commands(text)] == [problem]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_metric_and_every_variable_exists(page: Path) -> None:
    """By the names that are exported and read; the journal of changes also names earlier ones."""
    if page.name == "CHANGELOG.md":
        return
    text = page.read_text()
    series = set(exported())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
    named = set(re.findall(r"\breassigner_[a-z_]*[a-z]\b", text))
    assert named - series - families == set()
    known = {variable_of(field) for field in Settings.model_fields}
    known.add("REASSIGNER_CONFIG")
    assert set(re.findall(r"\bREASSIGNER_[A-Z_]*[A-Z]\b", text)) - known == set()


BLOCKS: Final = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )
]
"""Configurations, and files of tokens, whose content is tables."""


@pytest.mark.parametrize("block", BLOCKS)
def test_every_configuration_that_is_shown_is_accepted(block: str, tmp_path: Path) -> None:
    """By the daemon, as it is, and by the reader of tokens once the dots are filled in."""
    file = tmp_path / "shown.toml"
    if any(isinstance(value, dict) for value in tomllib.loads(block).values()):
        file.write_text(re.sub(r'"\w*\.\.\."', f'"{"0" * 64}"', block))
        Tokens(file, None, pytest.fail)
        return
    file.write_text(block)
    load_settings({"zookeeper": "zk:2181"}, {}, config=file)


def test_the_concepts_show_phases_that_follow_each_other() -> None:
    """The picture for people leaves transitions out and adds none."""
    text = (ROOT / "docs" / "guide" / "concepts.md").read_text()
    drawn = re.findall(r"^ +(\w+) --> (\w+)", text, re.MULTILINE)
    phases = {label.replace("-", "_"): phase for phase, label in LABELS.items()}
    assert drawn
    assert all(phases[after] in LEGAL[phases[before]] for before, after in drawn)
