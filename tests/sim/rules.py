"""
The rules that a history is judged by, by name: each of them has to be met with in a campaign.

A rule counts as applied where it could have been broken: one about throttles where something is to
be throttled, one about pauses while something is paused.
"""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """What has to hold, in words."""

    # Data.
    ACKNOWLEDGED_ONCE = "no offset is acknowledged twice"
    NOTHING_LOST = "every member of the ISR holds every acknowledged record"
    ISR_MEMBER_KEPT = "no log of an ISR member is deleted"
    DELETES_NONE_IN_ISR = "the daemon asks for no deletion of an ISR member"
    DELETES_NONE_TO_STAY = "the daemon asks for no deletion of what is to stay"
    DELETES_ONLY_EXCLUDED = "what the daemon deletes the newest leader knows to be excluded"
    NEW_IN_NO_ISR = "no member of the ISR is asked to create its log again"
    # States.
    ISR_NOT_EMPTY = "no ISR is empty"
    LEADER_IN_ISR = "the leader is in the ISR"
    ONE_WRITER_PER_EPOCH = "states with one controller epoch have one writer"
    PRESENT_EPOCH = "a state is written with the present controller epoch"
    LEADER_EPOCH_BY_ONE = "a controller's write adds one to the leader epoch"
    UNCLEAN_ALLOWED = "who was not in sync leads alone, and only where that is allowed"
    NO_LEADER_FIRST = "that there is no leader is durable before an unclean election"
    UNCLEAN_LAST_RESORT = "no replica leads uncleanly while a member of the ISR is live"
    BROKER_WRITES_ISR_ONLY = "a broker changes nothing of a state but the ISR"
    LEADER_WRITES_ISR = "only the leader writes the ISR"
    REPLICAS_ENTER_ISR = "only replicas enter the ISR"
    ISR_WITHIN_REPLICAS = "the daemon writes no ISR beyond the replicas"
    BOUNCED_LEADS_ANEW = "a leader that registered anew in a tenure leads at a new epoch only"
    ABOVE_FLOOR = "no live replica is taken out of an ISR that is too small without it"
    COPIES_KEPT = "no good copy is given up that the partition still needs"
    # Claims, and the shape of what is written.
    SENT_IS_DURABLE = "what the daemon sends is durable"
    ONE_WRITER_PER_CLAIM = "one version of /controller_epoch has one writer"
    EPOCH_BY_ONE = "/controller_epoch grows by one"
    WRITTEN_UNDER_CLAIM = "records are written under the claim"
    PLAN_READABLE_FOR_KAFKA = "the daemon writes no plan that Kafka rejects"
    NO_PARTITION_LOST = "no topic znode loses a partition"
    SAME_TOPIC_ID = "no topic changes its id"
    REPLICAS_THERE = "every partition has replicas"
    NO_REPLICA_TWICE = "no replica is named twice"
    MARKED_WITHIN_RS = "what is added or removed is among the replicas"
    TARGET_NOT_EMPTY = "not every replica is removed"
    FORGOTTEN_IS_GONE = "a replica that leaves a topic znode is deleted, or recorded as an orphan"
    ASSIGNMENT_COVERS_ISR = "an assignment of the daemon's names all of the ISR"
    # Goals, and what they may do.
    GOAL_READABLE = "a goal can be read"
    ENOUGH_REPLICAS = "no target is accepted with fewer replicas than min.insync.replicas"
    GOAL_ENDS_AT_REST = "a goal ends where nothing is under way"
    WITHIN_BOUND = "no partition outgrows its bound"
    DROPPED_OUT_OF_ISR = "what stands beside added replicas, to be dropped, is out of the ISR"
    NO_LOG_LEFT = "no log is left that neither a partition nor a record names"
    ORIGINAL_KEPT = "an original stays what it was"
    ORIGINAL_IS_WHERE_IT_WAS = "an original is where the partition was"
    UNDOES_TO_AN_ORIGINAL = "what was finished is moved back to where it was"
    TARGET_ASKED_FOR = "a goal is what its request asked for"
    ENDED_WHERE_IT_LED = "a goal ends where it led"
    ROLLBACK_NOTIFIED = "who goes back says so in the end"
    DISABLED_BEGINS_NOTHING = "while disabled nothing begins"
    PAUSED_ADDS_NOTHING = "while paused nothing is added"
    NO_STEP_GIVEN_UP = "no step is taken in the write that changes where it is to go"
    THROTTLED_FIRST = "what is to be throttled is so before it copies"
    SETTINGS_RESTORED = "settings are in the end what operators chose"
    BLOCKED_IS_VISIBLE = "what stands still says why"
    ACCEPTED_FIRST = "no state is written before a broker accepted a request of the claim"
    ROLE_FOR_DELETIONS = "the role is given back in time for a pending deletion"
    RARELY_IN_VAIN = "a race is lost once"
    # Orders, and what becomes of them.
    NO_ORDER_LOST = "what was asked for is so in the end, or was refused"
    ENDED_BEFORE_IT_BEGAN = "a cancellation ends before its begin only what it means"
    TURNED_TO_ORIGINAL = "what is turned round goes to its original"
    ONLY_ATOMIC_TAKEN_BACK = "only what wants all or nothing takes itself back"
    NAMED_BY_CANCELLATION = "what others move is turned round by name"
    MEANT_BY_CANCELLATION = "what is turned round is meant by its cancellation"
    OLDER_THAN_CANCELLATION = "what is turned round is older than its cancellation"
    UNDONE_IF_ASKED = "what was finished is undone only where that was asked for"
    NOTHING_SELECTED_LEFT = "a cancellation leaves nothing that it selects"
    NO_SUBMISSION_LEFT = "a cancellation leaves no request that it means"
    OUTCOME_ADDS_UP = "an outcome adds up"
    OUTCOME_BY_ROWS = "an outcome is what its rows say"
    DONE_OR_NOTIFIED = "what has no row was done"
