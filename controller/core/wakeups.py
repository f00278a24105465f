"""
Wake-ups: what timers and triggers in the content of events and records set in the worklist.

``observe`` wakes what each event declares, and ``apply`` what each record declares (``wakes``,
beside the class). Where only the content of an event or record shows that something became due, the
function that folds it in wakes the row of a ``Trigger``. A flag is set nowhere else. One too many
costs a look; a missing one is a decision that is never taken, unless a timer of another purpose
finds it.

The other fields of the worklist name what has to be examined: partitions, brokers, topics and
orphans. They come with the content, so the functions that fold it in note them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from controller.core.model import TopicPartition
from controller.core.view import ClusterView
from controller.core.worklist import Flags, Worklist

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
ALTER_SEEN_TIMER: Final = "order_seen"
"""An answered alter entry should be visible in the topic znode."""


class Trigger(Enum):
    """A fact in the content of an event or record, or in the handling of a rejected write."""

    # time
    TIME_CAME = auto()
    """A timer without a row fired, or all decisions were suspended: anything may be due."""
    SETTINGS_EXPIRED = auto()
    """Settings of a topic with a reassignment grew too old: they are requested with its plan."""

    # brokers and the role
    BROKERS_CHANGED = auto()
    """A broker came, went, or changed its endpoints: a read of the same brokers shows nothing."""
    FIRST_ACCEPTED = auto()
    """A broker accepted an UpdateMetadata, the first in this tenure; nothing was decided before."""
    ROLE_DISPUTED = auto()
    """A broker knows a newer controller, or refuses the requests of this one."""

    # topics, states and their health
    TOPICS_TAKEN = auto()
    """A read of topics counts; one that began before the claim is repeated and shows nothing."""
    PARTITION_APPEARED = auto()
    """A topic has a partition whose state was never read."""
    STATE_APPEARED = auto()
    """The state of a reassigning partition is known: its cancellation may have waited for it."""
    HEALTH_UNKNOWN = auto()
    """A partition may be below its min ISR: settings of its topic are needed, now or repeatedly."""
    HEALTH_JUDGED = auto()
    """A condition that blocked all copies may have ended."""
    SETTINGS_CHANGED = auto()
    """The settings of a topic became known, or others; the same ones permit nothing new."""
    SETTINGS_UNREADABLE = auto()
    """Partitions that wait for settings have to report why these are unknown."""

    # reassignments and requests
    SLOT_FREED = auto()
    """A step in flight does not copy any more, or its writes are rejected: another may begin."""
    STEP_ENDED = auto()
    """A step in flight ended: it may have been the last that kept the role."""
    SPEC_CHANGED = auto()
    """A reassignment began, has another spec, or ended."""
    SIZE_WANTED = auto()
    """The size of a reassigning partition may be unknown."""
    REQUEST_REPLACED = auto()
    """An entry belongs to another request now: the former may have ended."""
    DISKS_INVALIDATED = auto()
    """The reports of free space are too old for copies: disks are measured now."""
    DISKS_READ = auto()
    """Brokers reported sizes or free space, by which copies are held back."""
    DIRECTORIES_AWAITED = auto()
    """A reassignment waits for what brokers say of their log directories."""
    DIRECTORIES_KNOWN = auto()
    """The directories of a broker are known that entries to be accepted name."""
    PENDING_MEASURED = auto()
    """A pending reassignment has another size, by which it is sorted."""
    ENTRY_REFUSED = auto()
    """A refusal was counted: what waited for the entry need not."""
    SUBMISSIONS_WAIT = auto()
    """A reassignment or request changed while submitted requests wait to be accepted."""
    OUTCOME_LEFT = auto()
    """Only a part of an old outcome was deleted; the rest follows."""
    PLAN_CHANGED = auto()
    """The legacy plan is another one; a read that shows the known one changes nothing."""

    PENDING_REQUEST_CONCERNED = auto()
    """What was read or written may answer a broker or a client that waits."""

    # topic deletions, orphans, elections, alter entries
    DELETION_CONCERNED = auto()
    """Brokers confirmed what a topic deletion waits for, or cannot; or it begins again."""
    ORPHAN_CONCERNED = auto()
    """The replicas, leader or broker of a partition with orphans changed."""
    ORPHAN_FAILED = auto()
    """A broker cannot delete an orphan: it does not keep the role any longer."""
    ELECTION_WANTED = auto()
    """A preferred leader is to be elected; with the delegated engine Kafka's controller does it."""
    ALTER_ANSWERED = auto()
    """The cluster's controller answered an alter entry of a known reassignment."""

    # rejected writes
    WRITES_RETRIED = auto()
    """The back-off after rejected writes is over; they do not say what they belong to."""
    THROTTLE_INVALIDATED = auto()
    """The write of an applied throttle was rejected."""
    SUBMISSION_FORGOTTEN = auto()
    """A submitted znode was changed or deleted by its client; it is read again."""
    SUBMISSION_LEFT = auto()
    """A submitted znode cannot be deleted: no cancellation waits for it."""
    ELECTION_GIVEN_UP = auto()
    """The request for preferred leaders cannot be ended: it does not keep the role."""


