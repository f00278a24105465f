"""
The contract of every ``Store``, on a real ZooKeeper and on the simulated one.

Fences, multis, the controller role, and what is read of a cluster; ``request_contract`` has what is
read of requests. Subclasses say which store (``rigs``).
"""

from __future__ import annotations

import json

import pytest

from controller.core.calls.broker_requests import ProducerIdBlock
from controller.core.calls.records import ProducerIdsRead
from controller.core.deletions.records import DeletionsRead, TopicTreesRead
from controller.core.disks.records import LogDirEventsRead
from controller.core.leadership.records import (
    IsrNotificationsRead,
    PreferredElectionRead,
    StateChanged,
    StatesRead,
)
from controller.core.model import (
    BrokerId,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.records import Event
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import (
    BrokersRead,
    ClaimFailed,
    ClaimGuardsRead,
    ControllerClaimed,
    Deposed,
)
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.errors import ControllerMovedError
from controller.reactor.ports import (
    Check,
    Committed,
    Create,
    Delete,
    Operation,
    Rejected,
    SetData,
    WriteError,
    ZnodeFamily,
)
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    ControllerNode,
    decode_controller,
)
from controller.znodes.producer_ids import encode_producer_ids
from controller.znodes.reassignments import encode_orphan, encode_spec
from controller.znodes.topics import encode_state
from tests.contracts.rigs import CONTROLLER_ID, P0, P1, Rigs, StoreRig, data_of

BROKER = {
    "version": 4,
    "endpoints": ["PLAINTEXT://h:9092"],
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
}


