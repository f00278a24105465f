"""
Decoding of requests that any process in the network may have sent.

Reads a message by its schema and refuses everything that the schema does not allow: fields beyond
the end of the frame, bytes behind the last field, null values where none are allowed, invalid
UTF-8. kafka-python's own decoder trusts its peer: it truncates strings silently, ignores trailing
bytes, and copies the rest of the frame for every tagged field.

A request of 16 MiB takes seconds. A long frame is read on a thread of its own, as brokers would
wait for the event loop, and in turns of a millisecond with rests in between: the decoder shares the
interpreter with the loop of the daemon, whose latency must not depend on what peers send.

Invariant: time and memory are proportional to the length of the frame, up to a number of elements
that no cluster needs. A count is checked against the bytes that are left before anything is
allocated for it.
"""

from __future__ import annotations

import asyncio
import re
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar

from controller.errors import RemoteProtocolError, ensure

ELEMENTS_MAX: Final = 1_000_000
"""
Elements of all arrays of a frame.

Those of 200,000 partitions, more than a cluster with ZooKeeper has, with four replicas each.
"""
ROWS_MAX: Final = 200_000
"""Structures in one array, and in all arrays that are not folded: each takes some 300 bytes."""
UNPACED_MAX: Final = 16 * 1024
"""Frames up to this size are read in one turn, of a few milliseconds."""
WORK_S: Final = 0.001
"""How long a turn is, in time of the processor."""
REST_S: Final = 0.002
"""How long the rest after it is: a third of the interpreter's time is the most that is taken."""
TURN_ELEMENTS: Final = 32
"""Elements that are read between two looks at the clock."""

_VARINT_SHIFT_MAX: Final = 28
"""An unsigned varint of 32 bits has at most five bytes (``ByteUtils.readUnsignedVarint``)."""
_STRING_MAX: Final = 0x7FFF
"""The longest string, in bytes, of flexible versions too (``Readable.readString``)."""
_NULL: Final = -1
_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}
_INT16: Final = _NUMBERS["int16"]
_INT32: Final = _NUMBERS["int32"]


class OversizedError(RemoteProtocolError):
    """A request is well-formed so far, and about more than a cluster has."""


@dataclass(eq=False, repr=False, slots=True)
class Cursor:
    """
    A position in a frame; every method reads at it and moves it.

    Every method raises RemoteProtocolError if the frame does not contain what it reads.
    """

    _data: bytes
    _at: int = 0
    _elements_left: int = ELEMENTS_MAX
    _rows_left: int = ROWS_MAX
    _unlooked: int = 0
    _is_paced: bool = field(init=False)
    _rests_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._is_paced = len(self._data) > UNPACED_MAX
        self._rests_at = time.thread_time() + WORK_S if self._is_paced else 0.0

    @property
    def position(self) -> int:
        """Where the next value begins."""
        return self._at

    def rest(self) -> None:
        """Let other threads work, if the frame is long and this one worked for its turn."""
        self._unlooked += 1
        if not self._is_paced or self._unlooked < TURN_ELEMENTS:
            return
        self._unlooked = 0
        if time.thread_time() >= self._rests_at:
            time.sleep(REST_S)
            self._rests_at = time.thread_time() + WORK_S

    def number(self, layout: struct.Struct) -> int:
        """Return a number of fixed size."""
        value: int = self.numbers(layout)[0]
        return value

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return numbers of fixed size that follow each other."""
        at = self._at
        end = at + layout.size
        if end > len(self._data):
            raise RemoteProtocolError(f"{layout.size} bytes at {at} of {len(self._data)}")
        self._at = end
        return layout.unpack_from(self._data, at)

    def unsigned_varint(self) -> int:
        """Return a number of variable size, of at most 32 bits."""
        at = self._at
        if at < len(self._data) and (byte := self._data[at]) < 0x80:  # noqa: PLR2004 - see below
            self._at = at + 1
            return byte
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the bit that says whether more follows
                return value
            shift += 7
            if shift > _VARINT_SHIFT_MAX:
                raise RemoteProtocolError("a varint has more than five bytes")

    def take(self, length: int) -> bytes:
        """Return that many bytes; a negative length is null, which the caller allows or not."""
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise RemoteProtocolError(f"{length} bytes at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def text(self, length: int) -> str:
        """Return a string that has this many bytes."""
        if length > _STRING_MAX:
            raise RemoteProtocolError(f"a string of {length} bytes")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"not UTF-8 before {self._at}") from error

    def nullable_text(self) -> str | None:
        """Return a string of the older form, which a header has in every version."""
        length = self.number(_INT16)
        return None if length == -1 else self.text(length)

    def count(self, elements: int, *, are_rows: bool = False, are_kept: bool = False) -> int:
        """
        Return the announced size of an array, if the rest of the frame can contain as much.

        OversizedError: no cluster has as many. Structures, and elements that are kept as they are
        read, have limits of their own.
        """
        if not 0 <= elements <= len(self._data) - self._at:
            raise RemoteProtocolError(f"{elements} elements at {self._at} of {len(self._data)}")
        self._elements_left -= elements
        self._rows_left -= elements if are_kept else 0
        is_over = min(self._elements_left, self._rows_left) < 0
        if is_over or (are_rows and elements > ROWS_MAX):
            raise OversizedError(f"{elements} elements more at {self._at} of {len(self._data)}")
        return elements

    def skip_tagged_fields(self) -> None:
        """Pass over tagged fields (KIP-482): none is known, and unknown ones are to be ignored."""
        at = self._at
        if at < len(self._data) and self._data[at] == 0:
            self._at = at + 1
            return
        for _ in range(self.count(self.unsigned_varint())):
            self.rest()
            self.unsigned_varint()
            self.take(self.unsigned_varint())

    def expect_end(self) -> None:
        """Check that nothing follows."""
        if self._at != len(self._data):
            raise RemoteProtocolError(f"{len(self._data) - self._at} bytes behind the last field")


Fields = Mapping[str, Any]
"""The fields of a message or of an element of an array, by their names in Python's style."""
Folds = tuple[tuple[str, Callable[[Fields], Any]], ...]
"""
What becomes of each element of arrays, by the names of these.

So that not all elements are in memory as dictionaries at once.
"""
_Reader = Callable[[Cursor], Any]


