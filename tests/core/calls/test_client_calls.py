"""What operators' tools and clients ask is answered as Kafka's controller answers it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core.calls.client_calls import CEDE_AFTER_S, CEDE_WITHIN_S, DROP_S, PATIENCE_S
from controller.core.calls.client_requests import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    CedeRole,
    CedeRoleAnswer,
    ClientAnswer,
    ElectLeaders,
    ElectLeadersAnswer,
    ListReassignments,
    ListReassignmentsAnswer,
    OngoingReassignment,
    RequestFromClient,
    SubmittedReassignments,
)
from controller.core.calls.records import ClientRequestReceived, ReassignmentsSubmitted
from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ClaimController, ResignController, Respond, SubmitReassignments
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    Instant,
    PartitionAssignment,
    RequestId,
    ZkVersion,
    Zxid,
)
from controller.core.records import TimerFired
from controller.core.requests.records import (
    CancellationRead,
    KillSwitchRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import Cancellation, Submission
from controller.core.role.claims_and_resignations import CEDE_TIMER, LINGER_TIMER
from controller.core.role.records import BrokersRead, Deposed, UpdateMetadataAnswered
from controller.core.role.tenure_reset import CEDED_S
from controller.core.wakeups import PENDING_REQUESTS_TIMER, PREFERRED_TIMER
from tests.core.builders import Driver, broker, replicas, tp

NAME = "request_0000000007"
CANCEL_CZXID = Zxid(77)


def answers(driver: Driver, ticket: int = 1) -> list[object]:
    """Return the answers to a ticket."""
    return [e.response for e in driver.sent if isinstance(e, Respond) and e.ticket == ticket]


def send(driver: Driver, request: RequestFromClient, ticket: int = 1) -> None:
    """Let a client ask."""
    driver.observe(ClientRequestReceived(ticket, request, driver.permission))


def alter(targets: dict[int, tuple[int, ...] | None]) -> AlterReassignments:
    """Return a client's request; None cancels."""
    wanted = {tp(p): None if t is None else replicas(*t) for p, t in targets.items()}
    return AlterReassignments(wanted, "a tool")


def submissions(driver: Driver) -> list[SubmitReassignments]:
    """Return what was written for clients."""
    return [e for e in driver.sent if isinstance(e, SubmitReassignments)]


def submitted(driver: Driver, ticket: int = 1) -> None:
    """Let the znodes of the last submission be written and read."""
    wanted = submissions(driver)[-1]
    request = cancellation = None
    if wanted.targets:
        request = RequestId(NAME)
        found = Submission(NAME, wanted.targets, ZkVersion(0), Zxid(60), 1000)
        driver.observe(SubmissionsListed(frozenset({NAME})))
        driver.observe(SubmissionsRead({NAME: found}))
    if wanted.cancelled:
        read = Cancellation(ZkVersion(0), CANCEL_CZXID, 1000, partitions=wanted.cancelled)
        cancellation = read.request
        driver.observe(CancellationRead(read))
    done = SubmittedReassignments(request, cancellation)
    driver.observe(ReassignmentsSubmitted(ticket, done))


def errors(answer: object) -> dict[int, int]:
    """Return the error of each partition."""
    assert isinstance(answer, AlterReassignmentsAnswer | ElectLeadersAnswer)
    assert answer.error == 0
    return {r.partition.partition: r.error for r in answer.results}


def pass_time(driver: Driver, seconds: float) -> None:
    """Let the timers fire."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(TimerFired(PENDING_REQUESTS_TIMER), TimerFired(PREFERRED_TIMER))


# --- AlterPartitionReassignments -----------------------------------------------------------------


def test_reassignment_is_durable_and_accepted_before_it_is_answered() -> None:
    """A tool that lists reassignments after the answer finds it."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    (wanted,) = submissions(driver)
    assert wanted.targets == {tp(): replicas(3, 4)}
    assert not answers(driver)
    assert tp() not in driver.view.reassignments.by_partition
    submitted(driver)
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4)
    assert [errors(a) for a in answers(driver)] == [{0: 0}]
    assert not driver.view.calls.pending_client_requests


