"""Entries that name log directories: they end there, whatever is lost, fails or restarts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from controller.core.core_settings import EngineName, Options
from controller.core.model import (
    BrokerId,
    LogDirs,
    Refusal,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.pacing.controls import Pause, Pauses
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.records import Change
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.znodes import paths
from controller.znodes.histories import decode_outcome
from tests.sim.directories import number_of, placing
from tests.sim.disks import SimDisks, path_of
from tests.sim.histories import SilentObserver, is_finished
from tests.sim.seeds import seeds
from tests.sim.test_disks import RESERVE, fill
from tests.sim.world import World

ENGINES: Final = (EngineName.NATIVE, EngineName.DELEGATED)
PARTITIONS: Final = 8
END_S: Final = 1500.0
Named = dict[TopicPartition, LogDirs]


class DoneObserver(SilentObserver):
    """Judges that an entry ends only when its named replicas are in their directories."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.named: Named = {}
        self.wrong: list[TopicPartition] = []

    def on_committed(self, change: Change, view: ClusterView) -> None:  # noqa: ARG002 - the port's
        """Judge the end of each record."""
        for record in change.records:
            if isinstance(record, SpecEndedRecord) and record.outcome == "done":
                ended = {record.partition: self.named.get(record.partition, ())}
                self.wrong += misplaced(self._world, ended)


def cluster(seed: int, engine: EngineName, rows: dict[int, list[int]]) -> World:
    """Return a cluster with a topic."""
    world = World(seed, produce_every_s=2.0)
    if engine is EngineName.DELEGATED:
        world.invariants.records.fence = paths.EPOCH
        world.invariants.records.owes_logs = False
    world.create_topic("t", rows)
    world.settle()
    return world


def tp(number: int = 0) -> TopicPartition:
    """Return a partition of the topic."""
    return TopicPartition("t", number)


def named_dirs(replicas: Replicas, *directories: int | None) -> LogDirs:
    """Return the directories of replicas; None: any."""
    pairs = zip(replicas, directories, strict=True)
    return tuple((r, path_of(d)) for r, d in pairs if d is not None)


def drawn(chance: Random, world: World) -> tuple[dict[TopicPartition, Replicas], Named]:
    """Return entries with and without directories, some of which change only directories."""
    target: dict[TopicPartition, Replicas] = {}
    named: Named = {}
    for partition in world.partitions():
        target[partition] = tuple(BrokerId(b) for b in chance.sample(range(1, 6), 2))
        if chance.random() < 0.3:
            target[partition] = world.assignment(partition).target_replicas
        others = (chance.choice((None, 0, 1)) for _ in target[partition][1:])
        log_dirs = named_dirs(target[partition], chance.choice((0, 1)), *others)
        if chance.random() < 0.8:
            named[partition] = log_dirs
    return target, named


def misplaced(world: World, named: Named) -> dict[TopicPartition, LogDirs]:
    """Return the named replicas that are elsewhere, or are still being moved."""
    found: dict[TopicPartition, LogDirs] = {}
    for partition, log_dirs in named.items():
        for broker, path in log_dirs:
            host = world.brokers[broker]
            log = host.logs.get(partition)
            if log is None or log.directory != number_of(path) or partition in host.futures:
                found[partition] = (*found.get(partition, ()), (broker, path))
    return found


