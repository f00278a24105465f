"""Tests of ``controller.doctor.readiness_checks``."""

from __future__ import annotations

from dataclasses import replace

from controller.core.model import BrokerId, RequestId, ZkVersion, Zxid
from controller.core.pacing.controls import Evacuation
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity
from controller.core.requests.submissions import LegacyPlan
from controller.doctor.checks import CHECKS, READINESS, examine
from controller.doctor.findings import Severity
from controller.znodes.paths import QUEUE
from tests.core.builders import replicas, tp
from tests.doctor.builders import SnapshotBuilder

LEASE = AppliedThrottle(Entity("brokers/1"), {"rate": "5"}, {"rate": None}, ZkVersion(0))


def built() -> SnapshotBuilder:
    """Return a cluster at rest."""
    return SnapshotBuilder(1, 2).partition(tp(), (1, 2))


def missing(snapshot: SnapshotBuilder) -> list[tuple[str, str]]:
    """Return check and subject of each finding."""
    return [(f.check, f.subject) for f in examine(snapshot.build(), checks=READINESS)]


def test_a_cluster_at_rest_is_ready_with_or_without_a_daemon() -> None:
    """Its daemon may stay until the end."""
    assert missing(built()) == []
    assert missing(built().with_znodes(daemons=())) == []


def test_everything_that_is_left_is_named() -> None:
    """Each with what it is about."""
    plan = LegacyPlan({tp(): replicas(1)}, ZkVersion(0), Zxid(3))
    left = built().spec(tp(0), (2, 1)).partition(tp(1), (1, 2), adding=(2,)).orphan(3, tp())
    left.with_znodes(
        submitted=(QUEUE,),
        drained=frozenset({BrokerId(2)}),
        legacy=plan,
        open_requests=(RequestId("request_1"),),
        evacuated={BrokerId(2): Evacuation("kernel", "ann", 1)},
        applied_throttles={LEASE.entity: LEASE},
    )
    assert missing(left) == [
        ("not_accepted", "/admin/reassign_partitions_queue"),
        ("not_accepted", "/reassigner/control/drains"),
        ("not_accepted", "/admin/reassign_partitions"),
        ("open_request", "/reassigner/outcomes/request_1"),
        ("broker_evacuated", "broker 2"),
        ("reassignment", "t-0"),
        ("foreign_reassignment", "t-1"),
        ("orphan", "t-0 on broker 3"),
        ("throttle", "brokers/1"),
    ]


def test_without_a_daemon_nobody_ends_what_is_left() -> None:
    """That is said first."""
    left = built().with_znodes(daemons=(), applied_throttles={LEASE.entity: LEASE})
    assert missing(left) == [("nobody_leads", "/reassigner/leader"), ("throttle", "brokers/1")]


def test_the_role_in_the_hands_of_a_daemon_is_left() -> None:
    """That of a broker is not."""
    guards = built().znodes.guards
    assert guards is not None
    held = replace(guards, controller_broker=BrokerId(1_000_000))
    assert missing(built().with_znodes(guards=held)) == [("role_held", "/controller")]


def test_what_may_not_be_read_is_not_ready() -> None:
    """It may hide anything."""
    hidden = built().with_znodes(hidden=frozenset({"/reassigner/throttles"}))
    assert missing(hidden) == [("hidden", "/reassigner/throttles")]


def test_evacuated_brokers_are_named_without_alarm_where_nothing_has_to_end() -> None:
    """An operator may have forgotten to return leaderships after the maintenance."""
    left = built().with_znodes(evacuated={BrokerId(2): Evacuation("kernel", "ann", 1)})
    (found,) = (f for f in examine(left.build(), checks=CHECKS) if f.check == "broker_evacuated")
    assert (found.severity, found.subject) == (Severity.INFO, "broker 2")
    assert found.evidence.endswith(
        "until they are returned by ann: kernel; broker 2 leads no partition: it can be restarted"
    )
    assert "leaders --return 2" in found.advice
