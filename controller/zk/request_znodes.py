"""Reads of what operators submit: plans, requests, controls; and of what is kept of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from controller.core import model
from controller.core.pacing.controls import (
    Controls,
    Drains,
    Evacuation,
    Evacuations,
    Limits,
    Pauses,
)
from controller.core.requests.outcomes import (
    Part,
    RequestHistory,
    Summary,
)
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    LegacyPlan,
    Submission,
)
from controller.zk.readers import FamilyReads, Hidden, Value, Znode, decode_many, decoded
from controller.znodes import operator_controls, paths
from controller.znodes.cancellations import KillSwitch, decode_cancellation, decode_kill_switch
from controller.znodes.histories import (
    decode_accepted,
    decode_ended,
    decode_outcome,
    decode_part,
)
from controller.znodes.plans import decode_legacy_plan, decode_submission

EndedEntries = tuple[tuple[model.Refusal, ...], tuple[model.PartitionOutcome, ...]]
"""The content of a shard of refusals and endings."""
Child = Part | EndedEntries | Summary
"""A record of a request, except shards of accepted entries."""


class RequestZnodes(FamilyReads):
    """Reads what operators submit; a hidden znode is a value with ``unreadable``."""

    def plan(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions``; None where it does not exist."""
        return plan_of(self._znodes.show(paths.LEGACY_PLAN))

    def queue(self) -> LegacyPlan | None:
        """Return ``/admin/reassign_partitions_queue``; None where it does not exist."""
        return plan_of(self._znodes.show(paths.QUEUE))

    def open(self) -> list[str]:
        """Return the names of the requests that are not accepted yet, in order."""
        names = self._znodes.children(paths.REQUESTS)
        for name in names:
            if not paths.is_submission(name):
                self._znodes.unreadable(paths.submission_path(name), "not a name of a request")
        return [name for name in names if paths.is_submission(name)]

    def submissions(self, names: Iterable[str]) -> dict[str, Submission | None]:
        """Return requests as submitted; None where there is none."""
        found = self._znodes.show_many(names, paths.submission_path, window=self._window)
        return {name: shown and _submission(name, shown) for name, shown in found}

    def open_submissions(self) -> list[Submission]:
        """Return the submitted requests that are not accepted yet, in order."""
        return [s for s in self.submissions(self.open()).values() if s is not None]

    def cancellation(self) -> Cancellation | None:
        """Return ``/admin/cancel_reassignment_in_progress``; None where it does not exist."""
        shown = self._znodes.show(paths.CANCEL)
        if isinstance(shown, Hidden):
            hidden = (shown.version, shown.born, shown.created_ms)
            return Cancellation(*hidden, unreadable=shown.reason)
        return cancellation_of(shown)

    def is_disabled(self) -> bool:
        """Return whether ``/admin/reassign_cancel`` exists."""
        return self._znodes.exists(paths.KILL_SWITCH)

    def kill_switch(self) -> KillSwitch | None:
        """Return ``/admin/reassign_cancel``; None where it does not exist."""
        found = self._znodes.get(paths.KILL_SWITCH)
        return found and decode_kill_switch(found.data, found.created_ms)

    def controls(self) -> Controls:
        """Return everything below ``/reassigner/control``."""
        unreadable: dict[str, str] = {}

        def read(path: str, decode: Callable[[Znode], Value | str]) -> Value | None:
            value = decoded(self._znodes.show(path), decode)
            if isinstance(value, str):
                unreadable[path] = value
                self._znodes.unreadable(path, value)
                return None
            return value

        pauses = read(paths.PAUSES, lambda z: operator_controls.decode_pauses(z.data))
        limits = read(paths.LIMITS, lambda z: operator_controls.decode_limits(z.data))
        throttle = read(paths.THROTTLE, lambda z: operator_controls.decode_throttle(z.data))
        drains = read(paths.DRAINS, drains_of)
        return Controls(
            pauses or Pauses(),
            limits or Limits(),
            None if throttle is None else throttle.throttle,
            unreadable,
            drains or Drains(),
            self._evacuated(),
        )

    def _evacuated(self) -> Mapping[model.BrokerId, Evacuation] | None:
        """Return the brokers that are evacuated from leaderships; None where it is unreadable."""
        read = decoded(
            self._znodes.show(paths.EVACUATIONS),
            lambda z: operator_controls.decode_evacuated(z.data),
        )
        if isinstance(read, str):
            self._znodes.unreadable(paths.EVACUATIONS, read)
            return None
        return read or {}

    def evacuations(self) -> Evacuations:
        """Return the brokers that are evacuated from leaderships, and the way back."""
        read = decoded(self._znodes.show(paths.EVACUATIONS), evacuations_of)
        if isinstance(read, str):
            self._znodes.unreadable(paths.EVACUATIONS, read)
        return read if isinstance(read, Evacuations) else Evacuations()