def refusals_of(world: World, request: RequestId) -> Sequence[Refusal]:
    """Return what the outcome of a request says of refusals."""
    znode = world.zookeeper.get(paths.outcome_path(request))
    assert znode is not None
    summary = decode_outcome(znode.data)
    assert isinstance(summary, Summary)
    return summary.refused


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", seeds(range(8)))
def test_replicas_end_in_the_directories_that_entries_name(engine: EngineName, seed: int) -> None:
    """With lost answers, a daemon that dies anywhere, and brokers that restart or lose epochs."""
    chance = Random(f"directories {seed}")
    rows = {n: chance.sample(range(1, 6), 2) for n in range(PARTITIONS)}
    world = cluster(seed, engine, rows)
    world.fabric.stalls_moves = chance.random() < 0.5
    fill(world, chance)
    world.producer.start()
    observer = DoneObserver(world)
    build = placing(
        world,
        Options(engine=engine, step_size=chance.choice((1, 2, None)), copy_refresh_s=1.0),
        observer=observer,
    )
    daemon = world.add_daemon(build)
    world.run_for(3.0)
    target, named = drawn(chance, world)
    observer.named = named
    request = world.submit_request(
        target, RequestOptions(log_dirs_throttle=chance.choice((None, 10**6))), named
    )
    for _ in range(3):
        daemon.crash_after(chance.randint(0, 60))
        world.run_for(chance.uniform(1.0, 20.0))
        daemon.crash()
        daemon = world.add_daemon(build)
        broker = world.brokers[chance.choice(sorted(world.brokers))]
        chance.choice((broker.kill, broker.stop, broker.expire))()
        world.run_for(chance.uniform(1.0, 9.0))
        broker.start()
    daemon.spare()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert observer.wrong == []
    for refusal in refusals_of(world, request):
        assert "is not live" in refusal.detail
        assert refusal.partition is not None
        del target[refusal.partition]
        named.pop(refusal.partition, None)
    assert {p: world.assignment(p).replicas for p in target} == target
    assert misplaced(world, named) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_new_replica_is_created_where_the_entry_says(engine: EngineName) -> None:
    """Nothing is moved afterwards: the broker knows the directory before the replica."""
    for seed in range(6):
        world = cluster(seed, engine, {0: [1, 2]})
        world.add_daemon(placing(world, Options(engine=engine), loss=0.0))
        world.run_for(3.0)
        replicas = (BrokerId(3), BrokerId(4))
        named = {tp(): named_dirs(replicas, 1, 0)}
        world.submit_request({tp(): replicas}, None, named)
        moved = False
        while not is_finished(world):
            moved = moved or any(b.futures for b in world.brokers.values())
            world.run_for(0.05)
            assert world.now < END_S
        assert not moved
        assert misplaced(world, named) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_directory_that_does_not_exist_is_refused_with_the_reason(engine: EngineName) -> None:
    """So is one that is offline, and one of a dead broker; nothing changes."""
    world = cluster(1, engine, {0: [1, 2], 1: [1, 2], 2: [1, 2], 3: [1, 2]})
    world.brokers[BrokerId(3)].fail_directory(1)
    world.brokers[BrokerId(5)].stop()
    world.add_daemon(placing(world, Options(engine=engine)))
    world.run_for(3.0)
    one, two = BrokerId(1), BrokerId(2)
    request = world.submit_request(
        {tp(0): (one, two), tp(1): (one, BrokerId(3)), tp(2): (one, BrokerId(5)), tp(3): (one,)},
        None,
        {
            tp(0): ((two, path_of(7)),),
            tp(1): ((BrokerId(3), path_of(1)),),
            tp(2): ((BrokerId(5), path_of(0)),),
            tp(3): ((one, path_of(0)),),
        },
    )
    world.run_for(60.0)
    refused = {r.partition: r.detail for r in refusals_of(world, request)}
    assert refused.keys() == {tp(0), tp(1), tp(2)}
    assert refused[tp(0)] == "broker 2 has no log directory /data/7"
    assert refused[tp(1)] == "log directory /data/1 of broker 3 is offline"
    assert "broker 5 is not live" in refused[tp(2)]
    assert all(world.assignment(tp(n)).replicas == (one, two) for n in range(3))
    assert misplaced(world, {tp(3): ((one, path_of(0)),)}) == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("crashes", [False, True])
