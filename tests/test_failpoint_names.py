"""The names of the instants between two writes or sends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, get_args

import pytest

from controller.core.bases import Durable
from controller.core.deletions.records import DeletionRequestedRecord
from controller.core.leadership.records import PreferredTriedRecord, StateCreatedRecord, StateRecord
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    ZkVersion,
)
from controller.core.pacing.records import AppliedThrottleEndedRecord, AppliedThrottleRecord
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity
from controller.core.reassignments.phases import (
    Ended,
    Expanding,
    Pending,
    Phase,
    Shrinking,
    Starting,
    Stopping,
    Syncing,
)
from controller.core.reassignments.records import PhaseRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests.outcomes import Part, Summary
from controller.core.requests.records import (
    CancellationEndedRecord,
    LegacyEntryRecord,
    PartRecord,
    RequestOutcomeRecord,
    SubmissionEndedRecord,
)
from controller.core.topics.model import TopicResult
from controller.core.topics.records import AssignmentRecord, TopicCreatedRecord, TopicGrownRecord
from controller.reactor.ports import BrokerRequest, UpdateMetadataState
from integration.rigs.failpoint_names import _WRITTEN, NamedFailpoints
from integration.rigs.failpoints import Failpoint
from tests.core.builders import Driver, replicas, tp
from tests.sim.builders import leader_and_isr, stop_replica, update_metadata

NOW = Instant(0.0)
STARTING = Starting(LeaderEpoch(1), None)
STOPPED = Stopping(frozenset(), frozenset(), NOW)
GIVEN_UP = Stopping(frozenset(), frozenset({BrokerId(2)}), NOW)

Names = set[Failpoint]
NAMED_BY_CONTENT: Final = {
    *("AssignmentRecord", "LegacyEntryRecord", "PartRecord", "SpecRecord", "StateRecord"),
}
"""Records whose content, or that of the others of their change, names the point."""
BESIDE_OTHERS: Final = {
    *("AcceptedRecord", "PartitionOutcomeRecord", "RefusalRecord", "SpecEndedRecord"),
    "QueueEntryEndedRecord",
}
"""Records that are written with others, which name the point."""
WITHOUT_NAME: Final = {
    *("DeletionMarkerEndedRecord", "NotificationsDeletedRecord", "PreferredElectionEndedRecord"),
    *("QueueEndedRecord", "RequestOutcomeForgottenRecord", "TopicIdRecord"),
    *("IsrRecord", "ProducerIdsRecord", "DrainsEndedRecord", "StaleMarkerEndedRecord"),
}
"""Single writes that the next cycle decides again or finds done; their points have no names."""


class PassedFailpoints:
    """A view with one reassignment in a phase, and the failpoints that it passes."""

    def __init__(self, phase: Phase) -> None:
        driver = Driver({tp(): (1, 2)})
        driver.submit({tp(): (1, 3)})
        self._view = driver.view
        self._view.reassignments.by_partition[tp()].phase = phase
        self._names: list[Names] = []
        self._failpoints = NamedFailpoints(self._reached)

    def commit(self, *records: Record) -> tuple[Names, Names]:
        """Return the failpoints before and after these records became durable."""
        change = Change(records, partition=tp())
        self._failpoints.committing(self._view, [change])
        self._failpoints.committed(self._view, [change])
        return self._names.pop(-2), self._names.pop()

    def has(self, assignment: PartitionAssignment) -> None:
        """Have the topic znode say this."""
        topic = self._view.topics.by_name[tp().topic]
        self._view.topics.by_name[tp().topic] = replace(topic, partitions={0: assignment})

    def send(self, broker: int, request: BrokerRequest) -> tuple[Names, Names]:
        """Return the failpoints before and after a request is sent."""
        self._failpoints.sending(request)
        self._failpoints.sent(BrokerId(broker), request)
        return self._names.pop(-2), self._names.pop()

    def _reached(self, failpoints: Collection[Failpoint]) -> None:
        self._names.append(set(failpoints))


def test_every_durable_record_has_a_name_or_needs_none() -> None:
    """A new one is an instant at which a daemon may be killed."""
    durable = {r.__name__ for r in get_args(Record) if issubclass(r, Durable)}
    named = {r.__name__ for r in _WRITTEN if issubclass(r, Durable)}
    assert durable - named == NAMED_BY_CONTENT | BESIDE_OTHERS | WITHOUT_NAME


def entering(phase: Phase) -> PhaseRecord:
    """Return the change of the partition's phase."""
    return PhaseRecord(tp(), phase, NOW, "because")


