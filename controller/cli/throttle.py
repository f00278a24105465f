"""``throttle``: show or change the rate at which brokers copy replicas."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Annotated

import typer

from controller.actions.limits import LimitChanges
from controller.actions.named_requests import request_ids
from controller.cli import options
from controller.cli.context import context_of
from controller.cli.exits import Exit
from controller.cli.limits import print_changes, throttle_line
from controller.cli.output import NOTHING_WRITTEN, print_json, print_line
from controller.core.model import RequestId
from controller.core.pacing.controls import UNTHROTTLED, Controls
from controller.units import parse_bytes, show_rate
from controller.zk.operator_client import OperatorClient


def throttle(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    rate: Annotated[
        str | None,
        typer.Argument(
            metavar="RATE|none",
            help="Bytes per second and broker, for example 50MB. Default: show the present one.",
        ),
    ] = None,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Set the throttle of this request, in place of the submitted one. "
            "Default: the throttle of all requests without one.",
        ),
    ] = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Show, change or remove the replication throttle while work is in progress.

    Example: reassigner throttle 50MB --zookeeper zk1:2181/kafka

    Without --request, set the throttle of all requests without one of their own, and list the open
    requests with one. With --request, set the throttle of that request, until `reassigner limits
    --request ID --unset throttle` restores the submitted one. none removes a throttle and restores
    the settings of brokers and topics. A broker obeys the lowest rate of the requests that copy to
    or from it.
    """
    ids = request_ids([] if request is None else [request])
    with context_of(ctx).connected(zookeeper, config) as operator:
        if rate is None:
            show_throttle(operator, as_json=as_json)
        elif ids:
            wanted = UNTHROTTLED if rate == "none" else parse_bytes("RATE", rate)
            changes = LimitChanges(request=ids[0], values={"throttle": wanted})
            print_changes(operator, changes, dry_run=dry_run, as_json=as_json)
        else:
            change_throttle(operator, rate, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(Exit.DONE)


def show_throttle(operator: OperatorClient, *, as_json: bool) -> None:
    """Print the general throttle, and those of open requests with their own."""
    controls = operator.requests.controls()
    own = own_throttles(operator, controls)
    if as_json:
        rates = {name: found.rate for name, found in own.items()}
        print_json({"throttle": controls.throttle, "requests": rates})
        return
    print_line(throttle_line(controls.throttle))
    for name, found in own.items():
        print_line(f"request {name}: {found}")


def change_throttle(operator: OperatorClient, rate: str, *, dry_run: bool, as_json: bool) -> None:
    """
    Set or remove the general throttle, and list the requests that it does not reach.

    Raises:
        InvalidInputError: ``rate`` is neither bytes per second nor ``none``.

    """
    bytes_per_s = None if rate == "none" else parse_bytes("RATE", rate)
    before = (
        operator.requests.controls().throttle
        if dry_run
        else operator.writes.set_throttle(bytes_per_s)
    )
    missed = {
        name: own
        for name, own in own_throttles(operator, operator.requests.controls()).items()
        if own.rate != bytes_per_s
    }
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "throttle": bytes_per_s,
                "before": before,
                "not_reached": {name: own.rate for name, own in missed.items()},
            }
        )
        return
    print_line(throttle_line(bytes_per_s))
    for name, own in missed.items():
        print_line(f"request {name} keeps its own throttle: {own}")
        print_line(f"  to change it: reassigner throttle {quote(rate)} --request {name}")
    if dry_run:
        print_line(NOTHING_WRITTEN)


@dataclass(frozen=True, slots=True)
class OwnThrottle:
    """The throttle of one request, which overrides the general one."""

    rate: int | None
    """Bytes per second and broker; None: removed after submission."""
    is_live: bool
    """Whether it was set after submission."""

    def __str__(self) -> str:
        rate = "none" if self.rate is None else f"{show_rate(self.rate)} per broker"
        return f"{rate}, {'set live' if self.is_live else 'as submitted'}"


def own_throttles(operator: OperatorClient, controls: Controls) -> dict[RequestId, OwnThrottle]:
    """Return the throttles of open requests that have their own."""
    kept = operator.outcomes.ended_requests()
    still_open = [name for name, has_ended in kept.items() if not has_ended]
    histories = operator.outcomes.histories(still_open)
    requested = {name: history.options for name, history in histories.items()}
    for submission in operator.requests.open_submissions():
        requested.setdefault(submission.request, submission.options)
    rates = {name: options.throttle for name, options in requested.items()}
    live = {
        name: own.throttle
        for name, own in controls.limits.requests.items()
        if own.throttle is not None and not kept.get(name)
    }
    return {
        name: OwnThrottle(None if rate == UNTHROTTLED else rate, name in live)
        for name, rate in sorted((rates | live).items())
        if rate is not None
    }
