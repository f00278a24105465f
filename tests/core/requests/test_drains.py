"""Drains: partitions leave the drained brokers, and later ones follow, as long as they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ClaimController
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    LogDir,
    OutcomeKind,
    PartitionAssignment,
    RefusalReason,
    RequestId,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Drain, Drains, Pause, Pauses, Quiesce
from controller.core.pacing.drained_replicas import replicas_left
from controller.core.pacing.limits_in_force import throttle_of
from controller.core.pacing.records import (
    AppliedThrottlesRead,
    ControlsRead,
    DrainsEndedRecord,
)
from controller.core.requests.drain_targets import undrained
from controller.core.requests.drains import STOPPED
from controller.core.requests.model import Request
from controller.core.requests.outcomes import OpenHistory, Part
from controller.core.requests.records import (
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    PartRecord,
)
from controller.core.requests.submissions import Cancellation
from controller.core.role.records import BrokersRead, ControllerClaimed, Deposed
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from controller.znodes.paths import DRAINS
from tests.core.builders import EPOCH, Driver, broker, plan, replicas, tp
from tests.core.disks.reports import report
from tests.core.requests.test_submitted import outcomes, submission, submit

CZXID = 90
DRAIN = RequestId(f"drain-{CZXID:016x}")
SPREAD = {tp(n): ((n % 4) + 1, (n + 1) % 4 + 1) for n in range(8)}
"""Two replicas of each partition on brokers 1 to 4, four partitions with one on each."""


def drain(driver: Driver, *brokers: int, version: int = 0, pauses: Pauses | None = None) -> None:
    """Drain these brokers and no others."""
    drains = Drains(
        {BrokerId(b): Drain("disk swap", "ann", 5) for b in brokers},
        version=ZkVersion(version),
        czxid=Zxid(CZXID),
    )
    controls = Controls(pauses or Pauses(), drains=drains if brokers else Drains())
    driver.observe(ControlsRead(controls))


def cancel(driver: Driver, czxid: int = CZXID + 1, **selection: object) -> None:
    """Cancel; everything where nothing is selected."""
    read = Cancellation(ZkVersion(0), Zxid(czxid), 0, **selection)  # type: ignore[arg-type]
    driver.observe(CancellationRead(read))


def run_all(driver: Driver) -> None:
    """Let every reassignment end."""
    for _ in range(50):
        for partition in list(driver.view.reassignments.by_partition):
            driver.run(partition)
        if not driver.view.reassignments.by_partition:
            return
    raise AssertionError("they do not end")


def on(driver: Driver, broker_id: int) -> list[TopicPartition]:
    """Return the partitions with a replica on a broker."""
    assigned = driver.view.topics.assignments()
    return [p for p, a in assigned if BrokerId(broker_id) in a.replicas]


def left(driver: Driver) -> dict[TopicPartition, Blocked]:
    """Return what is not to leave the drained brokers, and why."""
    found = dict(undrained(driver.view, driver.now))
    return {partition: why for partition, why in found.items() if why is not None}


def request_of(driver: Driver) -> Request:
    """Return the request of the drains."""
    return driver.view.requests.by_id[DRAIN]


def grow(driver: Driver, topic: str, *assigned: Sequence[int], czxid: int = 9) -> None:
    """Let a topic have these partitions, written by another controller."""
    known = driver.view.topics.by_name.get(topic)
    version = ZkVersion(0 if known is None else known.version + 1)
    partitions = {n: PartitionAssignment(replicas(*ids)) for n, ids in enumerate(assigned)}
    listed = (driver.view.topics.listed or frozenset()) | {topic}
    driver.observe(
        TopicsListed(listed),
        TopicsRead({topic: TopicAssignment(partitions, version, Zxid(czxid))}),
        TopicConfigsRead({topic: TopicConfig(1, unclean_leader_election=False)}),
    )


def test_a_drained_broker_becomes_empty_and_the_others_stay_even() -> None:
    """Every replica goes where there are the fewest; nothing else moves."""
    driver = Driver(SPREAD, brokers=range(1, 6), min_isr=1)
    drain(driver, 2)
    assert request_of(driver).open == len([p for p, ids in SPREAD.items() if 2 in ids])
    run_all(driver)
    assert on(driver, 2) == []
    loads = Counter(int(r) for _, a in driver.view.topics.assignments() for r in a.target_replicas)
    assert loads == {1: 4, 3: 4, 4: 4, 5: 4}
    stayed = {p for p, ids in SPREAD.items() if 2 not in ids}
    assert not stayed & {p for p in SPREAD if driver.history[p]}


def test_the_drain_is_an_open_request_as_long_as_it_stands() -> None:
    """Its outcome is written when it is stopped."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 5))
    drain(driver, 2)
    run_all(driver)
    assert (request_of(driver).done, request_of(driver).open) == (1, 0)
    assert outcomes(driver) == {}
    drain(driver)
    summary = outcomes(driver)[DRAIN]
    assert (summary.kind, summary.total, summary.done) == ("drain", 1, 1)
    assert (summary.reason, summary.requested_by, summary.submitted_ms) == ("disk swap", "ann", 5)