def test_submission_that_is_written_but_not_read_yet_is_not_answered() -> None:
    """The report of the write may precede the watch."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    done = SubmittedReassignments(RequestId(NAME), None)
    driver.observe(ReassignmentsSubmitted(1, done))
    assert not answers(driver)
    assert len(submissions(driver)) == 1
    pass_time(driver, PATIENCE_S)
    assert [errors(a) for a in answers(driver)] == [{0: kafka_errors.REQUEST_TIMED_OUT}]


def test_invalid_entries_are_refused_and_the_others_proceed() -> None:
    """With the errors of Kafka's controller, each for its partition."""
    driver = Driver({tp(n): (1, 2) for n in range(5)})
    targets = {0: (3, 4), 1: (), 2: (3, 3), 3: (-3, 4), 4: (1, 99), 9: (1, 2)}
    send(driver, alter(dict(targets)))
    assert submissions(driver)[0].targets == {tp(): replicas(3, 4)}
    submitted(driver)
    invalid = kafka_errors.INVALID_REPLICA_ASSIGNMENT
    unknown = kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
    found = errors(answers(driver)[0])
    assert found == {0: 0, 1: invalid, 2: invalid, 3: invalid, 4: invalid, 9: unknown}


def test_dead_replica_that_is_kept_is_allowed() -> None:
    """It is no new replica."""
    driver = Driver({tp(): (1, 9)}, brokers=(1, 2))
    send(driver, alter({0: (9, 2)}))
    assert submissions(driver)[0].targets == {tp(): replicas(9, 2)}


def test_entries_of_a_topic_in_deletion_are_unknown() -> None:
    """As for Kafka's controller."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(DeletionsRead(frozenset({"t"})))
    send(driver, alter({0: (3, 4)}))
    assert errors(answers(driver)[0]) == {0: kafka_errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert not submissions(driver)


def test_entry_that_is_at_its_target_succeeds() -> None:
    """It has ended with its acceptance."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (1, 2)}))
    submitted(driver)
    assert [errors(a) for a in answers(driver)] == [{0: 0}]


@pytest.mark.parametrize("is_approval", [True, False], ids=["approval", "kill switch"])
def test_what_forbids_requests_forbids_those_of_clients(*, is_approval: bool) -> None:
    """Nothing is written; the message says why."""
    driver = Driver({tp(): (1, 2)}, options=Options(require_approval=is_approval))
    if not is_approval:
        driver.observe(KillSwitchRead(is_on=True))
    send(driver, alter({0: (3, 4)}))
    assert errors(answers(driver)[0]) == {0: kafka_errors.POLICY_VIOLATION}
    assert not submissions(driver)


@pytest.mark.parametrize("is_approval", [True, False], ids=["approval", "kill switch"])
def test_what_forbids_requests_forbids_no_cancellation(*, is_approval: bool) -> None:
    """As with the daemon's own command."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    if is_approval:
        driver.view.options = replace(driver.view.options, require_approval=True)
    else:
        driver.observe(KillSwitchRead(is_on=True))
    send(driver, alter({0: None}))
    assert [s.cancelled for s in submissions(driver)] == [{tp()}]


def test_failed_write_is_reported() -> None:
    """The tool learns that nothing will happen."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    done = SubmittedReassignments(None, None, "ZooKeeper does not allow it")
    driver.observe(ReassignmentsSubmitted(1, done))
    (answer,) = answers(driver)
    assert isinstance(answer, AlterReassignmentsAnswer)
    (result,) = answer.results
    assert (result.error, result.message) == (-1, "ZooKeeper does not allow it")


