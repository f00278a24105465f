"""The merge of independent changes into few multis, each with one write per shared znode."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pytest

from controller.core.bases import Volatile
from controller.core.core_settings import Options
from controller.core.cycle import apply
from controller.core.deletions.records import DeletionRequestedRecord
from controller.core.leadership.records import IsrRecord, StateCreatedRecord, StateRecord
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    OutcomeKind,
    PartitionAssignment,
    PartitionOutcome,
    PartitionState,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.records import AppliedThrottleEndedRecord, AppliedThrottleRecord
from controller.core.pacing.throttle_settings import AppliedThrottle, broker_entity, topic_entity
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests.completion import conclude
from controller.core.requests.model import PlanNode
from controller.core.requests.outcomes import EndedHistory, Part, Summary
from controller.core.requests.records import (
    AcceptedRecord,
    CancellationEndedRecord,
    LegacyEntryRecord,
    PartitionOutcomeRecord,
    PartRecord,
    QueueEndedRecord,
    QueueEntryEndedRecord,
    RefusalRecord,
    RequestOutcomeForgottenRecord,
    RequestOutcomeRecord,
    SubmissionEndedRecord,
)
from controller.core.requests.submissions import AcceptedEntry
from controller.core.role.model import Tenure
from controller.core.topics.model import Topic, TopicResult
from controller.core.topics.records import AssignmentRecord, TopicIdRecord
from controller.core.view import ClusterView
from controller.reactor.group_commit import MAX_BYTES, Batch, Batcher, in_groups
from controller.reactor.outcome_rows import SHARD_BYTES
from controller.reactor.ports import Check, Create, CreateSequential, Delete, Operation, SetData
from controller.reactor.znode_operations import UNWRITTEN
from controller.zk.multis import too_large
from controller.znodes import paths
from controller.znodes.histories import decode_accepted, decode_ended
from controller.znodes.plans import decode_legacy_plan
from controller.znodes.topics import decode_topic

MAX_OPERATIONS = Options().multi_operations
R1, R2 = RequestId("request_0000000001"), RequestId("request_0000000002")


def tp(partition: int) -> TopicPartition:
    """Return a partition of the topic of these tests."""
    return TopicPartition("t", partition)


def replicas(*ids: int) -> Replicas:
    """Return a replica list."""
    return tuple(BrokerId(i) for i in ids)


def a_view(*, queue: dict[TopicPartition, Replicas] | None = None) -> ClusterView:
    """Build a view in a tenure of epoch 7."""
    view = ClusterView(Options())
    view.tenure.held = Tenure(ControllerEpoch(7), Instant(0.0))
    if queue is not None:
        view.requests.queue = PlanNode(queue, ZkVersion(4), Zxid(9))
    return view


def batches(view: ClusterView, *changes: Iterable[Record]) -> list[Batch]:
    """Batch changes of these records."""
    return list(Batcher(view).batches([Change(tuple(records)) for records in changes]))


def only(view: ClusterView, *changes: Iterable[Record]) -> list[Operation]:
    """Return the operations of changes that fit into one multi."""
    (batch,) = batches(view, *changes)
    assert len(batch.owners) == len(batch.operations)
    return batch.operations


def accepted(partition: TopicPartition, request: RequestId = R1) -> list[Record]:
    """Return the records of an accepted entry."""
    entry = AcceptedEntry(partition, replicas(1, 2), replicas(2, 3))
    spec = ReassignmentSpec(entry.target, entry.original, request, Route.REQUEST)
    return [SpecRecord(partition, spec), AcceptedRecord(request, entry)]


def refused(number: int, request: RequestId = R1, detail: str = "why") -> RefusalRecord:
    """Return a refused entry."""
    refusal = Refusal(request, f"entry {number}", RefusalReason.UNKNOWN_BROKER, detail)
    return RefusalRecord((refusal,))


def at(operations: list[Operation], path: str) -> Operation:
    """Return the one operation on a path."""
    (operation,) = [op for op in operations if op.path == path]
    return operation


def created(operations: list[Operation], path: str) -> bytes:
    """Return the data created at a path."""
    operation = at(operations, path)
    assert isinstance(operation, Create)
    return operation.data


# --- shards --------------------------------------------------------------------------------------


def test_accepted_entries_of_a_request_share_one_shard() -> None:
    """Its name says how many there are; every change has a part in it."""
    changes = [Change(tuple(accepted(tp(n))), partition=tp(n)) for n in range(5)]
    (batch,) = Batcher(a_view()).batches(changes)
    data = created(batch.operations, f"{paths.OUTCOMES}/{R1}/accepted-7-0-5")
    read = decode_accepted(data)
    assert isinstance(read, tuple)
    assert [entry.partition for entry in read] == [tp(n) for n in range(5)]
    assert batch.owners[-1] == tuple(changes)
    assert len(batch.operations) == 6
    assert batch.shards == 1


def test_shards_of_several_requests_and_kinds_have_different_numbers() -> None:
    """Refusals and outcomes share a shard, apart from that of accepted entries."""
    ending = PartitionOutcome(R1, tp(9), OutcomeKind.CANCELLED, "as requested")
    operations = only(
        a_view(),
        accepted(tp(0)),
        accepted(tp(1), R2),
        [refused(1), PartitionOutcomeRecord(ending)],
        [refused(2)],
    )
    assert created(operations, f"{paths.OUTCOMES}/{R1}/accepted-7-0-1")
    assert created(operations, f"{paths.OUTCOMES}/{R2}/accepted-7-1-1")
    read = decode_ended(R1, created(operations, f"{paths.OUTCOMES}/{R1}/ended-7-2-3"))
    assert isinstance(read, tuple)
    assert [r.entry for r in read[0]] == ["entry 1", "entry 2"]
    assert read[1] == (ending,)


def test_numbers_continue_after_those_of_the_view_and_the_batch_before() -> None:
    """A name is never used twice in a tenure."""
    view = a_view()
    view.requests_tenure.shards = 5
    many = [accepted(tp(n)) for n in range(MAX_OPERATIONS + 1)]
    first, second = batches(view, *many)
    assert first.operations[-1].path.endswith(f"accepted-7-5-{MAX_OPERATIONS}")
    assert second.operations[-1].path.endswith("accepted-7-6-1")
    assert (first.shards, second.shards) == (6, 7)


def test_outside_a_tenure_the_epoch_is_0() -> None:
    """The leading daemon may refuse a request without the role."""
    view = a_view()
    view.tenure.held = None
    assert only(view, [refused(1)])[0].path.endswith("/ended-0-0-1")


def test_a_shard_stays_below_what_a_znode_may_hold() -> None:
    """Rows that do not fit go into the next shard, all within the size of a multi."""
    details = "x" * 1000
    found = batches(a_view(), *[[refused(n, detail=details)] for n in range(1000)])
    shards = [op for batch in found for op in batch.operations]
    assert len({op.path for op in shards}) == len(shards) > 3
    rows = 0
    for op in shards:
        assert isinstance(op, Create)
        assert len(op.data) <= SHARD_BYTES + 100
        read = decode_ended(R1, op.data)
        assert isinstance(read, tuple)
        rows += len(read[0])
    assert rows == 1000
    for batch in found:
        assert sum(len(getattr(op, "data", b"")) for op in batch.operations) <= MAX_BYTES


def test_a_refused_shard_concerns_those_who_share_it() -> None:
    """Other changes in the multi are not affected."""
    one = Change(tuple(accepted(tp(0))))
    other = Change((CancellationEndedRecord(ZkVersion(0)),))
    (batch,) = Batcher(a_view()).batches([one, other])
    owners = dict(zip((op.path for op in batch.operations), batch.owners, strict=True))
    assert owners[paths.CANCEL] == (other,)
    assert owners[f"{paths.OUTCOMES}/{R1}/accepted-7-0-1"] == (one,)


# --- what topic znodes say -----------------------------------------------------------------------

EPOCH = ControllerEpoch(7)
STATE = PartitionState(BrokerId(1), LeaderEpoch(1), replicas(1, 2), EPOCH, ZkVersion(1))


def with_topic(version: int = 3) -> ClusterView:
    """Build a view that read the topic at a version."""
    view = a_view()
    partitions = {n: PartitionAssignment(replicas(1, 2)) for n in range(MAX_OPERATIONS + 2)}
    view.topics.by_name["t"] = Topic(partitions, ZkVersion(version), Zxid(5), None)
    return view


@pytest.mark.parametrize("version", [None, ZkVersion(2)])
def test_a_new_spec_is_written_only_while_its_topic_is_as_read(version: ZkVersion | None) -> None:
    """A Kafka controller may have ended a reassignment just before the claim."""
    spec = ReassignmentSpec(replicas(2, 3), replicas(1, 2), R1, Route.REQUEST, version)
    operations = only(with_topic(), [SpecRecord(tp(0), spec)], [SpecRecord(tp(1), spec)])
    checks = [op for op in operations if isinstance(op, Check)]
    known = [Check(paths.topic_path("t"), ZkVersion(3))]
    assert checks == ([] if version else known)


@pytest.mark.parametrize(
    "end",
    [
        SpecEndedRecord(tp(0), None, R1, "done"),
        SpecEndedRecord(tp(0), ZkVersion(2), R1, "done", stands=True),
    ],
    ids=["found done", "ended where it stands"],
)
def test_what_ends_without_a_step_holds_only_while_the_topic_says_so(end: SpecEndedRecord) -> None:
    """The end writes nothing else whose version is checked."""
    assert Check(paths.topic_path("t"), ZkVersion(3)) in only(with_topic(), [end, refused(0)])


@pytest.mark.parametrize(
    "written",
    [
        StateCreatedRecord(tp(0), BrokerId(1), replicas(1, 2), EPOCH),
        StateRecord(tp(0), BrokerId(1), LeaderEpoch(2), replicas(1, 2), EPOCH, ZkVersion(1)),
        IsrRecord(tp(0), STATE, replicas(1), 0),
    ],
    ids=["first state", "state", "ISR"],
)
def test_a_state_is_written_only_while_its_topic_is_as_read(written: Record) -> None:
    """Clients of old releases write topic znodes without a controller."""
    first, second = only(with_topic(), [written])
    assert first == Check(paths.topic_path("t"), ZkVersion(3))
    assert second.path == paths.state_path(tp(0))


def test_the_end_of_a_step_does_not_depend_on_what_else_the_topic_says() -> None:
    """A controller that moves many partitions of a topic would have every end refused."""
    end = SpecEndedRecord(tp(0), ZkVersion(2), R1, "done")
    assert not any(isinstance(op, Check) for op in only(with_topic(), [end, refused(0)]))


def test_deletion_is_requested_only_of_a_topic_that_exists() -> None:
    """In the multi itself; its version does not matter, as steps go on."""
    change = Change((DeletionRequestedRecord(1, TopicResult("t", 0)),))
    (batch,) = Batcher(ClusterView(Options())).batches([change])
    assert batch.operations == [
        Check("/brokers/topics/t", ZkVersion(-1)),
        Create("/admin/delete_topics/t", b""),
    ]
    assert batch.owners == [(change,), (change,)]


def test_the_write_of_a_topic_is_check_enough() -> None:
    """The write checks the version itself."""
    step = PartitionAssignment(replicas(1, 2, 3), replicas(3))
    many = [accepted(tp(n)) for n in range(MAX_OPERATIONS + 1)]
    first, second = batches(with_topic(), [AssignmentRecord(tp(0), step)], *many)
    assert [type(op) for op in first.operations if op.path == paths.topic_path("t")] == [SetData]
    assert second.operations[0] == Check(paths.topic_path("t"), ZkVersion(4))
    assert second.owners[0] == tuple(c for c in second.changes)


def test_id_of_a_topic_is_written_with_its_steps() -> None:
    """In one write of the topic znode, and in every later one of the same decision."""
    step = PartitionAssignment(replicas(1, 2, 3), replicas(3))
    many = [accepted(tp(n)) for n in range(MAX_OPERATIONS + 1)]
    first, second = batches(
        with_topic(),
        [TopicIdRecord("t", "i" * 22)],
        [AssignmentRecord(tp(0), step)],
        *many,
        [AssignmentRecord(tp(1), step)],
    )
    written = [
        (op.version, decode_topic(op.data, op.version, Zxid(5)))
        for batch in (first, second)
        for op in batch.operations
        if isinstance(op, SetData) and op.path == paths.topic_path("t")
    ]
    assert [version for version, _ in written] == [3, 4]
    found = [read for _, read in written if isinstance(read, TopicAssignment)]
    assert [read.topic_id for read in found] == ["i" * 22, "i" * 22]
    assert found[-1].partitions[0] == found[-1].partitions[1] == step


# --- the queue -----------------------------------------------------------------------------------


def test_entries_leave_the_queue_in_one_write() -> None:
    """The next multi expects the version that this write leaves."""
    view = a_view(queue={tp(n): replicas(1) for n in range(MAX_OPERATIONS + 2)})
    many = [[*accepted(tp(n)), QueueEntryEndedRecord(tp(n))] for n in range(MAX_OPERATIONS + 1)]
    first, second = batches(view, *many)
    assert first.queue
    assert second.queue
    write, next_write = at(first.operations, paths.QUEUE), at(second.operations, paths.QUEUE)
    assert isinstance(write, SetData)
    assert isinstance(next_write, SetData)
    assert (write.version, next_write.version) == (4, 5)
    left = decode_legacy_plan(next_write.data, ZkVersion(0), Zxid(0))
    assert left.entries == {tp(MAX_OPERATIONS + 1): replicas(1)}


def test_a_plan_of_long_names_is_written_for_many_at_once() -> None:
    """The multi stays within the size that ZooKeeper accepts."""
    left = {TopicPartition("t" * 200, n): replicas(1, 2, 3) for n in range(3700)}
    changes: list[list[Record]] = [
        [QueueEntryEndedRecord(p), refused(p.partition, detail="why" * 50)]
        for p in islice(left, 600)
    ]
    made = batches(a_view(queue=left), *changes)
    assert all(too_large(batch.operations) is None for batch in made)
    assert len(made) < len(changes) / 50


def test_a_queue_that_is_gone_is_not_written() -> None:
    """An operator deleted the queue, so no entry has to be removed."""
    (batch,) = batches(a_view(), [QueueEntryEndedRecord(tp(0))])
    assert (batch.operations, batch.queue) == ([], False)


# --- other records -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "path", "version"),
    [
        (SubmissionEndedRecord("request_0000000001", ZkVersion(0)), f"{paths.REQUESTS}/{R1}", 0),
        (CancellationEndedRecord(ZkVersion(3)), paths.CANCEL, 3),
        (QueueEndedRecord(ZkVersion(4)), paths.QUEUE, 4),
    ],
)
def test_what_operators_wrote_is_deleted_at_its_version(
    record: Record, path: str, version: int
) -> None:
    """A later addition is not lost."""
    assert only(a_view(), [record]) == [Delete(path, ZkVersion(version))]


def test_a_request_is_kept_from_its_part_to_its_summary() -> None:
    """The part, the shards and the summary are znodes of their own."""
    part = Part("request_0000000001", 3, 1000)
    summary = Summary(request=R1, kind="request", total=3, done=3)
    operations = only(a_view(), [PartRecord(R1, part)], [RequestOutcomeRecord(summary)])
    assert created(operations, f"{paths.OUTCOMES}/{R1}/part-request_0000000001")
    assert created(operations, f"{paths.OUTCOMES}/{R1}/summary")


def test_a_forgotten_outcome_goes_with_everything_in_it() -> None:
    """Children are deleted before their parent."""
    record = RequestOutcomeForgottenRecord(R1, ("summary", "accepted-7-0-5"))
    assert [(type(op), op.path) for op in only(a_view(), [record])] == [
        (Delete, f"{paths.OUTCOMES}/{R1}/summary"),
        (Delete, f"{paths.OUTCOMES}/{R1}/accepted-7-0-5"),
        (Delete, f"{paths.OUTCOMES}/{R1}"),
    ]


def test_a_request_kept_in_very_many_znodes_is_forgotten_in_several_multis() -> None:
    """They are deleted in the order of their names: the summary, which marks the end, last."""
    children = (*(f"accepted-{n:05d}-0-9" for n in range(9000)), "summary")
    view = a_view()
    view.options = Options(outcomes_kept=0)
    view.requests.ended = {R1: EndedHistory(children, Zxid(9))}
    deleted: list[str] = []
    while view.requests.ended:
        changes = conclude(view, Instant(0.0)).changes
        for batch in Batcher(view).batches(changes):
            assert too_large(batch.operations) is None
            deleted += [operation.path for operation in batch.operations]
        for change in changes:
            for record in change.records:
                apply(view, record, Instant(0.0))
    parent = paths.history_path(R1)
    assert deleted == [*(f"{parent}/{child}" for child in children), parent]


def test_a_throttle_is_recorded_set_and_announced_in_one_multi() -> None:
    """Brokers read settings only after a change notification."""
    entity = topic_entity("t")
    lease = AppliedThrottle(entity, {"a": "1"}, {"a": None})
    values = (("a", "1"), ("b", "2"))
    assert only(a_view(), [AppliedThrottleRecord(lease, values, ZkVersion(6))]) == [
        Create(
            "/reassigner/throttles/topics:t", b'{"version":1,"ours":{"a":"1"},"before":{"a":null}}'
        ),
        SetData("/config/topics/t", b'{"version":1,"config":{"a":"1","b":"2"}}', ZkVersion(6)),
        CreateSequential(
            "/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}'
        ),
    ]


def test_a_throttle_that_changes_replaces_its_record() -> None:
    """The settings of an entity without any are created."""
    entity = broker_entity(BrokerId(5))
    lease = AppliedThrottle(entity, {"a": "1"}, {"a": None}, ZkVersion(2))
    kept, configured, _ = only(a_view(), [AppliedThrottleRecord(lease, (("a", "1"),), None)])
    assert isinstance(kept, SetData)
    assert (kept.path, kept.version) == ("/reassigner/throttles/brokers:5", 2)
    assert isinstance(configured, Create)
    assert configured.path == "/config/brokers/5"


def test_a_lifted_throttle_restores_the_settings() -> None:
    """If none of our values is left, the record is deleted only while that holds."""
    entity = topic_entity("t")
    lifted = Delete("/reassigner/throttles/topics:t", ZkVersion(1))
    unchanged = AppliedThrottleEndedRecord(entity, ZkVersion(1), None, ZkVersion(7))
    assert only(a_view(), [unchanged]) == [lifted, Check("/config/topics/t", ZkVersion(7))]
    assert only(a_view(), [AppliedThrottleEndedRecord(entity, ZkVersion(1), None, None)]) == [
        lifted,
        Create("/config/topics/t", b""),
        Delete("/config/topics/t", ZkVersion(0)),
    ]
    operations = only(
        a_view(), [AppliedThrottleEndedRecord(entity, ZkVersion(1), (), ZkVersion(7))]
    )
    assert operations[:2] == [
        lifted,
        SetData("/config/topics/t", b'{"version":1,"config":{}}', ZkVersion(7)),
    ]
    assert isinstance(operations[2], CreateSequential)


def test_what_builds_on_a_write_waits_for_it() -> None:
    """Another client's write in between raises the version too: the second would overwrite it."""
    view = with_topic()
    many = MAX_OPERATIONS
    specs = [accepted(tp(0)) for _ in range(many)]
    write = [AssignmentRecord(tp(0), PartitionAssignment(replicas(1, 2)))]
    found = batches(view, write, *specs)
    assert len(found) > 1
    first, second = in_groups(found)
    assert (first, second) == (found[:1], found[1:])


