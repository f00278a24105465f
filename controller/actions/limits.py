"""Change the limits of all work, of a broker or of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from controller.actions.named_requests import check_open
from controller.core.model import BrokerId, RequestId
from controller.core.pacing import controls
from controller.errors import InvalidInputError
from controller.zk.operator_client import OperatorClient

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
    "under_min_isr": "under-min-isr",
    "window": "window",
    "priority": "priority",
    "throttle": "throttle",
}
"""The name of the option of each limit, by its field."""

AnyLimits = controls.Limits | controls.BrokerLimits | controls.RequestLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChanges:
    """Changes of the limits of all work, of one broker or of one request."""

    values: Mapping[str, object] = field(default_factory=dict)
    """New values by the name of the option, without dashes."""
    unset: Sequence[str] = ()
    broker: BrokerId | None = None
    request: RequestId | None = None

    def __bool__(self) -> bool:
        return bool(self.values or self.unset)

    def changed_limits(self, found: controls.Limits) -> controls.Limits:
        """
        Return the changed limits.

        Raises:
            InvalidInputError: a broker or request has no such limit, or both are named.

        """
        if self.broker is not None and self.request is not None:
            raise InvalidInputError("name a broker or a request, not both")
        if self.broker is not None:
            own = found.brokers.get(self.broker, controls.BrokerLimits())
            changed = replace(own, **self._changed_values(own, "one broker"))
            brokers = {**found.brokers, self.broker: changed}
            return replace(found, brokers=_not_empty(brokers, controls.BrokerLimits()))
        if self.request is not None:
            requested = found.requests.get(self.request, controls.RequestLimits())
            wanted = replace(requested, **self._changed_values(requested, "one request"))
            requests = {**found.requests, self.request: wanted}
            return replace(found, requests=_not_empty(requests, controls.RequestLimits()))
        return replace(found, **self._changed_values(found, "all"))

    def _changed_values(self, found: AnyLimits, whose: str) -> dict[str, Any]:
        own = {NAMES[f.name]: f.name for f in fields(found) if f.name in NAMES}
        wanted = {**dict.fromkeys(self.unset), **self.values}
        for name in wanted:
            if name not in own:
                raise InvalidInputError(
                    f"{name} is not a limit of {whose}: those are {', '.join(own)}"
                )
        return {own[name]: value for name, value in wanted.items()}


def _not_empty(found: Mapping[Any, Any], empty: object) -> dict[Any, Any]:
    return {name: value for name, value in found.items() if value != empty}


def change_limits(
    operator: OperatorClient, changes: LimitChanges, *, dry_run: bool = False
) -> controls.Limits:
    """
    Change limits; return all that are set.

    Raises:
        InvalidInputError: there is no such limit or its value is not valid, or the request has
            ended or is not known.
        ReassignmentConflictError: the limits are unreadable, or others change them all the time.

    """
    if changes.request is not None and changes.values:
        check_open(operator, [changes.request])
    return operator.writes.edit_limits(changes.changed_limits, dry_run=dry_run)
