"""
Submission of a request: its znodes, and the wait for the daemon.

A plan that is too large for one znode becomes several parts of one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from controller.cli.context import CommandContext
from controller.cli.output import tell
from controller.cli.plan_files import Plan
from controller.core.model import Replicas, RequestId, TopicPartition
from controller.core.submissions import RequestOptions
from controller.zk.operator_client import OperatorClient
from controller.znodes.submissions import encode_submission

PART_BYTES_MAX: Final = 700_000
"""ZooKeeper refuses more than 1 MiB, which includes its own envelope."""
POLL_S: Final = 0.25
FOLLOW_S: Final = 0.5
LEADERLESS_S: Final = 15.0
"""A standby takes over within a session timeout; after this time there is none."""


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """Options of a command that submits something to the daemon."""

    additional: bool = False
    wait: bool = False
    dry_run: bool = False
    as_json: bool = False
    timeout_s: float = 60.0
    options: RequestOptions = field(default_factory=RequestOptions)
    """Options that the request itself keeps."""


def await_daemon(
    around: CommandContext,
    operator: OperatorClient,
    is_taken_up: Callable[[], bool],
    *,
    timeout_s: float,
) -> bool:
    """
    Wait until the daemon takes up a submission.

    Returns:
        False after ``timeout_s``, or after ``LEADERLESS_S`` without a leader.

    """
    started = around.now()
    leaderless_since: float | None = None
    while not is_taken_up():
        now = around.now()
        if operator.cluster.leader_address() is not None:
            leaderless_since = None
        elif leaderless_since is None:
            leaderless_since = now
            tell("No reassigner leads; waiting for one.")
        elif now - leaderless_since >= LEADERLESS_S:
            return False
        if now - started >= timeout_s:
            return False
        around.sleep(POLL_S)
    return True


def why_not_taken_up(operator: OperatorClient, timeout_s: float) -> str:
    """Return the likely reason why the daemon did not take up a submission."""
    if operator.cluster.leader_address() is None:
        return "no reassigner leads; the next leader takes it up"
    return f"not within {timeout_s:g} s; see `reassigner status`"


def submissions_of(
    plan: Plan, options: RequestOptions, request: RequestId, *, bytes_max: int = PART_BYTES_MAX
) -> list[bytes]:
    """
    Return the contents of the znodes that submit a plan.

    Args:
        plan: The plan.
        options: The options of the request.
        request: The id of a request of several znodes; ZooKeeper names a single znode.
        bytes_max: The largest content of one znode.

    """
    named = replace(options, part_of=request)
    room = bytes_max - len(encode_submission({}, replace(named, parts=len(plan))))
    parts = list(_split(plan, room))
    if len(parts) == 1:
        return [encode_submission(plan, options)]
    return [encode_submission(part, replace(named, parts=len(parts))) for part in parts]


def _split(plan: Plan, room: int) -> Iterator[Plan]:
    """Split a plan into parts of at most ``room`` bytes, topic by topic."""
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
    """Yield the entries topic by topic, in the order of the plan."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in plan:
        topics.setdefault(partition.topic, []).append(partition)
    for partitions in topics.values():
        for partition in partitions:
            yield partition, plan[partition]
