"""
Checked reading of JSON from any source, for all codecs of this room.

A reader raises ``UnreadableError`` with the reason; ``total`` makes a decoder return it as a text.
Only JSON integers are numbers: neither booleans nor 1.0 are. Unknown keys are ignored, as Kafka's
parsers do; codecs that must refuse them check for them.
"""

from __future__ import annotations

import functools
import json
import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, ParamSpec, TypeGuard, TypeVar, cast

from controller.core.model import BrokerId, LogDirs, Replicas
from controller.core.requests.submissions import ANY_LOG_DIR, AUTO, StepSize, Throttle, Window

INT_MAX: Final = 2**31 - 1
"""Ids, partitions, versions and epochs are Java ints."""

LONG_MAX: Final = 2**63 - 1

EXCERPT_MAX: Final = 200
"""The most characters of foreign text that a reason quotes."""

PATH_MAX: Final = 4096
"""The most characters of a path on Linux."""

TEXT_MAX: Final = 1000
"""The most characters of a reason or a name: they are stored with their request."""

Document = Mapping[str, object]
_Inputs = ParamSpec("_Inputs")
_Value = TypeVar("_Value")


class UnreadableError(Exception):
    """A znode's content is no such value; the text says what is wrong."""


def total(decode: Callable[_Inputs, _Value]) -> Callable[_Inputs, _Value | str]:
    """Make a decoder return the reason, a ``str``, where it raises ``UnreadableError``."""

    @functools.wraps(decode)
    def decoded(*args: _Inputs.args, **options: _Inputs.kwargs) -> _Value | str:
        try:
            return decode(*args, **options)
        except UnreadableError as error:
            return str(error)

    return decoded


# --- documents -----------------------------------------------------------------------------------


def _refuse_constant(name: str) -> NoReturn:
    """Refuse a constant that Python accepts and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _refuse_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse an object with a repeated key: which value is meant is not guessed."""
    members = dict(pairs)
    if len(members) < len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {excerpt(repeated)} is there twice")
    return members


# ``json.loads`` would make a decoder for each znode.
_DECODE: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode
_DECODE_UNIQUE: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, object_pairs_hook=_refuse_repetition
).decode


def read_document(data: bytes, *, unique: bool = False) -> Document:
    """Parse a JSON object; ``unique`` refuses a repeated key."""
    if not data:
        raise UnreadableError("the node is empty")
    try:
        document = (_DECODE_UNIQUE if unique else _DECODE)(data.decode())
    except UnicodeDecodeError as error:
        raise UnreadableError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error.msg} at position {error.pos}") from error
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableError("not JSON that can be read: nested too deeply") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"a JSON object was expected, not {excerpt(document)}")
    return document


def read_versioned(
    data: bytes, known: Sequence[int] = (1,), *, absent: int | None = None, unique: bool = False
) -> Document:
    """Parse a JSON object of a known format; see ``read_document`` and ``check_version``."""
    document = read_document(data, unique=unique)
    check_version(document, known, absent)
    return document


def check_version(
    document: Document, known: Sequence[int] = (1,), absent: int | None = None
) -> None:
    """Refuse an unknown ``version``; ``absent`` is the meaning of a missing one."""
    version = document.get("version", absent)
    if not is_int(version) or version not in known:
        raise UnreadableError(f"version {excerpt(version)} is not known")


def check_keys(document: Document, known: frozenset[str], where: str = "") -> None:
    """Refuse unknown keys, which would be ignored silently."""
    unknown = sorted(document.keys() - known)
    if unknown:
        raise UnreadableError(f"{where}the key {excerpt(unknown[0])} is not known")


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def write_document(document: Document) -> bytes:
    """Write JSON as Kafka does: compact, and in ASCII so that no name can break it."""
    return _encode(document).encode("ascii")


