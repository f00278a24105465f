"""
Phase changes with the phase before, its duration, and the partition's state.

Remembers the last phase of each reassignment, as the view has the new one when a change is
reported. It forgets a reassignment that ended, and everything when the tenure ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.model import Instant, Replicas, RequestId, TopicPartition
from controller.core.reassignments.phases import (
    LABELS,
    AwaitingController,
    Pending,
    Starting,
    label_of,
)
from controller.core.reassignments.records import PhaseRecord, SpecEndedRecord, SpecRecord
from controller.core.records import Change
from controller.core.view import ClusterView

PENDING = LABELS[Pending]
STARTING = LABELS[Starting]
AWAITING = LABELS[AwaitingController]


@dataclass(frozen=True, slots=True)
class EnteredPhase:
    """One partition entered a phase; the fields are those of the log event ``phase``."""

    partition: TopicPartition
    phase: str
    before: str
    seconds: float | None
    """Duration of the phase before; None if its start is not known."""
    cause: str = ""
    step: int = 0
    request: str | None = None
    replicas: Replicas = ()
    adding_replicas: Replicas = ()
    removing_replicas: Replicas = ()
    leader: int | None = None
    isr: Replicas = ()
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    zk_version: int | None = None

    @property
    def begins_step(self) -> bool:
        """
        Whether a step begins, or the cluster's controller is requested to begin one.

        Sending the requests of a step again is no new step.
        """
        return self.phase == AWAITING or (self.phase == STARTING and self.before != STARTING)


class PhaseMemory:
    """The last phase of each reassignment, and since when."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[str, Instant]] = {}

    def forget(self) -> None:
        """Forget all phases at the end of a tenure."""
        self._seen.clear()

    def take_up(self, view: ClusterView) -> None:
        """Remember the phases in which a tenure found the reassignments."""
        self._seen = {
            partition: (label_of(reassignment.phase), reassignment.phase_since)
            for partition, reassignment in view.reassignments.by_partition.items()
        }

    def changes(self, change: Change, view: ClusterView) -> list[EnteredPhase]:
        """Return the phase changes of a committed change."""
        entered: list[PhaseRecord] = []
        ended: dict[TopicPartition, RequestId] = {}
        for record in change.records:
            if isinstance(record, PhaseRecord):
                entered.append(record)
            elif isinstance(record, SpecEndedRecord):
                ended[record.partition] = record.request
            elif isinstance(record, SpecRecord):
                self._record_acceptance(record.partition, view)
        found = [self._change(r, view, ended.get(r.partition)) for r in entered]
        for partition in ended:
            self._seen.pop(partition, None)
        return found

    def _record_acceptance(self, partition: TopicPartition, view: ClusterView) -> None:
        """Remember since when an accepted reassignment is pending."""
        accepted = view.reassignments.by_partition.get(partition)
        if accepted is not None and partition not in self._seen:
            self._seen[partition] = (label_of(accepted.phase), accepted.phase_since)

    def _change(
        self, record: PhaseRecord, view: ClusterView, ended: RequestId | None
    ) -> EnteredPhase:
        partition, phase = record.partition, label_of(record.phase)
        before, since = self._seen.get(partition, (PENDING, None))
        self._seen[partition] = (phase, record.at)
        assignment = view.topics.assignment(partition)
        state = view.leadership.states.get(partition)
        reassignment = view.reassignments.by_partition.get(partition)
        return EnteredPhase(
            partition=partition,
            phase=phase,
            before=before,
            seconds=None if since is None else round(record.at - since, 6),
            cause=record.cause,
            step=reassignment.step if reassignment else 0,
            request=reassignment.spec.request if reassignment else ended,
            replicas=assignment.replicas if assignment else (),
            adding_replicas=assignment.adding_replicas if assignment else (),
            removing_replicas=assignment.removing_replicas if assignment else (),
            leader=state.leader if state else None,
            isr=state.isr if state else (),
            leader_epoch=state.leader_epoch if state else None,
            controller_epoch=state.controller_epoch if state else None,
            zk_version=state.version if state else None,
        )
