"""
Compute a plan in a process of its own.

For a cluster of 100,000 partitions the planner takes half a minute of a processor. On a thread of
the daemon it would hold up the loop; here it runs beside it, with a lower priority. The values go
through pipes between two processes of the same program.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from controller.core.model import TopicPartition
from controller.errors import InvalidInputError, RefusedError
from controller.planning.plan_goal import Assignment, PlanGoal, Proposal
from controller.planning.proposer import propose
from controller.settings import ENVIRONMENT_PREFIX

WITHIN_S: Final = 120.0
NICENESS: Final = 10

Value = TypeVar("Value")


def propose_apart(
    before: Assignment, goal: PlanGoal, sizes: Mapping[TopicPartition, int]
) -> Proposal:
    """
    Return what ``proposer.propose`` returns.

    Raises:
        InvalidInputError: the goal cannot be reached, or not within ``WITHIN_S``.

    """
    try:
        done = subprocess.run(  # noqa: S603 - this module
            [sys.executable, "-m", __name__],
            input=pickle.dumps((_plain(before), goal, _plain(sizes))),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)},
            timeout=WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidInputError(
            f"the planner took more than {WITHIN_S:g} s; use `reassigner generate`"
        ) from error
    except OSError as error:
        raise InvalidInputError(f"the planner cannot be started: {error.strerror}") from error
    if done.returncode:
        raise InvalidInputError(f"the planner ended with exit code {done.returncode}")
    read = pickle.loads(done.stdout)  # noqa: S301 - written by ``main`` below
    if isinstance(read, str):
        raise InvalidInputError(read)
    changed, copies_min, notes = read
    ordered = {p: tuple(before[p]) for p in sorted(before)}
    after = {**ordered, **_by_partition(changed)}
    return Proposal(before=ordered, after=after, copies_min=copies_min, notes=notes)


def _plain(values: Mapping[TopicPartition, Value]) -> list[tuple[str, int, Value]]:
    """Return what is encoded fast: the lock of the interpreter is held meanwhile."""
    return [(p.topic, p.partition, value) for p, value in values.items()]


def _by_partition(plain: Iterable[tuple[str, int, Value]]) -> dict[TopicPartition, Value]:
    return {TopicPartition(topic, number): value for topic, number, value in plain}


def main() -> None:
    """Read the task from standard input; write the result, or the reason why there is none."""
    os.nice(NICENESS)
    before, goal, sizes = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by ``propose_apart``
    result: tuple[object, ...] | str
    try:
        found = propose(_by_partition(before), goal, _by_partition(sizes))
        result = (_plain(found.changed), found.copies_min, found.notes)
    except RefusedError as error:
        result = str(error)
    sys.stdout.buffer.write(pickle.dumps(result))


if __name__ == "__main__":
    main()
