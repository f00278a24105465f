"""Tests of ``controller.doctor.checks``."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import AppliedThrottle, Entity
from controller.doctor import (
    environment_checks,
    migration_checks,
    partition_checks,
    readiness_checks,
    znode_checks,
)
from controller.doctor.checks import CHECKS, MIGRATION, READINESS, examine
from controller.znodes.paths import (
    APPLIED_THROTTLES,
    BROKER_IDS,
    CONTROLLER,
    LEADER,
    ORPHANS,
    REASSIGNMENTS,
    TOPICS,
)
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder

ROOMS = (
    partition_checks,
    environment_checks,
    migration_checks,
    readiness_checks,
    znode_checks,
)


def test_a_sound_cluster_has_no_findings() -> None:
    """Not even a remark."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1, 2)).min_isr("t", 2)
    assert examine(built.disk(1, [tp()]).disk(2, [tp()]).build()) == []


def test_the_worst_comes_first() -> None:
    """Whatever the order of the checks."""
    built = SnapshotBuilder(1).partition(tp(), (1,)).partition(tp(1), (2,))
    built.with_znodes(daemons=("a:1", "b:1"), kill_switch=True)
    found = [f.severity.value for f in examine(built.build())]
    assert found == sorted(found, key=("critical", "warning", "info").index)
    assert set(found) == {"critical", "warning", "info"}


def test_every_check_is_run() -> None:
    """One that is written and forgotten finds nothing."""

    def checks(room: ModuleType) -> set[object]:
        functions = inspect.getmembers(room, inspect.isfunction)
        return {f for n, f in functions if f.__module__ == room.__name__ and n[0] != "_"}

    assert {*CHECKS, *MIGRATION, *READINESS} == set().union(*map(checks, ROOMS))


def test_what_is_hidden_is_found_and_nothing_is_concluded_from_it() -> None:
    """A topic that may not be read is not missing, nor is what stands on disks for it stray."""
    built = SnapshotBuilder(1).partition(tp(), (1,)).spec(tp(0, "secret"), (1,))
    built.disk(1, [tp(), tp(0, "secret")])
    assert {f.check for f in examine(built.build())} == {"lost_record", "stray_log"}
    built.with_znodes(hidden=frozenset({"/brokers/topics/secret"}))
    (finding,) = examine(built.build())
    assert (finding.check, finding.subject) == ("hidden", "/brokers/topics/secret")


@pytest.mark.parametrize(
    "path", [BROKER_IDS, TOPICS, REASSIGNMENTS, LEADER, APPLIED_THROTTLES, ORPHANS, CONTROLLER]
)
def test_a_hidden_directory_makes_no_finding_of_its_absence(path: str) -> None:
    """As if there were no broker, no topic, no record, no daemon."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1, 2)).spec(tp(), (2, 1))
    built.disk(1, [tp()]).disk(2, [tp()])
    lease = AppliedThrottle(Entity("topics/t"), {"k": "1"}, {"k": None}, ZkVersion(0))
    built.with_znodes(applied_throttles={lease.entity: lease}, hidden=frozenset({path}))
    match path:
        case "/brokers/ids":
            built.with_znodes(brokers={})
        case "/brokers/topics":
            built.with_znodes(topics={}, states={})
        case "/admin/reassignments":
            built.with_znodes(specs={})
        case "/reassigner/leader":
            built.with_znodes(daemons=())
        case "/controller":
            built.with_znodes(guards=None)
        case _:
            pass
    assert [(f.check, f.subject) for f in examine(built.build())] == [("hidden", path)]
    if path in (TOPICS, REASSIGNMENTS, APPLIED_THROTTLES, LEADER):
        assert built.build().znodes.unneeded_throttles() == []
