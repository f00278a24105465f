"""``drain``: move all replicas off brokers, and keep them empty, until that is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from controller.cli import options, plan_preview
from controller.cli.context import CommandContext
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_note
from controller.cli.progress_display import display_of
from controller.cli.status_text import status_about
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.controls import Drain, Drains
from controller.errors import InvalidInputError
from controller.previews import proposal
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import read_entries
from controller.previews.holds import since_words
from controller.previews.plan_changes import PlanValidation
from controller.previews.plan_facts import DryRun, forecast_of
from controller.units import MS_PER_S, ids, parse_bytes

if TYPE_CHECKING:
    from controller.previews.drain_preview import DrainedBroker, DrainedCluster
    from controller.zk.operator_client import OperatorClient

FOLLOW_S: Final = 2.0
"""Between two looks at the topics of the cluster."""
NO_DRAIN: Final = "no broker is drained"


@command("dry_run", "all_rows", "as_json")
def drain(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    brokers: list[int] | None = argument("BROKER", "Brokers to drain. Default: list the drains."),
    *,
    stop: bool = flag("--stop", "End the drain of the brokers, or all drains."),
    throttle: str | None = option(
        "RATE", "Bytes per second and broker for its copies, for example 50MB. Default: unchanged."
    ),
    window: str | None = options.WINDOW,
    reason: str = options.REASON,
    requested_by: str | None = option(
        "NAME", "Name of the requester. Default: user@host.", "--requested-by", "--by"
    ),
    wait: bool = flag("--wait", "Show progress and wait until the brokers are empty."),
) -> Exit:
    """
    Move all replicas off brokers and keep them empty, until that is stopped.

    Example: reassigner drain 5 --reason "disk swap" --wait --zookeeper zk1:2181/kafka

    A drain stands until `reassigner drain --stop`: what is created on the broker meanwhile leaves
    it, too. The options apply to all drains. What has begun when a drain is stopped continues.
    With --dry-run, it prints where the replicas would go. Exit code: 0 the brokers are empty, or
    --stop and --dry-run are done, 1 error, 2 replicas are left, 3 refused.
    """
    named = list(map(BrokerId, brokers or ()))
    if not named and (throttle or window or wait):
        raise InvalidInputError("name the brokers to drain")
    if stop:
        if throttle or window or wait:
            raise InvalidInputError("--stop takes no other options")
        with context.connected() as operator:
            return _stop(context, operator, named)
    from controller.actions import draining  # noqa: PLC0415 - its help needs no decisions

    new = draining.NewDrains(
        brokers=named,
        about=Drain(reason, context.requested_by(requested_by), context.wall_ms()),
        throttle=options.parse(parse_bytes, "--throttle", throttle),
        window=options.parse(options.parse_window, "--window", window),
    )
    with context.inspected() as (operator, queries):
        if not named:
            return _print(context, list(_left(context, operator)))
        drains = draining.drain(operator, new, _now(context), dry_run=context.dry_run)
        if context.dry_run:
            return _preview(context, operator, queries, drains)
        if operator.cluster.leader_address() is None:
            print_note("No reassigner leads; the next leader begins.")
        if wait:
            _follow(context, operator, named)
        return _print(context, [b for b in _left(context, operator) if b.broker in named])


def _now(context: CommandContext) -> float:
    return context.wall_ms() / MS_PER_S


def _left(context: CommandContext, operator: OperatorClient) -> Iterator[DrainedBroker]:
    return _cluster(context, operator).brokers()


def _cluster(
    context: CommandContext,
    operator: OperatorClient,
    drains: Drains | None = None,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> DrainedCluster:
    from controller.previews.drain_preview import DrainedCluster  # noqa: PLC0415 - as above

    return DrainedCluster(operator, _now(context), drains, sizes)


def _print(context: CommandContext, found: list[DrainedBroker]) -> Exit:
    """Print what is left on drained brokers."""
    lines = (line for broker in found for line in _lines(broker))
    context.print_result(
        lambda: {"drains": [broker.document() for broker in found]}, lines if found else [NO_DRAIN]
    )
    return Exit.DONE if all(broker.is_empty for broker in found) else Exit.IN_PROGRESS


def _lines(found: DrainedBroker) -> Iterable[str]:
    away = "" if found.is_live else ", which is not live,"
    yield f"broker {found.broker}{away} is drained since {since_words(found.drain)}"
    yield str(found)


def _follow(context: CommandContext, operator: OperatorClient, named: list[BrokerId]) -> None:
    """Show progress until the brokers are empty, or what is left cannot leave them."""
    most: set[TopicPartition] = set()
    try:
        with display_of(context) as show:
            while True:
                cluster = _cluster(context, operator)
                found = [b for b in cluster.brokers() if b.broker in named]
                left = {p for b in found for p in b.partitions}
                most |= left
                status = status_about(context.status_of_leader(operator), cluster.drains.request)
                headline = "; ".join(map(str, found)) or f"broker {ids(named)} is drained no longer"
                show(headline, len(most - left), len(most), status)
                if all(b.is_empty or b.is_stuck for b in found):
                    return
                context.sleep(FOLLOW_S)
    except KeyboardInterrupt:
        pass


def _stop(context: CommandContext, operator: OperatorClient, named: list[BrokerId]) -> Exit:
    from controller.actions import draining  # noqa: PLC0415 - as above

    before, left = draining.stop(operator, named, dry_run=context.dry_run)
    ended = sorted(before.brokers.keys() - left.brokers.keys())
    lines = [NO_DRAIN]
    if ended:
        lines = [
            f"broker {ids(ended)} is drained no longer; what has not begun will not begin",
            f"what has begun continues; `reassigner cancel {before.request}` takes it back",
        ]
    context.print_change({"stopped": ended, "drains": _document(left)}, lines)
    return Exit.DONE


def _document(drains: Drains) -> dict[str, object]:
    return {str(broker): asdict(about) for broker, about in drains.brokers.items()}


def _preview(
    context: CommandContext, operator: OperatorClient, queries: ClusterQueries, drains: Drains
) -> Exit:
    """Print where the replicas would go, and what would stay."""
    read = queries.log_dirs(operator.cluster.brokers().values())
    cluster = _cluster(context, operator, drains, proposal.sizes_of(read))
    entries = read_entries(operator, cluster.targets())
    preview = forecast_of(operator, entries, queries, drains.options)
    found = DryRun(entries, PlanValidation(), (), frozenset(), preview)
    plan_preview.show_dry_run(context, found)
    for broker in cluster.brokers():
        for line in (str(broker),) if broker.blocked else ():
            print_note(line)
    return Exit.DONE
