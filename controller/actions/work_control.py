"""Cancel, pause, resume and limit the work in progress, of all or of named requests and brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, RequestId, request_text
from controller.core.pacing import controls
from controller.core.pacing.controls import Pause, Pauses, Quiesce
from controller.core.requests.submissions import (
    Cancellation,
    CancelScope,
    Throttle,
    legacy_request_id,
    queue_request_id,
)
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews.cancel_preview import CancelPreview, cancel_preview
from controller.previews.entries import check_brokers
from controller.units import ids, names_text
from controller.zk.request_writes import SELECTION_S
from controller.znodes.paths import valid_request

if TYPE_CHECKING:
    from controller.doctor.findings import Finding
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
    "tolerate_lagging": "tolerate-lagging",
}
"""The name of the option of each limit, by its field."""

READY: Final = "Ready: nothing of the reassigner is left in the cluster."

AnyLimits = controls.Limits | controls.BrokerLimits | controls.RequestLimits


def request_ids(texts: Iterable[str] | None) -> list[RequestId]:
    """Parse the ids of requests; raise ``InvalidInputError`` for a text that cannot be one."""
    found = list(texts or ())
    for text in found:
        if not valid_request(text):
            raise InvalidInputError(f"{text!r} is not the id of a request")
    return [RequestId(text) for text in found]


def _check_open(operator: OperatorClient, requests: Iterable[RequestId]) -> None:
    ended, unknown = _not_open(operator, requests)
    if ended:
        raise InvalidInputError(f"{request_text(*sorted(ended))} has ended")
    if unknown:
        raise InvalidInputError(
            f"{request_text(*sorted(unknown))} is not known; see `reassigner list`"
        )


def limits_in_force(operator: OperatorClient, found: controls.Limits) -> controls.Limits:
    """Return limits without those of requests that have ended."""
    ended, unknown = _not_open(operator, found.requests)
    gone = ended | unknown
    left = {name: own for name, own in found.requests.items() if name not in gone}
    return replace(found, requests=left) if gone else found


def _not_open(
    operator: OperatorClient, requests: Iterable[RequestId]
) -> tuple[set[RequestId], set[RequestId]]:
    """Return the requests that have ended, and those that are not known."""
    missing = set(requests)
    if not missing:
        return set(), set()
    known = operator.outcomes.ended_requests()
    ended = {name for name in missing if known.get(name)}
    missing -= known.keys()
    missing -= {s.request for s in operator.requests.open_submissions()}
    queue, plan = operator.requests.queue(), operator.requests.plan()
    missing -= set() if queue is None else {queue_request_id(queue.czxid)}
    missing -= set() if plan is None else {legacy_request_id(plan.czxid)}
    missing -= {operator.requests.controls().drains.request}
    return ended, missing


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A cancellation that was written."""

    written: Cancellation
    preview: CancelPreview
    """The first partitions that it selects."""


def submit_cancellation(
    operator: OperatorClient, wanted: Cancellation, *, wait_s: float = SELECTION_S
) -> Cancelled | str:
    """
    Write a cancellation; return why not if it selects nothing.

    Waits ``wait_s`` until the daemon has selected the partitions of an earlier one.

    Raises:
        InvalidInputError: a request is not known, or the cancellation is not valid.
        ReassignmentConflictError: an earlier one has not selected its partitions yet.

    """
    preview = cancel_preview(operator, wanted, is_whole=False)
    if not preview:
        return nothing_text(operator, wanted)
    if wanted.throttle is not None:
        _throttle_open(operator, wanted.requests, wanted.throttle)
    return Cancelled(operator.writes.cancel(wanted, wait_s=wait_s), preview)


def _throttle_open(
    operator: OperatorClient, requests: frozenset[RequestId], throttle: Throttle
) -> None:
    """
    Change the throttle of requests that are open: what is in flight rolls back as a part of them.

    It comes before the cancellation: where that fails, they continue with this throttle.
    """
    ended, unknown = _not_open(operator, requests)
    left = requests - ended - unknown
    if not left:
        return

    def changed(found: controls.Limits) -> controls.Limits:
        own = {r: found.requests.get(r, controls.RequestLimits()) for r in sorted(left)}
        throttled = {r: replace(limits, throttle=throttle) for r, limits in own.items()}
        return replace(found, requests={**found.requests, **throttled})

    operator.writes.edit_limits(changed)


def nothing_text(operator: OperatorClient, wanted: Cancellation) -> str:
    """
    Return the text about a cancellation that selects nothing.

    Raises:
        InvalidInputError: it names a topic or a partition that does not exist.

    """
    topics = operator.partitions.topics(sorted(wanted.topics))
    missing = [name for name, topic in topics.items() if topic is None]
    if missing:
        raise InvalidInputError(f"there is no topic {names_text(missing)}")
    partitions = operator.partitions.assignments(sorted(wanted.partitions))
    absent = [partition for partition, found in partitions.items() if found is None]
    if absent:
        raise InvalidInputError(f"there is no partition {names_text(absent)}")
    running = operator.requests.cancellation()
    more = "" if running is None else f"; {running.request} is in progress already"
    what = "undo" if wanted.scope is CancelScope.ALL else "cancel"
    return f"There is nothing to {what}{more}."


