"""
The rules about cancellations: what they may change, and what they have to.

It ends or turns round what it selects and what is older than it, and nothing else; when it is
chosen nothing it selects may be left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.core.model import (
    AcceptedEntry,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.requests.undo import UNDO_PART
from controller.core.submissions import Cancellation, CancelScope
from controller.znodes import paths
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.outcome_parts import decode_accepted
from controller.znodes.submissions import decode_submission
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from controller.core.model import PartitionOutcome
    from controller.core.submissions import Submission
    from tests.sim.ledgers import Asked, Standing
    from tests.sim.world import World
    from tests.sim.zookeeper import Znode


class CancelRules:
    """The rules, and all that was asked for, by request."""

    def __init__(self, world: World, asked: Mapping[RequestId, Asked]) -> None:
        self._world = world
        self._judge = world.invariants.judge
        self._asked = asked

    def may_mean(self, partition: TopicPartition) -> bool:
        """Whether a cancellation stands that may mean a partition."""
        znode = self._world.zookeeper.get(paths.CANCEL)
        if znode is None:
            return False
        read = cancellation_of(znode)
        named = partition in read.partitions or partition.topic in read.topics
        return read.unreadable is None and (named or read.is_everything or bool(read.requests))

    def ended_before_it_began(
        self, ending: PartitionOutcome, spec: ReassignmentSpec | None
    ) -> None:
        """What never begins has to be meant by the cancellation that its row names."""
        cancel = self._asked.get(RequestId(ending.detail.removeprefix("by ")))
        self._judge.ensure(
            cancel is not None
            and any(
                names(s, ending.partition) if spec is None else selects(s, ending.partition, spec)
                for s in cancel.selections.values()
            ),
            f"{ending.partition}: {spec} was ended {ending.detail}, which does not mean it",
            Rule.ENDED_BEFORE_IT_BEGAN,
        )

    def turned_round(
        self, partition: TopicPartition, before: Standing | None, spec: ReassignmentSpec
    ) -> None:
        """A goal is turned round by a cancellation that means it, and leads to its original."""
        self._judge.ensure(
            spec.target == spec.original,
            f"{partition}: it is turned round to {spec.target}, it was at {spec.original}",
            Rule.TURNED_TO_ORIGINAL,
        )
        if before is not None and spec.cancelled_by == before.spec.request:
            self._judge.ensure(
                self._is_atomic(before.spec.request),
                f"{partition}: only what wants all or nothing takes itself back, not {before.spec}",
                Rule.ONLY_ATOMIC_TAKEN_BACK,
            )
            return
        cancel = self._asked.get(spec.cancelled_by or RequestId(""))
        if cancel is None:
            self._judge.fail(f"{partition}: there is no cancellation {spec.cancelled_by}")
        if before is None:
            # It is foreign: there was no record.
            self._judge.ensure(
                any(names(s, partition) for s in cancel.selections.values()),
                f"{partition}: {spec.cancelled_by} does not name it",
                Rule.NAMED_BY_CANCELLATION,
            )
            return
        self._judge.ensure(
            any(selects(s, partition, before.spec) for s in cancel.selections.values()),
            f"{partition}: {spec.cancelled_by} does not mean {before.spec}",
            Rule.MEANT_BY_CANCELLATION,
        )
        asked = self._asked.get(before.spec.request)
        self._judge.ensure(
            asked is None or asked.first < cancel.last,
            f"{partition}: {spec.cancelled_by} is older than what it turned round: {before.spec}",
            Rule.OLDER_THAN_CANCELLATION,
        )

    def _is_atomic(self, request: RequestId) -> bool:
        """Whether parts of a request are there that want all or nothing."""
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
        """Nothing that a cancellation selects may be left once it says that all is chosen."""
        cancel = self._asked[name]
        if version == int(UNDO_PART):
            self._judge.ensure(
                any(s.scope is CancelScope.ALL for s in cancel.selections.values()),
                f"{name} undoes completed partitions without scope all",
                Rule.UNDONE_IF_ASKED,
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
            if spec.request != name and partition in self._world.partitions():
                self._judge.ensure(
                    spec.rolls_back or partition in cancel.endings or spec.route is Route.LEGACY,
                    f"{partition}: {name} left {spec} alone and does not say why",
                    Rule.NOTHING_SELECTED_LEFT,
                )
        for child in self._world.zookeeper.children(paths.REQUESTS) or ():
            znode = self._world.zookeeper.get(paths.submission_path(child))
            if znode is None or znode.czxid > written:
                continue
            read = decode_submission(child, znode.data, ZkVersion(0), Zxid(znode.czxid), 0)
            meant = selection.is_everything or read.request in selection.requests
            self._judge.ensure(
                not meant or read.unreadable is not None or self._is_settled(read),
                f"{name} left {child} alone",
                Rule.NO_SUBMISSION_LEFT,
            )

    def _is_settled(self, submission: Submission) -> bool:
        """
        Whether all entries of a request are recorded: only its znode is left.

        ZooKeeper may refuse to take that away; nothing waits for it then, until it is tried again.
        """
        kept = paths.history_path(submission.request)
        recorded: set[TopicPartition] = set()
        for name in self._world.zookeeper.children(kept) or ():
            znode = self._world.zookeeper.get(f"{kept}/{name}")
            if name.startswith("accepted-") and znode is not None:
                entries = decode_accepted(znode.data)
                recorded.update(e.partition for e in entries if isinstance(e, AcceptedEntry))
        return submission.entries.keys() <= recorded


def cancellation_of(znode: Znode) -> Cancellation:
    """Read what a cancellation selects."""
    version, czxid, mzxid = ZkVersion(znode.version), Zxid(znode.czxid), Zxid(znode.mzxid)
    return decode_cancellation(znode.data, version, czxid, 0, mzxid)


def names(cancellation: Cancellation, partition: TopicPartition) -> bool:
    """Whether a cancellation names a partition or its topic."""
    return partition in cancellation.partitions or partition.topic in cancellation.topics


def selects(cancellation: Cancellation, partition: TopicPartition, spec: ReassignmentSpec) -> bool:
    """Whether a cancellation means a goal, by whatever it says."""
    return cancellation.unreadable is None and (
        cancellation.is_everything
        or spec.request in cancellation.requests
        or names(cancellation, partition)
    )
