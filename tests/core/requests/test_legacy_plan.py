"""The content of the legacy znode, as a broker that becomes the controller finds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import LegacyMode, Options
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ClaimController, ResignController
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicConfig,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.requests.legacy_plan_and_queue import has_undecided
from controller.core.requests.records import (
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    LegacyPlanRead,
)
from controller.core.requests.submissions import Cancellation
from controller.core.role.records import ControllerClaimed, Deposed, ShutdownRequested
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from tests.core.builders import EPOCH, Driver, plan, replicas, tp
from tests.core.requests.test_submitted import outcomes


def in_flight(options: Options | None = None) -> Driver:
    """Return a partition in the first of several steps."""
    driver = Driver({tp(): (0, 1, 2)}, options=options or Options())
    driver.submit({tp(): (3, 4, 5)})
    assert driver.view.reassignments.by_partition[tp()].in_flight
    return driver


def resigned(driver: Driver) -> bool:
    """Return whether the role is being given back."""
    return any(isinstance(effect, ResignController) for effect in driver.sent)


def listed(driver: Driver) -> list[object]:
    """Return the partitions in the legacy znode."""
    assert driver.view.requests.legacy is not None
    return list(driver.view.requests.legacy.entries)


def test_between_two_steps_an_entry_is_taken_out_before_the_role_is_given_back() -> None:
    """Else the broker that deletes the topic would start the rest of the plan whole."""
    driver = in_flight()
    driver.observe(DeletionsRead(frozenset({"other"})))
    assert not resigned(driver)
    assert listed(driver) == [tp()]
    driver.catch_up(tp())
    assert resigned(driver)
    assert listed(driver) == []
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4, 5)


def test_what_is_in_flight_stays_listed_when_the_daemon_stops() -> None:
    """The broker that takes over finishes it."""
    driver = in_flight()
    driver.observe(ShutdownRequested())
    assert resigned(driver)
    assert listed(driver) == [tp()]


def test_an_entry_whose_topic_is_deleted_meanwhile_is_counted_once() -> None:
    """It was accepted, and is reported once, as an entry that was not carried out."""
    driver = in_flight()
    driver.observe(TopicsListed(frozenset()), TopicsRead({"t": None}))
    driver.observe(LegacyPlanRead(None))
    assert driver.view.reassignments.by_partition == {}
    (summary,) = outcomes(driver).values()
    assert (summary.total, summary.done, len(summary.refused)) == (1, 0, 1)


def half_way(route: Route) -> Driver:
    """Return a paused daemon; one before it left a partition between its steps."""
    name = RequestId("legacy-0000000000000032" if route is Route.LEGACY else "request_0000000000")
    driver = Driver({tp(): (0, 2, 3)})
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("night")))))
    spec = ReassignmentSpec(replicas(3, 4, 5), replicas(0, 1, 2), name, route, ZkVersion(0))
    driver.adopt({tp(): spec})
    assert not driver.view.reassignments.by_partition[tp()].in_flight
    return driver


def test_what_an_earlier_daemon_left_half_way_is_not_dropped_as_not_begun() -> None:
    """An operator that takes the plan away leaves what began to go on."""
    driver = half_way(Route.LEGACY)
    driver.observe(LegacyPlanRead(plan({tp(9): (1,)}, czxid=50)))
    driver.observe(LegacyPlanRead(None))
    assert tp() in driver.view.reassignments.by_partition


@pytest.mark.parametrize("has_begun", [True, False])
def test_what_another_controller_began_is_not_dropped_as_not_begun(*, has_begun: bool) -> None:
    """It began before our claim; whether it did is known when the topic was read."""
    options = Options(legacy_mode=LegacyMode.MIRROR)
    driver = Driver({tp(): (0, 1, 2)}, options=options, answers_topics=False)
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("night")))))
    driver.submit({tp(): (0, 1, 3)})
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("x"))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(*driver.own_records()[1:], LegacyPlanRead(plan({tp(): (0, 1, 3)})))
    driver.observe(LegacyPlanRead(None))
    spec = driver.view.reassignments.by_partition[tp()].spec
    plain = PartitionAssignment(replicas(0, 1, 2))
    begun = PartitionAssignment(replicas(0, 1, 3, 2), replicas(3), replicas(2))
    found = TopicAssignment({0: begun if has_begun else plain}, ZkVersion(1), Zxid(9))
    driver.observe(TopicsRead({"t": found}), StatesRead(known))
    assert (tp() in driver.view.reassignments.by_partition) is has_begun
    if has_begun:
        assert driver.view.reassignments.by_partition[tp()].spec == spec


def edited() -> Driver:
    """Return a daemon that waits with an entry, of which an operator just asked something else."""
    driver = half_way(Route.LEGACY)
    driver.view.topics.configs.clear()
    driver.observe(LegacyPlanRead(plan({tp(): (5, 4, 3)}, czxid=50)))
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4, 5)
    return driver


def test_an_edit_that_was_not_judged_stays_listed_when_the_daemon_stops() -> None:
    """What is recorded is the older order: taken out, the newer one would be lost (seed 21012)."""
    driver = edited()
    driver.observe(ShutdownRequested())
    assert resigned(driver)
    assert listed(driver) == [tp()]


def test_the_role_is_not_given_back_before_an_edit_is_judged() -> None:
    """A broker would start it, while the older order stands in our records."""
    driver = edited()
    driver.observe(DeletionsRead(frozenset({"other"})))
    assert not resigned(driver)


def test_an_entry_taken_out_of_a_plan_does_not_end_the_way_back_of_another_plan() -> None:
    """
    What goes back has no entry any more; the new plan's was not accepted yet (seed 708).

    Nor is its state read yet: that it is in flight is unknown.
    """
    driver = Driver({tp(): (2, 1, 4), tp(1): (1, 2)})
    spec = ReassignmentSpec(
        replicas(4, 5),
        replicas(4, 5),
        RequestId("legacy-0000000000000032"),
        Route.LEGACY,
        ZkVersion(1),
        RequestId("cancel-0000000000000040"),
        frozenset(replicas(1)),
    )
    driver.observe(Deposed("a new process"))
    driver.observe(
        SpecsRead({tp(): spec}, {}),
        OrphansRead(frozenset()),
        HistoryRead({}, {}),
        AppliedThrottlesRead({}),
    )
    driver.observe(ControllerClaimed(ControllerEpoch(8)))
    driver.view.topics.configs.clear()
    driver.observe(LegacyPlanRead(plan({tp(): (3, 5), tp(1): (1, 3)})))
    assert driver.view.reassignments.by_partition[tp()].spec == spec
    driver.observe(LegacyPlanRead(replace(plan({tp(1): (1, 3)}), version=ZkVersion(1))))
    assert driver.view.reassignments.by_partition[tp()].spec == spec


def test_a_reassignment_of_an_earlier_daemon_continues_while_disabled() -> None:
    """The kill switch keeps first steps from being made."""
    driver = half_way(Route.REQUEST)
    driver.observe(KillSwitchRead(is_on=True))
    driver.observe(ControlsRead(Controls()))
    assert driver.view.reassignments.by_partition[tp()].in_flight


def test_mirrored_entries_stay_listed() -> None:
    """That is what the mode is for."""
    driver = in_flight(Options(legacy_mode=LegacyMode.MIRROR))
    driver.observe(DeletionsRead(frozenset({"other"})))
    driver.catch_up(tp())
    assert resigned(driver)
    assert listed(driver) == [tp()]


def test_the_role_is_not_given_back_before_a_plan_is_accepted() -> None:
    """Only an accepted entry can be taken out; its topic's settings are still being read."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.view.topics.configs.clear()
    driver.submit({tp(): (3, 4, 5)})
    driver.observe(DeletionsRead(frozenset({"other"})))
    assert not resigned(driver)
    driver.view.topics.config_errors["t"] = "no broker answers"
    driver.view.due.tenure = True
    driver.settle()
    assert resigned(driver)


