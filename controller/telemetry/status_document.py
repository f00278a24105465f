"""
The status document of ``/status``: a pure function of the view and two clocks.

Runs on the loop's thread. The document holds nothing of the view and does not change, so any
thread may read it. Long lists are cut; counts are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from controller.core.core_settings import EngineName
from controller.core.deletions import pending_deletions
from controller.core.disks.disk_space import reserved_in, unguarded_brokers
from controller.core.model import BlockedBy, RequestId
from controller.core.pacing import limits_in_force
from controller.core.pacing.controls import UNTHROTTLED
from controller.core.pacing.drained_replicas import drained_brokers, replicas_held, replicas_left
from controller.core.pacing.operator_holds import request_hold
from controller.core.reason_kinds import BLOCKING, LASTING
from controller.core.requests.drain_targets import hold_of
from controller.core.requests.model import Request
from controller.core.requests.outcomes import Undone, outcome_state
from controller.core.role.eligibility import refusals
from controller.core.view import ClusterView
from controller.doctor.findings import CLIENTS_WAIT, orphan_advice
from controller.telemetry.cluster_counts import (
    AssignedReplicas,
    Example,
    Incremental,
    RequestWait,
    WorkCounts,
    in_slices,
    undrained_count,
    unjudged_entries,
)
from controller.telemetry.json_values import Clocks, iso_time
from controller.telemetry.partition_documents import PartitionDocuments, governed_rate
from controller.telemetry.progress import IDLE, ProgressTracker
from controller.units import MS_PER_S

IN_FLIGHT_MAX: Final = 1000
REQUESTS_MAX: Final = 200
REFUSALS_MAX: Final = 100
DELETIONS_MAX: Final = 100
NOT_COUNTED: Final = AssignedReplicas()
ORPHANS_MAX: Final = 100


def status_of(  # noqa: PLR0913 - what it is made of
    view: ClusterView,
    clocks: Clocks,
    work: WorkCounts,
    *,
    engine: str,
    progress: ProgressTracker,
    documents: PartitionDocuments,
    assigned: AssignedReplicas = NOT_COUNTED,
) -> Incremental[dict[str, Any]]:
    """
    Return the status document, with the ``work`` that was counted in this view.

    ``engine`` is that of the settings, until the view has the one that was chosen. ``assigned`` was
    counted some time ago.
    """
    role = view.role
    # Without those that ended since they were counted.
    named = []
    for partitions in in_slices(work.in_flight[:IN_FLIGHT_MAX]):
        found = (p for p in partitions if p in view.reassignments.by_partition)
        named += [documents.of(p) for p in found]
        yield
    return {
        "role": "leader" if role.leading else "standby",
        "engine": engine if role.engine is None else role.engine.value,
        "engine_because": role.engine_why,
        "refused_because": list(refusals(view)),
        "tenure": _tenure(view, clocks),
        "clients_wait": _clients_wait(view),
        "at": iso_time(clocks.wall),
        "brokers": sorted(view.cluster.brokers),
        "dead_brokers": assigned.dead(view),
        "broker_loads": _loads_of(view, progress, assigned),
        "disks": _disks_of(view),
        "routes": progress.latest.routes,
        "total": progress.latest.total,
        "requests": _requests(view, clocks, work, progress),
        "undone": {
            name: {"by": undone.by, "entries": undone.entries, "open": undone.is_open}
            for name, undone in view.requests.undone.items()
        },
        "partitions": {
            "in_flight": len(work.in_flight),
            "copying": work.copying,
            "between_steps": work.between_steps.total(),
            "waiting": work.waiting.total(),
            "undecided": work.undecided,
        },
        "controls": controls_of(view),
        "drains": _drains_of(view, clocks),
        "evacuations": _evacuations_of(view),
        "require_approval": view.options.require_approval,
        "limits": limits_of(view),
        "governor": _governor_of(view, clocks),
        "topic_deletions": {
            topic: pending_deletions.progress_of(view, topic)
            for topic in sorted(view.deletions_session.markers or ())[:DELETIONS_MAX]
        },
        "orphans": _orphans_of(view),
        "orphans_total": len(view.reassignments.orphans),
        "blocked": dict(sorted(work.blocked.items())),
        "blocked_in_flight": dict(sorted((+work.blocked_in_flight).items())),
        "stalled": dict(sorted(Counter(work.stalled.values()).items())),
        "waiting": [
            _example(by, example, clocks)
            for by, examples in sorted(work.examples.items())
            for example in examples
            if not example.is_begun
        ],
        "in_flight": named,
    }


def _example(by: str, example: Example, clocks: Clocks) -> dict[str, Any]:
    since = None if example.since is None else clocks.at(example.since)
    return {
        **example.partition._asdict(),
        "request": example.request,
        "blocked_on": {"by": by, "detail": example.detail, "since": since},
    }


def _loads_of(
    view: ClusterView, progress: ProgressTracker, assigned: AssignedReplicas
) -> list[dict[str, Any]]:
    """Return the work of each broker, with its rack and what it has; also of dead ones."""
    loads = {load["broker"]: load for load in progress.latest.brokers}
    # A dead broker that is drained has no replica any more, and is of interest all the same.
    for broker in (*assigned.dead(view), *drained_brokers(view)):
        loads.setdefault(broker, {"broker": broker, **IDLE})
    leaders = assigned.leaders
    return [
        {
            **load,
            "rack": view.cluster.brokers[broker].rack if broker in view.cluster.brokers else None,
            "replicas": assigned.replicas.get(broker, 0) if assigned.replicas else None,
            "leaders": None if leaders is None else leaders.get(broker, 0),
        }
        for broker, load in sorted(loads.items())
    ]


def _tenure(view: ClusterView, clocks: Clocks) -> dict[str, Any]:
    if view.tenure.held is None or not view.is_controller:
        return {"held": False, "epoch": None, "since": None}
    return {
        "held": True,
        "epoch": view.tenure.held.epoch,
        "since": clocks.at(view.tenure.held.since),
    }


def _clients_wait(view: ClusterView) -> str | None:
    """Return what clients wait for during a tenure; None if they wait for nothing."""
    if view.role.engine is not EngineName.NATIVE or view.options.serves_clients:
        return None
    return CLIENTS_WAIT


# --- requests ----------------------------------------------------------------------------------


def _requests(
    view: ClusterView, clocks: Clocks, work: WorkCounts, progress: ProgressTracker
) -> list[dict[str, Any]]:
    unjudged, undone = unjudged_entries(view), view.requests.undone
    return [
        {
            **_request(view, name, clocks, work, unjudged[name], undone.get(name)),
            **progress.latest.requests[name],
        }
        for name in _newest(view.requests.by_id.items())
        if name in progress.latest.requests
    ]


def _drain_text(view: ClusterView, request: RequestId) -> str | None:
    """Name the brokers of a drain that has no reason; None for another request."""
    drains = view.pacing_process.controls.drains
    return drains.text if drains.brokers and request == drains.request else None


def _newest(requests: Iterable[tuple[RequestId, Request]]) -> list[RequestId]:
    """Return the newest requests first; if they are too many, prefer the open ones."""
    kept = sorted(requests, key=lambda r: (bool(r[1].open), r[1].since), reverse=True)
    return [n for n, _ in sorted(kept[:REQUESTS_MAX], key=lambda r: r[1].since, reverse=True)]


def _request(  # noqa: PLR0913, PLR0917 - what is known of it
    view: ClusterView,
    name: RequestId,
    clocks: Clocks,
    work: WorkCounts,
    unjudged: int,
    undone: Undone | None,
) -> dict[str, Any]:
    request = view.requests.by_id[name]
    # The counts may be older than the view: open entries are those of the view.
    in_flight, without_target = min(work.moving[name], request.open), undrained_count(view, name)
    waiting = request.open - in_flight + unjudged + without_target
    options = request.options
    waits = list(_waits(view, name, clocks, work)) if in_flight or waiting else []
    counts = request.counts(0 if undone is None else undone.entries, unjudged)
    created_ms = min((p.created_ms for p in request.parts.values() if p.created_ms), default=0)
    created = datetime.fromtimestamp(created_ms / MS_PER_S, UTC) if created_ms else None
    return {
        "id": name,
        "kind": request.kind,
        "route": request.route.value,
        "state": _state(request, counts, in_flight, waiting, waits, undone),
        "reason": _reason(request, waits),
        "waits": waits,
        "undone_by": None if undone is None else undone.by,
        "being_undone": undone is not None and undone.is_open,
        "cancels": request.cancels,
        "undoes": request.undoes,
        "asked_for": options.reason or _drain_text(view, name),
        "requested_by": options.requested_by or None,
        "approved": options.approved or None,
        "approved_by": options.approved_by or None,
        "priority": limits_in_force.priority_of(view, name),
        "throttle": limits_in_force.throttle_of(view, name),
        "since": clocks.at(request.since) if not created else iso_time(created),
        "inherited": request.is_inherited and not created,
        "partitions": {
            **counts,
            "total": request.total + without_target,
            "in_flight": in_flight,
            "between_steps": min(work.between_steps[name], in_flight),
            "waiting": waiting,
            "rolling_back": min(work.rolling_back[name], request.open),
        },
        "refusals": [
            {"entry": r.entry, "reason": r.reason.value, "detail": r.detail}
            for r in request.refused[:REFUSALS_MAX]
        ],
    }


def _waits(
    view: ClusterView, name: RequestId, clocks: Clocks, work: WorkCounts
) -> Iterator[dict[str, Any]]:
    """Yield what partitions of an open request wait for, the worst first."""
    found = dict(work.by_request.get(name, {}))
    hold = request_hold(view, name, clocks.now)
    if hold is not None:
        # Its steps in flight end, and no other begins.
        found.setdefault(hold.by, RequestWait(0, hold.detail))

    def badness(by: BlockedBy) -> tuple[bool, bool, int]:
        return by not in BLOCKING, by not in LASTING, -found[by].partitions

    for by in sorted(found, key=badness):
        yield {"by": by.value, "partitions": found[by].partitions, "detail": found[by].detail}


def _reason(request: Request, waits: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why the request is blocked or held, or why one of its entries was refused."""
    lasting = (wait["detail"] for wait in waits if BlockedBy(wait["by"]) in LASTING)
    refused = (refusal.detail for refusal in request.refused)
    return next(chain(lasting, refused), None)


