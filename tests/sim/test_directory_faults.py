"""Directories of replicas where brokers refuse, stay silent, or lose room while replicas move."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, cast

import pytest

from controller import kafka_errors
from controller.core.core_settings import EngineName, Options
from controller.core.model import BrokerId, LogDirs, TopicPartition
from controller.core.pacing.controls import Pause, Pauses
from tests.sim.brokers import SimBroker
from tests.sim.directories import SimLogDirs, placing
from tests.sim.disks import SimDisks, path_of
from tests.sim.histories import is_finished
from tests.sim.test_directories import (
    END_S,
    ENGINES,
    cluster,
    misplaced,
    named_dirs,
    refusals_of,
    tp,
)
from tests.sim.test_disks import RESERVE, fill
from tests.sim.world import World

if TYPE_CHECKING:
    from controller.reactor.loop import Reactor

REPLICAS: Final = (BrokerId(1), BrokerId(2))
SECOND: Final = BrokerId(2)


def other_dir(world: World, number: int = 0) -> int:
    """Return the directory of broker 2 in which it does not have its replica."""
    return 1 - world.brokers[SECOND].logs[tp(number)].directory


def in_directory(directory: int, number: int = 0) -> dict[TopicPartition, LogDirs]:
    """Return a directory of broker 2 as an entry names it."""
    return {tp(number): named_dirs(REPLICAS, None, directory)}


def test_stop_of_a_stalled_move_is_requested_once() -> None:
    """Not again and again until the next report shows that it has stopped."""
    world = cluster(2, EngineName.NATIVE, {0: [1, 2]})
    fill(world, Random(2), least=1400)
    world.add_daemon(placing(world, Options(), loss=0.0))
    world.run_for(3.0)
    host, other = world.brokers[SECOND], other_dir(world)
    stops = 0

    def count(_: int, sent: object) -> None:
        nonlocal stops
        stops += isinstance(sent, dict) and sent.get(tp()) == path_of(1 - other)

    world.fabric.on_sent.append(count)
    named = in_directory(other)
    world.submit_request({tp(): REPLICAS}, None, named)
    world.run_until(lambda: tp() in host.futures, within_s=60.0)
    host.futures[tp()].is_stuck = True
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}
    assert stops == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_cancellation_ends_where_the_daemon_may_not_move_replicas(
    engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Alter on the cluster there is no move to be stopped, and no way to stop one."""
    world = cluster(3, engine, {0: [1, 2]})
    world.add_daemon(placing(world, Options(engine=engine)))
    world.run_for(3.0)
    denied = kafka_errors.CLUSTER_AUTHORIZATION_FAILED
    monkeypatch.setattr(SimBroker, "place", lambda *_: denied)
    world.submit_request({tp(): REPLICAS}, None, in_directory(other_dir(world)))
    world.run_for(30.0)
    assert not is_finished(world)
    world.cancel()
    world.run_until(lambda: is_finished(world), within_s=300.0, look_every_s=0.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_move_found_in_progress_keeps_its_space(engine: EngineName) -> None:
    """A daemon that takes over reserves what the move still takes."""
    world = cluster(4, engine, {0: [1, 2]})
    SimDisks(world.fabric, 10**8)
    fill(world, Random(4), least=1400)
    build = placing(world, Options(engine=engine, min_free=RESERVE, size_refresh_s=4.0), loss=0.0)
    daemon = world.add_daemon(build)
    world.run_for(3.0)
    host, named = world.brokers[SECOND], in_directory(other_dir(world))
    world.submit_request({tp(): REPLICAS}, None, named)
    world.run_until(lambda: tp() in host.futures, within_s=60.0)
    daemon.crash()
    daemon = world.add_daemon(build)
    view = cast("Reactor", daemon.loop).view
    world.run_until(lambda: tp() in view.disks.receivers, within_s=30.0, look_every_s=0.1)
    assert tp() in host.futures
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}


