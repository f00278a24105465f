"""
The options of ``stock``: which of them each action needs and permits, as in Kafka's tool.

ZooKeeper is needed in every case. With ``--bootstrap-server``, the brokers must be those of the
cluster in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from controller.cli.context import CommandContext, context_of
from controller.cli.options import (
    CONFIG,
    DRY_RUN,
    ZOOKEEPER_METAVAR,
    flag,
    option,
    set_signature,
    signature_of,
)
from controller.cli.output import Exit, print_line, print_note
from controller.cli.queue import add_to_queue
from controller.cli.stock import formats
from controller.cli.stock.old_tool import OldStockTool, run_old_tool
from controller.cli.stock.tool import StockTool, run_tool
from controller.cli.verify import verify_plan
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.doctor.broker_answers import Disks
from controller.errors import InvalidInputError
from controller.previews.entries import read_entries
from controller.previews.plan_changes import rollback_of
from controller.previews.plan_files import document_of, read_plan

if TYPE_CHECKING:
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
ANSWER_S: Final = 60.0
"""The time that Kafka's tool waits for the controller."""
KAFKAS_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")

OPTIONS: Final[Mapping[str, object]] = {
    "bootstrap-server": ("HOST:PORT", "Brokers of the cluster."),
    "zookeeper": (
        ZOOKEEPER_METAVAR,
        "ZooKeeper of the cluster. Without --bootstrap-server: behave as before 2.6.",
    ),
    "command-config": ("FILE", "Must exist, but is not read: the settings have the credentials."),
    "config": CONFIG,
    "generate": "Propose a plan.",
    "execute": "Submit a plan.",
    "verify": "Show progress; at the end, clear throttles.",
    "cancel": "Cancel a plan.",
    "list": "List active reassignments.",
    "generate-queue": "Print current and queued replicas (KIP-236).",
    "execute-queue": "Queue a plan (KIP-236).",
    "verify-queue": "Compare a queued plan with the cluster (KIP-236).",
    PLAN: ("PLAN.json", "File of the plan."),
    TOPICS: ("FILE", 'File of topics: {"version":1,"topics":[{"topic":"foo"}]}'),
    BROKERS: ("0,1,2", "Place replicas on these brokers."),
    "disable-rack-aware": "Ignore racks.",
    "throttle": ("BYTES", "Bytes per second and broker; -1: none."),
    "replica-alter-log-dirs-throttle": (
        "BYTES",
        "Bytes per second for moves between the disks of a broker; -1: none.",
    ),
    "timeout": ("MS", "No effect: the daemon waits as long as it takes."),
    "additional": "Submit even if other reassignments are active.",
    "preserve-throttles": "Do not clear throttles.",
    "dry-run": DRY_RUN,
}
"""The help of each option, with the form of its value if it has one; or an option of others."""

StockOptions = Mapping[str, Any]
Action = Callable[["OperatorClient"], None]


def stock(ctx: typer.Context, **given: Any) -> Exit:  # noqa: ANN401 - options by name
    """
    Behave as kafka-reassign-partitions, with its options, texts and exit codes.

    Example: reassigner stock --bootstrap-server broker1:9092 --list

    A plan that changes only the order of replicas moves no leader, as with Kafka's controller;
    other plans end with the first replica of the target as the leader (preferred_election).

    Without --zookeeper, the settings name ZooKeeper (REASSIGNER_ZOOKEEPER). --dry-run, which
    Kafka's tool does not have, checks everything and writes nothing.
    """
    values = {name: given[name.replace("-", "_")] for name in OPTIONS}
    options = {name: value for name, value in values.items() if value not in (None, False)}
    action = _check_action(options)
    context = replace(
        context_of(ctx),
        zookeeper=options.get("zookeeper"),
        config=options.get("config"),
        dry_run="dry-run" in options,
        timeout=ANSWER_S,
    )
    if action.endswith("-queue"):
        return _queue(context, action, options)
    run = run_tool if "bootstrap-server" in options else run_old_tool
    return run(lambda: _act(context, action, options))


