"""
Seeded histories of the delegated engine: the real loop and core beside Kafka's own controllers.

``delegated_campaigns`` plays many. Operators submit requests, replace their targets and cancel;
other clients move partitions by the API; topics are created, grown and deleted; brokers, disks,
controllers, daemons and connections fail. In the end the cluster is healed, every last target is
reached or was refused, and every log dropped while its broker was dead is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final, cast

from controller.core.core_settings import EngineName, ForeignMoves, Options
from controller.core.model import (
    Replicas,
    TopicPartition,
)
from controller.core.pacing.controls import Drain
from controller.core.reassignments.phases import Ended
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.znodes import paths
from integration.rigs.failpoint_names import NamedFailpoints
from tests.sim.alter_api import SimAlterApi
from tests.sim.alter_rules import AlterRules
from tests.sim.bound_rules import BoundRules
from tests.sim.daemons import Build, Ports
from tests.sim.drain_rules import DrainRules
from tests.sim.faults import Faults, Weights
from tests.sim.histories import (
    GOOD_END_S,
    LOOK_EVERY_S,
    SilentObserver,
    is_finished,
    quiesce_to_the_end,
)
from tests.sim.latencies import latencies_of
from tests.sim.lost_logs import LostLogs
from tests.sim.operators import toggle_min_isr, toggle_unclean
from tests.sim.plots import (
    DRAINS_SHARE,
    FORTUNES,
    QUIESCES_SHARE,
    REFRESHES_S,
    TOGGLED_SHARE,
)
from tests.sim.requesters import DRAINED_FROM
from tests.sim.store import SimStore
from tests.sim.topic_lives import TOPICS, RequestedTargets, TopicLives
from tests.sim.world import World

ROUND_S: Final = 15.0
SILENT_S: Final = 35.0
"""The time that a reassignment may make no progress without a reason."""
BROKERS: Final = 5
PATIENCE_S: Final = 8 * GOOD_END_S
"""
A partition whose step others took back rests a minute, each time.

