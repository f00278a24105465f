"""Which throttles of ours nobody needs any more: what ``doctor`` finds, and what it can mend."""

from __future__ import annotations

from controller.core.applied_throttles import AppliedThrottle
from controller.core.participants import Participants
from controller.doctor.snapshot import Snapshot
from controller.znodes.paths import GOALS, LEADER, LEASES, TOPICS


def unneeded_throttles(snapshot: Snapshot) -> list[AppliedThrottle]:
    """
    Return the leases of throttles that no recorded reassignment concerns.

    Where a record cannot be understood nobody knows what it concerns: then none is an orphan.
    """
    znodes = snapshot.znodes
    if znodes.is_hidden(TOPICS, GOALS, LEASES, LEADER) or any(
        path.startswith(f"{GOALS}/") for path in znodes.unreadable
    ):
        return []
    participants = Participants()
    for partition, spec in znodes.specs.items():
        participants.put(partition, spec, znodes.assignment(partition))
    leased = sorted(znodes.applied_throttles.items())
    return [lease for entity, lease in leased if entity not in participants.requests]
