"""
Find the plan in a text as people have it: pasted, redirected, or saved on Windows.

Kafka's ``--generate`` prints two plans under headings, ``--execute`` one, with sentences around
them. A shell of Windows redirects to UTF-16, an editor adds a byte order mark. What is meant is
never guessed: where a text has two plans and no headings, it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, NoReturn

from controller.errors import InvalidInputError

QUOTED_MAX: Final = 60
"""The most characters of a wrong line that a message quotes."""

_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")


class PlanPart(StrEnum):
    """What Kafka's tool prints under a heading."""

    CURRENT = "current assignment"
    PROPOSED = "proposed assignment"


_HEADINGS: Final = {
    "current partition replica assignment": PlanPart.CURRENT,
    "proposed partition reassignment configuration": PlanPart.PROPOSED,
}


class PlanText(NamedTuple):
    """The JSON object of a text."""

    document: Mapping[str, object]
    note: str | None = None
    """Which plan of several, or of a tool's output, was taken; None: the text is one document."""


class _Found(NamedTuple):
    line: int
    part: PlanPart | None
    """The heading above it."""
    document: Mapping[str, object]


def find_plan(data: bytes, wanted: PlanPart) -> PlanText:
    """
    Find the plan in the content of a file; ``wanted`` is the one of Kafka's ``--generate`` to take.

    Raises:
        InvalidInputError: there is no plan, several, or a document that is not JSON.

    """
    found = _documents(decode_text(data))
    document = found[0].document
    if len(found) > 1:
        chosen = [f for f in found if f.part is wanted]
        if len(chosen) != 1:
            lines = " and ".join(str(f.line) for f in found[:2])
            raise InvalidInputError(
                f"there are {len(found)} documents, on lines {lines}: which one is meant is not "
                "clear; save one of them in a file of its own"
            )
        document = chosen[0].document
        note = f"the {wanted} of the tool's output was taken (line {chosen[0].line})"
    elif found[0].part is None:
        note = None
    elif found[0].part is PlanPart.PROPOSED and wanted is PlanPart.CURRENT:
        raise InvalidInputError("there is only a proposed assignment, not the current one")
    else:
        note = f"the {found[0].part} of the tool's output was taken, the only one there is"
    if "topics" in document and "partitions" not in document:
        raise InvalidInputError(
            "this is a file of topics, for `reassigner generate --topics-to-move-json-file`, "
            "not a plan"
        )
    return PlanText(document, note)


def find_topics(data: bytes) -> Mapping[str, object]:
    """
    Find the document of a file of topics.

    Raises:
        InvalidInputError: the file is not one JSON object, or a plan.

    """
    found = _documents(decode_text(data))
    if len(found) > 1:
        raise InvalidInputError(f"there are {len(found)} documents; a file of topics is one")
    document = found[0].document
    if "partitions" in document and "topics" not in document:
        raise InvalidInputError("this is a plan, for `reassigner execute`, not a file of topics")
    return document


def decode_text(data: bytes) -> str:
    """
    Decode the content of a file by its byte order mark, or by the zero bytes of its begin.

    Raises:
        InvalidInputError: the bytes are no text.

    """
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        kind = encoding.removesuffix("-sig").upper()
        raise InvalidInputError(f"byte {error.start} is not {kind}") from error


def _documents(text: str) -> list[_Found]:
    """Return the JSON objects of a text; beside them only a tool's headings introduce words."""
    found: list[_Found] = []
    heading: PlanPart | None = None
    has_headings = False
    at = _skip(text, 0)
    if at == len(text):
        raise InvalidInputError("the file is empty")
    while at < len(text):
        words = "" if text[at] == "{" else _line(text, at)
        if part := _HEADINGS.get(words.rstrip(":").lower()):
            heading, has_headings = part, True
            at += len(words)
        elif words and has_headings and not words.startswith(("[", '"')):
            at += len(words)
        else:
            document, end = _read(text, at)
            found.append(_Found(text.count("\n", 0, at) + 1, heading, document))
            heading, at = None, end
        at = _skip(text, at)
    if not found:
        raise InvalidInputError("there is a heading, but no plan below it")
    return found


def _skip(text: str, at: int) -> int:
    space = _WHITESPACE.match(text, at)
    return at if space is None else space.end()


def _line(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[at : None if end < 0 else end].rstrip()


def _read(text: str, at: int) -> tuple[Mapping[str, object], int]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        document, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise InvalidInputError(_json_problem(error)) from error
    except ValueError as error:
        raise InvalidInputError(f"not JSON: {error}") from error
    except RecursionError:
        raise InvalidInputError("not JSON that can be read: nested too deeply") from None
    if not isinstance(document, dict):
        kind = "a list" if isinstance(document, list) else "a single value"
        raise InvalidInputError(f"a JSON object was expected, not {kind}")
    return document, end


def _json_problem(error: json.JSONDecodeError) -> str:
    lines = error.doc.splitlines() or [""]
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    start = max(0, error.colno - 1 - QUOTED_MAX // 2)
    quoted = line[start : start + QUOTED_MAX].strip()
    where = f"line {error.lineno}, column {error.colno}"
    return (
        f"not JSON: {error.msg} at {where}: {quoted}"
        if quoted
        else (f"not JSON: {error.msg} at {where}, the end of a line")
    )


def _refuse_constant(name: str) -> NoReturn:
    """Refuse a constant that Python accepts and JSON does not have."""
    raise ValueError(f"{name} is not JSON")
