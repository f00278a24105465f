"""Tests of ``controller.core.blocked_reasons``: nothing waits without a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.core.blocked_reasons import BlockedReasons, since_of
from controller.core.core_settings import Options
from controller.core.cycle import apply, observe, record_effect, take_due
from controller.core.effects import DescribeBrokerSettings
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    TopicConfig,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.gates import leader_missing, state_unknown, sync_gate
from controller.core.reassignments.phases import Syncing
from controller.core.reassignments.records import BlockedRecord
from controller.core.requests.model import PlanNode
from controller.core.requests.submissions import legacy_request_id
from controller.core.role.records import BrokerSettingsRead
from controller.core.topics.records import TopicConfigsRead
from controller.core.view import ClusterView
from tests.core.builders import replicas, requested_now, tp
from tests.telemetry.builders import a_view, partition_state

CORE = Path(__file__).parents[2] / "controller" / "core"
FULL = Options(max_partitions_in_flight=0)


def waits_for(view: ClusterView) -> Blocked | None:
    """Return what the only reassignment waits for."""
    (reassignment,) = view.reassignments.by_partition.values()
    return BlockedReasons(view, Instant(1000.0)).of(reassignment)


def test_each_reason_is_returned_somewhere() -> None:
    """One that no gate returns is documented and never shown."""
    found = re.compile(r"\bBlocked\(\s*BlockedBy\.(\w+)")
    returned = {n for path in CORE.rglob("*.py") for n in found.findall(path.read_text("utf-8"))}
    assert set(BlockedBy.__members__) - returned == set()


def test_beyond_the_limit_the_limit_is_waited_for() -> None:
    """No turn looks at it before there is room."""
    view = a_view(1, options=FULL).with_reassignment(tp(), (4,)).view
    assert waits_for(view) == Blocked(BlockedBy.LIMIT, "0 partitions are in flight")


def test_a_reason_of_its_own_precedes_the_common_one() -> None:
    """A free slot would not help it."""
    view = a_view(1, options=FULL).with_reassignment(tp(), (4,)).view
    own = Blocked(BlockedBy.BROKER_DEAD, "broker 4")
    view.reassignments.by_partition[tp()].blocked = own
    assert waits_for(view) == own


@pytest.mark.parametrize("by", [BlockedBy.THROTTLE, BlockedBy.DISK_UNKNOWN])
def test_beyond_the_limit_what_passes_soon_is_not_waited_for(by: BlockedBy) -> None:
    """It may have ended by now: the partition is not examined before a slot is free."""
    view = a_view(1, options=FULL).with_reassignment(tp(), (4,)).view
    view.reassignments.by_partition[tp()].blocked = Blocked(by, "soon")
    assert waits_for(view) == Blocked(BlockedBy.LIMIT, "0 partitions are in flight")
    roomy = a_view(1).with_reassignment(tp(), (4,)).view
    own = roomy.reassignments.by_partition[tp()].blocked = Blocked(by, "soon")
    assert waits_for(roomy) == own


def test_what_is_in_flight_does_not_wait_for_a_slot() -> None:
    """It has one."""
    view = a_view(1, options=FULL).with_reassignment(tp(), (4,), Syncing(), step=1).view
    assert waits_for(view) is None


@pytest.mark.parametrize(("isr", "is_copying"), [((1, 2), True), ((1, 3), False), ((1,), False)])
def test_a_copy_is_no_wait(isr: tuple[int, ...], *, is_copying: bool) -> None:
    """Only replicas being added are missing; a replica that was there and lags is amiss."""
    built = a_view(1, 2, 3).with_partition(
        tp(), (1, 2, 3), adding=(3,), state=partition_state(1, isr)
    )
    view = built.with_reassignment(tp(), (1, 2, 3), Syncing(), original=(1, 2)).view
    reassignment = view.reassignments.by_partition[tp()]
    found = sync_gate(
        view, tp(), reassignment.spec, partition_state(1, isr), reassignment.spec.target
    )
    assert found is not None
    assert found.by is BlockedBy.REPLICA_NOT_IN_ISR
    reassignment.wait(found, Instant(990.0))
    assert reassignment.is_copying is is_copying
    assert (waits_for(view) is None) is is_copying


def test_a_wait_begins_when_a_copy_ends_for_a_lagging_replica() -> None:
    """How long it copied says nothing of how long something has been amiss."""
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,))
    view = built.with_reassignment(tp(), (1, 2, 3), Syncing(), original=(1, 2)).view
    copies = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "replica 3", is_copying=True)
    apply(view, BlockedRecord(tp(), copies, Instant(900.0)), Instant(900.0))
    lags = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "replica 2")
    apply(view, BlockedRecord(tp(), lags, Instant(950.0)), Instant(950.0))
    assert since_of(view.reassignments.by_partition[tp()]) == 950.0


@pytest.mark.parametrize("leader", [4, -1])
def test_nothing_copies_from_a_leader_that_is_dead(leader: int) -> None:
    """The delegated engine follows such a step; it is blocked, and says so."""
    state = partition_state(leader, (1, 2))
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    view = built.with_reassignment(tp(), (1, 2, 3), Syncing(), original=(1, 2)).view
    spec = view.reassignments.by_partition[tp()].spec
    found = sync_gate(view, tp(), spec, state, spec.target)
    assert found is not None
    assert not found.is_copying


def test_a_dead_replica_that_is_added_is_waited_for() -> None:
    """Nothing copies to it."""
    state = partition_state(1, (1, 2))
    built = a_view(1, 2).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    view = built.with_reassignment(tp(), (1, 2, 3), Syncing(), original=(1, 2)).view
    spec = view.reassignments.by_partition[tp()].spec
    assert sync_gate(view, tp(), spec, state, spec.target) == Blocked(
        BlockedBy.BROKER_DEAD, "broker 3 is not live"
    )


def test_a_replica_in_an_offline_log_directory_is_told_from_a_dead_broker() -> None:
    """Its broker is live: no restart of a dead broker is what an operator looks for."""
    state = partition_state(1, (1, 2))
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    view = built.with_reassignment(tp(), (1, 2, 3), Syncing(), original=(1, 2)).view
    view.leadership.offline.add((BrokerId(3), tp()))
    spec = view.reassignments.by_partition[tp()].spec
    assert sync_gate(view, tp(), spec, state, spec.target) == Blocked(
        BlockedBy.BROKER_DEAD, "the log directory of the replica on broker 3 is offline"
    )


def test_without_the_role_the_role_is_waited_for() -> None:
    """And why it is not had."""
    view = a_view(1, epoch=None).with_reassignment(tp(), (4,)).view
    found = waits_for(view)
    assert found == Blocked(BlockedBy.CONTROLLER_ROLE, "the state of the cluster is being read")
    view.options = Options(controller_id=1)
    found = waits_for(view)
    assert found is not None
    assert "is the id of a broker" in found.detail


def test_a_pending_topic_deletion_is_waited_for() -> None:
    """The role is given back to it first."""
    view = a_view(1).with_reassignment(tp(), (4,)).view
    view.deletions_session.markers = frozenset({"going"})
    for live in view.cluster.brokers.values():
        record_effect(view, DescribeBrokerSettings((live,)), Instant(0.0))
        observe(view, BrokerSettingsRead(live.id, live.epoch, deletes_topics=None), Instant(0.0))
    assert waits_for(view) == Blocked(BlockedBy.TOPIC_DELETION, "topic deletion is pending: going")


def answer(view: ClusterView, why: str, now: Instant) -> None:
    """Let a question for the settings of the topic fail."""
    observe(view, TopicConfigsRead({"t": why}, requested_now(view, ("t",), now)), now)


def test_an_entry_whose_settings_cannot_be_read_says_so() -> None:
    """It is not accepted, so it has neither record nor phase."""
    view = a_view(1).with_partition(tp(), (1,)).view
    view.requests.legacy = PlanNode({tp(): replicas(4)}, ZkVersion(0), Zxid(3))
    unread = Blocked(BlockedBy.CONFIG_UNKNOWN, "min.insync.replicas is unknown: not read yet")
    found_entries = BlockedReasons(view, Instant(1000.0)).blocked_entries()
    assert list(found_entries) == [(tp(), legacy_request_id(Zxid(3)), unread)]
    answer(view, "error 29: not authorized", Instant(5.0))
    found = BlockedReasons(view, Instant(1000.0)).of_entry(tp())
    assert found is not None
    assert found.detail == "min.insync.replicas is unknown: error 29: not authorized"
    view.topics.configs["t"] = TopicConfig(1, unclean_leader_election=False)
    assert BlockedReasons(view, Instant(1000.0)).of_entry(tp()) is None


def test_unreadable_settings_block_their_partitions_with_the_reason() -> None:
    """Else it would say for ever that they are being read."""
    view = a_view(1).with_partition(tp(), (1,)).with_reassignment(tp(), (4,)).view
    take_due(view)
    answer(view, "refused", Instant(5.0))
    assert tp() in take_due(view).partitions
    answer(view, "refused", Instant(6.0))
    assert not take_due(view).partitions


def test_a_wait_begins_anew_when_its_reason_does() -> None:
    """Other words about the same reason are the same wait."""
    view = a_view(1).with_reassignment(tp(), (4,), since=990.0).view
    reassignment = view.reassignments.by_partition[tp()]
    assert since_of(reassignment) == Instant(990.0)
    for at, by, detail, since in (
        (1.0, BlockedBy.LIMIT, "full", 1.0),
        (2.0, BlockedBy.LIMIT, "fuller", 1.0),
        (3.0, BlockedBy.BROKER_DEAD, "broker 4", 3.0),
    ):
        apply(view, BlockedRecord(tp(), Blocked(by, detail), Instant(at)), Instant(at))
        assert since_of(reassignment) == Instant(since)


@pytest.mark.parametrize(
    ("leader", "words"),
    [(1, "leader 1 is not live"), (-1, "it has no leader: no member of its ISR (1,2) is live")],
)
def test_a_missing_leader_is_named_with_who_could_lead(leader: int, words: str) -> None:
    """An operator has to know which broker to bring back."""
    assert leader_missing(partition_state(leader, (1, 2))).detail == words


def test_a_malformed_znode_is_the_reason_of_a_wait() -> None:
    """Waiting for it to be read would be for ever."""
    view = a_view(1).view
    assert state_unknown(view, tp()).detail == "its state znode is being read"
    view.leadership.stateless.add(tp())
    assert state_unknown(view, tp()).detail == "it has no state znode: no controller wrote one yet"
    view.leadership.stateless.clear()
    view.leadership.unreadable[tp()] = "not JSON"
    assert state_unknown(view, tp()).detail == "its state znode cannot be decoded: not JSON"
    view.topics.unreadable["t"] = "not JSON"
    assert state_unknown(view, tp()).detail == "its topic znode cannot be decoded: not JSON"
