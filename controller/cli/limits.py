"""
``limits`` and ``throttle``: show or change the limits of all work, of a broker or of a request.

What is set here is durable, holds for every leader, and overrides the daemon's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from controller.actions.work_control import (
    NAMES,
    AnyLimits,
    LimitChanges,
    change_limits,
    check_limited,
    check_tolerance,
    limits_in_force,
    request_ids,
)
from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.options import argument, command, option
from controller.core.model import BrokerId, RequestId, request_text
from controller.core.pacing import controls
from controller.core.requests.submissions import Throttle
from controller.errors import InvalidInputError
from controller.telemetry.advice import governor_lines
from controller.units import NONE, ids, parse_bytes, show_bytes, show_rate, show_throttle

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

_ORDERS: Final = {order.value.replace("_", "-"): order for order in controls.QueueOrder}
ORDERS: Final = "|".join(_ORDERS)
UNDER_MIN_ISR: Final = "|".join(controls.UnderMinIsr)


@command("dry_run", "as_json")
def limits(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    *,
    broker: int | None = option("ID", "Set the limits of this broker. Default: of all.", least=0),
    request: str | None = option("ID", "Set the limits of this request. Default: of all."),
    max_partitions_in_flight: int | None = option(
        "N", "Maximum number of partitions in flight. Default: unchanged.", least=1
    ),
    max_incoming: int | None = option(
        "N",
        "Maximum number of replicas that a broker copies at a time. Default: unchanged.",
        least=1,
    ),
    max_outgoing: int | None = option(
        "N",
        "Maximum number of partitions of which a broker serves copies at a time. "
        "Default: unchanged.",
        least=1,
    ),
    leader_moves: int | None = option(
        "N", "Maximum number of leader moves per broker and second. Default: unchanged.", least=1
    ),
    max_bytes: str | None = option(
        "SIZE", "Maximum number of bytes in flight, for example 10GB. Default: unchanged."
    ),
    step_size: str | None = options.STEP_SIZE,
    order: str | None = option(
        ORDERS, "Order of pending partitions of the same priority. Default: unchanged."
    ),
    under_min_isr: controls.UnderMinIsr | None = option(
        UNDER_MIN_ISR,
        "While other partitions are below min.insync.replicas: wait with copies that "
        "could harm them, only warn, or ignore them. Default: unchanged.",
    ),
    window: str | None = options.WINDOW,
    priority: int | None = option(
        "N", "With --request: requests of a higher priority start first. Default: unchanged."
    ),
    tolerate_lagging: list[int] | None = options.TOLERATE_LAGGING,
    unset: list[str] | None = option(
        "NAME",
        "Remove this limit, so that the setting applies again; may be repeated. Default: none.",
    ),
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
        "tolerate-lagging": options.brokers_of(tolerate_lagging) or None,
    }
    changes = LimitChanges(
        values={name: value for name, value in given.items() if value is not None},
        unset=[name.removeprefix("--") for name in unset or ()],
        broker=None if broker is None else BrokerId(broker),
        request=next(iter(request_ids([] if request is None else [request])), None),
    )
    with context.connected() as operator:
        if tolerate_lagging:
            check_tolerance(context.status_of_leader(operator))
        if changes:
            _print_changes(context, operator, changes)
        else:
            check_limited(operator, changes)
            _show_limits(context, operator, changes)


def _parse_order(option: str, text: str) -> controls.QueueOrder:
    found = _ORDERS.get(text.replace("_", "-"))
    if found is None:
        raise InvalidInputError(f"{option}: one of {', '.join(_ORDERS)}, not {text!r}")
    return found


def _print_changes(
    context: CommandContext, operator: OperatorClient, changes: LimitChanges
) -> None:
    found = change_limits(operator, changes, dry_run=context.dry_run)
    context.await_shown(operator)
    lines = _preview_lines if context.dry_run else _changed_lines
    context.print_change({"limits": _limits_document(found)}, lines(found, changes))


def _preview_lines(found: controls.Limits, changes: LimitChanges) -> Iterator[str]:
    whose = "all work"
    if changes.request is not None:
        whose = request_text(changes.request)
    elif changes.broker is not None:
        whose = f"broker {changes.broker}"
    yield f"The limits of {whose} would be:"
    yield from _changed_lines(found, changes)


def _changed_lines(found: controls.Limits, changes: LimitChanges) -> Iterator[str]:
    if changes.request is not None:
        requested = found.requests.get(changes.request, controls.RequestLimits())
        yield f"{request_text(changes.request)}: {_list_text(requested) or 'as submitted'}"
    elif changes.broker is not None:
        own = found.brokers.get(changes.broker, controls.BrokerLimits())
        yield f"broker {changes.broker}: {_list_text(own) or 'as all brokers'}"
    else:
        lines = [f"{NAMES[n]}: {_value_text(n, v)}" for n, v in _values(found)]
        lines += _special_lines(found)
        yield from lines or ["No limit is set; the daemon's settings hold."]


def _show_limits(context: CommandContext, operator: OperatorClient, changes: LimitChanges) -> None:
    """
    Print the effective limits; those of the settings are known to the daemon only.

    Of ``changes`` without any change, only the broker or the request counts.
    """
    found = operator.requests.controls()
    found = replace(found, limits=limits_in_force(operator, found.limits))
    status = context.status_of_leader(operator) or {}
    effective = status.get("limits")
    document = {
        "limits": _limits_document(found.limits),
        "throttle": found.throttle,
        "effective": effective,
        "governor": status.get("governor"),
        "unreadable": dict(found.unreadable),
    }
    lines: Iterable[str] = _changed_lines(found.limits, changes)
    if changes.broker is None and changes.request is None:
        lines = (*_shown_lines(found, effective), *governor_lines(status))
    context.print_result(lambda: document, lines)


def _shown_lines(found: controls.Controls, effective: object) -> Iterator[str]:
    for path, why in found.unreadable.items():
        yield f"{path} cannot be decoded, its previous content holds: {why}"
    for own in fields(controls.Limits):
        if own.name not in NAMES:
            continue
        value = getattr(found.limits, own.name)
        text = "as in the daemon's settings"
        if value is not None:
            text = f"{_value_text(own.name, value)} (set live)"
        elif own.name == "window":
            text = "none"
        elif isinstance(effective, Mapping) and own.name in effective:
            text = f"{_value_text(own.name, effective[own.name])} (settings)"
        yield f"{NAMES[own.name]}: {text}"
    yield from _special_lines(found.limits)
    yield _throttle_line(_common_throttle(found, effective))


def _common_throttle(found: controls.Controls, effective: object) -> Throttle | None:
    """Return the throttle of all requests: set live, or of the settings, which the daemon knows."""
    if found.throttle is None and isinstance(effective, Mapping):
        configured: Throttle | None = effective.get("throttle")
        return configured
    return found.throttle


def _throttle_line(throttle: Throttle | None, *, would: bool = False) -> str:
    rate = "none" if throttle in {None, controls.UNTHROTTLED} else show_throttle(throttle)
    verb = "the throttle would be" if would else "throttle:"
    return f"{verb} {rate}, except for requests with their own"


def _limits_document(found: controls.Limits) -> dict[str, Any]:
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
        if isinstance(value, int | tuple)
        else str(value)
        for name, value in _values(found)
    }


def _special_lines(found: controls.Limits) -> Iterator[str]:
    for broker, own in found.brokers.items():
        yield f"broker {broker}: {_list_text(own)}"
    for name, requested in found.requests.items():
        yield f"{request_text(name)}: {_list_text(requested)}"


def _list_text(found: controls.BrokerLimits | controls.RequestLimits) -> str:
    return ", ".join(f"{NAMES[n]} {_value_text(n, v)}" for n, v in _values(found))


def _values(found: AnyLimits) -> Iterator[tuple[str, Any]]:
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
    return ids(value) if isinstance(value, tuple) else str(value)


# --- the throttle --------------------------------------------------------------------------------


@command("dry_run", "as_json")
def throttle(
    context: CommandContext,
    rate: str | None = argument(
        "RATE|auto|none",
        "Bytes per second and broker, for example 50MB; auto follows what producers see. "
        "Default: show the present one.",
    ),
    *,
    request: str | None = option(
        "ID",
        "Set the throttle of this request, in place of the submitted one. "
        "Default: the throttle of all requests without one.",
    ),
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
    named = next(iter(request_ids([] if request is None else [request])), None)
    is_none = rate is not None and rate.strip().lower() == NONE
    wanted: Throttle | None = controls.UNTHROTTLED if is_none else None
    if rate is not None and not is_none:
        wanted = options.parse_rate_option("RATE", rate, or_none=True)
    with context.connected() as operator:
        if wanted is None:
            _show_throttle(context, operator, named)
        elif named is not None:
            changes = LimitChanges(request=named, values={"throttle": wanted})
            _print_changes(context, operator, changes)
        else:
            _change_throttle(context, operator, quote(rate or NONE), None if is_none else wanted)


def _show_throttle(
    context: CommandContext, operator: OperatorClient, request: RequestId | None
) -> None:
    """Print the general throttle, and those of open requests with their own, or of one."""
    found = operator.requests.controls()
    own = _own_throttles(operator, found)
    if request is not None:
        check_limited(operator, LimitChanges(request=request))
        own = {name: throttle for name, throttle in own.items() if name == request}
    rates = {name: throttle.rate for name, throttle in own.items()}
    status = context.status_of_leader(operator) or {}
    common = _common_throttle(found, status.get("limits"))
    lines = [_throttle_line(common)]
    lines += [f"{request_text(name)}: {throttle}" for name, throttle in own.items()]
    if request is not None and request not in own:
        lines.append(f"{request_text(request)}: none of its own")
    lines += governor_lines(status)
    document = {"throttle": common, "requests": rates, "governor": status.get("governor")}
    context.print_result(lambda: document, lines)


def _change_throttle(
    context: CommandContext, operator: OperatorClient, given: str, wanted: Throttle | None
) -> None:
    """Set or remove the general throttle, ``given`` so; list the requests with their own."""
    limits = (context.status_of_leader(operator) or {}).get("limits") or {}
    # Without a live throttle that of the settings would hold again.
    is_overridden = wanted is None and limits.get("configured_throttle") is not None
    if context.dry_run:
        before = operator.requests.controls().throttle
    else:
        before = operator.writes.set_throttle(controls.UNTHROTTLED if is_overridden else wanted)
        context.await_shown(operator)
    missed = {
        name: own
        for name, own in _own_throttles(operator, operator.requests.controls()).items()
        if own.rate != wanted
    }
    document = {
        "throttle": wanted,
        "before": before,
        "not_reached": {name: own.rate for name, own in missed.items()},
    }
    keeps = "would keep" if context.dry_run else "keeps"
    lines = [_throttle_line(wanted, would=context.dry_run)]
    for name, own in missed.items():
        lines += [
            f"{request_text(name)} {keeps} its own throttle: {own}",
            f"  to change it: reassigner throttle {given} --request {name}",
        ]
    context.print_change(document, lines)


@dataclass(frozen=True, slots=True)
class OwnThrottle:
    """The throttle of one request, which overrides the general one."""

    rate: Throttle | None
    """None: removed after submission."""
    is_live: bool
    """Whether it was set after submission."""

    def __str__(self) -> str:
        rate = "none" if self.rate is None else show_throttle(self.rate)
        return f"{rate}, {'set live' if self.is_live else 'as submitted'}"


def _own_throttles(
    operator: OperatorClient, found: controls.Controls
) -> dict[RequestId, OwnThrottle]:
    kept = operator.outcomes.ended_requests()
    histories = operator.outcomes.histories([name for name, ended in kept.items() if not ended])
    requested = {name: history.options for name, history in histories.items()}
    for submission in operator.requests.open_submissions():
        requested.setdefault(submission.request, submission.options)
    rates = {name: options.throttle for name, options in requested.items()}
    live = {
        name: own.throttle
        for name, own in found.limits.requests.items()
        if own.throttle is not None and not kept.get(name)
    }
    return {
        name: OwnThrottle(None if rate == controls.UNTHROTTLED else rate, name in live)
        for name, rate in sorted((rates | live).items())
        if rate is not None
    }
