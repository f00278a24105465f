"""The first step of an approved entry begins only from the replicas that were approved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core import model
from controller.core.effects import AlterReassignment
from controller.core.model import RefusalReason, RequestId, Route, TopicAssignment, ZkVersion
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.requests.submissions import Standing, standing_of
from controller.core.topics.records import AssignmentRecord, TopicsRead
from tests.core.builders import Driver, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_approved import GO_ON, PAUSED, approved, drifted, reasons, specs
from tests.core.requests.test_submitted import submit


def spec(**facts: object) -> model.ReassignmentSpec:
    """Return the record of an approved entry: 1,2 to 3,4."""
    named: dict[str, object] = {"expected": replicas(1, 2), "version": ZkVersion(0), **facts}
    return model.ReassignmentSpec(
        replicas(3, 4),
        replicas(1, 2),
        RequestId("request_0000000000"),
        Route.REQUEST,
        **named,  # type: ignore[arg-type]
    )


def at(*ids: int, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> object:
    """Return an assignment."""
    return model.PartitionAssignment(replicas(*ids), replicas(*adding), replicas(*removing))


@pytest.mark.parametrize(
    ("assignment", "requested", "standing"),
    [
        (at(1, 2), None, Standing.UNCHANGED),
        (at(3, 4), None, Standing.UNCHANGED),
        (at(2, 1), None, Standing.DRIFTED),
        (at(1, 2, 5, adding=(5,)), None, Standing.DRIFTED),
        (at(1, 2, removing=(1,)), None, Standing.DRIFTED),
        (at(3, 1, 2, adding=(3,)), (3, 1, 2), Standing.BEGUN),
        (at(3, 1, 2), (3, 1, 2), Standing.BEGUN),
        (at(3, 1, 5, adding=(3,)), (3, 1, 5), Standing.DRIFTED),
        (at(3, 1, 2, adding=(3, 2)), (3, 1, 2), Standing.DRIFTED),
    ],
)
def test_the_standing_follows_from_the_topic_znode(
    assignment: model.PartitionAssignment, requested: tuple[int, ...] | None, standing: Standing
) -> None:
    """Approved replicas, the target, the step that was asked for; anything else is a drift."""
    named = None if requested is None else replicas(*requested)
    assert standing_of(spec(asked=named), assignment) is standing
    assert standing_of(spec(expected=None), assignment) is Standing.BEGUN


def test_the_approval_is_used_in_the_transaction_of_the_first_step() -> None:
    """It writes the topic znode at the version that shows the approved replicas."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    first = next(
        c for c in driver.changes if any(isinstance(r, AssignmentRecord) for r in c.records)
    )
    (used,) = (r.spec for r in first.records if isinstance(r, SpecRecord))
    assert (used.expected, used.version) == (None, 0)
    assert [s.expected for s in specs(driver)] == [(1, 2), None]


@pytest.mark.parametrize("kind", [Driver, DelegatedDriver])
def test_a_pending_entry_whose_partition_drifts_is_refused_and_nothing_moves(
    kind: type[Driver],
) -> None:
    """The refusal counts as the end of an accepted entry."""
    driver = kind({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    driver.observe(drifted(driver, 2, 1))
    driver.observe(GO_ON)
    assert reasons(driver) == [RefusalReason.DRIFTED]
    assert driver.view.reassignments.by_partition == {}
    assert driver.history[tp()] == []
    assert not any(isinstance(effect, AlterReassignment) for effect in driver.sent)
    ended = [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]
    assert [(r.outcome, r.stands) for r in ended] == [("drifted", True)]


def test_a_partition_that_another_client_reassigns_is_left_to_it() -> None:
    """The native engine carries the foreign step out, as the cluster's controller does."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    topic = driver.view.topics.by_name["t"]
    theirs = model.PartitionAssignment(replicas(1, 2, 5), replicas(5), replicas(1))
    driver.observe(
        TopicsRead({"t": TopicAssignment({0: theirs}, ZkVersion(topic.version + 1), topic.czxid)})
    )
    assert reasons(driver) == [RefusalReason.DRIFTED]
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.FOREIGN


def test_a_found_record_that_drifted_is_refused_at_a_claim() -> None:
    """A partition between two replicas lists is otherwise taken for one that is part-way."""
    driver = Driver({tp(): (1, 3)})
    driver.adopt({tp(): spec()})
    assert reasons(driver) == [RefusalReason.DRIFTED]
    assert driver.history[tp()] == []


def test_a_found_record_without_approved_replicas_continues_part_way() -> None:
    """Its first step began: the difference is its own."""
    driver = Driver({tp(): (1, 3)})
    driver.adopt({tp(): spec(expected=None)})
    driver.run(tp())
    assert driver.passed(tp())[-1] == (3, 4)


# --- delegated -----------------------------------------------------------------------------------


def test_the_delegated_first_step_is_recorded_before_it_is_sent() -> None:
    """It may be carried out when no daemon reads the topic znode."""
    driver = DelegatedDriver({tp(): (1, 2)})
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    first = next(
        c for c in driver.changes if any(isinstance(e, AlterReassignment) for e in c.effects)
    )
    (requested,) = (r.spec for r in first.records if isinstance(r, SpecRecord))
    assert (requested.expected, requested.asked) == ((1, 2), driver.orders[0][0])
    driver.run(tp())
    assert driver.assignment(tp()).replicas == (3, 4)
    assert specs(driver)[-1].expected is None
    assert reasons(driver) == []


@pytest.mark.parametrize("ends_step", [False, True])
def test_another_daemon_knows_the_first_step_that_was_sent(ends_step: bool) -> None:  # noqa: FBT001
    """Whether it is under way or over when the daemon begins."""
    driver = DelegatedDriver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    known = driver.view.reassignments.by_partition[tp()]
    known.spec = replace(known.spec, asked=replicas(1, 2, 3))
    topic = driver.view.topics.by_name["t"]
    step = model.PartitionAssignment(replicas(1, 2, 3), replicas(3))
    driver.fold(
        TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(topic.version + 1), topic.czxid)})
    )
    driver.replace_daemon(ends_step=ends_step)
    driver.observe(GO_ON)
    driver.run(tp())
    assert reasons(driver) == []
    assert driver.assignment(tp()).replicas == (3, 4)


def test_an_unanswered_request_is_taken_back_before_a_drift_is_refused() -> None:
    """After a restart an earlier daemon's request may still be carried out."""
    driver = DelegatedDriver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    driver.fold(drifted(driver, 2, 1))
    driver.replace_daemon(ends_step=False)
    driver.observe(GO_ON)
    assert driver.orders == [((2, 1), True)]
    assert reasons(driver) == [RefusalReason.DRIFTED]
    assert driver.view.reassignments.by_partition == {}
    assert driver.assignment(tp()).replicas == (2, 1)
