"""
Decoding of requests that any process in the network may have sent.

Reads a message by its schema and refuses everything that the schema does not allow: fields beyond
the end of the frame, bytes behind the last field, null values where none are allowed, invalid
UTF-8. kafka-python's own
decoder trusts its peer: it truncates strings silently, ignores trailing bytes, and copies the rest
of the frame for every tagged field.

Invariant: time and memory are proportional to the length of the frame. A count is checked against
the bytes that are left before anything is allocated for it.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from controller.errors import RemoteProtocolError, ensure

ELEMENTS_MAX: Final = 2_000_000
"""Elements of all arrays of a frame: an AlterPartition has some five for each partition."""

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


class Cursor:
    """
    A position in a frame; every method reads at it and moves it.

    Every method raises RemoteProtocolError if the frame does not contain what it reads.
    """

    __slots__ = ("_at", "_data", "_elements_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._elements_left = ELEMENTS_MAX

    @property
    def position(self) -> int:
        """Where the next value begins."""
        return self._at

    def number(self, layout: struct.Struct) -> int:
        """Return a number of fixed size."""
        value: int = layout.unpack(self.take(layout.size))[0]
        return value

    def unsigned_varint(self) -> int:
        """Return a number of variable size, of at most 32 bits."""
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

    def count(self, elements: int) -> int:
        """Return the size of an array, if the rest of the frame can contain as many elements."""
        self._elements_left -= max(elements, 0)
        if not 0 <= elements <= len(self._data) - self._at or self._elements_left < 0:
            raise RemoteProtocolError(f"{elements} elements at {self._at} of {len(self._data)}")
        return elements

    def skip_tagged_fields(self) -> None:
        """Pass over tagged fields (KIP-482): none is known, and unknown ones are to be ignored."""
        for _ in range(self.count(self.unsigned_varint())):
            self.unsigned_varint()
            self.take(self.unsigned_varint())

    def expect_end(self) -> None:
        """Check that nothing follows."""
        if self._at != len(self._data):
            raise RemoteProtocolError(f"{len(self._data) - self._at} bytes behind the last field")


Fields = Mapping[str, Any]
"""The fields of a message or of an element of an array, by their names in Python's style."""
_Reader = Callable[[Cursor], Any]


@cache
def reader_of(message: Any, version: int) -> Callable[[Cursor], Fields]:  # noqa: ANN401 - kafka-python has no types
    """Return a function that reads the body of this version of a message class."""
    schema = message.json
    return _struct(schema["fields"], version, flexible=message.flexible_version_q(version))


def _struct(fields: list[dict[str, Any]], version: int, *, flexible: bool) -> _Reader:
    present = [field for field in fields if _has(field["versions"], version)]
    readers = [(_python_name(f["name"]), _field(f, version, flexible=flexible)) for f in present]

    def read(cursor: Cursor) -> Fields:
        values = {name: reader(cursor) for name, reader in readers}
        if flexible:
            cursor.skip_tagged_fields()
        return values

    return read


def _field(field: dict[str, Any], version: int, *, flexible: bool) -> _Reader:
    ensure("tag" not in field, f"{field['name']} may be absent, which nothing here expects")
    kind: str = field["type"]
    nullable = "nullableVersions" in field and _has(field["nullableVersions"], version)
    if not kind.startswith("[]"):
        return _value(kind, flexible=flexible, nullable=nullable)
    size = _size(_INT32, flexible=flexible)
    if "fields" in field:
        element = _struct(field["fields"], version, flexible=flexible)
    else:
        element = _value(kind[2:], flexible=flexible)

    def read(cursor: Cursor) -> list[Any] | None:
        elements = size(cursor)
        if nullable and elements == _NULL:
            return None
        return [element(cursor) for _ in range(cursor.count(elements))]

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
        case "string":
            length = _size(_INT16, flexible=flexible)
            return lambda cursor: _text(cursor, length(cursor), nullable=nullable)
        case "bytes":
            length = _size(_INT32, flexible=flexible)
            return lambda cursor: cursor.take(length(cursor))
    raise AssertionError(f"no reader for {kind}")


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