def test_a_partition_that_is_created_on_the_broker_leaves_it() -> None:
    """So does one that is added to a topic, and one of another topic."""
    driver = Driver({tp(): (1, 3)}, brokers=range(1, 5))
    drain(driver, 2)
    assert DRAIN in driver.view.requests.by_id
    grow(driver, "t", (1, 3), (2, 3))
    assert driver.view.reassignments.by_partition.keys() == {tp(1)}
    grow(driver, "u", (2, 1), czxid=20)
    targets = {p: r.spec.target for p, r in driver.view.reassignments.by_partition.items()}
    assert targets.keys() == {tp(1), tp(0, "u")}
    assert all(BrokerId(2) not in target for target in targets.values())


def test_racks_are_kept_as_far_as_possible() -> None:
    """A replica goes to a rack that the partition does not have, though others have fewer."""
    racks = {1: "a", 2: "b", 3: "c", 4: "b", 5: "a", 6: "c"}
    driver = Driver({tp(n): (1, 2, 3) for n in range(3)}, brokers=range(1, 7))
    live = {BrokerId(b): replace(broker(b), rack=rack) for b, rack in racks.items()}
    driver.observe(BrokersRead(live))
    drain(driver, 2)
    targets = [r.spec.target for r in driver.view.reassignments.by_partition.values()]
    assert targets == [replicas(1, 3, 4)] * 3


def test_the_first_replica_that_stays_leads_where_the_leader_leaves() -> None:
    """No leader is moved to a broker that has just copied; each leads about as many."""
    driver = Driver({tp(n): (1, 2, 3) for n in range(4)}, brokers=range(1, 5))
    drain(driver, 1)
    targets = [r.spec.target for r in driver.view.reassignments.by_partition.values()]
    assert Counter(t[0] for t in targets) == {BrokerId(2): 2, BrokerId(3): 2}
    assert {t[2] for t in targets} == {BrokerId(4)}


def test_without_enough_brokers_the_partition_is_stated_and_nothing_else_waits_for_it() -> None:
    """When another broker joins, it moves."""
    driver = Driver({tp(0): (1, 2, 3), tp(1): (2, 3)}, brokers=range(1, 4))
    drain(driver, 2)
    assert driver.view.reassignments.by_partition.keys() == {tp(1)}
    detail = "it has 3 replicas, and 2 brokers are live and not drained"
    assert left(driver) == {tp(0): Blocked(BlockedBy.NO_TARGET, detail)}
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(1, 5)}))
    run_all(driver)
    assert on(driver, 2) == []
    assert left(driver) == {}


