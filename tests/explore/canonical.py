"""
The canonical form of a state: equal for states from which the same can happen.

Sets and dictionaries are sorted. Instants become ages or remaining times relative to the present;
older than ``OLD_S`` is old, and ``PASSED_S`` says of some that they are earlier. ``IGNORED`` names
what no decision depends on. Transaction ids are only compared: their ranks take their place.
"""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
import re
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any, Final

from tests.explore.copying import fields_of
from tests.explore.production import METADATA_EVERY_S

OLD_S: Final = 65.0
"""The age from which all instants are equal: longer than every time-out that a shape reaches."""
NEVER_S: Final = 1e6
"""The time to come from which all instants are equal."""

IGNORED: Final[dict[str, frozenset[str]]] = {
    "ClusterView": frozenset({"options"}),
    "PacingHistory": frozenset({"wall"}),
    # Ages for the status page; sizes are not measured.
    "Reassignment": frozenset({"since", "phase_since", "blocked_since"}),
    "QueryTimes": frozenset({"all_at", "copies_at", "counts_at", "new_queried_at", "new_since"}),
    "Reactor": frozenset(
        {
            "_store", "_channels", "_configs", "_clock", "_observer", "_broker_settings", "_sizes",
            "_endpoint", "_submissions", "_failpoints", "_lease", "_awake_at", "changes",
        }
    ),
    "Commits": frozenset({"_view", "_store", "_observer", "_failpoints", "_carry_out"}),
    "Reads": frozenset({"_store"}),
    "PlacementQueue": frozenset({"_directories", "_put"}),
    "AlterQueue": frozenset({"_reassignments"}),
    # Until when the estimate of a disk may be too high: no disk is measured.
    "DiskLedger": frozenset({"unseen_until"}),
}  # fmt: skip
PASSED_S: Final[dict[str, dict[str, float]]] = {
    # A queue waits for this instant, and for no earlier one.
    "_Queue": {"metadata_sent_at": METADATA_EVERY_S},
}
"""Ages from which instants of a field are equal."""
ZXID_BASE: Final = 1 << 40
"""Transaction ids of the explorer begin here: no other number is as large."""
_NUMBER: Final = re.compile(rb"l\x03\x00\x00\x00(..)\x00\x00\x00\x04", re.DOTALL)
"""A transaction id as ``marshal`` writes it."""
_TEXT: Final = re.compile(str(ZXID_BASE)[:8].encode() + rb"(\d{5})")
"""A transaction id in the text of a znode."""

Former = Callable[[Any], Any]
_now = 0.0


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    age = _now - value
    if age > OLD_S:
        return "old"
    return round(-age, 3) if age > -NEVER_S else "never"


def _since(value: float, passed: float) -> Any:
    """Return the form of an instant of which nothing depends once it is so old."""
    return _float(value) if _now - value < passed else "old"


def _sorted(items: list[Any]) -> tuple[Any, ...]:
    try:
        items.sort()
    except TypeError:
        items.sort(key=repr)
    return tuple(items)


def _dict(value: Any) -> Any:
    if not value:
        return ()
    return _sorted(
        [
            (
                k if type(k) in PLAIN else FORMERS[type(k)](k),
                v if type(v) in PLAIN else FORMERS[type(v)](v),
            )
            for k, v in value.items()
        ]
    )


def _set(value: Any) -> Any:
    if not value:
        return ()
    return _sorted([v if type(v) in PLAIN else FORMERS[type(v)](v) for v in value])


def _sequence(value: Any) -> Any:
    if not value:
        return ()
    return tuple([v if type(v) in PLAIN else FORMERS[type(v)](v) for v in value])


PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types whose values are their own form."""


class _Formers(dict[type, Former]):
    """The formers by type, made when a type is met first."""

    def __missing__(self, kind: type) -> Former:
        former = self[kind] = _former_of(kind)
        return former


FORMERS: Final = _Formers(
    {
        **dict.fromkeys(PLAIN, _same),
        float: _float,
        dict: _dict,
        Counter: _dict,
        set: _set,
        frozenset: _set,
        tuple: _sequence,
        list: _sequence,
        deque: _sequence,
    }
)


def _former_of(kind: type) -> Former:  # noqa: PLR0911 - one per kind of class
    own = kind.__dict__.get("form")
    if isinstance(own, FunctionType):
        return lambda value: form(own(value))
    if issubclass(kind, Enum):
        names = {member: f"{kind.__name__}.{member.name}" for member in kind}
        return names.__getitem__
    if issubclass(kind, tuple):
        return _sequence
    if issubclass(kind, str):
        return str
    ignored = IGNORED.get(kind.__name__, frozenset())
    name = kind.__name__
    names_of = fields_of(kind)
    if dataclasses.is_dataclass(kind):
        names_of = tuple(f.name for f in dataclasses.fields(kind))
    if not kind.__dictoffset__:
        return _of_fields(name, tuple(n for n in names_of if n not in ignored))
    return lambda value: (
        name,
        *[form(item) for key, item in sorted(vars(value).items()) if key not in ignored],
    )


def _of_fields(name: str, wanted: tuple[str, ...]) -> Former:
    """Return a function that reads some fields, written out: a loop takes twice as long."""
    passed = PASSED_S.get(name, {})
    parts = [
        f"_since(value.{n}, {passed[n]})"
        if n in passed
        else f"v{i} if type(v{i} := value.{n}) in PLAIN else FORMERS[type(v{i})](v{i})"
        for i, n in enumerate(wanted)
    ]
    written: dict[str, Any] = {"PLAIN": PLAIN, "FORMERS": FORMERS, "_since": _since}
    source = f"def former(value):\n    return ({name!r}, {', '.join(parts)})\n"
    exec(source, written)  # noqa: S102 - the text is made here
    former: Former = written["former"]
    return former


def form(value: Any) -> Any:
    """Return a value made of tuples, numbers and texts."""
    return FORMERS[type(value)](value)


def form_at(value: Any, now: float) -> Any:
    """Return the canonical form at an instant."""
    global _now  # noqa: PLW0603 - a parameter of every call below costs a fifth of the time
    _now = now
    return form(value)


def digest(formed: Any) -> bytes:
    """Return sixteen bytes that identify a canonical form."""
    written = marshal.dumps(formed, 2)
    numbers, texts = set(_NUMBER.findall(written)), set(_TEXT.findall(written))
    values = {raw: int.from_bytes(raw, "little") for raw in numbers}
    values |= {raw: int(raw) - ZXID_BASE % 100_000 for raw in texts}
    order = {zxid: b"zxid %04d" % rank for rank, zxid in enumerate(sorted(set(values.values())))}
    ranks = {raw: order[zxid] for raw, zxid in values.items()}
    for pattern in (_NUMBER, _TEXT):
        written = pattern.sub(lambda match: ranks[match[1]], written)
    return hashlib.blake2b(written, digest_size=16).digest()
