"""
The command line: verbs, their options and how their ends become exit codes.

Parses, calls and prints; what a verb does is in the module of its name. A wrong option, a wrong
setting or an unreachable cluster is one clear line on standard error, never a stack trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from controller.cli.displays import DisplayOpener, bars, json_lines, lines, nothing
from controller.cli.execute import Execution, Wishes
from controller.cli.exits import Exit, exit_of
from controller.cli.explain import explain
from controller.cli.facts import named_partition
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption, settings_signature
from controller.cli.plans import read_plan_file
from controller.cli.reports import say, tell
from controller.cli.surroundings import OperatorPort, Surroundings
from controller.cli.verify import verify_plan
from controller.cli.watch import LeaderStatus, print_status, watch_leader
from controller.errors import ControllerError, PlanInvalidError
from controller.settings import parse_address

DISTRIBUTION: Final = "kafka-reassigner"

PlanArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.json",
        help='A plan as Kafka\'s own tool takes it: {"version":1,"partitions":[{"topic":"t",'
        '"partition":0,"replicas":[1,2,3]}]}',
        show_default=False,
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Ask this daemon instead of the leader that ZooKeeper names.",
        show_default=False,
    ),
]


class OneLineGroup(TyperGroup):
    """Turns every way a verb can fail into one line and the exit code that says what to do."""

    def main(self, *args: Any, **keywords: Any) -> NoReturn:  # noqa: ANN401 - passed through
        """Run a verb and leave the process with its exit code."""
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
    tell(f"reassigner: {message}")
    return int(code)


def build_app(around: Surroundings) -> typer.Typer:
    """Return the command line within its surroundings."""
    app = typer.Typer(
        name="reassigner",
        cls=OneLineGroup,
        help="Carry out partition reassignments on ZooKeeper-based Kafka clusters, safely and in "
        "small steps.",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    verbs = Verbs(around)

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        *,
        show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    ) -> None:
        if show_version:
            say(f"{DISTRIBUTION} {installed_version()}")
        elif context.invoked_subcommand is None:
            tell(context.get_help())
            raise typer.Exit(Exit.ERROR)

    app.command("run", short_help="Run the daemon.")(verbs.run_command())
    app.command("execute", short_help="Submit a plan.")(verbs.execute)
    app.command("verify", short_help="Compare a plan with the cluster.")(verbs.verify)
    app.command("status", short_help="Print what the leading daemon does.")(verbs.status)
    app.command("explain", short_help="Explain where one partition stands.")(verbs.explain)
    app.command("watch", short_help="Show progress while it happens.")(verbs.watch)
    return app


class Verbs:
    """The verbs, within their surroundings."""

    def __init__(self, around: Surroundings) -> None:
        """Act in these surroundings."""
        self._around = around

    def run_command(self) -> Any:  # noqa: ANN401 - a function whose signature is made from the settings
        """Return the verb that runs the daemon, with an option for every setting."""

        def run(**given: Any) -> NoReturn:  # noqa: ANN401 - options by field name
            config = given.pop("config")
            settings = self._around.settings(given, config)
            raise typer.Exit(self._around.run_daemon(settings))

        run.__doc__ = """
        Run the daemon until it is asked to stop (SIGTERM or Ctrl-C).

        Example: reassigner run --zookeeper zk1:2181/kafka --step-size 1

        Every option is also an environment variable (--step-size: REASSIGNER_STEP_SIZE) and a
        key of the TOML file (step_size).
        """
        signature = settings_signature()
        run.__signature__ = signature  # type: ignore[attr-defined] # functions take any attribute
        run.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}
        return run

    def execute(  # noqa: PLR0913 - the options of the verb
        self,
        plan: PlanArgument,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        additional: Annotated[
            bool, typer.Option("--additional", help="Add to the plan that is being carried out.")
        ] = False,
        wait: Annotated[
            bool, typer.Option("--wait", help="Follow to the end instead of to the acceptance.")
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Show what would change and write nothing.")
        ] = False,
        timeout: Annotated[
            float,
            typer.Option(
                "--timeout", metavar="SECONDS", min=0, help="How long to wait for the acceptance."
            ),
        ] = 60.0,
        as_json: JsonOption = False,
    ) -> None:
        """
        Submit a plan and wait until the daemon has accepted it.

        Example: reassigner execute plan.json --zookeeper zk1:2181/kafka --wait

        Ctrl-C leaves the reassignment running. Exit code: 0 accepted (with --wait: done), 1 error,
        2 not accepted yet or interrupted, 3 refused.
        """
        entries = read_plan_file(plan)
        wishes = Wishes(
            additional=additional, wait=wait, dry_run=dry_run, as_json=as_json, timeout_s=timeout
        )
        with self._connected(zookeeper, config) as operator:
            display = nothing if as_json else self._display()
            execution = Execution(self._around, operator, entries, wishes, display)
            raise typer.Exit(execution.run())

    def verify(
        self,
        plan: PlanArgument,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        Compare a plan with the cluster's assignment.

        Example: reassigner verify plan.json --zookeeper zk1:2181/kafka

        Exit code: 0 all done, 1 something is neither done nor under way, 2 in progress.
        """
        entries = read_plan_file(plan)
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(verify_plan(operator, entries, as_json=as_json))

    def status(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        http: HttpOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        Print what the leading daemon does.

        Example: reassigner status --zookeeper zk1:2181/kafka

        Exit code: 0 nothing to do, 1 error, 2 something is in flight or waits.
        """
        with self._leader(zookeeper, config, http) as leader:
            raise typer.Exit(print_status(leader, as_json=as_json))

    def watch(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        http: HttpOption = None,
        until_idle: Annotated[
            bool, typer.Option("--until-idle", help="End when nothing is left to do.")
        ] = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Show progress while it happens: bars on a terminal, lines elsewhere; Ctrl-C ends it.

        Example: reassigner watch --zookeeper zk1:2181/kafka

        With --json each change is one line of JSON. Exit code: 0 nothing left, 2 something is
        under way.
        """
        with self._leader(zookeeper, config, http) as leader:
            display = json_lines if as_json else self._display()
            raise typer.Exit(watch_leader(self._around, leader, display, until_idle=until_idle))

    def explain(
        self,
        partition: Annotated[
            list[str],
            typer.Argument(
                metavar="TOPIC-PARTITION", help="Or TOPIC PARTITION.", show_default=False
            ),
        ],
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        Explain where one partition stands, what it waits for and what can be done about it.

        Example: reassigner explain orders-7 --zookeeper zk1:2181/kafka

        Reads ZooKeeper, and asks the leading daemon if there is one. Exit code: 0 explained, 1
        there is no such partition, or an error.
        """
        named = named_partition(partition)
        settings = self._around.settings({"zookeeper": zookeeper}, config)
        with self._around.inspect(settings) as inspector:
            size = settings.options().step_size
            ended = explain(self._around, inspector, named, step_size=size, as_json=as_json)
        raise typer.Exit(ended)

    # --- shared --------------------------------------------------------------------------------

    def _connected(
        self, zookeeper: str | None, config: Path | None
    ) -> AbstractContextManager[OperatorPort]:
        return self._around.connect(self._around.settings({"zookeeper": zookeeper}, config))

    @contextmanager
    def _leader(
        self, zookeeper: str | None, config: Path | None, http: str | None
    ) -> Iterator[LeaderStatus]:
        if http is not None:
            yield LeaderStatus(self._around, None, _address(http))
            return
        with self._connected(zookeeper, config) as operator:
            yield LeaderStatus(self._around, operator, None)

    def _display(self) -> DisplayOpener:
        if self._around.is_terminal():
            return lambda: bars(Console())
        return lambda: lines(say)


def _address(text: str) -> str:
    try:
        return str(parse_address(text))
    except ValueError as error:
        raise PlanInvalidError(f"--http: {error}, not {text!r}") from error


def installed_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "(not installed)"


def main() -> NoReturn:
    """Run the command line in the surroundings of this process."""
    around = Surroundings(environ=os.environ, is_terminal=sys.stdout.isatty)
    build_app(around)()
    raise SystemExit(Exit.DONE)
