"""
What is left on drained brokers, and where a drain would move it.

Both are found with the daemon's own functions (``core.requests.drains``), from what ZooKeeper has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controller.core import model
from controller.core.core_settings import Options
from controller.core.model import START, Blocked, BlockedBy, BrokerId, Replicas, TopicPartition
from controller.core.pacing import drained_replicas
from controller.core.pacing.controls import Drain, Drains
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import Expanding, Pending
from controller.core.requests.drains import targets, undrained
from controller.core.requests.model import Request
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.units import ids, names_text
from controller.zk.operator_client import OperatorClient

NAMED_MAX: Final = 3
"""Partitions without a target that are named for each reason."""


@dataclass(frozen=True, slots=True)
class DrainedBroker:
    """A drained broker, with what is left on it."""

    broker: BrokerId
    drain: Drain
    is_live: bool
    partitions: tuple[TopicPartition, ...] = ()
    """Partitions with a replica on it, or a reassignment to it."""
    waiting: tuple[TopicPartition, ...] = ()
    """Those that the daemon has not given a target yet."""
    blocked: Mapping[TopicPartition, Blocked] = field(default_factory=dict)
    """Those that it gives no target now, and why."""

    @property
    def is_empty(self) -> bool:
        """Whether it can be shut down."""
        return not self.partitions

    @property
    def is_stuck(self) -> bool:
        """Whether nothing that is left can leave it."""
        without = {p for p, b in self.blocked.items() if b.by is BlockedBy.NO_TARGET}
        return bool(self.partitions) and without.issuperset(self.partitions)

    def __str__(self) -> str:
        if self.is_empty:
            return f"broker {self.broker} is empty: it can be shut down"
        under_way = len(self.partitions) - len(self.waiting) - len(self.blocked)
        parts = [f"{under_way} being reassigned"] if under_way else []
        parts += [f"{len(self.waiting)} not accepted yet"] if self.waiting else []
        parts += self._reasons()
        replicas, topics = len(self.partitions), len({p.topic for p in self.partitions})
        return (
            f"broker {self.broker} still has {replicas} replica{'s' if replicas > 1 else ''} of "
            f"{topics} topic{'s' if topics > 1 else ''} ({'; '.join(parts)})"
        )

    def _reasons(self) -> list[str]:
        """Count the partitions that are given no target, by reason, and name some."""
        found: dict[Blocked, list[TopicPartition]] = {}
        for partition, blocked in self.blocked.items():
            found.setdefault(blocked, []).append(partition)
        return [
            f"{len(some)} blocked by {blocked.by}, {names_text(some)}: {blocked.detail}"
            for blocked, some in found.items()
        ]

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "broker": self.broker,
            "reason": self.drain.reason,
            "by": self.drain.by,
            "since_ms": self.drain.since_ms,
            "live": self.is_live,
            "empty": self.is_empty,
            "replicas": len(self.partitions),
            "topics": len({p.topic for p in self.partitions}),
            "not_accepted": len(self.waiting),
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
        drains: Drains | None = None,
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """
        Read the cluster.

        Args:
            operator: Reads ZooKeeper.
            unix_s: The time, for windows.
            drains: The drains in the place of those that stand.
            sizes: The bytes of partitions, as far as they are known.

        """
        controls = operator.requests.controls()
        self.drains = controls.drains if drains is None else drains
        self._view = view = ClusterView(Options())
        view.pacing_process.controls = replace(controls, drains=self.drains)
        view.pacing_process.wall = (START, unix_s)
        view.disks_process.sizes = dict(sizes or {})
        view.requests_session.kill_switch = operator.requests.is_disabled()
        view.requests.by_id[self.drains.request] = _request_of(operator, self.drains)
        # Records before topics, as they end with a write of the topic znode.
        specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
        view.deletions_session.markers = operator.partitions.deletions()
        view.topics.by_name = {n: Topic.of(t) for n, t in operator.survey_topics().items()}
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

    def unknown(self) -> list[BrokerId]:
        """Return the drained brokers that the cluster does not have, live or by a replica."""
        held = {r for _, a in self._view.topics.assignments() for r in a.replicas}
        return sorted(self.drains.brokers.keys() - self._view.cluster.brokers.keys() - held)

    def brokers(self) -> Iterator[DrainedBroker]:
        """Yield the drained brokers with what is left on each."""
        why = dict(undrained(self._view, START))
        for broker, drain in sorted(self.drains.brokers.items()):
            on_it = [p for p in self._view.pacing_session.on_drained if self._concerns(broker, p)]
            yield DrainedBroker(
                broker,
                drain,
                broker in self._view.cluster.brokers,
                tuple(sorted(on_it)),
                tuple(sorted(p for p in on_it if p in why and why[p] is None)),
                {p: b for p in sorted(on_it) if (b := why.get(p)) is not None},
            )

    def _concerns(self, broker: BrokerId, partition: TopicPartition) -> bool:
        assignment = self._view.topics.known_assignment(partition)
        held = () if assignment is None else assignment.replicas
        return broker in (*held, *(drained_replicas.replicas_to_be(self._view, partition) or ()))

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


def unknown_text(brokers: list[BrokerId]) -> str:
    """Describe brokers that the cluster does not have."""
    return (
        f"there is no broker {ids(brokers)}: it is not live, and no partition has a replica on it"
    )
