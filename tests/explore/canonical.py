"""
The canonical form of a state: equal for states from which the same can happen.

Sets and dictionaries are sorted. Instants become ages or remaining times relative to the present;
older than ``OLD_S`` is old. ``IGNORED`` names what no decision depends on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from types import FunctionType
from typing import Any, Final

from tests.explore.copying import fields_of

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
}  # fmt: skip

Former = Callable[[Any], Any]
_now = 0.0


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    age = _now - value
    if age > OLD_S:
        return "old"
    return round(-age, 3) if age > -NEVER_S else "never"


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
            (k if type(k) in PLAIN else form(k), v if type(v) in PLAIN else form(v))
            for k, v in value.items()
        ]
    )


def _set(value: Any) -> Any:
    return _sorted([v if type(v) in PLAIN else form(v) for v in value]) if value else ()


def _sequence(value: Any) -> Any:
    return tuple([v if type(v) in PLAIN else form(v) for v in value]) if value else ()


PLAIN: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types whose values are their own form."""
FORMERS: Final[dict[type, Former]] = {
    int: _same,
    str: _same,
    bytes: _same,
    bool: _same,
    type(None): _same,
    float: _float,
    dict: _dict,
    Counter: _dict,
    set: _set,
    frozenset: _set,
    tuple: _sequence,
    list: _sequence,
    deque: _sequence,
}


def _former_of(kind: type) -> Former:  # noqa: PLR0911 - one per kind of class
    own = kind.__dict__.get("form")
    if isinstance(own, FunctionType):
        return lambda value: form(own(value))
    if issubclass(kind, Enum):
        names = {member: f"{kind.__name__}.{member.name}" for member in kind}
        return lambda value: names[value]
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
        wanted = tuple(n for n in names_of if n not in ignored)
        if len(wanted) < 2:
            return lambda value: (name, *[form(getattr(value, n)) for n in wanted])
        fields = attrgetter(*wanted)
        return lambda value: (
            name,
            *[v if type(v) in PLAIN else form(v) for v in fields(value)],
        )
    return lambda value: (
        name,
        *[form(item) for key, item in sorted(vars(value).items()) if key not in ignored],
    )


def form(value: Any) -> Any:
    """Return a value made of tuples, numbers and texts."""
    kind = type(value)
    former = FORMERS.get(kind)
    if former is None:
        former = FORMERS[kind] = _former_of(kind)
    return former(value)


def form_at(value: Any, now: float) -> Any:
    """Return the canonical form at an instant."""
    global _now  # noqa: PLW0603 - a parameter of every call below costs a fifth of the time
    _now = now
    return form(value)


def digest(formed: Any) -> bytes:
    """Return sixteen bytes that identify a canonical form."""
    return hashlib.blake2b(marshal.dumps(formed, 2), digest_size=16).digest()
