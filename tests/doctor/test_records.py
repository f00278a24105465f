"""Tests of ``controller.doctor.znode_checks``."""

from __future__ import annotations

from controller.core.model import ZkVersion, Zxid
from controller.core.pacing.throttle_settings import Entity
from controller.core.requests.submissions import LegacyPlan
from controller.doctor.broker_answers import SettingVerdicts
from controller.doctor.findings import Severity
from controller.doctor.znode_checks import (
    dead_targets,
    kill_switch,
    legacy_plan,
    lost_records,
    rejected_settings,
    unreadable_znodes,
)
from tests.core.builders import replicas, tp
from tests.doctor.builders import SnapshotBuilder, found, subjects

PLAN = LegacyPlan({tp(): replicas(1)}, ZkVersion(0), Zxid(3))


def test_a_record_of_a_partition_that_does_not_exist_is_lost() -> None:
    """One of a partition that does is not."""
    built = SnapshotBuilder(1).partition(tp(0), (1,)).spec(tp(0), (1,))
    assert found(lost_records, built) == []
    built.spec(tp(1), (1, 2))
    assert found(lost_records, built) == [
        ("/admin/reassignments/t/1", "to 1,2 by legacy-1, but the partition does not exist")
    ]


def test_a_recorded_target_that_is_dead_is_found() -> None:
    """It would be waited for."""
    built = SnapshotBuilder(1).spec(tp(0), (1,))
    assert found(dead_targets, built) == []
    built.spec(tp(1), (1, 2))
    assert subjects(dead_targets, built) == ["t-1"]


def test_what_cannot_be_understood_is_found_with_its_reason() -> None:
    """By its path."""
    built = SnapshotBuilder(1)
    assert found(unreadable_znodes, built) == []
    built.with_znodes(unreadable={"/brokers/ids/2": "not JSON"})
    assert found(unreadable_znodes, built) == [("/brokers/ids/2", "not JSON")]


def test_a_plan_without_a_leading_daemon_is_found() -> None:
    """With a daemon that leads it is as it should be."""
    built = SnapshotBuilder(1)
    assert found(legacy_plan, built) == []
    assert found(legacy_plan, built.with_znodes(legacy=PLAN)) == []
    (finding,) = legacy_plan(built.with_znodes(daemons=()).build())
    assert finding.check == "legacy_plan_left"


def test_a_plan_that_cannot_be_understood_is_found() -> None:
    """Daemon or not."""
    plan = LegacyPlan({}, ZkVersion(0), Zxid(3), unreadable="not JSON")
    (finding,) = legacy_plan(SnapshotBuilder(1).with_znodes(legacy=plan).build())
    assert (finding.check, finding.evidence) == ("legacy_plan_unreadable", "not JSON")


def test_the_kill_switch_is_found() -> None:
    """It may have been forgotten."""
    built = SnapshotBuilder(1)
    assert found(kill_switch, built) == []
    assert subjects(kill_switch, built.with_znodes(kill_switch=True)) == ["/admin/reassign_cancel"]


def test_settings_that_brokers_reject_are_critical() -> None:
    """A broker that restarts may not start with them."""
    rejected = {Entity("topics/t"): "Invalid value soon", Entity("brokers/1"): "Bad x"}
    built = SnapshotBuilder(1).with_parts(settings=SettingVerdicts(rejected=rejected))
    first, second = rejected_settings(built.build())
    assert (first.subject, second.subject) == ("/config/brokers/1", "/config/topics/t")
    assert first.severity is Severity.CRITICAL
    assert "--entity-type topics" in second.advice
    assert "Invalid value soon" in second.evidence


def test_settings_of_which_brokers_say_nothing_are_a_remark() -> None:
    """One for each reason."""
    unknown = {
        Entity("topics/a"): "error 29",
        Entity("topics/b"): "error 29",
        Entity("brokers/9"): "the broker is not live",
    }
    built = SnapshotBuilder(1).with_parts(settings=SettingVerdicts(unknown=unknown))
    assert subjects(rejected_settings, built) == [
        "/config/topics/a and 1 more",
        "/config/brokers/9",
    ]
    assert all(f.severity is Severity.INFO for f in rejected_settings(built.build()))
    by_path = {f.subject: f.advice for f in rejected_settings(built.build())}
    assert "AlterConfigs" in by_path["/config/topics/a and 1 more"]
    assert "it judges its own settings when it starts" in by_path["/config/brokers/9"]