def excerpt(value: object) -> str:
    """Quote a foreign value, shortened, in ASCII."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= EXCERPT_MAX else f"{text[: EXCERPT_MAX - 3]}..."


# --- values --------------------------------------------------------------------------------------


def is_int(value: object, low: int = 0, high: int = INT_MAX) -> TypeGuard[int]:
    """Whether it is a JSON integer within the bounds; ``true`` is not 1."""
    return type(value) is int and low <= value <= high


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[Document]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is a string without lone surrogates, which no encoding can carry."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def read_int(  # noqa: PLR0913 - a member and its bounds
    document: Document,
    key: str,
    kind: str,
    *,
    low: int = 0,
    high: int = INT_MAX,
    absent: int | None = None,
) -> int:
    """Read an integer that must be present, or be ``absent``; ``kind``: "an epoch"."""
    value = document.get(key, absent)
    if not is_int(value, low, high):
        raise UnreadableError(f"{key} is not {kind} but {excerpt(value)}")
    return value


def read_list(document: Document, key: str, absent: object = None) -> Sequence[object]:
    """Read a list."""
    value = document.get(key, absent)
    if not is_list(value):
        raise UnreadableError(f"{key} is not a list but {excerpt(value)}")
    return value


def read_object(document: Document, key: str, absent: object = None) -> Document:
    """Read an object."""
    value = document.get(key, absent)
    if not is_object(value):
        raise UnreadableError(f"{key} is not an object but {excerpt(value)}")
    return value


def read_rows(
    rows: Sequence[object], read: Callable[[object], _Value], kind: str
) -> tuple[_Value, ...]:
    """Read every row; an error quotes the row and says what it is not."""
    values: list[_Value] = []
    for row in rows:
        try:
            values.append(read(row))
        except UnreadableError as error:
            raise UnreadableError(f"{excerpt(row)} is not {kind}") from error
    return tuple(values)


KNOWN_REPLICAS: Final = 100_000
_known_replicas: dict[Replicas, Replicas] = {}
"""
Equal lists of brokers, kept once: the ISR, the target and the original are often the assignment.
"""


def read_broker_ids(value: object, where: str = "") -> Replicas:
    """Read a list of broker ids, possibly empty, without repetition."""
    if not is_list(value):
        raise UnreadableError(f"{where}a list of broker ids was expected, not {excerpt(value)}")
    for item in value:
        if not is_int(item):
            raise UnreadableError(f"{where}{excerpt(item)} is not a broker id")
    ids = cast("Replicas", tuple(value))
    if len(set(ids)) != len(ids):
        raise UnreadableError(f"{where}a broker is listed twice in {excerpt(value)}")
    if len(_known_replicas) >= KNOWN_REPLICAS:
        _known_replicas.clear()
    return _known_replicas.setdefault(ids, ids)


def read_replicas(value: object, where: str = "") -> Replicas:
    """Read a replica list: broker ids, at least one, without repetition."""
    ids = read_broker_ids(value, where)
    if not ids:
        raise UnreadableError(f"{where}the replica list is empty")
    return ids


def read_log_dirs(value: object, replicas: Replicas) -> LogDirs:
    """Read the directories of replicas, each an absolute path or "any"; return those named."""
    if not is_list(value) or len(value) != len(replicas):
        raise UnreadableError(f"log_dirs is not a list as long as replicas but {excerpt(value)}")
    named: list[tuple[BrokerId, str]] = []
    for broker, path in zip(replicas, value, strict=True):
        if path == ANY_LOG_DIR:
            continue
        if not is_text(path) or not path.startswith("/") or len(path) > PATH_MAX:
            raise UnreadableError(
                f'log_dirs: {excerpt(path)} is neither an absolute path nor "any"'
            )
        named.append((broker, path))
    return tuple(named)


UTC: Final = "UTC"
_WINDOW: Final = re.compile(
    r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])(?: +(\S+))?"
)


@total
def read_window(value: object) -> Window:
    """Read hours in which steps may begin, in UTC without a time zone."""
    match = _WINDOW.fullmatch(value.strip()) if is_text(value) else None
    if match is None:
        raise UnreadableError(
            f'hours look like "22:00-05:00" or "22:00-05:00 Europe/Berlin", not {excerpt(value)}'
        )
    zone = match[5] or UTC
    if not _is_zone(zone):
        raise UnreadableError(f"{excerpt(zone)} is not a time zone that is known here")
    opens, closes = (60 * int(match[i]) + int(match[i + 1]) for i in (1, 3))
    return Window(opens, closes, zone)


def _is_zone(name: str) -> bool:
    """Whether the tz database has the zone; UTC needs no database."""
    if name == UTC:
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # OSError: a directory of the database, such as ``Europe``.
        return False
    return True


# --- members -------------------------------------------------------------------------------------

_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""A SHA-256 as the approval of a plan names it."""