@pytest.mark.parametrize(
    ("before", "after", "about_to", "done"),
    [
        (Pending(), STARTING, Failpoint.BEFORE_A1, Failpoint.A1_WRITTEN),
        (Expanding(), STARTING, None, Failpoint.A1_REPEATED),
        (Syncing(), STARTING, Failpoint.SYNCED, Failpoint.NEXT_STEP_WRITTEN),
        (STOPPED, STARTING, Failpoint.B5_ACKNOWLEDGED, Failpoint.NEXT_STEP_WRITTEN),
        (STOPPED, Syncing(), Failpoint.B5_ACKNOWLEDGED, Failpoint.DROPPED),
        (GIVEN_UP, Syncing(), None, Failpoint.DROPPED),
        (STARTING, Syncing(), None, None),
        (Syncing(), Shrinking(LeaderEpoch(2)), Failpoint.SYNCED, Failpoint.B3_WRITTEN),
        (Expanding(), Shrinking(LeaderEpoch(2)), None, Failpoint.B3_WRITTEN),
        (Shrinking(LeaderEpoch(2)), STOPPED, None, Failpoint.EXCLUSION_ACKNOWLEDGED),
        (STARTING, STOPPED, None, Failpoint.EXCLUSION_ACKNOWLEDGED),
        (Syncing(), Pending(), Failpoint.SYNCED, Failpoint.STEP_ENDED),
        (Syncing(), Ended(), Failpoint.SYNCED, Failpoint.B6_WRITTEN),
        (STOPPED, Ended(), Failpoint.B5_ACKNOWLEDGED, Failpoint.B6_WRITTEN),
        (Pending(), Ended(), None, Failpoint.B6_WRITTEN),
    ],
)
def test_a_commit_is_named_by_the_phases_it_leaves_and_enters(
    before: Phase, after: Phase, about_to: Failpoint | None, done: Failpoint | None
) -> None:
    """Before it, by what was awaited; after it, by what is written."""
    named = PassedFailpoints(before).commit(entering(after))
    assert named == ({about_to} - {None}, {done} - {None})


@pytest.mark.parametrize(
    ("phase", "names"),
    [
        (
            STARTING,
            [
                Failpoint.A2_LEADER_NOTIFIED,
                Failpoint.A2_FOLLOWER_NOTIFIED,
                Failpoint.B4_STOP_REPLICA_SENT,
                Failpoint.B5_DELETE_SENT,
            ],
        ),
        (
            Shrinking(LeaderEpoch(2)),
            [
                Failpoint.B3_LEADER_NOTIFIED,
                None,
                Failpoint.B4_STOP_REPLICA_SENT,
                Failpoint.B5_DELETE_SENT,
            ],
        ),
        (Ended(), [Failpoint.B8_LEADER_NOTIFIED, None, None, Failpoint.ORPHAN_DELETE_SENT]),
    ],
)
def test_a_request_is_named_by_the_latest_commit_of_its_partition(
    phase: Phase, names: list[Failpoint | None]
) -> None:
    """The same LeaderAndIsr is A2, B3 or B8 by what was written before it."""
    passed = PassedFailpoints(Syncing())
    passed.commit(entering(phase))
    assigned = leader_and_isr(tp(), leader=1, replicas=(1, 3))
    named = [
        passed.send(1, assigned),
        passed.send(3, assigned),
        passed.send(2, stop_replica(tp(), leader_epoch=1, delete=False)),
        passed.send(2, stop_replica(tp(), leader_epoch=1, delete=True)),
    ]
    assert named == [(set(), {name} - {None}) for name in names]