Key = Trigger | str
"""A trigger, or the name of a timer."""

_TIMERS: Final[Mapping[Key, Flags]] = {
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
}
_FINDINGS: Final[Mapping[Key, Flags]] = {
    Trigger.TIME_CAME: (
        *("timer", "tenure", "elections", "capacity", "plan", "submissions"),
        *("queue", "cancel", "endings", "throttles", "deletions"),
    ),
    Trigger.SETTINGS_EXPIRED: ("plan",),
    Trigger.BROKERS_CHANGED: ("brokers_changed", "capacity", "log_dirs", "deletions"),
    Trigger.FIRST_ACCEPTED: ("orphans", "order", "pending_requests", "deletions"),
    Trigger.ROLE_DISPUTED: ("tenure",),
    Trigger.TOPICS_TAKEN: ("tenure", "plan", "submissions", "queue", "deletions"),
    Trigger.PARTITION_APPEARED: ("listed_topics",),
    Trigger.STATE_APPEARED: ("cancel",),
    Trigger.HEALTH_UNKNOWN: ("health",),
    Trigger.HEALTH_JUDGED: ("capacity",),
    Trigger.SETTINGS_CHANGED: ("plan", "capacity", "submissions", "queue"),
    Trigger.SETTINGS_UNREADABLE: ("capacity",),
    Trigger.SLOT_FREED: ("capacity",),
    Trigger.STEP_ENDED: ("tenure", "deletions"),
    Trigger.SPEC_CHANGED: ("throttles",),
    Trigger.SIZE_WANTED: ("log_dirs",),
    Trigger.REQUEST_REPLACED: ("endings",),
    Trigger.DISKS_INVALIDATED: ("log_dirs",),
    Trigger.DISKS_READ: ("capacity",),
    Trigger.DIRECTORIES_AWAITED: ("log_dirs",),
    Trigger.DIRECTORIES_KNOWN: ("submissions", "plan", "queue", "cancel"),
    Trigger.PENDING_MEASURED: ("order",),
    Trigger.ENTRY_REFUSED: ("plan", "endings", "queue"),
    Trigger.SUBMISSIONS_WAIT: ("submissions",),
    Trigger.OUTCOME_LEFT: ("endings",),
    Trigger.PLAN_CHANGED: ("plan", "queue", "cancel"),
    Trigger.PENDING_REQUEST_CONCERNED: ("pending_requests",),
    Trigger.DELETION_CONCERNED: ("deletions",),
    Trigger.ORPHAN_CONCERNED: ("orphans",),
    Trigger.ORPHAN_FAILED: ("tenure",),
    Trigger.ELECTION_WANTED: ("elections",),
    Trigger.ALTER_ANSWERED: ("answered",),
    Trigger.WRITES_RETRIED: ("plan", "queue", "orphans", "deletions"),
    Trigger.THROTTLE_INVALIDATED: ("throttles",),
    Trigger.SUBMISSION_FORGOTTEN: ("submissions",),
    Trigger.SUBMISSION_LEFT: ("cancel", "tenure"),
    Trigger.ELECTION_GIVEN_UP: ("tenure",),
}
WAKEUPS: Final[Mapping[Key, Flags]] = {**_TIMERS, **_FINDINGS}
"""The flags that each timer and trigger sets."""


def wake(due: Worklist, key: Key) -> None:
    """Set the flags of a row of the table."""
    due.wake(WAKEUPS[key])


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
