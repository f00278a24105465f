"""Many races lost at once cost few round trips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from controller.core.core_settings import Options
from controller.core.leadership.records import StateRecord
from controller.core.model import (
    ControllerEpoch,
    LeaderEpoch,
    PartitionAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.records import Change
from controller.core.topics.records import AssignmentRecord
from controller.reactor.commits import Commits, stale_checks
from controller.reactor.group_commit import Batch
from controller.reactor.ports import (
    Check,
    Delete,
    Failpoints,
    Operation,
    Rejected,
    SetData,
    WriteError,
)
from controller.znodes import paths
from tests.core.builders import Driver, replicas
from tests.reactor.stores import VersionedStore
from tests.sim.histories import SilentObserver

MANY = 400
TOPICS = 20
OVERTAKEN = WriteError.BAD_VERSION


class Writing:
    """A daemon that writes the states of many partitions, some of which changed meanwhile."""

    def __init__(self, topics: int = TOPICS) -> None:
        partitions = [TopicPartition(f"t{n % topics}", n // topics) for n in range(MANY)]
        nothing_begins = Options(max_partitions_in_flight=0)
        self.driver = Driver(dict.fromkeys(partitions, (0, 1)), options=nothing_begins)
        self.view = self.driver.view
        states = {paths.state_path(p): s.version for p, s in self.view.leadership.states.items()}
        known = {paths.topic_path(n): t.version for n, t in self.view.topics.by_name.items()}
        self.store = VersionedStore(states | known)
        self._commits = Commits(
            self.view, self.store, SilentObserver(), Failpoints(), lambda _effect, _now: None
        )

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return all of them."""
        return list(self.driver.assignments)

    def overtake(self, paths_: Iterable[str]) -> None:
        """Let another client write znodes once."""
        for path in paths_:
            self.store.versions[path] = ZkVersion(self.store.versions[path] + 1)

    def state(self, partition: TopicPartition) -> StateRecord:
        """Return the next state of a partition, as far as is known."""
        known = self.view.leadership.states[partition]
        return StateRecord(
            partition,
            known.leader,
            LeaderEpoch(known.leader_epoch + 1),
            known.isr,
            ControllerEpoch(7),
            known.version,
            0,
        )

    def write(self, change_of: Callable[[TopicPartition], Change]) -> None:
        """Have a change of each partition written."""
        self._commits.commit([change_of(p) for p in self.partitions], self.driver.now)

    def written(self) -> list[TopicPartition]:
        """Return whose new states are taken as durable."""
        return [p for p, s in self.view.leadership.states.items() if s.leader_epoch == 1]

    def states_written(self) -> list[str]:
        """Return the states that are durable."""
        return [
            op.path for multi in self.store.written for op in multi if op.path.endswith("/state")
        ]


@pytest.mark.parametrize(("lost", "round_trips"), [(0, 1), (1, 2), (2, 5), (50, 5), (MANY, 4)])
def test_few_round_trips_find_all_lost_races(lost: int, round_trips: int) -> None:
    """A stale change is not applied; all others are written, once."""
    daemon = Writing()
    overtaken = daemon.partitions[:: MANY // lost] if lost else []
    daemon.overtake(map(paths.state_path, overtaken))
    daemon.write(lambda p: Change((daemon.state(p),), partition=p))
    others = [p for p in daemon.partitions if p not in set(overtaken)]
    assert daemon.store.commits <= round_trips
    assert sorted(daemon.states_written()) == sorted(map(paths.state_path, others))
    assert daemon.written() == others
    assert set(daemon.view.leadership.distrusted) == set(overtaken)


def test_what_shares_a_topic_still_shares_its_write() -> None:
    """A write of its own for each partition would be a round trip for each: they build on it."""
    daemon = Writing(topics=1)
    overtaken = set(daemon.partitions[::10])
    daemon.overtake(map(paths.state_path, overtaken))
    moved = PartitionAssignment(replicas(0, 1, 2), replicas(2))

    def change_of(partition: TopicPartition) -> Change:
        state = daemon.state(partition)
        step = (AssignmentRecord(partition, moved), state)
        return Change((state,) if partition in overtaken else step, partition=partition)

    daemon.write(change_of)
    topic = paths.topic_path("t0")
    assert [sum(op.path == topic for op in multi) for multi in daemon.store.written] == [1]
    assert daemon.written() == [p for p in daemon.partitions if p not in overtaken]
    assert daemon.store.commits <= 5


def test_topics_that_were_overtaken_hold_up_their_own_partitions_only() -> None:
    """They are found out together; of each of the others one write is made."""
    daemon = Writing()
    overtaken = [f"t{n}" for n in range(0, TOPICS, 2)]
    daemon.overtake(map(paths.topic_path, overtaken))
    moved = PartitionAssignment(replicas(0, 1, 2), replicas(2))
    daemon.write(lambda p: Change((AssignmentRecord(p, moved), daemon.state(p)), partition=p))
    assert daemon.store.commits <= 5
    assert {n for n, t in daemon.view.topics.by_name.items() if t.stale} == set(overtaken)
    assert daemon.written() == [p for p in daemon.partitions if p.topic not in overtaken]


def _batch(*operations: Operation) -> Batch:
    return Batch(operations=list(operations), owners=[()] * len(operations))


def _requested(batch: Batch, index: int, moved: Sequence[str] = ()) -> list[Check]:
    return [p.check for p in stale_checks(batch, Rejected(index, OVERTAKEN), moved)]


def test_only_what_follows_the_culprit_is_requested() -> None:
    """ZooKeeper looked at what goes before it."""
    one, two, three = (SetData(f"/{n}", b"", ZkVersion(n)) for n in range(3))
    assert _requested(_batch(one, two, three), 1) == [Check("/2", ZkVersion(2))]


def test_what_expects_a_write_of_ours_is_not_requested() -> None:
    """It would look like a lost race."""
    culprit = SetData("/0", b"", ZkVersion(0))
    relied, ours = Check("/1", ZkVersion(1)), SetData("/2", b"", ZkVersion(2))
    then = Delete("/2", ZkVersion(3))
    batch = _batch(culprit, relied, ours, then)
    assert _requested(batch, 0, moved=("/1",)) == [Check("/2", ZkVersion(2))]


def test_a_delete_at_no_version_is_not_requested() -> None:
    """There is no version to check."""
    batch = _batch(SetData("/0", b"", ZkVersion(0)), Delete("/1", None))
    assert _requested(batch, 0) == []
