"""
The cases of the proof of recovery: the shapes of a step, their boundaries, and the successors.

Only data, and the few things that have to happen to a cluster so that a step gets its shape. What a
history is made of and what has to be true at its end is ``recoveries``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from controller.core.core_settings import Options
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    TopicPartition,
)
from controller.znodes import paths
from integration.rigs.failpoints import Failpoint
from tests.sim.builders import ids
from tests.sim.daemons import SimDaemon
from tests.sim.world import World

OPTIONS: Final = Options(
    tenure_linger_s=3.0, stop_replica_timeout_s=10.0, max_partitions_in_flight=2
)
"""Two in flight: the third partition of a plan is pending, and only a daemon may begin it."""
DIES_WITHIN_S: Final = 120.0
ENDS_WITHIN_S: Final = 200.0
DOOMED: Final = "doomed"


class Hand(StrEnum):
    """The successor of a daemon that died."""

    RESTARTED = "the daemon restarted"
    STANDBY = "a standby daemon"
    KAFKA = "Kafka's controller alone"
    KAFKA_FIRST = "Kafka's controller first, a daemon later"


Targets = Mapping[int, tuple[int, ...]]
Entries = Mapping[TopicPartition, Sequence[int]]


class Route(StrEnum):
    """The route by which the plan is submitted."""

    LEGACY = "Kafka's znode, of which its controllers know"
    REQUEST = "a request, of which they know nothing"


def submit_plan(world: World, entries: Entries) -> None:
    """Submit a legacy plan."""
    world.submit_plan(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A second request or a cancellation while the first plan is in flight."""

    is_due: Callable[[World], bool]
    request: Callable[[World], None]
    ends: Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One course of a plan, and the boundaries on it."""

    name: str
    meaning: str
    failpoints: tuple[Failpoint, ...]
    replicas: tuple[int, ...] = (1, 2, 3)
    targets: Targets
    foreign: frozenset[int] = frozenset()
    """Partitions with a foreign step in the topic znode, outside the plan."""
    options: Options = OPTIONS
    before: Callable[[World], None] = lambda _: None
    """Called before the plan is submitted."""
    during: Callable[[World, SimDaemon], None] = lambda _world, _daemon: None
    """Called once the plan is submitted."""
    prelude: Failpoint | None = None
    """The failpoint at which an earlier daemon died, before the daemon of the cell."""
    route: Route = Route.LEGACY
    request: Callable[[World, Entries], None] = submit_plan
    is_placed: Callable[[World], bool] | None = None
    """Whether the replicas are in the directories that the plan names; None: it names none."""
    change: Change | None = None
    """The change of the plan in flight; the daemon dies after it."""

    @property
    def ends(self) -> Targets:
        """The replicas of the partitions in the end."""
        return self.targets if self.change is None else self.change.ends


_UNTIL_SENT: Final = (
    Failpoint.CLAIMED,
    Failpoint.LIVE_BROKERS_NOTIFIED,
    Failpoint.BEFORE_ACCEPTED,
    Failpoint.ACCEPTED,
    Failpoint.BEFORE_A1,
)
_FIRST_PHASE: Final = (
    Failpoint.A2_LEADER_NOTIFIED,
    Failpoint.A2_FOLLOWER_NOTIFIED,
    Failpoint.A2_UPDATE_METADATA_SENT,
    Failpoint.SYNCED,
)
_SECOND_PHASE: Final = (
    Failpoint.B3_WRITTEN,
    Failpoint.B3_LEADER_NOTIFIED,
    Failpoint.B3_UPDATE_METADATA_SENT,
    Failpoint.EXCLUSION_ACKNOWLEDGED,
)
_DELETION: Final = (
    Failpoint.B4_STOP_REPLICA_SENT,
    Failpoint.B5_DELETE_SENT,
    Failpoint.B5_ACKNOWLEDGED,
)
_END: Final = (Failpoint.B6_WRITTEN, Failpoint.B8_UPDATE_METADATA_SENT)

STEPWISE_BOUNDARIES: Final = (
    *_UNTIL_SENT,
    Failpoint.A1_WRITTEN,
    Failpoint.UNLISTED,
    *_FIRST_PHASE,
    Failpoint.NEXT_STEP_WRITTEN,
    Failpoint.EXCLUSION_ACKNOWLEDGED,
    *_DELETION,
    Failpoint.DROPPED,
    *_END,
    Failpoint.PLAN_ENDED,
)
"""The failpoints of a plan with steps of one replica."""
_AT_ONCE: Final = (
    *_UNTIL_SENT,
    Failpoint.A1_WRITTEN,
    Failpoint.UNLISTED,
    *_FIRST_PHASE,
    *_SECOND_PHASE,
    *_DELETION,
    *_END,
    Failpoint.PLAN_ENDED,
)
_WAITING: Final = (
    Failpoint.A1_WRITTEN,
    *_FIRST_PHASE,
    *_SECOND_PHASE,
    Failpoint.ORPHAN_RECORDED,
    Failpoint.NEXT_STEP_WRITTEN,
    *_END,
    Failpoint.ORPHAN_DELETE_SENT,
    Failpoint.ORPHAN_ENDED,
)
_MOVES: Final[Targets] = {0: (5, 4, 3), 1: (4, 1, 5), 2: (5, 4, 1)}


def _is_planless(world: World) -> bool:
    """Return whether nothing of the plan is left, dead replicas aside."""
    zookeeper = world.zookeeper
    return zookeeper.get(paths.LEGACY_PLAN) is None and not specs(world)


def _kill_dropped(world: World) -> None:
    for broker in (2, 3):
        world.brokers[BrokerId(broker)].kill()
    partition = TopicPartition("t", 0)

    def is_alone() -> bool:
        state = world.state(partition)
        return state is not None and state.isr == (1,)

    world.run_until(is_alone, within_s=60.0)


def _return_dropped(world: World, daemon: SimDaemon) -> None:
    """Start the dead brokers again when the plan is done, unless the daemon is dead by then."""
    world.run_until(lambda: not daemon.is_alive or _is_planless(world), within_s=ENDS_WITHIN_S)
    if daemon.is_alive:
        start_dead(world)


def start_dead(world: World) -> None:
    """Start every broker that does not run."""
    for broker in world.brokers.values():
        if not broker.is_alive:
            broker.start()


def _begin_foreign(world: World) -> None:
    """Write a step as AlterPartitionReassignments does (KIP-455)."""
    assignment = PartitionAssignment(ids((5, 4, 3, 1, 2)), ids((5, 4)), ids((1, 2)))
    world.assign("t", {0: assignment})


def _silence_brokers(world: World) -> None:
    """Let brokers not say whether topics may be deleted."""
    world.fabric.deletes_topics = None


def _delete_doomed(world: World, _daemon: SimDaemon) -> None:
    """Queue a topic for deletion while a step is in flight."""
    world.run_until(
        lambda: world.assignment(TopicPartition("t", 0)).is_reassigning, within_s=DIES_WITHIN_S
    )
    world.delete_topic(DOOMED)


STEPWISE: Final = Shape(
    name="one",
    meaning="`step_size = 1`: what is dropped leaves the ISR with A1",
    failpoints=STEPWISE_BOUNDARIES,
    targets=_MOVES,
)
AT_ONCE: Final = Shape(
    name="all",
    meaning="`step_size = all`: what is dropped stays until the target is in sync",
    failpoints=_AT_ONCE,
    targets=_MOVES,
    options=replace(OPTIONS, step_size=None),
)
WAITING: Final = Shape(
    name="dead",
    meaning="`step_size = 1`, and the drop has to wait: two replicas to be dropped are on dead "
    "brokers, and without them too few are in sync",
    failpoints=_WAITING,
    targets={0: (1, 4, 5)},
    before=_kill_dropped,
    during=_return_dropped,
)
GROWING: Final = Shape(
    name="grow",
    meaning="a last step that drops nothing",
    failpoints=(
        Failpoint.A1_WRITTEN,
        Failpoint.SYNCED,
        Failpoint.B6_WRITTEN,
        Failpoint.B8_LEADER_NOTIFIED,
        Failpoint.B8_UPDATE_METADATA_SENT,
    ),
    replicas=(1, 2),
    targets={0: (1, 2, 3)},
)
YIELDING: Final = Shape(
    name="yield",
    meaning="a topic deletion is pending that is left to a broker: no further step may begin",
    failpoints=(Failpoint.STEP_ENDED,),
    targets={0: (5, 4, 3)},
    before=_silence_brokers,
    during=_delete_doomed,
)
DELETING: Final = Shape(
    name="delete",
    meaning="another topic is deleted while the steps of a plan are in flight",
    failpoints=(
        Failpoint.TOPIC_DELETION_BEGUN,
        Failpoint.TOPIC_UPDATE_METADATA_SENT,
        Failpoint.TOPIC_STOP_REPLICA_SENT,
        Failpoint.TOPIC_DELETE_SENT,
        Failpoint.BEFORE_TOPIC_DELETED,
        Failpoint.TOPIC_PARTLY_DELETED,
        Failpoint.TOPIC_DELETED,
    ),
    targets=_MOVES,
    options=replace(OPTIONS, multi_operations=2),
    during=_delete_doomed,
)
RESUMING: Final = Shape(
    name="again",
    meaning="a daemon died at `A1-written`, and the one that took its work up dies as well",
    failpoints=(
        Failpoint.A1_REPEATED,
        Failpoint.A2_LEADER_NOTIFIED,
        Failpoint.A2_FOLLOWER_NOTIFIED,
        Failpoint.A2_UPDATE_METADATA_SENT,
        Failpoint.EXCLUSION_ACKNOWLEDGED,
    ),
    targets=_MOVES,
    prelude=Failpoint.A1_WRITTEN,
)
FOREIGN: Final = Shape(
    name="foreign",
    meaning="a step that another client began, through Kafka's API: driven to its own target",
    failpoints=(
        Failpoint.A1_REPEATED,
        Failpoint.A2_LEADER_NOTIFIED,
        Failpoint.A2_FOLLOWER_NOTIFIED,
        Failpoint.A2_UPDATE_METADATA_SENT,
        Failpoint.B3_WRITTEN,
        Failpoint.B3_LEADER_NOTIFIED,
        Failpoint.B3_UPDATE_METADATA_SENT,
        Failpoint.EXCLUSION_ACKNOWLEDGED,
        Failpoint.B4_STOP_REPLICA_SENT,
        Failpoint.B5_DELETE_SENT,
        Failpoint.B5_ACKNOWLEDGED,
    ),
    targets={0: (5, 4, 3), 1: (1, 3, 2)},
    foreign=frozenset({0}),
    before=_begin_foreign,
)
SHAPES: Final = (
    *(STEPWISE, AT_ONCE, WAITING, GROWING),
    *(YIELDING, DELETING, RESUMING, FOREIGN),
)


class KafkasEnd(StrEnum):
    """The part of the work that Kafka's controller carries out alone."""

    PLAN = "the whole plan, all replicas at once"
    IN_FLIGHT = "what is in flight; what waits stays recorded"
    UNSEEN = "nothing of a request, which stays as it is"
    NOTHING = "nothing is left for it"


