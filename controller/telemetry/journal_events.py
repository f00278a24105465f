"""
The schema of the journal, continued: what was committed, and what happened around the work.

Kinds of committed records are named after them (``core.records``): ``StateRecord`` is ``state``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.telemetry.journal_kinds import (
    BOOLEAN,
    IDS,
    INTEGER,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    Field,
    Kind,
    maybe,
)

_P: Final[Mapping[str, Field]] = {
    "topic": (TEXT, "of the partition"),
    "partition": (INTEGER, "its number"),
}
_VERSION: Final[Field] = (INTEGER, "of the znode it was written over")
_BROKER: Final[Field] = (INTEGER, "its id")
_EPOCH: Final[Field] = (INTEGER, "the czxid of its registration")

RECORDS: Final[Mapping[str, Kind]] = {
    "part": Kind(
        "A submitted znode is being accepted.",
        {
            "request": (TEXT, "the request it is, or is a part of"),
            "part": (
                OBJECT,
                (
                    "name, total (entries), created_ms, options (reason, requested_by, priority, "
                    "step_size, throttle, window, max_partitions_in_flight, atomic, part_of, parts)"
                ),
            ),
        },
    ),
    "accepted": Kind(
        "An entry of a request was accepted.",
        {
            "request": (TEXT, "its request"),
            "entry": (OBJECT, "topic, partition, original (ids or null), target (ids)"),
        },
    ),
    "goal": Kind(
        "What is to become of a partition, at acceptance and whenever that changes.",
        {
            **_P,
            "goal": (
                OBJECT,
                (
                    "target (ids), original (ids or null), request, route, version (null: new), "
                    "cancelled_by (a cancellation's id or null), abandoned (ids)"
                ),
            ),
        },
    ),
    "goal_ended": Kind(
        "The reassignment of a partition ended.",
        {
            **_P,
            "version": (maybe(INTEGER), "of the record that goes"),
            "request": (TEXT, "its request"),
            "outcome": (TEXT, "in words"),
            "stands": (BOOLEAN, "whether it ended where it stood, no step being seen to end there"),
        },
    ),
    "refusal": Kind(
        "Entries that are not carried out.",
        {
            "refusals": (
                OBJECTS,
                (
                    "each request, entry (as text), reason, detail, entries (how many it stands "
                    "for), and topic and partition where it names one"
                ),
            )
        },
    ),
    "ending": Kind(
        "A partition ended otherwise than at its target.",
        {
            "ending": (
                OBJECT,
                (
                    "request, topic, partition, detail, fate (cancelled, rolled_back, skipped, "
                    "superseded)"
                ),
            )
        },
    ),
    "outcome": Kind(
        "The summary of an ended request, as ZooKeeper keeps it.",
        {
            "summary": (
                OBJECT,
                (
                    "request, kind, total, done, refused (list), fates (count for each), reason, "
                    "requested_by, submitted_ms, ended_ms, moved_bytes, and what did not fit"
                ),
            )
        },
    ),
    "outcome_forgotten": Kind(
        "An old outcome was deleted.",
        {
            "request": (TEXT, "whose"),
            "children": (TEXTS, "its znodes"),
            "is_last": (BOOLEAN, "whether it is all of it; of very many znodes some go first"),
        },
    ),
    "assignment": Kind(
        "A partition's entry in its topic znode.",
        {**_P, "assignment": (OBJECT, "replicas, adding_replicas, removing_replicas (ids)")},
    ),
    "state": Kind(
        "A compare-and-set of a partition's state.",
        {
            **_P,
            "leader": (INTEGER, "-1: none"),
            "leader_epoch": (INTEGER, "one more than before"),
            "isr": (IDS, "in sync"),
            "controller_epoch": (INTEGER, "of our tenure"),
            "expected_version": _VERSION,
            "leader_recovery_state": (INTEGER, "of Kafka 3.2 and later"),
        },
    ),
    "state_created": Kind(
        "The first state of a new partition.",
        {
            **_P,
            "leader": (INTEGER, "its id"),
            "isr": (IDS, "in sync"),
            "controller_epoch": (INTEGER, "of our tenure"),
        },
    ),
    "legacy_entry": Kind(
        "An entry of /admin/reassign_partitions.",
        {**_P, "replicas": (f"{IDS} or null", "null takes it out")},
    ),
    "legacy_plan_ended": Kind("/admin/reassign_partitions was deleted.", {"version": _VERSION}),
    "submission_ended": Kind(
        "A submitted znode was deleted: all of it is accepted or refused.",
        {"name": (TEXT, "of the znode"), "version": _VERSION},
    ),
    "cancellation_ended": Kind(
        "/admin/cancel_reassignment_in_progress was deleted.", {"version": _VERSION}
    ),
    "queue_entry_ended": Kind("An entry left the queue.", _P),
    "queue_ended": Kind("/admin/reassign_partitions_queue was deleted.", {"version": _VERSION}),
    "lease": Kind(
        "A throttle was set, or changed.",
        {
            "lease": (
                OBJECT,
                "entity (topics/NAME or brokers/ID), ours and before (setting to value), version",
            ),
            "values": (
                "list of list of text",
                "all dynamic settings of the entity, each with its value",
            ),
            "expected_version": (maybe(INTEGER), "null: the znode was created"),
        },
    ),
    "lease_ended": Kind(
        "A throttle was lifted.",
        {
            "entity": (TEXT, "topics/NAME or brokers/ID"),
            "lease_version": _VERSION,
            "values": (
                "list of list of text or null",
                "the settings left; null: they were not touched",
            ),
            "expected_version": (maybe(INTEGER), "of the settings"),
        },
    ),
    "orphan": Kind(
        "A dropped replica could not be deleted.",
        {"orphan": (OBJECT, "broker, topic, partition, topic_czxid, reason, failed_in")},
    ),
    "orphan_ended": Kind(
        "It is gone, or wanted again.",
        {"orphan": (OBJECT, "as when it began")},
    ),
    "notifications_deleted": Kind(
        "Notifications of brokers were dealt with.",
        {"kind_of": (TEXT, "isr or log_dir"), "names": (TEXTS, "their znodes")},
    ),
    "preferred_election_ended": Kind(
        "/admin/preferred_replica_election was deleted.", {"version": _VERSION}
    ),
    "pace": Kind(
        "The adaptive pace changed.",
        {
            "before": (maybe(INTEGER), "null: the first of a tenure"),
            "in_flight_max": (INTEGER, "partitions that may be in flight"),
            "evidence": (TEXT, "why"),
        },
    ),
    "engine": Kind(
        "Which engine works from now on.",
        {"engine": (TEXT, "native or delegated"), "why": (TEXT, "why that one")},
    ),
    "unheeded": Kind(
        "The role is given back as brokers do not do what we send as the controller.",
        {"why": (TEXT, "what they answer")},
    ),
    "yielded": Kind(
        "The role is given back so that these topics can be deleted.",
        {"topics": (TEXTS, "which")},
    ),
}
"""What became durable (but for the last two, which explain what follows)."""

EVENTS: Final[Mapping[str, Kind]] = {
    "leadership_gained": Kind("This daemon leads among the daemons.", {}),
    "leadership_lost": Kind("Another leads, or nobody knows.", {"reason": (TEXT, "why")}),
    "claimed": Kind(
        "We are the cluster's controller.", {"epoch": (INTEGER, "the controller epoch")}
    ),
    "claim_failed": Kind("A claim did not succeed.", {"reason": (TEXT, "why")}),
    "controller_role_ended": Kind("The role was given back, or lost.", {"reason": (TEXT, "why")}),
    "native_refused": Kind(
        "Being the controller of this cluster would not be safe.", {"reasons": (TEXTS, "why")}
    ),
    "native_possible": Kind("It would be safe again.", {}),
    "shutdown_requested": Kind("The daemon was asked to stop.", {}),
    "broker_joined": Kind("A broker registered.", {"broker": _BROKER, "epoch": _EPOCH}),
    "broker_died": Kind("A broker's registration is gone.", {"broker": _BROKER, "epoch": _EPOCH}),
    "broker_bounced": Kind(
        "A broker registered anew between two looks.", {"broker": _BROKER, "epoch": _EPOCH}
    ),
    "log_directory_failed": Kind("Brokers lost log directories.", {"brokers": (IDS, "which")}),
    "plan_seen": Kind(
        "/admin/reassign_partitions exists.",
        {
            "entries": (INTEGER, "well-formed"),
            "malformed": (INTEGER, "not well-formed"),
            "unreadable": (maybe(TEXT), "why the whole of it cannot be understood"),
            "czxid": (INTEGER, "of the znode"),
        },
    ),
    "cancellation_seen": Kind(
        "/admin/cancel_reassignment_in_progress exists.",
        {
            "request": (TEXT, "the id of the cancellation"),
            "everything": (BOOLEAN, "whether nothing in particular is selected"),
            "scope": (TEXT, "in_flight or all"),
            "reason": (TEXT, "as given"),
            "requested_by": (TEXT, "as given"),
            "unreadable": (maybe(TEXT), "why it cannot be understood"),
        },
    ),
    "disabled": Kind("The kill switch was turned on.", {}),
    "enabled": Kind("The kill switch was turned off.", {}),
    "pauses_changed": Kind(
        "An operator paused or resumed.",
        {
            "everything": (BOOLEAN, "whether all is paused"),
            "requests": (TEXTS, "paused ones"),
            "brokers": (IDS, "paused ones"),
        },
    ),
    "limits_changed": Kind("An operator changed limits.", {"limits": (OBJECT, "as they are now")}),
    "throttle_changed": Kind(
        "An operator changed the throttle of everything.",
        {"bytes_per_s": (maybe(INTEGER), "per broker; null: none")},
    ),
    "steered": Kind(
        "Somebody pressed a button of the status page.",
        {
            "action": (TEXT, "pause, resume or cancel"),
            "request": (maybe(TEXT), "null: everything"),
            "client": (TEXT, "its address"),
            "result": (TEXT, "done, or why not"),
        },
    ),
    "request_refused": Kind(
        "A broker refused a controller's request as a whole.",
        {
            "api": (TEXT, "leader_and_isr, update_metadata or stop_replica"),
            "broker": _BROKER,
            "error": (TEXT, "its name"),
            "code": (INTEGER, "Kafka's number of it"),
        },
    ),
    "partitions_refused": Kind(
        "A broker refused partitions of a controller's request.",
        {
            "api": (TEXT, "leader_and_isr, update_metadata or stop_replica"),
            "broker": _BROKER,
            "error": (TEXT, "its name"),
            "code": (INTEGER, "Kafka's number of it"),
            "count": (INTEGER, "how many"),
            "sample": (TEXTS, "the first few"),
        },
    ),
    "sizes_unknown": Kind(
        "A broker does not tell sizes.", {"broker": _BROKER, "reason": (TEXT, "why")}
    ),
    "broker_unreachable": Kind(
        "A registered broker cannot be reached while the role is held.",
        {"broker": _BROKER, "reason": (TEXT, "why")},
    ),
    "broker_reachable": Kind("It can be reached again.", {"broker": _BROKER}),
    "under_min_isr": Kind(
        "Partitions outside the work are below min.insync.replicas.",
        {"detail": (TEXT, "which"), "waits": (BOOLEAN, "whether no copy begins meanwhile")},
    ),
    "under_min_isr_ended": Kind("None is any more.", {}),
    "throttle_below_produce_rate": Kind(
        "Copies under a throttle cannot keep up.", {"detail": (TEXT, "which")}
    ),
    "throttle_of_others_kept": Kind(
        "A setting of others stands where a throttle of ours is wanted.",
        {"setting": (TEXT, "which")},
    ),
    "write_rejected": Kind(
        "The store refused a change; it was decided anew.",
        {
            **_P,
            "error": (TEXT, "why"),
            "records": (TEXTS, "kinds of the records in it"),
        },
        optional=frozenset(_P),
    ),
    "journal_dropped": Kind(
        "So many lines are missing before this one: the disk did not keep up, or was full.",
        {"entries": (INTEGER, "how many")},
    ),
    **{
        f"{what}_unreadable{more}": Kind(
            f"A {what.replace('_', ' ')} znode or answer cannot be understood."
            if not more
            else "More of them than are named.",
            {"count": (INTEGER, "how many more")}
            if more
            else {"name": (TEXT, "which"), "reason": (TEXT, "why")},
        )
        for what in ("topic", "state", "topic_config", "goal", "control")
        for more in ("", "_more")
    },
}
"""What happened."""
