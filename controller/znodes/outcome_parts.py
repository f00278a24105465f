"""
What is kept of a request besides its summary: its parts, and shards of rows.

``part-<name>`` has the options of one submitted znode. A shard ``accepted-...`` has the original
and target replicas of accepted entries, a shard ``ended-...`` the refusals, and the endings other
than done. The names are in ``paths``; the size of a shard is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from controller.core.model import (
    AcceptedEntry,
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    Replicas,
    RequestId,
)
from controller.core.outcomes import Part
from controller.znodes.json_documents import (
    Document,
    excerpt,
    is_list,
    is_text,
    read_document,
    read_replicas,
    version_problem,
    write_document,
)
from controller.znodes.json_members import Members
from controller.znodes.outcomes import read_refusals, write_refusal
from controller.znodes.partition_lists import read_partition
from controller.znodes.paths import PART, is_part
from controller.znodes.request_options import read_options, write_options

_FATES: Final = {fate.value: fate for fate in OutcomeKind}
_BY: Final = re.compile(r"by (\S+)")
"""The detail of an outcome that a request caused (``PartitionOutcome.detail``)."""

# --- parts ---------------------------------------------------------------------------------------


def part_name(name: str) -> str | None:
    """Return the submitted znode, or the version of the cancel znode, that a part is of."""
    part = name.removeprefix(PART)
    return part if part != name and is_part(part) else None


def decode_part(name: str, data: bytes) -> Part | str:
    """Decode a part from the last component of its path and its content."""
    named = part_name(name)
    if named is None:
        return f"{excerpt(name)} is not a part"
    document = _document(data)
    if isinstance(document, str):
        return document
    options = read_options(document)
    if isinstance(options, str):
        return options
    members = Members(document)
    part = Part(named, members.count("total"), members.count("created_ms"), options)
    return part if members.problem is None else members.problem


def encode_part(part: Part) -> bytes:
    """Encode a part; its name is the path."""
    counts = {"version": 1, "total": part.total, "created_ms": part.created_ms}
    return write_document(counts | write_options(part.options))


# --- accepted entries ----------------------------------------------------------------------------


def decode_accepted(data: bytes) -> tuple[AcceptedEntry, ...] | str:
    """Decode a shard of accepted entries, all or nothing."""
    document = _document(data)
    rows = document if isinstance(document, str) else _rows(document, "accepted")
    if isinstance(rows, str):
        return rows
    entries: list[AcceptedEntry] = []
    for row in rows:
        entry = _accepted(row)
        if entry is None:
            return f"{excerpt(row)} is not an accepted entry"
        entries.append(entry)
    return tuple(entries)


def encode_accepted(entries: Sequence[AcceptedEntry]) -> bytes:
    """Encode a shard of accepted entries."""
    return write_document({"version": 1, "accepted": [accepted_row(e) for e in entries]})


def accepted_row(entry: AcceptedEntry) -> list[object]:
    """Return an accepted entry as a row."""
    return [entry.partition.topic, entry.partition.partition, entry.original, entry.target]


def _accepted(row: object) -> AcceptedEntry | None:
    match row:
        case [topic, number, before, after]:
            partition, target = read_partition(topic, number), read_replicas(after)
            original: Replicas | str | None = None if before is None else read_replicas(before)
            if partition is None or isinstance(original, str) or isinstance(target, str):
                return None
            return AcceptedEntry(partition, original, target)
        case _:
            return None


# --- refusals and endings ------------------------------------------------------------------------


def decode_ended(
    request: RequestId, data: bytes
) -> tuple[tuple[Refusal, ...], tuple[PartitionOutcome, ...]] | str:
    """Decode a shard of refusals and of endings other than done, all or nothing."""
    document = _document(data)
    if isinstance(document, str):
        return document
    refusals, rows = read_refusals(request, document.get("refused")), _rows(document, "ended")
    if isinstance(rows, str):
        return rows
    if isinstance(refusals, str):
        return refusals
    endings: list[PartitionOutcome] = []
    for row in rows:
        ending = _ending(request, row)
        if ending is None:
            return f"{excerpt(row)} is not an ending"
        endings.append(ending)
    return refusals, tuple(endings)


def encode_ended(refusals: Sequence[Refusal], endings: Sequence[PartitionOutcome]) -> bytes:
    """Encode a shard of refusals and of endings other than done."""
    return write_document(
        {
            "version": 1,
            "refused": [write_refusal(refusal) for refusal in refusals],
            "ended": [ending_row(ending) for ending in endings],
        }
    )


def ending_row(ending: PartitionOutcome) -> list[object]:
    """Return an ending as a row."""
    where = ending.partition
    return [where.topic, where.partition, ending.fate.value, ending.detail]


def _ending(request: RequestId, row: object) -> PartitionOutcome | None:
    match row:
        case [topic, number, str(named), detail]:
            partition, fate = read_partition(topic, number), _FATES.get(named)
            if partition is None or fate is None or not is_text(detail):
                return None
            caused = _BY.fullmatch(detail)
            if caused is None:
                return PartitionOutcome(request, partition, fate, detail)
            return PartitionOutcome(request, partition, fate, by=RequestId(caused[1]))
        case _:
            return None


def _document(data: bytes) -> Document | str:
    document = read_document(data)
    problem = None if isinstance(document, str) else version_problem(document, (1,))
    return document if problem is None else problem


def _rows(document: Document, key: str) -> Sequence[object] | str:
    rows = document.get(key)
    return rows if is_list(rows) else f"{key} is not a list but {excerpt(rows)}"
