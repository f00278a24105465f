"""
Names for the instants between two writes or sends of a reassignment.

Whoever dies does so between two of them: there the proof of recovery dies on purpose, in the
simulation and on real brokers. A commit is named by the phase changes in it, a request by what the
latest commit of its partitions makes it: A2, B3 or B8. Nothing is named, and nothing costs
anything, unless somebody asks to be told. No decision depends on a name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
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
    Change,
    GoalRecord,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PhaseRecord,
    Record,
)
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata


class Boundary(StrEnum):
    """An instant at which a daemon may be when it dies; in the order of a reassignment's way."""

    CLAIMED = "claimed"
    LIVE_BROKERS_TOLD = "live-brokers-told"
    BEFORE_ACCEPTED = "before-accepted"
    ACCEPTED = "accepted"
    BEFORE_A1 = "before-A1"
    A1_WRITTEN = "A1-written"
    A1_REPEATED = "A1-repeated"
    UNLISTED = "unlisted"
    A2_LEADER_TOLD = "A2-leader-told"
    A2_FOLLOWER_TOLD = "A2-follower-told"
    A2_UPDATE_METADATA_SENT = "A2-UpdateMetadata-sent"
    SYNCED = "synced"
    NEXT_STEP_WRITTEN = "next-step-written"
    B3_WRITTEN = "B3-written"
    B3_LEADER_TOLD = "B3-leader-told"
    B3_UPDATE_METADATA_SENT = "B3-UpdateMetadata-sent"
    EXCLUSION_ACKNOWLEDGED = "exclusion-acknowledged"
    B4_STOP_REPLICA_SENT = "B4-StopReplica-sent"
    B5_DELETE_SENT = "B5-delete-sent"
    B5_ACKNOWLEDGED = "B5-acknowledged"
    DROPPED = "dropped"
    STEP_ENDED = "step-ended"
    B6_WRITTEN = "B6-written"
    ORPHAN_RECORDED = "orphan-recorded"
    B8_LEADER_TOLD = "B8-leader-told"
    B8_UPDATE_METADATA_SENT = "B8-UpdateMetadata-sent"
    PLAN_ENDED = "plan-ended"
    ORPHAN_DELETE_SENT = "orphan-delete-sent"
    ORPHAN_ENDED = "orphan-ended"


MEANING: Final[Mapping[Boundary, str]] = {
    Boundary.CLAIMED: "the claim is made, no broker has heard of it",
    Boundary.LIVE_BROKERS_TOLD: "the first broker got the UpdateMetadata that fences the last "
    "controller's requests",
    Boundary.BEFORE_ACCEPTED: "the plan is read and judged, nothing of it is recorded",
    Boundary.ACCEPTED: "the records of the goals are durable, nothing else is",
    Boundary.BEFORE_A1: "a first step is decided, nothing of it is written",
    Boundary.A1_WRITTEN: "a first step is in the topic znode and the state, nothing is sent",
    Boundary.A1_REPEATED: "a step found in the topic znode has its leader epoch bumped anew, "
    "nothing is sent",
    Boundary.UNLISTED: "what waits was taken out of the legacy znode",
    Boundary.A2_LEADER_TOLD: "the leader got the step's LeaderAndIsr",
    Boundary.A2_FOLLOWER_TOLD: "another replica than the leader got it",
    Boundary.A2_UPDATE_METADATA_SENT: "the first broker got the step's UpdateMetadata",
    Boundary.SYNCED: "the target is in the ISR, what follows is not written",
    Boundary.NEXT_STEP_WRITTEN: "the next step is in the topic znode and the state, nothing of it "
    "is sent",
    Boundary.B3_WRITTEN: "the dropped replicas are out of the ISR and the leader is one of the "
    "target, nothing is sent",
    Boundary.B3_LEADER_TOLD: "the leader got that",
    Boundary.B3_UPDATE_METADATA_SENT: "the first broker got the UpdateMetadata of that",
    Boundary.EXCLUSION_ACKNOWLEDGED: "the leader knows the replicas without the dropped ones, "
    "StopReplica is not sent",
    Boundary.B4_STOP_REPLICA_SENT: "a dropped replica got StopReplica, without deletion",
    Boundary.B5_DELETE_SENT: "a dropped replica got StopReplica, with deletion",
    Boundary.B5_ACKNOWLEDGED: "the dropped replicas are deleted, the topic znode still names them",
    Boundary.DROPPED: "the topic znode forgot the dropped replicas, the added ones still copy",
    Boundary.STEP_ENDED: "a step ended, the next has to wait and is not written",
    Boundary.B6_WRITTEN: "the topic znode is final and the record is gone, nobody is told",
    Boundary.ORPHAN_RECORDED: "a step ended without the deletion of a replica on a dead broker, "
    "which is recorded",
    Boundary.B8_LEADER_TOLD: "the leader got the LeaderAndIsr without adding replicas, where the "
    "last step dropped nothing",
    Boundary.B8_UPDATE_METADATA_SENT: "the first broker got the final UpdateMetadata",
    Boundary.PLAN_ENDED: "the legacy znode is gone and the outcome is written, the role is held",
    Boundary.ORPHAN_DELETE_SENT: "an orphan's broker is back and got StopReplica with deletion",
    Boundary.ORPHAN_ENDED: "the orphan's record is gone",
}
"""Each boundary in words, as the documentation prints them."""