def test_the_first_request_of_a_claim_is_known_by_having_no_partitions() -> None:
    """Before it no broker knows of the claim."""
    named = PassedFailpoints(Pending()).send(1, update_metadata((1, 2)))
    assert named == ({Failpoint.CLAIMED}, {Failpoint.LIVE_BROKERS_NOTIFIED})


def test_requests_about_partitions_without_a_reassignment_have_no_failpoint() -> None:
    """The duties of a controller are not part of a reassignment."""
    passed = PassedFailpoints(Pending())
    assert passed.send(1, leader_and_isr(tp(), leader=1, replicas=(1, 2))) == (set(), set())


def test_a_goal_is_accepted_once() -> None:
    """A record that is replaced, or that is only in memory, is not an acceptance."""
    spec = ReassignmentSpec(replicas(1, 3), replicas(1, 2), RequestId("r"), Route.LEGACY)
    foreign = ReassignmentSpec(replicas(1, 3), replicas(1, 2), RequestId("r"), Route.FOREIGN)
    passed = PassedFailpoints(Pending())
    assert passed.commit(SpecRecord(tp(), spec)) == (
        {Failpoint.BEFORE_ACCEPTED},
        {Failpoint.ACCEPTED},
    )
    assert passed.commit(SpecRecord(tp(), foreign)) == (set(), set())


def test_another_target_and_the_way_back_are_named_apart() -> None:
    """A record that is replaced leads elsewhere, or back; the same target anew is no news."""
    passed = PassedFailpoints(Syncing())
    recorded = ReassignmentSpec(
        replicas(1, 3), replicas(1, 2), RequestId("r"), Route.REQUEST, ZkVersion(0)
    )
    other = replace(recorded, target=replicas(1, 4))
    back = recorded.rolled_back(replicas(1, 2), RequestId("c"))
    assert passed.commit(SpecRecord(tp(), recorded)) == (set(), set())
    named = passed.commit(SpecRecord(tp(), other))
    assert named == ({Failpoint.BEFORE_RETARGETED}, {Failpoint.RETARGETED})
    named = passed.commit(SpecRecord(tp(), back))
    assert named == ({Failpoint.BEFORE_CANCELLED}, {Failpoint.CANCELLED})


def test_a_step_that_turns_round_adds_nothing_new() -> None:
    """The next step of an ordinary way does."""
    passed = PassedFailpoints(Syncing())
    passed.has(PartitionAssignment(replicas(1, 2, 3), replicas(3)))
    turned = PartitionAssignment(replicas(1, 2, 3), replicas(3), replicas(3))
    following = PartitionAssignment(replicas(1, 2, 3, 4), replicas(4))
    _, named = passed.commit(AssignmentRecord(tp(), turned), entering(STARTING))
    assert named == {Failpoint.STEP_TURNED}
    _, named = passed.commit(AssignmentRecord(tp(), following), entering(STARTING))
    assert named == {Failpoint.NEXT_STEP_WRITTEN}


REQUEST: Final = RequestId("request_0000000001")


@pytest.mark.parametrize(
    ("record", "about_to", "done"),
    [
        (PartRecord(REQUEST, Part(REQUEST, 1, 0)), None, Failpoint.REQUEST_OPENED),
        (PartRecord(RequestId("cancel-1"), Part("0", 0, 0)), None, Failpoint.CANCELLATION_CHOSEN),
        (SubmissionEndedRecord(REQUEST, ZkVersion(0)), None, Failpoint.REQUEST_DELETED),
        (
            AppliedThrottleRecord(AppliedThrottle(Entity("topics/t"), {}, {}), (), None),
            Failpoint.BEFORE_THROTTLED,
            Failpoint.THROTTLED,
        ),
        (
            AppliedThrottleEndedRecord(Entity("topics/t"), ZkVersion(0), None, None),
            Failpoint.BEFORE_UNTHROTTLED,
            Failpoint.UNTHROTTLED,
        ),
        (
            RequestOutcomeRecord(Summary(request=REQUEST, kind="request", total=1, done=1)),
            None,
            Failpoint.OUTCOME_WRITTEN,
        ),
        (CancellationEndedRecord(ZkVersion(0)), None, Failpoint.CANCELLATION_ENDED),
    ],
)
def test_what_becomes_of_what_was_requested_has_names(
    record: Record, about_to: Failpoint | None, done: Failpoint
) -> None:
    """Requests, cancellations and throttles are written beside the steps."""
    assert PassedFailpoints(Pending()).commit(record) == ({about_to} - {None}, {done})


