"""
What is left on drained brokers, and where a drain would move it.

Both are found with the daemon's own functions (``core.requests.drain_targets``), from what
ZooKeeper has; the status of the leading daemon adds what a reassignment waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controller.core import model
from controller.core.core_settings import Options
from controller.core.model import (
    START,
    Blocked,
    BlockedBy,
    BrokerId,
    Replicas,
    TopicPartition,
)
from controller.core.pacing import drained_replicas
from controller.core.pacing.controls import Drain, Drains
from controller.core.reason_kinds import PATIENT
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import Expanding, Pending
from controller.core.requests.drain_targets import targets, undrained
from controller.core.requests.model import Request
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import read_entries
from controller.previews.holds import by_reason, left_words
from controller.previews.plan_changes import PlanValidation
from controller.previews.plan_facts import DryRun, forecast_of
from controller.previews.proposal import sizes_of
from controller.units import names_text
from controller.zk.operator_client import OperatorClient

NO_STATUS: Final[Mapping[str, Any]] = {}
"""In place of a status, where no daemon leads."""
_REASONS: Final = frozenset(reason.value for reason in BlockedBy)


@dataclass(frozen=True, slots=True)
class DrainedBroker:
    """A drained broker, with what is left on it."""

    broker: BrokerId
    drain: Drain
    is_live: bool
    held: tuple[TopicPartition, ...] = ()
    """Partitions with a replica on it."""
    reassigning: tuple[TopicPartition, ...] = ()
    """Partitions without one, of which a reassignment leads to it, or off it."""
    waiting: tuple[TopicPartition, ...] = ()
    """Those that the daemon has not given a target yet."""
    pending: tuple[TopicPartition, ...] = ()
    """Those on it without a step in progress, and without a known reason."""
    blocked: Mapping[TopicPartition, Blocked] = field(default_factory=dict)
    """Those that it gives no target now, or of which the reassignment waits, and why."""

    @property
    def is_empty(self) -> bool:
        """Whether it can be shut down."""
        return not (self.held or self.reassigning)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing that is left can leave it."""
        without = {p for p, b in self.blocked.items() if b.by is BlockedBy.NO_TARGET}
        return not self.is_empty and without.issuperset((*self.held, *self.reassigning))

    @property
    def reassigned(self) -> tuple[TopicPartition, ...]:
        """Those that are being reassigned, and do not wait for anything."""
        others = {*self.waiting, *self.pending, *self.blocked}
        return tuple(p for p in (*self.held, *self.reassigning) if p not in others)

    def __str__(self) -> str:
        left = left_words(len(self.held), len(self.reassigning), is_live=self.is_live)
        if self.is_empty:
            return f"broker {self.broker} is {left}"
        parts = [f"{names_text(self.reassigned)} being reassigned"] if self.reassigned else []
        parts += [f"{names_text(self.waiting)} not accepted yet"] if self.waiting else []
        parts += [f"{names_text(self.pending)} waiting for a step"] if self.pending else []
        what = "; ".join((*parts, *self.reasons()))
        return f"broker {self.broker} has {left}: {what}"

    def reasons(self) -> Iterator[str]:
        """Name the partitions that wait, by reason."""
        for blocked, some in by_reason(self.blocked).items():
            by = blocked.by
            word = "held up" if by in PATIENT else "blocked"
            yield f"{names_text(some)} {word}: {blocked.detail} ({by})"

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "broker": self.broker,
            "reason": self.drain.reason,
            "by": self.drain.by,
            "approved_by": self.drain.approved_by,
            "since_ms": self.drain.since_ms,
            "live": self.is_live,
            "empty": self.is_empty,
            "replicas": len(self.held),
            "reassignments": len(self.reassigning),
            "being_reassigned": len(self.reassigned),
            "not_accepted": len(self.waiting),
            "pending": len(self.pending),
            "blocked": [
                {**p._asdict(), "by": blocked.by.value, "detail": blocked.detail}
                for p, blocked in sorted(self.blocked.items())
            ],
        }