With two partitions in flight and 40 % of the calls lost, a step takes half a minute.
"""


@dataclass(frozen=True, slots=True)
class DelegatedPlot:
    """The settings of a history."""

    name: str
    options: Options
    daemons: int
    weights: Weights
    fault_every_s: float
    rounds: int
    loss: float
    cancels: bool
    rivals: bool
    """True if other clients move partitions by the API."""
    topics_every_s: float | None = None
    """Mean time between two changes of topics; None: there are none."""
    toggles: bool = False
    """True if the settings of topics change."""
    quiesces: bool = False
    """True if an operator ends all work in the end."""
    drains: bool = False
    """True if operators drain brokers."""

    @property
    def is_strict(self) -> bool:
        """True if all requests have one author: then every last one is carried out."""
        return not (self.cancels or self.rivals or self.quiesces)


def plot_of(seed: int) -> DelegatedPlot:
    """Return the plot of a seed."""
    chance = Random(f"delegated {seed}")
    options = Options(
        engine=EngineName.DELEGATED,
        step_size=chance.choice((1, 1, 2, None)),
        max_partitions_in_flight=chance.choice((100, 100, 2)),
        foreign_moves=chance.choice(list(ForeignMoves)),
    )
    fortune = chance.choice(("nothing", "anything", "anything", *list(FORTUNES)[2:]))
    # A daemon of the delegated engine claims no role that could be taken.
    weights = replace(FORTUNES[fortune], role_taken_in_commit=0)
    cancels, rivals = chance.random() < 0.5, chance.random() < 0.3
    topics_every_s = chance.choice((None, 0.5, 2.0, 6.0))
    plot = DelegatedPlot(
        "",
        options,
        chance.choice((1, 2, 2)),
        weights,
        chance.choice((0.7, 1.5, 4.0)),
        chance.choice((2, 4)),
        chance.choice((0.0, 0.1, 0.4)),
        cancels,
        rivals,
        topics_every_s,
    )
    # Its own generator, so that the other draws of a seed do not change.
    toggled = Random(f"delegated, toggled settings {seed}")
    if toggled.random() < TOGGLED_SHARE:
        options = replace(options, config_refresh_s=toggled.choice(REFRESHES_S))
        plot = replace(plot, toggles=True, options=options)
    if Random(f"delegated, quiesces {seed}").random() < QUIESCES_SHARE:
        plot = replace(plot, quiesces=True)
    if Random(f"delegated, drains {seed}").random() < DRAINS_SHARE:
        plot = replace(plot, drains=True)
    words = [
        f"{plot.daemons} daemon(s)",
        f"step {options.step_size or 'all'}",
        f"{options.max_partitions_in_flight} in flight",
        f"foreign moves: {options.foreign_moves}",
        f"{fortune} every {plot.fault_every_s} s",
        f"{plot.loss:.0%} of calls lost",
        "cancellations" if cancels else "no cancellations",
        "rivals" if rivals else "no rivals",
        f"topics change every {topics_every_s} s" if topics_every_s else "topics stay",
        "drains" if plot.drains else "no drains",
        f"settings {'toggled' if plot.toggles else 'kept'}, {options.config_refresh_s:.0f} s old",
    ]
    if plot.quiesces:
        words.append("quiesced")
    return replace(plot, name=", ".join(words))


class Observer(SilentObserver):
    """Judges that every reassignment without progress has a blocked reason."""

    def __init__(self, world: World, lost: LostLogs | None) -> None:
        """Observe every daemon of a history."""
        self._world = world
        self._lost = lost

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:  # noqa: ARG002 - the port's
        """Judge the reassignments without progress."""
        if view.tenure.held is None:
            return
        if self._lost is not None:
            self._lost.look(view)
        for partition, reassignment in view.reassignments.by_partition.items():
            begin = max(view.tenure.held.since, reassignment.since, reassignment.phase_since)
            self._world.invariants.judge.ensure(
                reassignment.blocked is not None
                or isinstance(reassignment.phase, Ended)
                or self._world.now - begin < SILENT_S,
                f"{partition}: no progress in {reassignment.phase}, and no blocked reason",
            )


def daemons_of(world: World, plot: DelegatedPlot, lost: LostLogs | None = None) -> Build:
    """Return the factory of daemons of the delegated engine; ``lost`` observes their views."""
    # Foreign reassignments and cancellations may exceed every bound.
    bound = BoundRules(world, plot.options.step_size) if plot.is_strict else None
    observer, rules = Observer(world, lost), AlterRules(world, bound)

    def build(ports: Ports) -> Reactor:
        inbox = cast("SimStore", ports.store).inbox
        return Reactor(
            view=ClusterView(options=plot.options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            clock=ports.clock,
            observer=observer,
            reassignments=SimAlterApi(world, inbox, rules, loss=plot.loss),
            failpoints=NamedFailpoints(ports.reached),
            lease=ports.lease,
            latencies=latencies_of(plot.options, ports),
        )

    return build


class Operators:
    """Request new replicas of everything in rounds, and replace targets in between."""

    def __init__(self, world: World, plot: DelegatedPlot) -> None:
        """Prepare."""
        self._world = world
        self._plot = plot
        self._chance = Random(f"operators {world.seed}")
        self._drain_chance = Random(f"drains {world.seed}")
        self.targets = RequestedTargets(world)
        self.drains = DrainRules(world)
        self.drains.takers.append(self.targets.taken)
        if not plot.drains:
            world.zookeeper.unwatched.add(paths.DRAINS)

    def _replicas(self, size: int) -> Replicas:
        return tuple(self._chance.sample(sorted(self._world.brokers), size))

    def submit(self) -> None:
        """Submit a request for most partitions."""
        world = self._world
        entries = {
            p: self._replicas(self._chance.choice((2, 3, len(world.assignment(p).replicas))))
            for p in self._partitions()
            if self._chance.random() < 0.8
        }
        self._submit(entries)

    def _partitions(self) -> list[TopicPartition]:
        """Return the partitions of the topics that stay."""
        return [p for p in self._world.partitions() if p.topic not in TOPICS]

    def _submit(self, entries: Mapping[TopicPartition, Replicas]) -> None:
        request = self._world.submit_request(entries)
        self.targets.expect(request, entries)
        self._world.fabric.note(f"request {request}: {entries}")

    def toggle(self) -> None:
        """Change the settings of a topic, and later ask for what they may forbid."""
        world, chance = self._world, self._chance
        change = chance.choice((toggle_min_isr, toggle_min_isr, toggle_unclean))
        world.fabric.note(f"{change(world, chance)}")
        entries = {chance.choice(self._partitions()): self._replicas(1)}
        world.schedule.call_between(0.0, ROUND_S / 3, lambda: self._submit(entries))

    def drain(self) -> None:
        """Drain a broker more, or stop that for one."""
        drains, chance = self.drains.standing(), self._drain_chance
        left = sorted(self._world.brokers.keys() - drains.brokers.keys())
        if drains.brokers and (len(left) <= DRAINED_FROM or chance.random() < 0.3):
            drains = drains.removing([chance.choice(sorted(drains.brokers))])
        else:
            drains = drains.adding(Drain(), [chance.choice(left)])
        self._world.fabric.note(f"drained: {sorted(drains.brokers)}")
        self._world.drain(drains)

    def change(self) -> None:
        """Cancel something, ask for something else, or let others move something."""
        world = self._world
        partition = self._chance.choice(self._partitions())
        if self._plot.cancels and self._chance.random() < 0.5:
            chosen = [partition] if self._chance.random() < 0.5 else []
            world.fabric.note(f"cancel {chosen or 'everything'}")
            world.cancel(partitions=chosen)
        elif self._plot.rivals:
            active = world.active_kafka_controller()
            if active is not None and active.duties is not None:
                target = self._replicas(len(world.assignment(partition).target_replicas))
                world.fabric.note(f"others move {partition} to {target}")
                active.duties.alter(partition, self._chance.choice((target, target, None)))
        else:
            self._submit({partition: self._replicas(3)})


def play(
    seed: int,
    plot: DelegatedPlot | None = None,
    world: World | None = None,
    lost: LostLogs | None = None,
) -> World:
    """
    Run one history to its end; ``lost`` watches its world, if it is given.

    Raises:
        InvariantViolationError: A rule was broken on the way.
        NotReachedError: The healed cluster did not finish all requests.

    """
    plot = plot or plot_of(seed)
    world = world or World(seed)
    lost = lost or LostLogs(world)
    world.invariants.records.fence = paths.EPOCH
    # A drop that no daemon saw has no record: ``LostLogs`` knows those that were seen.
    world.invariants.records.owes_logs = False
    world.invariants.trust_settings_for(plot.options.config_refresh_s)
    world.create_topic(
        "three",
        {n: [1 + (n + k) % BROKERS for k in range(3)] for n in range(4)},
        min_insync_replicas=2,
    )
    world.create_topic("two", {n: [1 + (n + k) % BROKERS for k in range(2)] for n in range(3)})
    world.producer.start()
    operators = Operators(world, plot)
    build = daemons_of(world, plot, lost)
    faults = Faults(
        world,
        every_s=plot.fault_every_s,
        weights=plot.weights,
        daemon=build,
        daemons=plot.daemons,
    )
    world.settle()
    for _ in range(plot.daemons):
        world.add_daemon(build)
    lives = TopicLives(world, operators.targets, every_s=plot.topics_every_s or 1.0)
    if plot.topics_every_s is not None:
        lives.start()
    world.run_for(3.0)
    faults.start()
    for _ in range(plot.rounds):
        operators.submit()
        for _ in range(3):
            world.run_for(ROUND_S / 3)
            operators.change()
            if plot.toggles:
                operators.toggle()
            if plot.drains:
                operators.drain()
    lives.stop()
    if plot.toggles:
        # The last requests are submitted up to that much later.
        world.run_for(ROUND_S / 3)
    faults.heal()

    quiesce_to_the_end(world, is_wanted=plot.quiesces, deletes_orphans=False)

    def is_over() -> bool:
        left = world.zookeeper.children(paths.REQUESTS) or world.zookeeper.get(paths.CANCEL)
        is_over = not left and is_finished(world, operators.drains)
        return is_over and not operators.drains.left()

    world.run_until(is_over, within_s=PATIENCE_S, look_every_s=LOOK_EVERY_S)
    world.producer.stop()
    world.run_for(5.0)
    world.invariants.judge_end(operators.targets.unmet() if plot.is_strict else {})
    operators.targets.judge_end()
    operators.drains.judge_end()
    lost.judge_end()
    return world
