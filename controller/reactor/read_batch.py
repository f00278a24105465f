"""
What one round of the loop wants read of topics and partition states: asked for together.

What is new to it is asked for before the round writes, the rest after that (``loop``).
Every partition asks for its own state when its step is sent. A job each would be a round trip each,
one after the other, and whatever changed in the meantime would wait behind all of them.
"""

from __future__ import annotations

from controller.core.effects import ReadPurpose, ReadStates, ReadTopics
from controller.core.model import TopicPartition
from controller.reactor.ports import Store


class Reads:
    """Collects, then asks."""

    def __init__(self, store: Store) -> None:
        """Begin with nothing to read."""
        self._store = store
        self._topics: dict[str, None] = {}
        self._watched: dict[TopicPartition, None] = {}
        self._once: dict[TopicPartition, None] = {}

    def add(self, effect: ReadStates | ReadTopics) -> None:
        """Have it read with the rest."""
        if isinstance(effect, ReadTopics):
            self._topics.update(dict.fromkeys(effect.topics))
        elif effect.purpose is ReadPurpose.WATCH:
            self._watched.update(dict.fromkeys(effect.partitions))
        else:
            self._once.update(dict.fromkeys(effect.partitions))

    def send(self, read_generation: int) -> None:
        """
        Ask for everything: topics first, so that a state is never older than its topic.

        What is to be watched is not read without a watch besides: one answer serves both.

        Args:
            read_generation: How many doubts the loop had so far.

        """
        if self._topics:
            self._store.read_topics(tuple(self._topics), read_generation=read_generation)
        once = tuple(p for p in self._once if p not in self._watched)
        for wanted, watch in ((tuple(self._watched), True), (once, False)):
            if wanted:
                self._store.read_states(wanted, watch=watch, read_generation=read_generation)
        for asked in (self._topics, self._once, self._watched):
            asked.clear()