Reached = Callable[[Collection[Boundary]], None]
"""
Told at every instant between two writes or sends which boundaries it is, often none.

It may never return: that is what it is for.
"""

_BY_TELLING: Final[Mapping[str, Boundary]] = {
    "A2": Boundary.A2_UPDATE_METADATA_SENT,
    "B3": Boundary.B3_UPDATE_METADATA_SENT,
    "B8": Boundary.B8_UPDATE_METADATA_SENT,
}


class Boundaries:
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
        reached: set[Boundary] = set()
        for change in changes:
            reached.update(_after(view, change))
            for record in change.records:
                if isinstance(record, PhaseRecord):
                    self._remember(record)
        self._reached(reached)

    def sending(self, request: BrokerRequest) -> None:
        """A request is about to be handed over."""
        is_first = isinstance(request, UpdateMetadata) and not request.states
        self._reached({Boundary.CLAIMED} if is_first else ())

    def ordering(self) -> None:
        """The cluster's controller is about to be told, or was."""
        self._reached(())

    def sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """A request was handed over."""
        match request:
            case UpdateMetadata(states=()):
                self._reached({Boundary.LIVE_BROKERS_TOLD})
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

    def _assigned(self, broker: BrokerId, request: LeaderAndIsr) -> Iterator[Boundary]:
        for state in request.states:
            is_leader = state.leader == broker
            match self._telling.get(state.partition):
                case "A2":
                    yield Boundary.A2_LEADER_TOLD if is_leader else Boundary.A2_FOLLOWER_TOLD
                case "B3" if is_leader:
                    yield Boundary.B3_LEADER_TOLD
                case "B8" if is_leader:
                    yield Boundary.B8_LEADER_TOLD
                case _:
                    pass

    def _stopped(self, request: StopReplica) -> Iterator[Boundary]:
        for stop in request.states:
            if self._telling.get(stop.partition) in ("A2", "B3"):
                yield Boundary.B5_DELETE_SENT if stop.delete else Boundary.B4_STOP_REPLICA_SENT
            elif stop.delete:
                yield Boundary.ORPHAN_DELETE_SENT


def _before(view: ClusterView, change: Change) -> Iterator[Boundary]:
    for record in change.records:
        if _is_new_goal(record):
            yield Boundary.BEFORE_ACCEPTED
        elif isinstance(record, PhaseRecord):
            match _phase_of(view, record), record.phase:
                case Stopping(waiting=waiting, given_up=given_up), _ if not waiting | given_up:
                    yield Boundary.B5_ACKNOWLEDGED
                case Syncing(), _:
                    yield Boundary.SYNCED
                case Pending(), Starting():
                    yield Boundary.BEFORE_A1
                case _:
                    pass


def _after(view: ClusterView, change: Change) -> Iterator[Boundary]:
    if _is_unlisting(change):
        yield Boundary.UNLISTED
    for record in change.records:
        match record:
            case GoalRecord() if _is_new_goal(record):
                yield Boundary.ACCEPTED
            case PhaseRecord():
                yield from _entered(_phase_of(view, record), record.phase)
            case OrphanRecord():
                yield Boundary.ORPHAN_RECORDED
            case OrphanEndedRecord():
                yield Boundary.ORPHAN_ENDED
            case LegacyPlanEndedRecord():
                yield Boundary.PLAN_ENDED
            case _:
                pass


def _entered(before: Phase | None, after: Phase) -> Iterator[Boundary]:
    """Name the change of a phase."""
    match before, after:
        case Pending(), Starting():
            yield Boundary.A1_WRITTEN
        case Expanding(), Starting():
            yield Boundary.A1_REPEATED
        case _, Starting():
            yield Boundary.NEXT_STEP_WRITTEN
        case Stopping(), Syncing():
            yield Boundary.DROPPED
        case _, Shrinking():
            yield Boundary.B3_WRITTEN
        case _, Stopping():
            yield Boundary.EXCLUSION_ACKNOWLEDGED
        case _, Ended():
            yield Boundary.B6_WRITTEN
        case _, Pending():
            yield Boundary.STEP_ENDED
        case _:
            pass


def _phase_of(view: ClusterView, record: PhaseRecord) -> Phase | None:
    reassignment = view.reassignments.get(record.partition)
    return None if reassignment is None else reassignment.phase


def _is_new_goal(record: Record) -> bool:
    return (
        isinstance(record, GoalRecord)
        and record.goal.version is None
        and record.goal.route is not Route.FOREIGN
    )


def _is_unlisting(change: Change) -> bool:
    """Whether a change does nothing but take entries out of the legacy znode."""
    return bool(change.records) and all(
        isinstance(r, LegacyEntryRecord) and r.replicas is None for r in change.records
    )