def test_cancelled_move_is_stopped(engine: EngineName, *, crashes: bool) -> None:
    """Also by a daemon that does not know who began it; the replica stays where it is."""
    for seed in range(4):
        world = cluster(seed, engine, {0: [1, 2]})
        fill(world, Random(seed), least=1400)
        build = placing(world, Options(engine=engine))
        daemon = world.add_daemon(build)
        world.run_for(3.0)
        host = world.brokers[BrokerId(2)]
        here = host.logs[tp()].directory
        replicas = (BrokerId(1), BrokerId(2))
        world.submit_request({tp(): replicas}, None, {tp(): named_dirs(replicas, None, 1 - here)})
        world.run_until(lambda h=host: tp() in h.futures, within_s=60.0)  # type: ignore[misc]
        world.cancel()
        if crashes:
            world.run_for(0.02 * seed)
            daemon.crash()
            world.add_daemon(build)
        world.run_until(lambda w=world: is_finished(w), within_s=END_S, look_every_s=0.5)  # type: ignore[misc]
        assert (host.logs[tp()].directory, host.futures) == (here, {})


def test_stalled_move_is_begun_again() -> None:
    """Before Kafka 2.5 a new leader epoch stalls it for good (KAFKA-9654)."""
    world = cluster(2, EngineName.NATIVE, {0: [1, 2]})
    world.fabric.stalls_moves = True
    fill(world, Random(2), least=1400)
    world.add_daemon(placing(world, Options(), loss=0.0))
    world.run_for(3.0)
    host = world.brokers[BrokerId(2)]
    replicas = (BrokerId(1), BrokerId(2))
    named = {tp(): named_dirs(replicas, None, 1 - host.logs[tp()].directory)}
    world.submit_request({tp(): replicas}, None, named)
    world.run_until(lambda: tp() in host.futures, within_s=60.0)
    world.brokers[BrokerId(1)].kill()
    world.run_until(lambda: tp() in host.futures and host.futures[tp()].is_stuck, within_s=60.0)
    world.brokers[BrokerId(1)].start()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}


def test_move_waits_for_room_in_its_directory() -> None:
    """It begins only where its directory keeps ``min_free``."""
    world = cluster(3, EngineName.NATIVE, {0: [1, 2]})
    disks = SimDisks(world.fabric, 10**12)
    fill(world, Random(3), least=1400)
    host = world.brokers[BrokerId(2)]
    other = 1 - host.logs[tp()].directory
    disks.size = 10**7
    disks.others[host.id, other] = disks.free(host, other) - 10**6
    options = Options(min_free=RESERVE, size_refresh_s=4.0, copy_refresh_s=1.0)
    world.add_daemon(placing(world, options, loss=0.0))
    world.run_for(3.0)
    replicas = (BrokerId(1), BrokerId(2))
    named = {tp(): named_dirs(replicas, None, other)}
    world.submit_request({tp(): replicas}, None, named)
    world.run_for(60.0)
    assert not host.futures
    assert misplaced(world, named)
    disks.others.clear()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}
    assert disks.least_free >= RESERVE.bytes


@pytest.mark.parametrize("engine", ENGINES)
def test_move_without_room_leaves_its_slot_to_others(engine: EngineName) -> None:
    """They may be the ones that make room."""
    world = cluster(4, engine, {0: [1, 2], 1: [1, 2]})
    disks = SimDisks(world.fabric, 10**12)
    fill(world, Random(4), least=1400)
    world.producer.start()
    host = world.brokers[BrokerId(2)]
    other = 1 - host.logs[tp(0)].directory
    disks.size = 10**7
    disks.others[host.id, other] = disks.free(host, other) - 10**6
    options = Options(
        engine=engine,
        min_free=RESERVE,
        size_refresh_s=4.0,
        copy_refresh_s=1.0,
        max_partitions_in_flight=1,
    )
    world.add_daemon(placing(world, options, loss=0.0))
    world.run_for(3.0)
    replicas = (BrokerId(1), BrokerId(2))
    named = {tp(0): named_dirs(replicas, None, other)}
    there = (BrokerId(3), BrokerId(4))
    world.submit_request({tp(0): replicas, tp(1): there}, None, named)
    world.run_for(60.0)
    assert misplaced(world, named)
    assert world.assignment(tp(1)).replicas == there
    disks.others.clear()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}