class DrainedCluster:
    """The cluster as the daemon sees it, with drains that stand, or that would stand."""

    def __init__(
        self,
        operator: OperatorClient,
        unix_s: float,
        status: Mapping[str, Any] | None,
        drains: Drains | None = None,
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """
        Read the cluster.

        Args:
            operator: Reads ZooKeeper.
            unix_s: The time, for windows.
            status: That of the leading daemon, if one answers.
            drains: The drains in the place of those that stand.
            sizes: The bytes of partitions, as far as they are known.

        """
        self.status = status
        controls = operator.requests.controls()
        self.drains = controls.drains if drains is None else drains
        options = Options(require_approval=bool((status or NO_STATUS).get("require_approval")))
        self._view = view = ClusterView(options)
        view.pacing_process.controls = replace(controls, drains=self.drains)
        view.pacing_process.wall = (START, unix_s)
        view.disks_process.sizes = dict(sizes or {})
        view.requests_session.kill_switch = operator.requests.is_disabled()
        view.requests.by_id[self.drains.request] = _request_of(operator, self.drains)
        # Records before topics, as they end with a write of the topic znode.
        specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
        view.deletions_session.markers = operator.partitions.deletions()
        view.topics.by_name = {
            n: Topic.of(t) for n, t in operator.partitions.readable_topics().items()
        }
        view.topics.listed = frozenset(view.topics.by_name)
        view.cluster.brokers = operator.cluster.brokers()
        for partition, spec in specs.items():
            if isinstance(spec, model.ReassignmentSpec):
                found = view.topics.known_assignment(partition)
                is_begun = found is not None and found.is_reassigning
                phase = Expanding() if is_begun else Pending()
                running = Reassignment(spec=spec, since=START, phase=phase)
                view.reassignments.by_partition[partition] = running
        drained_replicas.judge_all(view)

    def brokers(self) -> Iterator[DrainedBroker]:
        """Yield the drained brokers with what is left on each."""
        why, waits = dict(undrained(self._view, START)), dict(self._waits())
        for broker, drain in sorted(self.drains.brokers.items()):
            left = sorted(p for p in self._view.pacing_session.on_drained if self._is_on(broker, p))
            held = tuple(p for p in left if broker in self._held(p))
            blocked = {p: b for p in left if (b := why.get(p, waits.get(p))) is not None}
            yield DrainedBroker(
                broker,
                drain,
                broker in self._view.cluster.brokers,
                held,
                tuple(p for p in left if broker not in self._held(p)),
                tuple(p for p in left if p in why and p not in blocked),
                tuple(p for p in held if not (p in why or p in blocked) and self._is_pending(p)),
                blocked,
            )

    def _held(self, partition: TopicPartition) -> Replicas:
        assignment = self._view.topics.known_assignment(partition)
        return () if assignment is None else assignment.replicas

    def _is_pending(self, partition: TopicPartition) -> bool:
        """Return whether the partition has a reassignment, and no step of it is in progress."""
        assignment = self._view.topics.known_assignment(partition)
        is_in_step = assignment is not None and assignment.is_reassigning
        return partition in self._view.reassignments.by_partition and not is_in_step

    def _is_on(self, broker: BrokerId, partition: TopicPartition) -> bool:
        return broker in drained_replicas.brokers_of(self._view, partition)

    def _waits(self) -> Iterator[tuple[TopicPartition, Blocked]]:
        """Yield what accepted partitions wait for, as the daemon says it."""
        status = self.status or NO_STATUS
        for row in (*status.get("waiting", ()), *status.get("in_flight", ())):
            blocked = row.get("blocked_on")
            if blocked is not None and blocked["by"] in _REASONS:
                partition = TopicPartition(row["topic"], row["partition"])
                yield partition, Blocked(BlockedBy(blocked["by"]), blocked["detail"])

    def targets(self) -> dict[TopicPartition, Replicas]:
        """Return the targets that the daemon would give now."""
        return dict(targets(self._view))


def _request_of(operator: OperatorClient, drains: Drains) -> Request:
    """Return the request of drains, with the partitions that were cancelled."""
    request = Request(model.Route.REQUEST, START, kind="drain", options=drains.options)
    history = operator.outcomes.history_of(drains.request) if drains.brokers else None
    for ending in () if history is None else history.endings:
        request.count_outcome(ending)
    return request


# --- before a drain ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """What drains would do, and what they would leave."""

    found: DryRun
    left: tuple[str, ...]
    """What would stay on which broker, and why."""


def preview_drains(
    operator: OperatorClient, queries: ClusterQueries, drains: Drains, unix_s: float
) -> DrainPreview:
    """Find what drains would move now."""
    read = queries.log_dirs(operator.cluster.brokers().values())
    status = queries.status(operator)
    cluster = DrainedCluster(operator, unix_s, status, drains, sizes_of(read))
    entries = read_entries(operator, cluster.targets())
    preview = forecast_of(operator, entries, queries, drains.options)
    found = DryRun(entries, PlanValidation(), (), frozenset(), preview)
    left = (f"stays on broker {b.broker}: {why}" for b in cluster.brokers() for why in b.reasons())
    return DrainPreview(found, tuple(left))
