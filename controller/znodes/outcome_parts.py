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

from controller.core import model
from controller.core.requests.outcomes import Part
from controller.core.requests.submissions import AcceptedEntry
from controller.znodes import json_documents as documents
from controller.znodes.json_members import Members
from controller.znodes.outcomes import read_refusals, write_refusal
from controller.znodes.partition_lists import read_partition
from controller.znodes.paths import PART, is_part
from controller.znodes.request_options import read_options, write_options

_FATES: Final = {fate.value: fate for fate in model.OutcomeKind}
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
        return f"{documents.excerpt(name)} is not a part"
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return document
    options = read_options(document)
    if isinstance(options, str):
        return options
    members = Members(document)
    version = members.number("approved_version", low=0)
    part = Part(
        named,
        members.count("total"),
        members.count("created_ms"),
        options,
        None if version is None else model.ZkVersion(version),
    )
    return part if members.problem is None else members.problem


def encode_part(part: Part) -> bytes:
    """Encode a part; its name is the path."""
    counts = {"version": 1, "total": part.total, "created_ms": part.created_ms}
    if part.approved_version is not None:
        counts["approved_version"] = part.approved_version
    return documents.write_document(counts | write_options(part.options))


# --- accepted entries ----------------------------------------------------------------------------


def decode_accepted(
    data: bytes, recorded_in: model.Zxid | None = None
) -> tuple[AcceptedEntry, ...] | str:
    """Decode a shard of accepted entries, all or nothing; its czxid is when they were recorded."""
    document = documents.read_versioned(data)
    rows = document if isinstance(document, str) else _rows(document, "accepted")
    if isinstance(rows, str):
        return rows
    entries: list[AcceptedEntry] = []
    for row in rows:
        entry = _accepted_entry(row, recorded_in)
        if entry is None:
            return f"{documents.excerpt(row)} is not an accepted entry"
        entries.append(entry)
    return tuple(entries)


def encode_accepted(entries: Sequence[AcceptedEntry]) -> bytes:
    """Encode a shard of accepted entries."""
    return documents.write_document({"version": 1, "accepted": [accepted_row(e) for e in entries]})


def accepted_row(entry: AcceptedEntry) -> list[object]:
    """Return an accepted entry as a row."""
    return [entry.partition.topic, entry.partition.partition, entry.original, entry.target]


def _accepted_entry(row: object, recorded_in: model.Zxid | None) -> AcceptedEntry | None:
    match row:
        case [topic, number, before, after]:
            partition, target = read_partition(topic, number), documents.read_replicas(after)
            original: model.Replicas | str | None = (
                None if before is None else documents.read_replicas(before)
            )
            if partition is None or isinstance(original, str) or isinstance(target, str):
                return None
            return AcceptedEntry(partition, original, target, recorded_in)
        case _:
            return None


# --- refusals and endings ------------------------------------------------------------------------


def decode_ended(
    request: model.RequestId, data: bytes
) -> tuple[tuple[model.Refusal, ...], tuple[model.PartitionOutcome, ...]] | str:
    """Decode a shard of refusals and of endings other than done, all or nothing."""
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return document
    refusals, rows = read_refusals(request, document.get("refused")), _rows(document, "ended")
    if isinstance(rows, str):
        return rows
    if isinstance(refusals, str):
        return refusals
    endings: list[model.PartitionOutcome] = []
    for row in rows:
        ending = _ending(request, row)
        if ending is None:
            return f"{documents.excerpt(row)} is not an ending"
        endings.append(ending)
    return refusals, tuple(endings)


def encode_ended(
    refusals: Sequence[model.Refusal], endings: Sequence[model.PartitionOutcome]
) -> bytes:
    """Encode a shard of refusals and of endings other than done."""
    return documents.write_document(
        {
            "version": 1,
            "refused": [write_refusal(refusal) for refusal in refusals],
            "ended": [ending_row(ending) for ending in endings],
        }
    )


def ending_row(ending: model.PartitionOutcome) -> list[object]:
    """Return an ending as a row."""
    where = ending.partition
    return [where.topic, where.partition, ending.fate.value, ending.detail]


def _ending(request: model.RequestId, row: object) -> model.PartitionOutcome | None:
    match row:
        case [topic, number, str(named), detail]:
            partition, fate = read_partition(topic, number), _FATES.get(named)
            if partition is None or fate is None or not documents.is_text(detail):
                return None
            caused = _BY.fullmatch(detail)
            if caused is None:
                return model.PartitionOutcome(request, partition, fate, detail)
            return model.PartitionOutcome(request, partition, fate, by=model.RequestId(caused[1]))
        case _:
            return None


def _rows(document: documents.Document, key: str) -> Sequence[object] | str:
    rows = document.get(key)
    return rows if documents.is_list(rows) else f"{key} is not a list but {documents.excerpt(rows)}"
