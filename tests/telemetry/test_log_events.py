"""Tests of ``controller.telemetry.log_events``."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.events import (
    BrokersRead,
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    Event,
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    LeadershipLost,
    LegacyPlanRead,
    LogDirEventsRead,
    Orphan,
    ShutdownRequested,
    SpecsRead,
    StatesRead,
    TimerFired,
    TopicConfigsRead,
    TopicsRead,
    UpdateMetadataAnswered,
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
from controller.core.options import Options
from controller.core.outcomes import Summary
from controller.core.phases import Syncing
from controller.core.records import (
    BlockedRecord,
    Change,
    IdleRecord,
    LegacyPlanEndedRecord,
    NotificationsDeletedRecord,
    OrphanEndedRecord,
    OrphanRecord,
    PhaseRecord,
    PreferredElectionEndedRecord,
    Record,
    RefusalRecord,
    RequestOutcomeRecord,
    SpecEndedRecord,
    SpecRecord,
    StateCreatedRecord,
    StateRecord,
    YieldedRecord,
)
from controller.core.view import ClusterView
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent, LogEvents, change_events
from tests.core.builders import broker, plan, replicas, tp
from tests.telemetry.builders import REQUEST, a_goal, a_view


def told(events: LogEvents, event: Event, view: ClusterView) -> list[tuple[str, Level]]:
    """Return kind and level of what an event is worth."""
    return [(n.kind, n.level) for n in events.of(event, view)]


def kinds(notes: Iterable[LogEvent]) -> list[str]:
    """Return the kinds of notes."""
    return [n.kind for n in notes]


def of(*records: Record) -> list[LogEvent]:
    """Return the notes of a change."""
    return list(change_events(Change(records)))


def test_roles_coming_and_going_are_told() -> None:
    """Claims, failures and losses each have their line."""
    events, view = LogEvents(), a_view(1).view
    assert told(events, ControllerClaimed(ControllerEpoch(4)), view) == [("claimed", Level.INFO)]
    assert told(events, ClaimFailed("race"), view) == [("claim_failed", Level.WARNING)]
    assert told(events, Deposed("moved"), view) == [("controller_role_ended", Level.INFO)]
    assert told(events, LeadershipLost("expired"), view) == [("leadership_lost", Level.WARNING)]
    assert told(events, ShutdownRequested(), view) == [("shutdown_requested", Level.INFO)]
    assert told(events, TimerFired("claim"), view) == []


def test_brokers_are_told_as_they_join_bounce_and_die() -> None:
    """The first read tells nothing: it changed nothing."""
    events, built = LogEvents(), a_view(1, 2)
    assert told(events, TimerFired("claim"), a_view().view) == []
    assert told(events, BrokersRead(built.view.brokers), built.view) == []
    built.view.brokers = {BrokerId(2): broker(2, epoch=500), BrokerId(3): broker(3)}
    notes = list(events.of(BrokersRead(built.view.brokers), built.view))
    assert [(n.kind, n.fields["broker"]) for n in notes] == [
        ("broker_joined", 3),
        ("broker_died", 1),
        ("broker_bounced", 2),
    ]


def test_a_plan_is_told_once() -> None:
    """Our own writes of the node bring it back again and again."""
    events, view = LogEvents(), a_view(1).view
    first = LegacyPlanRead(plan({tp(): (1,)}, czxid=50))
    assert told(events, first, view) == [("plan_seen", Level.INFO)]
    assert told(events, first, view) == []
    assert told(events, LegacyPlanRead(None), view) == []
    assert told(events, LegacyPlanRead(plan({}, czxid=51)), view) == [("plan_seen", Level.INFO)]


def test_what_cannot_be_understood_is_told_once_for_each_reason() -> None:
    """A znode that stays broken does not fill the log."""
    events, view = LogEvents(), a_view(1).view
    broken = TopicsRead({"t": "it is not JSON"})
    assert told(events, broken, view) == [("topic_unreadable", Level.WARNING)]
    assert told(events, broken, view) == []
    assert told(events, TopicsRead({"t": None}), view) == []
    assert told(events, broken, view) == [("topic_unreadable", Level.WARNING)]
    assert told(events, StatesRead({tp(): "empty"}), view) == [("state_unreadable", Level.WARNING)]
    assert told(events, SpecsRead({}, {"t-0": "empty"}), view) == [
        ("goal_unreadable", Level.WARNING)
    ]
    assert told(events, TopicConfigsRead({"t": "timed out"}), view) == [
        ("topic_config_unreadable", Level.WARNING)
    ]
    good = TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)})
    assert told(events, good, view) == []


def test_thousands_of_broken_znodes_are_summed_up() -> None:
    """A bounded number of lines, and how many there would have been."""
    broken = SpecsRead({}, {f"t-{n}": "empty" for n in range(LINES_MAX + 7)})
    notes = list(LogEvents().of(broken, a_view(1).view))
    assert len(notes) == LINES_MAX + 1
    assert (notes[-1].kind, notes[-1].fields) == ("goal_unreadable_more", {"count": 7})


def test_refused_requests_and_partitions_are_told_by_error() -> None:
    """One line per error and broker, with a few partitions as a sample."""
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


def test_a_broker_that_knows_the_epoch_already_is_no_news() -> None:
    """At the begin of a tenure every broker is told what most of them know."""
    results = (LeaderAndIsrResult(tp(), LeaderEpoch(1), 11),)
    answer = LeaderAndIsrAnswered(BrokerId(1), BrokerEpoch(101), 0, results, resent=False)
    assert list(LogEvents().of(answer, a_view(1).view)) == []


def test_a_failed_log_directory_is_a_warning() -> None:
    """An empty read of the directory is nothing."""
    events, view = LogEvents(), a_view(1).view
    failed = LogDirEventsRead(("log_dir_event_1",), frozenset({BrokerId(1)}))
    assert told(events, failed, view) == [("log_directory_failed", Level.WARNING)]
    assert told(events, LogDirEventsRead((), frozenset()), view) == []


def test_eligibility_is_told_when_it_changes() -> None:
    """Why native is refused is told once, and when it no longer is."""
    events = LogEvents()
    good, bad = a_view(1).view, a_view(1, options=Options(controller_id=1)).view
    assert kinds(events.eligibility(good)) == []
    assert kinds(events.eligibility(bad)) == ["native_refused"]
    assert kinds(events.eligibility(bad)) == []
    assert kinds(events.eligibility(good)) == ["native_possible"]


def test_every_durable_end_has_its_line() -> None:
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
            YieldedRecord(frozenset({"gone"})),
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
        "yielded",
    ]


def test_an_acceptance_tells_original_and_target() -> None:
    """The line alone is enough to go back by hand."""
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
    }


def test_a_state_is_told_unless_a_phase_tells_it() -> None:
    """An election has its own line; a step's write is told by the phase."""
    write = StateRecord(
        tp(), BrokerId(1), LeaderEpoch(4), replicas(1, 2), ControllerEpoch(9), ZkVersion(6)
    )
    assert kinds(of(write)) == ["leader_changed"]
    assert of(write, PhaseRecord(tp(), Syncing(), Instant(1.0), "")) == []


def test_refusals_are_told_one_by_one_up_to_a_number() -> None:
    """A plan of ten thousand bad entries does not make ten thousand lines."""
    refusal = Refusal(REQUEST, "t-0", RefusalReason.MALFORMED, "no")
    notes = of(RefusalRecord((refusal,) * (LINES_MAX + 3)))
    assert kinds(notes) == ["refused"] * LINES_MAX + ["refused_more"]
    assert notes[0].fields["reason"] == "malformed"
    assert notes[-1].fields == {"request": REQUEST, "entries": 3}


def test_one_partitions_wait_is_for_developers() -> None:
    """Thousands wait for their turn; operators read a line for each reason."""
    (note,) = of(BlockedRecord(tp(), Blocked(BlockedBy.LIMIT, "full"), Instant(1.0)))
    assert note == LogEvent(
        "waits",
        Level.DEBUG,
        {"topic": "t", "partition": 0, "by": "limit", "detail": "full"},
    )
    assert of(BlockedRecord(tp(), None, Instant(1.0))) == []