class Members:
    """The optional members of one object; an absent one is None or empty."""

    def __init__(self, document: Document, known: frozenset[str] | None, where: str = "") -> None:
        """Refuse keys that are not known, unless None; ``where`` precedes the text of errors."""
        self._document = document
        self._where = f"{where}: " if where else ""
        if known is not None:
            check_keys(document, known, self._where)

    def __contains__(self, key: str) -> bool:
        return key in self._document

    def error(self, reason: str) -> UnreadableError:
        """Return an error with the place of the object."""
        return UnreadableError(f"{self._where}{reason}")

    def within(self, key: str, value: object, known: frozenset[str]) -> Members:
        """Return the members of an object within this one."""
        if not is_object(value):
            raise self.error(f"{key} is not an object but {excerpt(value)}")
        return Members(value, known, f"{self._where}{key}")

    def text(self, key: str) -> str:
        """Read a short text."""
        value = self._document.get(key, "")
        if not is_text(value):
            raise self.error(f"{key} is not a text but {excerpt(value)}")
        if len(value) > TEXT_MAX:
            raise self.error(f"{key} is longer than {TEXT_MAX} characters")
        return value

    def digest(self, key: str) -> str:
        """Read a SHA-256 in hexadecimal digits."""
        value = self._document.get(key, "")
        if not isinstance(value, str) or (key in self and not _DIGEST.fullmatch(value)):
            raise self.error(f"{key} is not a SHA-256 but {excerpt(value)}")
        return value

    def number(self, key: str, low: int = 1, high: int = INT_MAX) -> int | None:
        """Read an integer within bounds."""
        value = self._document.get(key)
        if key not in self:
            return None
        if is_int(value, low, high):
            return value
        has_no_end = high in (INT_MAX, LONG_MAX)
        bounds = f"from {low} on" if has_no_end else f"from {low} to {high}"
        raise self.error(f"{key} is a number {bounds}, not {excerpt(value)}")

    def count(self, key: str) -> int:
        """Read a count that must be present."""
        if key not in self:
            raise self.error(f"{key} is missing")
        return self.number(key, low=0, high=LONG_MAX) or 0

    def rate(self, key: str) -> int | None:
        """Read a number of bytes, or of bytes per second."""
        return self.number(key, high=LONG_MAX)

    def throttle(self, key: str) -> Throttle | None:
        """Read a throttle: a number of bytes per second, or "auto"."""
        return AUTO if self._document.get(key) == AUTO else self.rate(key)

    def flag(self, key: str) -> bool:
        """Read true or false."""
        value = self._document.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{key} is true or false, not {excerpt(value)}")
        return value

    def step_size(self, key: str) -> StepSize | None:
        """Read a step size: the number of replicas that a step adds."""
        value = self._document.get(key)
        if value == "all":
            return "all"
        if is_int(value, low=1):
            return value
        if key in self:
            raise self.error(f'{key} is a number from 1 on or "all", not {excerpt(value)}')
        return None

    def broker_ids(self, key: str) -> Replicas | None:
        """Read a list of broker ids, possibly empty."""
        if key not in self:
            return None
        return read_broker_ids(self._document[key], f"{self._where}{key}: ")

    def window(self, key: str) -> Window | None:
        """Read a window."""
        if key not in self:
            return None
        read = read_window(self._document[key])
        if isinstance(read, str):
            raise self.error(f"{key}: {read}")
        return read

    def listed(self, key: str) -> Sequence[object]:
        """Read a list."""
        return read_list(self._document, key, [])

    def mapping(self, key: str) -> Document:
        """Read an object."""
        return read_object(self._document, key, {})