@pytest.mark.parametrize(("partitions", "are_apart"), [(9_000, True), (3_000, False)])
def test_ends_on_a_large_topic_share_multis_though_the_plan_is_large(
    *, partitions: int, are_apart: bool
) -> None:
    """Topic and plan together fit only one of them: the writes of the plan follow."""
    view = with_topic()
    there = PartitionAssignment(replicas(1, 2, 3, 4), replicas(4), replicas(3))
    view.topics.by_name["t"].partitions = dict.fromkeys(range(partitions), there)
    view.requests.legacy = PlanNode(
        {tp(n): replicas(1, 2, 4) for n in range(partitions)}, ZkVersion(0), Zxid(1)
    )
    changes = [
        Change(
            (
                AssignmentRecord(tp(n), PartitionAssignment(replicas(1, 2, 4))),
                LegacyEntryRecord(tp(n), None),
                SpecEndedRecord(tp(n), ZkVersion(0), R1, "done"),
            ),
            partition=tp(n),
        )
        for n in range(1_000)
    ]
    batcher = Batcher(view)
    first, then = batcher.split_large_ends(changes)
    assert [c.partition for c in first] == [c.partition for c in changes]
    assert [c.partition for c in then] == ([c.partition for c in changes] if are_apart else [])
    for several in (first, then):
        found = list(batcher.batches(several))
        assert len(found) <= 5
        assert [too_large(b.operations) for b in found] == [None] * len(found)


