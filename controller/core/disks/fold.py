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
                view.tenure.directories.brokers.pop(broker, None)
        case records.LogDirsDescribed():
            log_directories.log_dirs_described(view, event, now)
        case records.LogDirsAltered():
            log_directories.log_dirs_altered(view, event, now)
        case records.SizesRead():
            partition_sizes.sizes_read(view, event, now)
            disk_space.disks_read(view, event)
        case _:
            assert_never(event)