class OutcomeZnodes(FamilyReads):
    """
    Reads the records of requests, ``/reassigner/outcomes``.

    None of them is watched: only the leading daemon writes them. The names of shards contain the
    number of their accepted entries, so shards are read only for the entries themselves. A request
    that is deleted during the read is absent.
    """

    def outcome(self, request: model.RequestId) -> Summary | str | None:
        """Return the outcome of a request; None while it is open."""
        found = self._znodes.get(paths.outcome_path(request))
        return found and decode_outcome(found.data)

    def outcomes(self, requests: Iterable[model.RequestId]) -> tuple[Summary, ...]:
        """Return the outcomes of requests, in this order, without unreadable ones."""
        read = decode_many(
            self._znodes,
            requests,
            paths.outcome_path,
            lambda _, znode: decode_outcome(znode.data),
            window=self._window,
        )
        return tuple(outcome for _, outcome in read if isinstance(outcome, Summary))

    def requests(self) -> list[model.RequestId]:
        """Return the requests with records."""
        return [model.RequestId(name) for name in self._znodes.children(paths.OUTCOMES)]

    def ended_requests(self) -> dict[model.RequestId, bool]:
        """Return the requests with records, and whether each has ended."""
        listed = self._list_records(self.requests())
        return {request: paths.SUMMARY in names for request, names in listed.items()}

    def histories(
        self, requests: Iterable[model.RequestId] | None = None
    ) -> dict[model.RequestId, RequestHistory]:
        """Return the records of these requests or of all, the oldest first."""
        listed = self._list_records(self.requests() if requests is None else requests)
        czxids = dict(self._czxids(listed))
        pieces = self._pieces(
            {r: [n for n in names if not shards_of([n], "accepted")] for r, names in listed.items()}
        )
        ordered = sorted(czxids.items(), key=lambda item: item[1])
        return {r: pieces[r].history(czxid, listed[r]) for r, czxid in ordered}

    def history_of(self, request: model.RequestId) -> RequestHistory | None:
        """Return the records of a request; None if there are none."""
        return self.histories([request]).get(request)

    def accepted_entries(self, request: model.RequestId) -> tuple[AcceptedEntry, ...]:
        """Return the accepted entries of a request, in the order in which they were accepted."""
        names = self._znodes.children(paths.history_path(request))
        read = [read for _, read in self._read_accepted(request, shards_of(names, "accepted"))]
        return tuple(entry for r in read if r is not None and not isinstance(r, str) for entry in r)

    # --- inside ----------------------------------------------------------------------------------

    def _pieces(
        self, wanted: Mapping[model.RequestId, Sequence[str]]
    ) -> dict[model.RequestId, _Pieces]:
        """Read these records of requests, none of them a shard of accepted entries."""
        pieces = {request: _Pieces(request) for request in wanted}
        found: Iterator[tuple[tuple[model.RequestId, str], Child | str | None]] = decode_many(
            self._znodes,
            [(request, name) for request, names in wanted.items() for name in names],
            lambda child: f"{paths.history_path(child[0])}/{child[1]}",
            lambda child, znode: _decode(*child, znode),
            window=self._window,
        )
        for (request, name), read in found:
            pieces[request].add(name, read)
        return pieces

    def _list_records(
        self, requests: Iterable[model.RequestId]
    ) -> dict[model.RequestId, tuple[str, ...]]:
        """List the records of requests, without hidden ones."""
        of = {paths.history_path(request): request for request in requests}
        listed = list(self._znodes.children_of_many(of))
        return {of[path]: names for path, names in listed if not isinstance(names, str)}

    def _czxids(
        self, requests: Iterable[model.RequestId]
    ) -> Iterator[tuple[model.RequestId, model.Zxid]]:
        for request, czxid in decode_many(
            self._znodes, requests, paths.history_path, lambda _, znode: znode.czxid
        ):
            if czxid is not None and not isinstance(czxid, str):
                yield request, czxid

    def _read_accepted(
        self, request: model.RequestId, shards: Sequence[paths.Shard]
    ) -> Iterator[tuple[paths.Shard, tuple[AcceptedEntry, ...] | str | None]]:
        return decode_many(
            self._znodes,
            sorted(shards, key=lambda shard: (shard.epoch, shard.number)),
            lambda shard: paths.shard_path(request, shard),
            lambda _, znode: decode_accepted(znode.data, znode.czxid),
            window=self._window,
        )

    def _report_gone(self, request: model.RequestId, shard: paths.Shard) -> None:
        self._znodes.unreadable(paths.shard_path(request, shard), "it is gone")


