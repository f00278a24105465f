"""
``limits`` and ``throttle``: how fast work goes, changed while it goes.

What is set here is durable, holds for whoever leads, and comes before the daemon's settings; what
is not set is as in those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from shlex import quote
from typing import Any, Final

from controller.cli.exits import Exit
from controller.cli.pause import check_requests
from controller.cli.ports import OperatorPort
from controller.cli.report_text import say, say_json
from controller.cli.units import parse_bytes, show_bytes
from controller.core.controls import (
    UNTHROTTLED,
    BrokerLimits,
    Controls,
    Limits,
    RequestLimits,
)
from controller.core.model import BrokerId, RequestId
from controller.errors import InvalidInputError

NAMES: Final[Mapping[str, str]] = {
    "max_partitions_in_flight": "max-partitions-in-flight",
    "max_incoming_per_broker": "max-incoming",
    "max_outgoing_per_broker": "max-outgoing",
    "max_incoming": "max-incoming",
    "max_outgoing": "max-outgoing",
    "max_bytes_in_flight": "max-bytes",
    "max_leader_moves_per_broker_per_second": "leader-moves",
    "step_size": "step-size",
    "order": "order",
    "window": "window",
    "priority": "priority",
    "throttle": "throttle",
}
"""How the options are called that set a limit, by its field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Which limits are to change, of all, of one broker or of one request."""

    values: Mapping[str, object] = field(default_factory=dict)
    """By the name of the option without its dashes; what is not named stays."""
    unset: Sequence[str] = ()
    broker: BrokerId | None = None
    request: RequestId | None = None

    def __bool__(self) -> bool:
        return bool(self.values or self.unset)

    def applied(self, limits: Limits) -> Limits:
        """
        Return the limits as they are to be.

        Raises:
            PlanInvalidError: such a limit does not exist for what is meant.

        """
        if self.broker is not None and self.request is not None:
            raise InvalidInputError("name a broker or a request, not both")
        if self.broker is not None:
            known = limits.brokers.get(self.broker, BrokerLimits())
            changed = replace(known, **self._changed(known, "one broker"))
            brokers = {**limits.brokers, self.broker: changed}
            return replace(limits, brokers=_telling(brokers, BrokerLimits()))
        if self.request is not None:
            wanted = limits.requests.get(self.request, RequestLimits())
            asked = replace(wanted, **self._changed(wanted, "one request"))
            requests = {**limits.requests, self.request: asked}
            return replace(limits, requests=_telling(requests, RequestLimits()))
        return replace(limits, **self._changed(limits, "all"))

    def _changed(self, limits: Limits | BrokerLimits | RequestLimits, whose: str) -> dict[str, Any]:
        own = {NAMES[f.name]: f.name for f in fields(limits) if f.name in NAMES}
        wanted = {**dict.fromkeys(self.unset), **self.values}
        for name in wanted:
            if name not in own:
                raise InvalidInputError(
                    f"{name} is not a limit of {whose}: those are {', '.join(own)}"
                )
        return {own[name]: value for name, value in wanted.items()}


def _telling(limits: Mapping[Any, Any], nothing: object) -> dict[Any, Any]:
    """Return those that say something."""
    return {name: value for name, value in limits.items() if value != nothing}


def change_limits(
    operator: OperatorPort, changes: Changes, *, dry_run: bool, as_json: bool
) -> Exit:
    """
    Change limits and show what is set.

    Raises:
        PlanInvalidError: such a limit does not exist, or the request has ended or is not known.

    """
    if changes.request is not None and changes.values:
        check_requests(operator, [changes.request])
    if dry_run:
        limits = changes.applied(operator.read_controls().limits)
    else:
        limits = operator.edit_limits(changes.applied)
    if as_json:
        say_json({"dry_run": dry_run, "limits": limits_document(limits)})
        return Exit.DONE
    for line in _changed_lines(limits, changes):
        say(line)
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE


def show_limits(operator: OperatorPort, status: Mapping[str, Any] | None, *, as_json: bool) -> Exit:
    """Print the limits that hold, as far as the daemon tells them, and those set live."""
    controls = operator.read_controls()
    effective = (status or {}).get("limits")
    if as_json:
        say_json(
            {
                "limits": limits_document(controls.limits),
                "throttle": controls.throttle,
                "effective": effective,
                "unreadable": dict(controls.unreadable),
            }
        )
        return Exit.DONE
    for path, why in controls.unreadable.items():
        say(f"{path} cannot be understood, what it said before goes on to hold: {why}")
    for own in fields(Limits):
        if own.name not in NAMES:
            continue
        value = getattr(controls.limits, own.name)
        if value is not None:
            say(f"{NAMES[own.name]}: {_shown(own.name, value)} (set live)")
        elif own.name == "window":
            say("window: none")
        elif isinstance(effective, Mapping) and own.name in effective:
            say(f"{NAMES[own.name]}: {_shown(own.name, effective[own.name])} (settings)")
        else:
            say(f"{NAMES[own.name]}: as in the daemon's settings")
    for line in _special_lines(controls.limits):
        say(line)
    say(throttle_line(controls.throttle))
    return Exit.DONE


def limits_document(limits: Limits) -> dict[str, Any]:
    """Return what is set, for a program."""
    return {
        **_said(limits),
        "brokers": {str(broker): _said(own) for broker, own in limits.brokers.items()},
        "requests": {name: _said(own) for name, own in limits.requests.items()},
    }


def _said(limits: Limits | BrokerLimits | RequestLimits) -> dict[str, Any]:
    found = {f.name: getattr(limits, f.name) for f in fields(limits) if f.name in NAMES}
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in found.items()
        if value is not None
    } | ({"throttle": None} if found.get("throttle") == UNTHROTTLED else {})


def _set_lines(limits: Limits) -> Iterator[str]:
    found = False
    for own in fields(limits):
        value = getattr(limits, own.name)
        if own.name in NAMES and value is not None:
            found = True
            yield f"{NAMES[own.name]}: {_shown(own.name, value)}"
    for line in _special_lines(limits):
        found = True
        yield line
    if not found:
        yield "No limit is set; all are as in the daemon's settings."


def _changed_lines(limits: Limits, changes: Changes) -> Iterator[str]:
    """Word what is set now of what was meant: of all, of the broker, or of the request."""
    if changes.request is not None:
        asked = limits.requests.get(changes.request, RequestLimits())
        yield f"request {changes.request}: {_listed(asked) or 'as submitted'}"
    elif changes.broker is not None:
        own = limits.brokers.get(changes.broker, BrokerLimits())
        yield f"broker {changes.broker}: {_listed(own) or 'as all'}"
    else:
        yield from _set_lines(limits)


def _special_lines(limits: Limits) -> Iterator[str]:
    for broker, own in limits.brokers.items():
        yield f"broker {broker}: {_listed(own)}"
    for name, asked in limits.requests.items():
        yield f"request {name}: {_listed(asked)}"


def _listed(limits: BrokerLimits | RequestLimits) -> str:
    said = [(f.name, getattr(limits, f.name)) for f in fields(limits)]
    return ", ".join(f"{NAMES[n]} {_shown(n, v)}" for n, v in said if v is not None)


def _shown(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name == "max_bytes_in_flight" and isinstance(value, int):
        return show_bytes(value)
    if value == UNTHROTTLED and name == "throttle":
        return "none"
    if name == "throttle" and isinstance(value, int):
        return f"{show_bytes(value)}/s"
    return str(value)


# --- throttle ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnThrottle:
    """A throttle of one request, which holds in place of that of all."""

    rate: int | None
    """Bytes per second and broker; None: lifted live."""
    is_live: bool
    """Whether it was set live; else it was submitted with the request."""

    def __str__(self) -> str:
        rate = "none" if self.rate is None else f"{show_bytes(self.rate)}/s per broker"
        return f"{rate}, {'set live' if self.is_live else 'as submitted'}"


def own_throttles(operator: OperatorPort, controls: Controls) -> dict[RequestId, OwnThrottle]:
    """Return the throttles of open requests that have one of their own, submitted ones included."""
    kept = operator.request_ids()
    still_open = [name for name, has_ended in kept.items() if not has_ended]
    histories = operator.read_history(still_open)
    asked = {name: history.options for name, history in histories.items()}
    for submission in operator.read_submissions(operator.submission_names()).values():
        if submission is not None:
            asked.setdefault(submission.request, submission.options)
    rates = {name: options.throttle for name, options in asked.items()}
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


def throttle_line(bytes_per_s: int | None) -> str:
    """Word the throttle of all."""
    if bytes_per_s is None:
        return "throttle: none, but for requests with their own"
    return f"throttle: {show_bytes(bytes_per_s)}/s per broker, but for requests with their own"


def change_throttle(
    operator: OperatorPort,
    rate: str,
    request: RequestId | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """
    Set the throttle of all, or of one request; ``none`` lifts it.

    Raises:
        PlanInvalidError: the rate is none, or the request has ended or is not known.

    """
    bytes_per_s = None if rate == "none" else parse_bytes("RATE", rate)
    if request is not None:
        throttle = UNTHROTTLED if bytes_per_s is None else bytes_per_s
        wanted = Changes(request=request, values={"throttle": throttle})
        return change_limits(operator, wanted, dry_run=dry_run, as_json=as_json)
    before = operator.read_controls().throttle if dry_run else operator.set_throttle(bytes_per_s)
    controls = operator.read_controls()
    missed = {
        name: own
        for name, own in own_throttles(operator, controls).items()
        if own.rate != bytes_per_s
    }
    if as_json:
        say_json(
            {
                "dry_run": dry_run,
                "throttle": bytes_per_s,
                "before": before,
                "not_reached": {name: own.rate for name, own in missed.items()},
            }
        )
        return Exit.DONE
    say(throttle_line(bytes_per_s))
    for name, own in missed.items():
        say(f"request {name} is not reached, it has its own: {own}")
        say(f"  to change it: reassigner throttle {quote(rate)} --request {name}")
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE


def show_throttle(operator: OperatorPort, *, as_json: bool) -> Exit:
    """Print the throttle of all, and those of open requests with their own."""
    controls = operator.read_controls()
    own = own_throttles(operator, controls)
    if as_json:
        rates = {name: throttle.rate for name, throttle in own.items()}
        say_json({"throttle": controls.throttle, "requests": rates})
        return Exit.DONE
    say(throttle_line(controls.throttle))
    for name, throttle in own.items():
        say(f"request {name}: {throttle}")
    return Exit.DONE
