"""``drain``: move all replicas off brokers, and keep them empty, until that is stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from controller.actions import draining
from controller.cli import options, plan_preview
from controller.cli.context import CommandContext
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_note
from controller.cli.progress_display import display_of
from controller.cli.status_text import status_about
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.controls import Drain, Drains
from controller.errors import InvalidInputError
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.holds import drain_words
from controller.units import MS_PER_S, ids

if TYPE_CHECKING:
    from controller.previews.drain_preview import DrainedBroker, DrainedCluster
    from controller.zk.operator_client import OperatorClient

FOLLOW_S: Final = 2.0
"""The least time between two looks at the topics of the cluster."""
FOLLOW_SHARE: Final = 5
"""So many times as long as a look takes."""
NO_DRAIN: Final = "no broker is drained"


@command("dry_run", "all_rows", "as_json")
def drain(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    brokers: list[int] | None = argument("BROKER", "Brokers to drain. Default: list the drains."),
    *,
    stop: bool = flag("--stop", "End the drain of the brokers, or all drains."),
    throttle: str | None = option(
        "RATE|auto",
        "Bytes per second and broker for its copies, for example 50MB. Default: unchanged.",
    ),
    window: str | None = options.WINDOW,
    reason: str = options.REASON,
    requested_by: str | None = option(
        "NAME", "Name of the requester. Default: user@host.", "--requested-by", "--by"
    ),
    approved_by: str = option(
        "NAME",
        "Name of the approver, without whom a drain does nothing if the daemon's "
        "require_approval is set. Default: none.",
        default="",
    ),
    wait: bool = flag("--wait", "Show progress and wait until the brokers are empty."),
) -> Exit:
    """
    Move all replicas off brokers and keep them empty, until that is stopped.

    Example: reassigner drain 5 --reason "disk swap" --wait --zookeeper zk1:2181/kafka

    A drain stands until `reassigner drain --stop`: what is created on the broker meanwhile leaves
    it, too. The options apply to all drains. What has begun when a drain is stopped continues;
    `reassigner undo` moves it back, and `reassigner add` gives a broker its share. With --dry-run,
    it prints where the replicas would go. Exit code: 0 the brokers are empty, or
    --stop and --dry-run are done, 1 error, 2 replicas are left, 3 refused, 4 stopped meanwhile.
    """
    named = list(map(BrokerId, brokers or ()))
    if not named and (throttle or window or wait or approved_by):
        raise InvalidInputError("name the brokers to drain")
    if stop:
        if throttle or window or wait or approved_by:
            raise InvalidInputError("--stop takes no other options")
        with context.connected() as operator:
            return _stop(context, operator, named)
    new = draining.NewDrains(
        brokers=named,
        about=Drain(reason, context.requested_by(requested_by), context.wall_ms(), approved_by),
        throttle=options.parse(options.parse_rate_option, "--throttle", throttle),
        window=options.parse(options.parse_window, "--window", window),
    )
    with context.inspected() as (operator, queries):
        if not named:
            return _print(context, list(_cluster(context, operator).brokers()))
        drains = draining.drain(operator, new, dry_run=context.dry_run)
        if context.dry_run:
            return _preview(context, operator, queries, drains)
        if operator.cluster.leader_address() is None:
            print_note("No reassigner leads; the next leader begins.")
        context.await_shown(operator)
        if wait:
            _follow(context, operator, named)
        found = [b for b in _cluster(context, operator).brokers() if b.broker in named]
        ended = set(named) - {b.broker for b in found}
        if ended:
            print_note(f"The drain of broker {ids(sorted(ended))} was stopped.")
        code = _print(context, found)
        return Exit.CANCELLED if ended else code


def _now(context: CommandContext) -> float:
    return context.wall_ms() / MS_PER_S


def _cluster(context: CommandContext, operator: OperatorClient) -> DrainedCluster:
    from controller.previews.drain_preview import DrainedCluster  # noqa: PLC0415 - its help needs no decisions

    return DrainedCluster(operator, _now(context), context.status_of_leader(operator))


def _print(context: CommandContext, found: list[DrainedBroker]) -> Exit:
    """Print what is left on drained brokers."""
    lines = (line for broker in found for line in _lines(broker))
    context.print_result(
        lambda: {"drains": [broker.document() for broker in found]}, lines if found else [NO_DRAIN]
    )
    return Exit.DONE if all(broker.is_empty for broker in found) else Exit.IN_PROGRESS


def _lines(found: DrainedBroker) -> Iterable[str]:
    away = "" if found.is_live else ", which is not live,"
    left = len(found.held) + len(found.reassigning)
    yield f"broker {found.broker}{away} {drain_words(found.drain, left)}"
    yield str(found)


def _follow(context: CommandContext, operator: OperatorClient, named: list[BrokerId]) -> None:
    """Show progress until the brokers are empty, or what is left cannot leave them."""
    most: set[TopicPartition] = set()
    try:
        with display_of(context) as show:
            while True:
                began = context.now()
                cluster = _cluster(context, operator)
                found = [b for b in cluster.brokers() if b.broker in named]
                left = {p for b in found for p in (*b.held, *b.reassigning)}
                most |= left
                status = status_about(cluster.status, cluster.drains.request)
                show("; ".join(map(str, found)), len(most - left), len(most), status)
                if all(b.is_empty or b.is_stuck for b in found):
                    return
                # Every topic is read: less often where that takes long.
                context.sleep(max(FOLLOW_S, FOLLOW_SHARE * (context.now() - began)))
    except KeyboardInterrupt:
        pass


def _stop(context: CommandContext, operator: OperatorClient, named: list[BrokerId]) -> Exit:
    before, left = draining.stop(operator, named, dry_run=context.dry_run)
    context.await_shown(operator)
    ended = sorted(before.brokers.keys() - left.brokers.keys())
    lines = [NO_DRAIN]
    if ended:
        others = f", and ends the drain of broker {ids(sorted(left.brokers))}"
        undo = f"`reassigner undo {before.request}` moves its replicas back"
        undo += others if left.brokers else ""
        lines = [
            f"broker {ids(ended)} is no longer drained; what has not begun will not begin",
            f"what has begun continues; {undo}",
        ]
        if context.dry_run:
            ends = f"broker {ids(ended)} would no longer be drained"
            lines = [
                f"{ends}; what has not begun would not begin",
                f"what has begun would continue; {undo}",
            ]
    context.print_change({"stopped": ended, "drains": _document(left)}, lines)
    return Exit.DONE


def _document(drains: Drains) -> dict[str, object]:
    return {str(broker): asdict(about) for broker, about in drains.brokers.items()}


def _preview(
    context: CommandContext, operator: OperatorClient, queries: ClusterQueries, drains: Drains
) -> Exit:
    """Print where the replicas would go, and what would stay."""
    from controller.previews.drain_preview import preview_drains  # noqa: PLC0415 - as above

    shown = preview_drains(operator, queries, drains, _now(context))
    plan_preview.show_dry_run(context, shown.found)
    for line in shown.left:
        print_note(line)
    return Exit.DONE
