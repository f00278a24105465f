"""
Drivers whose topic znodes other clients change, seen or unseen, and the drifts they make.

``RacingDriver`` writes as ZooKeeper does: a change that writes a topic znode, or relies on it, is
rejected where the version is another than the view has. ``ObservedAlters`` hands alter entries to
the driver's controller through the real queue.

``play`` is one history of ``DRIFTS`` drifts; ``python -m tests.core.drift_rigs`` plays ten thousand
drifts with each engine.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

from controller.core import effects, model
from controller.core.core_settings import EngineName, ForeignMoves, Options
from controller.core.cycle import record_effect, take_due
from controller.core.decide import decide
from controller.core.leadership.records import StatesRead
from controller.core.model import PartitionAssignment, Replicas, Route, TopicPartition, ZkVersion
from controller.core.reassignments.records import AlterationsWithdrawn, SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests.records import RefusalRecord, SubmissionsRead
from controller.core.requests.submissions import Submission
from controller.core.role import invalidation
from controller.core.topics.records import AssignmentRecord, TopicsRead
from controller.reactor.alter_queue import AlterQueue
from controller.reactor.ports import AlterEntry
from tests.core.builders import Driver, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_approved import GO_ON, PAUSED, approved
from tests.core.requests.test_submitted import submit

BROKERS: Final = 7

Approved = Mapping[TopicPartition, Replicas]
Drifts = Mapping[TopicPartition, PartitionAssignment]


@dataclass
class RacingDriver(Driver):
    """The native engine beside other clients that write topic znodes."""

    expected: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas that were approved."""
    moved: set[TopicPartition] = field(default_factory=set)
    """The partitions whose approved reassignment began."""
    submitted: dict[str, Submission] = field(default_factory=dict)
    """The submitted znodes."""
    rejected: int = 0
    """Changes that another client's write overtook."""

    def __post_init__(self) -> None:
        """Keep the znodes apart from what is known of them."""
        self.stored: dict[str, model.TopicAssignment] = {}
        self.states_stored: dict[TopicPartition, model.PartitionState] = {}
        super().__post_init__()
        self._store()

    def drift(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        """Write a topic znode as another client, without a read of it."""
        topic = self.stored[partition.topic]
        changed = {**topic.partitions, partition.partition: assignment}
        self.stored[partition.topic] = replace(
            topic, partitions=changed, version=ZkVersion(topic.version + 1)
        )

    def read(self) -> None:
        """Read all topic znodes."""
        self.observe(TopicsRead(dict(self.stored)))

    def settle(self) -> None:
        """Decide, commit what is not overtaken, and answer until nothing is due."""
        for _ in range(1000):
            self.states_stored |= self.view.leadership.states
            if not self.view.due:
                return
            decision = decide(self.view, take_due(self.view), self.now)
            following: list[effects.Effect] = []
            for change in decision.changes:
                if self._is_overtaken(change):
                    self.rejected += 1
                    following += invalidation.invalidate(self.view, change)
                else:
                    self.commit(change)
                    following += change.effects
            following += decision.effects
            for effect in following:
                record_effect(self.view, effect, self.now)
                self.sent.append(effect)
            for effect in following:
                self.answer(effect)
        raise AssertionError("the core does not come to rest")

    def commit(self, change: Change) -> None:
        """Write a change; the first step of an approved entry begins from the approved replicas."""
        for record in change.records:
            if isinstance(record, AssignmentRecord):
                self._judge(record.partition)
        super().commit(change)
        self._store()

    def answer(self, effect: effects.Effect) -> None:
        """Read topics, and what a rejected write put in doubt, from the znodes."""
        match effect:
            case effects.ReadTopics(topics=topics):
                self.fold(TopicsRead({t: self.stored[t] for t in topics}))
            case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.CONFLICT):
                self.fold(StatesRead({p: self.states_stored[p] for p in partitions}))
            case effects.ReadSubmissions(names=names):
                self.fold(SubmissionsRead({n: self.submitted[n] for n in names}))
            case _:
                super().answer(effect)

    def _judge(self, partition: TopicPartition) -> None:
        running = self.view.reassignments.by_partition[partition].spec
        if running.route is Route.FOREIGN or partition in self.moved:
            return
        there = self.stored[partition.topic].partitions[partition.partition]
        assert there == PartitionAssignment(self.expected[partition]), f"{partition} moves: {there}"
        self.moved.add(partition)

    def _is_overtaken(self, change: Change) -> bool:
        """Return whether a change depends on a topic znode that another client wrote since."""
        relied = {r.partition.topic for r in change.records if _relies(r)}
        topics = self.view.topics.by_name
        return any(self.stored[t].version != topics[t].version for t in relied)

    def _store(self) -> None:
        for name, topic in self.view.topics.by_name.items():
            known = self.stored.get(name)
            if known is None or known.version < topic.version:
                self.stored[name] = model.TopicAssignment(
                    dict(topic.partitions), topic.version, topic.czxid
                )


