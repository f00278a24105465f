"""The delegated engine's real loop and core through seeded histories of faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final, cast

import pytest

from controller.core.model import AlterOutcome, BrokerId, TopicPartition
from controller.core.reassignments.phases import AwaitingController
from controller.core.reassignments.records import AlterResult, PhaseRecord, ReassignmentsAltered
from controller.core.records import Change
from controller.core.role.records import Deposed, ReassignmentsProbed
from controller.core.view import ClusterView
from controller.kafka_errors import (
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.reactor.loop import Reactor
from controller.reactor.ports import AlterEntry
from controller.znodes import paths
from integration.rigs.failpoint_names import NamedFailpoints
from tests.sim.alter_api import (
    ANSWER_WITHIN_S,
    SimAlterApi,
)
from tests.sim.alter_rules import AlterRules, Way
from tests.sim.daemons import Ports
from tests.sim.delegated_histories import daemons_of, play, plot_of
from tests.sim.histories import SilentObserver, is_finished
from tests.sim.judges import InvariantViolationError
from tests.sim.lost_logs import KNOWN_S, LostLogs
from tests.sim.plots import FORTUNES
from tests.sim.seeds import seeds
from tests.sim.store import SimStore
from tests.sim.world import World

PARTITION = TopicPartition("t", 0)
REGRESSIONS: Final = {
    341: "An entry was judged by the bound of a request that replaced its own while it waited.",
    459: "A rollback ended early while an entry answered late was being carried out.",
}
"""Seeds that failed once, and the defects that they found."""


class Kept:
    """An inbox that keeps its events."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[object] = []

    def put(self, event: object) -> None:
        """Keep an event."""
        self.events.append(event)