def test_another_directory_is_judged_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later entry names a directory without room while the replica moves to one with room."""
    monkeypatch.setattr(SimBroker, "directories", range(3))
    world = cluster(5, EngineName.NATIVE, {0: [1, 2]})
    disks = SimDisks(world.fabric, 10**8)
    fill(world, Random(5), least=1400)
    host, other, full = world.brokers[SECOND], other_dir(world), 2
    disks.others[SECOND, full] = disks.size - RESERVE.bytes - 10**5
    options = Options(min_free=RESERVE, size_refresh_s=4.0, copy_refresh_s=1.0)
    world.add_daemon(placing(world, options, loss=0.0))
    world.run_for(3.0)
    world.submit_request({tp(): REPLICAS}, None, in_directory(other))
    world.run_until(lambda: tp() in host.futures, within_s=60.0)
    named = in_directory(full)
    world.submit_request({tp(): REPLICAS}, None, named)
    world.run_for(60.0)
    assert full not in {f.directory for f in host.futures.values()}
    assert misplaced(world, named)
    disks.others.clear()
    world.run_until(lambda: not misplaced(world, named), within_s=END_S, look_every_s=0.5)
    assert disks.least_free >= RESERVE.bytes


@pytest.mark.parametrize("engine", ENGINES)
def test_move_is_stopped_for_a_later_entry_that_is_cancelled(engine: EngineName) -> None:
    """It drops the replica that moves, and is cancelled before it begins."""
    world = cluster(8, engine, {0: [1, 2]})
    fill(world, Random(8), least=1400)
    world.producer.start()
    world.add_daemon(placing(world, Options(engine=engine), loss=0.0))
    world.run_for(3.0)
    host, other = world.brokers[SECOND], other_dir(world)
    world.submit_request({tp(): REPLICAS}, None, in_directory(other))
    world.run_until(lambda: tp() in host.futures, within_s=60.0)
    world.pause(Pauses(brokers={BrokerId(3): Pause("later")}))
    world.submit_request({tp(): (BrokerId(3), BrokerId(4))})
    world.run_for(5.0)
    world.cancel()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert (host.logs[tp()].directory, host.futures) == (1 - other, {})


@pytest.mark.parametrize("restarts", [False, True])
def test_broker_that_was_silent_once_is_queried_again(
    monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    """An entry is refused for what its broker does, not for what it did before."""
    world = cluster(6, EngineName.DELEGATED, {0: [1, 2], 1: [1, 2]})
    world.add_daemon(placing(world, Options(engine=EngineName.DELEGATED), loss=0.0))
    world.run_for(3.0)
    # Work that keeps the tenure.
    world.pause(Pauses(brokers={BrokerId(5): Pause("later")}))
    world.submit_request({tp(1): (BrokerId(1), BrokerId(5))})
    with monkeypatch.context() as silence:
        silence.setattr(SimLogDirs, "_is_lost", lambda _: True)
        request = world.submit_request({tp(): REPLICAS}, None, in_directory(0))
        world.run_for(80.0)
    (refusal,) = refusals_of(world, request)
    assert "does not report its log directories" in refusal.detail
    if restarts:
        world.brokers[SECOND].stop()
        world.brokers[SECOND].start()
        world.run_for(5.0)
    else:
        world.run_for(60.0)
    named = in_directory(other_dir(world))
    request = world.submit_request({tp(): REPLICAS}, None, named)
    world.run_for(5.0)
    world.pause(Pauses())
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert refusals_of(world, request) == ()
    assert misplaced(world, named) == {}


@pytest.mark.parametrize("fault", ["offline", "dead", "denied"])
def test_replica_that_cannot_be_moved_leaves_its_slot_to_others(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory failed, its broker died, or refuses, after the move was accepted."""
    world = cluster(7, EngineName.NATIVE, {0: [1, 2], 1: [1, 3]})
    world.add_daemon(placing(world, Options(max_partitions_in_flight=1), loss=0.0))
    world.run_for(3.0)
    host, other = world.brokers[SECOND], other_dir(world)
    named, there = in_directory(other), (BrokerId(3), BrokerId(4))
    with monkeypatch.context() as patched:
        patched.setattr(SimBroker, "place", lambda *_: kafka_errors.CLUSTER_AUTHORIZATION_FAILED)
        world.submit_request({tp(0): REPLICAS}, None, named)
        world.run_for(8.0)
        if fault == "offline":
            host.fail_directory(other)
        elif fault == "dead":
            host.stop()
        world.submit_request({tp(1): there})
        world.run_for(60.0)
        assert world.assignment(tp(1)).replicas == there
    if fault != "denied":
        host.stop()
        host.repair_directories()
        host.start()
    world.run_until(lambda: is_finished(world), within_s=END_S, look_every_s=0.5)
    assert misplaced(world, named) == {}
