"""
Checked reading of JSON from any source, for all codecs of this room.

For any bytes the result is a value or the reason why there is none; no exception escapes. Only JSON
integers are numbers: neither booleans nor 1.0 are.

Unknown keys are ignored, as Kafka's parsers do; codecs that must refuse them check for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, TypeGuard

from controller.core.model import BrokerId, LogDirs, Replicas
from controller.core.requests.submissions import ANY_LOG_DIR

INT_MAX: Final = 2**31 - 1
"""Ids, partitions, versions and epochs are Java ints."""

LONG_MAX: Final = 2**63 - 1

EXCERPT_MAX: Final = 200
"""The most characters of foreign text that a reason quotes."""

PATH_MAX: Final = 4096
"""The most characters of a path on Linux."""

Document = Mapping[str, object]


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


def read_document(  # noqa: PLR0911 - one return per reason
    data: bytes, *, unique: bool = False
) -> Document | str:
    """Parse a JSON object, or return why it is none; ``unique`` refuses a repeated key."""
    if not data:
        return "the node is empty"
    try:
        document = json.loads(
            data.decode(),
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_repetition if unique else None,
        )
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at position {error.pos}"
    except ValueError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "not JSON that can be read: nested too deeply"
    if not isinstance(document, dict):
        return f"a JSON object was expected, not {excerpt(document)}"
    return document


def read_versioned(
    data: bytes, known: Sequence[int] = (1,), *, absent: int | None = None, unique: bool = False
) -> Document | str:
    """Parse a JSON object of a known format; see ``read_document`` and ``version_problem``."""
    document = read_document(data, unique=unique)
    problem = None if isinstance(document, str) else version_problem(document, known, absent)
    return document if problem is None else problem


def write_document(document: Document) -> bytes:
    """Write JSON as Kafka does: compact, and in ASCII so that no name can break it."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


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


def version_problem(
    document: Document, known: Sequence[int], absent: int | None = None
) -> str | None:
    """Return what is wrong with ``version``; ``absent`` is the meaning of a missing one."""
    version = document.get("version", absent)
    if is_int(version) and version in known:
        return None
    return f"version {excerpt(version)} is not known"


def read_broker_ids(value: object) -> Replicas | str:
    """Read a list of broker ids, possibly empty, without repetition."""
    if not is_list(value):
        return f"a list of broker ids was expected, not {excerpt(value)}"
    for item in value:
        if not is_int(item):
            return f"{excerpt(item)} is not a broker id"
    ids = tuple(BrokerId(item) for item in value if is_int(item))
    if len(set(ids)) != len(ids):
        return f"a broker is listed twice in {excerpt(value)}"
    return ids


def read_replicas(value: object) -> Replicas | str:
    """Read a replica list: broker ids, at least one, without repetition."""
    ids = read_broker_ids(value)
    return "the replica list is empty" if ids == () else ids


def read_log_dirs(value: object, replicas: Replicas) -> LogDirs | str:
    """Read the directories of replicas, each an absolute path or "any"; return those named."""
    if not is_list(value) or len(value) != len(replicas):
        return f"log_dirs is not a list as long as replicas but {excerpt(value)}"
    named: list[tuple[BrokerId, str]] = []
    for broker, path in zip(replicas, value, strict=True):
        if path == ANY_LOG_DIR:
            continue
        if not is_text(path) or not path.startswith("/") or len(path) > PATH_MAX:
            return f'log_dirs: {excerpt(path)} is neither an absolute path nor "any"'
        named.append((broker, path))
    return tuple(named)


def excerpt(value: object) -> str:
    """Quote a foreign value, shortened, in ASCII."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= EXCERPT_MAX else f"{text[: EXCERPT_MAX - 3]}..."
