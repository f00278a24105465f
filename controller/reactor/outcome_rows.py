"""
Rows of a request's outcome, collected from the changes of one multi into few znodes (shards).

Accepted entries go into one kind of shard, refusals and partition outcomes into another. A shard
has at most ``SHARD_BYTES``. Its name is unique: it has the controller epoch and a number that
increases within the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from controller.core.model import PartitionOutcome, Refusal, RequestId
from controller.core.records import Change, Record
from controller.core.requests.records import AcceptedRecord, PartitionOutcomeRecord, RefusalRecord
from controller.core.requests.submissions import AcceptedEntry
from controller.reactor.ports import Create
from controller.znodes import histories, paths

SHARD_BYTES: Final = 300_000
_NODE_BYTES: Final = 600
"""Estimate for path and JSON frame of a shard."""
_ROW_BYTES: Final = 160
"""Estimate for a row without its topic, brokers and texts."""
_NUMBER_BYTES: Final = 11
"""A broker id and its comma."""

Row = AcceptedEntry | Refusal | PartitionOutcome
AnyRow = TypeVar("AnyRow", bound=Row)
OwnedRow = tuple[Change, Row]
ShardKind = Literal["accepted", "ended"]


@dataclass(slots=True)
class Rows:
    """The rows of one batch, by kind of shard and request, each with the change that owns it."""

    by_shard: dict[tuple[ShardKind, RequestId], list[OwnedRow]] = field(default_factory=dict)

    def add(self, change: Change, records: Iterable[Record]) -> None:
        """Add the rows of a change's records."""
        for record in records:
            for request, row in rows_of(record):
                self.by_shard.setdefault((_kind(row), request), []).append((change, row))

    def size(self, records: Iterable[Record]) -> int:
        """Estimate the bytes that the rows of a change's records add to the multi."""
        size = 0
        for record in records:
            for request, row in rows_of(record):
                is_known = (_kind(row), request) in self.by_shard
                size += row_size(row) + (0 if is_known else _NODE_BYTES)
        return size

    def shards(self, epoch: int, number: int) -> Iterator[tuple[Create, tuple[Change, ...]]]:
        """Yield the shards to create, each with the changes that own its rows."""
        for kind in ("accepted", "ended"):
            for (of_kind, request), rows in self.by_shard.items():
                for part in _split(rows) if of_kind == kind else ():
                    shard = paths.Shard(of_kind, epoch, number, len(part))
                    owners = {id(change): change for change, _ in part}
                    operation = Create(paths.shard_path(request, shard), _encode(of_kind, part))
                    yield operation, tuple(owners.values())
                    number += 1


def _kind(row: Row) -> ShardKind:
    return "accepted" if isinstance(row, AcceptedEntry) else "ended"


def _encode(kind: ShardKind, rows: Sequence[OwnedRow]) -> bytes:
    if kind == "accepted":
        return histories.encode_accepted(_of_type(AcceptedEntry, rows))
    return histories.encode_ended(_of_type(Refusal, rows), _of_type(PartitionOutcome, rows))


def _of_type(kind: type[AnyRow], rows: Sequence[OwnedRow]) -> list[AnyRow]:
    return [row for _, row in rows if isinstance(row, kind)]


def rows_of(record: Record) -> Sequence[tuple[RequestId, Row]]:
    """Return the rows of a record, each with its request."""
    match record:
        case AcceptedRecord(request=request, entry=entry):
            return ((request, entry),)
        case RefusalRecord(refusals=refusals):
            return [(refusal.request, refusal) for refusal in refusals]
        case PartitionOutcomeRecord(ending=ending):
            return ((ending.request, ending),)
        case _:
            return ()


def row_size(row: Row) -> int:
    """Return an upper bound of a row's bytes; cheap, as there may be very many rows."""
    match row:
        case AcceptedEntry(partition=partition, original=original, target=target):
            brokers = len(original or ()) + len(target)
            return _ROW_BYTES + len(partition.topic) + _NUMBER_BYTES * brokers
        case PartitionOutcome(partition=partition, detail=detail):
            return _ROW_BYTES + len(partition.topic) + _text_size(detail)
        case Refusal(entry=entry, detail=detail, partition=where):
            topic = "" if where is None else where.topic
            return _ROW_BYTES + len(topic) + _text_size(entry) + _text_size(detail)


def _text_size(text: str) -> int:
    """Return an upper bound of a text's bytes in JSON: an escaped character takes up to 12."""
    if text.isascii() and text.isprintable():
        return len(text) + text.count('"') + text.count("\\")
    return 12 * len(text)


def _split(rows: Sequence[OwnedRow]) -> Iterator[list[OwnedRow]]:
    part: list[OwnedRow] = []
    size = 0
    for change, row in rows:
        size += row_size(row)
        if part and size > SHARD_BYTES:
            yield part
            part, size = [], row_size(row)
        part.append((change, row))
    yield part
