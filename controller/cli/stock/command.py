"""
The options of ``stock``: which of them each action needs and permits, as in Kafka's tool.

ZooKeeper is needed in every case. With ``--bootstrap-server``, the brokers must be those of the
cluster in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from controller.cli.context import CommandContext, context_of
from controller.cli.exits import Exit
from controller.cli.options import ConfigOption, DryRunOption
from controller.cli.output import print_line, print_note
from controller.cli.queue import add_to_queue
from controller.cli.stock import files, texts
from controller.cli.stock.old_tool import OldStockTool, run_old_tool
from controller.cli.stock.tool import StockTool, run_tool
from controller.cli.verify import verify_plan
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.doctor.snapshot import Disks
from controller.errors import InvalidInputError
from controller.previews.entries import read_entries
from controller.previews.plan_files import document_of, read_plan
from controller.previews.validation import rollback_of
from controller.settings import Settings
from controller.zk.operator_client import OperatorClient

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
"""The options that each action needs."""
PERMITTED: Final[Mapping[str, frozenset[str]]] = {
    "generate": frozenset({"disable-rack-aware"}),
    "execute": frozenset({"additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"}),
    "verify": frozenset({"preserve-throttles"}),
    "cancel": frozenset({"preserve-throttles", "timeout"}),
}
"""The options that each action permits in addition."""
KAFKAS_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")

Options = Mapping[str, Any]
Action = Callable[[OperatorClient], None]


def stock(  # noqa: PLR0913 - the options of the tool
    ctx: typer.Context,
    *,
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Brokers of the cluster.")
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,HOST:PORT][/chroot]",
            help="ZooKeeper of the cluster. Without --bootstrap-server: behave as before 2.6.",
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Must exist, but is not read: the settings have the credentials."
        ),
    ] = None,
    config: ConfigOption = None,
    generate: Annotated[bool, typer.Option("--generate", help="Propose a plan.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Submit a plan.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Show progress; at the end, clear throttles.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel a plan.")] = False,
    list_active: Annotated[bool, typer.Option("--list", help="List active reassignments.")] = False,
    generate_queue: Annotated[
        bool, typer.Option("--generate-queue", help="Print current and queued replicas (KIP-236).")
    ] = False,
    execute_queue: Annotated[
        bool, typer.Option("--execute-queue", help="Queue a plan (KIP-236).")
    ] = False,
    verify_queue: Annotated[
        bool,
        typer.Option("--verify-queue", help="Compare a queued plan with the cluster (KIP-236)."),
    ] = False,
    reassignment_json_file: Annotated[
        Path | None, typer.Option(metavar="PLAN.json", help="File of the plan.")
    ] = None,
    topics_to_move_json_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='File of topics: {"version":1,"topics":[{"topic":"foo"}]}'
        ),
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="Place replicas on these brokers.")
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Ignore racks.")
    ] = False,
    throttle: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Bytes per second and broker; -1: none.")
    ] = None,
    replica_alter_log_dirs_throttle: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Bytes per second for moves between the disks of a broker; -1: none.",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="MS", help="No effect: the daemon waits as long as it takes."),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Submit even if other reassignments are active.")
    ] = False,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="Do not clear throttles.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """
    Behave as kafka-reassign-partitions, with its options, texts and exit codes.

    Example: reassigner stock --bootstrap-server broker1:9092 --list

    A plan that changes only the order of replicas moves no leader, as with Kafka's controller;
    other plans end with the first replica of the target as the leader (preferred_election).

    Without --zookeeper, the settings name ZooKeeper (REASSIGNER_ZOOKEEPER). --dry-run, which
    Kafka's tool does not have, checks everything and writes nothing.
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
    action = _check_action([name for name, is_chosen in actions.items() if is_chosen], options)
    context = context_of(ctx)
    if action.endswith("-queue"):
        raise typer.Exit(_queue(context, action, options))
    run = run_tool if bootstrap_server is not None else run_old_tool
    raise typer.Exit(run(lambda: _act(context, action, options)))