def _relies(
    record: Record,
) -> TypeGuard[AssignmentRecord | SpecEndedRecord | SpecRecord]:
    match record:
        case AssignmentRecord():
            return True
        case SpecEndedRecord(stands=stands, version=version):
            return stands or version is None
        case SpecRecord(spec=spec):
            return spec.version is None and spec.route is not Route.FOREIGN
        case _:
            return False


@dataclass
class ObservedAlters(DelegatedDriver):
    """The delegated engine, whose alter entries pass the real queue."""

    expected: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas that were approved."""
    moved: set[TopicPartition] = field(default_factory=set)
    """The partitions whose approved reassignment began."""
    drifts: Drifts = field(default_factory=dict)
    drifts_at_send: set[TopicPartition] = field(default_factory=set)
    """Partitions that drift when their entry is queued and not handed over yet."""

    def __post_init__(self) -> None:
        """Begin with an empty queue."""
        self.queue = AlterQueue(self)
        super().__post_init__()

    def drift(self, partition: TopicPartition, assignment: PartitionAssignment) -> None:
        """Write a topic znode as another client; the watch has it read."""
        self._write(partition, assignment)

    def read(self) -> None:
        """Decide on what was read."""
        self.settle()

    def answer(self, effect: effects.Effect) -> None:
        """Queue alter entries, and hand over those whose preconditions still hold."""
        if not isinstance(effect, effects.AlterReassignment):
            super().answer(effect)
            return
        self.queue.add(self.view, effect)
        if effect.partition in self.drifts_at_send:
            self.drifts_at_send.remove(effect.partition)
            drifted = self.drifts[effect.partition]
            if drifted.target_replicas == effect.target:
                # The very step that is about to be asked for would be no drift.
                target = self.view.reassignments.by_partition[effect.partition].spec.target
                named = {*effect.target, *target}
                drifted = PartitionAssignment(
                    next((r,) for r in replicas(*range(BROKERS)) if r not in named)
                )
            self.drift(effect.partition, drifted)
        withdrawn = self.queue.withdraw(self.view)
        if withdrawn:
            self.fold(AlterationsWithdrawn(withdrawn))
        self.queue.send()
        self.queue.note_answer()

    # --- the port of the controller ----------------------------------------------------------

    def alter(self, entries: Sequence[AlterEntry]) -> None:
        """Carry entries out; the first of an approved one begins from the approved replicas."""
        for entry in entries:
            partition = entry.partition
            if not entry.cancels and partition not in self.moved:
                there = self.assignment(partition)
                assert there == PartitionAssignment(self.expected[partition]), f"{partition}"
                self.moved.add(partition)
            super().answer(
                effects.AlterReassignment(partition, entry.target, cancels=entry.cancels)
            )

    def probe(self) -> None:
        """Do nothing."""

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""

    def vouch(self) -> None:
        """Do nothing."""


def any_replicas(chance: random.Random, size: int) -> Replicas:
    """Return random replicas."""
    return replicas(*chance.sample(range(BROKERS), size))


def other_assignment(
    chance: random.Random, before: Replicas, target: Replicas
) -> PartitionAssignment:
    """Return an assignment that is neither approved nor the target: moved, reordered or moving."""
    match chance.randrange(4):
        case 0 if before[::-1] not in (before, target):
            return PartitionAssignment(before[::-1])
        case 1:
            # Part-way on the very path that was approved.
            new = [r for r in target if r not in before] or [before[0]]
            mixed = (*before[1:], new[0])
            if mixed not in (before, target) and len(set(mixed)) == len(mixed):
                return PartitionAssignment(mixed)
        case 2:
            joins = next(r for r in replicas(*range(BROKERS)) if r not in before)
            return PartitionAssignment((*before, joins), (joins,), before[:1])
        case _:
            pass
    return PartitionAssignment(_other(chance, (before, target)))


def _other(chance: random.Random, but: Collection[Replicas]) -> Replicas:
    while (found := any_replicas(chance, chance.randint(1, 3))) in but:
        pass
    return found


# --- histories -----------------------------------------------------------------------------------

DRIFTS: Final = 40
UNTOUCHED: Final = 5
"""Partitions of each history that do not drift: they reach their targets."""
NO_LIMITS: Final = {
    "max_partitions_in_flight": 1000,
    "max_incoming_per_broker": 1000,
    "max_outgoing_per_broker": 1000,
    "max_leader_moves_per_broker_per_second": 10_000,
}


def play(seed: int, *, is_native: bool) -> None:
    """
    Play one history: approved entries, of which most drift at some moment before their first step.

    A drift is made before the request is submitted, between acceptance and first step, or while the
    first step is being written or sent; it is read or not.
    """
    chance = random.Random(seed)
    before = {tp(n): any_replicas(chance, chance.randint(1, 3)) for n in range(DRIFTS + UNTOUCHED)}
    targets = {p: _other(chance, (there,)) for p, there in before.items()}
    drifts = {p: other_assignment(chance, before[p], targets[p]) for p in list(before)[UNTOUCHED:]}
    driver = (_native if is_native else _delegated)(before, drifts)
    early, between, late = ([p for p in drifts if p.partition % 3 == moment] for moment in range(3))
    _drift(driver, drifts, early, is_read=chance.random() < 0.5)
    driver.observe(PAUSED)
    request = approved(targets, before)
    if isinstance(driver, RacingDriver):
        driver.submitted[request.name] = request
    submit(driver, request)
    _drift(driver, drifts, between, is_read=chance.random() < 0.5)
    if isinstance(driver, RacingDriver):
        _drift(driver, drifts, late, is_read=False)
    else:
        driver.drifts_at_send = set(late)
    driver.observe(GO_ON)
    assert driver.moved.isdisjoint(drifts)
    assert drifted_in(driver) == Counter(list(drifts)), f"seed {seed}"
    for partition in list(before)[:UNTOUCHED]:
        driver.run(partition)
        reached = driver.view.topics.assignment(partition)
        assert reached == PartitionAssignment(targets[partition]), f"seed {seed}: {partition}"
    assert driver.moved.isdisjoint(drifts)


def _native(before: Approved, drifts: Drifts) -> RacingDriver:
    options = Options(require_approval=True, **NO_LIMITS)  # type: ignore[arg-type]
    del drifts
    return RacingDriver(before, range(BROKERS), options, expected=before)


def _delegated(before: Approved, drifts: Drifts) -> ObservedAlters:
    options = Options(
        engine=EngineName.DELEGATED,
        foreign_moves=ForeignMoves.BESIDE,
        require_approval=True,
        **NO_LIMITS,  # type: ignore[arg-type]
    )
    return ObservedAlters(before, range(BROKERS), options, expected=before, drifts=drifts)


def _drift(
    driver: RacingDriver | ObservedAlters,
    drifts: Drifts,
    partitions: Iterable[TopicPartition],
    *,
    is_read: bool,
) -> None:
    for partition in partitions:
        driver.drift(partition, drifts[partition])
    if is_read:
        driver.read()


def drifted_in(driver: Driver) -> Counter[TopicPartition | None]:
    """Return how often each partition was refused because it drifted."""
    return Counter(
        refusal.partition
        for change in driver.changes
        for record in change.records
        if isinstance(record, RefusalRecord)
        for refusal in record.refusals
        if refusal.reason is model.RefusalReason.DRIFTED
    )


if __name__ == "__main__":
    for number in range(10_000 // DRIFTS):
        for native in (True, False):
            play(number, is_native=native)
    sys.stdout.write("10000 drifts with each engine moved nothing that was not approved\n")