@pytest.mark.parametrize(("request_bytes", "multis"), [(1_000_000, 10), (4_000_000, 1)])
def test_steps_of_a_topic_beyond_the_default_limit_share_a_write(
    request_bytes: int, multis: int
) -> None:
    """If ZooKeeper accepts a topic of that size, it is not written for each partition."""
    view = with_topic()
    view.options = Options(request_bytes=request_bytes)
    there = PartitionAssignment(replicas(1, 2, 3))
    view.topics.by_name["t"].partitions = dict.fromkeys(range(40_000), there)
    changes = [
        Change((AssignmentRecord(tp(n), PartitionAssignment(replicas(1, 2, 4))),), partition=tp(n))
        for n in range(10)
    ]
    assert len(list(Batcher(view).batches(changes))) == multis


def test_rewritten_plan_keeps_the_directories_of_its_other_entries() -> None:
    """Entries that are not judged yet exist nowhere else."""
    view = with_topic()
    named = ((BrokerId(4), "/data/1"),)
    entries = {tp(n): replicas(1, 2, 4) for n in range(3)}
    view.requests.legacy = PlanNode(
        entries, ZkVersion(0), Zxid(1), log_dirs={tp(0): named, tp(1): named}
    )
    changes = [
        Change((LegacyEntryRecord(tp(0), None),), partition=tp(0)),
        Change((LegacyEntryRecord(tp(2), replicas(4, 1), named),), partition=tp(2)),
    ]
    (batch,) = Batcher(view).batches(changes)
    (write,) = batch.operations
    assert isinstance(write, SetData)
    read = decode_legacy_plan(write.data, ZkVersion(0), Zxid(0))
    assert read.entries == {tp(1): replicas(1, 2, 4), tp(2): replicas(4, 1)}
    assert read.log_dirs == {tp(1): named, tp(2): named}


def test_no_record_that_is_passed_over_has_to_be_written() -> None:
    """One that becomes durable later would be applied and never written."""
    assert all(issubclass(kind, Volatile) for kind in UNWRITTEN)
