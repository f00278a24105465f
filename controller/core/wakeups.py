"""
Wake-ups: what timers and triggers in the content of events and records set in the worklist.

``observe`` and ``apply`` wake what each event and record declares (``wakes``). Where only their
content shows that something became due, the function that folds it in wakes a ``Trigger``. A flag
is set nowhere else. One too many costs a look; a missing one is a decision that is never taken,
unless a timer of another purpose finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.core.bases import Flags
from controller.core.model import BlockedBy, TopicPartition
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SCAN_TIMER: Final = "scan"
"""The pending reassignments are considered that exceeded the earlier cycles."""
LEADER_MOVES_TIMER: Final = "leader_moves"
"""Leaderships may move again."""
PREFERRED_TIMER: Final = "preferred_elections"
"""The next preferred leaders may be elected."""
LOG_DIRS_TIMER: Final = "log_directories"
"""Brokers are queried for their log directories."""
ROOM_TIMER: Final = "room"
"""Copies that wait for room are considered again."""
ALTER_ANSWER_TIMER: Final = "controller_answer"
"""An alter entry was not answered, or is to be sent again."""
PENDING_REQUESTS_TIMER: Final = "answers"
"""A request of a broker or a client has waited for what it depends on."""
SETTING_TIMER: Final = "deletion_setting"
"""A broker that did not answer with its settings is queried again."""
AWAY_TIMER: Final = "deletion_away"
"""The deletion of a topic waited long enough for brokers with orphans of it."""
RATES_TIMER: Final = "rates"
"""The rates of governed brokers are judged."""
ALTER_SEEN_TIMER: Final = "order_seen"
"""An answered alter entry should be visible in the topic znode."""


TIMERS: Final[Mapping[str, Flags]] = {
    SCAN_TIMER: ("line",),
    LEADER_MOVES_TIMER: (),
    PREFERRED_TIMER: ("elections",),
    LOG_DIRS_TIMER: ("log_dirs",),
    ROOM_TIMER: ("capacity",),
    ALTER_ANSWER_TIMER: ("timer",),
    ALTER_SEEN_TIMER: ("timer",),
    SETTING_TIMER: ("deletions",),
    AWAY_TIMER: ("deletions",),
    PENDING_REQUESTS_TIMER: ("pending_requests",),
    RATES_TIMER: ("throttles",),
}
"""The flags that each timer sets; any other sets those of ``Trigger.TIME_CAME``."""
REASONS_OF_TIMERS: Final[Mapping[str, BlockedBy]] = {
    LEADER_MOVES_TIMER: BlockedBy.LEADER_MOVES,
    ALTER_ANSWER_TIMER: BlockedBy.CONTROLLER_ANSWER,
}
"""
The reasons for which a step in flight waits until a time, without another event.

