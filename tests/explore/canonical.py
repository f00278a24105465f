"""
The canonical form of a state: equal for states from which the same can happen.

Sets and dictionaries are sorted. Instants become ages or remaining times relative to the present;
older than ``OLD_S`` is old, and ``PASSED_S`` says of some that they are earlier. ``IGNORED`` names
what no decision depends on. Numbers that are only compared become ranks: transaction ids, and those
of requests for settings.
"""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
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
STATES_OF_VIEW: Final = frozenset().union(
    *(IGNORED[kind] for kind in ("PacingHistory", "Reassignment", "QueryTimes", "DiskLedger"))
)
"""Those of them that change; the others are parts of the process, which have no form."""
PASSED_S: Final[dict[str, dict[str, float]]] = {
    # A queue waits for this instant, and for no earlier one.
    "_Queue": {"metadata_sent_at": METADATA_EVERY_S},
}
"""Ages from which instants of a field are equal."""
ZXID_BASE: Final = 1 << 40
"""Transaction ids of the explorer begin here: no other number is as large."""
NUMBER_BASE: Final = 1 << 41
"""The numbers of a daemon's requests for topic settings begin here."""
_NUMBER: Final = re.compile(rb"l\x03\x00\x00\x00(..\x00\x00\x00[\x04\x08])", re.DOTALL)
"""One of these as ``marshal`` writes it."""
ZXID_DIGIT: Final = ZXID_BASE >> 30
"""The last digit of a transaction id there."""
_TEXT: Final = re.compile(str(ZXID_BASE)[:8].encode() + rb"(\d{5})")
"""A transaction id in the text of a znode."""

RULES: Final = {
    "ignored fields": "no decision depends on them",
    "old instants": "every time-out has passed",
    "distant instants": "no timer of them fires",
    "passed instants": "what waits for them waits no more",
    "ranks": "transaction ids and numbers of requests are only compared",
    "undated znodes": "no client reads when they were written, or what the next child is called",
}
"""The rules that make two states one, with the reason for which their futures are the same."""

Former = Callable[[Any], Any]
_now = 0.0
_off: set[str] = set()
"""Rules that are not applied."""
_known: dict[frozenset[str], dict[type, Former]] = {}
"""The formers without some rules."""


def is_on(rule: str) -> bool:
    """Return whether a rule is applied."""
    return rule not in _off


@contextmanager
def without(rules: Collection[str]) -> Iterator[None]:
    """Apply some of the rules no more: states differ that were one."""
    known = dict(FORMERS)
    _off.update(rules)
    FORMERS.clear()
    FORMERS.update(_known.get(frozenset(_off), BASE))
    try:
        yield
    finally:
        _known[frozenset(_off)] = dict(FORMERS)
        _off.difference_update(rules)
        FORMERS.clear()
        FORMERS.update(known)


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    age = _now - value
    if age > OLD_S and "old instants" not in _off:
        return "old"
    return "never" if age <= -NEVER_S and "distant instants" not in _off else round(-age, 3)


def _since(value: float, passed: float) -> Any:
    """Return the form of an instant of which nothing depends once it is so old."""
    return _float(value) if _now - value < passed or not is_on("passed instants") else "old"


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


PLAIN: Final[frozenset[type]] = frozenset({int, str, bytes, bool, type(None)})
"""Types whose values are their own form."""


class _Formers(dict[type, Former]):
    """The formers by type, made when a type is met first."""

    def __missing__(self, kind: type) -> Former:
        former = self[kind] = _former_of(kind)
        return former


BASE: Final[dict[type, Former]] = {
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
FORMERS: Final = _Formers(BASE)


def _former_of(kind: type) -> Former:
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
    if not is_on("ignored fields"):
        ignored -= STATES_OF_VIEW
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
    """Return a function that reads some fields; written out it is twice as fast."""
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
    if not is_on("ranks"):
        return hashlib.blake2b(written, digest_size=16).digest()
    numbers, texts = set(_NUMBER.findall(written)), set(_TEXT.findall(written))
    values = {raw: (raw[-1], int.from_bytes(raw[:2], "little")) for raw in numbers}
    values |= {raw: (ZXID_DIGIT, int(raw) - ZXID_BASE % 100_000) for raw in texts}
    order = {value: b"rank %04d" % rank for rank, value in enumerate(sorted(set(values.values())))}
    ranks = {raw: order[value] for raw, value in values.items()}
    for pattern in (_NUMBER, _TEXT):
        written = pattern.sub(lambda match: ranks[match[1]], written)
    return hashlib.blake2b(written, digest_size=16).digest()
