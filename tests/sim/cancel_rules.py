"""
The rules about cancellations.

A cancellation ends or rolls back what it selects and what is older than it, and nothing else; when
its part is written, nothing that it selects may be left.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from controller.core.model import (
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.requests.submissions import AcceptedEntry, Cancellation, CancelScope
from controller.core.requests.undo import UNDO_PART
from controller.znodes import paths
from controller.znodes.histories import decode_accepted
from controller.znodes.plans import decode_submission
from tests.sim.decoded import cancellation_of
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from controller.core.model import PartitionOutcome
    from controller.core.requests.submissions import Submission
    from tests.sim.ledgers import RequestedEntry, Standing
    from tests.sim.world import World


class CancelRules:
    """The rules, and the requests and cancellations by name."""

    def __init__(
        self,
        world: World,
        requested: Mapping[RequestId, RequestedEntry],
        originals: Mapping[TopicPartition, AbstractSet[Replicas]],
    ) -> None:
        self._world = world
        self._judge = world.invariants.judge
        self._requested = requested
        self._originals = originals
        """Where each partition was when any of its reassignments began."""

    def may_mean(self, partition: TopicPartition) -> bool:
        """Return whether a cancellation in ZooKeeper may select a partition."""
        znode = self._world.zookeeper.get(paths.CANCEL)
        if znode is None:
            return False
        read = cancellation_of(znode)
        named = partition in read.partitions or partition.topic in read.topics
        return read.unreadable is None and (named or read.is_everything or bool(read.requests))

    def ended_before_it_began(
        self, ending: PartitionOutcome, spec: ReassignmentSpec | None
    ) -> None:
        """Judge that a pending entry was ended by a cancellation that selects it."""
        name = RequestId(ending.detail.removeprefix("by "))
        self._judge.ensure(
            name in self._world.quiesced
            or any(
                names(s, ending.partition)
                if spec is None
                else selects(s, ending.partition, spec) and self._is_older(spec, s)
                for s in self._wanted(name)
            ),
            f"{ending.partition}: {spec} was ended {ending.detail}, which does not select it",
            Rule.ENDED_BEFORE_IT_BEGAN,
        )

    def ended_by(self, request: RequestId, ending: PartitionOutcome) -> None:
        """Judge that the cancellation that ended an entry selects it, and is newer."""
        name = ending.detail.removeprefix("by ")
        if not name.startswith("cancel-"):
            return
        selecting = [
            s
            for s in self._wanted(RequestId(name))
            if s.is_everything or request in s.requests or names(s, ending.partition)
        ]
        self._judge.ensure(
            bool(selecting),
            f"{ending.partition} of {request} was ended by {name}, which does not select it",
            Rule.SELECTED_BY_CANCELLATION,
        )
        self._judge.ensure(
            any(self._requested[request].first < s.written for s in selecting),
            f"{ending.partition} of {request} was ended by {name}, which is older",
            Rule.OLDER_THAN_CANCELLATION,
        )

    def rolled_back(
        self, partition: TopicPartition, before: Standing | None, spec: ReassignmentSpec
    ) -> None:
        """Judge that a spec rolls back to its original replicas, by a cancellation of it."""
        self._judge.ensure(
            spec.target == spec.original,
            f"{partition}: it is rolled back to {spec.target}, it was at {spec.original}",
            Rule.ROLLED_BACK_TO_ORIGINAL,
        )
        if before is not None and spec.cancelled_by == before.spec.request:
            self._judge.ensure(
                self._is_atomic(before.spec.request),
                f"{partition}: only an atomic request rolls itself back, not {before.spec}",
                Rule.ONLY_ATOMIC_ROLLS_ITSELF_BACK,
            )
            return
        cancelled_by = spec.cancelled_by or RequestId("")
        if cancelled_by in self._world.quiesced:
            # It selects all that is ours.
            return
        if cancelled_by not in self._requested:
            self._judge.fail(f"{partition}: there is no cancellation {spec.cancelled_by}")
        if before is None:
            # A foreign reassignment had no spec.
            self._judge.ensure(
                any(names(s, partition) for s in self._wanted(cancelled_by)),
                f"{partition}: {spec.cancelled_by} does not name it",
                Rule.NAMED_BY_CANCELLATION,
            )
            return
        selecting = [s for s in self._wanted(cancelled_by) if selects(s, partition, before.spec)]
        self._judge.ensure(
            bool(selecting),
            f"{partition}: {spec.cancelled_by} does not select {before.spec}",
            Rule.SELECTED_BY_CANCELLATION,
        )
        self._judge.ensure(
            any(self._is_older(before.spec, s) for s in selecting),
            f"{partition}: {spec.cancelled_by} is older than what it rolled back: {before.spec}",
            Rule.OLDER_THAN_CANCELLATION,
        )

    def _wanted(self, name: RequestId) -> list[Cancellation]:
        """Return what operators wanted to cancel, each with the time at which they wrote it."""
        return self._world.cancelled.get(name, [])

    def _is_older(self, spec: ReassignmentSpec, cancellation: Cancellation) -> bool:
        """Return whether what a spec is of was submitted before an operator cancelled."""
        requested = self._requested.get(spec.request)
        legacy = spec.request.removeprefix("legacy-")
        if requested is None and legacy != spec.request:
            return int(legacy, 16) < cancellation.written
        return requested is None or requested.first < cancellation.written

    def _is_atomic(self, request: RequestId) -> bool:
        """Return whether an atomic part of a request is in ZooKeeper."""
        for child in self._world.zookeeper.children(paths.REQUESTS) or ():
            znode = self._world.zookeeper.get(paths.submission_path(child))
            if znode is not None:
                read = decode_submission(child, znode.data, ZkVersion(0), Zxid(znode.czxid), 0)
                if read.request == request and read.options.atomic:
                    return True
        return False

    def chosen(
        self, name: RequestId, version: int, specs: Mapping[TopicPartition, Standing]
    ) -> None:
        """Judge that nothing that a cancellation selects is left once its part is written."""
        cancel = self._requested[name]
        if version == int(UNDO_PART):
            self._judge.ensure(
                any(s.scope is CancelScope.ALL for s in cancel.selections.values()),
                f"{name} undoes completed partitions without scope all",
                Rule.UNDONE_IF_REQUESTED,
            )
            return
        selection = cancel.selections.get(version)
        if selection is None:
            self._judge.fail(f"{name} never had a version {version}")
        written = selection.written
        for partition, standing in specs.items():
            spec = standing.spec
            if standing.czxid > written or not selects(selection, partition, spec):
                continue
            if spec.request != name and self._world.concerns_present_topic(partition, spec):
                self._judge.ensure(
                    spec.rolls_back or partition in cancel.endings or spec.route is Route.LEGACY,
                    f"{partition}: {name} left {spec} without a reason",
                    Rule.NOTHING_SELECTED_LEFT,
                )
        if selection.scope is CancelScope.ALL:
            self._undone(name, selection, specs)
        for child in self._world.zookeeper.children(paths.REQUESTS) or ():
            znode = self._world.zookeeper.get(paths.submission_path(child))
            if znode is None or znode.czxid > written:
                continue
            read = decode_submission(child, znode.data, ZkVersion(0), Zxid(znode.czxid), 0)
            meant = selection.is_everything or read.request in selection.requests
            self._judge.ensure(
                not meant or read.unreadable is not None or self._is_settled(read),
                f"{name} left {child}",
                Rule.NO_SUBMISSION_LEFT,
            )

    def _undone(
        self,
        name: RequestId,
        selection: Cancellation,
        specs: Mapping[TopicPartition, Standing],
    ) -> None:
        """
        Judge that no partition stands where a selected entry led it, without a reason.

        Where any reassignment began at these replicas, the partition may be back already.
        """
        skipped = self._requested[name].endings
        led: dict[TopicPartition, list[AcceptedEntry]] = {}
        for request, requested in self._requested.items():
            if requested.selections or not self._is_undone(request, selection):
                continue
            for partition, entry in requested.accepted.items():
                named = selection.is_everything or request in selection.requests
                topic = self._world.zookeeper.get(paths.topic_path(partition.topic))
                # An entry that was recorded before the topic was created is of a former one.
                is_present = topic is not None and topic.czxid <= (entry.recorded_in or 0)
                if not is_present or partition in requested.endings:
                    continue
                if named or names(selection, partition):
                    led.setdefault(partition, []).append(entry)
        for partition, entries in led.items():
            assignment = self._world.invariants.assignments(partition.topic).get(
                partition.partition
            )
            if assignment is None or partition in specs:
                continue
            now = assignment.replicas
            self._judge.ensure(
                partition in skipped
                or now in self._originals.get(partition, ())
                or any(entry.original in {None, now} for entry in entries)
                or all(entry.target != now for entry in entries),
                f"{partition}: {name} left {entries} without a reason",
                Rule.NOTHING_FINISHED_LEFT,
            )

    def _is_undone(self, request: RequestId, selection: Cancellation) -> bool:
        """Return whether finished entries of a request are undone: of open ones by everything."""
        if selection.requests:
            return request in selection.requests
        outcome = self._world.zookeeper.get(paths.outcome_path(request))
        return outcome is None or not selection.is_everything

    def _is_settled(self, submission: Submission) -> bool:
        """
        Return whether all entries of a request are recorded: only its znode is left.

        ZooKeeper may refuse the deletion of the znode; nothing waits for the next attempt.
        """
        kept = paths.history_path(submission.request)
        recorded: set[TopicPartition] = set()
        for name in self._world.zookeeper.children(kept) or ():
            znode = self._world.zookeeper.get(f"{kept}/{name}")
            if name.startswith("accepted-") and znode is not None:
                entries = decode_accepted(znode.data)
                recorded.update(e.partition for e in entries if isinstance(e, AcceptedEntry))
        return submission.entries.keys() <= recorded


def names(cancellation: Cancellation, partition: TopicPartition) -> bool:
    """Return whether a cancellation names a partition or its topic."""
    return partition in cancellation.partitions or partition.topic in cancellation.topics


def selects(cancellation: Cancellation, partition: TopicPartition, spec: ReassignmentSpec) -> bool:
    """Return whether a cancellation selects a spec: by scope, by request or by name."""
    return cancellation.unreadable is None and (
        cancellation.is_everything
        or spec.request in cancellation.requests
        or names(cancellation, partition)
    )
