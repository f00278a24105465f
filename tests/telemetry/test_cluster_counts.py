"""Tests of ``controller.telemetry.cluster_counts``."""

from __future__ import annotations

from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, TopicPartition
from controller.core.reassignments.phases import AwaitingController, Syncing
from controller.telemetry.cluster_counts import (
    cluster_counts,
    role_counts,
    work_counts,
)
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, a_view, partition_state, run_to_end


def test_reassignments_are_counted_by_phase_and_reason() -> None:
    """Every reassignment has one phase and at most one reason."""
    built = a_view(1).with_reassignment(tp(0), (4,), Syncing(), since=0.0, step=1)
    view = built.with_reassignment(tp(1), (4,)).with_reassignment(tp(2), (4,)).view
    view.reassignments.by_partition[tp(1)].blocked = Blocked(BlockedBy.LIMIT, "full")
    counts = run_to_end(work_counts(view, Instant(1000.0), 300.0))
    assert counts.phases == {"A2-syncing": 1, "pending": 2}
    assert counts.blocked == {"limit": 1}
    assert counts.stalled == {tp(0): "none"}
    assert counts.in_flight == [tp(0)]
    assert counts.moving == {REQUEST: 1}
    assert counts.waiting == {REQUEST: 2}


def test_queued_partition_is_not_stalled() -> None:
    """A pending partition with a dead broker is."""
    built = a_view(1)
    for number, by in enumerate((BlockedBy.LIMIT, BlockedBy.BROKER_DEAD)):
        built.with_reassignment(tp(number), (4,), since=0.0)
        built.view.reassignments.by_partition[tp(number)].blocked = Blocked(by, "so it is")
        built.view.reassignments.by_partition[tp(number)].blocked_since = Instant(500.0)
    assert run_to_end(work_counts(built.view, Instant(799.0), 300.0)).stalled == {}
    assert run_to_end(work_counts(built.view, Instant(800.0), 300.0)).stalled == {
        tp(1): "broker_dead"
    }


def test_copy_that_comes_closer_is_not_stalled() -> None:
    """However long it takes and whatever else it waits for; where nothing grows, it is."""
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,))
    view = built.with_reassignment(tp(), (2, 3), Syncing(), step=1, since=0.0).view
    reassignment = view.reassignments.by_partition[tp()]
    reassignment.wait(Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "3", is_copying=True), Instant(0.0))

    def stalled(gained_at: float | None) -> dict[TopicPartition, str]:
        at = None if gained_at is None else Instant(gained_at)
        counts = run_to_end(work_counts(view, Instant(1000.0), 300.0, lambda _: at))
        return dict(counts.stalled)

    assert stalled(701.0) == {}
    assert stalled(700.0) == stalled(None) == {tp(): "replica_not_in_isr"}
    reassignment.wait(Blocked(BlockedBy.BROKER_DEAD, "2"), Instant(0.0))
    assert stalled(701.0) == {}
    assert stalled(700.0) == stalled(None) == {tp(): "broker_dead"}


def test_standby_counts_no_stalls() -> None:
    """Two daemons would count everything twice."""
    view = a_view(1, epoch=None).with_reassignment(tp(), (4,), since=0.0, step=1).view
    assert run_to_end(work_counts(view, Instant(1000.0), 300.0)).blocked == {"controller_role": 1}
    view.role.leading = False
    counts = run_to_end(work_counts(view, Instant(1000.0), 300.0))
    assert (counts.blocked, counts.stalled) == ({}, {})


def test_alter_request_is_unanswered_until_its_response() -> None:
    """Whatever the response says."""
    built = a_view(1)
    for number, error in enumerate((None, 0, 39, None)):
        phase = AwaitingController((BrokerId(4),), Instant(0.0), error)
        built.with_reassignment(tp(number), (4,), phase, step=1)
    built.view.pacing.in_flight = 4
    assert role_counts(built.view, Instant(1.0))["orders_unanswered"] == 2


def test_the_cluster_is_counted_as_kafka_counts_it() -> None:
    """Offline: no live leader. Imbalanced: the leader is not the first replica."""
    built = a_view(1, 2)
    built.with_partition(tp(0), (1, 2), state=partition_state(1, (1, 2)))
    built.with_partition(tp(1), (1, 2), state=partition_state(2, (1, 2)))
    built.with_partition(tp(2), (3, 1), state=partition_state(3, (3,)))
    built.with_partition(tp(3), (1, 2), state=partition_state(-1, (2,)))
    built.with_partition(tp(4), (1, 2))
    built.with_partition(tp(0, "going"), (3,), state=partition_state(3, (3,)))
    built.view.deletions_session.markers = frozenset({"going"})
    assert run_to_end(cluster_counts(built.view)) == {
        "offline_partitions": 2,
        "preferred_replica_imbalance": 2,
        "topics": 2,
        "cluster_partitions": 6,
    }


def test_replica_on_a_failed_log_directory_does_not_lead() -> None:
    """Its broker is live, the replica is not."""
    built = a_view(1).with_partition(tp(), (1,), state=partition_state(1, (1,)))
    built.view.leadership.offline.add((BrokerId(1), tp()))
    assert run_to_end(cluster_counts(built.view))["offline_partitions"] == 1
