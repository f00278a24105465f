"""
The verb ``stock``: the command line of ``kafka-reassign-partitions``, for scripts that know it.

With ``--bootstrap-server`` it is the tool of 3.9, with ``--zookeeper`` alone the one up to 2.5 with
the options of KIP-236. ZooKeeper is needed in either case; in the first it is looked up where every
verb looks it up, and has to be that of the same brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from controller.cli.commands import Commands, DryRunOption
from controller.cli.exits import Exit
from controller.cli.options import ConfigOption
from controller.cli.plan_files import read_plan_file
from controller.cli.ports import InspectorPort
from controller.cli.queue_actions import add_to_queue, generate_queue
from controller.cli.report_text import tell
from controller.cli.stock import StockTool, run_tool
from controller.cli.stock_files import (
    check_plan,
    read_brokers,
    read_stock_plan,
    read_text,
    read_topics,
)
from controller.cli.stock_zookeeper import OldStockTool, run_old_tool
from controller.cli.verify import verify_plan
from controller.errors import InvalidInputError
from controller.settings import Settings

PLAN: Final = "reassignment-json-file"
TOPICS: Final = "topics-to-move-json-file"
BROKERS: Final = "broker-list"
COMMON: Final = frozenset({"bootstrap-server", "command-config", "zookeeper", "config", "dry-run"})
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "generate": (TOPICS, BROKERS),
    "execute": (PLAN,),
    "verify": (PLAN,),
    "cancel": (PLAN,),
    "list": (),
    "generate-queue": (PLAN,),
    "execute-queue": (PLAN,),
    "verify-queue": (PLAN,),
}
"""What each action needs."""
PERMITTED: Final[Mapping[str, frozenset[str]]] = {
    "generate": frozenset({"disable-rack-aware"}),
    "execute": frozenset({"additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"}),
    "verify": frozenset({"preserve-throttles"}),
    "cancel": frozenset({"preserve-throttles", "timeout"}),
}
"""What each action may take besides."""
RATES: Final = ("throttle", "replica-alter-log-dirs-throttle")
KAFKAS_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")


class StockVerbs(Commands):
    """The stock tool."""

    def stock(  # noqa: PLR0913 - the options of the tool
        self,
        *,
        bootstrap_server: Annotated[
            str | None, typer.Option(metavar="HOST:PORT", help="Brokers of the cluster.")
        ] = None,
        zookeeper: Annotated[
            str | None,
            typer.Option(
                metavar="HOST:PORT[,HOST:PORT][/chroot]",
                help="Alone: as the tool was up to 2.5. With --bootstrap-server: that cluster's.",
            ),
        ] = None,
        command_config: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help="Has to exist; credentials are those of the settings."
            ),
        ] = None,
        config: ConfigOption = None,
        generate: Annotated[bool, typer.Option("--generate", help="Propose a plan.")] = False,
        execute: Annotated[bool, typer.Option("--execute", help="Carry a plan out.")] = False,
        verify: Annotated[
            bool, typer.Option("--verify", help="Tell how far it is; clear throttles at its end.")
        ] = False,
        cancel: Annotated[bool, typer.Option("--cancel", help="Call a plan off.")] = False,
        list_active: Annotated[
            bool, typer.Option("--list", help="List what is being reassigned.")
        ] = False,
        generate_queue: Annotated[
            bool, typer.Option("--generate-queue", help="Print what is and what would be queued.")
        ] = False,
        execute_queue: Annotated[
            bool, typer.Option("--execute-queue", help="Queue a plan.")
        ] = False,
        verify_queue: Annotated[
            bool, typer.Option("--verify-queue", help="Compare a queued plan with the cluster.")
        ] = False,
        reassignment_json_file: Annotated[
            Path | None, typer.Option(metavar="PLAN.json", help="The plan.")
        ] = None,
        topics_to_move_json_file: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help='{"version":1,"topics":[{"topic":"foo"}]}'),
        ] = None,
        broker_list: Annotated[
            str | None, typer.Option(metavar="0,1,2", help="Where the topics may be.")
        ] = None,
        disable_rack_aware: Annotated[
            bool, typer.Option("--disable-rack-aware", help="Racks do not matter.")
        ] = False,
        throttle: Annotated[
            str | None, typer.Option(metavar="BYTES", help="Per second and broker; -1: none.")
        ] = None,
        replica_alter_log_dirs_throttle: Annotated[
            str | None,
            typer.Option(metavar="BYTES", help="Accepted; nothing is moved between directories."),
        ] = None,
        timeout: Annotated[
            str | None,
            typer.Option(metavar="MS", help="Accepted; nothing is moved between directories."),
        ] = None,
        additional: Annotated[
            bool, typer.Option("--additional", help="Beside what is being reassigned already.")
        ] = False,
        preserve_throttles: Annotated[
            bool, typer.Option("--preserve-throttles", help="Clear no throttle.")
        ] = False,
        dry_run: DryRunOption = False,
    ) -> None:
        """
        Do what kafka-reassign-partitions does, with its options, texts and exit codes.

        Example: reassigner stock --bootstrap-server broker1:9092 --list

        ZooKeeper is that of the settings (REASSIGNER_ZOOKEEPER) where --zookeeper does not name it.
        --dry-run, which that tool lacks, checks everything and writes nothing.
        """
        given = {
            "bootstrap-server": bootstrap_server,
            "zookeeper": zookeeper,
            "command-config": command_config,
            "config": config,
            PLAN: reassignment_json_file,
            TOPICS: topics_to_move_json_file,
            BROKERS: broker_list,
            "disable-rack-aware": disable_rack_aware,
            "throttle": throttle,
            "replica-alter-log-dirs-throttle": replica_alter_log_dirs_throttle,
            "timeout": timeout,
            "additional": additional,
            "preserve-throttles": preserve_throttles,
            "dry-run": dry_run,
        }
        actions = {
            "generate": generate,
            "execute": execute,
            "verify": verify,
            "cancel": cancel,
            "list": list_active,
            "generate-queue": generate_queue,
            "execute-queue": execute_queue,
            "verify-queue": verify_queue,
        }
        options = {name: value for name, value in given.items() if value not in (None, False)}
        chosen = [name for name, is_chosen in actions.items() if is_chosen]
        action = _checked(chosen, options)
        if action.endswith("-queue"):
            raise typer.Exit(self._queue(action, options))
        run = run_tool if bootstrap_server is not None else run_old_tool
        raise typer.Exit(run(lambda: self._act(action, options)))

    def _queue(self, action: str, options: Mapping[str, Any]) -> Exit:
        plan = read_plan_file(options[PLAN])
        with self._inspected(options) as inspector:
            if action == "generate-queue":
                return generate_queue(inspector, plan)
            if action == "verify-queue":
                return verify_plan(inspector, plan, as_json=False)
            settings = self._settings(options)
            ask = partial(self._around.ask_min_insync, settings)
            return add_to_queue(
                inspector, plan, ask, dry_run=options.get("dry-run", False), as_json=False
            )

    def _act(self, action: str, options: Mapping[str, Any]) -> None:
        """Read what the action needs, connect, and do it."""
        _check_command_config(options.get("command-config"))
        act = (
            self._prepared(action, options)
            if "bootstrap-server" in options
            else self._prepared_old(action, options)
        )
        with self._inspected(options) as inspector:
            act(inspector)

    def _prepared(self, action: str, options: Mapping[str, Any]) -> Callable[[InspectorPort], None]:
        around, dry_run = self._around, options.get("dry-run", False)
        preserve = options.get("preserve-throttles", False)
        if action == "list":
            return lambda found: StockTool(around, found, dry_run=dry_run).list_active()
        if action == "generate":
            return self._generation(options)
        text = read_text(options[PLAN])
        rates = {name: _rate(name, options) for name in RATES} if action == "execute" else {}
        plan = read_stock_plan(text)
        if action == "verify":
            return lambda found: StockTool(around, found, dry_run=dry_run).verify(
                plan, preserve_throttles=preserve
            )
        if action == "cancel":
            return lambda found: StockTool(around, found, dry_run=dry_run).cancel(
                plan, preserve_throttles=preserve
            )
        check_plan(plan, empty="Partition reassignment list cannot be empty")
        return lambda found: StockTool(around, found, dry_run=dry_run).execute(
            plan,
            additional=options.get("additional", False),
            throttle=rates["throttle"],
            log_dir_throttle=rates["replica-alter-log-dirs-throttle"],
        )

    def _prepared_old(
        self, action: str, options: Mapping[str, Any]
    ) -> Callable[[InspectorPort], None]:
        around, dry_run = self._around, options.get("dry-run", False)
        if action == "list":
            return lambda found: StockTool(around, found, dry_run=dry_run).list_active()
        if action == "cancel":
            return lambda found: OldStockTool(around, found, dry_run=dry_run).cancel()
        if action == "generate":
            return self._generation(options)
        plan = read_stock_plan(read_text(options[PLAN]))
        if action == "verify":
            return lambda found: OldStockTool(around, found, dry_run=dry_run).verify(plan)
        check_plan(plan, empty="Partition reassignment data file is empty")
        return lambda found: OldStockTool(around, found, dry_run=dry_run).execute(
            plan,
            throttle=_rate("throttle", options),
            log_dir_throttle=_rate("replica-alter-log-dirs-throttle", options),
        )

    def _generation(self, options: Mapping[str, Any]) -> Callable[[InspectorPort], None]:
        text = read_text(options[TOPICS])
        brokers = read_brokers(options[BROKERS])
        topics = read_topics(text)
        rack_aware = not options.get("disable-rack-aware", False)
        return lambda found: StockTool(self._around, found, dry_run=False).generate(
            topics, brokers, rack_aware=rack_aware
        )

    def _settings(self, options: Mapping[str, Any]) -> Settings:
        named = {"zookeeper": options.get("zookeeper")}
        return self._around.settings(named, options.get("config"))

    @contextmanager
    def _inspected(self, options: Mapping[str, Any]) -> Iterator[InspectorPort]:
        """Connect to ZooKeeper, and see whether the brokers that are named belong to it."""
        settings = self._settings(options)
        with self._around.inspect(settings) as inspector:
            servers = options.get("bootstrap-server")
            if servers is not None:
                _check_same(self._around.cluster_id_of(settings, servers), inspector, settings)
            yield inspector


def _checked(chosen: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the action; wrong usage is told on standard error, and the exit code is 1."""
    is_old = "bootstrap-server" not in options
    names = ", ".join(f"--{name}" for name in KAFKAS_ACTIONS)
    if len(chosen) != 1:
        _misused(f"Command must include exactly one action: {names}")
    (action,) = chosen
    if is_old and "zookeeper" not in options:
        _misused("Please specify --bootstrap-server")
    needed = REQUIRED[action]
    if is_old and action == "cancel":
        needed = ()
    for name in needed:
        if name not in options:
            _misused(f'Missing required argument "[{name}]"')
    allowed = COMMON | PERMITTED.get(action, frozenset()) | set(needed)
    for name in options:
        if name not in allowed:
            _misused(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _misused(message: str) -> NoReturn:
    tell(message)
    tell("See `reassigner stock --help`.")
    raise typer.Exit(Exit.ERROR)


def _check_command_config(path: Path | None) -> None:
    if path is not None and not path.is_file():
        raise InvalidInputError(str(path))


def _check_same(theirs: str, inspector: InspectorPort, settings: Settings) -> None:
    ours = inspector.cluster_id()
    if ours != theirs:
        raise InvalidInputError(
            f"the brokers belong to cluster {theirs}, but ZooKeeper at {settings.zookeeper} to "
            f"cluster {ours}: name the right one with --zookeeper"
        )


def _rate(name: str, options: Mapping[str, Any]) -> int:
    """Return a rate in bytes per second, below zero for none."""
    text = options.get(name, "-1")
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"Cannot parse argument '{text}' of option {name}") from error