class StoreContract(Rigs):
    """The contract; subclasses provide the store."""

    # --- the controller role -------------------------------------------------------------------

    def test_a_claim_raises_the_epoch_and_names_us(self, rig: StoreRig) -> None:
        """A vacant role is claimed by one multi."""
        rig.store.claim_controller()
        assert rig.wait_for(ControllerClaimed).epoch == 6
        assert data_of(rig, paths.CONTROLLER_EPOCH) == b"6"
        assert decode_controller(data_of(rig, paths.CONTROLLER)) == ControllerNode(CONTROLLER_ID)

    def test_a_claim_seizes_the_role_from_a_broker(self, rig: StoreRig) -> None:
        """The broker's znode is replaced by ours."""
        rig.seize(BrokerId(1))
        rig.store.claim_controller()
        assert rig.wait_for(ControllerClaimed).epoch == 7
        assert decode_controller(data_of(rig, paths.CONTROLLER)) == ControllerNode(CONTROLLER_ID)

    def test_who_loses_the_role_may_end_what_it_is_at(self, rig: StoreRig) -> None:
        """Our znode exists, so no broker is elected; the broker's writes pass until the claim."""
        version = _seized(rig)
        rig.store.read(ZnodeFamily.GUARDS)
        rig.store.claim_controller()
        rig.wait_for(ClaimGuardsRead, lambda e: e.controller_broker == CONTROLLER_ID)
        assert rig.write_as_controller("/in-the-grace", version)
        assert data_of(rig, paths.CONTROLLER_EPOCH) == b"6"
        with pytest.raises(ControllerMovedError):
            rig.store.commit([[Create("/a", b"")]])
        assert rig.wait_for(ControllerClaimed).epoch == 7
        assert not rig.write_as_controller("/after-it", version)

    def test_in_a_race_the_role_is_taken_at_once(self, rig: StoreRig) -> None:
        """The claim leaves no instant in which our znode exists and the broker can write."""
        version = _seized(rig)
        rig.store.read(ZnodeFamily.GUARDS)
        rig.store.claim_controller(at_once=True)
        rig.wait_for(ClaimGuardsRead, lambda e: e.controller_broker == CONTROLLER_ID)
        assert data_of(rig, paths.CONTROLLER_EPOCH) == b"7"
        assert not rig.write_as_controller("/a", version)

    def test_a_broker_that_takes_the_role_back_in_the_grace_gets_one_of_its_own(
        self, rig: StoreRig
    ) -> None:
        """That broker is the controller then, and gets its own time to end an event."""
        rig.seize(BrokerId(1))
        rig.store.read(ZnodeFamily.GUARDS)
        rig.store.claim_controller()
        rig.wait_for(ClaimGuardsRead, lambda e: e.controller_broker == CONTROLLER_ID)
        rig.seize(BrokerId(2))
        assert rig.wait_for(ControllerClaimed).epoch == 8
        assert decode_controller(data_of(rig, paths.CONTROLLER)) == ControllerNode(CONTROLLER_ID)

    @pytest.mark.parametrize(
        "holder",
        [b'{"version":2,"brokerid":3000,"kraftControllerEpoch":4}', b"garbage"],
        ids=["kraft", "garbage"],
    )
    def test_a_persistent_controller_is_not_deposed(self, rig: StoreRig, holder: bytes) -> None:
        """A persistent znode belongs to a KRaft controller, or to an unknown client."""
        rig.put(paths.CONTROLLER, holder)
        rig.store.claim_controller()
        assert rig.wait_for(ClaimFailed).reason
        assert data_of(rig, paths.CONTROLLER) == holder
        assert data_of(rig, paths.CONTROLLER_EPOCH) == b"5"

    @pytest.mark.parametrize("epoch", [b"", b"x", b"-1"])
    def test_without_a_readable_epoch_there_is_no_claim(self, rig: StoreRig, epoch: bytes) -> None:
        """A malformed epoch is not overwritten."""
        rig.put(paths.CONTROLLER_EPOCH, epoch)
        rig.store.claim_controller()
        assert rig.wait_for(ClaimFailed).reason
        assert rig.get(paths.CONTROLLER) is None

    def test_resigning_leaves_the_role_vacant(self, claimed: StoreRig) -> None:
        """Brokers notice at once and elect; the daemon cannot write any more."""
        claimed.store.resign_controller()
        with pytest.raises(ControllerMovedError):
            claimed.store.commit([[Create("/a", b"")]])
        claimed.wait_for(Deposed)
        assert claimed.get(paths.CONTROLLER) is None
        assert data_of(claimed, paths.CONTROLLER_EPOCH) == b"6"

    def test_resigning_without_the_role_is_answered(self, rig: StoreRig) -> None:
        """The loop, which waits for the end of the tenure, gets the event."""
        rig.store.resign_controller()
        rig.wait_for(Deposed)

    def test_the_role_can_be_claimed_again(self, claimed: StoreRig) -> None:
        """The next epoch fences every write of the first tenure."""
        claimed.store.resign_controller()
        claimed.wait_for(Deposed)
        claimed.store.claim_controller()
        assert claimed.wait_for(ControllerClaimed).epoch == 7
        assert claimed.store.commit([[Create("/a", b"")]]) == [Committed()]

    def test_a_seized_role_is_noticed(self, claimed: StoreRig) -> None:
        """The store reports the loss without a write."""
        claimed.seize(BrokerId(1))
        claimed.wait_for(Deposed)
        with pytest.raises(ControllerMovedError):
            claimed.store.commit([[Create("/a", b"")]])
        assert claimed.get("/a") is None

    def test_resigning_spares_who_holds_the_role_now(self, claimed: StoreRig) -> None:
        """The broker's znode is not ours to delete."""
        claimed.seize(BrokerId(1))
        claimed.store.resign_controller()
        claimed.wait_for(Deposed)
        assert decode_controller(data_of(claimed, paths.CONTROLLER)) == ControllerNode(BrokerId(1))

    def test_an_expired_session_ends_the_claim(self, claimed: StoreRig) -> None:
        """A new session can claim again."""
        claimed.expire()
        claimed.wait_for(Deposed)
        with pytest.raises(ControllerMovedError):
            claimed.store.commit([[Create("/a", b"")]])
        claimed.store.claim_controller()
        assert claimed.wait_for(ControllerClaimed).epoch == 7

    # --- writing -------------------------------------------------------------------------------

    def test_nothing_is_written_without_a_claim(self, rig: StoreRig) -> None:
        """An unfenced write cannot be spelled."""
        with pytest.raises(ControllerMovedError):
            rig.store.commit([[Create("/a", b"")]])
        assert rig.get("/a") is None

    def test_a_fence_that_does_not_hold_stops_every_multi(self, claimed: StoreRig) -> None:
        """The fence holds before the loss is noticed, and in the middle of a commit."""
        claimed.put(paths.CONTROLLER_EPOCH, b"9")
        with pytest.raises(ControllerMovedError):
            claimed.store.commit([[Create("/a", b"")], [Create("/b", b"")]])
        assert claimed.get("/a") is None
        assert claimed.get("/b") is None

    def test_multis_are_written_in_order(self, claimed: StoreRig) -> None:
        """A multi may expect the versions that the previous one leaves."""
        results = claimed.store.commit(
            [
                [Create("/a", b"0"), Create("/b", b"0")],
                [SetData("/a", b"1", ZkVersion(0)), Check("/b", ZkVersion(0))],
                [SetData("/a", b"2", ZkVersion(1)), Delete("/b", ZkVersion(0))],
                [],
            ]
        )
        assert results == [Committed()] * 4
        assert claimed.get("/a") == (b"2", 2)
        assert claimed.get("/b") is None

    def test_a_write_at_any_version_replaces_whatever_is_there(self, claimed: StoreRig) -> None:
        """So are the settings replaced that a former topic left."""
        claimed.put("/a", b"0")
        claimed.put("/a", b"1")
        assert claimed.store.commit([[SetData("/a", b"2", ZkVersion(-1))]]) == [Committed()]
        assert claimed.get("/a") == (b"2", 2)

    def test_a_znode_is_created_and_deleted_in_one_multi_only_if_it_is_missing(
        self, claimed: StoreRig
    ) -> None:
        """So the end of a throttle shows that the topic still has no settings."""
        claimed.put("/there", b"kept")
        results = claimed.store.commit(
            [
                [Create("/none", b""), Delete("/none", ZkVersion(0))],
                [Create("/there", b""), Delete("/there", ZkVersion(0))],
            ]
        )
        assert results == [Committed(), Rejected(0, WriteError.NODE_EXISTS)]
        assert claimed.get("/none") is None
        assert claimed.get("/there") == (b"kept", 0)

    @pytest.mark.parametrize(
        ("operation", "error"),
        [
            (SetData("/a", b"", ZkVersion(5)), WriteError.BAD_VERSION),
            (Check("/a", ZkVersion(5)), WriteError.BAD_VERSION),
            (Delete("/a", ZkVersion(5)), WriteError.BAD_VERSION),
            (SetData("/none", b"", ZkVersion(0)), WriteError.NO_NODE),
            (Delete("/none", None), WriteError.NO_NODE),
            (Check("/none", ZkVersion(0)), WriteError.NO_NODE),
            (Create("/a", b""), WriteError.NODE_EXISTS),
            (Delete("/d", ZkVersion(0)), WriteError.NOT_EMPTY),
        ],
        ids=str,
    )
    def test_a_multi_is_rejected_as_a_whole(
        self, claimed: StoreRig, operation: Operation, error: WriteError
    ) -> None:
        """The result names the failed operation; the other multis are written."""
        claimed.put("/a", b"before")
        claimed.put("/d/child")
        results = claimed.store.commit(
            [
                [Create("/one", b"")],
                [Create("/two", b""), operation, Create("/three", b"")],
                [Create("/four", b"")],
            ]
        )
        assert results == [Committed(), Rejected(1, error), Committed()]
        assert claimed.get("/two") is None
        assert claimed.get("/three") is None
        assert claimed.get("/four") is not None

    def test_very_many_check_only_multis_have_each_their_own_result(
        self, claimed: StoreRig
    ) -> None:
        """There are more than ZooKeeper processes at a time, and none changes anything."""
        claimed.put("/a", b"before")
        checks = [[Check("/a", ZkVersion(n % 2))] for n in range(1200)]
        results = claimed.store.commit(checks)
        assert results == [Committed(), Rejected(0, WriteError.BAD_VERSION)] * 600
        assert claimed.get("/a") == (b"before", 0)

    def test_too_much_for_one_znode_is_rejected(self, claimed: StoreRig) -> None:
        """ZooKeeper would only hang up; the largest operation is named."""
        multi = [Create("/small", b""), Create("/large", b"x" * 1_200_000)]
        assert claimed.store.commit([multi]) == [Rejected(1, WriteError.TOO_LARGE)]
        assert claimed.store.commit([[Create("/small", b"")]]) == [Committed()]

    def test_missing_parents_are_made(self, claimed: StoreRig) -> None:
        """Records and first states have parents that only the store creates."""
        multi = [Create(paths.reassignment_path(P0), b"g"), Create(paths.state_path(P0), b"s")]
        assert claimed.store.commit([multi]) == [Committed()]
        assert data_of(claimed, paths.reassignment_path(P0)) == b"g"
        assert data_of(claimed, paths.state_path(P0)) == b"s"

    def test_parents_that_were_deleted_are_made_again(self, claimed: StoreRig) -> None:
        """The second attempt creates them at the latest."""
        path = paths.reassignment_path(P0)
        claimed.store.commit([[Create(path, b"")]])
        claimed.remove(path)
        claimed.remove(paths.reassignment_topic_path("t"))
        first = claimed.store.commit([[Create(path, b"")]])
        if first != [Committed()]:
            assert first == [Rejected(0, WriteError.NO_NODE)]
            assert claimed.store.commit([[Create(path, b"")]]) == [Committed()]

    def test_a_deleted_topic_is_not_brought_back_to_life(self, claimed: StoreRig) -> None:
        """The first state of a deleted topic is refused."""
        gone = TopicPartition("gone", 0)
        results = claimed.store.commit([[Create(paths.state_path(gone), b"")]])
        assert results == [Rejected(0, WriteError.NO_NODE)]
        assert claimed.get(paths.topic_path("gone")) is None

    # --- reading levels ------------------------------------------------------------------------

    def test_the_legacy_plan_is_reported_at_every_change(self, rig: StoreRig) -> None:
        """Every change is reported: created, edited, deleted, created again."""
        rig.store.read(ZnodeFamily.LEGACY_PLAN)
        assert rig.wait_for(LegacyPlanRead).plan is None
        for replica in (1, 2):
            entry = {"topic": "t", "partition": 0, "replicas": [replica]}
            rig.put(paths.LEGACY_PLAN, json.dumps({"partitions": [entry]}).encode())
            read = rig.wait_for(LegacyPlanRead, lambda e: e.plan is not None)
            assert read.plan is not None
            assert read.plan.entries == {P0: (replica,)}
            assert read.plan.version == replica - 1
        rig.remove(paths.LEGACY_PLAN)
        rig.wait_for(LegacyPlanRead, lambda e: e.plan is None)
        rig.put(paths.LEGACY_PLAN, b"garbage")
        read = rig.wait_for(LegacyPlanRead, lambda e: e.plan is not None)
        assert read.plan is not None
        assert (read.plan.unreadable is not None, read.plan.raw) == (True, b"garbage")

    def test_brokers_are_reported_as_they_register_change_and_leave(self, rig: StoreRig) -> None:
        """The data of each registration is watched as well."""
        path = paths.broker_path(BrokerId(1))
        rig.store.read(ZnodeFamily.BROKERS)
        assert rig.wait_for(BrokersRead).brokers == {}
        rig.put(path, json.dumps(BROKER).encode())
        read = rig.wait_for(BrokersRead, lambda e: bool(e.brokers))
        assert read.brokers[BrokerId(1)].endpoints[0].host == "h"
        epoch = read.brokers[BrokerId(1)].epoch
        rig.put(path, json.dumps(BROKER | {"rack": "r"}).encode())
        read = rig.wait_for(BrokersRead, lambda e: e.brokers[BrokerId(1)].rack == "r")
        assert read.brokers[BrokerId(1)].epoch == epoch
        rig.remove(path)
        rig.wait_for(BrokersRead, lambda e: not e.brokers)

    def test_topics_are_listed_as_they_are_created_and_deleted(self, rig: StoreRig) -> None:
        """The event has the names only."""
        rig.store.read(ZnodeFamily.TOPICS)
        assert rig.wait_for(TopicsListed).topics == frozenset({"t"})
        rig.put(paths.topic_path("u"))
        rig.wait_for(TopicsListed, lambda e: e.topics == frozenset({"t", "u"}))
        rig.remove(paths.topic_path("u"))
        rig.wait_for(TopicsListed, lambda e: e.topics == frozenset({"t"}))

    @pytest.mark.parametrize(
        ("znode", "directory", "kind"),
        [
            (ZnodeFamily.DELETIONS, paths.DELETIONS, DeletionsRead),
            (ZnodeFamily.ISR_NOTIFICATIONS, paths.ISR_NOTIFICATIONS, IsrNotificationsRead),
            (ZnodeFamily.LOG_DIR_EVENTS, paths.LOG_DIR_EVENTS, LogDirEventsRead),
        ],
    )
    def test_a_directory_may_come_into_being_later(
        self, rig: StoreRig, znode: ZnodeFamily, directory: str, kind: type[Event]
    ) -> None:
        """The directory is empty until then, and its first child is reported."""
        rig.store.read(znode)
        empty = rig.wait_for(kind)
        assert not _names(empty)
        rig.put(f"{directory}/x")
        assert "x" in _names(rig.wait_for(kind, lambda e: bool(_names(e))))

    def test_notifications_are_reported_with_their_content(self, rig: StoreRig) -> None:
        """An unreadable one is listed, so that it can be deleted."""
        rows = [{"topic": "t", "partition": 0}]
        rig.put(f"{paths.ISR_NOTIFICATIONS}/b", json.dumps({"partitions": rows}).encode())
        rig.put(f"{paths.ISR_NOTIFICATIONS}/a", b"garbage")
        rig.put(f"{paths.LOG_DIR_EVENTS}/a", b'{"version":1,"broker":3,"event":1}')
        rig.store.read(ZnodeFamily.ISR_NOTIFICATIONS)
        rig.store.read(ZnodeFamily.LOG_DIR_EVENTS)
        assert rig.wait_for(IsrNotificationsRead) == IsrNotificationsRead(
            ("a", "b"), frozenset({P0})
        )
        rig.put(f"{paths.LOG_DIR_EVENTS}/c", b"garbage")
        assert rig.wait_for(LogDirEventsRead, lambda e: "c" in e.names) == LogDirEventsRead(
            ("a", "c"), frozenset({BrokerId(3)})
        )

    def test_a_preferred_election_is_reported(self, rig: StoreRig) -> None:
        """The event has the version to delete it at; a malformed one has no partitions."""
        rig.store.read(ZnodeFamily.PREFERRED_ELECTION)
        assert rig.wait_for(PreferredElectionRead) == PreferredElectionRead(None)
        rows = [{"topic": "t", "partition": 1}]
        rig.put(paths.PREFERRED_ELECTION, json.dumps({"partitions": rows}).encode())
        read = rig.wait_for(PreferredElectionRead, lambda e: e.partitions is not None)
        assert read == PreferredElectionRead(frozenset({P1}), ZkVersion(0))
        rig.put(paths.PREFERRED_ELECTION, b"garbage")
        read = rig.wait_for(PreferredElectionRead, lambda e: e.version == 1)
        assert read.partitions == frozenset()

    def test_producer_ids_are_read_and_written(self, claimed: StoreRig) -> None:
        """A new znode has no content; a malformed one is not taken for that."""
        claimed.store.read(ZnodeFamily.PRODUCER_IDS)
        assert claimed.wait_for(ProducerIdsRead) == ProducerIdsRead(None)
        block = ProducerIdBlock(BrokerId(3), 1000, 1999)
        data = encode_producer_ids(block)
        creation = Create(paths.PRODUCER_IDS, b"")
        assert claimed.store.commit([[creation]]) == [Committed()]
        assert claimed.wait_for(ProducerIdsRead, lambda e: e.version == 0).block is None
        first = SetData(paths.PRODUCER_IDS, data, ZkVersion(0))
        assert claimed.store.commit([[first]]) == [Committed()]
        assert claimed.wait_for(ProducerIdsRead, lambda e: e.version == 1).block == block
        assert claimed.store.commit([[creation], [first]]) == [
            Rejected(0, WriteError.NODE_EXISTS),
            Rejected(0, WriteError.BAD_VERSION),
        ]
        claimed.put(paths.PRODUCER_IDS, b"garbage")
        read = claimed.wait_for(ProducerIdsRead, lambda e: e.version == 2)
        assert isinstance(read.block, str)

    def test_our_own_records_are_read(self, rig: StoreRig) -> None:
        """Unreadable records are reported with the reason."""
        replicas = (BrokerId(1), BrokerId(2))
        spec = ReassignmentSpec(replicas, None, RequestId("r"), Route.LEGACY)
        orphan = Orphan(BrokerId(3), P1, Zxid(7), "dead")
        rig.put(paths.reassignment_path(P0), encode_spec(spec))
        rig.put(f"{paths.reassignment_topic_path('t')}/x", encode_spec(spec))
        rig.put(paths.reassignment_path(P1), b"garbage")
        rig.put(paths.orphan_path(orphan.broker, P1), encode_orphan(orphan))
        rig.put(paths.orphan_path(orphan.broker, P0), b"garbage")
        rig.store.read(ZnodeFamily.SPECS)
        read = rig.wait_for(SpecsRead)
        assert read.specs == {
            P0: ReassignmentSpec(replicas, None, spec.request, spec.route, ZkVersion(0))
        }
        assert read.unreadable.keys() == {
            f"{paths.reassignment_topic_path('t')}/x",
            paths.reassignment_path(P1),
        }
        rig.store.read(ZnodeFamily.ORPHANS)
        assert rig.wait_for(OrphansRead).orphans == frozenset({orphan})

    def test_no_records_is_an_answer_too(self, rig: StoreRig) -> None:
        """The loop must not wait for them for ever."""
        rig.store.read(ZnodeFamily.SPECS)
        assert rig.wait_for(SpecsRead) == SpecsRead({}, {})
        rig.store.read(ZnodeFamily.ORPHANS)
        assert rig.wait_for(OrphansRead) == OrphansRead(frozenset())

    def test_guards_report_what_forbids_a_claim(self, rig: StoreRig) -> None:
        """Every change of any of the three znodes is reported."""
        rig.store.read(ZnodeFamily.GUARDS)
        assert rig.wait_for(ClaimGuardsRead) == ClaimGuardsRead(
            controller_broker=None,
            controller_is_ephemeral=False,
            kraft_controller_epoch=-1,
            feature_enabled=False,
            migration=None,
        )
        rig.seize(BrokerId(1))
        read = rig.wait_for(ClaimGuardsRead, lambda e: e.controller_broker is not None)
        assert (read.controller_broker, read.controller_is_ephemeral) == (1, True)
        rig.put(paths.FEATURE, b'{"version":1,"status":1,"features":{}}')
        rig.wait_for(ClaimGuardsRead, lambda e: e.feature_enabled)
        rig.put(paths.FEATURE, b'{"version":1,"status":0,"features":{}}')
        rig.wait_for(ClaimGuardsRead, lambda e: not e.feature_enabled)
        rig.put(paths.MIGRATION, b'{"version":0,"kraft_controller_id":3000}')
        rig.wait_for(ClaimGuardsRead, lambda e: e.migration is not None)

    # --- reading topics and states -------------------------------------------------------------

    def test_topics_are_reported_at_every_change(self, rig: StoreRig) -> None:
        """An absent topic is None, a malformed one has a reason."""
        rig.put(paths.topic_path("bad"), b"garbage")
        rig.store.read_topics(["t", "bad", "none"], read_generation=1)
        topics = rig.wait_for(TopicsRead).topics
        assert isinstance(topics["t"], TopicAssignment)
        assert topics["t"].partitions[1].replicas == (2,)
        assert isinstance(topics["bad"], str)
        assert topics["none"] is None
        rig.put(paths.topic_path("t"), json.dumps({"partitions": {"0": [3]}}).encode())
        read = rig.wait_for(TopicsRead, lambda e: "t" in e.topics).topics["t"]
        assert isinstance(read, TopicAssignment)
        assert (read.version, read.czxid) == (1, topics["t"].czxid)
        rig.remove(paths.topic_path("t"))
        rig.wait_for(TopicsRead, lambda e: e.topics.get("t", "") is None)

    def test_znodes_of_a_topic_are_listed_from_the_leaves(self, rig: StoreRig) -> None:
        """What the deletion of the topic has to delete, as long as the topic is as it was."""
        for partition in (P0, P1):
            rig.put(paths.state_path(partition), b"{}")
        rig.store.read_topic_trees(["t", "absent"])
        listed = rig.wait_for(TopicTreesRead).trees
        assert set(listed) == {"t", "absent"}
        assert listed["absent"] is None
        tree = listed["t"]
        assert tree is not None
        assert (tree.version, tree.has_configs) == (ZkVersion(0), False)
        top = f"{paths.topic_path('t')}/partitions"
        below = {path.removeprefix(top) for path in tree.below}
        assert below == {"", "/0", "/0/state", "/1", "/1/state"}
        parents = [path.rpartition("/")[0] for path in tree.below]
        for number, path in enumerate(tree.below):
            assert path not in parents[number:], tree.below
        rig.put(paths.topic_config_path("t"), b"{}")
        rig.put(paths.topic_path("t"), b'{"partitions":{}}')
        rig.store.read_topic_trees(["t"])
        again = rig.wait_for(TopicTreesRead).trees["t"]
        assert again is not None
        assert again[:4] == (tree.czxid, ZkVersion(1), tree.below, True)

    def test_a_topic_is_listed_with_its_marker(self, rig: StoreRig) -> None:
        """It shows whether the topic was there when the marker was made."""
        rig.store.read_topic_trees(["t"])
        tree = rig.wait_for(TopicTreesRead).trees["t"]
        assert tree is not None
        assert (tree.marker, tree.is_newer) == (None, False)
        rig.put(paths.deletion_path("t"), b"")
        rig.store.read_topic_trees(["t"])
        tree = rig.wait_for(TopicTreesRead).trees["t"]
        assert tree is not None
        assert tree.marker is not None
        assert tree.marker.czxid > tree.czxid
        assert not tree.is_newer
        rig.remove(paths.topic_path("t"))
        rig.put(paths.topic_path("t"), b'{"partitions":{}}')
        rig.store.read_topic_trees(["t"])
        tree = rig.wait_for(TopicTreesRead).trees["t"]
        assert tree is not None
        assert tree.is_newer

    def test_states_are_reported_once_with_their_next_change(self, rig: StoreRig) -> None:
        """A state is watched only on request."""
        state = encode_state(leader=1, leader_epoch=2, isr=(1,), controller_epoch=3)
        rig.put(paths.state_path(P0), state)
        rig.store.read_states([P0, P1], watch=True, read_generation=1)
        event = rig.wait_for(StatesRead)
        assert event.armed == frozenset({P0}), "where there is nothing, nothing is watched"
        states = event.states
        read = states[P0]
        assert isinstance(read, PartitionState)
        assert (read.leader_epoch, read.version) == (2, 0)
        assert states[P1] is None
        rig.put(paths.state_path(P0), b"garbage")
        assert rig.wait_for(StateChanged).partition == P0
        rig.store.read_states([P0], watch=False, read_generation=1)
        event = rig.wait_for(StatesRead)
        assert isinstance(event.states[P0], str)
        assert event.armed is None
        rig.put(paths.state_path(P0), state)
        assert rig.is_quiet(StateChanged)

    def test_a_state_of_ours_is_read_at_the_version_it_was_written(self, claimed: StoreRig) -> None:
        """The next compare-and-set expects the version of the last write."""
        state = encode_state(leader=1, leader_epoch=0, isr=(1,), controller_epoch=6)
        path = paths.state_path(P0)
        claimed.store.commit([[Create(path, state)], [SetData(path, state, ZkVersion(0))]])
        claimed.store.read_states([P0], watch=False, read_generation=1)
        read = claimed.wait_for(StatesRead).states[P0]
        assert isinstance(read, PartitionState)
        assert read.version == 1

    def test_what_was_watched_is_watched_by_the_next_session(self, rig: StoreRig) -> None:
        """Changes in between are reported as well."""
        state = encode_state(leader=1, leader_epoch=2, isr=(1,), controller_epoch=3)
        rig.put(paths.state_path(P0), state)
        rig.store.read(ZnodeFamily.LEGACY_PLAN)
        rig.wait_for(LegacyPlanRead)
        rig.store.read_topics(["t"], read_generation=1)
        rig.wait_for(TopicsRead)
        rig.store.read_states([P0], watch=True, read_generation=1)
        rig.wait_for(StatesRead)
        rig.expire()
        rig.wait_for(StateChanged)
        rig.put(paths.LEGACY_PLAN, b'{"partitions":[]}')
        rig.wait_for(LegacyPlanRead, lambda e: e.plan is not None)
        rig.put(paths.topic_path("t"), json.dumps({"partitions": {"0": [9]}}).encode())
        rig.wait_for(TopicsRead, lambda e: _first_replica(e) == 9)


def _seized(rig: StoreRig) -> ZkVersion:
    """Return the version under which the broker that has the role now may write."""
    rig.seize(BrokerId(1))
    epoch = rig.get(paths.CONTROLLER_EPOCH)
    assert epoch is not None
    return epoch[1]


def _names(event: Event) -> frozenset[str]:
    assert isinstance(event, DeletionsRead | IsrNotificationsRead | LogDirEventsRead)
    return event.topics if isinstance(event, DeletionsRead) else frozenset(event.names)


def _first_replica(event: TopicsRead) -> int | None:
    read = event.topics.get("t")
    return read.partitions[0].replicas[0] if isinstance(read, TopicAssignment) else None
