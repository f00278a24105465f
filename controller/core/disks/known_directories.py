"""Which log directories of brokers are known, and why a replica cannot be in one of them."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.model import BrokerId, LogDirs
from controller.core.view import ClusterView


def directories_of(view: ClusterView, broker: BrokerId) -> Mapping[str, bool] | None:
    """Return the directories of a live broker, and whether each failed; None: not known."""
    return view.disks.dirs_of(broker, view.registration_of(broker))


def unknown_brokers(view: ClusterView, log_dirs: LogDirs) -> set[BrokerId]:
    """Return the live brokers whose directories have to be known to judge these."""
    return {
        broker
        for broker, _ in log_dirs
        if broker in view.cluster.brokers
        and directories_of(view, broker) is None
        and _lasting_silence(view, broker) is None
    }


def problem_of(view: ClusterView, log_dirs: LogDirs) -> str | None:
    """Return why replicas cannot be in these directories, as far as it is known."""
    for broker, path in log_dirs:
        if broker not in view.cluster.brokers:
            return f"broker {broker} is not live, so its log directory {path} cannot be used"
        known, why = directories_of(view, broker), _lasting_silence(view, broker)
        if known is not None:
            if path not in known:
                return f"broker {broker} has no log directory {path}"
            if known[path]:
                return f"log directory {path} of broker {broker} is offline"
        elif why is not None:
            return f"broker {broker} does not report its log directories: {why}"
    return None


def _lasting_silence(view: ClusterView, broker: BrokerId) -> str | None:
    silence = view.disks.silence_of(broker, view.registration_of(broker))
    return silence.why if silence is not None and silence.is_lasting else None
