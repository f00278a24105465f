"""
Forecasts of requests that were just accepted, which reports compare with what became of them.

A forecast is made once, as soon as the sizes of a request's partitions are known. It is computed on
a thread of its own: that of a large plan takes longer than the loop may be kept waiting.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Final

from controller.core.model import Instant, RequestId, Route, TopicPartition
from controller.core.reassignments import Reassignment
from controller.core.scheduling import limits
from controller.core.view import ClusterView
from controller.planning.copy_schedule import Limits, Move
from controller.planning.forecast import PLAYED_MAX, Plan, forecast
from controller.telemetry.cluster_counts import unjudged_entries
from controller.telemetry.copy_rates import CopyRates
from controller.telemetry.incremental import Incremental, visit_all

YOUNG_S: Final = 30.0
"""An older request has made progress; a forecast of it would be of its rest."""

Document = dict[str, Any]
Run = Callable[[Callable[[], None]], None]
"""Carries out a computation, now or later."""


class _Worker:
    """Carries out computations on one thread, which starts with the first of them."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, compute: Callable[[], None]) -> None:
        self._queue.put(compute)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="forecasts", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            self._queue.get()()


class RequestForecasts:
    """The forecasts of open requests; written by the loop and by a thread that it starts."""

    def __init__(self, rates: CopyRates, run: Run | None = None) -> None:
        """
        Start without forecasts.

        Args:
            rates: The rates of past copies.
            run: Computes forecasts; by default on a thread.

        """
        self._rates = rates
        self._run: Run = run or _Worker()
        self._found: dict[RequestId, Document | None] = {}
        """None: in the making, or without a time."""

    def of(self, request: RequestId) -> Document | None:
        """Return the forecast of a request."""
        return self._found.get(request)

    def consider(self, view: ClusterView, now: Instant) -> Incremental[None]:
        """Start the forecasts of requests that are accepted and measured."""
        work = view.work
        for name in [n for n in list(self._found) if n not in work.requests]:
            del self._found[name]
        unjudged = unjudged_entries(view)
        wanted: dict[RequestId, list[Move] | None] = {
            name: []
            for name, request in work.requests.items()
            if name not in self._found
            and request.open
            and request.route is not Route.FOREIGN
            and now - request.since <= YOUNG_S
            and not unjudged[name]
        }
        if not wanted or not view.role.leading:
            return

        def add(partition: TopicPartition, reassignment: Reassignment) -> None:
            name = reassignment.spec.request
            moves = wanted.get(name)
            if moves is None:
                return
            named, before = reassignment.spec.log_dirs, reassignment.spec.original or ()
            # Whether a present replica changes its directory is not known here.
            if partition in work.sizes and not any(b in before for b, _ in named):
                moves.append(_move(view, partition, reassignment))
            else:
                wanted[name] = None

        yield from visit_all(work.reassignments, add)
        for name, moves in wanted.items():
            if moves:
                self._found[name] = None
                plan = _plan(view, name, moves, self._rates)
                self._run(lambda name=name, plan=plan: self._compute(name, plan))  # type: ignore[misc]

    def _compute(self, name: RequestId, plan: Plan) -> None:
        found = forecast(plan)
        time = found.time
        if time is None or name not in self._found:
            return
        # The loop may forget the request at any moment, and then forgets this as well.
        self._found[name] = {
            "low_s": round(time.low_s, 1),
            "high_s": None if time.high_s is None else round(time.high_s, 1),
            "basis": list(time.basis),
            "steps": found.steps,
            "bytes": found.bytes,
        }


def _move(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> Move:
    work, spec = view.work, reassignment.spec
    assignment, state = (
        view.session.known_assignment(partition),
        view.tenure.states.get(partition),
    )
    before = spec.original or (() if assignment is None else assignment.origin_replicas)
    before = before or spec.target
    return Move(
        partition=partition,
        before=before,
        target=spec.target,
        leader=before[0] if state is None or state.leader not in before else state.leader,
        size=work.sizes[partition],
        growth=work.growth.get(partition, 0.0),
        wanted=dict(spec.log_dirs),
    )


def _plan(view: ClusterView, name: RequestId, moves: list[Move], rates: CopyRates) -> Plan:
    spec = view.work.reassignments[moves[0].partition].spec
    most = limits.in_flight_max(view)
    return Plan(
        moves=moves,
        disks={}
        if len(moves) > PLAYED_MAX
        else {broker: disk.directories for broker, disk in view.tenure.disks.brokers.items()},
        live=frozenset(view.cluster.brokers),
        limits=Limits(
            step_size=limits.step_size_of(view, spec),
            partitions=min(most, limits.in_flight_max_of(view, name) or most),
            incoming=limits.incoming_limit(view),
            outgoing=limits.outgoing_limit(view),
            bytes=limits.bytes_in_flight_max(view),
            min_free=view.options.min_free,
        ),
        throttle=limits.throttle_of(view, name),
        measured=rates.rates(),
    )
