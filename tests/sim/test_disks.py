"""Reassignments on brokers with little room: no disk is ever full, and plans end."""

from __future__ import annotations

from random import Random
from typing import Final, cast

import pytest

from controller.core.core_settings import EngineName, Options
from controller.core.model import BlockedBy, BrokerId, LogDirs, MinFree, TopicPartition
from controller.core.reassignments.records import BlockedRecord, PhaseRecord
from controller.core.reassignments.step_start import NO_ROOM
from controller.core.records import Change
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.znodes import paths
from integration.rigs.failpoint_names import NamedFailpoints
from tests.sim.alter_api import SimAlterApi
from tests.sim.alter_rules import AlterRules
from tests.sim.daemons import Build, Ports
from tests.sim.directories import SimLogDirs, placing
from tests.sim.disks import RECORD_BYTES, DiskFullError, SimDisks, path_of
from tests.sim.histories import SilentObserver, is_finished
from tests.sim.logs import Record
from tests.sim.seeds import seeds
from tests.sim.store import SimStore
from tests.sim.world import World

RESERVE: MinFree = MinFree(bytes=300 * RECORD_BYTES)
PARTITIONS = 12
END_S = 2000.0
PATIENCE_S = 600.0
"""The time after which an operator names the directories of what still waits."""
SHARE = 0.55


class RoomObserver(SilentObserver):
    """Counts how often a partition waited for room, and which copies were taken back."""

    def __init__(self) -> None:
        self.waits = 0
        self.taken_back: list[TopicPartition] = []

    def on_committed(self, change: Change, view: ClusterView) -> None:  # noqa: ARG002 - the port's
        """Count."""
        for record in change.records:
            if isinstance(record, BlockedRecord) and record.blocked is not None:
                self.waits += record.blocked.by is BlockedBy.DISK_FULL
            if isinstance(record, PhaseRecord) and record.cause == NO_ROOM:
                self.taken_back.append(record.partition)


