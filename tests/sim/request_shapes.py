"""
Shapes of what operators ask of the daemon itself: requests, another target, the way back, limits.

As ``shapes``, only data. The daemon of a shape with a ``Change`` dies at a boundary after it: the
names of a step's boundaries mean those of the step that turns round, and of those that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controller.core.model import BrokerId, LogDirs, TopicPartition
from controller.core.requests.submissions import RequestOptions
from integration.rigs.failpoints import Failpoint
from tests.sim.directories import number_of
from tests.sim.disks import path_of
from tests.sim.shapes import OPTIONS, SHAPES, Change, Entries, Route, Shape, Targets
from tests.sim.world import World

CHUNK: Final = 50
"""The least number of entries of a request that one cycle accepts or refuses."""
NOWHERE: Final = 1000
"""The first of the partitions that do not exist: their entries are refused."""
RATE: Final = 1_000_000
_MOVES: Final[Targets] = {0: (5, 4, 3), 1: (4, 1, 5)}
_ORIGINALS: Final[Targets] = dict.fromkeys(_MOVES, (1, 2, 3))
_OTHERS: Final[Targets] = {0: (4, 2, 1), 1: (2, 5, 3)}
_SENT: Final = (
    Failpoint.A2_LEADER_NOTIFIED,
    Failpoint.A2_UPDATE_METADATA_SENT,
)
_DELETION: Final = (
    Failpoint.EXCLUSION_ACKNOWLEDGED,
    Failpoint.B4_STOP_REPLICA_SENT,
    Failpoint.B5_DELETE_SENT,
    Failpoint.B5_ACKNOWLEDGED,
)
_END: Final = (Failpoint.B6_WRITTEN, Failpoint.B8_UPDATE_METADATA_SENT)
_CANCELLED: Final = (
    Failpoint.BEFORE_CANCELLED,
    Failpoint.CANCELLED,
    Failpoint.CANCELLATION_CHOSEN,
)
_COPIED: Final = (
    Failpoint.NEXT_STEP_WRITTEN,
    Failpoint.A2_FOLLOWER_NOTIFIED,
    Failpoint.SYNCED,
)


def _request(world: World, entries: Entries) -> None:
    world.submit_request(entries)


def _throttled(world: World, entries: Entries) -> None:
    world.submit_request(entries, RequestOptions(throttle=RATE))


def _dirs_of(partition: TopicPartition, replicas: Sequence[int]) -> LogDirs:
    """Return a directory of each replica: the first has another one than the second."""
    return tuple(
        (BrokerId(r), path_of((n + partition.partition) % 2)) for n, r in enumerate(replicas)
    )


def _placed(world: World, entries: Entries) -> None:
    world.submit_request(entries, None, {p: _dirs_of(p, r) for p, r in entries.items()})


def _is_placed(world: World) -> bool:
    partitions = {TopicPartition("t", n): replicas for n, replicas in _MOVES.items()}
    return all(
        partition not in world.brokers[broker].futures
        and world.brokers[broker].logs[partition].directory == number_of(path)
        for partition, replicas in partitions.items()
        for broker, path in _dirs_of(partition, replicas)
    )


def _in_chunks(world: World, entries: Entries) -> None:
    """Submit entries with so many refused ones between them that each needs a cycle."""
    between = 0
    requested: dict[TopicPartition, Sequence[int]] = {}
    for partition, replicas in entries.items():
        requested[partition] = replicas
        for _ in range(CHUNK):
            requested[TopicPartition(partition.topic, NOWHERE + between)] = replicas
            between += 1
    world.submit_request(requested)


def _copies(world: World) -> bool:
    """Return whether the first steps copy, and nothing was dropped."""
    return all(
        world.assignment(TopicPartition("t", n)).adding_replicas
        and len(world.holders(TopicPartition("t", n))) > len(_ORIGINALS[n])
        for n in _MOVES
    )


def _has_dropped(world: World) -> bool:
    """Return whether an original replica is gone and the next step copies."""
    partition = TopicPartition("t", 0)
    assignment = world.assignment(partition)
    return bool(assignment.adding_replicas) and not (
        {1, 2, 3} <= set(assignment.replicas) & world.holders(partition)
    )


def _cancel(world: World) -> None:
    world.cancel()


def _request_others(world: World) -> None:
    world.submit_request({TopicPartition("t", n): of for n, of in _OTHERS.items()})


CANCELLING: Final = Shape(
    name="cancel",
    meaning="a plan is cancelled while its first steps copy",
    failpoints=(
        *_CANCELLED,
        Failpoint.STEP_TURNED,
        *_SENT,
        *_DELETION,
        *_END,
        Failpoint.OUTCOME_WRITTEN,
        Failpoint.CANCELLATION_ENDED,
    ),
    targets=_MOVES,
    change=Change(is_due=_copies, request=_cancel, ends=_ORIGINALS),
)
RETURNING: Final = Shape(
    name="back",
    meaning="a request is cancelled when an original replica is deleted: it has to be copied back",
    failpoints=(
        *_CANCELLED,
        *_DELETION,
        *_COPIED,
        *_SENT,
        *_END,
        Failpoint.CANCELLATION_ENDED,
    ),
    targets=_MOVES,
    route=Route.REQUEST,
    request=_request,
    change=Change(is_due=_has_dropped, request=_cancel, ends=_ORIGINALS),
)
TURNING: Final = Shape(
    name="turn",
    meaning="another request asks for other replicas while the first steps copy",
    failpoints=(
        Failpoint.REQUEST_OPENED,
        Failpoint.BEFORE_RETARGETED,
        Failpoint.RETARGETED,
        Failpoint.REQUEST_DELETED,
        Failpoint.STEP_TURNED,
        *_SENT,
        *_DELETION,
        *_COPIED,
        *_END,
    ),
    targets=_MOVES,
    route=Route.REQUEST,
    request=_request,
    change=Change(is_due=_copies, request=_request_others, ends=_OTHERS),
)
REQUESTING: Final = Shape(
    name="request",
    meaning="a submitted request that is accepted in chunks",
    failpoints=(
        Failpoint.REQUEST_OPENED,
        Failpoint.BEFORE_ACCEPTED,
        Failpoint.ACCEPTED,
        Failpoint.REQUEST_DELETED,
        Failpoint.BEFORE_A1,
        Failpoint.A1_WRITTEN,
        Failpoint.SYNCED,
        Failpoint.B6_WRITTEN,
        Failpoint.OUTCOME_WRITTEN,
    ),
    targets=_MOVES,
    route=Route.REQUEST,
    options=replace(OPTIONS, acceptance_chunk=CHUNK),
    request=_in_chunks,
)
THROTTLING: Final = Shape(
    name="throttle",
    meaning="a request that copies under a throttle",
    failpoints=(
        Failpoint.BEFORE_THROTTLED,
        Failpoint.THROTTLED,
        Failpoint.BEFORE_A1,
        Failpoint.A1_WRITTEN,
        Failpoint.B6_WRITTEN,
        Failpoint.BEFORE_UNTHROTTLED,
        Failpoint.UNTHROTTLED,
    ),
    targets=_MOVES,
    route=Route.REQUEST,
    request=_throttled,
)
ELECTING: Final = Shape(
    name="elect",
    meaning="the preferred replica is not the leader when the last step ends",
    failpoints=(Failpoint.ELECTION_WRITTEN, Failpoint.ELECTION_LEADER_NOTIFIED),
    targets={0: (4, 1, 5)},
)
PLACING: Final = Shape(
    name="place",
    meaning="a request that names the log directory of each replica",
    failpoints=(
        Failpoint.BEFORE_ACCEPTED,
        Failpoint.ACCEPTED,
        Failpoint.BEFORE_PLACEMENT,
        Failpoint.PLACEMENT_SENT,
        Failpoint.A1_WRITTEN,
        Failpoint.A2_LEADER_NOTIFIED,
        Failpoint.A2_FOLLOWER_NOTIFIED,
        Failpoint.STEP_ENDED,
        Failpoint.PLACING_BEGUN,
        Failpoint.B6_WRITTEN,
        Failpoint.OUTCOME_WRITTEN,
    ),
    targets=_MOVES,
    route=Route.REQUEST,
    request=_placed,
    is_placed=_is_placed,
)
REQUEST_SHAPES: Final = (CANCELLING, RETURNING, TURNING, REQUESTING, THROTTLING, ELECTING, PLACING)
EVERY: Final = (*SHAPES, *REQUEST_SHAPES)
"""Every shape of the table."""
