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
    made = memo[id(value)] = value.copy()
    for key, item in value.items():
        if type(item) not in ATOMS:
            made[key] = COPIERS[type(item)](item, memo)
    return made


def _counter(value: Any, _memo: Memo) -> Any:
    return Counter(value)


def _set(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = value.copy()
    return known


def _list(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    made = memo[id(value)] = value.copy()
    for index, item in enumerate(value):
        if type(item) not in ATOMS:
            made[index] = COPIERS[type(item)](item, memo)
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


class _Copiers(dict[type, Copier]):
    """The copiers by type, made when a type is met first."""

    def __missing__(self, kind: type) -> Copier:
        copier = self[kind] = _copier_of(kind)
        return copier


ATOMS: Final[set[type]] = {int, str, bytes, float, bool, type(None), frozenset}
COPIERS: Final = _Copiers(
    {
        **dict.fromkeys(ATOMS, _same),
        type: _same,
        FunctionType: _same,
        BuiltinFunctionType: _same,
        dict: _dict,
        Counter: _counter,
        set: _set,
        list: _list,
        deque: _list,
        tuple: _tuple,
        MethodType: _method,
    }
)


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

    def plain(value: Any, memo: Memo) -> Any:
        known = memo.get(id(value))
        if known is not None:
            return known
        made = memo[id(value)] = new(kind)
        into = made.__dict__
        into.update(value.__dict__)
        for name, item in value.__dict__.items():
            if type(item) not in ATOMS:
                into[name] = COPIERS[type(item)](item, memo)
        return made

    if kind.__dictoffset__:
        return plain
    return frozen if is_frozen else _of_slots(kind, names)


def _of_slots(kind: type, names: tuple[str, ...]) -> Copier:
    """Return a function that copies the slots of a class; written out it is twice as fast."""
    lines = ["def fast(value, made, memo):"]
    for name in names:
        lines += [
            f"    item = value.{name}",
            f"    made.{name} = item if type(item) in ATOMS else COPIERS[type(item)](item, memo)",
        ]
    written: dict[str, Any] = {"ATOMS": ATOMS, "COPIERS": COPIERS}
    exec("\n".join([*lines, "    return"]), written)  # noqa: S102 - the text is made here
    fast, new = written["fast"], object.__new__

    def mutable(value: Any, memo: Memo) -> Any:
        known = memo.get(id(value))
        if known is not None:
            return known
        made: Any = new(kind)
        memo[id(value)] = made
        try:
            fast(value, made, memo)
        except AttributeError:  # a slot without a value
            for name in names:
                item = getattr(value, name, _ABSENT)
                if item is not _ABSENT:
                    setattr(made, name, copied(item, memo))
        return made

    return mutable


def copied(value: Any, memo: Memo) -> Any:
    """Return an independent copy; ``memo`` holds what was copied already, by identity."""
    return COPIERS[type(value)](value, memo)
