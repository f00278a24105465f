"""
Seeded histories: the real loop and core on a simulated cluster, with plans, faults and a good end.

One history is a function of its seed and plot, and the plot of the seed (``plots``); string hashing
has to be fixed (PYTHONHASHSEED=0) for two runs to be the same, since some events carry sets of
topics. Many at once are run by ``campaigns``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from controller.core.core_settings import Options, TenurePolicy
from controller.core.model import BrokerId, RequestId
from controller.core.pacing.controls import AT_ONCE
from controller.core.records import Change, Decision, Event
from controller.core.role.tenure_reset import REJECTED_RETRY_S
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.reactor.ports import BrokerRequest, Observer, WriteError
from controller.znodes import paths
from integration.rigs.failpoint_names import NamedFailpoints
from tests.sim.daemons import Build, Ports
from tests.sim.drain_rules import DrainRules
from tests.sim.faults import Faults
from tests.sim.latencies import latencies_of
from tests.sim.operators import Actions, Operators
from tests.sim.plots import Plot, plot_of
from tests.sim.rules import Rule
from tests.sim.tenure_rules import TenureRules
from tests.sim.topic_clients import TopicClients, Troubles
from tests.sim.witnesses import HistoryObserver
from tests.sim.world import World

GOOD_END_S: Final = 200.0
"""The time that a healed cluster may take to finish all requests."""
TIDY_S: Final = 200.0
"""The time after that in which the last orphan has to be deleted."""
DELETED_S: Final = 90.0
"""The time in which live replicas of a topic are deleted; more than brokers need to be missed."""
PLAN_EVERY_S: Final = 20.0
LOOK_EVERY_S: Final = 0.5


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

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """Do nothing."""


def reactors(options: Options, observer: Observer | None = None) -> Build:
    """Return what builds the real loop from the ports of a simulated daemon."""
    seen_by = observer or SilentObserver()

    def build(ports: Ports) -> Reactor:
        entry = None if ports.endpoint is None else ports.endpoint.entry
        return Reactor(
            view=ClusterView(
                options=options if entry is None else replace(options, endpoint=entry)
            ),
            endpoint=ports.endpoint,
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            broker_settings=ports.configs,
            clock=ports.clock,
            observer=seen_by,
            failpoints=NamedFailpoints(ports.reached),
            lease=ports.lease,
            latencies=latencies_of(options, ports),
        )

    return build


def play(seed: int, plot: Plot | None = None, world: World | None = None) -> World:
    """
    Run one history to its end.

    Args:
        seed: Decides everything.
        plot: The settings of the history; the plot of the seed by default.
        world: The cluster; a caller that passes it can examine it after a failure.

    Returns:
        The world at its end.

    Raises:
        InvariantViolationError: a rule was broken on the way.
        NotReachedError: the healed cluster did not finish all requests.

    """
    plot = plot or plot_of(seed)
    world = world or World(seed, has_kafka_controllers=plot.has_kafka_controllers)
    _set_brokers_up(world, plot)
    three = {n: [1 + n % 5, 1 + (n + 1) % 5, 1 + (n + 2) % 5] for n in range(6)}
    two = {n: [1 + n % 5, 1 + (n + 1) % 5] for n in range(4)}
    world.create_topic("three", three, min_insync_replicas=2)
    world.create_topic("two", two)
    if plot.has_unclean_topic:
        # Few replicas: if the only one in sync dies, another may still be copying from it.
        few = {0: [1, 2, 3], 1: [2, 3], 2: [4], 3: [5]}
        world.create_topic("unclean", few, unclean_leader_election=True)
    world.producer.start()
    actions = plot.actions or Actions()
    operators = Operators(world, every_s=plot.action_every_s, actions=actions)
    build = reactors(plot.options, HistoryObserver(world))
    faults = Faults(
        world,
        every_s=plot.fault_every_s,
        weights=plot.weights,
        daemon=build,
        daemons=plot.daemons,
    )
    world.invariants.records.step_size = plot.options.step_size
    world.invariants.trust_settings_for(plot.options.config_refresh_s)
    if plot.has_kafka_controllers:
        world.settle()
    for _ in range(plot.daemons):
        world.add_daemon(build)
    if not plot.has_kafka_controllers:
        world.settle()
    world.run_for(3.0)
    if plot.options.tenure is TenurePolicy.ON_DEMAND:
        TenureRules(world)
    faults.start()
    if plot.actions is not None:
        operators.start()
    clients = _clients(world, operators, plot)
    for _ in range(plot.plans):
        if plot.by_request:
            operators.submit_request_for_all()
        else:
            operators.submit_plan_for_all()
        world.run_for(PLAN_EVERY_S)
    operators.stop()
    clients.stop()
    faults.heal()
    quiesce_to_the_end(world, is_wanted=actions.quiesced > 0)
    good_end_s = GOOD_END_S + (REJECTED_RETRY_S if plot.weights.requests_refused else 0.0)

    def is_at_rest() -> bool:
        drains = operators.ledger.drains
        return clients.is_quiet and is_finished(world, drains) and not drains.left()

    world.run_until(is_at_rest, within_s=good_end_s, look_every_s=LOOK_EVERY_S)
    _delete_beside_a_dead_broker(world, plot, operators, is_at_rest)
    world.producer.stop()
    world.run_until(lambda: is_tidy(world), within_s=TIDY_S, look_every_s=LOOK_EVERY_S)
    world.invariants.judge_end(operators.expected.unmet(world))
    operators.ledger.judge_end()
    operators.settings.judge_end()
    return world


def _set_brokers_up(world: World, plot: Plot) -> None:
    world.fabric.fences_stop_replica = plot.fences_stop_replica
    world.fabric.deletes_topics = plot.deletes_topics
    world.fabric.joins_late = plot.joins_late


def quiesce_to_the_end(world: World, *, is_wanted: bool, deletes_orphans: bool = True) -> None:
    """
    End all work of a healed cluster, judge that nothing of daemons is left, and resume.

    Orphans may be left by a delegated engine, which cannot have them deleted.
    """
    if not is_wanted:
        return
    chance = Random(f"a last quiesce {world.seed}")
    soon = int(1000 * (world.schedule.unix_s() + chance.uniform(0.0, 20.0)))
    world.run_for(chance.uniform(0.0, 5.0))
    found = world.quiesce(chance.choice((None, soon, AT_ONCE)))
    world.fabric.note(f"quiesced for good: {found}")

    def is_ready() -> bool:
        is_clean = is_finished(world) and (is_tidy(world) or not deletes_orphans)
        return is_clean and not _is_moving(world) and _has_no_role(world)

    world.invariants.judge.applies(Rule.QUIESCE_LEAVES_NOTHING)
    world.run_until(is_ready, within_s=GOOD_END_S + TIDY_S, look_every_s=LOOK_EVERY_S)
    world.run_for(chance.uniform(0.0, 60.0))
    world.invariants.judge.ensure(
        not _is_moving(world) and _has_no_role(world),
        "a daemon took the role, or began a step, though everything was quiesced",
        Rule.QUIESCE_LEAVES_NOTHING,
    )
    world.resume(found)


def _is_moving(world: World) -> bool:
    return any(world.assignment(p).is_reassigning for p in world.partitions())


def _has_no_role(world: World) -> bool:
    """Return whether no daemon is the controller."""
    controller = world.zookeeper.get(paths.CONTROLLER)
    owner = None if controller is None else controller.ephemeral_owner
    return owner is None or not world.invariants.is_daemon(owner)


def _delete_beside_a_dead_broker(
    world: World, plot: Plot, operators: Operators, is_at_rest: Callable[[], bool]
) -> None:
    """
    Delete a topic while the broker of a replica is dead, and judge what is left of it.

    Only where daemons keep the role: after a failover Kafka's controller waits for the broker. In
    some histories the role moves in between.
    """
    if plot.options.tenure is not TenurePolicy.PERMANENT or not plot.deletes_topics:
        return
    chance, judge = Random(f"a last deletion {world.seed}"), world.invariants.judge
    doomed = chance.choice(sorted(world.zookeeper.children(paths.TOPICS) or ("",)))
    partitions = [p for p in world.partitions() if p.topic == doomed]
    replicas = sorted({(r, p) for p in partitions for r in world.assignment(p).replicas})
    if not replicas:
        return
    away = world.brokers[chance.choice(replicas)[0]]
    away.kill()
    registration = paths.broker_path(away.id)
    world.run_until(
        lambda: away.is_alive or world.zookeeper.get(registration) is None, within_s=DELETED_S
    )
    if away.is_alive:
        return  # an earlier fault was to end with its start
    world.run_for(chance.uniform(0.0, 5.0))
    world.delete_topic(doomed)
    operators.expected.take_back(partitions)

    def has_ended() -> bool:
        return not any(p in world.brokers[b].logs for b, p in replicas if world.brokers[b].is_alive)

    judge.applies(Rule.LIVE_REPLICAS_END)
    world.run_until(has_ended, within_s=DELETED_S, look_every_s=LOOK_EVERY_S)
    if chance.random() < 0.5:
        world.remove_controller()
        world.run_for(chance.uniform(0.0, 10.0))
    if not away.is_alive:
        away.start()
    world.run_until(is_at_rest, within_s=GOOD_END_S, look_every_s=LOOK_EVERY_S)
    judge.ensure(
        all(world.brokers[b].copy(p) is None for b, p in replicas),
        f"{doomed} is deleted, and a broker has a log of it",
        Rule.NO_LOG_RETURNS,
    )


def _clients(world: World, operators: Operators, plot: Plot) -> TopicClients:
    """Return the clients that create topics; they ask only where somebody serves them."""
    weights, every_s = plot.weights, plot.client_requests_every_s
    troubles = Troubles(
        dies=0.06 if weights.daemon_crashed_between else 0.0,
        disconnects=0.04 if weights.commit_broken else 0.0,
        loses_role=0.04 if weights.controller_removed else 0.0,
    )
    deletes = plot.options.tenure is TenurePolicy.ON_DEMAND and plot.has_kafka_controllers
    clients = TopicClients(
        world, operators, every_s=every_s or 0.0, deletes=deletes, troubles=troubles
    )
    if every_s is not None:
        clients.start()
    return clients


def is_finished(world: World, drains: DrainRules | None = None) -> bool:
    """
    Return whether no plan or request is left and every partition is healthy.

    The request of standing ``drains`` is not finished before these are ended.
    """
    zookeeper = world.zookeeper
    return (
        not any(zookeeper.get(p) for p in (paths.LEGACY_PLAN, paths.CANCEL, paths.QUEUE))
        and not zookeeper.children(paths.REQUESTS)
        and not zookeeper.children(paths.APPLIED_THROTTLES)
        and not any(
            _is_open(world, RequestId(request))
            and not (drains is not None and drains.is_standing(RequestId(request)))
            for request in zookeeper.children(paths.OUTCOMES) or ()
        )
        and not any(
            zookeeper.children(paths.reassignment_topic_path(topic))
            for topic in zookeeper.children(paths.REASSIGNMENTS) or ()
        )
        and not zookeeper.children(paths.DELETIONS)
        and world.all_healthy()
    )


def _is_open(world: World, request: RequestId) -> bool:
    """Return whether a request has znodes besides its outcome; an empty parent does not count."""
    children = world.zookeeper.children(paths.history_path(request)) or ()
    return bool(children) and paths.SUMMARY not in children


def is_tidy(world: World) -> bool:
    """Return whether no log waits to be deleted: no orphan record is left."""
    zookeeper = world.zookeeper
    return not any(
        zookeeper.children(f"{paths.ORPHANS}/{broker}")
        for broker in zookeeper.children(paths.ORPHANS) or ()
    )