def test_the_replicas_of_a_dead_broker_are_replaced() -> None:
    """A broker that never comes back is drained like any other."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 3, 4))
    driver.change_isr(tp(), replicas(1, 3))
    drain(driver, 2)
    assert driver.view.reassignments.by_partition[tp()].in_flight
    assert replicas_left(driver.view) == {BrokerId(2): 1}
    run_all(driver)
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 3, 4))
    assert replicas_left(driver.view) == {BrokerId(2): 0}


def test_a_reassignment_to_the_broker_is_given_another_target() -> None:
    """Its request reports what replaced it."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 6))
    submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    assert driver.view.reassignments.by_partition[tp()].in_flight
    drain(driver, 3)
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert (spec.request, spec.target) == (DRAIN, replicas(1, 4))
    run_all(driver)
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 4))
    summary = outcomes(driver)[RequestId("request_0000000000")]
    assert summary.fates == {OutcomeKind.SUPERSEDED: 1}


def test_a_pending_reassignment_to_the_broker_is_not_given_up() -> None:
    """Its partition is on no drained broker, but it was to leave where it is."""
    driver = Driver(
        {tp(0): (1, 2), tp(1): (1, 2)},
        brokers=range(1, 6),
        options=Options(max_partitions_in_flight=1),
    )
    submit(driver, submission("request_0000000000", {tp(0): (1, 5), tp(1): (1, 3)}))
    assert not driver.view.reassignments.by_partition[tp(1)].in_flight
    drain(driver, 3)
    assert driver.view.reassignments.by_partition[tp(1)].spec.target == replicas(1, 4)
    drain(driver)
    assert tp(1) not in driver.view.reassignments.by_partition


@pytest.mark.parametrize("path", ["/data", "/gone"])
def test_named_directories_of_replicas_that_stay_are_kept(path: str) -> None:
    """Where their broker still has them; those of the drained broker end with its replica."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 7))

    def describe(number: int, directory: str) -> None:
        epoch = driver.view.cluster.brokers[BrokerId(number)].epoch
        dirs = (LogDir(directory, 10**9, 10**9),)
        driver.observe(report(number, {}, epoch=epoch, at=driver.now, dirs=dirs))

    request = submission("request_0000000000", {tp(): (3, 4)})
    named = ((BrokerId(3), "/data"), (BrokerId(4), "/data"))
    submit(driver, replace(request, log_dirs={tp(): named}))
    describe(3, "/data")
    describe(4, "/data")
    assert driver.view.reassignments.by_partition[tp()].spec.log_dirs == named
    describe(3, path)
    drain(driver, 4)
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert (spec.request, spec.target) == (DRAIN, replicas(3, 5))
    assert spec.log_dirs == (named[:1] if path == "/data" else ())


def test_an_entry_of_the_legacy_plan_to_the_broker_leaves_the_plan() -> None:
    """A Kafka controller that takes over would carry it out."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 6))
    driver.submit({tp(): (1, 3)})
    drain(driver, 3)
    assert driver.view.reassignments.by_partition[tp()].spec.request == DRAIN
    run_all(driver)
    assert on(driver, 3) == []
    assert driver.view.requests.legacy is None


def test_a_rollback_to_the_broker_is_given_another_target() -> None:
    """It would wait for a broker that may never come back."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 6))
    submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    driver.catch_up(tp())
    submit(driver, submission("request_0000000001", {tp(): (4, 5)}))
    drain(driver, 2)
    cancel(driver, partitions=frozenset({tp()}))
    run_all(driver)
    assert on(driver, 2) == []
    assert driver.view.requests.cancellation is None


@pytest.mark.parametrize("kind", ["request", "plan"])
def test_an_entry_that_adds_a_drained_broker_is_refused(kind: str) -> None:
    """The reason names the way out."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 6))
    drain(driver, 3)
    if kind == "request":
        submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    else:
        driver.submit({tp(): (1, 3)})
    assert driver.view.reassignments.by_partition == {}
    (summary,) = (s for s in outcomes(driver).values() if s.refused)
    assert [r.reason for r in summary.refused] == [RefusalReason.DRAINED_BROKER]
    assert "drain --stop" in summary.refused[0].detail