def test_a_plan_right_after_an_idle_hand_back_is_claimed_at_once() -> None:
    """The pause after a lost role would leave the whole plan to the broker that has it now."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=0.0))
    driver.view.due.tenure = True
    driver.settle()
    driver.view.due.tenure = True
    driver.settle()
    assert resigned(driver)
    driver.observe(Deposed("resigned"))
    driver.observe(*driver.own_records())
    driver.now = Instant(driver.now + 0.1)
    driver.observe(LegacyPlanRead(plan({tp(): (2, 1)})))
    assert isinstance(driver.sent[-1], ClaimController)


@pytest.mark.parametrize(
    ("step", "isr", "target"),
    [(((0, 2, 1), (2,), (1,)), (0, 1), (0, 2)), (((0, 1, 3, 2), (3,), (2,)), (0, 1, 2), (0, 1, 3))],
)
def test_a_step_that_was_found_keeps_its_copies_until_the_new_one_is_there(
    step: tuple[tuple[int, ...], ...], isr: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """A Kafka controller begins without dropping; neither do we where that costs a copy."""
    found = PartitionAssignment(*(replicas(*ids) for ids in step))
    driver = Driver({tp(): isr})
    driver.observe(Deposed("a broker is the controller"), *driver.own_records())
    driver.observe(TopicsRead({"t": TopicAssignment({0: found}, ZkVersion(1), Zxid(9))}))
    driver.submit({tp(): target})
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.submit({tp(): target})
    driver.observe(StatesRead(driver.first_states))
    assert driver.view.reassignments.by_partition[tp()].in_flight
    assert driver.view.leadership.states[tp()].isr == replicas(*isr)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(*target))


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_entry_of_a_partition_that_its_topic_was_made_anew_without_ends(
    is_cancelled: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    """While a broker had the role; else nothing would ever be decided of it, and the role kept."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1)})
    driver.acknowledges = False
    driver.submit({tp(0): (2, 3), tp(1): (2, 3)})
    spec = driver.view.reassignments.by_partition[tp(1)].spec
    anew = TopicAssignment({0: PartitionAssignment(replicas(0))}, ZkVersion(0), Zxid(99))
    driver.observe(Deposed("given back for a deletion"))
    driver.observe(TopicsListed(frozenset()))
    driver.observe(TopicsListed(frozenset({"t"})), TopicsRead({"t": anew}))
    driver.observe(SpecsRead({tp(1): spec}, {}), *driver.own_records()[1:], LegacyPlanRead(None))
    driver.acknowledges = True
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)), LegacyPlanRead(None))
    if is_cancelled:
        driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(100), 0)))
        assert driver.view.requests.cancellation is None
    assert driver.view.reassignments.by_partition == {}
    refused = outcomes(driver)[spec.request].refused
    assert [r.detail for r in refused] == ["the topic was deleted and created again"]


