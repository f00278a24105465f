"""
The schema of the journal, continued: committed records, and events of cluster and operators.

The kind of a record is its class in ``core.records`` in snake case, ``StateRecord`` is ``state``;
``journal.KINDS_OF_RECORDS`` has the exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from docs.generate.journal_kinds import (
    ANYTHING,
    BOOLEAN,
    IDS,
    INTEGER,
    NUMBER,
    OBJECT,
    OBJECTS,
    PARTITION,
    TEXT,
    TEXTS,
    Field,
    Kind,
    maybe,
)

_VERSION: Final[Field] = (INTEGER, "of the znode it was written over")
_BROKER: Final[Field] = (INTEGER, "its id")
_EPOCH: Final[Field] = (INTEGER, "the czxid of its registration")

RECORDS: Final[Mapping[str, Kind]] = {
    "part": Kind(
        "The entries of a submitted znode are being accepted.",
        {
            "request": (TEXT, "its request"),
            "part": (
                OBJECT,
                (
                    "name, total (entries), created_ms, options (reason, requested_by, approved, "
                    "approved_by, priority, step_size, throttle, log_dirs_throttle, window, "
                    "max_partitions_in_flight, atomic, keep_leaders, elect_leaders, "
                    "tolerate_lagging, part_of, parts), approved_version (of the znode that was "
                    "verified, or null)"
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
        "The target of a partition, at acceptance and at each change.",
        {
            **PARTITION,
            "goal": (
                OBJECT,
                (
                    "target (ids), original (ids or null), request, route, version (null: new), "
                    "cancelled_by (a cancellation's id or null), abandoned (ids), "
                    "topic_czxid (null: unknown), expected (ids; null: not approved, or begun), "
                    "asked (ids or null), log_dirs (list of broker and path), unplaced (ids of "
                    "replicas whose moves between directories are stopped)"
                ),
            ),
        },
    ),
    "goal_ended": Kind(
        "The reassignment of a partition ended.",
        {
            **PARTITION,
            "version": (maybe(INTEGER), "of the deleted znode"),
            "request": (TEXT, "its request"),
            "outcome": (TEXT, "how it ended"),
            "stands": (
                BOOLEAN,
                "whether it ended at its present replicas without the end of a step",
            ),
        },
    ),
    "refusal": Kind(
        "Refused entries.",
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
        "A partition ended without reaching its target.",
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
                    "requested_by, approved, approved_by, submitted_ms, ended_ms, moved_bytes, "
                    "and what did not fit"
                ),
            )
        },
    ),
    "outcome_forgotten": Kind(
        "An old outcome was deleted.",
        {
            "request": (TEXT, "its request"),
            "children": (TEXTS, "its znodes"),
            "is_last": (BOOLEAN, "whether these are the last of its znodes"),
        },
    ),
    "assignment": Kind(
        "A partition's entry in its topic znode.",
        {**PARTITION, "assignment": (OBJECT, "replicas, adding_replicas, removing_replicas (ids)")},
    ),
    "topic_id": Kind(
        "The id of a topic whose znode had none.",
        {"topic": (TEXT, "its name"), "topic_id": (TEXT, "the id")},
    ),
    "state": Kind(
        "A compare-and-set of a partition's state.",
        {
            **PARTITION,
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
            **PARTITION,
            "leader": (INTEGER, "its id"),
            "isr": (IDS, "in sync"),
            "controller_epoch": (INTEGER, "of our tenure"),
        },
    ),
    "deletion_begun": Kind(
        "The daemon begins to delete a topic.",
        {
            "topic": (TEXT, "its name"),
            "version": (INTEGER, "of its znode"),
        },
    ),
    "topic_deleted": Kind(
        "The daemon deleted a topic: every broker has confirmed the deletion of its replicas.",
        {"topic": (TEXT, "its name")},
    ),
    "deletion_marker_ended": Kind(
        "The daemon deleted a znode of /admin/delete_topics: there is no such topic.",
        {"topic": (TEXT, "its name")},
    ),
    "stale_marker_ended": Kind(
        "The daemon deleted a znode of /admin/delete_topics: the topic was created after it.",
        {
            "topic": (TEXT, "its name, which stays"),
            "version": (INTEGER, "of the topic znode"),
            "marker_version": (INTEGER, "of the deleted znode"),
        },
    ),
    "deletion_blocked": Kind(
        "A pending topic deletion waits, or proceeds again.",
        {
            "topic": (TEXT, "its name"),
            "wait": (maybe(TEXT), "why; null when it proceeds"),
        },
    ),
    "topic_created": Kind(
        "A topic that a client asked for: its settings and its znode.",
        {
            "ticket": (INTEGER, "of the client's request"),
            "result": (
                f"list of {ANYTHING}",
                "the result for the client: name, error, message, ...",
            ),
            "replicas": (f"list of {IDS}", "by the number of the partition"),
            "configs": (f"list of list of {TEXT}", "name and value of each setting"),
            "replaces_configs": (BOOLEAN, "a former topic of the name left its settings"),
        },
    ),
    "deletion_requested": Kind(
        "A topic that a client wants to be deleted: its znode in /admin/delete_topics.",
        {
            "ticket": (INTEGER, "of the client's request"),
            "result": (
                f"list of {ANYTHING}",
                "the result for the client: name, error, message, ...",
            ),
        },
    ),
    "legacy_entry": Kind(
        "An entry of /admin/reassign_partitions.",
        {
            **PARTITION,
            "replicas": (f"{IDS} or null", "null: deleted"),
            "log_dirs": (
                f"list of list of {ANYTHING}",
                "broker and path of each",
            ),
        },
    ),
    "legacy_plan_ended": Kind("/admin/reassign_partitions was deleted.", {"version": _VERSION}),
    "submission_ended": Kind(
        "A submitted znode was deleted: each entry is accepted or refused.",
        {"name": (TEXT, "of the znode"), "version": _VERSION},
    ),
    "cancellation_ended": Kind(
        "/admin/cancel_reassignment_in_progress was deleted.", {"version": _VERSION}
    ),
    "queue_entry_ended": Kind("An entry left the queue.", PARTITION),
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
        "A throttle was removed.",
        {
            "entity": (TEXT, "topics/NAME or brokers/ID"),
            "lease_version": _VERSION,
            "values": (
                "list of list of text or null",
                "the remaining settings; null: they were not changed",
            ),
            "expected_version": (maybe(INTEGER), "of the settings"),
        },
    ),
    "orphan": Kind(
        "The deletion of a dropped replica is not confirmed.",
        {"orphan": (OBJECT, "broker, topic, partition, topic_czxid, reason, failed_in")},
    ),
    "orphan_ended": Kind(
        "The orphan was deleted, its broker has no log of it any more, or is a replica again.",
        {"orphan": (OBJECT, "as in orphan")},
    ),
    "notifications_deleted": Kind(
        "Notification znodes of brokers were handled.",
        {"kind_of": (TEXT, "isr or log_dir"), "names": (TEXTS, "the znodes")},
    ),
    "preferred_election_ended": Kind(
        "/admin/preferred_replica_election was deleted.", {"version": _VERSION}
    ),
    "drains_ended": Kind("A cancellation ended the drains.", {"version": _VERSION}),
    "pace": Kind(
        "The limit of partitions in flight that a throttle auto sets changed.",
        {
            "before": (maybe(INTEGER), "null: the configured limit held"),
            "in_flight_max": (maybe(INTEGER), "null: the configured limit holds"),
            "evidence": (TEXT, "why"),
        },
    ),
    "rate": Kind(
        "The rate of a broker under a throttle auto changed.",
        {
            "broker": (INTEGER, "the broker"),
            "before": (maybe(INTEGER), "bytes per second; null: the first rate"),
            "bytes_per_s": (INTEGER, "the rate from now on"),
            "evidence": (TEXT, "why"),
            "signal": (
                maybe(TEXT),
                "probe, query, isr, offline or answer; null: a bound was the reason",
            ),
            "value": (maybe(NUMBER), "what was measured, in the unit of the objective"),
            "objective": (maybe(NUMBER), "what the value is not to exceed"),
        },
    ),
    "engine": Kind(
        "The engine was chosen.",
        {"engine": (TEXT, "native or delegated"), "why": (TEXT, "why")},
    ),
    "unheeded": Kind(
        "The daemon resigns: brokers reject its controller requests.",
        {"why": (TEXT, "their errors")},
    ),
    "endpoint_unreached": Kind(
        "The daemon resigns: leaders sent no ISR change to the controller endpoint.",
        {"brokers": (IDS, "leaders that sent no request"), "why": (TEXT, "evidence")},
    ),
    "shutdown_begun": Kind(
        "A broker asked to lose its leaderships before it stops.",
        {"broker": _BROKER, "epoch": _EPOCH},
    ),
    "yielded": Kind(
        "The daemon resigns so that a broker can delete topics.",
        {"topics": (TEXTS, "their names")},
    ),
    "role_ceded": Kind(
        "The daemon resigns so that a broker can carry out a client's request.",
        {"request": (TEXT, "its name in Kafka's protocol")},
    ),
}
"""Kinds of committed records; the last ones explain a resignation."""

EVENTS: Final[Mapping[str, Kind]] = {
    "leadership_gained": Kind("This daemon became the leader of the daemons.", {}),
    "leadership_lost": Kind(
        "This daemon is no longer the leader, or does not know.", {"reason": (TEXT, "why")}
    ),
    "claimed": Kind(
        "The daemon became the cluster's controller.", {"epoch": (INTEGER, "the controller epoch")}
    ),
    "claim_failed": Kind("A claim failed.", {"reason": (TEXT, "why")}),
    "controller_role_ended": Kind(
        "The tenure ended, by resignation or by loss.", {"reason": (TEXT, "why")}
    ),
    "native_refused": Kind(
        "The native engine is not safe on this cluster.", {"reasons": (TEXTS, "why")}
    ),
    "native_possible": Kind("The native engine is safe again.", {}),
    "shutdown_requested": Kind("The daemon received a signal to stop.", {}),
    "broker_joined": Kind("A broker registered.", {"broker": _BROKER, "epoch": _EPOCH}),
    "broker_died": Kind("A broker is no longer registered.", {"broker": _BROKER, "epoch": _EPOCH}),
    "broker_bounced": Kind(
        "A broker registered again between two reads.", {"broker": _BROKER, "epoch": _EPOCH}
    ),
    "log_directory_failed": Kind(
        "Log directories of brokers failed.", {"brokers": (IDS, "their ids")}
    ),
    "plan_seen": Kind(
        "/admin/reassign_partitions exists.",
        {
            "entries": (INTEGER, "well-formed"),
            "malformed": (INTEGER, "not well-formed"),
            "unreadable": (maybe(TEXT), "why the znode is not readable"),
            "czxid": (INTEGER, "of the znode"),
        },
    ),
    "cancellation_seen": Kind(
        "/admin/cancel_reassignment_in_progress exists.",
        {
            "request": (TEXT, "the id of the cancellation"),
            "everything": (BOOLEAN, "whether it selects everything"),
            "scope": (TEXT, "in_flight or all"),
            "reason": (TEXT, "as given"),
            "requested_by": (TEXT, "as given"),
            "unreadable": (maybe(TEXT), "why it is not readable"),
        },
    ),
    "disabled": Kind("The kill switch was turned on.", {}),
    "enabled": Kind("The kill switch was turned off.", {}),
    "pauses_changed": Kind(
        "An operator changed the pauses, or began or ended a quiesce.",
        {
            "everything": (BOOLEAN, "whether everything is paused"),
            "requests": (TEXTS, "paused ones"),
            "brokers": (IDS, "paused ones"),
            "quiesce": (maybe(OBJECT), "reason, by, since_ms and deadline_ms of the quiesce"),
        },
    ),
    "limits_changed": Kind("An operator changed limits.", {"limits": (OBJECT, "the new limits")}),
    "throttle_changed": Kind(
        "An operator changed the live throttle.",
        {"bytes_per_s": (maybe(INTEGER), "per broker; null: none")},
    ),
    "throughput": Kind(
        "The work of a moment, as the charts of the status page show it: every five seconds while "
        "partitions are in flight.",
        {
            "bytes_per_s": (maybe(NUMBER), "that brokers receive; null: unknown"),
            "in_flight": (INTEGER, "partitions"),
            "copying": (INTEGER, "of these"),
        },
    ),
    "drains_changed": Kind(
        "An operator drains other brokers, or a cancellation ended the drains.",
        {
            "brokers": (IDS, "drained ones"),
            "request": (maybe(TEXT), "the one that moves their replicas; null: none is drained"),
            "throttle": (maybe(INTEGER), "of that request, per broker; null: none"),
            "window": (maybe(TEXT), "of that request; null: none"),
        },
    ),
    "evacuations_changed": Kind(
        "An operator moves leaderships off brokers, or back.",
        {
            "brokers": (IDS, "evacuated ones"),
            "returning": (IDS, "of these, the ones to which leaderships return"),
        },
    ),
    "broker_emptied": Kind("A drained broker has no replica any more.", {"broker": _BROKER}),
    "steered": Kind(
        "A form of the status page was sent.",
        {
            "action": (TEXT, "pause, resume, cancel, submit or login; plan: a preview was refused"),
            "request": (maybe(TEXT), "null: everything, or none"),
            "by": (maybe(TEXT), "the name of the token; null: it was not accepted"),
            "client": (TEXT, "its address"),
            "result": (TEXT, "done, or why not"),
        },
    ),
    "request_refused": Kind(
        "A broker rejected a controller request.",
        {
            "api": (TEXT, "leader_and_isr, update_metadata or stop_replica"),
            "broker": _BROKER,
            "error": (TEXT, "its name"),
            "code": (INTEGER, "Kafka's error code"),
        },
    ),
    "partitions_refused": Kind(
        "A broker rejected partitions of a controller request.",
        {
            "api": (TEXT, "leader_and_isr, update_metadata or stop_replica"),
            "broker": _BROKER,
            "error": (TEXT, "its name"),
            "code": (INTEGER, "Kafka's error code"),
            "count": (INTEGER, "how many"),
            "sample": (TEXTS, "the first few"),
        },
    ),
    "deletion_not_enabled": Kind(
        "A broker does not permit the deletion of topics, or does not say: they are left to it.",
        {
            "broker": _BROKER,
            "setting": (maybe(BOOLEAN), "its delete.topic.enable"),
            "reason": (maybe(TEXT), "why that is unknown"),
        },
    ),
    "latency_unmeasured": Kind(
        "A measurement of latency, which a throttle auto follows, began to fail for this reason.",
        {"signal": (TEXT, "probe or query"), "reason": (TEXT, "why")},
    ),
    "sizes_unknown": Kind(
        "A broker does not report sizes.", {"broker": _BROKER, "reason": (TEXT, "why")}
    ),
    "broker_unreachable": Kind(
        "A registered broker is unreachable during a tenure.",
        {"broker": _BROKER, "reason": (TEXT, "why")},
    ),
    "broker_reachable": Kind("The broker is reachable again.", {"broker": _BROKER}),
    "under_min_isr": Kind(
        "Partitions without a reassignment are below min.insync.replicas.",
        {"detail": (TEXT, "which"), "waits": (BOOLEAN, "whether steps that copy wait")},
    ),
    "under_min_isr_ended": Kind("No such partition is left.", {}),
    "throttle_below_produce_rate": Kind(
        "A throttle is below the produce rate of the partitions that are copied under it.",
        {"detail": (TEXT, "which")},
    ),
    "throttle_of_others_kept": Kind(
        "A setting of others stands where the daemon wants a throttle.",
        {"setting": (TEXT, "which")},
    ),
    "write_rejected": Kind(
        "The store rejected a change; it is decided again.",
        {
            **PARTITION,
            "error": (TEXT, "why"),
            "records": (TEXTS, "kinds of the records in it"),
        },
        optional=frozenset(PARTITION),
    ),
    "journal_dropped": Kind(
        "Lines are missing before this one: the disk was slow or full.",
        {"entries": (INTEGER, "how many")},
    ),
    **{
        f"{what}_unreadable{more}": Kind(
            f"A {what.replace('_', ' ')} znode or response is not readable."
            if not more
            else "Further ones.",
            {"count": (INTEGER, "how many more")}
            if more
            else {"name": (TEXT, "which"), "reason": (TEXT, "why")},
        )
        for what in ("topic", "state", "topic_config", "goal", "control")
        for more in ("", "_more")
    },
}
"""Kinds of events."""
