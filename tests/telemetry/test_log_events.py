"""Tests of ``controller.telemetry.log_events``."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.core_settings import Options
from controller.core.cycle import observe
from controller.core.disks.records import LogDirEventsRead
from controller.core.leadership.records import (
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    NotificationsDeletedRecord,
    PreferredElectionEndedRecord,
    ShutdownBegunRecord,
    StateCreatedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    Refusal,
    RefusalReason,
    TopicConfig,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Drain, Drains, Evacuation
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.phases import Syncing
from controller.core.reassignments.records import (
    BlockedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PhaseRecord,
    SpecEndedRecord,
    SpecRecord,
    SpecsRead,
)
from controller.core.records import Change, Event, Record, TimerFired
from controller.core.requests.outcomes import Summary
from controller.core.requests.records import (
    LegacyPlanEndedRecord,
    LegacyPlanRead,
    RefusalRecord,
    RequestOutcomeRecord,
)
from controller.core.role.records import (
    BrokersRead,
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    IdleRecord,
    LeadershipLost,
    RoleCededRecord,
    ShutdownRequested,
    UpdateMetadataAnswered,
    YieldedRecord,
)
from controller.core.topics.records import TopicConfigsRead, TopicsRead
from controller.core.view import ClusterView
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent, LogEvents, change_events
from tests.core.builders import broker, plan, replicas, tp
from tests.telemetry.builders import REQUEST, a_goal, a_view


def logged(events: LogEvents, event: Event, view: ClusterView) -> list[tuple[str, Level]]:
    """Return kind and level of the log events of an event."""
    return [(n.kind, n.level) for n in events.of(event, view)]


def kinds(events: Iterable[LogEvent]) -> list[str]:
    """Return the kinds of events."""
    return [n.kind for n in events]


def of(*records: Record) -> list[LogEvent]:
    """Return the events of a change."""
    return list(change_events(Change(records)))


def test_changes_of_role_are_logged() -> None:
    """Claims, failures and losses."""
    events, view = LogEvents(), a_view(1).view
    assert logged(events, ControllerClaimed(ControllerEpoch(4)), view) == [("claimed", Level.INFO)]
    assert logged(events, ClaimFailed("race"), view) == [("claim_failed", Level.WARNING)]
    assert logged(events, Deposed("moved"), view) == [("controller_role_ended", Level.INFO)]
    assert logged(events, LeadershipLost("expired"), view) == [("leadership_lost", Level.WARNING)]
    assert logged(events, ShutdownRequested(), view) == [("shutdown_requested", Level.INFO)]
    assert logged(events, TimerFired("claim"), view) == []


def test_brokers_are_logged_as_they_join_bounce_and_die() -> None:
    """The first read is no change."""
    events, built = LogEvents(), a_view(1, 2)
    assert logged(events, TimerFired("claim"), a_view().view) == []
    assert logged(events, BrokersRead(built.view.cluster.brokers), built.view) == []
    built.view.cluster.brokers = {BrokerId(2): broker(2, epoch=500), BrokerId(3): broker(3)}
    found = list(events.of(BrokersRead(built.view.cluster.brokers), built.view))
    assert [(n.kind, n.fields["broker"]) for n in found] == [
        ("broker_joined", 3),
        ("broker_died", 1),
        ("broker_bounced", 2),
    ]


def test_plan_is_logged_once() -> None:
    """The daemon's own writes bring it back."""
    events, view = LogEvents(), a_view(1).view
    first = LegacyPlanRead(plan({tp(): (1,)}, czxid=50))
    assert logged(events, first, view) == [("plan_seen", Level.INFO)]
    assert logged(events, first, view) == []
    assert logged(events, LegacyPlanRead(None), view) == []
    assert logged(events, LegacyPlanRead(plan({}, czxid=51)), view) == [("plan_seen", Level.INFO)]


def test_unreadable_znode_is_logged_once_for_each_reason() -> None:
    """It does not fill the log."""
    events, view = LogEvents(), a_view(1).view
    broken = TopicsRead({"t": "it is not JSON"})
    assert logged(events, broken, view) == [("topic_unreadable", Level.WARNING)]
    assert logged(events, broken, view) == []
    assert logged(events, TopicsRead({"t": None}), view) == []
    assert logged(events, broken, view) == [("topic_unreadable", Level.WARNING)]
    assert logged(events, StatesRead({tp(): "empty"}), view) == [
        ("state_unreadable", Level.WARNING)
    ]
    assert logged(events, SpecsRead({}, {"t-0": "empty"}), view) == [
        ("goal_unreadable", Level.WARNING)
    ]
    assert logged(events, TopicConfigsRead({"t": "timed out"}), view) == [
        ("topic_config_unreadable", Level.WARNING)
    ]
    good = TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)})
    assert logged(events, good, view) == []