class _Pieces:
    """The history of one request, assembled child by child."""

    def __init__(self, request: model.RequestId) -> None:
        self._request = request
        self.parts: dict[str, Part] = {}
        self.refused: list[model.Refusal] = []
        self.endings: list[model.PartitionOutcome] = []
        self.unreadable: dict[str, str] = {}
        self._summary: Summary | None = None

    def add(self, name: str, read: Child | str | None) -> None:
        """Add a decoded child; None: it is gone."""
        if isinstance(read, str):
            self.unreadable[name] = read
        elif isinstance(read, Part):
            self.parts[read.name] = read
        elif isinstance(read, Summary):
            self._summary = read
        elif read is not None:
            self.refused += read[0]
            self.endings += read[1]

    def history(self, czxid: model.Zxid, names: Iterable[str]) -> RequestHistory:
        """Return the history; ``names`` are those of all children."""
        if self._summary is not None and not self.refused:
            # Its shards are gone, or it is older than shards.
            self.refused += self._summary.refused
        return RequestHistory(
            request=self._request,
            czxid=czxid,
            parts=self.parts,
            accepted=accepted_rows(names),
            refused=tuple(self.refused),
            endings=tuple(self.endings),
            summary=self._summary,
            unreadable=self.unreadable,
        )


def _decode(request: model.RequestId, name: str, znode: Znode) -> Child | str:
    """Decode a child other than a shard of accepted entries."""
    if name == paths.SUMMARY:
        return decode_outcome(znode.data)
    if name.startswith(paths.PART):
        return decode_part(name, znode.data)
    return decode_ended(request, znode.data)


def shards_of(names: Iterable[str], kind: str) -> list[paths.Shard]:
    """Return the shards of a kind among the names of records."""
    shards = map(paths.parse_shard, names)
    return [shard for shard in shards if shard is not None and shard.kind == kind]


def accepted_rows(names: Iterable[str]) -> int:
    """Return the number of accepted entries, which the names of their shards contain."""
    return sum(shard.rows for shard in shards_of(names, "accepted"))


def plan_of(shown: Znode | Hidden | None) -> LegacyPlan | None:
    """Decode a plan like the legacy one; it may be hidden."""
    if isinstance(shown, Hidden):
        return LegacyPlan({}, shown.version, shown.born, unreadable=shown.reason)
    return shown and decode_legacy_plan(shown.data, shown.version, shown.czxid)


def drains_of(found: Znode) -> Drains | str:
    """Decode the drained brokers; a text where they are unreadable."""
    return operator_controls.decode_drains(found.data, found.version, found.czxid)


def evacuations_of(found: Znode) -> Evacuations | str:
    """Decode the evacuated brokers; a text where they are unreadable."""
    return operator_controls.decode_evacuations(found.data)


def cancellation_of(found: Znode | None) -> Cancellation | None:
    """Decode a cancellation."""
    return found and decode_cancellation(
        found.data, found.version, found.czxid, found.created_ms, found.mzxid
    )


def _submission(name: str, shown: Znode | Hidden) -> Submission:
    if isinstance(shown, Hidden):
        # Refused like an unreadable one, so that its outcome reports it.
        return Submission(
            name, {}, shown.version, shown.born, shown.created_ms, unreadable=shown.reason
        )
    return decode_submission(name, shown.data, shown.version, shown.czxid, shown.created_ms)
