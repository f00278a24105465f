"""
The rules that histories are judged by. A campaign has to apply each of them at least once.

A rule counts as applied where it could have been broken: one about throttles where a request has a
throttle, one about pauses while something is paused.
"""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """The invariants of a history, in words."""

    # Data.
    ACKNOWLEDGED_ONCE = "no offset is acknowledged twice"
    NOTHING_LOST = "every member of the ISR holds every acknowledged record"
    ISR_MEMBER_KEPT = "no log of an ISR member is deleted"
    DELETES_NONE_IN_ISR = "the daemon sends no deletion to an ISR member"
    DELETES_NONE_TO_STAY = "the daemon deletes no replica that the assignment keeps"
    DELETES_ONLY_EXCLUDED = "the daemon deletes only replicas that the newest leader excludes"
    NEW_IN_NO_ISR = "no LeaderAndIsr request calls the replica of an ISR member new"
    # Deletions of topics.
    DELETES_ONLY_MARKED = "the daemon deletes nothing of a topic without a marker"
    LOGS_BEFORE_ZNODES = "a topic znode is deleted when no replica has a log any more"
    MARKER_ENDS_WITH_TOPIC = "a marker ends with its topic"
    LIVE_REPLICAS_END = "live replicas of a topic to be deleted end though another's broker is dead"
    NO_LOG_RETURNS = "no log of a deleted topic outlives the return of its broker"
    NOTHING_CREATED_AGAIN = "no LeaderAndIsr follows the StopReplica of a topic deletion"
    # States.
    ISR_NOT_EMPTY = "no ISR is empty"
    LEADER_IN_ISR = "the leader is in the ISR"
    ONE_WRITER_PER_EPOCH = "states with one controller epoch have one writer"
    PRESENT_EPOCH = "a controller writes states with the present controller epoch"
    LEADER_EPOCH_BY_ONE = "a controller's write adds one to the leader epoch"
    UNCLEAN_ALLOWED = "an unclean leader is the whole ISR, and its topic permits the election"
    NO_LEADER_FIRST = "the daemon writes that there is no leader before an unclean election"
    UNCLEAN_LAST_RESORT = "the daemon elects no unclean leader while an ISR member is live"
    RECOVERING_ALONE = "a recovering partition has one member of the ISR"
    BROKER_WRITES_ISR_ONLY = "a broker changes only the ISR of a state"
    LEADER_WRITES_ISR = "of the brokers only the leader writes the ISR"
    REPLICAS_ENTER_ISR = "only replicas enter the ISR"
    ISR_WITHIN_REPLICAS = "the daemon writes no ISR member that is not a replica"
    BOUNCED_LEADS_ANEW = "a leader that restarts in a tenure leads again at a new epoch only"
    ABOVE_FLOOR = "the daemon drops no live replica from an ISR below min.insync.replicas"
    COPIES_KEPT = "the daemon removes no good copy that the partition still needs"
    # Claims, and the shape of znodes.
    SENT_IS_DURABLE = "the daemon sends only durable states"
    ONE_WRITER_PER_CLAIM = "one version of /controller_epoch has one writer"
    EPOCH_BY_ONE = "/controller_epoch grows by one"
    WRITTEN_UNDER_CLAIM = "the daemon checks its claim in every write of its records"
    PLAN_READABLE_FOR_KAFKA = "the daemon writes no plan that Kafka rejects"
    NO_PARTITION_LOST = "no topic znode loses a partition"
    SAME_TOPIC_ID = "no topic changes its id"
    LOGS_HAVE_IDS = "every log has the id of its topic, which has one"
    OF_THIS_TOPIC = "the daemon writes only partitions and replicas that the present topic has"
    REPLICAS_THERE = "every partition has replicas"
    NO_REPLICA_TWICE = "no replica is listed twice"
    MARKED_WITHIN_RS = "adding and removing replicas are among the replicas"
    TARGET_NOT_EMPTY = "some replica is not a removing replica"
    ORIGIN_NOT_EMPTY = "some replica is not an adding replica: Kafka's cancellation keeps no other"
    FORGOTTEN_IS_GONE = "a replica that leaves a topic znode is deleted, or recorded as an orphan"
    ASSIGNMENT_COVERS_ISR = "an assignment that the daemon writes contains the ISR"
    # Specs and steps.
    SPEC_READABLE = "every spec can be decoded"
    ENOUGH_REPLICAS = "no target is accepted with fewer replicas than min.insync.replicas"
    SPEC_ENDS_AT_REST = "a spec ends while no step is in flight"
    SPEC_OF_THIS_TOPIC = "no topic is changed by a spec that was accepted for an earlier one"
    WITHIN_BOUND = "no partition exceeds its bound"
    DROPPED_OUT_OF_ISR = "a replica beyond the bound is out of the ISR and about to be dropped"
    NO_LOG_LEFT = "every log is that of a replica, or recorded as an orphan"
    ORIGINAL_KEPT = "the original replicas of a spec do not change"
    ORIGINAL_IS_WHERE_IT_WAS = "the original replicas are the assignment before the reassignment"
    UNDOES_TO_AN_ORIGINAL = "a completed reassignment is undone to its original replicas"
    TARGET_REQUESTED = "the target of a spec is one that its request names"
    ENDED_WHERE_IT_LED = "a spec ends at its target, or at its original replicas if cancelled"
    ROLLBACK_REPORTED = "the outcome reports a rollback as rolled back"
    DISABLED_BEGINS_NOTHING = "no reassignment begins while the kill switch is set, or quiesced"
    QUIESCE_LETS_END = "a quiesce rolls nothing back before its deadline that has begun"
    QUIESCE_LEAVES_NOTHING = (
        "on a healed cluster a quiesce leaves no work, throttle, role or orphan"
    )
    PAUSED_ADDS_NOTHING = "no replica is added while its request or broker is paused"
    NO_STEP_GIVEN_UP = "no write adds replicas and replaces the spec"
    THROTTLED_FIRST = "throttles are set before replicas copy"
    SETTINGS_RESTORED = "in the end all settings are those that operators chose"
    BLOCKED_IS_VISIBLE = "every reassignment without progress has a blocked reason"
    ACCEPTED_FIRST = "the daemon writes no state before a broker accepts a request of the claim"
    ROLE_FOR_DELETIONS = "the daemon gives the role back in time for a pending topic deletion"
    STALE_WRITES_RARE = "stale writes are not retried again and again"
    # Drains.
    DRAINS_REPLACE_ONLY = "a drain replaces only replicas on drained brokers, or on dead ones"
    DRAINED_ARE_EMPTY = "in the end no partition that can leave a drained broker is on it"
    # Requests and cancellations, and their outcomes.
    NO_ENTRY_LOST = "every entry reaches its target or is refused"
    ENDED_BEFORE_IT_BEGAN = "a cancellation ends only pending entries that it selects"
    ROLLED_BACK_TO_ORIGINAL = "a rollback leads to the original replicas"
    ONLY_ATOMIC_ROLLS_ITSELF_BACK = "only an atomic request rolls its own entries back"
    NAMED_BY_CANCELLATION = "a cancellation rolls back a foreign reassignment only by name"
    SELECTED_BY_CANCELLATION = "a cancellation rolls back only what it selects"
    OLDER_THAN_CANCELLATION = "a cancellation rolls back only entries of older requests"
    UNDONE_IF_REQUESTED = "only a cancellation of scope all undoes completed reassignments"
    NOTHING_SELECTED_LEFT = "a cancellation leaves no reassignment that it selects"
    NOTHING_FINISHED_LEFT = "a cancellation of scope all leaves no completed entry that it selects"
    NO_SUBMISSION_LEFT = "a cancellation leaves no request that it selects"
    OUTCOME_ADDS_UP = "the counts of an outcome add up"
    OUTCOME_BY_ROWS = "the counts of an outcome are those of its rows"
    DONE_OR_REPORTED = "an entry without a row has reached its target"
