"""
The number of partitions to swap between each leader and each follower.

Integer flows between brokers, found by augmenting paths; the planner chooses the partitions in
Spark. Only the order of replicas changes, so nothing is copied.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np

from controller.planning.quotas import Band, flows


def leader_flows(leaders: Any, offered: Any, within: Band, group: list[int]) -> Any:
    """
    Return the number of leaderships that each broker hands over to each other one.

    Args:
        leaders: Partitions led, by broker.
        offered: Partitions that a leader can hand over to a follower, by leader and follower.
        within: The band to reach.
        group: The brokers that may lead.

    """
    give, take = flows(leaders.tolist(), within, group)
    flow = np.zeros_like(offered)
    room = offered.copy()
    _augment(flow, room, np.ceil(give).astype(np.int64), np.ceil(take).astype(np.int64))
    # Brokers still outside the band may use the remaining room of all others.
    after = leaders - flow.sum(axis=1) + flow.sum(axis=0)
    high, low = np.floor(np.array(within.high)), np.ceil(np.array(within.low))
    allowed = np.zeros(len(leaders), dtype=bool)
    allowed[group] = True
    over = np.where(allowed, np.maximum(after - high, 0), 0).astype(np.int64)
    spare = np.where(allowed, np.maximum(high - after, 0), 0).astype(np.int64)
    _augment(flow, room, over, spare)
    after = leaders - flow.sum(axis=1) + flow.sum(axis=0)
    under = np.where(allowed, np.maximum(low - after, 0), 0).astype(np.int64)
    spare = np.where(allowed, np.maximum(after - low, 0), 0).astype(np.int64)
    _augment(flow, room, spare, under)
    # Two brokers that hand over to each other keep the smaller number instead.
    return flow - np.minimum(flow, flow.T)


def _augment(flow: Any, room: Any, gives: Any, takes: Any) -> None:
    """Add flow from givers to takers along shortest paths until no path is left."""
    while True:
        path = _path(room, gives, takes)
        if path is None:
            return
        steps = list(pairwise(path))
        amount = min(gives[path[0]], takes[path[-1]], *(room[step] for step in steps))
        for giver, taker in steps:
            flow[giver, taker] += amount
            room[giver, taker] -= amount
            room[taker, giver] += amount
        gives[path[0]] -= amount
        takes[path[-1]] -= amount


def _path(room: Any, gives: Any, takes: Any) -> list[int] | None:
    came_from = np.full(len(gives), -1, dtype=np.int64)
    starts = np.flatnonzero(gives > 0)
    came_from[starts] = starts
    queue = deque(starts.tolist())
    while queue:
        broker = queue.popleft()
        fresh = np.flatnonzero((room[broker] > 0) & (came_from < 0))
        came_from[fresh] = broker
        found = fresh[takes[fresh] > 0]
        if len(found):
            path = [int(found[np.argmax(takes[found])])]
            while came_from[path[-1]] != path[-1]:
                path.append(int(came_from[path[-1]]))
            return path[::-1]
        queue.extend(fresh.tolist())
    return None
