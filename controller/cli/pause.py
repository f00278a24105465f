"""
``pause``, ``resume``, ``disable`` and ``enable``: begin no step, or refuse new reassignments.

Both are durable znodes that every leader obeys. Steps in flight run to their
end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from controller.actions import work_control
from controller.actions.work_control import request_ids
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.options import command, flag, option
from controller.cli.output import print_note
from controller.core.model import BrokerId, request_text
from controller.core.pacing.controls import Pause, Pauses
from controller.previews.holds import pause_lines, since_words
from controller.units import ids
from controller.znodes.cancellations import KillSwitch

BROKERS: Final = option(
    "ID", "Apply to this broker; may be repeated. Default: everything.", least=0
)


@command("dry_run", "as_json")
def pause(
    context: CommandContext,
    *,
    request: list[str] | None = options.REQUESTS,
    broker: list[int] | None = BROKERS,
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
) -> None:
    """
    Pause all reassignments, those of a request, or those to and from a broker.

    Example: reassigner pause --broker 5 --reason "disk swap" --zookeeper zk1:2181/kafka

    No new step begins; steps in flight run to their end. A pause lasts until `reassigner resume`,
    even if the leader changes.
    """
    new = Pause(reason, context.requested_by(requested_by), context.wall_ms())
    requests, brokers = request_ids(request), list(map(BrokerId, broker or ()))

    with context.connected() as operator:
        found = work_control.pause(operator, new, requests, brokers, dry_run=context.dry_run)
        absent = sorted(set(brokers) - operator.cluster.broker_ids())
        if absent:
            print_note(f"Note: broker {ids(absent)} is not live.")
        context.await_shown(operator)
        status = None if context.dry_run else context.status_of_leader(operator)
    would = new if context.dry_run else None
    _print_pauses(context, found, status=status, would=would)


@command("dry_run", "as_json")
def resume(
    context: CommandContext,
    *,
    request: list[str] | None = options.REQUESTS,
    broker: list[int] | None = BROKERS,
    everything: bool = flag(
        "--all", "Remove the quiesce and all pauses, including those of requests and brokers."
    ),
) -> None:
    """
    Remove the general pause and the quiesce, or the pauses of requests or brokers.

    Example: reassigner resume --broker 5 --zookeeper zk1:2181/kafka
    """
    requests, brokers = request_ids(request), list(map(BrokerId, broker or ()))

    with context.connected() as operator:
        found = work_control.resume(
            operator, requests, brokers, everything=everything, dry_run=context.dry_run
        )
        context.await_shown(operator)
    resumed = [*(request_text(name) for name in requests), *(f"broker {b}" for b in brokers)]
    words = "would no longer be paused" if context.dry_run else "is no longer paused"
    _print_pauses(context, found, [f"{name} {words}" for name in resumed])


def _print_pauses(
    context: CommandContext,
    found: Pauses,
    changed: Sequence[str] = (),
    status: Mapping[str, Any] | None = None,
    would: Pause | None = None,
) -> None:
    paused = {
        "everything": None if found.everything is None else asdict(found.everything),
        "requests": {name: asdict(p) for name, p in found.requests.items()},
        "brokers": {str(broker): asdict(p) for broker, p in found.brokers.items()},
        "quiesce": None if found.quiesce is None else asdict(found.quiesce),
    }
    nothing = "nothing would be paused" if context.dry_run else "nothing is paused"
    lines = [*changed, *(pause_lines(found, status, would) or [nothing])]
    context.print_change({"paused": paused}, lines)


@command("dry_run", "as_json")
def disable(
    context: CommandContext,
    *,
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
) -> None:
    """
    Refuse new reassignments until `reassigner enable`. Reassignments that have begun continue.

    Example: reassigner disable --reason "incident 42" --zookeeper zk1:2181/kafka
    """
    switch = KillSwitch(reason, context.requested_by(requested_by), context.wall_ms())
    with context.connected() as operator:
        requests, writes = operator.requests, operator.writes
        before = requests.kill_switch() if context.dry_run else writes.disable(switch)
        context.await_shown(operator)
    found = {"disabled": True, "was_disabled": before is not None, **asdict(before or switch)}
    line = "Disabled: new reassignments are refused; those that have begun continue."
    if context.dry_run:
        line = "New reassignments would be refused; those that have begun would continue."
    if before is not None:
        line = f"Disabled already, since {since_words(before)}."
    context.print_change(found, [line])


@command("dry_run", "as_json")
def enable(context: CommandContext) -> None:
    """
    Accept new reassignments again.

    Example: reassigner enable --zookeeper zk1:2181/kafka
    """
    with context.connected() as operator:
        requests, writes = operator.requests, operator.writes
        was_disabled = requests.is_disabled() if context.dry_run else writes.enable()
        context.await_shown(operator)
    found = {"disabled": False, "was_disabled": was_disabled}
    line = "Enabled: new reassignments are accepted."
    if context.dry_run:
        line = "New reassignments would be accepted."
    if not was_disabled:
        line = "It was not disabled."
    context.print_change(found, [line])
