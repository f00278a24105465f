"""The rules about requests and controls: each is broken on purpose, and noticed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import pytest

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionAssignment,
    PartitionOutcome,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Limits, Pause, Pauses
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    broker_entity,
    topic_entity,
)
from controller.core.requests.outcomes import Part, Summary
from controller.core.requests.submissions import RequestOptions
from controller.core.role.records import ControllerClaimed
from controller.reactor.ports import Check, Delete
from controller.zk.claims import GRACE_S
from controller.znodes import paths
from controller.znodes.entity_configs import encode_entity_config
from controller.znodes.histories import encode_ended, encode_outcome, encode_part
from controller.znodes.reassignments import encode_spec
from controller.znodes.topics import encode_topic
from tests.sim.builders import Recorder, ids
from tests.sim.control_rules import ControlRules
from tests.sim.expected_targets import ExpectedTargets
from tests.sim.judges import InvariantViolationError
from tests.sim.ledgers import Ledger
from tests.sim.settings import Settings
from tests.sim.state_rules import NEWS_S
from tests.sim.store import SimStore
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, AnyOperation, Make, Put

P: Final = TopicPartition("t", 0)
OTHER: Final = TopicPartition("t", 1)
CURRENT: Final = ids([1, 2])
TARGET: Final = ids([1, 3])
STEP: Final = PartitionAssignment(ids([1, 2, 3]), ids([3]))
BROKEN: Final = pytest.raises(InvariantViolationError)


class _Desk:
    """A cluster whose controller is a daemon; the test writes its records."""

    def __init__(self) -> None:
        self.world = World(5, brokers=4)
        self.ledger = Ledger(self.world)
        self.settings = Settings(self.world.zookeeper, self.world.invariants.judge)
        ControlRules(self.world, self.ledger, self.settings)
        self.world.invariants.records.step_size = 1
        self.world.create_topic("t", {0: CURRENT, 1: CURRENT})
        self.world.settle()
        inbox = Recorder()
        self.store = SimStore(
            self.world.zookeeper,
            self.world.schedule,
            inbox,
            controller_id=BrokerId(1000000),
            competes=False,
        )
        self.store.claim_controller()
        self.world.run_for(GRACE_S + 0.1)
        assert inbox.of(ControllerClaimed)

    def write(self, *operations: AnyOperation) -> None:
        claim = self.store.claim
        assert claim is not None
        fence = Check(paths.CONTROLLER_EPOCH, claim.version)
        self.world.zookeeper.transact(self.store.session.id, [fence, *operations])

    def spec(self, spec: ReassignmentSpec | None, partition: TopicPartition = P) -> AnyOperation:
        path = paths.reassignment_path(partition)
        self.world.zookeeper.ensure(paths.reassignment_topic_path("t"))
        if spec is None:
            return Delete(path, None)
        kind = Make if self.world.zookeeper.get(path) is None else Put
        return kind(path, encode_spec(spec))

    def topic(self, assignment: PartitionAssignment) -> AnyOperation:
        both = {0: assignment, 1: PartitionAssignment(CURRENT)}
        topic = TopicAssignment(both, ZkVersion(0), Zxid(0))
        return Put(paths.topic_path("t"), encode_topic(topic))

    def kept(self, request: RequestId, child: str, data: bytes) -> AnyOperation:
        self.world.zookeeper.ensure(paths.history_path(request))
        return Make(f"{paths.history_path(request)}/{child}", data)

    def accept(
        self, options: RequestOptions | None = None, target: Replicas = TARGET
    ) -> ReassignmentSpec:
        """Submit a request for a partition and accept it."""
        request = self.world.submit_request({P: target}, options)
        spec = ReassignmentSpec(target, CURRENT, request, Route.REQUEST)
        self.write(self.spec(spec), Delete(f"{paths.REQUESTS}/{request}", None))
        return spec

    def cancellation(self) -> RequestId:
        znode = self.world.zookeeper.get(paths.CANCEL)
        assert znode is not None
        return RequestId(f"cancel-{znode.czxid:016x}")


@pytest.fixture
def desk() -> _Desk:
    """Return a cluster for one test."""
    return _Desk()


@pytest.mark.parametrize(
    ("target", "original"), [([1, 4], CURRENT), (TARGET, [2, 1]), (TARGET, [1, 4])]
)
def test_a_spec_is_what_was_requested(desk: _Desk, target: list[int], original: list[int]) -> None:
    """A spec has the target of its request, and the original replicas of the partition."""
    request = desk.world.submit_request({P: TARGET})
    with BROKEN:
        desk.write(desk.spec(ReassignmentSpec(ids(target), ids(original), request, Route.REQUEST)))


def test_a_record_without_a_request_is_noticed(desk: _Desk) -> None:
    """Every record needs a submission."""
    with BROKEN:
        desk.write(
            desk.spec(
                ReassignmentSpec(TARGET, CURRENT, RequestId("request_0000000009"), Route.REQUEST)
            )
        )


@pytest.mark.parametrize(("original", "is_right"), [([2, 1], True), ([1], True), ([1, 4], False)])
def test_the_original_of_a_foreign_reassignment_was_shown(
    desk: _Desk, original: list[int], *, is_right: bool
) -> None:
    """Replica 2 is deleted before 3 is in sync: the topic znode has shown both as former ones."""
    adding, removing = ids([3]), ids([2])
    for step in (
        PartitionAssignment(ids([1, 3, 2]), adding, removing),
        PartitionAssignment(TARGET, adding),
    ):
        desk.world.zookeeper.transact(NO_SESSION, [desk.topic(step)])
    request = desk.world.submit_request({P: ids([3, 4])})
    spec = ReassignmentSpec(ids([3, 4]), ids(original), request, Route.REQUEST)
    with nullcontext() if is_right else BROKEN:
        desk.write(desk.spec(spec))


def test_the_original_stays_when_the_target_changes(desk: _Desk) -> None:
    """A changed original would let a cancellation lead to a wrong assignment."""
    spec = desk.accept()
    with BROKEN:
        desk.write(desk.spec(replace(spec, original=TARGET)))


@pytest.mark.parametrize("fate", [None, OutcomeKind.CANCELLED, OutcomeKind.ROLLED_BACK])
def test_a_spec_ends_where_it_led(desk: _Desk, fate: OutcomeKind | None) -> None:
    """A spec ends at its target, or at its original if it never began."""
    spec = desk.accept()
    rows = [] if fate is None else [PartitionOutcome(spec.request, P, fate)]
    kept = desk.kept(spec.request, "ended-1-0-1", encode_ended([], rows))
    with nullcontext() if fate is OutcomeKind.CANCELLED else BROKEN:
        desk.write(desk.spec(None), kept)


@pytest.mark.parametrize("other", [False, True])
def test_a_cancellation_rolls_back_only_what_it_selects(desk: _Desk, *, other: bool) -> None:
    """A cancellation of another partition does not roll this one back."""
    spec = desk.accept()
    desk.world.cancel(partitions=[OTHER if other else P])
    back = replace(spec, target=CURRENT, cancelled_by=desk.cancellation())
    with BROKEN if other else nullcontext():
        desk.write(desk.spec(back))


@pytest.mark.parametrize("other", [False, True])
def test_a_cancellation_ends_only_what_it_selects(desk: _Desk, *, other: bool) -> None:
    """The rule also covers legacy entries that are no longer in the plan."""
    request = RequestId("legacy-0000000000000001")
    desk.write(desk.spec(ReassignmentSpec(TARGET, CURRENT, request, Route.LEGACY)))
    desk.world.cancel(partitions=[OTHER if other else P])
    rows = [PartitionOutcome(request, P, OutcomeKind.CANCELLED, f"by {desk.cancellation()}")]
    kept = desk.kept(request, "ended-1-0-1", encode_ended([], rows))
    with BROKEN if other else nullcontext():
        desk.write(desk.spec(None), kept)


def test_where_a_partition_was_before_anything_was_written_counts(desk: _Desk) -> None:
    """A request for the present assignment ends as done."""
    ledger = Ledger(desk.world)
    request = desk.world.submit_request({P: CURRENT})
    summary = Summary(request=request, kind="request", total=1, done=1)
    desk.write(desk.topic(PartitionAssignment(ids([2, 1]))))
    desk.write(desk.kept(request, paths.SUMMARY, encode_outcome(summary)))
    ledger.judge_end()


@pytest.mark.parametrize("target", [TARGET, ids([1, 4])])
def test_an_entry_cancelled_before_it_began_is_not_expected(desk: _Desk, target: Replicas) -> None:
    """A newer entry for the same partition is still expected."""
    expected = ExpectedTargets(desk.ledger)
    expected.expect({P: target})
    request = RequestId("legacy-0000000000000001")
    desk.write(desk.spec(ReassignmentSpec(TARGET, CURRENT, request, Route.LEGACY)))
    assert expected.unmet(desk.world) == {P: target}
    desk.world.cancel(partitions=[P])
    rows = [PartitionOutcome(request, P, OutcomeKind.CANCELLED, f"by {desk.cancellation()}")]
    desk.write(desk.spec(None), desk.kept(request, "ended-1-0-1", encode_ended([], rows)))
    assert expected.unmet(desk.world) == ({} if target == TARGET else {P: target})


def test_what_is_younger_than_a_cancellation_is_not_rolled_back(desk: _Desk) -> None:
    """A request after the cancellation has to reach its target."""
    desk.world.cancel()
    spec = desk.accept()
    with BROKEN:
        desk.write(desk.spec(replace(spec, target=CURRENT, cancelled_by=desk.cancellation())))


@pytest.mark.parametrize("named", [False, True])
def test_what_is_added_to_a_cancellation_does_not_renew_it(desk: _Desk, *, named: bool) -> None:
    """What was submitted between the two is rolled back only where the second one names it."""
    desk.world.cancel()
    name = desk.cancellation()
    desk.write(desk.kept(name, "part-0", encode_part(Part("0", 0, 0))))
    spec = desk.accept()
    assert desk.world.cancel(partitions=[P if named else OTHER])
    back = replace(spec, target=CURRENT, cancelled_by=name)
    with nullcontext() if named else BROKEN:
        desk.write(desk.spec(back))


@pytest.mark.parametrize("skipped", [False, True])
def test_a_cancellation_leaves_nothing_that_it_selects(desk: _Desk, *, skipped: bool) -> None:
    """An entry that is left needs a reason in the outcome."""
    desk.accept()
    desk.world.cancel()
    name = desk.cancellation()
    rows = (
        [PartitionOutcome(name, P, OutcomeKind.SKIPPED, "it would go offline")] if skipped else []
    )
    desk.write(desk.kept(name, "ended-1-0-1", encode_ended([], rows)))
    with nullcontext() if skipped else BROKEN:
        desk.write(desk.kept(name, "part-0", encode_part(Part("0", 0, 0))))


@pytest.mark.parametrize(
    ("total", "done", "is_right"), [(1, 1, True), (1, 0, False), (2, 2, False), (2, 1, False)]
)
def test_an_outcome_adds_up(desk: _Desk, total: int, done: int, *, is_right: bool) -> None:
    """The counts of an outcome sum up to the number of entries."""
    turned = ids([2, 1])
    spec = desk.accept(target=turned)
    desk.write(desk.topic(PartitionAssignment(turned)), desk.spec(None))
    summary = Summary(request=spec.request, kind="request", total=total, done=done)
    desk.write(desk.kept(spec.request, paths.SUMMARY, encode_outcome(summary)))
    with nullcontext() if is_right else BROKEN:
        desk.ledger.judge_end()


def test_every_request_has_an_outcome(desk: _Desk) -> None:
    """A request without an outcome is lost."""
    desk.world.submit_request({P: TARGET})
    with BROKEN:
        desk.ledger.judge_end()


def test_nothing_begins_while_disabled(desk: _Desk) -> None:
    """The kill switch counts once the daemon has had time to hear of it."""
    desk.accept()
    desk.world.disable()
    desk.world.run_for(NEWS_S + 1.0)
    with BROKEN:
        desk.write(desk.topic(STEP))


@pytest.mark.parametrize("what", ["everything", "request", "broker", "another broker"])
def test_nothing_is_added_while_paused(desk: _Desk, what: str) -> None:
    """A pause of everything, of the request or of the copying broker counts."""
    spec, pause = desk.accept(), Pause()
    pauses = {
        "everything": Pauses(everything=pause),
        "request": Pauses(requests={spec.request: pause}),
        "broker": Pauses(brokers={BrokerId(3): pause}),
        "another broker": Pauses(brokers={BrokerId(4): pause}),
    }
    desk.world.pause(pauses[what])
    desk.world.run_for(NEWS_S + 1.0)
    with nullcontext() if what == "another broker" else BROKEN:
        desk.write(desk.topic(STEP))


@pytest.mark.parametrize("in_one_write", [False, True])
def test_no_step_begins_in_the_write_that_changes_where_it_goes(
    desk: _Desk, *, in_one_write: bool
) -> None:
    """Such a step was decided by the replaced spec."""
    desk.accept()
    other = replace(desk.accept(target=ids([1, 4])), version=ZkVersion(1))
    towards = PartitionAssignment(ids([1, 2, 4]), ids([4]))
    if not in_one_write:
        desk.write(desk.topic(towards))
        return
    with BROKEN:
        desk.write(desk.spec(other), desk.topic(STEP))


@pytest.mark.parametrize("is_set", [False, True])
def test_what_copies_is_throttled_first(desk: _Desk, *, is_set: bool) -> None:
    """The replica is listed as throttled, and its broker has a rate."""
    desk.accept(RequestOptions(throttle=1000))
    if is_set:
        desk.world.zookeeper.ensure(
            paths.entity_config_path(topic_entity("t")),
            b'{"version":1,"config":{"%s":"0:3"}}' % FOLLOWER_REPLICAS.encode(),
        )
        desk.world.zookeeper.ensure(
            paths.entity_config_path(broker_entity(BrokerId(3))),
            b'{"version":1,"config":{"%s":"1000"}}' % FOLLOWER_RATE.encode(),
        )
    with nullcontext() if is_set else BROKEN:
        desk.write(desk.topic(STEP))


@pytest.mark.parametrize("own", [None, 2])
def test_the_bound_follows_the_step_size_of_a_request(desk: _Desk, own: int | None) -> None:
    """A request's own step size comes before the limits for all."""
    desk.world.limit(Limits(step_size=None))
    desk.accept(RequestOptions(step_size=own))
    two = PartitionAssignment(ids([1, 2, 3, 4]), ids([3, 4]))
    with nullcontext() if own else BROKEN:
        desk.write(desk.topic(two))


