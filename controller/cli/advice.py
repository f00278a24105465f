"""The meaning of each phase, and the remedy for each reason that blocks a reassignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.core.model import BlockedBy

PHASE_MEANINGS: Final[Mapping[str, str]] = {
    "pending": "accepted, with no step in flight; or between two steps",
    "ordered": "delegated engine: the step was sent to the cluster's controller",
    "A1": "a step found in the topic znode: this tenure has to raise the leader epoch",
    "A2": "topic znode and partition state written, LeaderAndIsr and UpdateMetadata sent",
    "A2-syncing": "the added replicas copy, until the ISR contains the step's target",
    "B3": "one write excluded the dropped replicas from the ISR and moved the leader",
    "B5": "StopReplica (stop, then delete) sent to the dropped replicas",
    "ended": "B6 to B8: the topic znode is final, the record deleted, UpdateMetadata sent",
}
"""By the label of the phase."""
ADVICE: Final[Mapping[BlockedBy, str]] = {
    BlockedBy.CONFIG_UNKNOWN: "let the daemon read the topic's settings: any live broker must be "
    "reachable and allow it DescribeConfigs on the topic; it asks again every few seconds",
    BlockedBy.STATE_UNKNOWN: "nothing if it is being read; a znode that cannot be understood has "
    "to be repaired by hand (`reassigner doctor` names it)",
    BlockedBy.NO_LEADER: "bring a broker of the ISR back; if its records are given up, set "
    "unclean.leader.election.enable=true on the topic",
    BlockedBy.REPLICA_NOT_IN_ISR: "look at that broker's log, disk and network, and at "
    "replication throttles that are too low for the produce rate",
    BlockedBy.BROKER_DEAD: "bring the broker or its disk back, or submit a plan with another "
    "target for this partition",
    BlockedBy.MIN_ISR: "bring lagging replicas back in sync, or lower the topic's "
    "min.insync.replicas; the daemon never shrinks the ISR below it",
    BlockedBy.LIMIT: "nothing: others go first; raise max_partitions_in_flight, "
    "max_incoming_per_broker or max_outgoing_per_broker if brokers have room",
    BlockedBy.LEADER_MOVES: "nothing: leaderships move so many per broker and second; raise "
    "max_leader_moves_per_broker_per_second if clients bear more",
    BlockedBy.LEADER_ACK: "nothing: the leader is told again every half minute; if it stays, look "
    "at that broker's log and at the network between it and the daemon",
    BlockedBy.STOP_REPLICA_ACK: "nothing: a deletion that is not confirmed in time becomes an "
    "orphan record, and the step goes on",
    BlockedBy.TOPIC_DELETION: "nothing: the role is given back so that a broker deletes the topic; "
    "a deletion that cannot end is passed over after half a minute",
    BlockedBy.DRAINING: "nothing: the daemon gives the role back; the next one goes on",
    BlockedBy.KILL_SWITCH: "allow first steps again with `reassigner enable`, or take it back with "
    "`reassigner cancel`",
    BlockedBy.PAUSED: "`reassigner resume`, for everything, the request or the broker it names",
    BlockedBy.WINDOW: "nothing: it goes on when the window opens; change it with "
    "`reassigner limits --window`",
    BlockedBy.THROTTLE: "nothing if it is being set; else let the daemon write /config in "
    "ZooKeeper, or lift the throttle with `reassigner throttle none --request ID`",
    BlockedBy.CLUSTER_HEALTH: "bring the partitions it names back above min.insync.replicas, or "
    "set under_min_isr to warn",
    BlockedBy.INCOMPLETE: "submit the parts that are missing; `reassigner cancel` takes the others "
    "back",
    BlockedBy.CONTROLLER_ROLE: "remove what the reason names if it names something; else nothing, "
    "the daemon claims the role as soon as it may",
    BlockedBy.CONTROLLER_ANSWER: "nothing while the controller is at it; a refusal is told with "
    "its reason and tried again every few seconds",
    BlockedBy.WRITE_REFUSED: "let the daemon write the znode it names; it is tried again every 5 s",
    BlockedBy.FOREIGN_MOVES: "wait until they have ended, cancel them by name with "
    "`reassigner cancel`, or set foreign_moves to beside or adopt",
}


def advice_for(by: str) -> str | None:
    """Return what to do about a reason, None for one that this version does not know."""
    try:
        return ADVICE[BlockedBy(by)]
    except ValueError:
        return None
