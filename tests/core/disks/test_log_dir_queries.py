"""Brokers are queried where there is work, as often as it needs."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.cycle import record_effect
from controller.core.disks.log_dir_queries import SOON_S, query_log_dirs
from controller.core.effects import DescribeLogDirs, DescribePurpose, SetTimer
from controller.core.model import (
    FOREIGN,
    Instant,
    MinFree,
    PartitionAssignment,
    Route,
    TopicPartition,
)
from controller.core.reassignments.phases import Syncing
from controller.core.requests.model import Request
from controller.core.view import ClusterView
from controller.core.worklist import Worklist
from tests.core.builders import replicas, tp
from tests.core.tenure_views import NOW, a_tenure, reassign


def a_view() -> ClusterView:
    """Return a cluster with one topic of four partitions."""
    return a_tenure({"t": [(1, 2, 3)] * 4}, Options())


def requested(view: ClusterView, seconds: float) -> tuple[TopicPartition, ...]:
    """Return what is queried so long after the begin, and note that it was."""
    at = Instant(NOW + seconds)
    partitions: tuple[TopicPartition, ...] = ()
    for effect in query_log_dirs(view, Worklist(timer=True), at).effects:
        record_effect(view, effect, at)
        if isinstance(effect, DescribeLogDirs):
            partitions += effect.partitions
    return partitions


def copies(view: ClusterView, partition: TopicPartition) -> None:
    """Let 4 copy a partition."""
    view.reassignments.by_partition[partition].phase = Syncing()
    adding = PartitionAssignment(replicas(1, 2, 3, 4), replicas(4))
    view.topics.by_name[partition.topic].partitions[partition.partition] = adding


def test_nothing_is_queried_without_work() -> None:
    """Brokers answer for partitions they are about to copy, not for a cluster at rest."""
    assert requested(a_view(), 0) == ()


def test_sizes_of_what_is_in_work_are_requested_from_time_to_time() -> None:
    """All together, once per interval."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    assert requested(view, 0) == (tp(0),)
    assert requested(view, 59) == ()
    assert requested(view, 60) == (tp(0),)


def test_running_copies_are_requested_more_often() -> None:
    """What a new replica holds is how far its copy is; what does not copy is not queried again."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    reassign(view, tp(1), 1, 2, 4)
    assert requested(view, 0) == (tp(0), tp(1))
    view.pacing.in_flight = 1
    copies(view, tp(1))
    assert requested(view, 9) == ()
    assert requested(view, 10) == (tp(1),)
    assert requested(view, 19) == ()
    assert requested(view, 20) == (tp(1),)
    assert requested(view, 60) == (tp(0), tp(1))
    assert requested(view, 61) == ()


def test_copies_of_others_are_requested_as_often() -> None:
    """No limit counts them."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    copies(view, tp(0))
    assert requested(view, 0) == (tp(0),)
    assert requested(view, 10) == ()
    view.requests.by_id[FOREIGN] = Request(Route.FOREIGN, NOW, open=1)
    assert requested(view, 20) == (tp(0),)


def test_timer_is_set_for_the_next_query() -> None:
    """A timer in the past would turn the loop for ever."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    requested(view, 0)
    for seconds in (3, 10, 31, 59):
        effects = query_log_dirs(view, Worklist(timer=True), Instant(NOW + seconds)).effects
        timers = [e.at - NOW for e in effects if isinstance(e, SetTimer)]
        assert all(seconds < at <= 60 for at in timers)


def test_new_reassignments_are_requested_soon_and_together() -> None:
    """A limit on bytes and an order by size need them."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    requested(view, 0)
    view.due.log_dirs = False
    reassign(view, tp(1), 1, 2, 4)
    reassign(view, tp(2), 1, 2, 4)
    assert view.due.log_dirs
    view.disks_process.queries.new_since = Instant(NOW + 10)
    assert requested(view, 10) == ()
    timers = query_log_dirs(view, view.due, Instant(NOW + 10)).effects
    assert [e.at for e in timers if isinstance(e, SetTimer)] == [NOW + 10 + SOON_S]
    assert requested(view, 10 + SOON_S) == (tp(1), tp(2))
    assert requested(view, 12) == ()


def test_new_reassignments_are_requested_at_once_where_steps_wait_for_sizes() -> None:
    """Of the brokers concerned; those of the next moment are collected."""
    view = a_tenure({"t": [(1, 2, 3)] * 4}, Options(min_free=MinFree(bytes=1)))
    reassign(view, tp(0), 1, 2, 4)
    assert requested(view, 0) == (tp(0),)
    reassign(view, tp(1), 1, 2, 5)
    first, _ = query_log_dirs(view, Worklist(log_dirs=True), Instant(NOW + 9.9)).effects
    brokers = frozenset(replicas(1, 2, 3, 5))
    assert first == DescribeLogDirs(brokers, (tp(1),), DescribePurpose.NEW)
    record_effect(view, first, Instant(NOW + 9.9))
    reassign(view, tp(2), 1, 2, 5)
    (timer,) = query_log_dirs(view, Worklist(log_dirs=True), Instant(NOW + 9.95)).effects
    assert isinstance(timer, SetTimer)
    assert timer.at == pytest.approx(NOW + 10.0)
    assert requested(view, 10.05) == (tp(2),)


def test_daemon_that_does_not_lead_queries_nothing() -> None:
    """The leading one does."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    view.role.leading = False
    assert requested(view, 0) == ()


def test_progress_is_queried_of_the_brokers_with_a_replica() -> None:
    """The others have nothing of what is copied."""
    view = a_view()
    reassign(view, tp(0), 1, 2, 4)
    requested(view, 0)
    view.pacing.in_flight = 1
    copies(view, tp(0))
    query, _ = query_log_dirs(view, Worklist(timer=True), Instant(NOW + 10)).effects
    brokers = frozenset(replicas(1, 2, 3, 4))
    assert query == DescribeLogDirs(brokers, (tp(0),), DescribePurpose.COPIES)