def test_many_unreadable_znodes_are_counted() -> None:
    """Beyond the limit of events."""
    broken = SpecsRead({}, {f"t-{n}": "empty" for n in range(LINES_MAX + 7)})
    events = list(LogEvents().of(broken, a_view(1).view))
    assert len(events) == LINES_MAX + 1
    assert (events[-1].kind, events[-1].fields) == ("goal_unreadable_more", {"count": 7})


def test_rejected_requests_and_partitions_are_logged_by_error() -> None:
    """One event for each error and broker, with a few partitions."""
    view = a_view(1).view
    stale = UpdateMetadataAnswered(BrokerId(1), BrokerEpoch(101), 11)
    (note,) = LogEvents().of(stale, view)
    assert (note.kind, note.fields["error"]) == ("request_refused", "stale_controller_epoch")
    results = tuple(LeaderAndIsrResult(tp(n), LeaderEpoch(1), 56) for n in range(9))
    answer = LeaderAndIsrAnswered(BrokerId(1), BrokerEpoch(101), 0, results, resent=False)
    (note,) = LogEvents().of(answer, view)
    assert note.kind == "partitions_refused"
    assert note.fields["count"] == 9
    assert note.fields["sample"] == ["t-0", "t-1", "t-2", "t-3", "t-4"]


def test_broker_that_has_the_epoch_already_is_not_logged() -> None:
    """A claim repeats what brokers know."""
    results = (LeaderAndIsrResult(tp(), LeaderEpoch(1), 11),)
    answer = LeaderAndIsrAnswered(BrokerId(1), BrokerEpoch(101), 0, results, resent=False)
    assert list(LogEvents().of(answer, a_view(1).view)) == []


def test_a_failed_log_directory_is_a_warning() -> None:
    """An empty read is not logged."""
    events, view = LogEvents(), a_view(1).view
    failed = LogDirEventsRead(("log_dir_event_1",), frozenset({BrokerId(1)}))
    assert logged(events, failed, view) == [("log_directory_failed", Level.WARNING)]
    assert logged(events, LogDirEventsRead((), frozenset()), view) == []


def test_eligibility_is_logged_when_it_changes() -> None:
    """Why the native engine is refused, and when it no longer is."""
    events = LogEvents()
    good, bad = a_view(1).view, a_view(1, options=Options(controller_id=1)).view
    assert kinds(events.eligibility(good)) == []
    assert kinds(events.eligibility(bad)) == ["native_refused"]
    assert kinds(events.eligibility(bad)) == []
    assert kinds(events.eligibility(good)) == ["native_possible"]


def test_every_durable_end_has_an_event() -> None:
    """What an operator follows a request by."""
    orphan = Orphan(BrokerId(3), tp(), Zxid(30), "broker 3 is dead")
    assert kinds(
        of(
            SpecRecord(tp(), a_goal((4, 5))),
            SpecEndedRecord(tp(), ZkVersion(0), REQUEST, "done"),
            RequestOutcomeRecord(Summary(request=REQUEST, kind="legacy", total=1, done=1)),
            LegacyPlanEndedRecord(ZkVersion(1)),
            OrphanRecord(orphan),
            OrphanEndedRecord(orphan),
            StateCreatedRecord(tp(), BrokerId(1), replicas(1), ControllerEpoch(9)),
            PreferredElectionEndedRecord(ZkVersion(0)),
            ShutdownBegunRecord(BrokerId(2), BrokerEpoch(9)),
            YieldedRecord(frozenset({"gone"})),
            RoleCededRecord("UpdateFeatures"),
            NotificationsDeletedRecord("isr_notifications", ("a",)),
            IdleRecord(None),
        )
    ) == [
        "accepted",
        "reassignment_ended",
        "outcome",
        "plan_ended",
        "orphan",
        "orphan_ended",
        "partition_created",
        "preferred_election_ended",
        "shutdown_begun",
        "yielded",
        "ceded",
    ]


