"""
Copies of a system: mutable objects anew, immutable ones shared.

``copy.deepcopy`` takes twenty times as long. What is immutable is decided by type: numbers, texts,
enumerations, and frozen values whose parts are immutable.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

Memo = dict[int, Any]
Copier = Callable[[Any, Memo], Any]

_ABSENT: Final = object()


def _same(value: Any, _memo: Memo) -> Any:
    return value


def _dict(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    made: Any = {}
    memo[id(value)] = made
    for key, item in value.items():
        made[key] = item if type(item) in ATOMS else copied(item, memo)
    return made


def _counter(value: Any, _memo: Memo) -> Any:
    return Counter(value)


def _set(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = set(value)
    return known


def _list(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    made: list[Any] = []
    memo[id(value)] = made
    made.extend(copied(item, memo) for item in value)
    return made


def _deque(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    made: deque[Any] = deque(maxlen=value.maxlen)
    memo[id(value)] = made
    made.extend(copied(item, memo) for item in value)
    return made


def _tuple(value: Any, memo: Memo) -> Any:
    for item in value:
        if type(item) not in ATOMS:
            break
    else:
        return value
    made = [copied(item, memo) for item in value]
    if all(a is b for a, b in zip(made, value, strict=True)):
        return value
    kind = type(value)
    return tuple(made) if kind is tuple else kind(*made)


def _method(value: Any, memo: Memo) -> Any:
    return MethodType(value.__func__, copied(value.__self__, memo))


ATOMS: Final[set[type]] = {int, str, bytes, float, bool, type(None)}
COPIERS: Final[dict[type, Copier]] = {
    **dict.fromkeys(ATOMS, _same),
    type: _same,
    frozenset: _same,
    FunctionType: _same,
    BuiltinFunctionType: _same,
    dict: _dict,
    Counter: _counter,
    set: _set,
    list: _list,
    deque: _deque,
    tuple: _tuple,
    MethodType: _method,
}


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the names of the attributes that instances of a class with slots may have."""
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return tuple(n for n in names if n not in {"__dict__", "__weakref__"})


def _copier_of(kind: type) -> Copier:  # noqa: C901 - one kind of class each
    own = kind.__dict__.get("copied")
    if isinstance(own, FunctionType):
        return lambda value, memo: (
            memo.get(id(value)) or memo.setdefault(id(value), own(value, memo))
        )
    if issubclass(kind, Enum | int | str | float | bytes | frozenset):
        ATOMS.add(kind)
        return _same
    if issubclass(kind, tuple):
        return _tuple
    names = fields_of(kind)
    is_frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    new, put = object.__new__, object.__setattr__

    def frozen(value: Any, memo: Memo) -> Any:
        for name in names:
            item = getattr(value, name)
            if type(item) not in ATOMS and copied(item, memo) is not item:
                break
        else:
            return value
        made = new(kind)
        for name in names:
            put(made, name, copied(getattr(value, name), memo))
        return made

    def mutable(value: Any, memo: Memo) -> Any:
        known = memo.get(id(value))
        if known is not None:
            return known
        made = memo[id(value)] = new(kind)
        for name in names:
            item = getattr(value, name, _ABSENT)
            if item is not _ABSENT:
                put(made, name, item if type(item) in ATOMS else copied(item, memo))
        return made

    def plain(value: Any, memo: Memo) -> Any:
        known = memo.get(id(value))
        if known is not None:
            return known
        made = memo[id(value)] = new(kind)
        into = made.__dict__
        for name, item in value.__dict__.items():
            into[name] = item if type(item) in ATOMS else copied(item, memo)
        return made

    if kind.__dictoffset__:
        return plain
    return frozen if is_frozen else mutable


def copied(value: Any, memo: Memo) -> Any:
    """Return an independent copy; ``memo`` holds what was copied already, by identity."""
    kind = type(value)
    copier = COPIERS.get(kind)
    if copier is None:
        copier = COPIERS[kind] = _copier_of(kind)
    return copier(value, memo)
