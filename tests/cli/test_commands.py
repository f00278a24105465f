"""The reference of the verbs, and what every verb has to offer."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from docs.generate.command_tree import Verb
from docs.generate.verbs import command_line, verb_reference
from tests.cli.builders import FakeCluster, Terminal, a_status
from tests.core.builders import tp

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
VERBS = [verb for verb in command_line().walk() if verb.path]
EXAMPLES = re.compile(r"^Example: (reassigner \S.*)$", re.MULTILINE)
CHANGING = {
    "execute": ("{plan}",),
    "cancel": ("--everything",),
    "pause": (),
    "resume": (),
    "limits": ("--max-incoming", "3"),
    "throttle": ("5MB",),
    "drain": ("1",),
    "undo": ("--everything",),
    "add": ("4",),
    "replication": ("t", "3"),
    "rebalance": (),
    "disable": (),
    "enable": (),
    "quiesce": (),
    "leaders": ("--evacuate", "2"),
    "generate": ("t", "--drain", "1", "--execute"),
    "stock": ("--zookeeper", "z:1", "--execute", "--reassignment-json-file", "{plan}"),
    "queue add": ("{plan}",),
    "queue remove": ("t-1",),
    "queue clear": (),
}
"""Every verb that writes anything, with options that make it do so."""
READING = {
    "run",
    "verify",
    "list",
    "status",
    "explain",
    "doctor",
    "watch",
    "queue",
    "queue list",
    "pipeline",
    "pipeline rebase",
    "pipeline snapshot",
    "pipeline plan",
    "pipeline report",
}


def name_of(verb: Verb) -> str:
    """Return what a verb is called behind the command."""
    return " ".join(verb.path)


def test_the_reference_is_up_to_date() -> None:
    """Written by ``make reference``."""
    assert DOCS.read_text() == verb_reference(command_line())


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_every_verb_shows_one_example_that_begins_with_it(verb: Verb) -> None:
    """It can be copied from the help, which also says so in the shell."""
    (example,) = EXAMPLES.findall(verb.about)
    assert example.startswith(verb.name)
    result = Terminal(FakeCluster()).run(*verb.path, "--help")
    assert result.exit_code == 0
    assert f"Example: {verb.name}" in result.stdout


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_every_option_of_an_example_exists(verb: Verb) -> None:
    """An example that is copied works."""
    words = set(re.findall(r"--[a-z-]+", EXAMPLES.findall(verb.about)[0]))
    assert words <= {name for v in verb.walk() for option in v.options for name in option.names}


def test_every_verb_changes_something_or_not() -> None:
    """A new verb has to say which; what changes something has a dry run."""
    assert {name_of(v) for v in VERBS} == CHANGING.keys() | READING
    for verb in VERBS:
        names = {name for option in verb.options for name in option.names}
        assert name_of(verb) not in CHANGING or "--dry-run" in names


def scene() -> FakeCluster:
    """Return a cluster in which each of those verbs has something to change."""
    return FakeCluster(statuses=[a_status()]).assign(tp(0), (1, 2)).assign(tp(1), (1, 2))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", CHANGING)
def test_a_dry_run_leaves_everything_as_it_was(name: str, as_json: bool, tmp_path: Path) -> None:  # noqa: FBT001 - both
    """Exit code as if it were accepted, and a word that nothing was written."""
    plan = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [2, 3]}
    plan.write_text(json.dumps({"partitions": [entry]}))
    cluster = scene()
    if name in ("cancel", "undo"):
        cluster.accept(tp(1), (2, 3), (1, 2))
    if name == "enable":
        Terminal(cluster).run("disable")
    if name in ("queue remove", "queue clear"):
        Terminal(cluster).run("queue", "add", str(plan))
    if name == "resume":
        Terminal(cluster).run("pause")
    before = copy.deepcopy(cluster)
    arguments = [argument.format(plan=plan) for argument in CHANGING[name]]
    if name == "queue remove":
        arguments = ["t-0"]
    if as_json:
        if "--json" not in _options(name):
            return
        arguments.append("--json")
    result = Terminal(cluster).run(*name.split(), *arguments, "--dry-run")
    assert result.exit_code == 0, result.output
    assert cluster == before
    if as_json and name != "generate":
        assert json.loads(result.stdout)["dry_run"] is True
    elif not as_json:
        assert "Nothing was written." in result.output


def _options(name: str) -> set[str]:
    (verb,) = [v for v in VERBS if name_of(v) == name]
    return {word for option in verb.options for word in option.names}


@pytest.mark.parametrize("name", sorted(CHANGING.keys() - {"stock", "generate"}))
def test_the_same_without_a_dry_run_changes_something(name: str, tmp_path: Path) -> None:
    """So the test before this one means something."""
    plan = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [2, 3]}
    plan.write_text(json.dumps({"partitions": [entry]}))
    cluster = scene()
    arguments = [argument.format(plan=plan) for argument in CHANGING[name]]
    if name in ("cancel", "undo"):
        cluster.accept(tp(1), (2, 3), (1, 2))
        arguments += ["--yes", "--timeout", "1"]
    if name == "execute":
        arguments += ["--timeout", "1"]
    if name == "enable":
        Terminal(cluster).run("disable")
    if name in ("queue remove", "queue clear"):
        Terminal(cluster).run("queue", "add", str(plan))
    if name == "queue remove":
        arguments = ["t-0"]
    if name == "resume":
        Terminal(cluster).run("pause")
    before = copy.deepcopy(cluster)
    Terminal(cluster).run(*name.split(), *arguments)
    assert cluster != before
