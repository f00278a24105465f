"""
Failpoints: names for the instants between two writes or sends of a reassignment.

A daemon that dies, dies at one of them. The proof of recovery kills daemons there, in the
simulation (``tests.sim.recoveries``) and on real brokers (``failpoint_daemon``).
``failpoint_names`` decides which instant has which name. The product knows no name: it calls the
optional port ``reactor.ports.Failpoints``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Final


class Failpoint(StrEnum):
    """An instant at which a daemon may die: of a reassignment, new partitions, a deletion."""

    CLAIMED = "claimed"
    LIVE_BROKERS_NOTIFIED = "live-brokers-notified"
    REQUEST_OPENED = "request-opened"
    BEFORE_ACCEPTED = "before-accepted"
    ACCEPTED = "accepted"
    REQUEST_DELETED = "request-deleted"
    BEFORE_THROTTLED = "before-throttled"
    THROTTLED = "throttled"
    BEFORE_A1 = "before-A1"
    A1_WRITTEN = "A1-written"
    A1_REPEATED = "A1-repeated"
    UNLISTED = "unlisted"
    A2_LEADER_NOTIFIED = "A2-leader-notified"
    A2_FOLLOWER_NOTIFIED = "A2-follower-notified"
    A2_UPDATE_METADATA_SENT = "A2-UpdateMetadata-sent"
    SYNCED = "synced"
    NEXT_STEP_WRITTEN = "next-step-written"
    B3_WRITTEN = "B3-written"
    B3_LEADER_NOTIFIED = "B3-leader-notified"
    B3_UPDATE_METADATA_SENT = "B3-UpdateMetadata-sent"
    EXCLUSION_ACKNOWLEDGED = "exclusion-acknowledged"
    B4_STOP_REPLICA_SENT = "B4-StopReplica-sent"
    B5_DELETE_SENT = "B5-delete-sent"
    B5_ACKNOWLEDGED = "B5-acknowledged"
    DROPPED = "dropped"
    STEP_ENDED = "step-ended"
    BEFORE_RETARGETED = "before-retargeted"
    RETARGETED = "retargeted"
    BEFORE_CANCELLED = "before-cancelled"
    CANCELLED = "cancelled"
    CANCELLATION_CHOSEN = "cancellation-chosen"
    STEP_TURNED = "step-turned"
    BEFORE_PLACEMENT = "before-placement"
    PLACEMENT_SENT = "placement-sent"
    PLACING_BEGUN = "placing-begun"
    B6_WRITTEN = "B6-written"
    ORPHAN_RECORDED = "orphan-recorded"
    B8_LEADER_NOTIFIED = "B8-leader-notified"
    B8_UPDATE_METADATA_SENT = "B8-UpdateMetadata-sent"
    ELECTION_WRITTEN = "election-written"
    ELECTION_LEADER_NOTIFIED = "election-leader-notified"
    BEFORE_UNTHROTTLED = "before-unthrottled"
    UNTHROTTLED = "unthrottled"
    OUTCOME_WRITTEN = "outcome-written"
    CANCELLATION_ENDED = "cancellation-ended"
    PLAN_ENDED = "plan-ended"
    ORPHAN_DELETE_SENT = "orphan-delete-sent"
    ORPHAN_ENDED = "orphan-ended"
    BEFORE_TOPIC_WRITTEN = "before-topic-written"
    TOPIC_WRITTEN = "topic-written"
    FIRST_STATES_WRITTEN = "first-states-written"
    FIRST_LEADER_NOTIFIED = "first-leader-notified"
    FIRST_FOLLOWER_NOTIFIED = "first-follower-notified"
    FIRST_UPDATE_METADATA_SENT = "first-UpdateMetadata-sent"
    BEFORE_TOPIC_ANSWERED = "before-topic-answered"
    TOPIC_DELETION_BEGUN = "topic-deletion-begun"
    TOPIC_UPDATE_METADATA_SENT = "topic-UpdateMetadata-sent"
    TOPIC_STOP_REPLICA_SENT = "topic-StopReplica-sent"
    TOPIC_DELETE_SENT = "topic-delete-sent"
    BEFORE_TOPIC_DELETED = "before-topic-deleted"
    TOPIC_PARTLY_DELETED = "topic-partly-deleted"
    TOPIC_DELETED = "topic-deleted"
    BEFORE_DELETION_REQUESTED = "before-deletion-requested"
    DELETION_REQUESTED = "deletion-requested"


NEW_PARTITIONS: Final = (
    Failpoint.BEFORE_TOPIC_WRITTEN,
    Failpoint.TOPIC_WRITTEN,
    Failpoint.FIRST_STATES_WRITTEN,
    Failpoint.FIRST_LEADER_NOTIFIED,
    Failpoint.FIRST_FOLLOWER_NOTIFIED,
    Failpoint.FIRST_UPDATE_METADATA_SENT,
    Failpoint.BEFORE_TOPIC_ANSWERED,
)
"""Those of a topic that the daemon creates or extends for a client."""

REQUESTED_DELETIONS: Final = (
    Failpoint.BEFORE_DELETION_REQUESTED,
    Failpoint.DELETION_REQUESTED,
)
"""Those of a topic that a client wants to be deleted."""


MEANING: Final[Mapping[Failpoint, str]] = {
    Failpoint.CLAIMED: "the claim is made, no broker has heard of it",
    Failpoint.LIVE_BROKERS_NOTIFIED: "the first broker got the UpdateMetadata that fences the last "
    "controller's requests",
    Failpoint.REQUEST_OPENED: "a submitted request is noted as being accepted, none of its entries "
    "is",
    Failpoint.BEFORE_ACCEPTED: "the plan is read and judged, nothing of it is recorded",
    Failpoint.ACCEPTED: "the specs of the accepted entries are durable, nothing else is",
    Failpoint.REQUEST_DELETED: "every entry of a submitted request was accepted or refused, and "
    "its znode is gone",
    Failpoint.BEFORE_THROTTLED: "throttles are decided, neither they nor their records are written",
    Failpoint.THROTTLED: "throttles are in the settings and their records are durable, nothing is "
    "copied under them",
    Failpoint.BEFORE_A1: "a first step is decided, nothing of it is written",
    Failpoint.A1_WRITTEN: "a first step is in the topic znode and the state, nothing is sent",
    Failpoint.A1_REPEATED: "a step found in the topic znode has its leader epoch bumped anew, "
    "nothing is sent",
    Failpoint.UNLISTED: "what waits was taken out of the legacy znode",
    Failpoint.A2_LEADER_NOTIFIED: "the leader got the step's LeaderAndIsr",
    Failpoint.A2_FOLLOWER_NOTIFIED: "another replica than the leader got it",
    Failpoint.A2_UPDATE_METADATA_SENT: "the first broker got the step's UpdateMetadata",
    Failpoint.SYNCED: "the target is in the ISR, what follows is not written",
    Failpoint.NEXT_STEP_WRITTEN: "the next step is in the topic znode and the state, nothing of it "
    "is sent",
    Failpoint.B3_WRITTEN: "the dropped replicas are out of the ISR and the leader is one of the "
    "target, nothing is sent",
    Failpoint.B3_LEADER_NOTIFIED: "the leader got that",
    Failpoint.B3_UPDATE_METADATA_SENT: "the first broker got the UpdateMetadata of that",
    Failpoint.EXCLUSION_ACKNOWLEDGED: "the leader knows the replicas without the dropped ones, "
    "StopReplica is not sent",
    Failpoint.B4_STOP_REPLICA_SENT: "a dropped replica got StopReplica, without deletion",
    Failpoint.B5_DELETE_SENT: "a dropped replica got StopReplica, with deletion",
    Failpoint.B5_ACKNOWLEDGED: "the dropped replicas are deleted, the topic znode still names them",
    Failpoint.DROPPED: "the topic znode forgot the dropped replicas, the added ones still copy",
    Failpoint.STEP_ENDED: "a step ended, the next has to wait and is not written",
    Failpoint.BEFORE_RETARGETED: "another target of a step in flight is judged, not recorded",
    Failpoint.RETARGETED: "another target is recorded, the step in flight is as it was",
    Failpoint.BEFORE_CANCELLED: "a cancellation is read, nothing of it is recorded",
    Failpoint.CANCELLED: "the records, and the legacy znode's entries, lead back to the originals; "
    "the step in flight is as it was",
    Failpoint.CANCELLATION_CHOSEN: "it is recorded that all that is to be cancelled was chosen",
    Failpoint.STEP_TURNED: "what the step in flight no longer needs is listed as removed, "
    "nothing is sent",
    Failpoint.BEFORE_PLACEMENT: "directories of replicas are to be requested, nothing is sent",
    Failpoint.PLACEMENT_SENT: "the requests for directories are handed over",
    Failpoint.PLACING_BEGUN: "the topic znode is at the target, its replicas are not known to be "
    "in their directories",
    Failpoint.B6_WRITTEN: "the topic znode is final and the record is gone, nothing of it is sent",
    Failpoint.ORPHAN_RECORDED: "a step ended without the deletion of a replica on a dead broker, "
    "which is recorded",
    Failpoint.B8_LEADER_NOTIFIED: "the leader got the LeaderAndIsr without adding replicas, where "
    "the last step dropped nothing",
    Failpoint.B8_UPDATE_METADATA_SENT: "the first broker got the final UpdateMetadata",
    Failpoint.ELECTION_WRITTEN: "the preferred replica leads in the state, nothing is sent",
    Failpoint.ELECTION_LEADER_NOTIFIED: "the preferred replica got that",
    Failpoint.BEFORE_UNTHROTTLED: "throttles are to be removed, they and their records exist",
    Failpoint.UNTHROTTLED: "throttles and their records are removed",
    Failpoint.OUTCOME_WRITTEN: "how a request, plan or cancellation ended is written",
    Failpoint.CANCELLATION_ENDED: "the cancellation's znode is gone",
    Failpoint.PLAN_ENDED: "the legacy znode is gone and the outcome is written, the role is held",
    Failpoint.ORPHAN_DELETE_SENT: "an orphan's broker is back and got StopReplica with deletion",
    Failpoint.ORPHAN_ENDED: "the orphan's record is gone",
    Failpoint.BEFORE_TOPIC_WRITTEN: "a client's topic or partitions are decided, nothing is "
    "written",
    Failpoint.TOPIC_WRITTEN: "they are in the topic znode, a new topic's settings too; no "
    "partition has a state",
    Failpoint.FIRST_STATES_WRITTEN: "new partitions have their first states, nothing is sent",
    Failpoint.FIRST_LEADER_NOTIFIED: "the first leader got LeaderAndIsr",
    Failpoint.FIRST_FOLLOWER_NOTIFIED: "another replica got it",
    Failpoint.FIRST_UPDATE_METADATA_SENT: "the first broker got their UpdateMetadata",
    Failpoint.BEFORE_TOPIC_ANSWERED: "each leader acknowledged, the client has no answer",
    Failpoint.TOPIC_DELETION_BEGUN: "the marker of a topic and its znode are as they were read, "
    "nothing is sent",
    Failpoint.TOPIC_UPDATE_METADATA_SENT: "the first broker got the UpdateMetadata by which it "
    "forgets a topic",
    Failpoint.TOPIC_STOP_REPLICA_SENT: "the first broker got StopReplica for a topic that is to be "
    "deleted, without deletion",
    Failpoint.TOPIC_DELETE_SENT: "the first broker got it with deletion",
    Failpoint.BEFORE_TOPIC_DELETED: "all replicas of the topic are deleted, its znodes exist",
    Failpoint.TOPIC_PARTLY_DELETED: "some znodes of its partitions are gone",
    Failpoint.TOPIC_DELETED: "the topic znode, its settings and its marker are gone",
    Failpoint.BEFORE_DELETION_REQUESTED: "a client's deletion is decided, nothing is written",
    Failpoint.DELETION_REQUESTED: "its marker is written, the client has no answer",
}
"""Each failpoint in words, as ``docs/recovery.md`` prints it."""

Reached = Callable[[Collection[Failpoint]], None]
"""
Called at every instant between two writes or sends, with the failpoints it is, often none.

It need not return: it may raise, or stop the process.
"""