def _state(  # noqa: PLR0913, PLR0917 - what it follows from
    request: Request,
    counts: Mapping[str, int],
    in_flight: int,
    waiting: int,
    waits: Sequence[Mapping[str, Any]],
    undone: Undone | None,
) -> str:
    if in_flight or waiting:
        worst = BlockedBy(waits[0]["by"]) if waits else None
        if worst in BLOCKING:
            return "blocked"
        if worst in LASTING:
            return "held"
        return "in_flight" if in_flight else "waiting"
    state = outcome_state(counts, undone)
    stands = state == "done" and request.kind == "drain" and not request.has_ended
    return "standing" if stands else state


# --- controls --------------------------------------------------------------------------------


def controls_of(view: ClusterView) -> dict[str, Any]:
    """Return the pauses and the quiesce, the kill switch and the live throttle."""
    pauses = view.pacing_process.controls.pauses
    everything, quiesce = pauses.everything, pauses.quiesce
    return {
        "paused": {
            "everything": None if everything is None else asdict(everything),
            "requests": {name: asdict(pause) for name, pause in pauses.requests.items()},
            "brokers": {str(broker): asdict(p) for broker, p in pauses.brokers.items()},
            "quiesce": None if quiesce is None else asdict(quiesce),
        },
        "disabled": bool(view.requests_session.kill_switch),
        "throttle": view.pacing_process.controls.throttle,
        "digest": view.pacing_process.controls.digest,
    }


