"""
What has to be looked at since the last turn.

``observe`` and ``apply`` note it, the loop takes it and hands it to ``decide``. Notes are levels,
not events: noting twice is noting once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from controller.core.events import Orphan
from controller.core.model import NO_BROKERS, BrokerId, TopicPartition


@dataclass(slots=True)
class Worklist:
    """What has to be looked at since the last turn."""

    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    held: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    """Partitions that were too many for the turns before, with the brokers that bounced then."""
    seeded: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose state was read for the first time in this tenure."""
    refreshed: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR changed by their leader."""
    joined: set[BrokerId] = field(default_factory=set)
    left: set[BrokerId] = field(default_factory=set)
    elsewhere: set[BrokerId] = field(default_factory=set)
    """Brokers that changed their endpoints, or accept requests again, and did not restart."""
    bounced: set[BrokerId] = field(default_factory=set)
    bounced_from: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """Brokers that bounced while nothing could be decided of a partition, which now it can."""
    changed: set[TopicPartition] = field(default_factory=set)
    """Partitions whose watch fired."""
    listed_topics: bool = False
    overtaken_topics: set[str] = field(default_factory=set)
    """Topics whose read began before the claim and ended in the tenure."""
    notified: dict[TopicPartition, None] = field(default_factory=dict)
    log_dir_brokers: set[BrokerId] = field(default_factory=set)
    elections: bool = False
    tenure: bool = False
    """Whether claiming or giving back has to be considered."""
    claimed: bool = False
    plan: bool = False
    timer: bool = False
    """Whether a time came that somebody asked for."""
    dropped: set[TopicPartition] = field(default_factory=set)
    """Entries an operator took out of the legacy znode."""
    orphans: bool = False
    """Whether an orphan may be deletable now."""
    buried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was acknowledged."""
    capacity: bool = False
    """A slot may have become free: look at what waits."""
    line: bool = False
    """Look at more of what waits: it was too much for the turn in which a slot became free."""
    brokers_changed: bool = False
    answered: bool = False
    """Whether the cluster's controller answered orders."""

    submissions: bool = False
    """Whether a request may be acceptable, in part or as a whole."""
    cancel: bool = False
    """Whether the cancellation may go on, or be complete."""
    queue: bool = False
    endings: bool = False
    """Whether a request may have ended."""
    throttles: bool = False
    """Whether throttles may have to be set, changed or lifted."""
    sizes: bool = False
    """Whether sizes may have to be asked for."""
    health: bool = False
    """Whether settings of partitions out of sync may have to be asked for."""
    pace: bool = False
    """Whether an interval of the adaptive pace is over."""
    order: bool = False
    """Whether those that wait have to be put in order anew."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions to be looked at."""
        self.partitions.update(dict.fromkeys(partitions))

    def forget_brokers(self) -> None:
        """Forget which brokers came and went."""
        for brokers in (self.joined, self.left, self.elsewhere, self.bounced):
            brokers.clear()
        self.bounced_from.clear()
        self.held = dict.fromkeys(self.held, NO_BROKERS)

    def leave(self, most: int) -> Worklist:
        """
        Keep partitions for one turn; return the list that the next turn begins with.

        Of what is new, and of what was held before, the first so many each: what very many wait for
        keeps nobody else waiting, nor is any of them passed over for ever.
        """
        left = Worklist(held=self.held)
        self.held = {}
        for partition in tuple(islice(self.partitions, most, None)):
            del self.partitions[partition]
            # One that left may be back by then.
            bounced = self.bounced | self.left | self.bounced_from.pop(partition, set())
            left.held[partition] = left.held.get(partition, NO_BROKERS) | bounced
        for partition in tuple(islice(left.held, most)):
            bounced_then = left.held.pop(partition)
            self.partitions[partition] = None
            if bounced_then:
                self.bounced_from.setdefault(partition, set()).update(bounced_then)
        return left