def pause(
    operator: OperatorClient,
    new: Pause,
    requests: Iterable[RequestId] = (),
    brokers: Iterable[BrokerId] = (),
    *,
    dry_run: bool = False,
) -> Pauses:
    """
    Pause requests and brokers, or everything; return all pauses.

    Raises:
        InvalidInputError: a request has ended, it or a broker is not known, or the pause is not
            valid.
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    brokers = frozenset(brokers)
    _check_open(operator, requests)
    check_brokers(operator, brokers)
    return operator.writes.edit_pauses(
        lambda found: found.adding(new, requests, brokers), dry_run=dry_run
    )


def resume(
    operator: OperatorClient,
    requests: Iterable[RequestId] = (),
    brokers: Iterable[BrokerId] = (),
    *,
    everything: bool = False,
    dry_run: bool = False,
) -> Pauses:
    """
    Remove the pauses of requests and brokers, or the general one and the quiesce, or all.

    Return those that stay. A pause is removed even if its request or broker is gone.

    Raises:
        InvalidInputError: a request or broker is not paused by itself.
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    requests, brokers = frozenset(requests), frozenset(brokers)
    if everything and (requests or brokers):
        raise InvalidInputError("--all is of all requests and brokers: name none")

    def changed(found: Pauses) -> Pauses:
        if everything:
            return Pauses()
        _check_paused(operator, found, requests, brokers)
        return found.removing(requests, brokers)

    return operator.writes.edit_pauses(changed, dry_run=dry_run)


def _check_paused(
    operator: OperatorClient,
    found: Pauses,
    requests: frozenset[RequestId],
    brokers: frozenset[BrokerId],
) -> None:
    """Check that requests and brokers are paused; of one that is not, it may be mistyped."""
    free_requests, free_brokers = requests - found.requests.keys(), brokers - found.brokers.keys()
    _check_open(operator, free_requests)
    check_brokers(operator, free_brokers)
    names = [request_text(*sorted(free_requests))] if free_requests else []
    names += [f"broker {ids(sorted(free_brokers))}"] if free_brokers else []
    if not names:
        return
    why = f"{' and '.join(names)} is not paused"
    if found.everything is not None or found.quiesce is not None:
        why += " by itself: everything is, which `reassigner resume` without a name ends"
    raise InvalidInputError(why)


def quiesce(operator: OperatorClient, new: Quiesce, *, dry_run: bool = False) -> Quiesce:
    """
    End all work until a resume; return the quiesce that is in force.

    Raises:
        InvalidInputError: the quiesce is not valid.
        ReassignmentConflictError: the pauses are unreadable, or others change them all the time.

    """
    found = operator.writes.edit_pauses(lambda p: p.quiescing(new), dry_run=dry_run)
    return found.quiesce or new


def left_of_work(operator: OperatorClient, controller_id: int) -> list[Finding]:
    """Return what is left of the reassigner's work in the cluster, and what hides it."""
    from controller.doctor.checks import READINESS, examine  # noqa: PLC0415 - only a quiesce needs it
    from controller.doctor.snapshot import Snapshot  # noqa: PLC0415 - as above

    with operator.noting_hidden() as hidden:
        work = operator.survey.work()
    snapshot = Snapshot(
        znodes=replace(work, hidden=frozenset(hidden)),
        topics_before=work.topics,
        controller_id=controller_id,
    )
    return examine(snapshot, checks=READINESS)


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
        """Return the changed limits; a broker or a request does not have all of them."""
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


SHOWN_S: Final = 3.0
"""The longest wait until the daemon shows what an operator changed."""
SHOWN_LOOK_S: Final = 0.1


def await_shown(
    operator: OperatorClient,
    status: Callable[[], Mapping[str, Any] | None],
    request: RequestId | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """
    Wait until the status has what operators set, and the request; return False if not in time.

    Then whoever looks next sees what was changed. A daemon that does not answer is not awaited.
    """
    until = now() + SHOWN_S
    digest, is_disabled = operator.requests.controls().digest, operator.requests.is_disabled()

    def is_shown(found: Mapping[str, Any]) -> bool:
        known = found.get("controls") or {}
        return (
            known.get("digest", digest) == digest
            and known.get("disabled", is_disabled) == is_disabled
            and (request is None or any(r["id"] == request for r in found.get("requests", ())))
        )

    while True:
        found = status()
        if found is None or is_shown(found):
            return True
        if now() >= until:
            return False
        sleep(SHOWN_LOOK_S)


def check_tolerance(status: Mapping[str, Any] | None) -> None:
    """
    Check by the status of the leading daemon that it can tolerate lagging replicas.

    Raises:
        ReassignmentConflictError: the cluster's controller carries out the steps.

    """
    if status is not None and status.get("engine") == EngineName.DELEGATED:
        raise ReassignmentConflictError(
            "--tolerate-lagging needs the native engine, and the delegated one is in use: the "
            "cluster's controller ends no step before every replica of its target is in sync "
            "(KAFKA-19975)"
        )


def check_limited(operator: OperatorClient, changes: LimitChanges) -> None:
    """
    Check that the request or broker of changes exists; limits of one that is gone can be removed.

    Raises:
        InvalidInputError: the request has ended, or it or the broker is not known.

    """
    removes_alone = changes.unset and not changes.values
    set_now = operator.requests.controls().limits if removes_alone else controls.Limits()
    if changes.request is not None and changes.request not in set_now.requests:
        _check_open(operator, [changes.request])
    if changes.broker is not None and changes.broker not in set_now.brokers:
        check_brokers(operator, [changes.broker])


def change_limits(
    operator: OperatorClient, changes: LimitChanges, *, dry_run: bool = False
) -> controls.Limits:
    """
    Change limits, and remove those of requests that have ended; return all that are set.

    Raises:
        InvalidInputError: there is no such limit or its value is not valid, the request has ended,
            or it or the broker is not known.
        ReassignmentConflictError: the limits are unreadable, or others change them all the time.

    """
    check_limited(operator, changes)

    def changed(found: controls.Limits) -> controls.Limits:
        return changes.changed_limits(limits_in_force(operator, found))

    return operator.writes.edit_limits(changed, dry_run=dry_run)
