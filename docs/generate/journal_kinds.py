"""
The schema of the journal, version 1: types, and the kinds of lines about requests and partitions.

``docs/reference/journal.md`` is generated from it, and a test compares it with the lines of the
observer. Fields and kinds may be added within a version; readers ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TEXT: Final = "text"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
OBJECT: Final = "object"
IDS: Final = "list of integer"
ANYTHING: Final = "value"
TEXTS: Final = "list of text"
OBJECTS: Final = "list of object"


def maybe(of: str) -> str:
    """Return the type or null."""
    return f"{of} or null"


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    TEXT: str,
    INTEGER: int,
    NUMBER: (int, float),
    BOOLEAN: bool,
    OBJECT: dict,
    ANYTHING: object,
}


def is_of(value: Any, wanted: str) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether a JSON value has a type of the schema."""
    if wanted.endswith(" or null"):
        return value is None or is_of(value, wanted.removesuffix(" or null"))
    if wanted.startswith("list of "):
        inner = wanted.removeprefix("list of ")
        return isinstance(value, list) and all(is_of(v, inner) for v in value)
    if isinstance(value, bool):
        return wanted == BOOLEAN
    return isinstance(value, _TYPES[wanted])


Field = tuple[str, str]
"""Type and meaning."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of line."""

    meaning: str
    fields: Mapping[str, Field]
    optional: frozenset[str] = frozenset()
    """Fields that a line may lack."""


PARTITION: Final[Mapping[str, Field]] = {
    "topic": (TEXT, "of the partition"),
    "partition": (INTEGER, "its number"),
}
_REQUEST: Final[Field] = (TEXT, "the request it belongs to")

