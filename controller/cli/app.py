"""
The command line: its commands, and the exit code of each way to end.

Each command has a module of its own. An error is one line on standard error without a stack trace.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from controller.cli import pause as pauses
from controller.cli.cancel import cancel
from controller.cli.context import CommandContext
from controller.cli.doctor import doctor
from controller.cli.execute import execute
from controller.cli.exits import Exit, exit_of
from controller.cli.explain import explain
from controller.cli.generate import generate
from controller.cli.limits import limits
from controller.cli.list_requests import list_requests
from controller.cli.output import print_line, print_note
from controller.cli.pipeline import pipeline_app
from controller.cli.queue import queue_app
from controller.cli.run import run
from controller.cli.status import status, watch
from controller.cli.stock.command import stock
from controller.cli.throttle import throttle
from controller.cli.verify import verify
from controller.errors import ControllerError
from controller.releases import DISTRIBUTION, installed_version


class OneLineGroup(TyperGroup):
    """A group of commands that reports each error in one line and with its exit code."""

    def main(self, *args: Any, **keywords: Any) -> NoReturn:  # noqa: ANN401 - passed through
        """Run a command and exit with its exit code."""
        try:
            ended = super().main(*args, **{**keywords, "standalone_mode": False})
            code = int(ended or Exit.DONE)
        except typer.TyperException as error:
            code = _fail(error.format_message() or "wrong usage; see --help", Exit.ERROR)
        except ControllerError as error:
            code = _fail(str(error), exit_of(error))
        except typer.Abort:
            code = _fail("aborted", Exit.ERROR)
        sys.exit(code)


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

    command = app.command
    command("run", short_help="Run the daemon.")(run)
    command("execute", short_help="Submit a plan.")(execute)
    command("verify", short_help="Compare a plan or a request with the cluster.")(verify)
    command("cancel", short_help="Cancel reassignments and roll them back.")(cancel)
    command("list", short_help="List open or ended requests.")(list_requests)
    command("status", short_help="Print the status of the leading daemon.")(status)
    command("explain", short_help="Explain the state of a partition.")(explain)
    command("doctor", short_help="Find problems of the cluster and of the znodes.")(doctor)
    command("watch", short_help="Show progress continuously.")(watch)
    command("pause", short_help="Pause reassignments.")(pauses.pause)
    command("resume", short_help="Remove a pause.")(pauses.resume)
    command("limits", short_help="Show or change concurrency limits.")(limits)
    command("throttle", short_help="Show or change the replication throttle.")(throttle)
    command("disable", short_help="Refuse new reassignments.")(pauses.disable)
    command("enable", short_help="Accept new reassignments again.")(pauses.enable)
    command("generate", short_help="Propose a plan.")(generate)
    command("stock", short_help="Behave as Kafka's reassignment tool.")(stock)
    app.add_typer(queue_app(), name="queue", short_help="Queue reassignments.")
    app.add_typer(pipeline_app(), name="pipeline", short_help="Plan whole clusters on Spark.")
    return app


def main() -> NoReturn:
    """Run the command line in the environment of this process."""
    build_app(CommandContext(environ=os.environ, is_terminal=sys.stdout.isatty))()
    raise SystemExit(Exit.DONE)
