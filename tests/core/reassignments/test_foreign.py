"""Foreign reassignments: reported, left alone, and their effect on ours by each setting."""

from __future__ import annotations

import pytest

from controller.core.core_settings import ForeignMoves
from controller.core.model import (
    FOREIGN,
    BlockedBy,
    OutcomeKind,
    PartitionAssignment,
    RefusalReason,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
)
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.requests.acceptance import spec_of
from controller.core.requests.entry_checks import PlanEntry
from controller.core.requests.records import RefusalRecord
from controller.core.topics.records import TopicsListed, TopicsRead
from tests.core.builders import replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver, delegated
from tests.core.requests.test_cancellation import CANCEL, cancel, has_ended
from tests.core.requests.test_submitted import outcomes, submission, submit

FIRST = RequestId("request_0000000000")
OURS, THEIRS = tp(0), tp(1)


def beside_a_move_of_others(policy: ForeignMoves) -> DelegatedDriver:
    """Return a daemon on a cluster with a foreign reassignment of the second partition."""
    driver = DelegatedDriver({OURS: (0, 1), THEIRS: (0, 1)}, options=delegated(policy))
    driver.order(THEIRS, replicas(2, 3))
    driver.settle()
    return driver


def ends(driver: DelegatedDriver) -> None:
    """Let the move of others end."""
    driver.change_isr(THEIRS, driver.assignment(THEIRS).replicas)


def test_a_move_of_others_is_followed_and_counted() -> None:
    """With its target, its original and its reason to wait; nothing is sent."""
    driver = beside_a_move_of_others(ForeignMoves.WAIT)
    followed = driver.view.reassignments.by_partition[THEIRS]
    assert followed.spec.route is Route.FOREIGN
    assert (followed.spec.original, followed.spec.target) == (replicas(0, 1), replicas(2, 3))
    assert followed.blocked is not None
    assert followed.blocked.by is BlockedBy.REPLICA_NOT_IN_ISR
    assert driver.view.pacing.in_flight == 0
    ends(driver)
    request = driver.view.requests.by_id[FOREIGN]
    assert (request.kind, request.total, request.done, request.open) == ("foreign", 1, 1, 0)
    assert driver.orders == []
    assert driver.wrote_for_kafka() == []


def test_ours_wait_until_others_have_ended() -> None:
    """The default: they share disks and networks."""
    driver = beside_a_move_of_others(ForeignMoves.WAIT)
    submit(driver, submission(FIRST, {OURS: (1, 2)}))
    blocked = driver.view.reassignments.by_partition[OURS].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.FOREIGN_MOVES
    ends(driver)
    driver.run(OURS)
    assert driver.assignment(OURS).replicas == (1, 2)


def test_ours_may_run_beside_those_of_others() -> None:
    """Only for the partition they move ours waits, and is not accepted before."""
    driver = beside_a_move_of_others(ForeignMoves.BESIDE)
    submit(driver, submission(FIRST, {OURS: (1, 2), THEIRS: (4, 5)}))
    driver.run(OURS)
    assert driver.assignment(OURS).replicas == (1, 2)
    assert driver.view.reassignments.by_partition[THEIRS].spec.route is Route.FOREIGN
    assert FIRST in {s.request for s in driver.view.requests_session.submissions.values()}
    ends(driver)
    driver.run(THEIRS)
    assert driver.assignment(THEIRS).replicas == (4, 5)
    assert outcomes(driver)[FIRST].done == 2


def test_what_is_submitted_meanwhile_may_be_refused() -> None:
    """With the reason; later ones are accepted."""
    driver = beside_a_move_of_others(ForeignMoves.REFUSE)
    submit(driver, submission(FIRST, {OURS: (1, 2)}))
    (refusal,) = outcomes(driver)[FIRST].refused
    assert refusal.reason is RefusalReason.FOREIGN_MOVE
    ends(driver)
    submit(driver, submission("request_0000000001", {OURS: (1, 2)}))
    driver.run(OURS)
    assert driver.assignment(OURS).replicas == (1, 2)