def test_an_entry_that_keeps_a_replica_on_a_drained_broker_is_accepted_and_drained() -> None:
    """A plan of other tools lists all replicas of a partition."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 4), min_isr=1)
    drain(driver, 1, 2)
    assert driver.view.reassignments.by_partition == {}
    submit(driver, submission("request_0000000000", {tp(): (2, 1)}))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(1, 6)}))
    run_all(driver)
    assert {*on(driver, 1), *on(driver, 2)} == set()


def test_a_cancellation_of_the_request_ends_the_drain() -> None:
    """Otherwise it would begin again at once what the operator took back."""
    driver = Driver({tp(n): (1, 2) for n in range(3)}, brokers=range(1, 5))
    drain(driver, 2)
    cancel(driver, requests=frozenset({DRAIN}))
    assert [r for c in driver.changes for r in c.records if isinstance(r, DrainsEndedRecord)]
    run_all(driver)
    assert len(on(driver, 2)) == 3
    assert driver.view.pacing_process.controls.drains == Drains()
    assert outcomes(driver)[DRAIN].fates == {OutcomeKind.ROLLED_BACK: 3}
    drain(driver, 2)
    assert driver.view.reassignments.by_partition == {}, "an older read shows it once more"


def test_a_cancellation_of_everything_ends_the_drain_and_one_of_other_requests_does_not() -> None:
    """Everything in progress is what the operator does not want any more."""
    driver = Driver({tp(0): (1, 3), tp(1): (1, 3)}, brokers=range(1, 5))
    drain(driver, 2)
    submit(driver, submission("request_0000000000", {tp(1): (1, 4)}))
    cancel(driver, requests=frozenset({RequestId("request_0000000000")}))
    run_all(driver)
    assert driver.view.pacing_process.controls.drains.brokers
    cancel(driver, CZXID + 2)
    assert not driver.view.pacing_process.controls.drains.brokers


@pytest.mark.parametrize("in_tenure", [True, False])
def test_a_quiesce_ends_the_drain(*, in_tenure: bool) -> None:
    """Nothing of it is left, and nothing begins when the quiesce is over."""
    options = Options(max_partitions_in_flight=1)
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=range(1, 5), options=options)
    quiesced = Pauses(quiesce=Quiesce("KRaft", "ann", 6))
    if in_tenure:
        drain(driver, 2)
        (begun,) = [p for p, r in driver.view.reassignments.by_partition.items() if r.in_flight]
    else:
        driver.observe(Deposed("idle"), *driver.own_records())
        driver.sent.clear()
    drain(driver, 2, pauses=quiesced)
    assert [r for c in driver.changes for r in c.records if isinstance(r, DrainsEndedRecord)]
    run_all(driver)
    if in_tenure:
        assert on(driver, 2) == [p for p in (tp(0), tp(1)) if p != begun]
        assert outcomes(driver)[DRAIN].fates == {OutcomeKind.CANCELLED: 1}
    assert not [e for e in driver.sent if isinstance(e, ClaimController)]
    driver.observe(ControlsRead(Controls()))
    assert driver.view.reassignments.by_partition == {}


def test_a_later_drain_is_not_ended_by_an_earlier_cancellation() -> None:
    """Whoever drains after a cancellation wants that."""
    driver = Driver({tp(): (1, 3), tp(1): (2, 3)}, brokers=range(1, 5))
    cancel(driver, CZXID - 1)
    drain(driver, 2)
    assert driver.view.reassignments.by_partition.keys() == {tp(1)}


def test_a_partition_whose_move_is_cancelled_by_name_is_left_alone() -> None:
    """The drain stands for the others; the reason says how it begins anew."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=range(1, 5))
    drain(driver, 2)
    cancel(driver, partitions=frozenset({tp(0)}))
    run_all(driver)
    assert on(driver, 2) == [tp(0)]
    blocked = left(driver)[tp(0)]
    assert blocked.by is BlockedBy.NO_TARGET
    assert blocked.detail.startswith("cancel-")
    grow(driver, "u", (2, 1), czxid=200)
    assert driver.view.reassignments.by_partition.keys() == {tp(0, "u")}


