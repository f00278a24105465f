"""
A plan as the znodes that submit it: one, or as many as ZooKeeper's limit on a znode asks for.

However many there are, it is one request: all parts name the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from controller.cli.plan_files import Plan
from controller.core.model import Replicas, RequestId, TopicPartition
from controller.core.submissions import RequestOptions
from controller.znodes.submissions import encode_submission

PART_BYTES_MAX: Final = 700_000
"""ZooKeeper refuses more than 1 MiB; what is left is room for its own envelope, and for people."""


def submissions_of(
    plan: Plan, options: RequestOptions, request: RequestId, *, bytes_max: int = PART_BYTES_MAX
) -> list[bytes]:
    """
    Return the contents of the znodes that submit a plan.

    Args:
        plan: What to submit.
        options: How it wants to be carried out.
        request: Its id, where it needs several znodes; one znode is named by ZooKeeper.
        bytes_max: How large one may be.

    """
    named = replace(options, part_of=request)
    room = bytes_max - len(encode_submission({}, replace(named, parts=len(plan))))
    parts = list(_split(plan, room))
    if len(parts) == 1:
        return [encode_submission(plan, options)]
    return [encode_submission(part, replace(named, parts=len(parts))) for part in parts]


def _split(plan: Plan, room: int) -> Iterator[Plan]:
    """Cut a plan into pieces that take this many bytes at most, topic after topic."""
    part: dict[TopicPartition, Replicas] = {}
    used, current = 0, None
    for partition, replicas in _by_topic(plan):
        # ,"<partition>":[<replicas>] and, once per topic, ,"<topic>":{}
        size = len(f',"{partition.partition}":[]') + sum(len(str(r)) + 1 for r in replicas)
        if partition.topic != current:
            size += len(f',"{partition.topic}":{{}}')
        if part and used + size > room:
            yield part
            part, used = {}, 0
            if partition.topic == current:
                size += len(f',"{partition.topic}":{{}}')
        part[partition] = replicas
        used += size
        current = partition.topic
    if part:
        yield part


def _by_topic(plan: Plan) -> Iterator[tuple[TopicPartition, Replicas]]:
    """List a plan topic by topic, in the order in which it names them."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in plan:
        topics.setdefault(partition.topic, []).append(partition)
    for partitions in topics.values():
        for partition in partitions:
            yield partition, plan[partition]