def _check_action(chosen: Sequence[str], options: Options) -> str:
    """Return the action; report wrong usage on standard error, with exit code 1."""
    is_old = "bootstrap-server" not in options
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in KAFKAS_ACTIONS)
        _refuse_usage(f"Command must include exactly one action: {names}")
    (action,) = chosen
    if is_old and "zookeeper" not in options:
        _refuse_usage("Please specify --bootstrap-server")
    needed = () if is_old and action == "cancel" else REQUIRED[action]
    for name in needed:
        if name not in options:
            _refuse_usage(f'Missing required argument "[{name}]"')
    allowed = COMMON | PERMITTED.get(action, frozenset()) | set(needed)
    for name in options:
        if name not in allowed:
            _refuse_usage(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _refuse_usage(message: str) -> NoReturn:
    print_note(message)
    print_note("See `reassigner stock --help`.")
    raise typer.Exit(Exit.ERROR)


def _act(context: CommandContext, action: str, options: Options) -> None:
    """Read the files that the action needs, connect, and carry it out."""
    command_config = options.get("command-config")
    if command_config is not None and not command_config.is_file():
        raise InvalidInputError(str(command_config))
    act = _prepare_action(context, action, options)
    with _connect_and_check(context, options) as operator:
        act(operator)


def _prepare_action(context: CommandContext, action: str, options: Options) -> Action:
    """Return the action, with the files that it needs."""
    is_old = "bootstrap-server" not in options

    def tool(operator: OperatorClient) -> StockTool:
        if is_old:
            return OldStockTool(context, operator, dry_run="dry-run" in options)

        def query_disks(brokers: Collection[LiveBroker]) -> Mapping[BrokerId, Disks | str]:
            return context.query_brokers(_settings(context, options), brokers, ()).disks

        return StockTool(context, operator, dry_run="dry-run" in options, query_disks=query_disks)

    if action == "list":
        return lambda found: tool(found).list_active()
    if action == "generate":
        text = files.read_text(options[TOPICS])
        brokers, topics = files.read_brokers(options[BROKERS]), files.read_topics(text)
        rack_aware = "disable-rack-aware" not in options
        return lambda found: tool(found).generate(topics, brokers, rack_aware=rack_aware)
    if is_old and action == "cancel":
        dry_run = "dry-run" in options
        return lambda found: OldStockTool(context, found, dry_run=dry_run).cancel_everything()
    text = files.read_text(options[PLAN])
    if action == "execute" and not is_old:
        _rates(options)  # Kafka's tool parses rates before the plan since 2.6.
    plan = files.read_stock_plan(text)
    preserve = "preserve-throttles" in options
    if action == "verify":
        return lambda found: tool(found).verify(plan, preserve_throttles=preserve)
    if action == "cancel":
        return lambda found: tool(found).cancel(plan, preserve_throttles=preserve)
    files.check_plan(plan, empty=texts.EMPTY_PLAN_BEFORE_2_6 if is_old else texts.EMPTY_PLAN)
    throttle, log_dir_throttle = _rates(options)
    return lambda found: tool(found).execute(
        plan,
        additional="additional" in options,
        throttle=throttle,
        log_dir_throttle=log_dir_throttle,
    )


def _rates(options: Options) -> tuple[int, int]:
    """Parse the two throttles in bytes per second; a negative one is none."""
    return _rate("throttle", options), _rate("replica-alter-log-dirs-throttle", options)


def _rate(name: str, options: Options) -> int:
    text = options.get(name, "-1")
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"Cannot parse argument '{text}' of option {name}") from error


def _queue(context: CommandContext, action: str, options: Options) -> Exit:
    """Carry out an action of KIP-236."""
    file = read_plan(options[PLAN])
    plan = file.entries
    with _connect_and_check(context, options) as operator:
        if action == "generate-queue":
            current = rollback_of(read_entries(operator, plan))
            print_line(texts.documents_text(current, document_of(plan, file.log_dirs)))
            return Exit.DONE
        if action == "verify-queue":
            return verify_plan(operator, plan, as_json=False)
        queries = context.queries(_settings(context, options))
        dry_run = "dry-run" in options
        return add_to_queue(operator, file, queries, dry_run=dry_run, as_json=False)


def _settings(context: CommandContext, options: Options) -> Settings:
    return context.settings({"zookeeper": options.get("zookeeper")}, options.get("config"))


@contextmanager
def _connect_and_check(context: CommandContext, options: Options) -> Iterator[OperatorClient]:
    """
    Connect to ZooKeeper, and check that the named brokers belong to its cluster.

    Raises:
        InvalidInputError: the brokers belong to another cluster.

    """
    settings = _settings(context, options)
    with context.connect(settings) as operator:
        servers = options.get("bootstrap-server")
        if servers is not None:
            theirs, ours = context.cluster_id_of(settings, servers), operator.cluster.cluster_id()
            if ours != theirs:
                raise InvalidInputError(
                    f"the brokers belong to cluster {theirs}, but ZooKeeper at "
                    f"{settings.zookeeper} to cluster {ours}: name the right one with --zookeeper"
                )
        yield operator
