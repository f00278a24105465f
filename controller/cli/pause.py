"""
``pause``, ``resume``, ``disable`` and ``enable``: begin no step, or refuse new reassignments.

Both are durable znodes that every leader obeys. Steps in flight end.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from controller.actions import work_control
from controller.actions.work_control import request_ids
from controller.cli import options
from controller.cli.context import context_of
from controller.cli.options import flag, option
from controller.cli.output import print_change, print_note
from controller.cli.status_text import pause_lines
from controller.core.model import BrokerId
from controller.core.pacing.controls import Pause, Pauses
from controller.previews.validation import since_words
from controller.units import ids
from controller.znodes.cancellations import KillSwitch

BrokersOption = Annotated[
    list[int] | None,
    option(
        "ID", "Apply to this broker; may be repeated. Default: everything.", "--broker", least=0
    ),
]


def pause(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    request: options.RequestsOption = None,
    broker: BrokersOption = None,
    reason: options.ReasonOption = "",
    requested_by: options.ByOption = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Pause all reassignments, those of a request, or those to and from a broker.

    Example: reassigner pause --broker 5 --reason "disk swap" --zookeeper zk1:2181/kafka

    No new step begins; steps in flight end. A pause lasts until `reassigner resume`, even if the
    leader changes.
    """
    context = context_of(ctx)
    new = Pause(reason, context.requested_by(requested_by), context.wall_ms())
    requests, brokers = request_ids(request), list(map(BrokerId, broker or ()))

    with context.connected(zookeeper, config) as operator:
        absent = sorted(set(brokers) - operator.cluster.broker_ids())
        if absent:
            print_note(f"Note: broker {ids(absent)} is not live.")
        found = work_control.pause(operator, new, requests, brokers, dry_run=dry_run)
    _print_pauses(found, dry_run=dry_run, as_json=as_json)


def resume(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    request: options.RequestsOption = None,
    broker: BrokersOption = None,
    everything: Annotated[
        bool, flag("--all", "Remove all pauses, including those of requests and brokers.")
    ] = False,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Remove the general pause, or the pauses of requests or brokers.

    Example: reassigner resume --broker 5 --zookeeper zk1:2181/kafka
    """
    requests, brokers = request_ids(request), list(map(BrokerId, broker or ()))

    with context_of(ctx).connected(zookeeper, config) as operator:
        found = work_control.resume(
            operator, requests, brokers, everything=everything, dry_run=dry_run
        )
    _print_pauses(found, dry_run=dry_run, as_json=as_json)


def _print_pauses(found: Pauses, *, dry_run: bool, as_json: bool) -> None:
    paused = {
        "everything": None if found.everything is None else asdict(found.everything),
        "requests": {name: asdict(p) for name, p in found.requests.items()},
        "brokers": {str(broker): asdict(p) for broker, p in found.brokers.items()},
    }
    lines = pause_lines(found) or ["nothing is paused"]
    print_change({"paused": paused}, lines, dry_run=dry_run, as_json=as_json)


def disable(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    reason: options.ReasonOption = "",
    requested_by: options.ByOption = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Refuse new reassignments until `reassigner enable`. Reassignments that have begun continue.

    Example: reassigner disable --reason "incident 42" --zookeeper zk1:2181/kafka
    """
    context = context_of(ctx)
    switch = KillSwitch(reason, context.requested_by(requested_by), context.wall_ms())
    with context.connected(zookeeper, config) as operator:
        before = operator.requests.kill_switch() if dry_run else operator.writes.disable(switch)
    found = {"disabled": True, "was_disabled": before is not None, **asdict(before or switch)}
    line = "Disabled: new reassignments are refused; those that have begun continue."
    if before is not None:
        line = f"Disabled already, since {since_words(before)}."
    print_change(found, [line], dry_run=dry_run, as_json=as_json)


def enable(
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Accept new reassignments again.

    Example: reassigner enable --zookeeper zk1:2181/kafka
    """
    with context_of(ctx).connected(zookeeper, config) as operator:
        was_disabled = operator.requests.is_disabled() if dry_run else operator.writes.enable()
    found = {"disabled": False, "was_disabled": was_disabled}
    line = "Enabled: new reassignments are accepted." if was_disabled else "It was not disabled."
    print_change(found, [line], dry_run=dry_run, as_json=as_json)
