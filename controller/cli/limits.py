"""
``limits``: show or change the limits of all work, of a broker or of a request.

A limit set here is durable, holds for every leader, and overrides the daemon's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, Final

import typer

from controller.actions.limits import NAMES, AnyLimits, LimitChanges, change_limits
from controller.actions.named_requests import request_ids
from controller.cli import options
from controller.cli.context import context_of
from controller.cli.exits import Exit
from controller.cli.output import NOTHING_WRITTEN, print_json, print_line, print_lines
from controller.core.model import BrokerId
from controller.core.pacing import controls
from controller.errors import InvalidInputError
from controller.units import parse_bytes, show_bytes, show_rate
from controller.zk.operator_client import OperatorClient

_ORDERS: Final = {order.value.replace("_", "-"): order for order in controls.QueueOrder}


def _count(name: str, about: str) -> object:
    return typer.Option(f"--{name}", metavar="N", min=1, help=f"{about} Default: unchanged.")


def limits(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    broker: Annotated[
        int | None,
        typer.Option(metavar="ID", min=0, help="Set the limits of this broker. Default: of all."),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Set the limits of this request. Default: of all."),
    ] = None,
    max_partitions_in_flight: Annotated[
        int | None, _count("max-partitions-in-flight", "Maximum number of partitions in flight.")
    ] = None,
    max_incoming: Annotated[
        int | None,
        _count("max-incoming", "Maximum number of replicas that a broker copies at a time."),
    ] = None,
    max_outgoing: Annotated[
        int | None,
        _count(
            "max-outgoing",
            "Maximum number of partitions of which a broker serves copies at a time.",
        ),
    ] = None,
    leader_moves: Annotated[
        int | None, _count("leader-moves", "Maximum number of leader moves per broker and second.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Maximum number of bytes in flight, for example 10GB. Default: unchanged.",
        ),
    ] = None,
    step_size: options.StepSizeOption = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(_ORDERS),
            help="Order of pending partitions of the same priority. Default: unchanged.",
        ),
    ] = None,
    under_min_isr: Annotated[
        controls.UnderMinIsr | None,
        typer.Option(
            metavar="|".join(controls.UnderMinIsr),
            help="While other partitions are below min.insync.replicas: wait with copies that "
            "could harm them, only warn, or ignore them. Default: unchanged.",
        ),
    ] = None,
    window: options.WindowOption = None,
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --request: requests of a higher priority start first. Default: unchanged.",
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Remove this limit, so that the setting applies again; may be repeated. "
            "Default: none.",
        ),
    ] = None,
    dry_run: options.DryRunOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    Show or change concurrency limits while work is in progress.

    Example: reassigner limits --broker 5 --max-incoming 2 --zookeeper zk1:2181/kafka

    Without an option, print the effective limits. A limit applies to all work, to a broker or to a
    request. It lasts until it is unset, even if the leader changes.
    """
    given: dict[str, object | None] = {
        "max-partitions-in-flight": max_partitions_in_flight,
        "max-incoming": max_incoming,
        "max-outgoing": max_outgoing,
        "leader-moves": leader_moves,
        "max-bytes": options.parse(parse_bytes, "--max-bytes", max_bytes),
        "step-size": options.parse(options.parse_step_size, "--step-size", step_size),
        "order": options.parse(_parse_order, "--order", order),
        "under-min-isr": under_min_isr,
        "window": options.parse(options.parse_window, "--window", window),
        "priority": options.parse(options.check_priority, "--priority", priority),
    }
    changes = LimitChanges(
        values={name: value for name, value in given.items() if value is not None},
        unset=[name.removeprefix("--") for name in unset or ()],
        broker=None if broker is None else BrokerId(broker),
        request=next(iter(request_ids([] if request is None else [request])), None),
    )
    context = context_of(ctx)
    with context.connected(zookeeper, config) as operator:
        if changes:
            print_changes(operator, changes, dry_run=dry_run, as_json=as_json)
        else:
            show_limits(operator, context.status_of_leader(operator), as_json=as_json)
    raise typer.Exit(Exit.DONE)


def _parse_order(option: str, text: str) -> controls.QueueOrder:
    found = _ORDERS.get(text.replace("_", "-"))
    if found is None:
        raise InvalidInputError(f"{option}: one of {', '.join(_ORDERS)}, not {text!r}")
    return found


# --- changing ------------------------------------------------------------------------------------


