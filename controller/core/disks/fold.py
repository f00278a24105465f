"""Fold events of brokers' log directories into the view."""

from __future__ import annotations

from typing import assert_never

from controller.core.disks import disk_space, log_directories, partition_sizes, records
from controller.core.model import Instant
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.DiskEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.LogDirEventsRead():
            view.leadership_process.notifications["log_dir_events"] = event.names
            view.due.log_dir_brokers |= event.brokers
            for broker in event.brokers:
                view.disks.of(broker).changed_at = now
        case records.LogDirsDescribed():
            _log_dirs_described(view, event, now)
        case records.LogDirsAltered():
            log_directories.log_dirs_altered(view, event, now)
        case _:
            assert_never(event)


def _log_dirs_described(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    """
    Take what a broker described.

    Sizes change slowly. Everything else that it said before the claim, or in an earlier
    registration, proves nothing: another controller, or a restart, may have changed it since.
    """
    ledger, held = view.disks, view.tenure.held
    disk = ledger.brokers.get(event.broker)
    if disk is not None and disk.awaited == event.broker_epoch:
        disk.awaited = None
    partition_sizes.sizes_described(view, event, now)
    disk_space.resize_copies(view)
    disk_space.forget_departed(ledger, view.cluster.brokers)
    is_outdated = held is not None and event.at < held.since
    if is_outdated or view.registration_of(event.broker) != event.broker_epoch:
        return
    log_directories.entries_concerned(view, event, now)
    if event.problem is None:
        partition_sizes.note_missing(view, event)
        partition_sizes.note_orphan_logs(view, event)
        disk_space.space_described(view, event)
    log_directories.placements_described(view, event, now)
