"""Tests of ``controller.cli.app``: options, wrong usage, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.app import COMMANDS, build_app
from controller.cli.context import CommandContext
from controller.core.core_settings import TenurePolicy
from docs.generate.verbs import command_line
from tests.cli.builders import FakeCluster, Terminal

VERBS = (
    "run",
    "execute",
    "verify",
    "cancel",
    "list",
    "status",
    "explain",
    "watch",
    "queue",
    "pause",
    "resume",
    "limits",
    "throttle",
    "disable",
    "enable",
)


@pytest.mark.parametrize(
    "args",
    [
        ("--nonsense",),
        ("nonsense",),
        ("execute",),
        ("execute", "none.json"),
        ("execute", "a.json", "b.json"),
        ("execute", "none.json", "--timeout", "soon"),
        ("execute", "none.json", "--timeout", "-1"),
        ("verify", "none.json", "--jsn"),
        ("run", "--step-size"),
        ("run", "--step-size", "0"),
        ("run", "--no-step-size"),
        ("run", "--zookeeper", "a b"),
        ("run", "--config", "none.toml"),
        ("run", "--http", "8095"),
        ("status", "--http", "8095"),
        ("status", "--zookeeper", ""),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_1(args: tuple[str, ...]) -> None:
    """No usage text, no stack trace, no code 2, which means something else."""
    result = Terminal(FakeCluster()).run(*args)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("reassigner: ")
    assert result.stdout == ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    """Help ends with code 0."""
    result = Terminal(FakeCluster()).run(verb, "--help")
    assert result.exit_code == 0
    assert f"Example: reassigner {verb}" in result.stdout
    assert "--zookeeper" in result.stdout


def test_without_a_verb_the_help_is_shown() -> None:
    """It is wrong usage all the same."""
    result = Terminal(FakeCluster()).run()
    assert result.exit_code == 1
    assert all(verb in result.stderr for verb in VERBS)


def modules_after(program: str) -> dict[str, set[str]]:
    """Run a program in an interpreter of its own; return the modules that it reports by name."""
    listing = "import io, json, sys\nfrom contextlib import redirect_stdout\nfound = {}\n"
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", f"{listing}{program}\nprint(json.dumps(found))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: set(modules) for name, modules in json.loads(ended.stdout).items()}


HELP = """
from controller.cli.app import COMMANDS, build_app
from controller.cli.context import CommandContext
app = build_app(CommandContext(environ={}))
for name in ("", *COMMANDS):
    with redirect_stdout(io.StringIO()):
        try: app([*filter(None, [name]), "--help"])
        except SystemExit as ended: assert not ended.code, name
    found[name] = sorted(sys.modules)
"""
SLOW = {"kazoo", "kafka", "confluent_kafka", "rich.console", "structlog", "jinja2", "pyspark"}
"""What takes long to import, and only some commands use."""
DECISIONS = {"controller.core.decide", "controller.core.view", "controller.core.effects"}


def test_no_help_imports_what_takes_long() -> None:
    """Nor what only another command needs: the clients, the tables, the decisions of the core."""
    found = modules_after(HELP)
    assert not found[""] & {"pydantic", "controller.settings", "controller.cli.status"}
    for name, modules in found.items():
        assert not modules & (SLOW | DECISIONS), name


PREVIEWS = """
from importlib import import_module
for room, name in {modules!r}:
    import_module(f"controller.{{room}}.{{name}}")
    found[name] = sorted(sys.modules)
"""


def test_no_preview_and_no_survey_imports_what_the_daemon_decides_and_sends() -> None:
    """They check entries, and ask brokers, by what decisions and requests stand on."""
    modules = [
        ("previews", "validation"),
        ("previews", "plan_facts"),
        ("brokers", "surveys"),
        ("brokers", "setting_survey"),
        ("cli", "diagnosis"),
        ("zk", "znode_survey"),
    ]
    sent = {"controller.core.records", "controller.brokers.messages"}
    for name, found in modules_after(PREVIEWS.format(modules=modules)).items():
        assert not found & (DECISIONS - {"controller.core.view"} | sent), name
        assert not found & (SLOW - {"kafka", "kazoo"}), name


STARTS = """
from controller.cli.app import build_app
from controller.cli.context import CommandContext
from controller.errors import SessionSuspendedError
def connect(settings):
    import controller.zk.operator_client
    raise SessionSuspendedError("as far as its start")
