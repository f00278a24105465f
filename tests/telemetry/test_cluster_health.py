"""The load on the cluster is shown, and logged when it begins and when it ends."""

from __future__ import annotations

from dataclasses import replace

from controller.core.core_settings import Options
from controller.core.cycle import observe
from controller.core.model import BrokerId, Instant, ZkVersion
from controller.core.pacing.records import (
    AppliedThrottleEndedRecord,
    AppliedThrottleRecord,
    PaceRecord,
)
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    AppliedThrottle,
    Entity,
    EntityConfig,
)
from controller.core.reassignments.model import Load
from controller.core.records import Change, Record
from controller.core.view import ClusterView
from controller.telemetry.cluster_health import HealthEvents, cluster_health
from controller.telemetry.log_events import SHOWN_MAX, Level, LogEvent, LogEvents, change_events
from tests.core.builders import replicas, tp
from tests.core.disks.reports import report
from tests.core.tenure_views import NOW, a_tenure, isr, reassign, settings

BROKER_4 = Entity("brokers/4")


def a_view() -> ClusterView:
    """Return a cluster in which partition 0 of ``t`` is copied to broker 4."""
    view = a_tenure({"t": [(1, 2, 3)], "u": [(4, 5, 6)]}, Options())
    reassign(view, tp(), 1, 2, 4)
    view.reassignments.by_partition[tp()].load = Load(replicas(4), BrokerId(1))
    return view


def throttled(view: ClusterView, rate: str) -> None:
    """Let broker 4 have a throttle of ours, and its partition grow by 100 bytes/s."""
    values = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
    view.pacing_process.applied_throttles[BROKER_4] = AppliedThrottle(
        BROKER_4, values, {}, ZkVersion(0)
    )
    view.pacing_leadership.entity_configs[BROKER_4] = EntityConfig(values, ZkVersion(0))
    for seconds, size in ((0, 0), (60, 6000)):
        observe(view, report(1, {tp(): size}, at=NOW + seconds), Instant(NOW + seconds))


def kinds(events: HealthEvents, view: ClusterView) -> list[str]:
    """Return the kinds of the present events."""
    return [note.kind for note in events.of(view, cluster_health(view, (tp(),)))]


def only(record: Record) -> LogEvent:
    """Return the one note of a record."""
    (note,) = change_events(Change((record,)))
    return note


def test_under_min_isr_is_logged_at_start_and_end() -> None:
    """The status has it in between."""
    view, events = a_view(), HealthEvents()
    settings(view, u=2)
    isr(view, tp(0, "u"), 4)
    assert kinds(events, view) == ["under_min_isr"]
    assert kinds(events, view) == []
    shown = cluster_health(view, ()).as_status()["under_min_isr"]
    assert shown["partitions"] == 1
    assert "u-0" in shown["detail"]
    isr(view, tp(0, "u"), 4, 5)
    assert kinds(events, view) == ["under_min_isr_ended"]


def test_throttle_below_the_produce_rate_is_logged_once() -> None:
    """Copies under it may never end."""
    view, events = a_view(), HealthEvents()
    throttled(view, "50")
    assert kinds(events, view) == ["throttle_below_produce_rate"]
    assert kinds(events, view) == []
    (shown,) = cluster_health(view, (tp(),)).slow.values()
    assert shown.startswith("broker 4 receives copies at 50 bytes/s")
    throttled(view, "5000")
    assert cluster_health(view, (tp(),)).slow == {}
    assert kinds(events, view) == []
    throttled(view, "50")
    assert kinds(events, view) == ["throttle_below_produce_rate"]


def test_setting_of_others_is_logged_once_and_in_the_status() -> None:
    """It explains the rate of the copies."""
    view, events = a_view(), HealthEvents()
    view.pacing_leadership.kept_throttles[BROKER_4] = (f"{LEADER_RATE}=7",)
    assert kinds(events, view) == ["throttle_of_others_kept"]
    assert kinds(events, view) == []
    assert cluster_health(view, ()).as_status()["throttles"]["kept"] == [
        f"brokers/4: {LEADER_RATE}=7"
    ]


def test_throttle_events_have_shortened_lists() -> None:
    """A list may be as long as a znode."""
    long = "0:1," * SHOWN_MAX
    lease = AppliedThrottle(Entity("topics/t"), {"leader": long}, {}, None)
    note = only(AppliedThrottleRecord(lease, (("leader", long),), None))
    assert note.kind == "throttle_set"
    assert len(note.fields["values"]["leader"]) == SHOWN_MAX
    note = only(AppliedThrottleEndedRecord(Entity("topics/t"), ZkVersion(0), None, None))
    assert (note.kind, note.fields["restored"]) == ("throttle_lifted", False)


def test_change_of_the_limit_in_flight_is_logged_with_evidence() -> None:
    """An interval without a change has no event."""
    note = only(PaceRecord(10, 5, "broker 3 took 9.0 s to answer", NOW))
    assert note.level is Level.INFO
    assert dict(note.fields) == {
        "before": 10,
        "in_flight_max": 5,
        "evidence": "broker 3 took 9.0 s to answer",
    }
    assert list(change_events(Change((PaceRecord(5, 5, "nothing", NOW),)))) == []


def test_broker_without_sizes_is_logged_once() -> None:
    """It is asked every minute."""
    view, events = a_view(), LogEvents()
    answer = report(3, {})
    silent = replace(answer, problem="no answer in time")
    (note,) = events.of(silent, view)
    assert (note.kind, note.fields["broker"]) == ("sizes_unknown", 3)
    assert list(events.of(silent, view)) == []
    assert list(events.of(answer, view)) == []
    assert len(list(events.of(silent, view))) == 1


def test_unreachable_broker_is_logged_once_per_change() -> None:
    """Not at each attempt, and not outside of a tenure."""
    view, events = a_view(), HealthEvents()
    (first,) = events.reach(view, {BrokerId(4): "refused"})
    assert (first.kind, first.level) == ("broker_unreachable", Level.WARNING)
    assert first.fields == {"broker": 4, "reason": "refused"}
    assert list(events.reach(view, {BrokerId(4): "timed out"})) == []
    assert [n.kind for n in events.reach(view, {})] == ["broker_reachable"]
    list(events.reach(view, {BrokerId(4): "refused"}))
    del view.cluster.brokers[BrokerId(4)]
    assert list(events.reach(view, {})) == []
    list(events.reach(view, {BrokerId(5): "refused"}))
    view.tenure.held = None
    assert list(events.reach(view, {})) == []
