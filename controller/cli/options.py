"""Options and arguments that several commands share, and the parsers of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from controller.cli.context import CommandContext, context_of
from controller.cli.output import print_note
from controller.cli.terminal_tables import ROWS_MAX
from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.core.requests.submissions import (
    PRIORITY_MAX,
    RequestOptions,
    StepSize,
    Throttle,
    Window,
)
from controller.errors import InvalidInputError
from controller.previews.plan_files import PlanFile, read_plan
from controller.units import low_rate_text, parse_bytes, parse_throttle
from controller.znodes.json_documents import read_window
from controller.znodes.paths import parse_topic_partition, valid_topic

_Given = TypeVar("_Given")
_Parsed = TypeVar("_Parsed")
ZOOKEEPER_METAVAR: Final = "HOST:PORT[,HOST:PORT][/chroot]"


def option(
    metavar: str, about: str, *names: str, default: object = None, least: int | None = None
) -> Any:  # noqa: ANN401 - as typer
    """Return an option with a value; without ``names``, it has the name of its parameter."""
    return typer.Option(default, *names, metavar=metavar, min=least, help=about)


def flag(name: str, about: str, *others: str, default: bool | None = False) -> Any:  # noqa: ANN401 - as above
    """Return an option without a value."""
    return typer.Option(default, name, *others, help=about)


def argument(
    metavar: str,
    about: str,
    *,
    default: object = None,
    least: int | None = None,
    is_first: bool = False,
) -> Any:  # noqa: ANN401 - as above
    """
    Return an argument, which is given by its place; ``default`` is ``...`` for a needed one.

    What is wrong with one that ``is_first`` is said before anything else.
    """
    return typer.Argument(default, metavar=metavar, min=least, is_eager=is_first, help=about)


def signature_of(options: Mapping[str, tuple[object, object]]) -> Signature:
    """Return the signature of a command with these options, each a type and an option."""
    return Signature([_CTX, *(_keyword(name, *about) for name, about in options.items())])


def _keyword(name: str, kind: object, about: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=about, annotation=kind)


_CTX: Final = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def set_signature(command: Callable[..., object], signature: Signature) -> None:
    """Let a command that takes ``**given`` have the options of a signature."""
    command.__signature__ = signature  # type: ignore[attr-defined] # functions have any attribute
    command.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}


CONFIG: Final = (
    Path | None,
    option("FILE", "TOML file with settings. Default: REASSIGNER_CONFIG."),
)
DRY_RUN: Final = (bool, flag("--dry-run", "Print the changes, write nothing."))
_COMMON: Final[Mapping[str, tuple[object, object]]] = {
    "zookeeper": (
        str | None,
        option(ZOOKEEPER_METAVAR, "ZooKeeper of the cluster. Default: REASSIGNER_ZOOKEEPER."),
    ),
    "config": CONFIG,
    "dry_run": DRY_RUN,
    "timeout": (
        float,
        option("SECONDS", "Maximum time to wait for the daemon.", default=60.0, least=0),
    ),
    "all_rows": (
        bool,
        flag(
            "--all-rows",
            f"Print every row. Default: on a terminal, the first {ROWS_MAX} of each table.",
        ),
    ),
    "verbose": (
        bool,
        flag("--verbose", "Print also the names that phases have in the log and in Kafka."),
    ),
    "as_json": (bool, flag("--json", "Print JSON.")),
}
"""The options that many commands have, by the field of ``CommandContext`` with their value."""


WAIT: Final = flag("--wait", "Show progress and wait for the end, not only for acceptance.")
STEP_SIZE: Final = option("N|all", "Replicas to add per step. Default: the limit in force.")
WINDOW: Final = option(
    "HOURS",
    'Begin steps only in these hours, for example "22:00-05:00 Europe/Berlin". '
    "Default: the window in force.",
)
MAY_CHANGE_FACTORS: Final = flag(
    "--allow-replication-factor-change",
    "Accept a plan that changes replication factors. Default: refuse it.",
)
TOLERATE_LAGGING: Final = option(
    "BROKER",
    "Do not wait for the replica on this broker where it stays and is not in sync (native engine); "
    "may be repeated. Default: wait.",
    "--tolerate-lagging",
)
REASON: Final = option("TEXT", "Reason, recorded in ZooKeeper. Default: none.", default="")
BY: Final = option("NAME", "Name of the requester. Default: user@host.", "--requested-by")
_OF_REQUESTS: Final[Mapping[str, tuple[object, object]]] = {
    "reason": (str, REASON),
    "requested_by": (str | None, BY),
    "priority": (int, option("N", "Requests of a higher priority start first.", default=0)),
    "step_size": (str | None, STEP_SIZE),
    "throttle": (
        str | None,
        option(
            "RATE|auto",
            "Replication throttle in bytes per second and broker, for example 50MB; auto follows "
            "what producers see. "
            "Default: that of `reassigner throttle`.",
        ),
    ),
    "log_dirs_throttle": (
        str | None,
        option(
            "RATE",
            "Throttle of moves between the disks of a broker, in bytes per second and broker. "
            "Default: none.",
        ),
    ),
    "window": (str | None, WINDOW),
    "max_partitions_in_flight": (
        int | None,
        option(
            "N",
            "Maximum number of its partitions in flight. Default: as many as the "
            "limits of all requests permit.",
            least=1,
        ),
    ),
    "tolerate_lagging": (list[int] | None, TOLERATE_LAGGING),
    "atomic": (bool, flag("--atomic", "Start nothing if any entry is refused.")),
}
"""The options of each command that submits a plan, by the field of ``RequestOptions``."""
_REQUEST_OPTIONS: Final = tuple(_keyword(name, *about) for name, about in _OF_REQUESTS.items())
REQUESTED: Final = "requested"
"""The parameter of a command in whose place it has these options; it gets their values."""


def _requested(context: CommandContext, given: dict[str, Any]) -> RequestOptions:
    """Take the options of a request from the values that were given."""
    values = {name: given.pop(name) for name in _OF_REQUESTS}
    return RequestOptions(
        reason=values["reason"],
        requested_by=context.requested_by(values["requested_by"]),
        priority=check_priority("--priority", values["priority"]),
        step_size=parse(parse_step_size, "--step-size", values["step_size"]),
        throttle=parse(parse_rate_option, "--throttle", values["throttle"]),
        log_dirs_throttle=parse(parse_bytes, "--log-dirs-throttle", values["log_dirs_throttle"]),
        window=parse(parse_window, "--window", values["window"]),
        max_partitions_in_flight=values["max_partitions_in_flight"],
        tolerate_lagging=brokers_of(values["tolerate_lagging"]),
        atomic=values["atomic"],
    )


def command(
    *common: str, connects: bool = True
) -> Callable[[Callable[..., _Parsed]], Callable[..., _Parsed]]:
    """
    Let a command take the context of commands, with the values of common options, as its first one.

    The options of a connection come before its own ones (but after those that are needed), those
    that ``common`` names after them; it may also name own ones, for their place among these. In the
    place of a parameter ``requested`` it has the options of a request, and gets their values.
    """
    first = ("zookeeper", "config") if connects else ()
    shared = [name for name in (*first, *common) if name in _COMMON]

    def decorate(run: Callable[..., _Parsed]) -> Callable[..., _Parsed]:
        def command(ctx: typer.Context, **given: Any) -> _Parsed:  # noqa: ANN401 - by name
            values = {name: given.pop(name) for name in shared}
            context = replace(context_of(ctx), **values)
            if submits:
                given[REQUESTED] = _requested(context, given)
            return run(context, **given)

        _, *own = signature(run, eval_str=True).parameters.values()
        submits = any(p.name == REQUESTED for p in own)
        own = [q for p in own for q in (_REQUEST_OPTIONS if p.name == REQUESTED else (p,))]
        known = {name: _keyword(name, *_COMMON[name]) for name in shared}
        known |= {p.name: p for p in own}
        last = [known[name] for name in common]
        needed = [p for p in own if p.kind is not p.KEYWORD_ONLY or p.default.default is ...]
        others = [p for p in own if p not in (*needed, *last)]
        command.__doc__ = run.__doc__
        both = [known[name] for name in first]
        set_signature(command, Signature([_CTX, *needed, *both, *others, *last]))
        return command

    return decorate


HTTP: Final = option("HOST:PORT", "Query this daemon. Default: the leader that ZooKeeper names.")
REQUESTS: Final = option("ID", "Apply to this request; may be repeated. Default: everything.")
PLAN: Final = argument(
    "PLAN.json",
    'Plan in the format of Kafka\'s tool: {"version":1,"partitions":[{"topic":"t",'
    '"partition":0,"replicas":[1,2,3]}]}. Of the output of its --generate, the proposed '
    "plan is taken.",
    default=...,
)


def read_plan_argument(path: Path) -> PlanFile:
    """Read a plan; print a note if only a part of the file was taken."""
    file = read_plan(path)
    for note in file.notes:
        print_note(f"Note: {note}")
    return file


def parse(
    parse: Callable[[str, _Given], _Parsed], option: str, value: _Given | None
) -> _Parsed | None:
    """Parse the value of an option, None if the option was not given."""
    return None if value is None else parse(option, value)


def address_of(text: str) -> str:
    """Parse the value of ``--http``, ``HOST:PORT`` or ``https://HOST:PORT``."""
    from controller.setting_values import parse_address  # noqa: PLC0415 - for this option alone

    is_tls = text.startswith("https://")
    try:
        address = parse_address(text.removeprefix("https://"))
    except ValueError as error:
        raise InvalidInputError(f"--http: {error}, not {text!r}") from error
    return f"https://{address}" if is_tls else str(address)