def _drains_of(view: ClusterView, clocks: Clocks) -> list[dict[str, Any]]:
    """
    Return the drained brokers with the number of replicas that are left on each.

    ``reassignments`` are those among them that it does not have, and of which a reassignment leads
    to it or off it.
    """
    drains = view.pacing_process.controls.drains
    left, held = replicas_left(view), replicas_held(view)
    hold = hold_of(view, clocks.now) if drains.brokers else None
    return [
        {
            "broker": broker,
            **asdict(drain),
            "request": drains.request,
            "live": broker in view.cluster.brokers,
            "replicas": left[broker],
            "reassignments": left[broker] - held[broker],
            "hold": None if hold is None else hold.detail,
        }
        for broker, drain in sorted(drains.brokers.items())
    ]


def _evacuations_of(view: ClusterView) -> list[dict[str, Any]]:
    """Return the brokers that are evacuated from leaderships."""
    found = view.pacing_process.controls.evacuated or {}
    return [
        {"broker": broker, **asdict(about), "live": broker in view.cluster.brokers, "verdict": None}
        for broker, about in sorted(found.items())
    ]


def _governor_of(view: ClusterView, clocks: Clocks) -> dict[str, Any] | None:
    """Return the rates of the brokers under a throttle ``auto``; None where there is none."""
    rates, process = view.pacing_leadership.rates, view.pacing_process
    if not rates:
        return None
    return {
        "objective_s": view.options.latency_objective_s,
        "in_flight_max": view.pacing.pace,
        "unmeasured": {kind.value: why for kind, why in process.unmeasured.items() if why},
        "brokers": {str(broker): governed_rate(view, broker, clocks) for broker in sorted(rates)},
    }


