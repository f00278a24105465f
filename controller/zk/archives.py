"""
What is kept of requests, read back: ``/reassigner/outcomes``.

The number of accepted entries stands in the names of their shards, so they are read only where
somebody asks for the entries themselves. A request that is forgotten while it is read is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.core.model import AcceptedEntry, PartitionOutcome, Refusal, RequestId
from controller.core.outcomes import Part, RequestHistory, Summary
from controller.zk.connections import Found
from controller.zk.readings import Readings
from controller.znodes import paths
from controller.znodes.outcome_parts import decode_accepted, decode_ended, decode_part
from controller.znodes.outcomes import decode_outcome

SHARD_WINDOW: Final = 16
"""Shards read at once: each may have some 300 KB."""
ACCEPTED: Final = "accepted"


class ArchiveReadings(Readings):
    """Reads what is kept of requests, for one command."""

    def read_outcome(self, request: RequestId) -> Summary | str | None:
        """Return how a request ended, None while it has not."""
        found = self._get(paths.outcome_path(request))
        return found and decode_outcome(found.data)

    def request_ids(self) -> dict[RequestId, bool]:
        """Return the requests of which anything is kept, and whether they ended."""
        return {
            request: paths.SUMMARY in names for request, names in self._kept(self._named()).items()
        }

    def read_history(
        self, requests: Iterable[RequestId] | None = None
    ) -> dict[RequestId, RequestHistory]:
        """Return what is kept of these requests or of all, the oldest first."""
        kept = self._kept(self._named() if requests is None else requests)
        nodes = self._get_all(kept, paths.history_path)
        wanted = [(r, n) for r, names in kept.items() for n in names if _shard_kind(n) != ACCEPTED]
        found = self._get_all(wanted, _path_of, window=SHARD_WINDOW)
        histories = [
            _history(request, node, {n: found.get((request, n)) for n in kept[request]})
            for request, node in nodes.items()
            if node is not None
        ]
        return {h.request: h for h in sorted(histories, key=lambda h: h.czxid)}

    def read_accepted(self, request: RequestId) -> tuple[AcceptedEntry, ...]:
        """Return the accepted entries of a request."""
        names = [n for n in self._kept([request])[request] if _shard_kind(n) == ACCEPTED]
        shards = self._get_all(((request, n) for n in names), _path_of, window=SHARD_WINDOW)
        rows: list[AcceptedEntry] = []
        for found in shards.values():
            read = decode_accepted(found.data) if found else ()
            rows += () if isinstance(read, str) else read
        return tuple(rows)

    def _named(self) -> list[RequestId]:
        return [RequestId(name) for name in self._children(paths.OUTCOMES)]

    def _kept(self, requests: Iterable[RequestId]) -> Mapping[RequestId, Sequence[str]]:
        return self._children_all(requests, paths.history_path)


def _shard_kind(name: str) -> str | None:
    shard = paths.parse_shard(name)
    return None if shard is None else shard.kind


def _path_of(child: tuple[RequestId, str]) -> str:
    request, name = child
    return f"{paths.history_path(request)}/{name}"


class _Pieces:
    """What was read of one request, put together child by child."""

    def __init__(self, request: RequestId) -> None:
        self._request = request
        self.parts: dict[str, Part] = {}
        self.refused: list[Refusal] = []
        self.endings: list[PartitionOutcome] = []
        self.summary: Summary | None = None
        self.unreadable: dict[str, str] = {}

    def add(self, name: str, data: bytes) -> None:
        """Take in a child."""
        problem = self._problem(name, data)
        if problem is not None:
            self.unreadable[name] = problem

    def _problem(self, name: str, data: bytes) -> str | None:
        if name == paths.SUMMARY:
            summary = decode_outcome(data)
            if isinstance(summary, str):
                return summary
            self.summary = summary
        elif name.startswith(paths.PART):
            part = decode_part(name, data)
            if isinstance(part, str):
                return part
            self.parts[part.name] = part
        else:
            ended = decode_ended(self._request, data)
            if isinstance(ended, str):
                return ended
            self.refused += ended[0]
            self.endings += ended[1]
        return None


def _history(
    request: RequestId, node: Found, children: Mapping[str, Found | None]
) -> RequestHistory:
    pieces = _Pieces(request)
    for name, found in children.items():
        if found is not None:
            pieces.add(name, found.data)
    if pieces.summary is not None and not pieces.refused:
        # Of a request whose shards are gone, or that is older than shards.
        pieces.refused += pieces.summary.refused
    shards = [shard for shard in map(paths.parse_shard, children) if shard is not None]
    return RequestHistory(
        request=request,
        czxid=node.czxid,
        parts=pieces.parts,
        accepted=sum(shard.rows for shard in shards if shard.kind == ACCEPTED),
        refused=tuple(pieces.refused),
        endings=tuple(pieces.endings),
        summary=pieces.summary,
        unreadable=pieces.unreadable,
    )
