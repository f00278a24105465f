"""
The command line: verbs, their options and how their ends become exit codes.

Parses, calls and prints; what a verb does is in the module of its name. A wrong option, a wrong
setting or an unreachable cluster is one clear line on standard error, never a stack trace.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from controller.cli.commands import Commands, DryRunOption, HttpOption, request_ids
from controller.cli.context import CommandContext
from controller.cli.control_verbs import ControlVerbs
from controller.cli.doctor import diagnose, take_snapshot
from controller.cli.exits import Exit, exit_of
from controller.cli.explain import explain
from controller.cli.generate_verbs import GenerateVerbs
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption, settings_signature
from controller.cli.partition_facts import named_partition
from controller.cli.pipeline_verbs import pipeline_app
from controller.cli.progress_display import json_lines
from controller.cli.queue_verbs import queue_app
from controller.cli.report_text import say, tell
from controller.cli.request_verbs import RequestVerbs
from controller.cli.stock_verbs import StockVerbs
from controller.cli.watch import print_status, watch_leader, watch_request
from controller.errors import ControllerError, InvalidInputError
from controller.releases import DISTRIBUTION, installed_version


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


def build_app(around: CommandContext) -> typer.Typer:
    """Return the command line within its surroundings."""
    app = typer.Typer(
        name="reassigner",
        cls=OneLineGroup,
        help="Carry out partition reassignments on ZooKeeper-based Kafka clusters, safely and in "
        "small steps.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    daemon, requests = DaemonVerbs(around), RequestVerbs(around)
    controls = ControlVerbs(around)

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

    command = app.command
    command("run", short_help="Run the daemon.")(daemon.run_command())
    command("execute", short_help="Submit a plan.")(requests.execute)
    command("verify", short_help="Compare a plan or request with the cluster.")(requests.verify)
    command("cancel", short_help="Call reassignments off and undo them.")(requests.cancel)
    command("list", short_help="List requests, open or ended.")(requests.list_requests)
    command("status", short_help="Print what the leading daemon does.")(daemon.status)
    command("explain", short_help="Explain where one partition stands.")(daemon.explain)
    command("doctor", short_help="Look for what is wrong.")(daemon.doctor)
    command("watch", short_help="Show progress while it happens.")(daemon.watch)
    command("pause", short_help="Let no new step begin.")(controls.pause)
    command("resume", short_help="Let steps begin again.")(controls.resume)
    command("limits", short_help="Show or change how much goes on at once.")(controls.limits)
    command("throttle", short_help="Show or change the rate of copying.")(controls.throttle)
    command("disable", short_help="Refuse new reassignments.")(controls.disable)
    command("enable", short_help="Take new reassignments again.")(controls.enable)
    command("generate", short_help="Propose a plan.")(GenerateVerbs(around).generate)
    command("stock", short_help="Do what Kafka's own reassignment tool does.")(
        StockVerbs(around).stock
    )
    app.add_typer(queue_app(around), name="queue", short_help="Add to, list and clear the queue.")
    app.add_typer(pipeline_app(around), name="pipeline", short_help="Plan whole clusters on Spark.")
    return app


class DaemonVerbs(Commands):
    """The daemon, and what it says of itself."""

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

    def watch(  # noqa: PLR0913 - the options of the verb
        self,
        request: Annotated[
            str | None,
            typer.Argument(
                metavar="REQUEST", help="Only this one, until it has ended.", show_default=False
            ),
        ] = None,
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
        under way; of a request: 0 done, 2 interrupted, 3 refused in part, 4 cancelled.
        """
        if request is not None:
            if http is not None:
                raise InvalidInputError(
                    "--http goes without a REQUEST: ZooKeeper says how it ended"
                )
            (meant,) = request_ids([request])
            with self._connected(zookeeper, config) as operator:
                display = json_lines if as_json else self._display()
                raise typer.Exit(
                    watch_request(self._around, operator, meant, display, as_json=as_json)
                )
        with self._leader(zookeeper, config, http) as leader:
            display = json_lines if as_json else self._display()
            raise typer.Exit(watch_leader(self._around, leader, display, until_idle=until_idle))

    def explain(
        self,
        partition: Annotated[
            list[str],
            typer.Argument(
                metavar="TOPIC-PARTITION", help="One, or TOPIC PARTITION.", show_default=False
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

    def doctor(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        fix: Annotated[
            bool,
            typer.Option(
                "--fix", help="Lift throttles that a daemon set and nobody needs; nothing else."
            ),
        ] = False,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Look for what is wrong with the cluster and with our own znodes.

        Example: reassigner doctor --zookeeper zk1:2181/kafka

        Reads ZooKeeper and asks the brokers for their log directories. Changes nothing without
        --fix. Exit code: 0 nothing wrong (any more), 1 error, 2 there are findings.
        """
        if dry_run and not fix:
            raise InvalidInputError("--dry-run goes with --fix: without that nothing is changed")
        settings = self._around.settings({"zookeeper": zookeeper}, config)
        with self._around.inspect(settings) as inspector:
            snapshot = take_snapshot(self._around, inspector, settings)
            mending = inspector if fix else None
            raise typer.Exit(diagnose(snapshot, mending, dry_run=dry_run, as_json=as_json))


def main() -> NoReturn:
    """Run the command line in the surroundings of this process."""
    around = CommandContext(environ=os.environ, is_terminal=sys.stdout.isatty)
    build_app(around)()
    raise SystemExit(Exit.DONE)