def test_a_preferred_election_is_known_by_the_note_that_it_was_held() -> None:
    """Its write is like that of any other duty, and only its own leader hears of it first."""
    passed = PassedFailpoints(Pending())
    write = StateRecord(
        tp(), BrokerId(1), LeaderEpoch(1), replicas(1, 2), ControllerEpoch(1), ZkVersion(0)
    )
    assert passed.commit(write) == (set(), set())
    named = passed.commit(write, PreferredTriedRecord((tp(),), NOW))
    assert named == (set(), {Failpoint.ELECTION_WRITTEN})
    assigned = leader_and_isr(tp(), leader=1, replicas=(1, 2))
    assert passed.send(2, assigned) == (set(), set())
    assert passed.send(1, assigned) == (set(), {Failpoint.ELECTION_LEADER_NOTIFIED})


def test_taking_entries_out_of_the_legacy_znode_has_a_name_of_its_own() -> None:
    """With an end beside it, it is the end that counts."""
    passed = PassedFailpoints(Syncing())
    assert passed.commit(LegacyEntryRecord(tp(), None)) == (set(), {Failpoint.UNLISTED})
    named = passed.commit(LegacyEntryRecord(tp(), None), entering(Ended()))
    assert named == ({Failpoint.SYNCED}, {Failpoint.B6_WRITTEN})


def test_new_partitions_are_named_from_their_first_states_on() -> None:
    """The first states, the LeaderAndIsr to leader and follower, and the UpdateMetadata."""
    passed = PassedFailpoints(Pending())
    new = StateCreatedRecord(tp(1), BrokerId(1), replicas(1, 3), ControllerEpoch(1))
    assert passed.commit(new) == (set(), {Failpoint.FIRST_STATES_WRITTEN})
    assigned = leader_and_isr(tp(1), leader=1, replicas=(1, 3))
    assert passed.send(1, assigned)[1] == {Failpoint.FIRST_LEADER_NOTIFIED}
    assert passed.send(3, assigned)[1] == {Failpoint.FIRST_FOLLOWER_NOTIFIED}
    (state,) = assigned.states
    shown = UpdateMetadataState(
        *(state.partition, ControllerEpoch(1), state.leader, state.leader_epoch, state.isr),
        *(ZkVersion(0), state.replicas, (), None),
    )
    sent = replace(update_metadata([1]), states=(shown,))
    assert passed.send(2, sent)[1] == {Failpoint.FIRST_UPDATE_METADATA_SENT}


def test_a_topic_is_named_when_it_is_decided_and_when_it_is_written() -> None:
    """A topic of a client, and partitions that a client adds."""
    result = TopicResult("new", 0)
    created = TopicCreatedRecord(1, result, (replicas(1),), (), replaces_configs=False)
    for record in (created, TopicGrownRecord(1, result)):
        named = PassedFailpoints(Pending()).commit(record)
        assert named == ({Failpoint.BEFORE_TOPIC_WRITTEN}, {Failpoint.TOPIC_WRITTEN})
    named = PassedFailpoints(Pending()).commit(DeletionRequestedRecord(1, result))
    assert named == ({Failpoint.BEFORE_DELETION_REQUESTED}, {Failpoint.DELETION_REQUESTED})