def test_a_cancelled_partition_is_left_alone_by_the_next_daemon() -> None:
    """The outcomes of the request say which they are."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=range(1, 5))
    drain(driver, 2)
    cancel(driver, partitions=frozenset({tp(0)}))
    run_all(driver)
    endings = tuple(request_of(driver).endings.values())
    history = OpenHistory({"0": Part("0", 0, 5, request_of(driver).options)}, 2, (), endings)
    states = dict(driver.view.leadership.states)
    driver.view.requests.by_id.clear()
    driver.observe(Deposed("another daemon leads"))
    *others, _ = driver.own_records()
    kept = (e for e in others if not isinstance(e, HistoryRead))
    driver.observe(*kept, HistoryRead({DRAIN: history}, {}), AppliedThrottlesRead({}))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)), StatesRead(states))
    assert driver.view.reassignments.by_partition == {}
    assert left(driver).keys() == {tp(0)}


def test_stopping_ends_what_has_not_begun_and_lets_go_on_what_has() -> None:
    """One limit keeps the second from its first step."""
    options = Options(max_partitions_in_flight=1)
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=range(1, 5), options=options)
    drain(driver, 2)
    assert len(driver.view.reassignments.by_partition) == 2
    drain(driver)
    (begun,) = driver.view.reassignments.by_partition
    run_all(driver)
    assert on(driver, 2) == [tp(1) if begun == tp(0) else tp(0)]
    assert outcomes(driver)[DRAIN].fates == {OutcomeKind.CANCELLED: 1}
    ending = next(
        r.ending
        for c in driver.changes
        for r in c.records
        if hasattr(r, "ending") and r.ending.request == DRAIN
    )
    assert ending.why == STOPPED


def test_stopping_one_of_two_ends_only_what_was_accepted_for_it() -> None:
    """The other stands, and a partition on both leaves that one."""
    driver = Driver(
        {tp(0): (1, 2), tp(1): (3, 1), tp(2): (2, 3)},
        brokers=range(1, 6),
        options=Options(max_partitions_in_flight=1),
    )
    drain(driver, 2, 3)
    assert len(driver.view.reassignments.by_partition) == 3
    drain(driver, 3, version=1)
    run_all(driver)
    assert on(driver, 3) == []
    # The one that had begun left broker 2; another may use it again.
    assert tp(0) not in on(driver, 2) or tp(1) not in on(driver, 2)


def test_a_partial_stop_and_a_second_drain_do_not_leave_a_partition_alone() -> None:
    """Only a cancellation does."""
    options = Options(max_partitions_in_flight=1)
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=range(1, 6), options=options)
    drain(driver, 2, 4)
    drain(driver, 4, version=1)
    drain(driver, 2, 4, version=2)
    run_all(driver)
    assert on(driver, 2) == []


def test_a_drain_obeys_pauses_and_the_kill_switch() -> None:
    """Nothing is accepted, so that nothing keeps the role; each reason is stated."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 5))
    drain(driver, 2, pauses=Pauses(everything=Pause("later")))
    assert driver.view.reassignments.by_partition == {}
    assert left(driver)[tp()].by is BlockedBy.PAUSED
    driver.observe(KillSwitchRead(is_on=True))
    drain(driver, 2)
    assert driver.view.reassignments.by_partition == {}
    assert left(driver)[tp()].by is BlockedBy.KILL_SWITCH
    driver.observe(KillSwitchRead(is_on=False))
    assert driver.view.reassignments.by_partition.keys() == {tp()}


