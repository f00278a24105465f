"""
What the loop does, by the names of its boundaries.

A commit is named by what its changes record and by the phases they leave and enter, a request by
what the latest commit of its partitions makes it: A2, B3, B8 or an election.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from controller.core.model import BrokerId, Route, TopicPartition
from controller.core.phases import (
    Ended,
    Expanding,
    Pending,
    Phase,
    Shrinking,
    Starting,
    Stopping,
    Syncing,
)
from controller.core.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    AssignmentRecord,
    CancellationEndedRecord,
    Change,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PartRecord,
    PhaseRecord,
    PreferredTriedRecord,
    Record,
    RequestOutcomeRecord,
    SpecRecord,
    StateRecord,
    SubmissionEndedRecord,
)
from controller.core.view import ClusterView
from controller.reactor.failpoints import Failpoint, Reached
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.znodes import paths

_BY_TELLING: Final[Mapping[str, Failpoint]] = {
    "A2": Failpoint.A2_UPDATE_METADATA_SENT,
    "B3": Failpoint.B3_UPDATE_METADATA_SENT,
    "B8": Failpoint.B8_UPDATE_METADATA_SENT,
}


class Failpoints:
    """Names what the loop does, in the loop's thread, and passes the names on."""

    def __init__(self, reached: Reached) -> None:
        """Tell ``reached`` at every boundary."""
        self._reached = reached
        self._telling: dict[TopicPartition, str] = {}
        """What a request about a partition is: the phase its latest commit asks to be told."""

    def committing(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """These changes are about to become durable."""
        self._reached({b for change in changes for b in _before(view, change)})

    def committed(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """These changes are durable; the view does not know it yet."""
        durable = list(changes)
        records = [record for change in durable for record in change.records]
        reached = {failpoint for change in durable for failpoint in _after(view, change)}
        for record in records:
            if isinstance(record, PhaseRecord):
                self._remember(record)
        elected = _elected(records)
        if elected:
            self._telling.update(dict.fromkeys(elected, "election"))
            reached.add(Failpoint.ELECTION_WRITTEN)
        self._reached(reached)

    def sending(self, request: BrokerRequest) -> None:
        """A request is about to be handed over."""
        is_first = isinstance(request, UpdateMetadata) and not request.states
        self._reached({Failpoint.CLAIMED} if is_first else ())

    def ordering(self) -> None:
        """The cluster's controller is about to be told, or was."""
        self._reached(())

    def sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """A request was handed over."""
        match request:
            case UpdateMetadata(states=()):
                self._reached({Failpoint.LIVE_BROKERS_TOLD})
            case UpdateMetadata(states=states):
                told = {self._telling.get(s.partition, "") for s in states}
                self._reached({_BY_TELLING[name] for name in told if name in _BY_TELLING})
            case LeaderAndIsr():
                self._reached(set(self._assigned(broker, request)))
            case StopReplica():
                self._reached(set(self._stopped(request)))

    def _remember(self, record: PhaseRecord) -> None:
        match record.phase:
            case Starting():
                self._telling[record.partition] = "A2"
            case Shrinking():
                self._telling[record.partition] = "B3"
            case Ended():
                self._telling[record.partition] = "B8"
            case _:
                pass

    def _assigned(self, broker: BrokerId, request: LeaderAndIsr) -> Iterator[Failpoint]:
        for state in request.states:
            is_leader = state.leader == broker
            match self._telling.get(state.partition):
                case "A2":
                    yield Failpoint.A2_LEADER_TOLD if is_leader else Failpoint.A2_FOLLOWER_TOLD
                case "B3" if is_leader:
                    yield Failpoint.B3_LEADER_TOLD
                case "B8" if is_leader:
                    yield Failpoint.B8_LEADER_TOLD
                case "election" if is_leader:
                    yield Failpoint.ELECTION_LEADER_TOLD
                case _:
                    pass

    def _stopped(self, request: StopReplica) -> Iterator[Failpoint]:
        for stop in request.states:
            if self._telling.get(stop.partition) in ("A2", "B3"):
                yield Failpoint.B5_DELETE_SENT if stop.delete else Failpoint.B4_STOP_REPLICA_SENT
            elif stop.delete:
                yield Failpoint.ORPHAN_DELETE_SENT


def _before(view: ClusterView, change: Change) -> Iterator[Failpoint]:
    for record in change.records:
        match record:
            case SpecRecord():
                yield from _BEFORE_GOAL.get(_aim_of(view, record), ())
            case AppliedThrottleRecord():
                yield Failpoint.BEFORE_THROTTLED
            case AppliedThrottleEndedRecord():
                yield Failpoint.BEFORE_UNTHROTTLED
            case PhaseRecord():
                yield from _left(_phase_of(view, record), record.phase)
            case _:
                pass


def _left(before: Phase | None, after: Phase) -> Iterator[Failpoint]:
    """Name what a phase awaited when it is about to be left."""
    match before, after:
        case Stopping(waiting=waiting, given_up=given_up), _ if not waiting | given_up:
            yield Failpoint.B5_ACKNOWLEDGED
        case Syncing(), _:
            yield Failpoint.SYNCED
        case Pending(), Starting():
            yield Failpoint.BEFORE_A1
        case _:
            pass


def _after(view: ClusterView, change: Change) -> Iterator[Failpoint]:
    if _is_unlisting(change):
        yield Failpoint.UNLISTED
    if _is_turning(view, change):
        yield Failpoint.STEP_TURNED
        return
    for record in change.records:
        match record:
            case SpecRecord():
                yield from _AFTER_GOAL.get(_aim_of(view, record), ())
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
}
"""What is named by its kind alone, when it is durable."""


def _entered(before: Phase | None, after: Phase) -> Iterator[Failpoint]:
    """Name the change of a phase."""
    match before, after:
        case Pending(), Starting():
            yield Failpoint.A1_WRITTEN
        case Expanding(), Starting():
            yield Failpoint.A1_REPEATED
        case _, Starting():
            yield Failpoint.NEXT_STEP_WRITTEN
        case Stopping(), Syncing():
            yield Failpoint.DROPPED
        case _, Shrinking():
            yield Failpoint.B3_WRITTEN
        case _, Stopping():
            yield Failpoint.EXCLUSION_ACKNOWLEDGED
        case _, Ended():
            yield Failpoint.B6_WRITTEN
        case _, Pending():
            yield Failpoint.STEP_ENDED
        case _:
            pass


def _phase_of(view: ClusterView, record: PhaseRecord) -> Phase | None:
    reassignment = view.reassignments.get(record.partition)
    return None if reassignment is None else reassignment.phase


class _Aim(Enum):
    """What a record of a goal means."""

    NEW = auto()
    BACK = auto()
    OTHER = auto()


_BEFORE_GOAL: Final[Mapping[_Aim | None, tuple[Failpoint, ...]]] = {
    _Aim.NEW: (Failpoint.BEFORE_ACCEPTED,),
    _Aim.BACK: (Failpoint.BEFORE_CANCELLED,),
    _Aim.OTHER: (Failpoint.BEFORE_RETARGETED,),
}
_AFTER_GOAL: Final[Mapping[_Aim | None, tuple[Failpoint, ...]]] = {
    _Aim.NEW: (Failpoint.ACCEPTED,),
    _Aim.BACK: (Failpoint.CANCELLED,),
    _Aim.OTHER: (Failpoint.RETARGETED,),
}


def _aim_of(view: ClusterView, record: SpecRecord) -> _Aim | None:
    known = view.reassignments.get(record.partition)
    if record.spec.rolls_back:
        return _Aim.BACK
    if record.spec.version is None:
        return None if record.spec.route is Route.FOREIGN else _Aim.NEW
    return _Aim.OTHER if known is not None and known.spec.target != record.spec.target else None


def _is_turning(view: ClusterView, change: Change) -> bool:
    """Whether a step in flight is opened anew without adding anything else."""
    if not any(
        isinstance(r, PhaseRecord) and isinstance(r.phase, Starting) for r in change.records
    ):
        return False
    for record in change.records:
        if isinstance(record, AssignmentRecord):
            before = view.assignment(record.partition)
            if before is not None and before.is_reassigning:
                return set(record.assignment.adding_replicas) == set(before.adding_replicas)
    return False


def _elected(records: Iterable[Record]) -> set[TopicPartition]:
    """Return the partitions whose preferred replica was made the leader."""
    every = list(records)
    tried = {p for r in every if isinstance(r, PreferredTriedRecord) for p in r.partitions}
    return tried & {r.partition for r in every if isinstance(r, StateRecord)}


def _is_unlisting(change: Change) -> bool:
    """Whether a change does nothing but take entries out of the legacy znode."""
    return bool(change.records) and all(
        isinstance(r, LegacyEntryRecord) and r.replicas is None for r in change.records
    )
