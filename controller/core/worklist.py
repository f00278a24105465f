"""
The worklist: what must be examined since the last cycle of the loop.

``take_due`` passes it to ``decide``. Notes are levels, not events: noting twice is noting once.
Flags are set as ``wakeups`` says; partitions, brokers, topics and orphans are noted where the
content that names them is folded in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from controller.core.bases import Flags
from controller.core.model import NO_BROKERS, BrokerId, TopicPartition
from controller.core.reassignments.model import Orphan


@dataclass(slots=True)
class Worklist:
    """The partitions and duties to be examined since the last cycle; a flag: what may be due."""

    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    held: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    """Partitions that exceeded the earlier cycles' share, with the brokers that bounced then."""
    seeded: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose state was read for the first time in this tenure."""
    refreshed: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR was changed by their leader."""
    joined: set[BrokerId] = field(default_factory=set)
    left: set[BrokerId] = field(default_factory=set)
    elsewhere: set[BrokerId] = field(default_factory=set)
    """Brokers that changed their endpoints, or accept requests again, without a restart."""
    bounced: set[BrokerId] = field(default_factory=set)
    bounced_from: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """Brokers that bounced while a partition could not be judged, which now can."""
    changed: set[TopicPartition] = field(default_factory=set)
    """Partitions whose watch fired."""
    listed_topics: bool = False
    overtaken_topics: set[str] = field(default_factory=set)
    """Topics whose read began before the claim and ended in the tenure."""
    notified: dict[TopicPartition, None] = field(default_factory=dict)
    log_dir_brokers: set[BrokerId] = field(default_factory=set)
    elections: bool = False
    tenure: bool = False
    """Whether a claim or a resignation has to be considered."""
    claimed: bool = False
    plan: bool = False
    timer: bool = False
    dropped: set[TopicPartition] = field(default_factory=set)
    """Entries that an operator removed from the legacy znode."""
    orphans: bool = False
    buried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was acknowledged."""
    gone_orphans: set[Orphan] = field(default_factory=set)
    """Orphans whose broker has no log of them any more."""
    capacity: bool = False
    """A slot may have become free: consider pending reassignments."""
    line: bool = False
    """Consider more pending reassignments: they exceeded the cycle in which a slot became free."""
    brokers_changed: bool = False
    answered: bool = False

    submissions: bool = False
    cancel: bool = False
    queue: bool = False
    drains: bool = False
    """Whether partitions on drained brokers may be given another target."""
    endings: bool = False
    throttles: bool = False
    health: bool = False
    """Whether settings of partitions out of sync may have to be requested."""
    log_dirs: bool = False
    pending_requests: bool = False
    deletions: bool = False
    order: bool = False
    """Whether pending reassignments have to be sorted again."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def wake(self, flags: Flags) -> None:
        """Set flags."""
        for flag in flags:
            setattr(self, flag, True)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions to be examined."""
        self.partitions.update(dict.fromkeys(partitions))

    def forget_brokers(self) -> None:
        """Forget which brokers came and went."""
        for brokers in (self.joined, self.left, self.elsewhere, self.bounced):
            brokers.clear()
        self.bounced_from.clear()
        self.held = dict.fromkeys(self.held, NO_BROKERS)

    def put_first(self, partitions: Iterable[TopicPartition]) -> None:
        """Move partitions that are noted to the front."""
        self.partitions = dict.fromkeys(partitions) | self.partitions

    def leave(self, most: int) -> Worklist:
        """
        Keep the partitions of one cycle; return the worklist with which the next begins.

        Each cycle takes up to ``most`` new partitions and as many held ones, so that a large
        backlog delays no other partition and no partition waits for ever.
        """
        left = Worklist(held=self.held)
        self.held = {}
        for partition in tuple(islice(self.partitions, most, None)):
            del self.partitions[partition]
            # A broker that left may be back by then.
            bounced = self.bounced | self.left | self.bounced_from.pop(partition, set())
            left.held[partition] = left.held.get(partition, NO_BROKERS) | bounced
        # One that is due again is not to be examined without the bounces it is held with.
        again = tuple(self.partitions.keys() & left.held.keys())
        others = islice((p for p in left.held if p not in self.partitions), most)
        for partition in (*again, *others):
            bounced_then = left.held.pop(partition)
            self.partitions[partition] = None
            if bounced_then:
                self.bounced_from.setdefault(partition, set()).update(bounced_then)
        return left
