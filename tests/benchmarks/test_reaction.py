"""The timing of the end of a step."""

from __future__ import annotations

import json

from benchmarks.reaction import isr_to_end_s
from integration.rigs.transaction_log import Write

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"


def write(at_ms: int, path: str, content: dict[str, object]) -> Write:
    """Return a write as ZooKeeper's log has it."""
    return Write(at_ms, 1, at_ms, path, json.dumps(content).encode())


def topic(at_ms: int, replicas: list[int], adding: list[int], removing: list[int]) -> Write:
    """Return a write of the topic."""
    return write(
        at_ms,
        TOPIC,
        {
            "partitions": {"0": replicas},
            "adding_replicas": {"0": adding} if adding else {},
            "removing_replicas": {"0": removing} if removing else {},
        },
    )


def test_a_step_is_timed_from_the_isr_that_has_all_to_the_clean_topic() -> None:
    """The daemon's own writes of the state between the two do not count, nor do other moves."""
    history = [
        topic(0, [1, 2], [], []),
        write(5, STATE, {"isr": [1, 2]}),
        topic(10, [1, 2, 3], [3], []),
        write(20, STATE, {"isr": [1, 2]}),
        write(100, STATE, {"isr": [1, 2, 3]}),
        topic(110, [1, 3, 2], [], [2]),
        write(110, STATE, {"isr": [1, 3]}),
        topic(160, [1, 3], [], []),
        write(170, STATE, {"isr": [1, 3]}),
        topic(200, [1, 3, 4], [4], []),
    ]
    assert list(isr_to_end_s(history, "t", 0)) == [0.06]
