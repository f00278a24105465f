"""Throttles of ours that no reassignment needs: ``doctor`` finds them and can lift them."""

from __future__ import annotations

from controller.core.applied_throttles import AppliedThrottle
from controller.core.participants import Participants
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import GOALS, LEADER, LEASES, TOPICS


def unneeded_throttles(snapshot: Snapshot) -> list[AppliedThrottle]:
    """
    Return the throttles that no recorded reassignment needs.

    None where any record of a reassignment is unreadable: it may need any throttle.
    """
    znodes = snapshot.znodes
    if znodes.is_hidden(TOPICS, GOALS, LEASES, LEADER) or any(
        path.startswith(f"{GOALS}/") for path in znodes.unreadable
    ):
        return []
    participants = Participants()
    for partition, spec in znodes.specs.items():
        participants.put(partition, spec, znodes.assignment(partition))
    applied = sorted(znodes.applied_throttles.items())
    return [throttle for entity, throttle in applied if entity not in participants.requests]