Partitions with such a reason are examined when its timer fires, and by every timer without a row. A
pending partition needs no such row: the flag ``capacity`` has the pending ones considered.
"""


class Trigger:
    """A fact in the content of an event or record, or in the handling of a rejected write."""

    # time
    TIME_CAME: Flags = (
        *("timer", "tenure", "elections", "capacity", "plan", "submissions"),
        *("queue", "drains", "cancel", "endings", "throttles", "deletions"),
    )
    """A timer without a row fired, or all decisions were suspended: anything may be due."""
    SETTINGS_EXPIRED: Flags = ("plan",)
    """Settings of a topic with a reassignment grew too old: they are requested with its plan."""

    # brokers and the role
    BROKERS_CHANGED: Flags = ("brokers_changed", "capacity", "log_dirs", "deletions", "drains")
    """A broker came, went, or changed its endpoints: a read of the same brokers shows nothing."""
    FIRST_ACCEPTED: Flags = ("orphans", "order", "pending_requests", "deletions")
    """A broker accepted an UpdateMetadata, the first in this tenure; nothing was decided before."""
    ROLE_DISPUTED: Flags = ("tenure",)
    """A broker knows a newer controller, or refuses the requests of this one."""

    # topics, states and their health
    TOPICS_TAKEN: Flags = ("tenure", "plan", "submissions", "queue", "drains", "deletions")
    """A read of topics counts; one that began before the claim is repeated and shows nothing."""
    PARTITION_APPEARED: Flags = ("listed_topics",)
    """A topic has a partition whose state was never read."""
    TOPIC_GONE: Flags = ("listed_topics",)
    """A topic that was listed does not exist any more."""
    STATE_APPEARED: Flags = ("cancel",)
    """The state of a reassigning partition is known: its cancellation may have waited for it."""
    HEALTH_UNKNOWN: Flags = ("health",)
    """A partition may be below its min ISR: settings of its topic are needed, now or repeatedly."""
    HEALTH_JUDGED: Flags = ("capacity",)
    """A condition that blocked all copies may have ended."""
    SETTINGS_CHANGED: Flags = ("plan", "capacity", "submissions", "queue", "drains")
    """The settings of a topic became known, or others; the same ones permit nothing new."""
    SETTINGS_UNREADABLE: Flags = ("capacity",)
    """Partitions that wait for settings have to report why these are unknown."""

    # reassignments and requests
    SLOT_FREED: Flags = ("capacity",)
    """A step in flight does not copy any more, or its writes are rejected: another may begin."""
    STEP_ENDED: Flags = ("tenure", "deletions")
    """A step in flight ended: it may have been the last that kept the role."""
    SPEC_CHANGED: Flags = ("throttles",)
    """A reassignment began, has another spec, or ended."""
    SIZE_WANTED: Flags = ("log_dirs",)
    """The size of a reassigning partition may be unknown."""
    REQUEST_REPLACED: Flags = ("endings",)
    """An entry belongs to another request now: the former may have ended."""
    DISKS_INVALIDATED: Flags = ("log_dirs",)
    """The reports of free space are too old for copies: disks are measured now."""
    DISKS_READ: Flags = ("capacity",)
    """Brokers reported sizes or free space, by which copies are held back."""
    DIRECTORIES_AWAITED: Flags = ("log_dirs",)
    """A reassignment waits for what brokers say of their log directories."""
    DIRECTORIES_KNOWN: Flags = ("submissions", "plan", "queue", "cancel")
    """The directories of a broker are known that entries to be accepted name."""
    PENDING_MEASURED: Flags = ("order",)
    """A pending reassignment has another size, by which it is sorted."""
    ENTRY_REFUSED: Flags = ("plan", "endings", "queue")
    """A refusal was counted: what waited for the entry need not."""
    SUBMISSIONS_WAIT: Flags = ("submissions",)
    """A reassignment or request changed while submitted requests wait to be accepted."""
    OUTCOME_LEFT: Flags = ("endings",)
    """Only a part of an old outcome was deleted; the rest follows."""
    PLAN_CHANGED: Flags = ("plan", "queue", "drains", "cancel")
    """The legacy plan is another one; a read that shows the known one changes nothing."""

    DRAIN_CONCERNED: Flags = ("drains", "tenure")
    """A partition on a drained broker has, or had until now, no target without it."""
    DRAIN_OPENED: Flags = ("drains", "tenure")
    """The request of the drains is durable: its entries may follow, with the role."""

    PENDING_REQUEST_CONCERNED: Flags = ("pending_requests",)
    """What was read or written may answer a broker or a client that waits."""

    # topic deletions, orphans, elections, alter entries
    DELETION_CONCERNED: Flags = ("deletions",)
    """Brokers confirmed what a topic deletion waits for, or cannot; or it begins again."""
    ORPHAN_CONCERNED: Flags = ("orphans",)
    """The replicas, leader or broker of a partition with orphans changed."""
    ORPHAN_FAILED: Flags = ("tenure",)
    """A broker cannot delete an orphan: it does not keep the role any longer."""
    ELECTION_WANTED: Flags = ("elections",)
    """A preferred leader is to be elected; with the delegated engine Kafka's controller does it."""
    ALTER_ANSWERED: Flags = ("answered",)
    """The cluster's controller answered an alter entry of a known reassignment."""

    # rejected writes
    WRITES_RETRIED: Flags = ("plan", "queue", "drains", "orphans", "deletions")
    """The back-off after rejected writes is over; they do not say what they belong to."""
    THROTTLE_INVALIDATED: Flags = ("throttles",)
    """The write of an applied throttle was rejected."""
    SUBMISSION_FORGOTTEN: Flags = ("submissions",)
    """A submitted znode was changed or deleted by its client; it is read again."""
    SUBMISSION_LEFT: Flags = ("cancel", "tenure")
    """A submitted znode cannot be deleted: no cancellation waits for it."""
    ELECTION_GIVEN_UP: Flags = ("tenure",)
    """The request for preferred leaders cannot be ended: it does not keep the role."""


def wake(due: Worklist, flags: Flags) -> None:
    """Set the flags of a trigger or timer."""
    due.wake(flags)


def orphans_concerned(view: ClusterView, partition: TopicPartition) -> None:
    """Wake the deletion of a partition's orphans, if it has any."""
    if partition in view.reassignments.orphaned:
        wake(view.due, Trigger.ORPHAN_CONCERNED)


def submissions_concerned(view: ClusterView) -> None:
    """Wake the acceptance of submitted requests, if there are any."""
    if view.requests_session.submissions:
        wake(view.due, Trigger.SUBMISSIONS_WAIT)


def wake_pending_requests(view: ClusterView) -> None:
    """Wake the answers to brokers and clients, if any waits for one."""
    if view.calls.pending_broker_requests or view.calls.pending_client_requests:
        wake(view.due, Trigger.PENDING_REQUEST_CONCERNED)