def _option(name: str, about: Any) -> tuple[object, object]:  # noqa: ANN401 - as in ``OPTIONS``
    match about:
        case (str() as metavar, str() as text):
            kind = Path if metavar in {"FILE", "PLAN.json"} else str
            return kind | None, option(metavar, text)
        case str():
            return bool, flag(f"--{name}", about)
    kind, found = about
    return kind, found


set_signature(
    stock,
    signature_of({name.replace("-", "_"): _option(name, a) for name, a in OPTIONS.items()}),
)


def _check_action(options: StockOptions) -> str:
    """Return the action; report wrong usage on standard error, with exit code 1."""
    is_old = "bootstrap-server" not in options
    chosen = [name for name in REQUIRED if name in options]
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
    allowed = COMMON | PERMITTED.get(action, frozenset()) | {action, *needed}
    for name in options:
        if name not in allowed:
            _refuse_usage(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _refuse_usage(message: str) -> NoReturn:
    print_note(message)
    print_note("See `reassigner stock --help`.")
    raise typer.Exit(Exit.ERROR)


def _act(context: CommandContext, action: str, options: StockOptions) -> None:
    """Read the files that the action needs, connect, and carry it out."""
    command_config = options.get("command-config")
    if command_config is not None and not command_config.is_file():
        raise InvalidInputError(str(command_config))
    act = _prepare_action(context, action, options)
    with _connect_and_check(context, options) as operator:
        act(operator)


def _prepare_action(context: CommandContext, action: str, options: StockOptions) -> Action:
    is_old = "bootstrap-server" not in options

    def tool(operator: OperatorClient) -> StockTool:
        if is_old:
            return OldStockTool(context, operator)

        def query_disks(brokers: Collection[LiveBroker]) -> Mapping[BrokerId, Disks | str]:
            return context.query_brokers(context.settings(), brokers, ()).disks

        return StockTool(context, operator, query_disks)

    if action == "list":
        return lambda found: tool(found).list_active()
    if action == "generate":
        text = formats.read_text(options[TOPICS])
        brokers, topics = formats.read_brokers(options[BROKERS]), formats.read_topics(text)
        rack_aware = "disable-rack-aware" not in options
        return lambda found: tool(found).generate(topics, brokers, rack_aware=rack_aware)
    if is_old and action == "cancel":
        return lambda found: OldStockTool(context, found).cancel_everything()
    text = formats.read_text(options[PLAN])
    if action == "execute" and not is_old:
        _rates(options)  # Kafka's tool parses rates before the plan since 2.6.
    plan = formats.read_stock_plan(text)
    preserve = "preserve-throttles" in options
    if action == "verify":
        return lambda found: tool(found).verify(plan, preserve_throttles=preserve)
    if action == "cancel":
        return lambda found: tool(found).cancel(plan, preserve_throttles=preserve)
    formats.check_plan(plan, empty=formats.EMPTY_PLAN_BEFORE_2_6 if is_old else formats.EMPTY_PLAN)
    throttle, log_dir_throttle = _rates(options)
    return lambda found: tool(found).execute(
        plan,
        additional="additional" in options,
        throttle=throttle,
        log_dir_throttle=log_dir_throttle,
    )


def _rates(options: StockOptions) -> tuple[int, int]:
    """Parse the two throttles in bytes per second; a negative one is none."""
    return _rate("throttle", options), _rate("replica-alter-log-dirs-throttle", options)


def _rate(name: str, options: StockOptions) -> int:
    text = options.get(name, "-1")
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"Cannot parse argument '{text}' of option {name}") from error


def _queue(context: CommandContext, action: str, options: StockOptions) -> Exit:
    file = read_plan(options[PLAN])
    plan = file.entries
    with _connect_and_check(context, options) as operator:
        if action == "generate-queue":
            current = rollback_of(read_entries(operator, plan))
            print_line(formats.proposal_text(current, document_of(plan, file.log_dirs)))
            return Exit.DONE
        if action == "verify-queue":
            return verify_plan(operator, plan, as_json=False)
        queries = context.queries(context.settings())
        return add_to_queue(context, operator, file, queries, may_change_factors=True)


@contextmanager
def _connect_and_check(context: CommandContext, options: StockOptions) -> Iterator[OperatorClient]:
    settings = context.settings()
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
