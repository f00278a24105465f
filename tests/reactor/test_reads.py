"""What a round wants read is asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from controller.core.effects import ReadPurpose, ReadStates, ReadTopics
from controller.core.model import TopicPartition
from controller.reactor.ports import Store
from controller.reactor.read_batch import Reads
from tests.core.builders import tp


class Asked:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Note it."""
        self.calls.append((topics, read_generation))

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Note it."""
        self.calls.append((partitions, watch, read_generation))


def test_each_kind_is_asked_for_once_and_topics_first() -> None:
    """A job for each would be a round trip each; what is watched is read once, with its watch."""
    asked = Asked()
    reads = Reads(cast("Store", asked))
    reads.add(ReadStates((tp(0),), ReadPurpose.WATCH))
    reads.add(ReadStates((tp(2), tp(0)), ReadPurpose.CONFLICT))
    reads.add(ReadTopics(("t",)))
    reads.add(ReadStates((tp(1), tp(0)), ReadPurpose.WATCH))
    reads.send(7)
    assert asked.calls == [(("t",), 7), ((tp(0), tp(1)), True, 7), ((tp(2),), False, 7)]
    reads.send(8)
    assert len(asked.calls) == 3