def partitions_of(texts: Iterable[str] | None) -> list[TopicPartition]:
    """Parse partitions as Kafka's tools write them, ``TOPIC-N``."""
    found: list[TopicPartition] = []
    for text in texts or ():
        partition = parse_topic_partition(text)
        if partition is None:
            raise InvalidInputError(f"{text!r} is not a partition such as topic-0")
        found.append(partition)
    return found


def topics_of(texts: Iterable[str] | None) -> list[str]:
    """Check the names of topics."""
    found = list(texts or ())
    for text in found:
        if not valid_topic(text):
            raise InvalidInputError(f"{text!r} is not the name of a topic")
    return found


def brokers_of(numbers: Iterable[int] | None) -> Replicas:
    """Return brokers, each once and in order."""
    return tuple(BrokerId(n) for n in sorted(set(numbers or ())))


def parse_rate_option(option: str, text: str, *, or_none: bool = False) -> Throttle:
    """Parse a throttle; print a note about one that is hardly meant."""
    throttle = parse_throttle(option, text, or_none=or_none)
    doubt = low_rate_text(throttle)
    if doubt is not None:
        print_note(f"Note: {doubt}")
    return throttle


def parse_step_size(option: str, text: str) -> StepSize:
    """Parse a number of replicas, or ``all``."""
    if text == "all":
        return "all"
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return int(text)
    raise InvalidInputError(f'{option}: a number of replicas, 1 or more, or "all", not {text!r}')


def parse_window(option: str, text: str) -> Window:
    """Parse hours such as ``22:00-05:00 Europe/Berlin``."""
    window = read_window(text)
    if isinstance(window, str):
        raise InvalidInputError(f"{option}: {window}")
    return window


def check_priority(option: str, priority: int) -> int:
    """Return a priority that is within bounds."""
    if abs(priority) > PRIORITY_MAX:
        raise InvalidInputError(
            f"{option}: between -{PRIORITY_MAX} and {PRIORITY_MAX}, not {priority}"
        )
    return priority