def print_changes(
    operator: OperatorClient, changes: LimitChanges, *, dry_run: bool, as_json: bool
) -> None:
    """
    Change limits and print the new ones.

    Raises:
        InvalidInputError: there is no such limit, or the request has ended or is not known.

    """
    found = change_limits(operator, changes, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "limits": limits_document(found)})
        return
    print_lines(_changed_lines(found, changes))
    if dry_run:
        print_line(NOTHING_WRITTEN)


def _changed_lines(found: controls.Limits, changes: LimitChanges) -> Iterator[str]:
    """Describe the limits of what was changed."""
    if changes.request is not None:
        requested = found.requests.get(changes.request, controls.RequestLimits())
        yield f"request {changes.request}: {_list_text(requested) or 'as submitted'}"
    elif changes.broker is not None:
        own = found.brokers.get(changes.broker, controls.BrokerLimits())
        yield f"broker {changes.broker}: {_list_text(own) or 'as all brokers'}"
    else:
        lines = [f"{NAMES[n]}: {_value_text(n, v)}" for n, v in _values(found)]
        lines += _special_lines(found)
        yield from lines or ["No limit is set; the daemon's settings hold."]


# --- printing ------------------------------------------------------------------------------------


def show_limits(
    operator: OperatorClient, status: Mapping[str, Any] | None, *, as_json: bool
) -> None:
    """Print the effective limits; those of the settings are known to the daemon only."""
    found = operator.requests.controls()
    effective = (status or {}).get("limits")
    if as_json:
        print_json(
            {
                "limits": limits_document(found.limits),
                "throttle": found.throttle,
                "effective": effective,
                "unreadable": dict(found.unreadable),
            }
        )
        return
    for path, why in found.unreadable.items():
        print_line(f"{path} cannot be decoded, its previous content holds: {why}")
    for own in fields(controls.Limits):
        if own.name not in NAMES:
            continue
        value = getattr(found.limits, own.name)
        if value is not None:
            print_line(f"{NAMES[own.name]}: {_value_text(own.name, value)} (set live)")
        elif own.name == "window":
            print_line("window: none")
        elif isinstance(effective, Mapping) and own.name in effective:
            print_line(
                f"{NAMES[own.name]}: {_value_text(own.name, effective[own.name])} (settings)"
            )
        else:
            print_line(f"{NAMES[own.name]}: as in the daemon's settings")
    print_lines(_special_lines(found.limits))
    print_line(throttle_line(found.throttle))


def throttle_line(bytes_per_s: int | None) -> str:
    """Describe the throttle of all requests without their own."""
    rate = "none" if bytes_per_s is None else f"{show_rate(bytes_per_s)} per broker"
    return f"throttle: {rate}, except for requests with their own"


def limits_document(found: controls.Limits) -> dict[str, Any]:
    """Return limits for ``--json``."""
    return {
        **_document(found),
        "brokers": {str(broker): _document(own) for broker, own in found.brokers.items()},
        "requests": {name: _document(own) for name, own in found.requests.items()},
    }


def _document(found: AnyLimits) -> dict[str, Any]:
    """Return the limits that are set; a throttle that was removed is null."""
    return {
        name: None
        if name == "throttle" and value == controls.UNTHROTTLED
        else value
        if isinstance(value, int)
        else str(value)
        for name, value in _values(found)
    }


def _special_lines(found: controls.Limits) -> Iterator[str]:
    for broker, own in found.brokers.items():
        yield f"broker {broker}: {_list_text(own)}"
    for name, requested in found.requests.items():
        yield f"request {name}: {_list_text(requested)}"


def _list_text(found: controls.BrokerLimits | controls.RequestLimits) -> str:
    return ", ".join(f"{NAMES[n]} {_value_text(n, v)}" for n, v in _values(found))


def _values(found: AnyLimits) -> Iterator[tuple[str, Any]]:
    """Yield the limits that are set, by field."""
    for own in fields(found):
        value = getattr(found, own.name)
        if own.name in NAMES and value is not None:
            yield own.name, value


def _value_text(name: str, value: object) -> str:
    if value is None or (name == "throttle" and value == controls.UNTHROTTLED):
        return "none"
    if name == "max_bytes_in_flight" and isinstance(value, int):
        return show_bytes(value)
    if name == "throttle" and isinstance(value, int):
        return show_rate(value)
    return str(value)