@pytest.mark.parametrize("is_read_first", [False, True])
def test_entry_that_is_refused_after_its_submission_is_an_error(*, is_read_first: bool) -> None:
    """Also where its request has ended before the write of it is reported."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    send(driver, alter({0: (5, 6)}))
    found = Submission(NAME, submissions(driver)[-1].targets, ZkVersion(0), Zxid(60), 1000)
    written = ReassignmentsSubmitted(1, SubmittedReassignments(RequestId(NAME), None))
    read = (SubmissionsListed(frozenset({NAME})), SubmissionsRead({NAME: found}))
    driver.observe(*((*read, written) if is_read_first else (written, *read)))
    pass_time(driver, 1.0)
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4)
    assert [errors(a) for a in answers(driver)] == [{0: kafka_errors.POLICY_VIOLATION}]


def test_entries_of_a_request_that_is_refused_as_a_whole_are_errors() -> None:
    """Its refusal names no partition."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    driver.observe(KillSwitchRead(is_on=True))
    submitted(driver)
    assert [errors(a) for a in answers(driver)] == [{0: kafka_errors.POLICY_VIOLATION}]


def test_an_entry_that_is_accepted_is_no_error_where_the_others_are_refused_together() -> None:
    """The refusal without a partition is one of those that were not decided yet."""
    driver = Driver({tp(0): (1, 2), tp(0, "u"): (1, 2)}, answers_topics=False)
    driver.view.topics.configs.pop("u")
    wanted = {tp(0): replicas(3, 4), tp(0, "u"): replicas(3, 4)}
    send(driver, AlterReassignments(wanted, "a tool"))
    submitted(driver)
    assert tp(0) in driver.view.reassignments.by_partition
    driver.observe(KillSwitchRead(is_on=True))
    pass_time(driver, 1.0)
    (answer,) = answers(driver)
    assert isinstance(answer, AlterReassignmentsAnswer)
    found = {r.partition.topic: r.error for r in answer.results}
    assert found == {"t": 0, "u": kafka_errors.POLICY_VIOLATION}


def test_a_request_is_answered_for_itself_where_the_cancellation_beside_it_fails() -> None:
    """The reassignments are durable, and are carried out."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=1))
    driver.submit({tp(1): (4, 5)})
    send(driver, alter({0: (3, 4), 1: None}))
    found = Submission(NAME, submissions(driver)[-1].targets, ZkVersion(0), Zxid(60), 1000)
    driver.observe(SubmissionsListed(frozenset({NAME})), SubmissionsRead({NAME: found}))
    done = SubmittedReassignments(RequestId(NAME), None, "the session is suspended")
    driver.observe(ReassignmentsSubmitted(1, done))
    assert [errors(a) for a in answers(driver)] == [{0: 0, 1: kafka_errors.UNKNOWN_SERVER_ERROR}]


def test_cancelling_leads_back_and_is_answered_when_it_is_reversed() -> None:
    """Null replicas cancel (KIP-455)."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    submitted(driver)
    send(driver, alter({0: None}), 2)
    assert submissions(driver)[-1].cancelled == {tp()}
    assert not answers(driver, 2)
    submitted(driver, 2)
    assert [errors(a) for a in answers(driver, 2)] == [{0: 0}]
    running = driver.view.reassignments.by_partition.get(tp())
    assert running is None or running.spec.target == replicas(1, 2)


def test_cancelling_is_answered_when_the_added_replicas_are_dropped() -> None:
    """The list is empty then, as with Kafka's controller."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (1, 2, 3)}))
    submitted(driver)
    driver.acknowledges = False
    send(driver, alter({0: None}), 2)
    submitted(driver, 2)
    assert driver.view.reassignments.by_partition[tp()].spec.rolls_back
    assert not answers(driver, 2)
    driver.acknowledge(tp(), (BrokerId(1),))
    driver.settle()
    for delete in (False, True):
        driver.acknowledge_stop(tp(), (BrokerId(3),), delete=delete)
    assert [errors(a) for a in answers(driver, 2)] == [{0: 0}]
    send(driver, ListReassignments(None), 3)
    assert answers(driver, 3) == [ListReassignmentsAnswer(0)]


def test_cancelling_is_answered_although_a_broker_hangs() -> None:
    """The reversal is durable."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (1, 2, 3)}))
    submitted(driver)
    driver.acknowledges = False
    send(driver, alter({0: None}), 2)
    submitted(driver, 2)
    pass_time(driver, DROP_S - 1.0)
    assert not answers(driver, 2)
    pass_time(driver, 1.0)
    assert [errors(a) for a in answers(driver, 2)] == [{0: 0}]