def limits_of(view: ClusterView) -> dict[str, Any]:
    """Return the limits in effect, live or from the settings; None: no limit."""
    live, options = view.pacing_process.controls.limits, view.options
    throttle = limits_in_force.common_throttle(view)
    return {
        "max_partitions_in_flight": limits_in_force.in_flight_limit(view),
        "max_incoming_per_broker": limits_in_force.incoming_limit(view),
        "max_outgoing_per_broker": limits_in_force.outgoing_limit(view),
        "max_bytes_in_flight": limits_in_force.bytes_in_flight_max(view),
        "throttle": None if throttle == UNTHROTTLED else throttle,
        "configured_throttle": options.throttle,
        "throttle_min": options.throttle_min,
        "throttle_max": options.throttle_max,
        "latency_objective_s": options.latency_objective_s,
        "max_leader_moves_per_broker_per_second": limits_in_force.leader_moves_max(view),
        "step_size": live.step_size or options.step_size or "all",
        "order": str(limits_in_force.order_of(view)),
        "under_min_isr": str(limits_in_force.under_min_isr(view)),
        "window": None if live.window is None else str(live.window),
    }


def _orphans_of(view: ClusterView) -> list[dict[str, Any]]:
    found = []
    for key, orphan in sorted(view.reassignments.orphans.items())[:ORPHANS_MAX]:
        log_dir = view.reassignments_tenure.orphan_logs.get(key)
        path = None if log_dir is None else f"{log_dir or 'LOG_DIR'}/{orphan.partition}"
        is_live = orphan.broker in view.cluster.brokers
        found.append(
            {
                **orphan.partition._asdict(),
                "broker": orphan.broker,
                "reason": orphan.reason,
                "directory": path,
                "what_to_do": orphan_advice(view.role.engine, is_live=is_live, path=path),
            }
        )
    return found


def _disks_of(view: ClusterView) -> dict[str, Any]:
    """Return the reserve, the log directories of each broker, and the brokers without a guard."""
    min_free = view.options.min_free
    return {
        "min_free": None if min_free is None else str(min_free),
        "min_free_bytes": 0 if min_free is None else min_free.bytes,
        "min_free_share": 0.0 if min_free is None else min_free.share,
        "unguarded": {str(broker): why for broker, why in unguarded_brokers(view).items()},
        "log_dirs": [
            {
                "broker": broker,
                "path": directory.path,
                "failed": directory.is_failed,
                "total_bytes": directory.total,
                "usable_bytes": directory.usable,
                "estimated": directory.is_estimate,
                "reserved_bytes": reserved_in(disk, directory),
            }
            for broker, disk in sorted(view.disks.brokers.items())
            for directory in (() if disk.report is None else disk.report.dirs)
            if min_free is not None
        ],
    }