def test_where_plans_have_to_be_approved_a_drain_names_its_approver() -> None:
    """Each of them; what is approved is the drain, as its targets follow from it."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 6), options=Options(require_approval=True))
    drain(driver, 2)
    assert driver.view.reassignments.by_partition == {}
    assert "nobody approved the drain of broker 2" in left(driver)[tp()].detail
    approved = Drains({BrokerId(2): Drain(approved_by="bob"), BrokerId(5): Drain()})
    driver.observe(ControlsRead(Controls(drains=replace(approved, czxid=Zxid(77)))))
    assert "nobody approved the drain of broker 5" in left(driver)[tp()].detail
    both = approved.adding(Drain("a", "b", approved_by="ann"), [BrokerId(2), BrokerId(5)])
    assert [d.approved_by for d in both.brokers.values()] == ["bob", "ann"]
    driver.observe(ControlsRead(Controls(drains=replace(both, czxid=Zxid(77)))))
    assert driver.view.reassignments.by_partition.keys() == {tp()}


def test_a_topic_that_is_to_be_deleted_is_not_moved() -> None:
    """Its replicas end with it."""
    assigned = {tp(): (1, 2), tp(0, "u"): (2, 3)}
    driver = Driver(assigned, brokers=range(1, 5), deletes_topics=True, acknowledges=False)
    driver.observe(DeletionsRead(frozenset({"u"})))
    drain(driver, 2)
    assert driver.view.reassignments.by_partition.keys() == {tp()}


def test_other_options_are_recorded_and_in_force() -> None:
    """They apply to what is in flight when the drain is stopped, too."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 5))
    drain(driver, 2)
    slower = Drains({BrokerId(2): Drain()}, 1000, None, ZkVersion(1), Zxid(CZXID))
    driver.observe(ControlsRead(Controls(drains=slower)))
    assert throttle_of(driver.view, DRAIN) == 1000
    drain(driver)
    assert throttle_of(driver.view, DRAIN) == 1000
    written = (r for c in driver.changes for r in c.records if isinstance(r, PartRecord))
    assert [r.part.name for r in written] == ["0", "1"]


def test_an_unreadable_control_drains_as_before() -> None:
    """And does not end the request."""
    driver = Driver({tp(): (1, 2)}, brokers=range(1, 5))
    drain(driver, 2)
    driver.observe(ControlsRead(Controls(unreadable={DRAINS: "not JSON"})))
    run_all(driver)
    assert on(driver, 2) == []
    assert outcomes(driver) == {}


def test_a_target_that_dies_before_the_first_step_is_replaced() -> None:
    """A drain has no operator who would submit another plan."""
    options = Options(max_partitions_in_flight=1)
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, brokers=range(1, 5), options=options)
    drain(driver, 2)
    pending = next(p for p, r in driver.view.reassignments.by_partition.items() if not r.in_flight)
    dying = driver.view.reassignments.by_partition[pending].spec.target[1]
    live = {BrokerId(b): broker(b) for b in range(1, 5) if b != dying}
    driver.observe(BrokersRead(live))
    target = driver.view.reassignments.by_partition[pending].spec.target
    assert dying not in target
    assert BrokerId(2) not in target
    assert request_of(driver).total == 2


def test_what_is_to_be_drained_claims_the_role_and_what_cannot_be_does_not() -> None:
    """A partition without a target would keep the role from topic administration for ever."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=range(1, 4))
    driver.observe(Deposed("idle"))
    driver.observe(*driver.own_records())
    driver.now = type(driver.now)(driver.now + 100)
    driver.sent.clear()
    drain(driver, 2)
    assert DRAIN in driver.view.requests.by_id
    assert not [e for e in driver.sent if isinstance(e, ClaimController)]
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(1, 5)}))
    assert [e for e in driver.sent if isinstance(e, ClaimController)]


def test_the_kept_counts_are_those_of_a_recount() -> None:
    """Whatever order reads arrive in."""
    driver = Driver(SPREAD, brokers=range(1, 6))
    drain(driver, 1, 3)
    session = driver.view.pacing_session
    assert session.on_drained.keys() == {*on(driver, 1), *on(driver, 3)}
    assert session.to_drain == {}
    run_all(driver)
    assert session.on_drained == {}
    driver.submit(plan({tp(): (2, 4)}).entries)
    assert session.on_drained == {}