def test_cancelling_what_is_idle_is_an_error() -> None:
    """NO_REASSIGNMENT_IN_PROGRESS, and nothing is written."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: None, 9: None}))
    idle = kafka_errors.NO_REASSIGNMENT_IN_PROGRESS
    unknown = kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(answers(driver)[0]) == {0: idle, 9: unknown}
    assert not submissions(driver)


def test_cancelling_that_cannot_be_done_is_reported() -> None:
    """No original replica is in sync: the partition would go offline."""
    driver = Driver({tp(): (1, 2)})
    send(driver, alter({0: (3, 4)}))
    submitted(driver)
    driver.catch_up(tp())
    driver.change_isr(tp(), replicas(3))
    send(driver, alter({0: None}), 2)
    submitted(driver, 2)
    answered = errors(answers(driver, 2)[0])
    assert answered == {0: kafka_errors.OPERATION_NOT_ATTEMPTED}


# --- ListPartitionReassignments ------------------------------------------------------------------


def listed(driver: Driver, *partitions: int, ticket: int = 50) -> list[OngoingReassignment]:
    """Return what a client sees."""
    chosen = frozenset(map(tp, partitions)) if partitions else None
    send(driver, ListReassignments(chosen), ticket)
    (answer,) = answers(driver, ticket)
    assert isinstance(answer, ListReassignmentsAnswer)
    assert answer.error == 0
    return list(answer.reassignments)


def test_pending_reassignment_is_listed_with_its_last_target() -> None:
    """Kafka's tool would report one that is not listed as ended, at the wrong replicas."""
    driver = Driver({tp(n): (1, 2) for n in range(2)}, options=Options(max_partitions_in_flight=1))
    assert listed(driver) == []
    driver.submit({tp(0): (3, 4), tp(1): (4, 5)})
    assert driver.view.reassignments.by_partition[tp(1)].begun is False
    whole = [
        OngoingReassignment(tp(0), replicas(3, 4, 1, 2), replicas(3, 4), replicas(1, 2)),
        OngoingReassignment(tp(1), replicas(4, 5, 1, 2), replicas(4, 5), replicas(1, 2)),
    ]
    assert sorted(listed(driver, ticket=51)) == whole
    assert listed(driver, 1, ticket=52) == whole[1:]


def test_new_order_of_the_same_replicas_is_listed() -> None:
    """Nothing is added or removed, and it is not done."""
    driver = Driver({tp(n): (1, 2) for n in range(2)}, options=Options(max_partitions_in_flight=1))
    driver.submit({tp(0): (3, 4), tp(1): (2, 1)})
    assert listed(driver, 1) == [OngoingReassignment(tp(1), replicas(2, 1), (), ())]


def test_reassignment_that_is_not_adopted_for_long_is_listed() -> None:
    """Kafka's tool would report it as ended."""
    driver = Driver({tp(): (1, 2)})
    moving = PartitionAssignment(replicas(3, 1, 2), replicas(3), replicas(1))
    driver.view.topics.by_name["t"].partitions[0] = moving
    driver.view.reassignments_tenure.may_have_foreign = True
    send(driver, ListReassignments(None))
    assert not answers(driver)
    pass_time(driver, PATIENCE_S)
    ongoing = OngoingReassignment(tp(), replicas(3, 2, 1), replicas(3), replicas(1))
    assert answers(driver) == [ListReassignmentsAnswer(0, (ongoing,))]


# --- ElectLeaders --------------------------------------------------------------------------------


@pytest.mark.parametrize("unread", ["topic", "state"])
def test_election_waits_for_what_is_still_to_be_read(unread: str) -> None:
    """After a claim the partitions exist, and their states are not known yet."""
    driver = Driver({tp(): (1, 2)}, leaders={tp(): 2}, answers_topics=False)
    known = driver.view.leadership.states.pop(tp())
    if unread == "topic":
        driver.view.leadership.states[tp()] = known
        driver.view.topics.by_name["t"].invalidate(driver.view.role.read_generation + 1)
    send(driver, ElectLeaders(None, 4.0))
    pass_time(driver, 1.0)
    assert not answers(driver)
    pass_time(driver, 1.0)
    assert [errors(a) for a in answers(driver)] == [{0: kafka_errors.REQUEST_TIMED_OUT}]