def test_refused_directory_leaves_its_slot_to_others() -> None:
    """The directory failed after the entry was accepted."""
    world = cluster(5, EngineName.NATIVE, {0: [1, 2], 1: [1, 2]})
    world.add_daemon(placing(world, Options(max_partitions_in_flight=1), loss=0.0))
    world.run_for(3.0)
    there = (BrokerId(3), BrokerId(4))
    named = {tp(0): named_dirs(there, 1, None)}
    world.pause(Pauses(everything=Pause("later")))
    world.submit_request({tp(0): there, tp(1): there}, None, named)
    world.run_for(10.0)
    host = world.brokers[BrokerId(3)]
    host.fail_directory(1)
    world.run_for(5.0)
    world.pause(Pauses())
    world.run_for(60.0)
    assert world.assignment(tp(0)).replicas == (1, 2)
    assert world.assignment(tp(1)).replicas == there
    host.stop()
    host.repair_directories()
    host.start()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}


def submit(world: World, chance: Random, *, may_plan: bool) -> None:
    """Submit entries with directories, as a legacy plan if it may be, or cancel some or all."""
    choice = chance.random()
    if choice < 0.55:
        target, named = drawn(chance, world)
        world.submit_request(target, None, named)
    elif choice < 0.7 and world.zookeeper.get(paths.QUEUE) is None:
        world.submit_queue(*drawn(chance, world))
    elif choice < 0.8 and may_plan and world.zookeeper.get(paths.LEGACY_PLAN) is None:
        world.submit_plan(*drawn(chance, world))
    elif choice < 0.95 and world.zookeeper.get(paths.CANCEL) is None:
        chosen = chance.sample(world.partitions(), 2)
        world.cancel(partitions=chosen if chance.random() < 0.5 else ())


def disturb(world: World, chance: Random) -> None:
    """Let a broker die, or lose a directory, or let only time pass; everything comes back."""
    broker = world.brokers[chance.choice(sorted(world.brokers))]
    if chance.random() < 0.3:
        broker.fail_directory(chance.choice((0, 1)))
        world.run_for(chance.uniform(1.0, 9.0))
    if chance.random() < 0.5:
        chance.choice((broker.kill, broker.stop))()
        world.run_for(chance.uniform(1.0, 9.0))
    if not broker.is_alive or broker.offline_directories:
        broker.stop()
        broker.repair_directories()
        broker.start()
    world.run_for(chance.uniform(0.5, 12.0))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_moves_follow_later_targets_and_cancellations(engine: EngineName, seed: int) -> None:
    """By requests and queues, while directories fail, disks fill, and daemons and brokers die."""
    chance = Random(f"changing directories {seed}")
    world = cluster(seed, engine, {n: chance.sample(range(1, 6), 2) for n in range(PARTITIONS)})
    world.fabric.stalls_moves = chance.random() < 0.5
    disks = SimDisks(world.fabric, 10**12)
    fill(world, chance)
    disks.size = disks.least_free = 10**7 * chance.choice((1, 10))
    world.producer.start()
    observer = DoneObserver(world)
    options = Options(
        engine=engine,
        step_size=chance.choice((1, None)),
        min_free=chance.choice((None, RESERVE)),
        size_refresh_s=4.0,
        copy_refresh_s=1.0,
        max_partitions_in_flight=chance.choice((2, 100)),
    )
    build = placing(world, options, observer=observer)
    daemon = world.add_daemon(build)
    world.run_for(3.0)
    for _ in range(6):
        submit(world, chance, may_plan=engine is EngineName.NATIVE)
        if chance.random() < 0.2:
            daemon.crash_after(chance.randint(0, 40))
        disturb(world, chance)
        if not daemon.is_alive:
            daemon = world.add_daemon(build)
    daemon.spare()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    for broker in world.brokers.values():
        # A rollback does not wait for a dead broker, which continues its moves when it is back.
        broker.futures.clear()
    target, named = drawn(chance, world)
    observer.named = named
    request = world.submit_request(target, None, named)
    if chance.random() < 0.5:
        world.run_for(chance.uniform(0.5, 9.0))
        world.cancel()
        world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
        assert not any(b.futures for b in world.brokers.values())
        return
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert refusals_of(world, request) == ()
    assert observer.wrong == []
    assert {p: world.assignment(p).replicas for p in target} == target
    assert misplaced(world, named) == {}
