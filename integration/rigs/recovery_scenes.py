"""
What happens at a boundary on real brokers: a plan, a daemon that dies on its way, a successor.

The cells are those of ``recovery_cells``; the test modules say on which rows each is tried.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from itertools import cycle
from typing import Final

from controller.core.pacing.controls import Pause, Pauses
from controller.znodes.operator_controls import encode_pauses
from controller.znodes.paths import PAUSES
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.failpoints import Failpoint
from integration.rigs.kafka_jars import KAFKA_2_7, KAFKA_2_8
from integration.rigs.plans import (
    Daemons,
    await_broker_controller,
    await_end,
    await_tenure,
    is_planned,
    plan_of,
    submit,
)
from integration.rigs.recovery_cells import (
    AT_ONCE,
    DELETING,
    DIES_WITHIN_S,
    ENDS_WITHIN_S,
    ORPHANING,
    PAUSED,
    RESUMING,
    SESSION_S,
    STEPWISE,
    Hand,
    Left,
    Shape,
    await_death,
    await_heir,
    brokers_held_back,
    holds_the_role,
    judge_kafkas_end,
    nothing_lost,
    options_of,
    targets_of,
)
from integration.rigs.running_daemons import strike
from integration.rigs.waiting import GaveUpError, eventually

FORGETFUL: Final = (KAFKA_2_7, KAFKA_2_8)
"""
Here Kafka's controller may not end the step of a dead daemon: a leader that asked the daemon may
ask no more (KAFKA-12686). The next daemon ends it.
"""
SAFE: Final = {"min.insync.replicas": "2"}
CHAINED: Final = (STEPWISE, AT_ONCE)
"""The shapes whose boundaries daemons pass one after the other, dying at each."""
OUTRUN_S: Final = 1.0
"""How long a claim may still be under way when the broker in charge has ended the plan."""
ALIVE: Final = 3
"""Daemons of a chain that run at a time: the one that dies next, and who takes over."""


class Scene:
    """A topic, a plan for it, and the daemon that dies on its way."""

    def __init__(
        self, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, shape: Shape
    ) -> None:
        self.topic = make_topic(dict.fromkeys(shape.targets, shape.replicas), SAFE)
        self.targets = targets_of(shape, self.topic)
        self._cluster, self._make_topic, self._daemons = cluster, make_topic, daemons
        self._shape = shape
        self.doomed = make_topic({0: (1, 2)}) if shape is DELETING else ""
        """A topic that is to be deleted meanwhile."""

    def start(self, failpoint: Failpoint | None = None, *options: str) -> Daemon:
        """Start a daemon, to die at a boundary or to live."""
        dies_at = None if failpoint is None else ("die", failpoint)
        return self._daemons.start(*options_of(self._shape), *options, failpoint=dies_at)

    def die_at(self, failpoint: Failpoint, hand: Hand) -> Daemon:
        """
        Submit the plan and let a daemon die; return it.

        A standby, if that is the hand, is running then.
        """
        if self._shape is ORPHANING:
            strike(self._cluster, 2, 3)
            eventually(lambda: self._cluster.isr(self.topic, 0) == {1}, within_s=20)
        is_first = holds_the_role(failpoint)
        options = ("--tenure", "permanent") if is_first else ()
        first = self.start(Failpoint.A1_WRITTEN, *options) if self._shape is RESUMING else None
        if first is not None:
            await_tenure(first)
        doomed = self._start_doomed(failpoint, options, is_alone=first is None)
        if hand is Hand.STANDBY:
            self.start()
        self._begin(doomed, is_first=is_first)
        if first is not None:
            await_death(first)
            with brokers_held_back(self._cluster, first):
                # A broker that comes first begins the whole plan, which leaves another boundary.
                await_death(doomed)
        elif self._shape in (PAUSED, DELETING):
            self._interfere()
        elif self._shape is ORPHANING and failpoint is not Failpoint.ORPHAN_RECORDED:
            eventually(lambda: not is_planned(self._cluster), within_s=DIES_WITHIN_S)
            for broker in (2, 3):
                self._cluster.brokers[broker].spawn()
        await_death(doomed)
        self._cluster.brokers[5].thaw()
        if self._shape is PAUSED:
            self._cluster.zk.delete(PAUSES)
        return doomed

    def _begin(self, doomed: Daemon, *, is_first: bool) -> None:
        """Submit the plan, to a daemon that has the role or that has to be faster than a broker."""
        if self._shape in (PAUSED, DELETING, RESUMING):
            self._cluster.brokers[5].freeze()  # no copy of the first step gets in sync
        if is_first:
            submit(self._cluster, plan_of(self.targets))
        else:
            self._submit_until_claimed(doomed)

    def _start_doomed(
        self, failpoint: Failpoint, options: tuple[str, ...], *, is_alone: bool
    ) -> Daemon:
        doomed = self.start(failpoint, *options)
        if options and is_alone:
            await_tenure(doomed)
        return doomed

    def _submit_until_claimed(self, doomed: Daemon) -> None:
        """Submit plans there and back until the daemon is faster than the broker in charge."""
        there = self.targets
        back = dict.fromkeys(there, self._shape.replicas)

        def is_decided() -> bool:
            return not doomed.is_alive or not is_planned(self._cluster)

        for self.targets in cycle([there, back]):
            submit(self._cluster, plan_of(self.targets))
            eventually(is_decided, within_s=DIES_WITHIN_S, every_s=0.02)
            with suppress(GaveUpError):
                eventually(lambda: not doomed.is_alive, within_s=OUTRUN_S, every_s=0.02)
                return

    def start_dead(self) -> None:
        """Start the brokers that were killed for the shape, and wait until all serve."""
        brokers = self._cluster.brokers
        self._cluster.start_brokers(*(n for n, b in brokers.items() if not b.is_alive))
        for broker in brokers.values():
            broker.await_ready()

    def _interfere(self) -> None:
        """Pause everything, or delete a topic, while the first step waits for its copy."""
        eventually(
            lambda: (self._cluster.topic(self.topic) or {}).get("adding_replicas"),
            within_s=DIES_WITHIN_S,
            every_s=0.02,
            what="a step is in flight",
        )
        if self.doomed:
            self._cluster.zk.create(f"/admin/delete_topics/{self.doomed}", b"")
        else:
            # No command: until it has started, the broker's session may have expired.
            everything = encode_pauses(Pauses(everything=Pause("a test")))
            self._cluster.zk.create(PAUSES, everything, makepath=True)
        self._cluster.brokers[5].thaw()

    def await_deletion(self) -> None:
        """Wait until the topic is gone that was to be deleted, if any."""
        path = f"/brokers/topics/{self.doomed}"
        eventually(
            lambda: not self.doomed or self._cluster.zk.exists(path) is None,
            within_s=ENDS_WITHIN_S,
            what="the topic is deleted",
        )


def die_and_be_succeeded(  # noqa: PLR0913, PLR0917 - a cell and its fixtures
    cluster: Cluster,
    make_topic: MakeTopic,
    daemons: Daemons,
    shape: Shape,
    failpoint: Failpoint,
    hand: Hand,
) -> None:
    """Have a daemon die at a boundary; judge what the hand makes of it."""
    scene = Scene(cluster, make_topic, daemons, shape)
    with nothing_lost(cluster, {scene.topic: len(scene.targets)}):
        dead = scene.die_at(failpoint, hand)
        if hand is Hand.KAFKA:
            if cluster.options.broker.release not in FORGETFUL:
                judge_kafkas_end(cluster, scene.topic, Left.behind(cluster, scene.topic))
            else:
                await_broker_controller(cluster, within_s=SESSION_S + 15)
            scene.await_deletion()
            scene.start_dead()
            scene.start()
        else:
            with brokers_held_back(cluster, dead):
                if hand is Hand.RESTARTED:
                    scene.start()
                await_heir(cluster)
            scene.start_dead()
        await_end(cluster, scene.targets, within_s=ENDS_WITHIN_S, any_leader=True)
        scene.await_deletion()


def die_one_after_the_other(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, shape: Shape
) -> None:
    """Have a daemon die at each boundary of a shape; judge what the last one makes of it."""
    there = dict.fromkeys(range(4), (5, 4, 3))
    back = dict.fromkeys(range(4), (1, 2, 3))
    topic = make_topic(back, SAFE)
    plans = deque([there, back])
    left = deque(shape.failpoints)
    running: list[Daemon] = []

    def resume() -> bool:
        """Replace the dead and hand in the next plan where the last is done; whether all died."""
        for daemon in [d for d in running if not d.is_alive]:
            await_death(daemon)
            running.remove(daemon)
        while left and len(running) < ALIVE:
            daemon = daemons.make(*options_of(shape), failpoint=("die", left.popleft()))
            daemon.spawn()
            running.append(daemon)
        if running and not is_planned(cluster):
            submit(cluster, plan_of({(topic, n): to for n, to in plans[0].items()}))
            plans.rotate()
        return not running

    with nothing_lost(cluster, {topic: 4}):
        eventually(resume, within_s=DIES_WITHIN_S * math.sqrt(len(left)), every_s=0.05)
        # A broker may have carried out the last plan, and one whose controller lost the role in the
        # middle of an event deletes nothing any more (KAFKA-12315): the next plan is the daemon's.
        await_tenure(daemons.start(*options_of(shape), "--tenure", "permanent"), within_s=60)
        eventually(lambda: not is_planned(cluster), within_s=ENDS_WITHIN_S)
        submit(cluster, plan_of({(topic, n): to for n, to in plans[0].items()}))
        plans.rotate()
        await_end(
            cluster,
            {(topic, n): to for n, to in plans[-1].items()},
            within_s=ENDS_WITHIN_S,
            any_leader=True,
        )