def test_leader_is_elected_and_acknowledged_before_the_answer() -> None:
    """An answer means that clients will find the leader."""
    driver = Driver({tp(): (1, 2)}, leaders={tp(): 2}, acknowledges=False)
    send(driver, ElectLeaders((tp(),), 30.0))
    assert driver.view.leadership.states[tp()].leader == BrokerId(1)
    assert not answers(driver)
    driver.acknowledge(tp(), (BrokerId(1),))
    driver.settle()
    assert [errors(a) for a in answers(driver)] == [{0: 0}]
    assert not driver.view.calls.electing


def test_election_errors_are_those_of_kafka() -> None:
    """Per partition; elections that are needed are held beside them."""
    driver = Driver(
        {tp(0): (1, 2), tp(1): (9, 2), tp(2): (1, 2)},
        leaders={tp(1): 2, tp(2): 2},
        brokers=(1, 2, 3),
    )
    send(driver, ElectLeaders((tp(0), tp(1), tp(2), tp(7)), 30.0))
    pass_time(driver, 1.0)
    assert errors(answers(driver)[0]) == {
        0: kafka_errors.ELECTION_NOT_NEEDED,
        1: kafka_errors.PREFERRED_LEADER_NOT_AVAILABLE,
        2: 0,
        7: kafka_errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    texts = {r.partition.partition: r.message for r in answers(driver)[0].results}  # type: ignore[attr-defined] # as above
    assert texts[1] == (
        "Failed to elect leader for partition t-1 under strategy "
        "PreferredReplicaPartitionLeaderElectionStrategy"
    )


def test_election_for_all_names_only_what_is_needed() -> None:
    """Null partitions: all of them (KIP-460)."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, leaders={tp(1): 2})
    send(driver, ElectLeaders(None, 30.0))
    pass_time(driver, 1.0)
    assert errors(answers(driver)[0]) == {1: 0}


def test_election_that_takes_too_long_times_out() -> None:
    """By the timeout of the request; the election itself is not withdrawn."""
    driver = Driver({tp(): (1, 2)}, leaders={tp(): 2}, acknowledges=False)
    send(driver, ElectLeaders((tp(),), 3.0))
    pass_time(driver, 2.0)
    assert not answers(driver)
    pass_time(driver, 1.0)
    assert [errors(a) for a in answers(driver)] == [{0: kafka_errors.REQUEST_TIMED_OUT}]


def keep(driver: Driver, *ids: int) -> None:
    """Let these brokers be all that are live."""
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in ids}))


@pytest.mark.parametrize("unclean", [True, False])
def test_unclean_leader_is_elected_for_a_client_alone(*, unclean: bool) -> None:
    """Whatever the settings of the topic are; a preferred election takes no such replica."""
    driver = Driver({tp(): (1, 2)})
    driver.change_isr(tp(), replicas(1))
    keep(driver, 2)
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    send(driver, ElectLeaders((tp(),), 30.0, is_unclean=unclean))
    state = driver.view.leadership.states[tp()]
    if unclean:
        assert (state.leader, state.isr) == (BrokerId(2), (BrokerId(2),))
        assert [errors(a) for a in answers(driver)] == [{0: 0}]
    else:
        assert (state.leader, state.isr) == (NO_LEADER, (BrokerId(1),))
        unavailable = kafka_errors.PREFERRED_LEADER_NOT_AVAILABLE
        assert [errors(a) for a in answers(driver)] == [{0: unavailable}]


def test_unclean_election_prefers_what_is_in_sync() -> None:
    """The leader's death and the request are seen at once."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.change_isr(tp(), replicas(1, 3))
    keep(driver, 2, 3)
    send(driver, ElectLeaders(None, 30.0, is_unclean=True))
    assert driver.view.leadership.states[tp()].leader == BrokerId(3)
    assert [errors(a) for a in answers(driver)] == [{}]


def test_unclean_election_is_refused_where_it_is_needless_or_impossible() -> None:
    """And none follows when a replica returns after the refusal."""
    driver = Driver({tp(0): (1, 2), tp(1): (3, 2)})
    driver.change_isr(tp(1), replicas(3))
    keep(driver, 1)
    send(driver, ElectLeaders((tp(0), tp(1), tp(7)), 30.0, is_unclean=True))
    assert errors(answers(driver)[0]) == {
        0: kafka_errors.ELECTION_NOT_NEEDED,
        1: kafka_errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        7: kafka_errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    keep(driver, 1, 2)
    pass_time(driver, 1.0)
    assert driver.view.leadership.states[tp(1)].leader == NO_LEADER


# --- the role ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ElectLeaders((), 1.0), ElectLeadersAnswer(41)),
        (alter({0: (3, 4)}), AlterReassignmentsAnswer(41)),
        (ListReassignments(None), ListReassignmentsAnswer(41)),
        (CedeRole("CreateTopics"), CedeRoleAnswer(41)),
    ],
)
def test_only_the_controller_answers(request_: RequestFromClient, expected: ClientAnswer) -> None:
    """Not one that a newer controller fenced."""
    driver = Driver({tp(): (1, 2)})
    driver.view.tenure.fenced = "a test"
    send(driver, request_)
    assert answers(driver) == [expected]
    assert not submissions(driver)