@cache
def reader_of(
    message: Any,  # noqa: ANN401 - kafka-python has no types
    version: int,
    folds: Folds = (),
) -> Callable[[Cursor], Fields]:
    """Return a function that reads the body of this version of a message class."""
    schema = message.json
    flexible = message.flexible_version_q(version)
    return _struct(schema["fields"], version, dict(folds), flexible=flexible)


def _struct(
    fields: list[dict[str, Any]],
    version: int,
    folds: Mapping[str, Callable[[Fields], Any]],
    *,
    flexible: bool,
) -> _Reader:
    present = [declared for declared in fields if _has(declared["versions"], version)]
    steps: list[tuple[tuple[str, ...], _Reader, bool]] = []
    numbers: list[dict[str, Any]] = []

    def end_numbers() -> None:
        """Read numbers that follow each other at once."""
        if numbers:
            layout = struct.Struct(">" + "".join(_NUMBERS[f["type"]].format[1:] for f in numbers))
            names = tuple(_python_name(f["name"]) for f in numbers)
            steps.append((names, lambda cursor: cursor.numbers(layout), False))
            numbers.clear()

    for declared in present:
        if declared["type"] in _NUMBERS and "tag" not in declared:
            numbers.append(declared)
            continue
        end_numbers()
        reader = _field(declared, version, folds, flexible=flexible)
        steps.append(((_python_name(declared["name"]),), reader, True))
    end_numbers()

    names = tuple(name for found, _, _ in steps for name in found)
    readers = tuple((reader, is_alone) for _, reader, is_alone in steps)

    def read(cursor: Cursor) -> Fields:
        values: list[Any] = []
        for reader, is_alone in readers:
            if is_alone:
                values.append(reader(cursor))
            else:
                values += reader(cursor)
        if flexible:
            cursor.skip_tagged_fields()
        return dict(zip(names, values, strict=True))

    return read


