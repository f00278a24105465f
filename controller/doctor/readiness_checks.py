"""Checks of what a daemon still has to end, so that nothing of it is left in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.core.model import BrokerId, count_text, ids
from controller.doctor.findings import NO_DAEMON, Finding, info, keys_text, restart_text, warning
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import CONTROLLER, DRAINS, LEADER, LEGACY_PLAN, history_path

NAMES_MAX: Final = 10
NOTHING: Final = "nothing: the leading daemon does it"


def open_submissions(snapshot: Snapshot) -> Iterator[Finding]:
    """Find what was submitted and is neither accepted nor refused, a cancellation, and drains."""
    drains = (DRAINS,) if snapshot.znodes.drained else ()
    for path in (*snapshot.znodes.submitted, *drains):
        yield warning("not_accepted", path, "it is not carried out or refused yet", NOTHING)
    plan = snapshot.znodes.legacy
    if plan is not None:
        listed = f"it exists and lists {count_text(len(plan.entries), 'partition')}"
        yield warning(
            "not_accepted", LEGACY_PLAN, listed, "wait for its end; a Kafka controller may be at it"
        )


def open_requests(snapshot: Snapshot) -> Iterator[Finding]:
    """Find accepted requests without an outcome."""
    for request in snapshot.znodes.open_requests:
        yield warning("open_request", history_path(request), "it has no outcome yet", NOTHING)


def evacuated_brokers(snapshot: Snapshot) -> Iterator[Finding]:
    """Find brokers whose leaderships are to return: the way back is in ZooKeeper."""
    for broker, evidence in _evacuated(snapshot):
        advice = (
            f"run `reassigner leaders --return {broker}` before the quiesce, or keep the present "
            f"order with `reassigner leaders --forget {broker}`"
        )
        yield warning("broker_evacuated", f"broker {broker}", evidence, advice)


def evacuations(snapshot: Snapshot) -> Iterator[Finding]:
    """Find the same, where nothing has to end, with whether the broker can be restarted."""
    for broker, evidence in _evacuated(snapshot):
        advice = f"run `reassigner leaders --return {broker}` after the maintenance"
        about = snapshot.znodes.evacuated[broker]
        verdict = "" if about.returning else f"; {_restart_text(snapshot, broker)}"
        yield info("broker_evacuated", f"broker {broker}", f"{evidence}{verdict}", advice)


def _restart_text(snapshot: Snapshot, broker: BrokerId) -> str:
    """Say whether a broker can be restarted, by the partitions that it leads or has in sync."""
    znodes = snapshot.znodes
    is_live, leads, lacking = broker in znodes.brokers, 0, list[str]()
    for partition, assignment in znodes.living():
        state = znodes.states.get(partition)
        if state is None:
            continue
        leads += is_live and state.leader == broker
        if broker in state.isr and not set(assignment.replicas) <= set(state.isr):
            lacking.append(str(partition))
    more = f" and {len(lacking) - NAMES_MAX} more" if len(lacking) > NAMES_MAX else ""
    names = ", ".join(lacking[:NAMES_MAX]) + more
    return restart_text(broker, leads=leads, is_live=is_live, lacking=names)


def _evacuated(snapshot: Snapshot) -> Iterator[tuple[BrokerId, str]]:
    for broker, about in sorted(snapshot.znodes.evacuated.items()):
        by = f" by {about.by}" if about.by else ""
        reason = f": {about.reason}" if about.reason else ""
        yield broker, f"its leaderships are elsewhere until they are returned{by}{reason}"


def reassignments(snapshot: Snapshot) -> Iterator[Finding]:
    """Find recorded reassignments."""
    for partition, spec in sorted(snapshot.znodes.specs.items()):
        assignment = snapshot.znodes.assignment(partition)
        way = "rolls back" if spec.rolls_back else "is to be reassigned"
        now = "" if assignment is None else f" from {ids(assignment.replicas)}"
        yield warning(
            "reassignment",
            str(partition),
            f"{way}{now} to {ids(spec.target)} by {spec.request}",
            "wait for its end, or roll it back: reassigner quiesce --cancel; `reassigner explain` "
            "shows what it waits for",
        )


def applied_throttles(snapshot: Snapshot) -> Iterator[Finding]:
    """Find throttles that a daemon set."""
    for entity, applied in sorted(snapshot.znodes.applied_throttles.items()):
        yield warning("throttle", entity, f"a daemon set {keys_text(applied)}", NOTHING)


def held_role(snapshot: Snapshot) -> Iterator[Finding]:
    """Find the controller role in the hands of a daemon."""
    guards = snapshot.znodes.guards
    if guards is not None and guards.controller_broker == snapshot.controller_id:
        yield warning("role_held", CONTROLLER, "a daemon is the controller", NOTHING)


def missing_daemon(snapshot: Snapshot) -> Iterator[Finding]:
    """Find that no daemon leads although something is left that only a daemon ends."""
    left = (open_submissions, open_requests, reassignments, applied_throttles)
    is_at_rest = not snapshot.znodes.orphans and not any(
        next(check(snapshot), None) is not None for check in left
    )
    if not snapshot.znodes.daemons and not is_at_rest:
        what = "no daemon leads: nobody ends what is left"
        yield warning("nobody_leads", LEADER, what, NO_DAEMON)
