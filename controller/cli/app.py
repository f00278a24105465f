"""
The command line: its commands, and the exit code of each way to end.

Each command has a module of its own. An error is one line on standard error without a stack trace.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from controller import DISTRIBUTION, installed_version
from controller.cli.context import CommandContext
from controller.cli.output import Exit, exit_of, print_line, print_note
from controller.errors import ControllerError

COMMANDS: Final = {
    "run": ("run", "run", "Run the daemon."),
    "execute": ("execute", "execute", "Submit a plan."),
    "verify": ("verify", "verify", "Compare a plan or a request with the cluster."),
    "cancel": ("cancel", "cancel", "Cancel reassignments and roll them back."),
    "list": ("list_requests", "list_requests", "List open or ended requests."),
    "status": ("status", "status", "Print the status of the leading daemon."),
    "explain": ("explain", "explain", "Explain the state of a partition."),
    "doctor": ("doctor", "doctor", "Find problems of the cluster and of the znodes."),
    "watch": ("status", "watch", "Show progress continuously."),
    "pause": ("pause", "pause", "Pause reassignments."),
    "resume": ("pause", "resume", "Remove a pause."),
    "limits": ("limits", "limits", "Show or change concurrency limits."),
    "throttle": ("limits", "throttle", "Show or change the replication throttle."),
    "disable": ("pause", "disable", "Refuse new reassignments."),
    "enable": ("pause", "enable", "Accept new reassignments again."),
    "drain": ("drain", "drain", "Empty brokers, and keep them empty."),
    "leaders": ("leaders", "leaders", "Move leaderships off brokers, and back."),
    "quiesce": ("quiesce", "quiesce", "End all work, and say when nothing is left."),
    "undo": ("cancel", "undo", "Undo requests: move their partitions back."),
    "add": ("plan_tasks", "add", "Move a share of all replicas to new brokers."),
    "replication": ("plan_tasks", "replication", "Change the replication factor of topics."),
    "rebalance": ("plan_tasks", "rebalance", "Even out the replicas of brokers."),
    "generate": ("generate", "generate", "Propose a plan."),
    "stock": ("stock.command", "stock", "Behave as Kafka's reassignment tool."),
    "queue": ("queue", "queue_app", "Queue reassignments."),
    "pipeline": ("pipeline", "pipeline_app", "Plan whole clusters on Spark."),
}
"""Module, function and summary of each command, in the order of ``--help``."""
GROUPS: Final = frozenset({"queue", "pipeline"})
"""Commands with sub-commands: the function returns their application."""
GARBAGE_THRESHOLD: Final = 100_000
"""Objects allocated between two collections of garbage."""


@cache
def _load(name: str) -> Any:  # noqa: ANN401 - typer hides its command classes
    module, attribute, summary = COMMANDS[name]
    found = getattr(import_module(f"controller.cli.{module}"), attribute)
    if name in GROUPS:
        app: typer.Typer = found()
    else:
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(name)(found)
    command = typer.main.get_command(app)
    command.name = name
    command.short_help = summary
    return command


class OneLineGroup(TyperGroup):
    """
    A group of commands that reports each error in one line and with its exit code.

    A command is imported when it is looked up: ``--help`` lists all commands and a command needs
    only itself, while the imports of all commands take half a second.
    """

    def __init__(self, **keywords: Any) -> None:  # noqa: ANN401 - passed through
        """Build the group with the names of its commands."""
        super().__init__(**keywords)
        self.commands: Any = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer's signature
        """Import and return a command, None if there is none of this name."""
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Write the commands into the help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, _, about) in COMMANDS.items()])

    def main(self, *args: Any, **keywords: Any) -> NoReturn:  # noqa: ANN401 - passed through
        """Run a command and exit with its exit code."""
        try:
            ended = super().main(*args, **{**keywords, "standalone_mode": False})
            code = int(ended or Exit.DONE)
        except typer.TyperException as error:
            words = _usage_words(error, args[0] if args else keywords.get("args"))
            code = _fail(words or "wrong usage; see --help", Exit.ERROR)
        except ControllerError as error:
            code = _fail(str(error), exit_of(error))
        except typer.Abort:
            code = _fail("aborted", Exit.ERROR)
        sys.exit(code)


def _usage_words(error: typer.TyperException, given: Sequence[str] | None) -> str:
    """Return what is wrong with options or arguments, in the words of the help."""
    found: list[Any] = getattr(error.__cause__, "errors", list)()
    if isinstance(error, typer.BadParameter) and found and error.param is not None:
        wrong, name = found[0]["input"], error.param.get_error_hint()
        match found[0]["type"]:
            case "int_parsing":
                return f"Invalid value for {name}: a number, not {wrong!r}"
            case "greater_than_equal":
                least = found[0]["ctx"]["ge"]
                return f"Invalid value for {name}: a number, {least} or more, not {wrong}"
    option = getattr(error, "option_name", "")
    if _NEGATIVE.fullmatch(option):
        words = sys.argv[1:] if given is None else given
        wrong = next((word for word in words if word.startswith(option)), option)
        return f"{wrong}: a value must not be negative"
    return error.format_message()


_NEGATIVE: Final = re.compile(r"-\d")
"""What is taken for an option, and is the begin of a negative number."""


def _fail(message: str, code: Exit) -> int:
    print_note(f"reassigner: {message}")
    return int(code)


def build_app(context: CommandContext) -> typer.Typer:
    """Return the command line; its commands reach the outside through ``context``."""
    app = typer.Typer(
        name="reassigner",
        cls=OneLineGroup,
        help="Reassign partitions of ZooKeeper-based Kafka clusters in small, safe steps.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "obj": context,
        },
    )

    @app.callback(invoke_without_command=True)
    def root(
        ctx: typer.Context,
        *,
        show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    ) -> None:
        if show_version:
            print_line(f"{DISTRIBUTION} {installed_version()}")
        elif ctx.invoked_subcommand is None:
            print_note(ctx.get_help())
            raise typer.Exit(Exit.ERROR)

    return app


def main() -> NoReturn:
    """Run the command line in the environment of this process."""
    # A command lives for half a second and imports for most of it: what imports allocate is not
    # garbage, nor is it when the interpreter collects at exit; and pydantic looks for plug-ins in
    # every distribution that is installed.
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    build_app(CommandContext(environ=os.environ, is_terminal=sys.stdout.isatty))()
    raise SystemExit(Exit.DONE)