def test_adopted_a_move_of_others_is_like_one_of_ours() -> None:
    """It counts against the limits, a request takes it over, "everything" includes it."""
    driver = beside_a_move_of_others(ForeignMoves.ADOPT)
    assert driver.view.pacing.in_flight == 1
    submit(driver, submission(FIRST, {THEIRS: (2, 4)}))
    assert driver.orders[0] == (replicas(0, 1, 2), False)
    driver.run(THEIRS)
    assert driver.assignment(THEIRS).replicas == (2, 4)


def test_a_move_of_others_whose_topic_is_deleted_leaves_no_outcome() -> None:
    """It has no request, so no history is kept that would stay incomplete for ever."""
    driver = beside_a_move_of_others(ForeignMoves.WAIT)
    driver.observe(TopicsListed((driver.view.topics.listed or frozenset()) - {THEIRS.topic}))
    assert THEIRS not in driver.view.reassignments.by_partition
    records = [r for c in driver.changes for r in c.records]
    assert not [r for r in records if isinstance(r, RefusalRecord)]


def test_a_move_of_others_that_has_ended_is_not_undone_by_a_later_cancellation() -> None:
    """A request that is accepted before anybody looked at that comes from where they left it."""
    driver = beside_a_move_of_others(ForeignMoves.ADOPT)
    topic = driver.view.topics.by_name[THEIRS.topic]
    ended = {**topic.partitions, THEIRS.partition: PartitionAssignment(replicas(2, 3))}
    version = ZkVersion(topic.version + 1)
    driver.fold(TopicsRead({THEIRS.topic: TopicAssignment(ended, version, topic.czxid)}))
    assert driver.view.reassignments.by_partition[THEIRS].spec.route is Route.FOREIGN
    taken = spec_of(driver.view, PlanEntry(FIRST, THEIRS, replicas(2, 4)))
    assert taken.original == (2, 3)


@pytest.mark.parametrize("policy", ForeignMoves)
def test_a_move_of_others_is_cancelled_where_it_is_named(policy: ForeignMoves) -> None:
    """By the API's own cancel; the outcome counts it as gone back."""
    driver = beside_a_move_of_others(policy)
    cancel(driver, partitions=frozenset({THEIRS}))
    assert driver.orders == [(replicas(0, 1), True)]
    assert driver.assignment(THEIRS).replicas == (0, 1)
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.ROLLED_BACK: 1}


@pytest.mark.parametrize("policy", [p for p in ForeignMoves if p is not ForeignMoves.ADOPT])
def test_everything_does_not_include_the_moves_of_others(policy: ForeignMoves) -> None:
    """They asked for it, not we."""
    driver = beside_a_move_of_others(policy)
    cancel(driver)
    assert driver.orders == []
    assert driver.assignment(THEIRS).is_reassigning


def test_a_partition_of_ours_that_others_turn_elsewhere_is_left_to_them_meanwhile() -> None:
    """The newest entry wins in Kafka; ours continues when the foreign one has ended."""
    driver = DelegatedDriver({OURS: (0, 1)}, options=delegated(ForeignMoves.BESIDE))
    submit(driver, submission(FIRST, {OURS: (1, 2)}))
    driver.order(OURS, replicas(5, 6))
    driver.settle()
    blocked = driver.view.reassignments.by_partition[OURS].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.FOREIGN_MOVES
    assert len(driver.orders) == 1
    driver.change_isr(OURS, driver.assignment(OURS).replicas)
    driver.pass_time(61)
    driver.run(OURS)
    assert driver.assignment(OURS).replicas == (1, 2)


@pytest.mark.parametrize("target", [(2, 4), (1, 2), (2, 3, 4)])
def test_a_move_of_others_has_the_target_that_they_give_it(target: tuple[int, ...]) -> None:
    """It may become any other one, smaller or larger."""
    driver = beside_a_move_of_others(ForeignMoves.WAIT)
    driver.order(THEIRS, replicas(*target))
    driver.settle()
    assert driver.view.reassignments.by_partition[THEIRS].spec.target == replicas(*target)


def test_a_move_that_others_took_back_is_not_taken_for_ended() -> None:
    """What they wanted is not so."""
    driver = beside_a_move_of_others(ForeignMoves.WAIT)
    driver.order(THEIRS, None)
    driver.settle()
    assert THEIRS not in driver.view.reassignments.by_partition
    ended = [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]
    assert [r.outcome for r in ended] == ["cancelled by its client"]