_NOTHING_YET: Final = frozenset(
    {
        Failpoint.CLAIMED,
        Failpoint.LIVE_BROKERS_NOTIFIED,
        Failpoint.REQUEST_OPENED,
        Failpoint.BEFORE_ACCEPTED,
        Failpoint.ACCEPTED,
        Failpoint.REQUEST_DELETED,
        Failpoint.BEFORE_THROTTLED,
        Failpoint.THROTTLED,
        Failpoint.BEFORE_A1,
    }
)
_ALL_DONE: Final = frozenset(
    {
        Failpoint.ELECTION_WRITTEN,
        Failpoint.ELECTION_LEADER_NOTIFIED,
        Failpoint.BEFORE_UNTHROTTLED,
        Failpoint.UNTHROTTLED,
        Failpoint.OUTCOME_WRITTEN,
        Failpoint.CANCELLATION_ENDED,
        Failpoint.PLAN_ENDED,
        Failpoint.ORPHAN_DELETE_SENT,
        Failpoint.ORPHAN_ENDED,
    }
)


def kafkas_end(shape: Shape, failpoint: Failpoint) -> KafkasEnd:
    """Return what Kafka's controller does with what a daemon leaves that dies there."""
    if failpoint in _NOTHING_YET and shape.change is None:
        return KafkasEnd.PLAN if shape.route is Route.LEGACY else KafkasEnd.UNSEEN
    return KafkasEnd.NOTHING if failpoint in _ALL_DONE else KafkasEnd.IN_FLIGHT


def specs(world: World) -> set[str]:
    """Return the reassignments that our records call unfinished, as ``topic-partition``."""
    zookeeper = world.zookeeper
    return {
        f"{topic}-{number}"
        for topic in zookeeper.children(paths.REASSIGNMENTS) or ()
        for number in zookeeper.children(paths.reassignment_topic_path(topic)) or ()
    }


def orphans(world: World) -> set[str]:
    """Return the orphan records, as ``broker/topic-partition``."""
    zookeeper = world.zookeeper
    return {
        f"{broker}/{replica}"
        for broker in zookeeper.children(paths.ORPHANS) or ()
        for replica in zookeeper.children(f"{paths.ORPHANS}/{broker}") or ()
    }


def request_names(world: World) -> set[str]:
    """Return the open requests, cancellations and queues, and the applied throttles."""
    zookeeper = world.zookeeper
    return {
        *(zookeeper.children(paths.REQUESTS) or ()),
        *(zookeeper.children(paths.APPLIED_THROTTLES) or ()),
        *(path for path in (paths.CANCEL, paths.QUEUE) if zookeeper.get(path) is not None),
    }