@pytest.mark.parametrize("seed", seeds(range(12), first=3))
def test_every_request_ends(seed: int) -> None:
    """A history of each seed has its own plot and breaks no rule."""
    play(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_a_seed_once_found_stays_repaired(seed: int) -> None:
    """The seeds date from histories whose topics did not change."""
    play(seed, replace(plot_of(seed), topics_every_s=None))


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_topics_that_come_grow_go_and_come_again_are_moved(seed: int) -> None:
    """Without faults every request for a topic that stays is carried out."""
    plot = replace(plot_of(6), weights=FORTUNES["nothing"], loss=0.0, topics_every_s=0.7)
    assert replace(plot, cancels=False, rivals=False).is_strict
    play(seed, replace(plot, cancels=False, rivals=False))


@pytest.mark.parametrize("seed", seeds([2, 9, 10]))
def test_what_is_read_late_of_topics_refuses_and_reverses_nothing(seed: int) -> None:
    """
    Late reads of topics neither refuse new partitions nor reorder requests.

    They also leave no outcome incomplete when another client moved a topic that was deleted.
    """
    weights = replace(FORTUNES["nothing"], reads_late=20)
    plot = replace(plot_of(6), weights=weights, fault_every_s=0.7, loss=0.0, topics_every_s=0.5)
    play(seed, replace(plot, cancels=False, rivals=False))


@pytest.mark.parametrize("seed", seeds(range(3)))
def test_every_last_target_is_reached_when_one_author_submits(seed: int) -> None:
    """Crashes between any two writes or calls, and lost calls, lose no target."""
    plot = replace(plot_of(4), cancels=False, rivals=False, quiesces=False, loss=0.2)
    assert plot.is_strict
    world = play(seed, plot)
    assert world.zookeeper.get(paths.LEGACY_PLAN) is None


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_dead_brokers_drop_that_a_daemon_saw_has_to_be_recorded(is_recorded: bool) -> None:  # noqa: FBT001
    """A history without the orphan record of the returning broker's log breaks the rule."""
    world, plot = World(1), plot_of(4)
    lost = LostLogs(world)
    world.invariants.records.fence = paths.EPOCH
    world.create_topic("t", {0: [1, 2, 3]})
    world.settle()
    options = replace(plot.options, step_size=1)
    world.add_daemon(daemons_of(world, replace(plot, options=options, loss=0.0), lost))
    world.run_for(2 * KNOWN_S)
    dead = world.brokers[BrokerId(3)]
    dead.kill()
    world.run_until(lambda: isr_of(world) == {1, 2}, within_s=60.0)
    world.submit_request({PARTITION: [1, 2]})
    world.run_until(lambda: is_finished_but_for(world, 3), within_s=60.0)
    dead.start()
    world.run_for(10.0)
    record = paths.orphan_path(BrokerId(3), PARTITION)
    assert lost.seen == 1
    assert world.zookeeper.get(record) is not None
    if not is_recorded:
        world.zookeeper.remove_tree(record)
    with nullcontext() if is_recorded else pytest.raises(InvariantViolationError):
        lost.judge_end()


def is_finished_but_for(world: World, broker: int) -> bool:
    """Return whether a broker is no replica any more and the spec is deleted."""
    gone = world.zookeeper.get(paths.reassignment_path(PARTITION)) is None
    return gone and broker not in world.assignment(PARTITION).replicas


def dies_with_a_cancellation_out() -> World:
    """
    Return a cluster whose controller and leader died when a cancellation was sent.

    The leader's session outlives it: an original replica seems to be in sync. The added replica is
    the only other one in sync.
    """
    world, plot = World(1), plot_of(4)
    build = daemons_of(world, replace(plot, options=replace(plot.options, step_size=1), loss=0.0))
    world.invariants.records.fence = paths.EPOCH
    world.invariants.records.owes_logs = False
    world.create_topic("t", {0: [1, 2]})
    world.producer.start()
    world.settle()
    world.add_daemon(build)
    slow = {b: world.brokers[BrokerId(b)].replication for b in (2, 3)}
    slow[3].extra_fetch_s = 100.0
    world.submit_request({PARTITION: [3, 4]})
    world.run_until(lambda: bool(world.assignment(PARTITION).adding_replicas), within_s=30.0)
    slow[2].extra_fetch_s = 100.0
    world.run_until(lambda: isr_of(world) == {1}, within_s=60.0)
    slow[3].extra_fetch_s = 0.0
    world.run_until(lambda: isr_of(world) == {1, 3}, within_s=120.0)
    assert world.assignment(PARTITION).adding_replicas == (3,)
    controller = world.active_kafka_controller()
    assert controller is world.kafka_controllers[BrokerId(1)]
    world.brokers[BrokerId(1)].kill()
    world.cancel()
    return world


def isr_of(world: World) -> set[int]:
    """Return the ISR."""
    state = world.state(PARTITION)
    return set() if state is None else set(state.isr)


def test_no_controller_is_to_delete_the_last_copy_in_sync() -> None:
    """The cancellation is decided again under the next controller, and waits for copies."""
    world = dies_with_a_cancellation_out()
    world.run_for(60.0)
    assert isr_of(world) == {3}
    assert 3 in world.holders(PARTITION)
    world.brokers[BrokerId(2)].replication.extra_fetch_s = 0.0
    world.brokers[BrokerId(1)].start()
    world.run_until(lambda: is_finished(world), within_s=300.0, look_every_s=1.0)
    assert world.assignment(PARTITION).replicas == (1, 2)
    world.producer.stop()
    world.run_for(5.0)
    world.invariants.judge_end({})


@pytest.mark.parametrize(
    ("known_s", "way_s", "is_judged"), [(0.5, 0.05, False), (5.0, 0.05, True), (0.5, 5.0, True)]
)
def test_an_entry_that_deletes_the_last_copy_in_sync_is_judged(
    known_s: float, way_s: float, *, is_judged: bool
) -> None:
    """An entry that was decided just before is exempt."""
    world = dies_with_a_cancellation_out()
    rules = AlterRules(world)
    world.daemons[0].crash()
    world.run_until(lambda: isr_of(world) == {3}, within_s=30.0)
    world.run_for(known_s)
    entry = AlterEntry(PARTITION, (BrokerId(1), BrokerId(2)), cancels=True)
    expectation = pytest.raises(InvariantViolationError, match="none of which is in sync")
    with expectation if is_judged else nullcontext():
        rules.judge(entry, Way(world.now - way_s, world.now))


class DeposedInBetween(NamedFailpoints):
    """Deposes the loop between the decision of an entry and its sending."""

    loop: Reactor
    count = 0

    def committed(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Put the event into the inbox."""
        records = [r for change in changes for r in change.records]
        if any(
            isinstance(r, PhaseRecord) and isinstance(r.phase, AwaitingController) for r in records
        ):
            self.count += 1
            self.loop.put(Deposed("another daemon leads"))
        super().committed(view, changes)


def test_events_since_the_decision_are_known_before_an_entry_is_sent() -> None:
    """A daemon that was deposed since the decision sends no entry."""
    world, plot, kept = World(1), plot_of(4), Kept()
    between = DeposedInBetween(lambda _: None)

    class RecordingApi(SimAlterApi):
        def alter(self, entries: Sequence[AlterEntry]) -> None:
            kept.put(entries)

    def build(ports: Ports) -> Reactor:
        inbox = cast("SimStore", ports.store).inbox
        between.loop = Reactor(
            view=ClusterView(options=plot.options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            clock=ports.clock,
            observer=SilentObserver(),
            reassignments=RecordingApi(world, inbox, AlterRules(world), loss=0.0),
            failpoints=between,
        )
        return between.loop

    world.invariants.records.fence = paths.EPOCH
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    world.add_daemon(build)
    world.submit_request({PARTITION: [3, 4]})
    world.run_for(20.0)
    assert between.count > 0
    assert kept.events == []


def a_world() -> tuple[World, Kept, SimAlterApi]:
    """Return a healthy cluster, an inbox, and a connection to the controller."""
    world, inbox = World(1), Kept()
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    return world, inbox, SimAlterApi(world, inbox, AlterRules(world), loss=0.0)


def answered(world: World, inbox: Kept) -> list[AlterResult]:
    """Return the next answers."""
    world.run_for(30.0)
    return [r for e in inbox.events if isinstance(e, ReassignmentsAltered) for r in e.results]


def fates(inbox: Kept) -> list[AlterOutcome]:
    """Return the answers to the entries so far."""
    altered = [e for e in inbox.events if isinstance(e, ReassignmentsAltered)]
    return [r.fate for e in altered for r in e.results]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (AlterEntry(PARTITION, (BrokerId(2), BrokerId(3))), NONE),
        (AlterEntry(PARTITION, (BrokerId(2), BrokerId(9))), INVALID_REPLICA_ASSIGNMENT),
        (AlterEntry(PARTITION, (BrokerId(1), BrokerId(2)), True), NO_REASSIGNMENT_IN_PROGRESS),  # noqa: FBT003
        (AlterEntry(TopicPartition("u", 0), (BrokerId(1),)), UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_simulated_controller_answers_as_kafkas(entry: AlterEntry, error: int) -> None:
    """Valid entries are carried out, the others refused with Kafka's codes (KIP-455)."""
    world, inbox, api = a_world()
    api.alter([entry])
    (result,) = answered(world, inbox)
    assert result.error == error
    moved = error == NONE
    assert world.assignment(PARTITION).replicas == ((2, 3) if moved else (1, 2))


def test_without_a_controller_an_entry_is_answered_in_the_end() -> None:
    """The answer is a time-out, as that of the real adapter."""
    world, inbox, _ = a_world()
    silent = SimAlterApi(world, inbox, AlterRules(world), loss=1.0)
    silent.alter([AlterEntry(PARTITION, (BrokerId(2),))])
    (result,) = answered(world, inbox)
    assert result.error == REQUEST_TIMED_OUT


def test_a_busy_controller_carries_out_entries_late_and_in_their_order() -> None:
    """The answer of the first has timed out; the entry that cancels it arrives after it."""
    world, inbox, api = a_world()
    active = world.active_kafka_controller()
    assert active is not None
    assert active.duties is not None
    active.duties.busy_until = world.now + ANSWER_WITHIN_S + 2.0
    api.alter([AlterEntry(PARTITION, (BrokerId(1), BrokerId(2), BrokerId(3)))])
    world.run_for(ANSWER_WITHIN_S + 1.0)
    assert fates(inbox) == [AlterOutcome.UNKNOWN]
    assert world.assignment(PARTITION).replicas == (1, 2)
    api.alter([AlterEntry(PARTITION, (BrokerId(1), BrokerId(2)), cancels=True)])
    world.run_for(30.0)
    assert fates(inbox) == [AlterOutcome.UNKNOWN, AlterOutcome.ANSWERED]
    assert world.assignment(PARTITION).replicas == (1, 2)


def test_a_controller_that_died_makes_nothing_later() -> None:
    """Entries that wait at a controller are lost when it dies."""
    world, inbox, api = a_world()
    active = world.active_kafka_controller()
    assert active is not None
    assert active.duties is not None
    active.duties.busy_until = world.now + 3.0
    api.alter([AlterEntry(PARTITION, (BrokerId(2), BrokerId(3)))])
    world.run_for(1.0)
    world.seize_role()
    world.run_for(30.0)
    assert fates(inbox) == [AlterOutcome.UNKNOWN]
    assert world.assignment(PARTITION).replicas == (1, 2)


def test_a_forgotten_entry_is_not_sent() -> None:
    """A forgotten entry is not answered either."""
    world, inbox, api = a_world()
    api.alter([AlterEntry(PARTITION, (BrokerId(2), BrokerId(3)))])
    api.forget()
    assert answered(world, inbox) == []
    assert world.assignment(PARTITION).replicas == (1, 2)
    api.probe()
    world.run_for(1.0)
    assert inbox.events == [ReassignmentsProbed(None)]
