"""
The port ``reactor.ports.Failpoints``, implemented by naming each point the loop reaches.

The name of a commit follows from its records and the phases they leave and enter. The name of a
request follows from the latest commit about its partitions: A2, B3, B8, a first state or an
election.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from controller.core.calls.records import RequestAnsweredRecord
from controller.core.deletions.model import EPOCH_DURING_DELETE, LEADER_DURING_DELETE
from controller.core.deletions.records import (
    DeletionBegunRecord,
    DeletionRequestedRecord,
    PartitionZnodesDeletedRecord,
    TopicDeletedRecord,
)
from controller.core.leadership.records import PreferredTriedRecord, StateCreatedRecord, StateRecord
from controller.core.model import BrokerId, Route, TopicPartition
from controller.core.pacing.records import AppliedThrottleEndedRecord, AppliedThrottleRecord
from controller.core.reassignments import phases
from controller.core.reassignments.records import (
    OrphanEndedRecord,
    OrphanRecord,
    PhaseRecord,
    SpecRecord,
)
from controller.core.records import Change, Record
from controller.core.requests.records import (
    CancellationEndedRecord,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    PartRecord,
    RequestOutcomeRecord,
    SubmissionEndedRecord,
)
from controller.core.topics import topic_creation
from controller.core.topics.records import AssignmentRecord, TopicCreatedRecord, TopicGrownRecord
from controller.core.view import ClusterView
from controller.reactor import ports
from controller.znodes import paths
from integration.rigs.failpoints import Failpoint, Reached

_METADATA_SENT: Final[Mapping[str, Failpoint]] = {
    "A2": Failpoint.A2_UPDATE_METADATA_SENT,
    "B3": Failpoint.B3_UPDATE_METADATA_SENT,
    "B8": Failpoint.B8_UPDATE_METADATA_SENT,
    "first": Failpoint.FIRST_UPDATE_METADATA_SENT,
}


class NamedFailpoints(ports.Failpoints):
    """Passes the names of each point to a callback, on the loop's thread."""

    def __init__(self, reached: Reached) -> None:
        """Call ``reached`` at every point, also at those without a name."""
        self._reached = reached
        self._sending: dict[TopicPartition, str] = {}
        """The phase of the latest commit of each partition, which its next requests carry."""

    def committing(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Name the points before the changes are durable."""
        self._reached({b for change in changes for b in _before(view, change)})

    def committed(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Name the points after the changes are durable and before the view contains them."""
        durable = list(changes)
        written = [record for change in durable for record in change.records]
        reached = {failpoint for change in durable for failpoint in _after(view, change)}
        for record in written:
            if isinstance(record, PhaseRecord):
                self._remember(record)
            elif isinstance(record, StateCreatedRecord):
                self._sending[record.partition] = "first"
        elected = _elected(written)
        if elected:
            self._sending.update(dict.fromkeys(elected, "election"))
            reached.add(Failpoint.ELECTION_WRITTEN)
        self._reached(reached)

    def sending(self, request: ports.BrokerRequest) -> None:
        """Name the claim before its first UpdateMetadata; other requests have no name here."""
        is_first = isinstance(request, ports.UpdateMetadata) and not request.states
        self._reached({Failpoint.CLAIMED} if is_first else ())

    def altering(self) -> None:
        """Pass a point without a name, before and after requests to the cluster's controller."""
        self._reached(())

    def placing(self) -> None:
        """Name the point before directories are requested."""
        self._reached({Failpoint.BEFORE_PLACEMENT})

    def placed(self) -> None:
        """Name the point after requests for directories were handed over."""
        self._reached({Failpoint.PLACEMENT_SENT})

    def sent(self, broker: BrokerId, request: ports.BrokerRequest) -> None:
        """Name the point after a request was handed to its channel."""
        match request:
            case ports.UpdateMetadata(states=()):
                self._reached({Failpoint.LIVE_BROKERS_NOTIFIED})
            case ports.UpdateMetadata(states=states):
                self._reached(set(self._informed(states)))
            case ports.LeaderAndIsr():
                self._reached(set(self._assigned(broker, request)))
            case ports.StopReplica():
                self._reached(set(self._stopped(request)))

    def _informed(self, states: Iterable[ports.UpdateMetadataState]) -> Iterator[Failpoint]:
        for state in states:
            if state.leader == LEADER_DURING_DELETE:
                yield Failpoint.TOPIC_UPDATE_METADATA_SENT
            name = self._sending.get(state.partition, "")
            if name in _METADATA_SENT:
                yield _METADATA_SENT[name]

    def _remember(self, record: PhaseRecord) -> None:
        match record.phase:
            case phases.Starting():
                self._sending[record.partition] = "A2"
            case phases.Shrinking():
                self._sending[record.partition] = "B3"
            case phases.Ended():
                self._sending[record.partition] = "B8"
            case _:
                pass

    def _assigned(self, broker: BrokerId, request: ports.LeaderAndIsr) -> Iterator[Failpoint]:
        for state in request.states:
            is_leader = state.leader == broker
            match self._sending.get(state.partition):
                case "A2":
                    yield (
                        Failpoint.A2_LEADER_NOTIFIED
                        if is_leader
                        else Failpoint.A2_FOLLOWER_NOTIFIED
                    )
                case "B3" if is_leader:
                    yield Failpoint.B3_LEADER_NOTIFIED
                case "B8" if is_leader:
                    yield Failpoint.B8_LEADER_NOTIFIED
                case "first":
                    yield (
                        Failpoint.FIRST_LEADER_NOTIFIED
                        if is_leader
                        else Failpoint.FIRST_FOLLOWER_NOTIFIED
                    )
                case "election" if is_leader:
                    yield Failpoint.ELECTION_LEADER_NOTIFIED
                case _:
                    pass

    def _stopped(self, request: ports.StopReplica) -> Iterator[Failpoint]:
        for stop in request.states:
            if stop.leader_epoch == EPOCH_DURING_DELETE:
                yield (
                    Failpoint.TOPIC_DELETE_SENT
                    if stop.delete
                    else Failpoint.TOPIC_STOP_REPLICA_SENT
                )
            elif self._sending.get(stop.partition) in ("A2", "B3"):
                yield Failpoint.B5_DELETE_SENT if stop.delete else Failpoint.B4_STOP_REPLICA_SENT
            elif stop.delete:
                yield Failpoint.ORPHAN_DELETE_SENT


def _before(  # noqa: C901 - one arm per record
    view: ClusterView, change: Change
) -> Iterator[Failpoint]:
    for record in change.records:
        match record:
            case SpecRecord():
                yield from _BEFORE_SPEC.get(_aim_of(view, record), ())
            case TopicDeletedRecord() | PartitionZnodesDeletedRecord():
                yield Failpoint.BEFORE_TOPIC_DELETED
            case AppliedThrottleRecord():
                yield Failpoint.BEFORE_THROTTLED
            case AppliedThrottleEndedRecord():
                yield Failpoint.BEFORE_UNTHROTTLED
            case TopicCreatedRecord() | TopicGrownRecord():
                yield Failpoint.BEFORE_TOPIC_WRITTEN
            case DeletionRequestedRecord():
                yield Failpoint.BEFORE_DELETION_REQUESTED
            case RequestAnsweredRecord(ticket=ticket):
                requested = view.calls.pending_client_requests.get(ticket)
                if requested is not None and topic_creation.is_underway(requested):
                    yield Failpoint.BEFORE_TOPIC_ANSWERED
            case PhaseRecord():
                yield from _left(_phase_of(view, record), record.phase)
            case _:
                pass


def _left(before: phases.Phase | None, after: phases.Phase) -> Iterator[Failpoint]:
    """Name the event that lets a phase be left."""
    match before, after:
        case phases.Stopping(waiting, given_up, deletes=True), _ if not waiting | given_up:
            yield Failpoint.B5_ACKNOWLEDGED
        case phases.Syncing(), _:
            yield Failpoint.SYNCED
        case phases.Pending(), phases.Starting():
            yield Failpoint.BEFORE_A1
        case _:
            pass


def _after(view: ClusterView, change: Change) -> Iterator[Failpoint]:
    if _only_unlists(change):
        yield Failpoint.UNLISTED
    if _is_retarget(view, change):
        yield Failpoint.STEP_TURNED
        return
    for record in change.records:
        match record:
            case SpecRecord():
                yield from _AFTER_SPEC.get(_aim_of(view, record), ())
            case PhaseRecord():
                yield from _entered(_phase_of(view, record), record.phase)
            case PartRecord(part=part):
                is_request = paths.is_submission(part.name)
                yield Failpoint.REQUEST_OPENED if is_request else Failpoint.CANCELLATION_CHOSEN
            case _ if type(record) in _WRITTEN:
                yield _WRITTEN[type(record)]
            case _:
                pass


_WRITTEN: Final[Mapping[type[Record], Failpoint]] = {
    SubmissionEndedRecord: Failpoint.REQUEST_DELETED,
    AppliedThrottleRecord: Failpoint.THROTTLED,
    AppliedThrottleEndedRecord: Failpoint.UNTHROTTLED,
    CancellationEndedRecord: Failpoint.CANCELLATION_ENDED,
    RequestOutcomeRecord: Failpoint.OUTCOME_WRITTEN,
    OrphanRecord: Failpoint.ORPHAN_RECORDED,
    OrphanEndedRecord: Failpoint.ORPHAN_ENDED,
    LegacyPlanEndedRecord: Failpoint.PLAN_ENDED,
    TopicCreatedRecord: Failpoint.TOPIC_WRITTEN,
    TopicGrownRecord: Failpoint.TOPIC_WRITTEN,
    DeletionRequestedRecord: Failpoint.DELETION_REQUESTED,
    StateCreatedRecord: Failpoint.FIRST_STATES_WRITTEN,
    DeletionBegunRecord: Failpoint.TOPIC_DELETION_BEGUN,
    PartitionZnodesDeletedRecord: Failpoint.TOPIC_PARTLY_DELETED,
    TopicDeletedRecord: Failpoint.TOPIC_DELETED,
}
"""Records whose kind alone names the point after their commit."""


def _entered(before: phases.Phase | None, after: phases.Phase) -> Iterator[Failpoint]:
    """Name the commit that changed a phase."""
    match before, after:
        case phases.Pending(), phases.Starting():
            yield Failpoint.A1_WRITTEN
        case phases.Expanding(), phases.Starting():
            yield Failpoint.A1_REPEATED
        case _, phases.Starting():
            yield Failpoint.NEXT_STEP_WRITTEN
        case phases.Stopping(), phases.Syncing():
            yield Failpoint.DROPPED
        case _, phases.Shrinking():
            yield Failpoint.B3_WRITTEN
        case phases.Starting() | phases.Shrinking(), phases.Stopping():
            yield Failpoint.EXCLUSION_ACKNOWLEDGED
        case _, phases.Placing():
            yield Failpoint.PLACING_BEGUN
        case _, phases.Ended():
            yield Failpoint.B6_WRITTEN
        case _, phases.Pending():
            yield Failpoint.STEP_ENDED
        case _:
            pass


def _phase_of(view: ClusterView, record: PhaseRecord) -> phases.Phase | None:
    reassignment = view.reassignments.by_partition.get(record.partition)
    return None if reassignment is None else reassignment.phase


class _Aim(Enum):
    """The change that a spec makes: a new one, a rollback, or another target."""

    NEW = auto()
    BACK = auto()
    OTHER = auto()


_BEFORE_SPEC: Final[Mapping[_Aim | None, tuple[Failpoint, ...]]] = {
    _Aim.NEW: (Failpoint.BEFORE_ACCEPTED,),
    _Aim.BACK: (Failpoint.BEFORE_CANCELLED,),
    _Aim.OTHER: (Failpoint.BEFORE_RETARGETED,),
}
_AFTER_SPEC: Final[Mapping[_Aim | None, tuple[Failpoint, ...]]] = {
    _Aim.NEW: (Failpoint.ACCEPTED,),
    _Aim.BACK: (Failpoint.CANCELLED,),
    _Aim.OTHER: (Failpoint.RETARGETED,),
}


def _aim_of(view: ClusterView, record: SpecRecord) -> _Aim | None:
    known = view.reassignments.by_partition.get(record.partition)
    if record.spec.rolls_back:
        return _Aim.BACK
    if record.spec.version is None:
        return None if record.spec.route is Route.FOREIGN else _Aim.NEW
    return _Aim.OTHER if known is not None and known.spec.target != record.spec.target else None


def _is_retarget(view: ClusterView, change: Change) -> bool:
    """Return whether a step in flight starts anew with the same adding replicas."""
    phased = [r.phase for r in change.records if isinstance(r, PhaseRecord)]
    if not any(isinstance(phase, phases.Starting) for phase in phased):
        return False
    for record in change.records:
        if isinstance(record, AssignmentRecord):
            before = view.topics.assignment(record.partition)
            if before is not None and before.is_reassigning:
                return set(record.assignment.adding_replicas) == set(before.adding_replicas)
    return False


def _elected(written: Iterable[Record]) -> set[TopicPartition]:
    """Return the partitions whose preferred replica became the leader."""
    every = list(written)
    tried = {p for r in every if isinstance(r, PreferredTriedRecord) for p in r.partitions}
    return tried & {r.partition for r in every if isinstance(r, StateRecord)}


def _only_unlists(change: Change) -> bool:
    """Return whether a change only removes entries from the legacy znode."""
    return bool(change.records) and all(
        isinstance(r, LegacyEntryRecord) and r.replicas is None for r in change.records
    )