def guarded(
    world: World, options: Options, observer: SilentObserver, *, loss: float = 0.1
) -> Build:
    """Return a builder of daemons that measure the room on disks; some alter entries are lost."""
    rules = AlterRules(world, None) if options.engine is EngineName.DELEGATED else None

    def build(ports: Ports) -> Reactor:
        inbox = cast("SimStore", ports.store).inbox
        orders = None if rules is None else SimAlterApi(world, inbox, rules, loss=loss)
        return Reactor(
            view=ClusterView(options=options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            log_dirs=SimLogDirs(world.fabric, inbox),
            clock=ports.clock,
            observer=observer,
            reassignments=orders,
            failpoints=NamedFailpoints(ports.reached),
            lease=ports.lease,
        )

    return build


def fill(world: World, chance: Random, least: int = 50) -> None:
    """Give every partition a log of some size, the same on all its replicas."""
    world.run_until(
        lambda: all(
            p in world.brokers[r].logs
            for p in world.partitions()
            for r in world.assignment(p).replicas
        ),
        within_s=10.0,
        look_every_s=0.1,
    )
    for partition in world.partitions():
        records = chance.randint(least, 1500)
        state = world.state(partition)
        assert state is not None
        for broker in world.brokers.values():
            log = broker.logs.get(partition)
            if log is not None:
                log.records[:0] = [Record(0, -n) for n in range(records, 0, -1)]
                log.high_watermark = log.end


def largest(world: World, target: dict[TopicPartition, list[int]]) -> int:
    """Return the bytes that a directory needs at least: the fullest before and after the plan."""
    sizes = {p: max(b.logs[p].end for b in world.brokers.values() if p in b.logs) for p in target}
    before = max(
        sum(log.end for log in b.logs.values() if log.directory == d)
        for b in world.brokers.values()
        for d in b.directories
    )
    after = max(
        sum(sizes[p] for p, replicas in target.items() if b in replicas) for b in world.brokers
    )
    # Both directories of a broker share what it gets.
    # Both directories of a broker share what it gets.
    return int(max(before, SHARE * after) + max(sizes.values())) * RECORD_BYTES + 2 * RESERVE.bytes


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_no_disk_is_ever_full_and_the_plan_ends(engine: EngineName, seed: int) -> None:
    """With producers, a daemon that dies on the way and a broker that restarts."""
    chance = Random(f"disks {seed}")
    world = World(seed, produce_every_s=5.0)
    disks = SimDisks(world.fabric, 10**12)
    if engine is EngineName.DELEGATED:
        world.invariants.records.fence = paths.EPOCH
        world.invariants.records.owes_logs = False
    rows = {n: chance.sample(range(1, 6), 2) for n in range(PARTITIONS)}
    world.create_topic("t", rows)
    world.settle()
    fill(world, chance)
    target = {TopicPartition("t", n): chance.sample(range(1, 6), 2) for n in range(PARTITIONS)}
    disks.size = disks.least_free = largest(world, target)
    world.producer.start()
    observer = RoomObserver()
    options = Options(
        engine=engine,
        min_free=RESERVE,
        size_refresh_s=4.0,
        copy_refresh_s=1.0,
        step_size=chance.choice((1, 2, None)),
    )
    build = placing(world, options, observer=observer)
    daemon = world.add_daemon(build)
    world.run_for(3.0)
    world.submit_request(target)
    world.run_for(chance.uniform(1.0, 6.0))
    daemon.crash()
    world.add_daemon(build)
    broker = world.brokers[chance.choice(sorted(world.brokers))]
    broker.kill()
    world.run_for(chance.uniform(5.0, 12.0))
    broker.start()
    world.run_for(PATIENCE_S)
    left = {p: r for p, r in target.items() if list(world.assignment(p).replicas) != r}
    if left and not is_finished(world):
        world.submit_request(left, log_dirs=roomy_directories(world, disks, left))
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert all(list(world.assignment(p).replicas) == r for p, r in target.items())
    assert disks.least_free > 0


def roomy_directories(
    world: World, disks: SimDisks, target: dict[TopicPartition, list[int]]
) -> dict[TopicPartition, LogDirs]:
    """
    Return the directory with the most room for each new replica.

    A broker puts a new log where it has the fewest. A copy waits while that may be a directory
    without room, and an operator can name another.
    """
    named = {}
    for partition, replicas in target.items():
        there = world.assignment(partition).replicas
        hosts = [world.brokers[BrokerId(r)] for r in replicas if r not in there]
        rooms = {h.id: {d: disks.free(h, d) for d in h.directories} for h in hosts}
        named[partition] = tuple(
            (broker, path_of(max(free, key=free.__getitem__))) for broker, free in rooms.items()
        )
    return named


def test_without_the_guard_a_disk_is_filled() -> None:
    """The law is not met by chance: the same plan on the same disks."""
    filled = 0
    for seed in range(4):
        chance = Random(f"full {seed}")
        world = World(seed, produce_every_s=5.0)
        disks = SimDisks(world.fabric, 10**12)
        world.create_topic("t", {n: [1 + n % 4] for n in range(8)})
        world.settle()
        fill(world, chance)
        target = {TopicPartition("t", n): [5] for n in range(8)}
        disks.size = largest(world, {TopicPartition("t", n): [1] for n in range(2)}) // 2
        disks.size = max(disks.size, 1800 * RECORD_BYTES)
        try:
            world.add_daemon(guarded(world, Options(), RoomObserver()))
            world.run_for(3.0)
            world.submit_request(target)
            world.run_for(60.0)
        except DiskFullError:
            filled += 1
    assert filled


def test_daemon_waits_where_there_is_no_room() -> None:
    """Both copies fit alone, not together."""
    world = World(1)
    disks = SimDisks(world.fabric, 10**12)
    world.create_topic("t", {n: [1 + n % 4] for n in range(8)}, produce=False)
    world.settle()
    fill(world, Random(1))
    disks.size = 3000 * RECORD_BYTES
    observer = RoomObserver()
    world.add_daemon(guarded(world, Options(min_free=RESERVE, size_refresh_s=4.0), observer))
    world.run_for(3.0)
    world.submit_request({TopicPartition("t", n): [5] for n in range(8)})
    world.run_for(100.0)
    assert observer.waits
    assert disks.least_free >= RESERVE.bytes
    assert any(world.assignment(TopicPartition("t", n)).replicas == (5,) for n in range(8))


LARGE_RECORD: Final = 10**6
"""Directories with records of this size differ by more than volumes do."""
FLOOR_RECORDS: Final = 600
SLOW_FETCH_S: Final = 20.0


def copies_of(world: World) -> list[tuple[BrokerId, TopicPartition]]:
    """Return the copies in progress of which much is left."""
    found = []
    for partition in world.partitions():
        state = world.state(partition)
        for broker in world.assignment(partition).adding_replicas if state is not None else ():
            log = world.brokers[broker].logs.get(partition)
            held = [b.logs[partition].end for b in world.brokers.values() if partition in b.logs]
            if log is not None and log.end + FLOOR_RECORDS < max(held):
                found.append((broker, partition))
    return found


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_copies_are_taken_back_before_other_logs_and_they_fill_a_disk(
    engine: EngineName, seed: int
) -> None:
    """Other logs take the room of a copy in progress; with room again the plan ends."""
    chance = Random(f"floor {seed}")
    world = World(seed, produce_every_s=5.0)
    disks = SimDisks(world.fabric, 10**12, LARGE_RECORD)
    if engine is EngineName.DELEGATED:
        world.invariants.records.fence = paths.EPOCH
        world.invariants.records.owes_logs = False
    world.create_topic("t", {n: chance.sample(range(1, 6), 2) for n in range(PARTITIONS)})
    world.settle()
    fill(world, chance, least=2 * FLOOR_RECORDS)
    for broker in world.brokers.values():
        broker.replication.extra_fetch_s = SLOW_FETCH_S
    target = {TopicPartition("t", n): chance.sample(range(1, 6), 2) for n in range(PARTITIONS)}
    observer = RoomObserver()
    options = Options(
        engine=engine,
        min_free=MinFree(bytes=2 * FLOOR_RECORDS * LARGE_RECORD),
        size_refresh_s=4.0,
        copy_refresh_s=1.0,
        max_incoming_per_broker=1,
        step_size=chance.choice((1, 2, None)),
    )
    # While its entries are lost, the delegated engine takes no copy back.
    build = guarded(world, options, observer, loss=0.0)
    daemon = world.add_daemon(build)
    world.run_for(3.0)
    world.submit_request(target)
    world.run_until(lambda: bool(copies_of(world)), within_s=60.0, look_every_s=0.5)
    filled = [(b, p, world.brokers[b].logs[p].directory) for b, p in copies_of(world)]
    for receiver, _, directory in filled:
        host = world.brokers[receiver]
        left = chance.randint(FLOOR_RECORDS * 3 // 4, FLOOR_RECORDS - 1) * LARGE_RECORD
        disks.others[receiver, directory] = disks.free(host, directory) - left
    world.run_until(lambda: bool(observer.taken_back), within_s=10.0, look_every_s=0.01)
    if seed % 2:
        daemon.crash()
        world.add_daemon(build)

    def is_held(receiver: BrokerId, partition: TopicPartition, directory: int) -> bool:
        log = world.brokers[receiver].logs.get(partition)
        return log is not None and log.directory == directory

    world.run_until(lambda: not any(is_held(*f) for f in filled), within_s=40.0, look_every_s=0.1)
    world.run_for(100.0)
    assert observer.waits
    disks.others.clear()
    for broker in world.brokers.values():
        broker.replication.extra_fetch_s = 0.0
    world.producer.start()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert all(list(world.assignment(p).replicas) == r for p, r in target.items())
    assert disks.least_free > 0