def test_an_entry_ends_when_its_topic_loses_the_partition_in_the_tenure() -> None:
    """The same, seen by the watch of the topic."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1)})
    driver.submit({tp(1): (2, 3)})
    anew = TopicAssignment({0: PartitionAssignment(replicas(0))}, ZkVersion(0), Zxid(99))
    driver.observe(TopicsRead({"t": anew}))
    assert driver.view.reassignments.by_partition == {}


@pytest.mark.parametrize("limit", [0, 1], ids=["waiting", "in flight"])
def test_an_entry_ends_when_its_topic_was_made_anew_and_deleted_before_it_was_read(
    limit: int,
) -> None:
    """Nothing is known then of the topic that could be forgotten with its partitions."""
    driver = Driver({tp(): (0, 1)}, options=Options(max_partitions_in_flight=limit))
    driver.answers_topics = False
    driver.submit({tp(): (2, 3)})
    assert driver.view.reassignments.by_partition[tp()].in_flight == bool(limit)
    driver.observe(TopicsListed(frozenset()), TopicsListed(frozenset({"t"})))
    assert tp() in driver.view.reassignments.by_partition
    driver.observe(TopicsRead({"t": None}))
    assert tp() in driver.view.reassignments.by_partition, "the listing may be younger"
    driver.observe(TopicsRead({"t": None}))
    assert driver.view.reassignments.by_partition == {}


PLAN = 50
"""When the plan came, in zxids."""


def begun_by_kafka_2_3(
    *known: tuple[int, ...], found: tuple[int, ...], written: int, is_marked: bool = False
) -> Driver:
    """Return a tenure over a partition as it was seen, then found with a plan [3, 4] in force."""
    driver = Driver({tp(): known[0]} if known else {}, brokers=(1, 2, 3, 4))
    states = dict(driver.view.leadership.states)
    driver.observe(Deposed("idle"), *driver.own_records())
    read = {0: PartitionAssignment(replicas(*found))}
    topic = TopicAssignment(read, ZkVersion(1), Zxid(9), None, Zxid(written), is_marked)
    driver.observe(TopicsListed(frozenset({"t"})), TopicsRead({"t": topic}))
    driver.observe(LegacyPlanRead(plan({tp(): (3, 4)}, PLAN)))
    driver.acknowledges = driver.answers_topics = False
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(LegacyPlanRead(plan({tp(): (3, 4)}, PLAN)), TopicsRead({"t": topic}))
    first = PartitionState(
        BrokerId(found[0]), LeaderEpoch(0), replicas(*found[:2]), ControllerEpoch(1), ZkVersion(0)
    )
    driver.observe(StatesRead(states or {tp(): first}))
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}))
    return driver


def original(driver: Driver) -> Replicas | None:
    """Return where the partition was, as our record has it."""
    return driver.view.reassignments.by_partition[tp()].spec.original


def test_a_union_that_kafka_2_3_wrote_is_no_original() -> None:
    """We saw what stood before: a cancellation leads back there."""
    driver = begun_by_kafka_2_3((1, 2), found=(1, 2, 3, 4), written=PLAN + 5)
    assert original(driver) == replicas(1, 2)


def test_the_original_of_a_union_that_was_found_with_its_plan_is_unknown() -> None:
    """A cancellation says so; it does not lead to the union."""
    driver = begun_by_kafka_2_3(found=(1, 2, 3, 4), written=PLAN + 5)
    assert original(driver) is None


@pytest.mark.parametrize(
    ("found", "written", "is_marked"),
    [((1, 2, 3, 4), PLAN - 5, False), ((1, 2, 3, 4), PLAN + 5, True), ((1, 2), PLAN + 5, False)],
    ids=["written before the plan", "not by Kafka 2.3", "not begun"],
)
def test_replicas_that_are_no_union_are_the_original(
    found: tuple[int, ...],
    written: int,
    is_marked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The plan takes some of them away, or is not begun."""
    driver = begun_by_kafka_2_3(found=found, written=written, is_marked=is_marked)
    assert original(driver) == replicas(*found)


def test_what_grew_before_the_plan_came_is_the_original() -> None:
    """An older plan of Kafka 2.3 ended there."""
    driver = begun_by_kafka_2_3((1, 2), found=(1, 2, 3, 4), written=PLAN - 5)
    assert original(driver) == replicas(1, 2, 3, 4)


def test_an_entry_whose_topic_znode_became_unreadable_is_refused() -> None:
    """Its topic was known before the claim; the entry would keep the role for ever else."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4), answers_topics=False)
    driver.observe(Deposed("a broker is the controller"), *driver.own_records())
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2, 4)})))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(TopicsRead({"t": "not valid JSON"}))
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2, 4)})))
    assert driver.view.topics.by_name["t"].stale
    refused = [r for request in driver.view.requests.by_id.values() for r in request.refused]
    assert [r.reason for r in refused] == [RefusalReason.UNREADABLE]
    assert not has_undecided(driver.view)
