"""
Seeded histories: the real loop and core on a simulated cluster, with plans, faults and a good end.

One history is a function of its seed and options. ``python -m tests.sim.histories SEED [COUNT]``
runs some by hand and prints what went wrong; string hashing has to be fixed (PYTHONHASHSEED=0) for
two runs to be the same, since some events carry sets of topics.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.core.events import Event
from controller.core.model import BrokerId, TopicPartition
from controller.core.options import Options
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.reactor.ports import BrokerRequest, WriteError
from controller.znodes import paths
from tests.sim.daemons import Build, Ports
from tests.sim.faults import Faults, Weights
from tests.sim.judges import InvariantViolationError
from tests.sim.world import NotReachedError, World

GOOD_END_S: Final = 200.0
"""How long a healed cluster may take to finish what was asked for."""
PLAN_EVERY_S: Final = 20.0
_OPTIONS: Final = Options(tenure_linger_s=3.0, stop_replica_timeout_s=10.0)
_WEIGHTS: Final = Weights()


class SilentObserver:
    """Sees everything, says nothing."""

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Do nothing."""

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """Do nothing."""

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Do nothing."""

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Do nothing."""

    def on_turn(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """Do nothing."""


def reactors(options: Options) -> Build:
    """Return what builds the real loop from the ports of a simulated daemon."""

    def build(ports: Ports) -> Reactor:
        return Reactor(
            view=ClusterView(options=options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            clock=ports.clock,
            observer=SilentObserver(),
            crash_at=ports.crash_at,
            lease_s=ports.lease_s,
        )

    return build


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What a history is made of."""

    options: Options = _OPTIONS
    plans: int = 4
    fault_every_s: float = 1.5
    weights: Weights = _WEIGHTS


def play(seed: int, plot: Plot | None = None) -> World:
    """
    Run one history to its good end.

    Args:
        seed: Decides everything.
        plot: What happens.

    Returns:
        The world at its end.

    Raises:
        InvariantViolationError: a rule was broken on the way.
        NotReachedError: the healed cluster did not finish what was asked for.

    """
    plot = plot or Plot()
    world = World(seed)
    three = {n: [1 + n % 5, 1 + (n + 1) % 5, 1 + (n + 2) % 5] for n in range(6)}
    two = {n: [1 + n % 5, 1 + (n + 1) % 5] for n in range(4)}
    world.create_topic("three", three, min_insync_replicas=2)
    world.create_topic("two", two)
    world.producer.start()
    world.settle()
    build = reactors(plot.options)
    faults = Faults(world, every_s=plot.fault_every_s, weights=plot.weights, daemon=build)
    world.add_daemon(build)
    world.run_for(3.0)
    faults.start()
    for _ in range(plot.plans):
        if world.zookeeper.get(paths.LEGACY_PLAN) is None:
            world.submit_plan(_plan(world))
        world.run_for(PLAN_EVERY_S)
    faults.heal()
    world.run_until(lambda: is_finished(world), within_s=GOOD_END_S)
    return world


def is_finished(world: World) -> bool:
    """Whether nothing is left of any plan and every partition is healthy."""
    zookeeper = world.zookeeper
    return (
        zookeeper.get(paths.LEGACY_PLAN) is None
        and not any(
            zookeeper.children(paths.goal_topic_path(topic))
            for topic in zookeeper.children(paths.GOALS) or ()
        )
        and world.all_healthy()
    )


def _plan(world: World) -> dict[TopicPartition, list[int]]:
    """Draw a target for every partition: other replicas, sometimes one more or one less."""
    chance = world.schedule.random
    brokers = sorted(world.brokers)
    plan = {}
    for partition in world.partitions():
        minimum = world.fabric.config(partition.topic).min_insync_replicas
        size = len(world.assignment(partition).target_replicas) + chance.choice((-1, 0, 0, 0, 1))
        plan[partition] = [*chance.sample(brokers, max(minimum, min(size, len(brokers))))]
    return {p: [int(b) for b in replicas] for p, replicas in plan.items()}


def main(arguments: list[str]) -> int:
    """Run histories by hand; return how many failed."""
    first = int(arguments[0]) if arguments else 0
    count = int(arguments[1]) if len(arguments) > 1 else 1
    failed = 0
    for seed in range(first, first + count):
        try:
            world = play(seed)
        except (InvariantViolationError, NotReachedError) as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {error}\n")
        else:
            events, checks = world.schedule.events, world.invariants.checks
            sys.stdout.write(f"seed {seed}: {world.now:.0f} s, {events} events, {checks} checks\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
