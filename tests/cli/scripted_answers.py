"""Requests and what is kept of them, in memory: a part of a fake cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from controller.core.model import (
    OutcomeKind,
    PartitionAssignment,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls
from controller.core.pacing.throttle_settings import Entity
from controller.core.requests.outcomes import Part, RequestHistory, Summary
from controller.core.requests.submissions import (
    NO_DIRS,
    AcceptedEntry,
    Cancellation,
    LegacyPlan,
    NamedDirs,
    Submission,
)
from controller.errors import ReassignmentConflictError
from controller.znodes.cancellations import KillSwitch, decode_cancellation, encode_cancellation
from controller.znodes.plans import decode_submission

CANCEL_CZXID = Zxid(0x51)
CANCEL = RequestId("cancel-0000000000000051")
QUEUE_CZXID = Zxid(0x61)
QUEUE = RequestId("queue-0000000000000061")
AT_MS = 1_750_000_000_000
"""When everything here was created."""


@dataclass
class ScriptedAnswers:
    """Requests, cancellation, queue, controls and history."""

    topics: dict[str, TopicAssignment | str] = field(default_factory=dict)
    specs: dict[TopicPartition, ReassignmentSpec | str] = field(default_factory=dict)
    outcomes: dict[RequestId, Summary | str] = field(default_factory=dict)
    submitted: dict[str, Submission] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    """Bytes of each submitted znode."""
    number: int = 4
    """The next request's."""
    cancellation: Cancellation | None = None
    switch: KillSwitch | None = None
    queue: LegacyPlan | None = None
    controls: Controls = field(default_factory=Controls)
    lifted: list[Entity] = field(default_factory=list)
    """Topics and brokers whose throttle was lifted."""
    others_are_faster: bool = False
    """Whether what is to be lifted has changed meanwhile."""
    histories: dict[RequestId, RequestHistory] = field(default_factory=dict)
    accepted: dict[RequestId, list[AcceptedEntry]] = field(default_factory=dict)

    # --- what the daemon does ------------------------------------------------------------------

    def take_up(self, refused: Mapping[TopicPartition, str] | None = None) -> None:
        """Let the daemon accept what was submitted, but for what it refuses."""
        for name, submission in self.submitted.items():
            request = submission.request
            known = self.histories.get(request) or RequestHistory(
                request=request, czxid=submission.czxid
            )
            total = len(submission.entries)
            part = Part(name, total, AT_MS, submission.options)
            refusals: list[Refusal] = []
            for partition, target in submission.entries.items():
                why = (refused or {}).get(partition)
                if why is not None:
                    entry, reason = f"{partition} -> {list(target)}", RefusalReason.UNKNOWN_BROKER
                    refusals.append(Refusal(request, entry, reason, why, partition))
                    continue
                self._accept(request, partition, target)
            self.histories[request] = replace(
                known,
                parts={**known.parts, name: part},
                accepted=len(self.accepted.get(request, ())),
                refused=(*known.refused, *refusals),
            )
        self.submitted = {}

    def _accept(self, request: RequestId, partition: TopicPartition, target: Replicas) -> None:
        found = self.topics.get(partition.topic)
        assert isinstance(found, TopicAssignment)
        original = found.partitions[partition.partition].replicas
        self.specs[partition] = ReassignmentSpec(
            target, original, request, Route.REQUEST, ZkVersion(0)
        )
        row = AcceptedEntry(partition, original, target)
        self.accepted.setdefault(request, []).append(row)

    def reach(self, partition: TopicPartition) -> None:
        """Let a partition reach its target."""
        spec = self.specs.pop(partition)
        assert isinstance(spec, ReassignmentSpec)
        self._put(partition, spec.target)

    def call_off(self, partition: TopicPartition, fate: OutcomeKind, detail: str = "") -> None:
        """Let a partition's part of a request end otherwise."""
        spec = self.specs.pop(partition)
        assert isinstance(spec, ReassignmentSpec)
        self._put(partition, spec.original or ())
        self.record_outcome(PartitionOutcome(spec.request, partition, fate, detail))

    def record_outcome(self, ending: PartitionOutcome) -> None:
        """Keep how something ended."""
        known = self.histories.get(ending.request) or RequestHistory(
            request=ending.request, czxid=CANCEL_CZXID
        )
        self.histories[ending.request] = replace(known, endings=(*known.endings, ending))

    def conclude(self, request: RequestId, *, kind: str = "request", done: int = 0) -> None:
        """Let a request end with a summary."""
        known = self.histories.get(request) or RequestHistory(request=request, czxid=CANCEL_CZXID)
        fates = {fate: sum(e.fate is fate for e in known.endings) for fate in OutcomeKind}
        summary = Summary(
            request=request,
            kind=kind,
            total=max(known.total, done + sum(fates.values())),
            done=done,
            refused=known.refused,
            fates={fate: number for fate, number in fates.items() if number},
            reason=known.options.reason,
            requested_by=known.options.requested_by,
            submitted_ms=AT_MS,
            ended_ms=AT_MS + 1000 * len(self.outcomes),
            moved_bytes=2_500_000,
        )
        self.outcomes[request] = summary
        self.histories[request] = replace(known, summary=summary)

    def _put(self, partition: TopicPartition, assigned: Replicas) -> None:
        found = self.topics[partition.topic]
        assert isinstance(found, TopicAssignment)
        whole = {**found.partitions, partition.partition: PartitionAssignment(assigned)}
        self.topics[partition.topic] = replace(found, partitions=whole)

    # --- what clients write --------------------------------------------------------------------

    def submit(self, data: bytes) -> str:
        """Take a request."""
        name = f"request_{self.number:010d}"
        self.submitted[name] = decode_submission(name, data, ZkVersion(0), Zxid(self.number), AT_MS)
        self.sizes.append(len(data))
        self.number += 1
        return name

    def cancel(self, join: Callable[[Cancellation | None], Cancellation]) -> Cancellation:
        """Write a cancellation, or change the one that is there."""
        data = encode_cancellation(join(self.cancellation))
        version = 0 if self.cancellation is None else self.cancellation.version + 1
        self.cancellation = decode_cancellation(data, ZkVersion(version), CANCEL_CZXID, AT_MS)
        return self.cancellation

    def create_queue(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Write a queue where there is none."""
        if self.queue is not None:
            raise ReassignmentConflictError("exists already")
        self.queue = LegacyPlan(dict(entries), ZkVersion(0), QUEUE_CZXID, log_dirs=log_dirs)
        return QUEUE_CZXID
