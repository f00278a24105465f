"""
The schema of the journal: every kind of line, its fields, their types and meanings.

Version 1. ``docs/reference/journal.md`` is generated from it; a test compares what the observer
writes with it. Fields and kinds may be added within a version; readers skip what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 1

TEXT: Final = "text"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
OBJECT: Final = "object"
IDS: Final = "list of integer"
TEXTS: Final = "list of text"
OBJECTS: Final = "list of object"


def maybe(of: str) -> str:
    """Return the type that may be null as well."""
    return f"{of} or null"


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    TEXT: str,
    INTEGER: int,
    NUMBER: (int, float),
    BOOLEAN: bool,
    OBJECT: dict,
}


def is_of(value: Any, wanted: str) -> bool:  # noqa: ANN401 - any JSON value
    """Whether a JSON value has a type of the schema."""
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
    """Fields that are left out where they mean nothing."""


_P: Final[Mapping[str, Field]] = {
    "topic": (TEXT, "of the partition"),
    "partition": (INTEGER, "its number"),
}
_REQUEST: Final[Field] = (TEXT, "the request it belongs to")

LIFE: Final[Mapping[str, Kind]] = {
    "daemon_started": Kind(
        "A daemon begins to write here; what came before is of an earlier process.",
        {
            "version": (TEXT, "of the package"),
            "engine": (TEXT, "native or delegated"),
            "controller_id": (INTEGER, "our id as a controller"),
            "zookeeper": (TEXT, "the connect string with its chroot"),
        },
    ),
    "request_begun": Kind(
        "A request is seen for the first time by this process: its first entries are accepted.",
        {
            "request": (TEXT, "its id"),
            "request_kind": (TEXT, "legacy, request, queue, cancel or foreign"),
            "route": (TEXT, "legacy, request or foreign"),
            "entries": (INTEGER, "known of so far; more may be accepted later"),
            "priority": (INTEGER, "higher goes first"),
            "throttle": (maybe(INTEGER), "bytes per second and broker"),
            "asked_for": (maybe(TEXT), "the reason its maker gave"),
            "requested_by": (maybe(TEXT), "who asked"),
        },
    ),
    "progress": Kind(
        "Where a request stands: every ten seconds while it is open and something of it came on, "
        "every minute otherwise, and once more when it ends.",
        {
            "request": (TEXT, "its id"),
            "state": (TEXT, "in_flight, waiting, held, done, cancelled or refused"),
            "entries": (INTEGER, "known of"),
            "done": (INTEGER, "reached their target"),
            "in_flight": (INTEGER, "between their first step and their end"),
            "waiting": (INTEGER, "not begun"),
            "refused": (INTEGER, "not carried out"),
            "cancelled": (INTEGER, "cancelled or rolled back"),
            "bytes_total": (
                maybe(INTEGER),
                "to copy in all, as far as sizes are known; null: none is",
            ),
            "bytes_moved": (maybe(INTEGER), "copied so far"),
            "bytes_remaining": (maybe(INTEGER), "total less moved"),
            "sizes_unknown": (INTEGER, "open partitions whose size no broker told yet"),
            "rate": (maybe(NUMBER), "bytes per second over the last minutes"),
            "eta_low_s": (maybe(NUMBER), "estimated seconds to the end, at best"),
            "eta_high_s": (maybe(NUMBER), "at worst; both null while nothing is known"),
        },
    ),
    "request_ended": Kind(
        "Nothing of a request is open any more.",
        {
            "request": (TEXT, "its id"),
            "state": (TEXT, "done, cancelled or refused"),
            "seconds": (NUMBER, "since this process saw it begin"),
            "entries": (INTEGER, "in all"),
            "done": (INTEGER, "reached their target"),
            "refused": (INTEGER, "not carried out"),
            "cancelled": (INTEGER, "cancelled or rolled back"),
            "superseded": (INTEGER, "taken over by a later request"),
            "skipped": (INTEGER, "could not be cancelled"),
            "bytes_moved": (maybe(INTEGER), "copied; null where no size was known"),
        },
    ),
    "size": Kind(
        "The size of a reassigning partition was told by a broker for the first time.",
        {
            **_P,
            "request": _REQUEST,
            "bytes": (INTEGER, "of its largest replica"),
            "copies": (
                INTEGER,
                "replicas it has to copy in all: in the target, not in the original",
            ),
        },
    ),
    "phase": Kind(
        "A partition came into a phase (docs/reference/phases.md).",
        {
            **_P,
            "phase": (TEXT, "pending, A1, A2, A2-syncing, B3, B5 or ended"),
            "before": (TEXT, "the phase before"),
            "seconds": (maybe(NUMBER), "how long that one lasted; null: its begin was not seen"),
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
        "A new replica came into the ISR: one copy from broker to broker is whole.",
        {
            **_P,
            "request": _REQUEST,
            "leader": (INTEGER, "the broker that served it (when the copy began)"),
            "replica": (INTEGER, "the broker that copied it"),
            "begun": (TEXT, "when its step began"),
            "seconds": (NUMBER, "from then until it was seen in the ISR"),
            "bytes": (maybe(INTEGER), "null: the size is not known"),
        },
    ),
    "copy_abandoned": Kind(
        "A replica that was being copied is not wanted any more, or our tenure ended meanwhile.",
        {
            **_P,
            "request": _REQUEST,
            "leader": (INTEGER, "the broker that served it"),
            "replica": (INTEGER, "the broker that copied"),
            "begun": (TEXT, "when its step began"),
            "seconds": (NUMBER, "how long it went on"),
            "bytes": (maybe(INTEGER), "copied by then, as last told by the broker"),
        },
    ),
    "isr_shrunk": Kind(
        "The ISR of a partition in flight lost replicas that we did not take out.",
        {
            **_P,
            "request": _REQUEST,
            "lost": (IDS, "who fell out"),
            "isr": (IDS, "who is left"),
            "leader": (INTEGER, "-1: none"),
        },
    ),
    "stalled": Kind(
        "A partition has not come on for too long. At most 20 at once are named.",
        {**_P, "by": (TEXT, "what it waits for; none: it waits for nothing known")},
    ),
    "stalled_more": Kind(
        "More partitions stalled at the same moment than are named.",
        {
            "partitions": (INTEGER, "how many more"),
            "by": (OBJECT, "how many for each reason"),
        },
    ),
    "goes_on": Kind(
        "A stalled partition came on, or ended.", {**_P, "by": (TEXT, "what it waited for")}
    ),
    "goes_on_more": Kind(
        "More partitions came on at the same moment than are named.",
        {
            "partitions": (INTEGER, "how many more"),
            "by": (OBJECT, "how many for each reason"),
        },
    ),
    "blocked": Kind(
        "What waits for one reason changed; at most every ten seconds for each reason.",
        {
            "by": (TEXT, "the reason"),
            "partitions": (INTEGER, "how many wait for it"),
            "sample": (TEXTS, "the first few, in words"),
        },
    ),
    "unblocked": Kind(
        "Nothing waits for this reason any more.",
        {"by": (TEXT, "the reason"), "partitions": (INTEGER, "how many waited when last told")},
    ),
}
"""What an after-action report is made of."""