def test_settings_are_as_operators_chose_in_the_end(desk: _Desk) -> None:
    """A leftover of a throttle is noticed; values that operators set stay."""
    desk.settings.change(topic_entity("t"), "retention.ms", "5")
    desk.settings.judge_end()
    desk.world.zookeeper.transact(
        0,
        [
            Put(
                paths.entity_config_path(topic_entity("t")),
                b'{"version":1,"config":{"retention.ms":"5","%s":"0:3"}}'
                % FOLLOWER_REPLICAS.encode(),
            )
        ],
    )
    with BROKEN:
        desk.settings.judge_end()


@pytest.mark.parametrize("with_topic", [True, False])
@pytest.mark.parametrize("is_throttled_again", [True, False])
def test_settings_of_a_topic_end_with_it(
    desk: _Desk, *, with_topic: bool, is_throttled_again: bool
) -> None:
    """The next topic of the same name has none; without a deletion they must not disappear."""
    entity, zookeeper = topic_entity("t"), desk.world.zookeeper
    path = paths.entity_config_path(entity)
    desk.settings.change(entity, "retention.ms", "5")
    found = [paths.topic_path("t")]
    for znode in found:
        found.extend(f"{znode}/{name}" for name in zookeeper.children(znode) or ())
    topic = [Delete(znode, None) for znode in reversed(found)] if with_topic else []
    zookeeper.transact(NO_SESSION, [*topic, Delete(path, None)])
    if is_throttled_again:
        zookeeper.transact(NO_SESSION, [Make(path, encode_entity_config(()))])
    with nullcontext() if with_topic else BROKEN:
        desk.settings.judge_end()