def _field(
    declared: dict[str, Any],
    version: int,
    folds: Mapping[str, Callable[[Fields], Any]],
    *,
    flexible: bool,
) -> _Reader:
    ensure("tag" not in declared, f"{declared['name']} may be absent, which nothing here expects")
    kind: str = declared["type"]
    nullable = "nullableVersions" in declared and _has(declared["nullableVersions"], version)
    if not kind.startswith("[]"):
        return _value(kind, flexible=flexible, nullable=nullable)
    size = _size(_INT32, flexible=flexible)
    if kind[2:] in _NUMBERS:
        return _numbers(_NUMBERS[kind[2:]], size, nullable=nullable)
    are_rows, are_kept = "fields" in declared, False
    if are_rows:
        plain = _struct(declared["fields"], version, folds, flexible=flexible)
        fold = folds.get(_python_name(declared["name"]))
        are_kept = fold is None
        element = plain if fold is None else _fold(plain, fold)
    else:
        element = _value(kind[2:], flexible=flexible)

    def read(cursor: Cursor) -> list[Any] | None:
        elements = size(cursor)
        if nullable and elements == _NULL:
            return None
        found: list[Any] = []
        for _ in range(cursor.count(elements, are_rows=are_rows, are_kept=are_kept)):
            cursor.rest()
            found.append(element(cursor))
        return found

    return read


def _fold(reader: _Reader, fold: Callable[[Fields], Any]) -> _Reader:
    return lambda cursor: fold(reader(cursor))


def _numbers(layout: struct.Struct, size: _Reader, *, nullable: bool) -> _Reader:
    """Return a function that reads an array of numbers."""
    kind = layout.format[1:]
    layouts = tuple(struct.Struct(f">{n}{kind}") for n in range(TURN_ELEMENTS + 1))

    def read(cursor: Cursor) -> list[Any] | None:
        elements = size(cursor)
        if nullable and elements == _NULL:
            return None
        left = cursor.count(elements)
        if left <= TURN_ELEMENTS:
            return list(cursor.numbers(layouts[left]))
        found: list[Any] = []
        while left > 0:
            cursor.rest()
            found += cursor.numbers(layouts[min(left, TURN_ELEMENTS)])
            left -= TURN_ELEMENTS
        return found

    return read


def _value(kind: str, *, flexible: bool, nullable: bool = False) -> _Reader:
    ensure(not nullable or kind == "string", f"a {kind} that may be null is not expected here")
    if kind in _NUMBERS:
        layout = _NUMBERS[kind]
        return lambda cursor: cursor.number(layout)
    match kind:
        case "bool":
            return lambda cursor: cursor.take(1) != b"\x00"
        case "uuid":
            return lambda cursor: uuid.UUID(bytes=cursor.take(16))
        case "bitfield":  # Of authorised operations; kafka-python's name for such an int32.
            return lambda cursor: _bits(cursor.number(_INT32))
        case "string":
            length = _size(_INT16, flexible=flexible)
            return lambda cursor: _text(cursor, length(cursor), nullable=nullable)
        case "bytes":
            length = _size(_INT32, flexible=flexible)
            return lambda cursor: cursor.take(length(cursor))
    raise AssertionError(f"no reader for {kind}")


def _bits(number: int) -> frozenset[int] | None:
    """Return the bits that are set; None where there is no such field (``Integer.MIN_VALUE``)."""
    return None if number == -(2**31) else frozenset(n for n in range(32) if number >> n & 1)


def _text(cursor: Cursor, length: int, *, nullable: bool) -> str | None:
    return None if nullable and length == _NULL else cursor.text(length)


def _size(layout: struct.Struct, *, flexible: bool) -> Callable[[Cursor], int]:
    """Return a function that reads a length or a count; null is -1 in both forms."""
    if flexible:
        return lambda cursor: cursor.unsigned_varint() - 1
    return lambda cursor: cursor.number(layout)


def _has(versions: str, version: int) -> bool:
    """Return whether a field exists in a version: ``1``, ``1+`` or ``1-3``."""
    first, _, last = versions.partition("-")
    if first.endswith("+"):
        return version >= int(first[:-1])
    return int(first) <= version <= int(last or first)


def _python_name(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_T = TypeVar("_T")


class DecodingThread:
    """The thread of one service; each further one would take time from the other threads."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="endpoint-decoding")

    async def run(self, size: int, translate: Callable[[], _T]) -> _T:
        """
        Return what a function returns or raises, called on the thread if its frame is long.

        It decodes or encodes the frame, and shares nothing with other threads.
        """
        if size <= UNPACED_MAX:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._executor, translate)
