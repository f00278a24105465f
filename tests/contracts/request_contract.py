"""
The contract of every ``Store`` for requests: writes without the claim, and reads.

Submissions and controls are reported at every change; outcomes are read on demand, as only the
leading daemon writes it. Subclasses say which store (``rigs``).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Limits, Pauses, Quiesce
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead, EntityConfigsRead
from controller.core.pacing.throttle_settings import (
    AppliedThrottle,
    EntityConfig,
    broker_entity,
    topic_entity,
)
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.requests.outcomes import UNKNOWN_MS, EndedHistory, OpenHistory, Part, Summary
from controller.core.requests.records import (
    AcceptedRead,
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    LegacyPlanRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import AcceptedEntry, CancelScope, RequestOptions
from controller.errors import ControllerMovedError
from controller.reactor.ports import (
    Check,
    Committed,
    Create,
    CreateSequential,
    Delete,
    Operation,
    Rejected,
    SetData,
    WriteError,
    ZnodeFamily,
)
from controller.znodes import paths
from controller.znodes.entity_configs import (
    encode_announcement,
    encode_applied_throttle,
    encode_entity_config,
)
from controller.znodes.histories import encode_accepted, encode_ended, encode_outcome, encode_part
from controller.znodes.operator_controls import encode_limits, encode_pauses, encode_throttle
from controller.znodes.plans import encode_legacy_plan, encode_submission
from controller.znodes.reassignments import encode_orphan, encode_spec
from tests.contracts.rigs import P0, P1, Rigs, StoreRig, data_of

R1, R2, R3 = (RequestId(f"request_000000000{n}") for n in (1, 2, 3))
ONE, TWO = (BrokerId(1),), (BrokerId(2),)
PAPERWORK: tuple[Operation, ...] = (
    Create(paths.outcome_path(R1), b""),
    Create(paths.applied_throttle_path(topic_entity("t")), b""),
    Create(paths.reassignment_path(P0), b""),
    Create("/reassigner/orphans/1/t-0", b""),
    Create("/config/topics/t", b""),
    CreateSequential(paths.NEW_ANNOUNCEMENT, b""),
)


class RequestContract(Rigs):
    """The contract; subclasses provide the store."""

    # --- paperwork -----------------------------------------------------------------------------

    @pytest.mark.parametrize("operation", PAPERWORK, ids=lambda op: op.path)
    def test_paperwork_needs_no_claim(self, rig: StoreRig, operation: Operation) -> None:
        """The leading daemon may refuse a request and forget an outcome without the role."""
        rig.put("/config/topics")
        rig.put(paths.CONFIG_CHANGES)
        assert rig.store.commit([[operation]]) == [Committed()]

    def test_paperwork_may_depend_on_what_only_a_controller_writes(self, rig: StoreRig) -> None:
        """A check writes nothing: it binds a record to the present version of a topic."""
        multis: list[list[Operation]] = [
            [
                Check(paths.topic_path("t"), ZkVersion(version)),
                Create(paths.reassignment_path(p), b""),
            ]
            for version, p in ((0, P0), (7, P1))
        ]
        kept, refused = rig.store.commit(multis)
        assert kept == Committed()
        assert refused == Rejected(0, WriteError.BAD_VERSION)

    def test_what_operators_wrote_is_deleted_without_the_claim(self, rig: StoreRig) -> None:
        """The leading daemon deletes requests, cancellations and queues without the role."""
        written = [paths.submission_path(R1), paths.CANCEL, paths.QUEUE]
        for path in written:
            rig.put(path)
        deletions = [[Delete(path, ZkVersion(0))] for path in written]
        assert rig.store.commit(deletions) == [Committed()] * 3
        assert [rig.get(path) for path in written] == [None] * 3

    @pytest.mark.parametrize(
        "operation",
        [
            SetData(paths.topic_path("t"), b"", ZkVersion(0)),
            Create(paths.state_path(P0), b""),
            Delete(paths.LEGACY_PLAN, None),
            SetData(paths.CONTROLLER_EPOCH, b"9", ZkVersion(0)),
            Create(f"{paths.EPOCH}/x", b""),
            Create("/a", b""),
        ],
        ids=lambda op: op.path,
    )
    def test_anything_else_needs_the_claim(self, rig: StoreRig, operation: Operation) -> None:
        """Without the claim the multi is refused as a whole, whatever its order."""
        rig.put(paths.LEGACY_PLAN)
        paperwork = Create(paths.outcome_path(R1), b"")
        together: list[list[Operation]] = [[paperwork, operation]]
        apart: list[list[Operation]] = [[paperwork], [operation]]
        for multis in (together, apart):
            with pytest.raises(ControllerMovedError):
                rig.store.commit(multis)
        assert rig.get(paths.outcome_path(R1)) is None
        assert rig.get(paths.LEGACY_PLAN) is not None
        assert data_of(rig, paths.topic_path("t"))

    def test_paperwork_is_fenced_by_the_claim_while_there_is_one(self, claimed: StoreRig) -> None:
        """A tenure that is over must not write what it decided."""
        claimed.put(paths.CONTROLLER_EPOCH, b"9")
        with pytest.raises(ControllerMovedError):
            claimed.store.commit([[Create(paths.outcome_path(R1), b"")]])
        assert claimed.get(paths.outcome_path(R1)) is None

    def test_sequential_znodes_get_names_of_their_own(self, claimed: StoreRig) -> None:
        """Two announcements in one multi are two znodes."""
        claimed.put(paths.CONFIG_CHANGES)
        multi = [CreateSequential(paths.NEW_ANNOUNCEMENT, data) for data in (b"0", b"1")]
        assert claimed.store.commit([multi]) == [Committed()]
        names = [f"{paths.NEW_ANNOUNCEMENT}{n:010d}" for n in range(2)]
        assert [data_of(claimed, name) for name in names] == [b"0", b"1"]

    def test_settings_are_written_with_their_announcement_or_not_at_all(
        self, claimed: StoreRig
    ) -> None:
        """An operator who was faster is not overruled, and brokers hear of nothing."""
        entity = topic_entity("t")
        claimed.put(paths.entity_config_path(entity), encode_entity_config([("a", "1")]))
        claimed.put(paths.CONFIG_CHANGES)
        lease = AppliedThrottle(entity, {"a": "2"}, {"a": "1"})
        multi: list[Operation] = [
            Create(paths.applied_throttle_path(entity), encode_applied_throttle(lease)),
            SetData(paths.entity_config_path(entity), b"ours", ZkVersion(0)),
            CreateSequential(paths.NEW_ANNOUNCEMENT, encode_announcement(entity)),
        ]
        claimed.put(paths.entity_config_path(entity), b"theirs")
        assert claimed.store.commit([multi]) == [Rejected(1, WriteError.BAD_VERSION)]
        assert data_of(claimed, paths.entity_config_path(entity)) == b"theirs"
        assert claimed.get(paths.applied_throttle_path(entity)) is None
        assert claimed.get(f"{paths.NEW_ANNOUNCEMENT}{0:010d}") is None

    def test_settings_of_a_topic_that_kafka_does_not_know_are_not_made(self, rig: StoreRig) -> None:
        """Only Kafka creates its own directories."""
        write = [Create("/config/topics/t", b"")]
        assert rig.store.commit([write]) == [Rejected(0, WriteError.NO_NODE)]

    def test_an_outcome_is_forgotten_with_everything_in_it(self, rig: StoreRig) -> None:
        """If it contains more than was known, nothing is deleted."""
        parent, child = paths.history_path(R1), paths.outcome_path(R1)
        rig.put(child)
        rig.put(f"{parent}/accepted-1-0-1")
        short = [Delete(child, None), Delete(parent, None)]
        assert rig.store.commit([short]) == [Rejected(1, WriteError.NOT_EMPTY)]
        whole = [Delete(f"{parent}/accepted-1-0-1", None), *short]
        assert rig.store.commit([whole]) == [Committed()]
        assert rig.get(parent) is None

    def test_deleting_an_absent_znode_is_reported(self, rig: StoreRig) -> None:
        """A second deletion does no harm."""
        gone = [Delete(paths.submission_path(R1), ZkVersion(0))]
        again = [Create(paths.outcome_path(R1), b"")]
        assert rig.store.commit([gone, again]) == [Rejected(0, WriteError.NO_NODE), Committed()]

    # --- what operators ask for ----------------------------------------------------------------

    def test_requests_are_listed_at_every_change(self, rig: StoreRig) -> None:
        """The event has the names of requests only."""
        rig.store.read(ZnodeFamily.SUBMISSIONS)
        assert rig.wait_for(SubmissionsListed).names == frozenset()
        rig.put(f"{paths.REQUESTS}/other")
        rig.put(paths.submission_path(R1))
        rig.wait_for(SubmissionsListed, lambda e: e.names == frozenset({R1}))
        rig.put(paths.submission_path(R2))
        rig.wait_for(SubmissionsListed, lambda e: e.names == frozenset({R1, R2}))
        rig.remove(paths.submission_path(R1))
        rig.wait_for(SubmissionsListed, lambda e: e.names == frozenset({R2}))

    def test_requests_are_read_as_submitted(self, rig: StoreRig) -> None:
        """One that is gone is None, one that cannot be decoded has its reason."""
        options = RequestOptions(reason="drain", priority=5)
        rig.put(paths.submission_path(R1), encode_submission({P0: ONE}, options))
        rig.put(paths.submission_path(R2), b"garbage")
        rig.store.read_submissions([R1, R2, R3])
        read = rig.wait_for(SubmissionsRead).submissions
        good, bad = read[R1], read[R2]
        assert good is not None
        assert (good.entries, good.options, good.version) == ({P0: ONE}, options, 0)
        assert bad is not None
        assert bad.unreadable is not None
        assert good.czxid < bad.czxid
        assert good.created_ms <= bad.created_ms
        assert read[R3] is None

    def test_a_cancellation_is_reported_at_every_change(self, rig: StoreRig) -> None:
        """Every content is reported: absent, everything, a selection, malformed."""
        rig.store.read(ZnodeFamily.CANCELLATION)
        assert rig.wait_for(CancellationRead) == CancellationRead(None)
        rig.put(paths.CANCEL)
        first = rig.wait_for(CancellationRead, lambda e: e.cancellation is not None).cancellation
        assert first is not None
        assert (first.is_everything, first.version) == (True, 0)
        rig.put(paths.CANCEL, b'{"topics":["t"],"scope":"all"}')
        second = rig.wait_for(CancellationRead).cancellation
        assert second is not None
        assert (second.topics, second.scope) == (frozenset({"t"}), CancelScope.ALL)
        assert (second.version, second.request) == (1, first.request)
        rig.put(paths.CANCEL, b"garbage")
        third = rig.wait_for(CancellationRead).cancellation
        assert third is not None
        assert third.unreadable is not None
        rig.remove(paths.CANCEL)
        assert rig.wait_for(CancellationRead) == CancellationRead(None)

    def test_a_cancellation_comes_after_what_it_may_mean(self, rig: StoreRig) -> None:
        """The requests and plans of that time are reported before the cancellation."""
        rig.put(f"{paths.REQUESTS}/other")
        rig.put(paths.submission_path(R1))
        rig.put(paths.QUEUE, encode_legacy_plan({P0: ONE}))
        rig.store.read(ZnodeFamily.CANCELLATION)
        assert rig.wait_for(CancellationRead) == CancellationRead(None)
        for names in ({R1}, {R1, R2}):
            for name in names:
                rig.put(paths.submission_path(name))
            rig.put(paths.CANCEL)
            assert rig.wait_for(SubmissionsListed).names == names
            assert rig.wait_for(LegacyPlanRead) == LegacyPlanRead(None)
            queue = rig.wait_for(QueueRead).plan
            assert queue is not None
            assert queue.entries == {P0: ONE}
            assert rig.wait_for(CancellationRead).cancellation is not None

    def test_the_kill_switch_is_reported_with_any_content(self, rig: StoreRig) -> None:
        """Only its existence counts."""
        rig.store.read(ZnodeFamily.KILL_SWITCH)
        assert not rig.wait_for(KillSwitchRead).is_on
        rig.put(paths.KILL_SWITCH, b"garbage")
        rig.wait_for(KillSwitchRead, lambda e: e.is_on)
        rig.remove(paths.KILL_SWITCH)
        rig.wait_for(KillSwitchRead, lambda e: not e.is_on)

    def test_the_queue_is_reported_at_every_change(self, rig: StoreRig) -> None:
        """The queue is a plan like the legacy one, and reported apart from it."""
        rig.store.read(ZnodeFamily.QUEUE)
        assert rig.wait_for(QueueRead) == QueueRead(None)
        rig.put(paths.QUEUE, encode_legacy_plan({P0: ONE}))
        read = rig.wait_for(QueueRead, lambda e: e.plan is not None).plan
        assert read is not None
        assert (read.entries, read.version) == ({P0: ONE}, 0)
        rig.put(paths.QUEUE, encode_legacy_plan({P0: ONE, P1: TWO}))
        rig.wait_for(QueueRead, lambda e: e.plan is not None and len(e.plan.entries) == 2)
        rig.remove(paths.QUEUE)
        rig.wait_for(QueueRead, lambda e: e.plan is None)

    def test_controls_are_reported_at_every_change_of_any_of_them(self, rig: StoreRig) -> None:
        """Malformed controls are named beside the others."""
        rig.store.read(ZnodeFamily.CONTROLS)
        assert rig.wait_for(ControlsRead) == ControlsRead(Controls())
        pauses, limits = Pauses(quiesce=Quiesce("storm")), Limits(max_partitions_in_flight=3)
        rig.put(paths.PAUSES, encode_pauses(pauses))
        rig.wait_for(ControlsRead, lambda e: e.controls.pauses == pauses)
        rig.put(paths.LIMITS, encode_limits(limits))
        rig.wait_for(ControlsRead, lambda e: e.controls.limits == limits)
        rig.put(paths.THROTTLE, encode_throttle(5))
        rig.wait_for(ControlsRead, lambda e: e.controls == Controls(pauses, limits, 5))
        rig.put(paths.LIMITS, b"garbage")
        read = rig.wait_for(ControlsRead, lambda e: bool(e.controls.unreadable)).controls
        assert read.unreadable.keys() == {paths.LIMITS}
        assert (read.pauses, read.throttle) == (pauses, 5)
        rig.remove(paths.PAUSES)
        rig.wait_for(ControlsRead, lambda e: e.controls.pauses == Pauses())

    def test_a_request_that_zookeeper_does_not_show_holds_up_no_other(self, rig: StoreRig) -> None:
        """It is reported as malformed, and can be deleted as such."""
        hidden, shown = (paths.submission_path(name) for name in (R1, R2))
        for path in (hidden, shown):
            rig.put(path, encode_submission({P0: ONE}, RequestOptions()))
        rig.hide(hidden)
        rig.store.read_submissions([R1, R2, R3])
        read = rig.wait_for(SubmissionsRead).submissions
        first, second = read[R1], read[R2]
        assert first is not None
        assert first.unreadable is not None
        assert not first.entries
        assert second is not None
        assert (second.entries, second.unreadable) == ({P0: ONE}, None)
        assert read[R3] is None
        assert rig.store.commit([[Delete(hidden, first.version)]]) == [Committed()]

    def test_other_hidden_znodes_are_reported_as_malformed(self, rig: StoreRig) -> None:
        """Hidden cancellations, queues, plans and controls are reported as malformed."""
        for path in (paths.CANCEL, paths.QUEUE, paths.LEGACY_PLAN, paths.PAUSES):
            rig.put(path, b"{}")
            rig.hide(path)
        rig.put(paths.THROTTLE, encode_throttle(5))
        for znode in (ZnodeFamily.CANCELLATION, ZnodeFamily.CONTROLS):
            rig.store.read(znode)
        plan, queue = rig.wait_for(LegacyPlanRead).plan, rig.wait_for(QueueRead).plan
        cancellation = rig.wait_for(CancellationRead).cancellation
        for read in (plan, queue, cancellation):
            assert read is not None
            assert read.unreadable is not None
        controls = rig.wait_for(ControlsRead).controls
        assert controls.unreadable.keys() == {paths.PAUSES}
        assert controls.throttle == 5

    def test_hidden_records_are_reported_as_unreadable(self, rig: StoreRig) -> None:
        """A hidden record is never taken for an absent one."""
        spec = ReassignmentSpec(ONE, TWO, R1, Route.REQUEST)
        entity = broker_entity(BrokerId(5))
        lease = AppliedThrottle(entity, {"a": "1"}, {"a": None})
        part = Part(R1, 9, 1000)
        orphan = Orphan(BrokerId(3), P1, Zxid(7), "dead")
        for partition in (P0, P1):
            rig.put(paths.reassignment_path(partition), encode_spec(spec))
            rig.put(paths.orphan_path(orphan.broker, partition), encode_orphan(orphan))
        for throttled in (entity, topic_entity("t")):
            rig.put(paths.applied_throttle_path(throttled), encode_applied_throttle(lease))
        for name in (R1, R2):
            rig.put(paths.part_path(R1, name), encode_part(part))
        for hidden in (
            paths.reassignment_path(P0),
            paths.orphan_path(orphan.broker, P0),
            paths.applied_throttle_path(topic_entity("t")),
            paths.part_path(R1, R2),
        ):
            rig.hide(hidden)
        for znode in (
            ZnodeFamily.SPECS,
            ZnodeFamily.ORPHANS,
            ZnodeFamily.APPLIED_THROTTLES,
            ZnodeFamily.HISTORY,
        ):
            rig.store.read(znode)
        specs = rig.wait_for(SpecsRead)
        assert specs.specs.keys() == {P1}
        assert specs.unreadable.keys() == {paths.reassignment_path(P0)}
        assert rig.wait_for(OrphansRead).orphans == frozenset({orphan})
        assert rig.wait_for(AppliedThrottlesRead).applied_throttles.keys() == {entity}
        parts = rig.wait_for(HistoryRead).open[R1].parts
        assert parts == {R1: part, R2: Part(R2, 0, UNKNOWN_MS)}

    # --- what is kept of it --------------------------------------------------------------------

    def test_no_history_is_an_answer_too(self, rig: StoreRig) -> None:
        """The loop must not wait for it for ever."""
        rig.store.read(ZnodeFamily.HISTORY)
        assert rig.wait_for(HistoryRead) == HistoryRead({}, {})
        rig.store.read(ZnodeFamily.APPLIED_THROTTLES)
        assert rig.wait_for(AppliedThrottlesRead) == AppliedThrottlesRead({})
        rig.store.read_accepted(R1)
        assert rig.wait_for(AcceptedRead) == AcceptedRead(R1, ())

    def test_open_requests_are_read_with_what_did_not_simply_end(self, rig: StoreRig) -> None:
        """Accepted entries are counted by the names; of a garbled part there is the name."""
        part = Part(R1, 9, 1000, RequestOptions(priority=2))
        unknown = Part(R2, 0, UNKNOWN_MS)
        refusal = Refusal(R1, "e", RefusalReason.MALFORMED, "d", P1)
        ending = PartitionOutcome(R1, P0, OutcomeKind.CANCELLED, "as requested")
        parent = paths.history_path(R1)
        rig.put(f"{parent}/part-{R1}", encode_part(part))
        rig.put(f"{parent}/part-{R2}", b"garbage")
        rig.put(f"{parent}/accepted-6-0-4", b"unread")
        rig.put(f"{parent}/accepted-6-2-3", b"unread")
        rig.put(f"{parent}/ended-6-1-2", encode_ended([refusal], [ending]))
        rig.put(f"{parent}/ended-6-3-2", b"garbage")
        rig.put(f"{parent}/other", b"garbage")
        rig.put(paths.history_path(R2))
        rig.store.read(ZnodeFamily.HISTORY)
        assert rig.wait_for(HistoryRead) == HistoryRead(
            {R1: OpenHistory({R1: part, R2: unknown}, 7, (refusal,), (ending,))}, {}
        )

    def test_accepted_entries_are_read_with_what_did_not_reach_its_target(
        self, rig: StoreRig
    ) -> None:
        """Those are refused or have another outcome; an unreadable shard hides them all."""
        parent = paths.history_path(R1)
        rows = tuple(AcceptedEntry(p, ONE, TWO) for p in (P0, P1))
        rig.put(f"{parent}/accepted-6-0-2", encode_accepted(rows))
        ending = PartitionOutcome(R1, P0, OutcomeKind.CANCELLED, "as requested")
        rig.put(f"{parent}/ended-6-1-1", encode_ended([], [ending]))
        rig.store.read_accepted(R1)
        read = rig.wait_for(AcceptedRead)
        written_at = read.entries[0].recorded_in
        assert written_at is not None
        dated = tuple(replace(row, recorded_in=written_at) for row in rows)
        assert read == AcceptedRead(R1, dated, elsewhere=frozenset({P0}))
        rig.put(f"{parent}/ended-6-3-2", b"garbage")
        rig.store.read_accepted(R1)
        read = rig.wait_for(AcceptedRead, lambda e: len(e.elsewhere) > 1)
        assert read.elsewhere == frozenset({P0, P1})

    def test_ended_requests_are_read_from_the_oldest_on(self, rig: StoreRig) -> None:
        """The event has every znode to delete; an older format has the summary only."""
        summary = Summary(request=R2, kind="request", total=1, done=1)
        rig.put(paths.outcome_path(R2), encode_outcome(summary))
        rig.put(paths.outcome_path(R1), b"garbage")
        rig.put(f"{paths.history_path(R1)}/accepted-6-0-4")
        rig.store.read(ZnodeFamily.HISTORY)
        read = rig.wait_for(HistoryRead)
        assert not read.open
        assert list(read.ended) == [R2, R1]
        assert read.ended[R2] == EndedHistory(("summary",), read.ended[R2].czxid)
        assert read.ended[R1].children == ("accepted-6-0-4", "summary")
        assert read.ended[R2].czxid < read.ended[R1].czxid

    def test_an_ended_cancellation_is_read_with_what_it_undid(self, rig: StoreRig) -> None:
        """Else a new leader would show what was undone as done; others are not read."""
        name = RequestId("cancel-0000000000000012")
        for request in (name, R1):
            rig.put(
                f"{paths.history_path(request)}/part-0",
                encode_part(Part("0", 0, 5, undoes={R1: 4})),
            )
            summary = Summary(request=request, kind="cancel", total=4, done=4)
            rig.put(paths.outcome_path(request), encode_outcome(summary))
        rig.store.read(ZnodeFamily.HISTORY)
        read = rig.wait_for(HistoryRead)
        assert read.ended[name].undoes == {R1: 4}
        assert not read.ended[R1].undoes

    def test_our_own_records_are_not_watched(self, rig: StoreRig) -> None:
        """Only the daemon writes them: a watch would report its own writes."""
        rig.store.read(ZnodeFamily.HISTORY)
        rig.store.read(ZnodeFamily.APPLIED_THROTTLES)
        rig.wait_for(AppliedThrottlesRead)
        rig.put(f"{paths.history_path(R1)}/accepted-6-0-4")
        rig.put(paths.applied_throttle_path(topic_entity("t")))
        assert rig.is_quiet(HistoryRead)
        assert rig.is_quiet(AppliedThrottlesRead)

    def test_accepted_entries_are_read_in_the_order_of_their_acceptance(
        self, rig: StoreRig
    ) -> None:
        """Shards are sorted by epoch and number, not as text; malformed ones are left out."""
        places = [("9-10-1", 3), ("9-2-1", 2), ("10-0-1", 4), ("8-3-1", 1)]
        for name, partition in places:
            entry = AcceptedEntry(TopicPartition("t", partition), None, ONE)
            rig.put(f"{paths.history_path(R1)}/accepted-{name}", encode_accepted([entry]))
        rig.put(f"{paths.history_path(R1)}/accepted-1-0-1", b"garbage")
        rig.put(f"{paths.history_path(R1)}/ended-1-0-1", b"garbage")
        rig.store.read_accepted(R1)
        read = rig.wait_for(AcceptedRead)
        assert read.request == R1
        assert [entry.partition.partition for entry in read.entries] == [1, 2, 3, 4]

    def test_throttles_are_read_with_their_versions(self, rig: StoreRig) -> None:
        """Other children of the directory are left out."""
        entity = broker_entity(BrokerId(5))
        lease = AppliedThrottle(entity, {"a": "1"}, {"a": None})
        rig.put(paths.applied_throttle_path(entity), encode_applied_throttle(lease))
        rig.put(paths.applied_throttle_path(entity), encode_applied_throttle(lease))
        rig.put(f"{paths.APPLIED_THROTTLES}/other", encode_applied_throttle(lease))
        rig.put(paths.applied_throttle_path(topic_entity("t")), b"garbage")
        rig.store.read(ZnodeFamily.APPLIED_THROTTLES)
        kept = AppliedThrottle(entity, lease.ours, lease.before, ZkVersion(1))
        assert rig.wait_for(AppliedThrottlesRead) == AppliedThrottlesRead({entity: kept})

    def test_dynamic_settings_are_read_on_request(self, rig: StoreRig) -> None:
        """An entity without settings has no version, a malformed one a reason."""
        one, two, three = topic_entity("t"), topic_entity("u"), broker_entity(BrokerId(5))
        rig.put(paths.entity_config_path(one), encode_entity_config([("a", "1")]))
        rig.put(paths.entity_config_path(two), b"garbage")
        rig.store.read_entity_configs([one, two, three])
        read = rig.wait_for(EntityConfigsRead).configs
        assert read[one] == EntityConfig({"a": "1"}, ZkVersion(0))
        assert isinstance(read[two], str)
        assert read[three] == EntityConfig({}, None)

    # --- interruptions -------------------------------------------------------------------------

    def test_requests_are_reported_in_the_next_session_too(self, rig: StoreRig) -> None:
        """The operators' znodes stay watched in the next session."""
        watched = (
            ZnodeFamily.SUBMISSIONS,
            ZnodeFamily.CANCELLATION,
            ZnodeFamily.KILL_SWITCH,
            ZnodeFamily.QUEUE,
        )
        for znode in (*watched, ZnodeFamily.CONTROLS):
            rig.store.read(znode)
        rig.wait_for(ControlsRead)
        rig.expire()
        rig.wait_for(ControlsRead)
        rig.put(paths.submission_path(R1))
        rig.wait_for(SubmissionsListed, lambda e: R1 in e.names)
        rig.put(paths.CANCEL)
        rig.wait_for(CancellationRead, lambda e: e.cancellation is not None)
        rig.put(paths.KILL_SWITCH)
        rig.wait_for(KillSwitchRead, lambda e: e.is_on)
        rig.put(paths.QUEUE)
        rig.wait_for(QueueRead, lambda e: e.plan is not None)
        rig.put(paths.THROTTLE, encode_throttle(5))
        rig.wait_for(ControlsRead, lambda e: e.controls.throttle == 5)