app = build_app(CommandContext(environ={{"REASSIGNER_ZOOKEEPER": "zk:2181"}}, connect=connect))
for words in {commands!r}:
    with redirect_stdout(io.StringIO()):
        try: app(words)
        except SystemExit as ended: assert ended.code == 1, words
    found[" ".join(words)] = sorted(sys.modules)
"""


def test_no_command_imports_what_takes_long_to_reach_zookeeper(tmp_path: Path) -> None:
    """A command without a terminal draws no table and logs nothing; most ask no broker."""
    plan = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    commands = [
        ["execute", str(plan)],
        ["verify", str(plan)],
        ["cancel", "request_0000000000"],
        ["list"],
        ["status"],
        ["explain", "t-0"],
        ["watch"],
        ["queue", "list"],
        ["queue", "add", str(plan)],
        ["pause"],
        ["resume"],
        ["limits"],
        ["throttle", "5MB"],
        ["disable"],
        ["enable"],
        ["quiesce"],
        ["generate", "t", "--rebalance"],
        ["undo", "request_0000000000"],
        ["add", "5"],
        ["replication", "t", "2"],
        ["rebalance"],
        ["leaders"],
        ["doctor"],
        ["drain", "5"],
    ]
    decide = {"doctor", "drain 5"}
    """What the daemon would decide: whether it can work here, where replicas would go."""
    for words, modules in modules_after(STARTS.format(commands=commands)).items():
        assert "kazoo" in modules
        assert not modules & (SLOW - {"kazoo"}), words
        assert words in decide or not modules & DECISIONS, words


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists(name: str) -> None:
    """The list names modules and functions as text."""
    (verb,) = (v for v in command_line().verbs if v.path == (name,))
    assert verb.summary == COMMANDS[name][2]
    assert verb.about


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant() -> None:
    """From the names alone."""
    result = Terminal(FakeCluster()).run("dictor")
    assert "Did you mean 'doctor'?" in result.stderr


def test_the_version_is_printed() -> None:
    """The name of the distribution and its version."""
    result = Terminal(FakeCluster()).run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("kafka-reassigner ")


@pytest.mark.parametrize("verb", ["status", "watch"])
def test_zookeeper_out_of_reach_is_one_line(verb: str) -> None:
    """Exit code 1 and where it was looked for."""
    result = Terminal(FakeCluster(), unreachable=True).run(verb, "--zookeeper", "zk9:1")
    assert result.exit_code == 1
    message = "reassigner: ZooKeeper at zk9:1 cannot be reached within 10 s"
    assert result.stderr.splitlines() == [message]


def test_a_verb_without_zookeeper_says_how_to_name_it() -> None:
    """Option, variable and file."""
    result = Terminal(FakeCluster(), environ={}).run("status")
    assert result.exit_code == 1
    assert "--zookeeper is required (or REASSIGNER_ZOOKEEPER" in result.stderr


def test_run_takes_every_source(tmp_path: Path) -> None:
    """Command line before environment before file."""
    config = tmp_path / "reassigner.toml"
    config.write_text('step_size = 7\ntenure = "permanent"\nmax_incoming_per_broker = 3\n')
    terminal = Terminal(FakeCluster())
    terminal.environ |= {"REASSIGNER_STEP_SIZE": "2", "REASSIGNER_TENURE_LINGER": "9"}
    options = ("--step-size", "all", "--no-preferred-election", "--config", str(config))
    assert terminal.run("run", *options).exit_code == 0
    (settings,) = terminal.ran
    assert settings.zookeeper == "zk:2181"
    assert settings.step_size == "all"
    assert settings.tenure is TenurePolicy.PERMANENT
    assert settings.tenure_linger_s == 9
    assert settings.max_incoming_per_broker == 3
    assert settings.preferred_election is False


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("reassigner pa", ["pause"]),
        ("reassigner queue re", ["remove"]),
        ("reassigner limits --under-min-isr ", ["wait", "warn", "ignore"]),
    ],
)
def test_verbs_and_values_complete_in_a_shell(words: str, offered: list[str]) -> None:
    """Typer's completion, as the script that --show-completion prints asks for it."""
    requested = {
        "_REASSIGNER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    app = build_app(CommandContext(environ={}))
    result = CliRunner().invoke(app, [], env=requested, prog_name="reassigner")
    assert result.stdout.split() == offered