LIFE: Final[Mapping[str, Kind]] = {
    "daemon_started": Kind(
        "A daemon started; earlier lines are of another process.",
        {
            "version": (TEXT, "of the package"),
            "engine": (TEXT, "native or delegated"),
            "controller_id": (INTEGER, "the daemon's id as a controller"),
            "zookeeper": (TEXT, "the connect string with its chroot"),
        },
    ),
    "request_begun": Kind(
        "This process accepted the first entries of a request, or took it over.",
        {
            "request": (TEXT, "its id"),
            "request_kind": (TEXT, "legacy, request, queue, cancel or foreign"),
            "route": (TEXT, "legacy, request or foreign"),
            "entries": (INTEGER, "known so far; more may be accepted later"),
            "priority": (INTEGER, "higher goes first"),
            "throttle": (maybe(INTEGER), "bytes per second and broker"),
            "asked_for": (maybe(TEXT), "the reason given at submission"),
            "requested_by": (maybe(TEXT), "who submitted it"),
            "approved": (maybe(TEXT), "the hash of the approved plan"),
            "approved_by": (maybe(TEXT), "who approved it"),
        },
    ),
    "progress": Kind(
        "The progress of a request: every ten seconds while it makes progress, every minute "
        "otherwise, and once when it ends.",
        {
            "request": (TEXT, "its id"),
            "state": (
                TEXT,
                "blocked, held, in_flight, waiting; of one that ended its worst outcome, as below",
            ),
            "entries": (INTEGER, "known so far"),
            "done": (INTEGER, "reached their target"),
            "in_flight": (INTEGER, "between their first step and their end"),
            "waiting": (INTEGER, "pending"),
            "refused": (INTEGER, "refused"),
            "cancelled": (INTEGER, "cancelled or rolled back"),
            "bytes_total": (
                maybe(INTEGER),
                "to copy in all, as far as sizes are known; null: no size is known",
            ),
            "bytes_moved": (maybe(INTEGER), "copied so far"),
            "bytes_remaining": (maybe(INTEGER), "total minus moved"),
            "bytes_since": (
                maybe(TEXT),
                "since when bytes are known, where another daemon ended partitions before",
            ),
            "share": (maybe(NUMBER), "of the bar, 0 to 1; null: unknown"),
            "sizes_unknown": (INTEGER, "partitions of unknown size, which the bytes omit"),
            "rate": (maybe(NUMBER), "bytes per second, as on the status page; null: unknown"),
            "eta_low_s": (maybe(NUMBER), "estimated seconds to the end, at best"),
            "eta_high_s": (maybe(NUMBER), "at worst; both null without an estimate"),
        },
    ),
    "request_ended": Kind(
        "A request ended: none of its entries is open.",
        {
            "request": (TEXT, "its id"),
            "state": (TEXT, "its worst outcome: undone, cancelled, refused, superseded or done"),
            "seconds": (NUMBER, "since it was submitted or, where unknown, taken over"),
            "entries": (INTEGER, "in all"),
            "done": (INTEGER, "reached their target"),
            "refused": (INTEGER, "refused"),
            "cancelled": (INTEGER, "cancelled or rolled back"),
            "superseded": (INTEGER, "superseded by a later request"),
            "skipped": (INTEGER, "could not be cancelled"),
            "bytes_moved": (
                maybe(INTEGER),
                "copied; null where no size was known, or another daemon copied some",
            ),
        },
    ),
    "size": Kind(
        "A broker reported the size of a reassigning partition for the first time.",
        {
            **PARTITION,
            "request": _REQUEST,
            "bytes": (INTEGER, "of its largest replica"),
            "copies": (
                INTEGER,
                "replicas to copy: in the target, not in the original replicas",
            ),
        },
    ),
    "phase": Kind(
        "A partition entered a phase (docs/reference/phases.md).",
        {
            **PARTITION,
            "phase": (TEXT, "pending, A1, A2, A2-syncing, B3, B5 or ended"),
            "before": (TEXT, "the phase before"),
            "seconds": (maybe(NUMBER), "how long that phase lasted; null: its start is not known"),
            "cause": (TEXT, "why"),
            "request": (maybe(TEXT), "the request it belongs to"),
            "step": (INTEGER, "steps begun so far, as far as this process knows"),
            "replicas": (IDS, "RS, of the topic znode"),
            "adding_replicas": (IDS, "AR"),
            "removing_replicas": (IDS, "RR"),
            "leader": (maybe(INTEGER), "null: unknown; -1: none"),
            "isr": (IDS, "in sync"),
            "leader_epoch": (maybe(INTEGER), ""),
            "controller_epoch": (maybe(INTEGER), ""),
            "zk_version": (maybe(INTEGER), "of the partition's state znode"),
        },
    ),
    "copied": Kind(
        "An added replica joined the ISR: its copy is complete.",
        {
            **PARTITION,
            "request": _REQUEST,
            "leader": (INTEGER, "the broker that served it (when the copy began)"),
            "replica": (INTEGER, "the broker that copied it"),
            "begun": (TEXT, "when its step began"),
            "seconds": (NUMBER, "from then until it was seen in the ISR"),
            "bytes": (maybe(INTEGER), "null: the size is not known"),
            "throttled": (BOOLEAN, "whether its request had a throttle when it began"),
            "bytes_in_per_s": (
                maybe(NUMBER),
                "what producers write to the partition, as its logs grow; null: not measured",
            ),
        },
    ),
    "copy_abandoned": Kind(
        "A copy was cancelled, or the tenure ended before it was complete.",
        {
            **PARTITION,
            "request": _REQUEST,
            "leader": (INTEGER, "the broker that served it"),
            "replica": (INTEGER, "the broker that copied"),
            "begun": (TEXT, "when its step began"),
            "seconds": (NUMBER, "how long it lasted"),
            "bytes": (maybe(INTEGER), "copied by then, as last reported by the broker"),
            "throttled": (BOOLEAN, "whether its request had a throttle when it began"),
            "bytes_in_per_s": (
                maybe(NUMBER),
                "what producers write to the partition, as its logs grow; null: not measured",
            ),
        },
    ),
    "isr_shrunk": Kind(
        "The ISR of a partition in flight lost replicas that were not dropped.",
        {
            **PARTITION,
            "request": _REQUEST,
            "lost": (IDS, "the replicas that left the ISR"),
            "isr": (IDS, "the ISR now"),
            "leader": (INTEGER, "-1: none"),
        },
    ),
    "stalled": Kind(
        "A partition is stalled. At most 20 at a time are named.",
        {**PARTITION, "by": (TEXT, "the blocked reason; none: it is not blocked")},
    ),
    "stalled_more": Kind(
        "Further partitions became stalled at the same moment.",
        {
            "partitions": (INTEGER, "how many more"),
            "by": (OBJECT, "how many for each reason"),
        },
    ),
    "goes_on": Kind(
        "A stalled partition made progress, or ended.",
        {**PARTITION, "by": (TEXT, "the reason while it was stalled")},
    ),
    "goes_on_more": Kind(
        "Further stalled partitions made progress at the same moment.",
        {
            "partitions": (INTEGER, "how many more"),
            "by": (OBJECT, "how many for each reason"),
        },
    ),
    "blocked": Kind(
        "The partitions blocked by one reason changed; at most every ten seconds for each reason.",
        {
            "by": (TEXT, "the reason"),
            "partitions": (INTEGER, "how many it blocks"),
            "sample": (TEXTS, "the first few, with details"),
        },
    ),
    "unblocked": Kind(
        "No partition is blocked by this reason any more.",
        {
            "by": (TEXT, "the reason"),
            "partitions": (INTEGER, "how many it blocked when last logged"),
        },
    ),
}
"""Kinds about requests and partitions; reports are made of them."""