def test_role_is_given_back_for_a_client_and_claimed_again_later() -> None:
    """Also with work left, but not before the tenure lasted a while."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (3, 4)})
    send(driver, CedeRole("CreateTopics"))
    assert not any(isinstance(e, ResignController) for e in driver.sent)
    driver.now = Instant(driver.now + CEDE_AFTER_S)
    driver.observe(TimerFired("cede"))
    assert sum(isinstance(e, ResignController) for e in driver.sent) == 1
    assert not answers(driver)
    driver.sent.clear()
    driver.observe(Deposed("resigned"), *driver.own_records())
    driver.now = Instant(driver.now + CEDED_S - 0.1)
    driver.observe(TimerFired("claim"))
    assert not any(isinstance(e, ClaimController) for e in driver.sent)
    driver.now = Instant(driver.now + 0.1)
    driver.observe(TimerFired("claim"))
    assert any(isinstance(e, ClaimController) for e in driver.sent)


@pytest.mark.parametrize("is_written", [True, False])
def test_role_is_kept_for_a_client_that_waits_for_what_is_written(*, is_written: bool) -> None:
    """Else the client gets NOT_CONTROLLER, and the next tenure carries out the request."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=5.0))
    since = driver.view.tenure.idle_since
    assert since is not None
    driver.now = Instant(since + 4.9)
    send(driver, alter({0: (3, 4)}))
    driver.now = Instant(since + CEDE_AFTER_S - 1.0)
    driver.observe(ClientRequestReceived(2, CedeRole("UpdateFeatures"), driver.permission))
    driver.now = Instant(since + CEDE_AFTER_S)
    driver.observe(TimerFired(LINGER_TIMER), TimerFired(CEDE_TIMER))
    assert not any(isinstance(e, ResignController) for e in driver.sent)
    if is_written:
        submitted(driver)
        assert [errors(a) for a in answers(driver)] == [{0: 0}]
    else:
        driver.now = Instant(driver.now + CEDE_WITHIN_S)
    driver.observe(TimerFired(CEDE_TIMER))
    assert any(isinstance(e, ResignController) for e in driver.sent)


def test_nothing_is_answered_before_a_broker_accepted_the_tenure() -> None:
    """Until then another controller may be newer."""
    driver = Driver({tp(): (1, 2)}, accepts=False)
    send(driver, ListReassignments(None))
    assert not answers(driver)
    driver.observe(UpdateMetadataAnswered(BrokerId(1), driver.epoch(BrokerId(1)), 0))
    pass_time(driver, 1.0)
    assert len(answers(driver)) == 1
