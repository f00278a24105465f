"""The room on disks, for the status document: what brokers reported and what copies still take."""

from __future__ import annotations

from typing import Any

from controller.core.scheduling.disk_space import reserved_in, unguarded
from controller.core.view import ClusterView


def disks_of(view: ClusterView) -> dict[str, Any]:
    """Return the reserve, the log directories of each broker, and the brokers without a guard."""
    min_free = view.options.min_free
    return {
        "min_free": None if min_free is None else str(min_free),
        "min_free_bytes": 0 if min_free is None else min_free.bytes,
        "min_free_share": 0.0 if min_free is None else min_free.share,
        "unguarded": {str(broker): why for broker, why in unguarded(view).items()},
        "log_dirs": [
            {
                "broker": broker,
                "path": directory.path,
                "failed": directory.is_failed,
                "total_bytes": directory.total,
                "usable_bytes": directory.usable,
                "estimated": directory.is_estimate,
                "reserved_bytes": reserved_in(disk, directory),
            }
            for broker, disk in sorted(view.tenure.disks.brokers.items())
            for directory in (() if disk.report is None else disk.report.dirs)
        ],
    }