def test_accepted_event_has_original_and_target() -> None:
    """Enough to restore the assignment by hand."""
    (note,) = of(SpecRecord(tp(), a_goal((4, 5))))
    assert note.fields == {
        "topic": "t",
        "partition": 0,
        "target": [4, 5],
        "original": [1, 2, 3],
        "request": REQUEST,
        "route": "legacy",
        "version": 0,
        "cancelled_by": None,
        "abandoned": [],
        "topic_czxid": None,
        "expected": None,
        "asked": None,
        "log_dirs": [],
        "unplaced": [],
    }


def test_the_first_step_of_an_approved_entry_is_not_accepted_again() -> None:
    """Its record changes with the step; only the journal has it."""
    step = PhaseRecord(tp(), Syncing(), Instant(1.0), "")
    assert of(SpecRecord(tp(), a_goal((4, 5))), step) == []


def test_state_is_logged_unless_a_phase_change_has_it() -> None:
    """An election has its own event."""
    write = StateRecord(
        tp(), BrokerId(1), LeaderEpoch(4), replicas(1, 2), ControllerEpoch(9), ZkVersion(6)
    )
    assert kinds(of(write)) == ["leader_changed"]
    assert of(write, PhaseRecord(tp(), Syncing(), Instant(1.0), "")) == []


def test_refusals_are_logged_up_to_a_limit() -> None:
    """Ten thousand refused entries do not fill the log."""
    refusal = Refusal(REQUEST, "t-0", RefusalReason.MALFORMED, "no")
    events = of(RefusalRecord((refusal,) * (LINES_MAX + 3)))
    assert kinds(events) == ["refused"] * LINES_MAX + ["refused_more"]
    assert events[0].fields["reason"] == "malformed"
    assert events[-1].fields == {"request": REQUEST, "entries": 3}


def test_blocked_partition_is_a_debug_event() -> None:
    """Operators read one event for each reason."""
    (note,) = of(BlockedRecord(tp(), Blocked(BlockedBy.LIMIT, "full"), Instant(1.0)))
    assert note == LogEvent(
        "waits",
        Level.DEBUG,
        {"topic": "t", "partition": 0, "by": "limit", "detail": "full"},
    )
    assert of(BlockedRecord(tp(), None, Instant(1.0))) == []


def test_drains_are_logged_with_their_request_and_when_a_broker_is_empty() -> None:
    """The same drains read again say nothing, nor does a broker that was empty before."""
    events, built = LogEvents(), a_view(1, 2)
    drains = Drains({BrokerId(2): Drain("swap", "ann", 1)}, 5_000_000, czxid=Zxid(7))

    def change(found: Drains) -> list[LogEvent]:
        event = ControlsRead(Controls(drains=found))
        observe(built.view, event, Instant(0.0))
        return list(events.of(event, built.view))

    (begun,) = change(drains)
    assert (begun.kind, begun.fields["brokers"]) == ("drains_changed", [2])
    assert begun.fields["request"] == "drain-0000000000000007"
    assert begun.fields["throttle"] == 5_000_000
    assert change(drains) == []
    for replicas_left, expected in ((0, []), (3, []), (1, []), (0, ["broker_emptied"]), (0, [])):
        row = {"broker": BrokerId(2), "replicas": replicas_left}
        assert kinds(events.emptied([row])) == expected
    (ended,) = change(Drains())
    assert (ended.fields["brokers"], ended.fields["request"]) == ([], None)


def test_evacuations_are_logged_when_they_change() -> None:
    """With the brokers to which leaderships return."""
    events, built = LogEvents(), a_view(1, 2)

    def change(**brokers: Evacuation) -> list[LogEvent]:
        found = {BrokerId(int(name[1:])): about for name, about in brokers.items()}
        event = ControlsRead(Controls(evacuated=found))
        observe(built.view, event, Instant(0.0))
        return list(events.of(event, built.view))

    (begun,) = change(b2=Evacuation("kernel", "ann", 1))
    assert (begun.kind, begun.fields) == ("evacuations_changed", {"brokers": [2], "returning": []})
    assert change(b2=Evacuation("kernel", "ann", 1)) == []
    (returning,) = change(b2=Evacuation("kernel", "ann", 1, returning=True))
    assert returning.fields == {"brokers": [2], "returning": [2]}
    (ended,) = change()
    assert ended.fields == {"brokers": [], "returning": []}
