"""
A week of a cluster with few faults and many changes, and daemons that run throughout.

Histories of seconds with a fault in each find races. Facts that a daemon forgets, keeps for ever or
keeps after they changed show only when it runs for long. Every evening all requests of the day have
ended, and every partition has its last target.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from controller.core.core_settings import EngineName, Options
from controller.core.model import BrokerId, TopicConfig
from controller.znodes import paths
from tests.sim.daemons import Build
from tests.sim.delegated_histories import DelegatedPlot, daemons_of
from tests.sim.histories import is_finished, reactors
from tests.sim.plots import FORTUNES
from tests.sim.topic_lives import RequestedTargets, TopicLives
from tests.sim.world import World

DAY_S: Final = 24 * 3600.0
EVENING_S: Final = 900.0
"""The time that the last requests of a day may take."""
AWAY_S: Final = 120.0
CHANGE_EVERY_S: Final = 3 * 3600.0
DAEMONS: Final = 2
DAYS: Final = 7
LAG_S: Final = 600.0
"""``replica.lag.time.max.ms``: a longer interval keeps the number of events small."""


class Days:
    """Changes of brokers, settings and daemons, one a day."""

    def __init__(self, world: World, build: Build) -> None:
        """Begin with nothing."""
        self._world = world
        self._build = build
        self._chance = Random(f"days {world.seed}")
        self._kinds: tuple[Callable[[], None], ...] = (
            self._restart_one_by_one,
            self._replace_daemon,
            self._retire,
            self._restart_all,
            self._change_settings,
            self._expire_daemons,
            self._crash_daemons,
        )

    def happen(self, day: int) -> None:
        """Make the change of a day of the week."""
        kind = self._kinds[day % len(self._kinds)]
        self._world.fabric.note(f"day {day}: {kind.__name__}")
        kind()

    def _restart_one_by_one(self) -> None:
        for broker in self._world.brokers.values():
            broker.stop()
            self._world.run_for(AWAY_S)
            broker.start()
            self._world.run_for(AWAY_S)

    def _restart_all(self) -> None:
        for broker in self._world.brokers.values():
            broker.kill()
        self._world.run_for(AWAY_S)
        for broker in self._world.brokers.values():
            broker.start()

    def _retire(self) -> None:
        """Let a broker be away for hours."""
        broker = self._world.brokers[BrokerId(self._chance.choice(sorted(self._world.brokers)))]
        broker.stop()
        self._world.run_for(DAY_S / 8)
        broker.start()

    def _change_settings(self) -> None:
        for topic, config in list(self._world.fabric.configs.items()):
            least = 1 if config.min_insync_replicas == 2 else 2
            self._world.fabric.configs[topic] = TopicConfig(least, False)  # noqa: FBT003

    def _replace_daemon(self) -> None:
        self._world.daemons[0].stop()
        self._world.run_for(AWAY_S)
        self._world.add_daemon(self._build)

    def _crash_daemons(self) -> None:
        for daemon in self._world.daemons:
            daemon.crash()
        self._world.run_for(AWAY_S)
        for _ in range(DAEMONS):
            self._world.add_daemon(self._build)

    def _expire_daemons(self) -> None:
        for daemon in self._world.daemons:
            daemon.store.session.expire()


def daemons(world: World, engine: EngineName) -> Build:
    """Return the factory of daemons of an engine."""
    options = Options(engine=engine, step_size=1)
    if engine is EngineName.NATIVE:
        world.invariants.records.step_size = options.step_size
        return reactors(options)
    world.invariants.records.fence = paths.EPOCH
    world.invariants.records.owes_logs = False
    plot = DelegatedPlot(
        name="a week",
        options=options,
        daemons=DAEMONS,
        weights=FORTUNES["nothing"],
        fault_every_s=DAY_S,
        rounds=0,
        loss=0.0,
        cancels=False,
        rivals=False,
    )
    return daemons_of(world, plot)


def is_settled(world: World) -> bool:
    """Return whether every request has ended."""
    return not world.zookeeper.children(paths.REQUESTS) and is_finished(world)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_a_week_of_changes_each_of_which_is_moved(engine: EngineName) -> None:
    """Topics change every few hours, brokers or daemons every day; nothing is left or refused."""
    world = World(1, produce_every_s=300.0)
    world.fabric.replica_lag_s = LAG_S
    world.create_topic("stays", {n: [1 + n, 1 + (n + 1) % 5, 1 + (n + 2) % 5] for n in range(5)})
    world.producer.start()
    build = daemons(world, engine)
    targets = RequestedTargets(world)
    world.settle()
    for _ in range(DAEMONS):
        world.add_daemon(build)
    world.run_for(60.0)
    lives = TopicLives(world, targets, every_s=CHANGE_EVERY_S)
    days = Days(world, build)
    for day in range(DAYS):
        morning = world.now
        lives.start()
        days.happen(day)
        world.run_for(max(morning + DAY_S - world.now, 0.0))
        lives.stop()
        world.run_until(lambda: is_settled(world), within_s=EVENING_S, look_every_s=5.0)
        assert targets.unmet() == {}, f"day {day}"
    assert lives.changes > 3 * DAYS
    world.producer.stop()
    world.run_for(60.0)
    world.invariants.judge_end({})
    targets.judge_end()
