"""
The ledger of requests, queue and cancellations: submissions and their outcomes.

Only znodes are read. A spec has to match a submission, and its original replicas the assignment; it
ends at its target, at its original, or is superseded, and the rows of its request say which. In the
end every request has an outcome that adds up. The rules of cancellations are in ``cancel_rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
    entry_text,
)
from controller.core.pacing.controls import Drains
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    CancelScope,
    Submission,
)
from controller.znodes import paths
from controller.znodes.histories import decode_accepted, decode_ended, decode_outcome
from controller.znodes.plans import decode_legacy_plan, decode_submission
from controller.znodes.reassignments import decode_spec
from tests.sim.cancel_rules import CancelRules
from tests.sim.decoded import cancellation_of, drains_of
from tests.sim.drain_rules import DrainRules
from tests.sim.rules import Rule
from tests.sim.zookeeper import NO_SESSION, Transaction, Written, Znode

if TYPE_CHECKING:
    from tests.sim.world import World

KNOWN_S: Final = 20.0
"""The time after which every daemon has heard of a change."""


@dataclass(slots=True)
class RequestedEntry:
    """One request, queue or cancellation, and the rows of its outcome."""

    first: Zxid
    """The czxid of its first znode."""
    total: int = 0
    targets: dict[TopicPartition, set[Replicas]] = field(default_factory=dict)
    selections: dict[int, Cancellation] = field(default_factory=dict)
    """The content of a cancellation, by version."""
    accepted: dict[TopicPartition, AcceptedEntry] = field(default_factory=dict)
    elects_leaders: bool = False
    """Whether an entry that changes only the order ends when its first replica leads."""
    refused: list[Refusal] = field(default_factory=list)
    endings: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    is_drain: bool = False
    """Whether it stands for drains: it may have several entries of a partition."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A spec in ZooKeeper, with its czxid."""

    spec: ReassignmentSpec
    czxid: Zxid


class Ledger:
    """Every request and cancellation, and the specs in ZooKeeper."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._judge = world.invariants.judge
        self.requested: dict[RequestId, RequestedEntry] = {}
        self._specs: dict[TopicPartition, Standing] = {}
        self._been: dict[TopicPartition, set[Replicas]] = {}
        """Every assignment a partition had while nothing was under way."""
        self._stood: dict[TopicPartition, Replicas] = {}
        """The last of them."""
        self._led: dict[TopicPartition, set[BrokerId]] = {}
        """The leaders of each partition since its spec was written."""
        self._stepped: set[TopicPartition] = set()
        """Partitions of which replicas were added or removed since they have a spec."""
        self._origins: dict[TopicPartition, set[frozenset[BrokerId]]] = {}
        """The former replicas that the topic znode has shown since the reassignment began."""
        self._originals: dict[TopicPartition, set[Replicas]] = {}
        self.owed: dict[TopicPartition, Replicas] = {}
        """The target of each partition by its last spec of the request route."""
        self._disabled_at = -KNOWN_S
        """The time at which the kill switch, or a quiesce, was last set or removed."""
        self.takers: list[Callable[[tuple[TopicPartition, ...]], None]] = []
        """Called with partitions that a request or a cancellation takes."""
        self.enders: list[Callable[[TopicPartition, Replicas], None]] = []
        """Called with legacy entries that a cancellation ended before they began."""
        self.refusers: list[Callable[[Refusal], None]] = []
        """Called with legacy entries whose refusal is durable."""
        self.cancels = CancelRules(world, self.requested, self._originals)
        """The rules about cancellations."""
        self.drains = DrainRules(world)
        """The rules about drains."""
        world.zookeeper.listeners.append(self._transacted)
        for topic in world.zookeeper.children(paths.TOPICS) or ():
            self._assigned(topic)

    def spec(self, partition: TopicPartition) -> ReassignmentSpec | None:
        """Return the spec of a partition; None where there is none."""
        standing = self._specs.get(partition)
        return None if standing is None else standing.spec

    def take_back(self, partition: TopicPartition) -> None:
        """Expect no target of a partition with a foreign reassignment."""
        self.owed.pop(partition, None)

    def may_be_disabled(self) -> bool:
        """Return whether a daemon may believe that new work is refused, as it hears late."""
        since = self._world.now - self._disabled_at
        is_disabled = self._world.zookeeper.get(paths.KILL_SWITCH) is not None
        return since < KNOWN_S or is_disabled or self._world.is_quiesced

    # --- writes --------------------------------------------------------------------------------

    def _transacted(self, transaction: Transaction) -> None:  # noqa: C901, PLR0912 - one arm per znode
        specs: list[tuple[TopicPartition, Written]] = []
        chosen: list[tuple[RequestId, int]] = []
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["admin", "reassignment_requests", name] if written.after is not None:
                    self._submitted(name, written.after)
                case ["admin", "reassign_partitions_queue"] if written.before is None:
                    self._queued(written.after)
                case ["reassigner", "control", "drains"]:
                    self._drained(written)
                case ["admin", "cancel_reassignment_in_progress"] if written.after is not None:
                    self._cancelled(written.after)
                case ["admin", "reassignments", topic, number]:
                    specs.append((TopicPartition(topic, int(number)), written))
                case ["reassigner", "outcomes", request, child] if written.before is None:
                    name = child.removeprefix(paths.PART)
                    if request.startswith("cancel-") and name != child:
                        chosen.append((RequestId(request), int(name)))
                    elif written.after is not None:
                        self._kept(RequestId(request), child, written.after)
                case ["admin", "reassign_cancel"]:
                    self._disabled_at = self._world.now
                case ["reassigner", "control", "pauses"] if self._world.quiesced:
                    self._disabled_at = self._world.now
                case ["brokers", "topics", topic] if written.after is not None:
                    self._assigned(topic)
                case ["brokers", "topics", topic]:
                    self._deleted(topic)
                case ["brokers", "topics", topic, "partitions", number, "state"]:
                    self._note_leader(TopicPartition(topic, int(number)))
                case _:
                    pass
        for partition, written in specs:
            self._spec_written(transaction, partition, written)
        for request, version in chosen:
            self.cancels.chosen(request, version, self._specs)

    def _assigned(self, topic: str) -> None:
        for number, assignment in self._world.invariants.assignments(topic).items():
            partition = TopicPartition(topic, number)
            if assignment.is_reassigning:
                self._stepped.add(partition)
                shown = frozenset(assignment.origin_replicas)
                self._origins.setdefault(partition, set()).add(shown)
            else:
                self._been.setdefault(partition, set()).add(assignment.replicas)
                self._stood[partition] = assignment.replicas
                self._origins.pop(partition, None)

    def _note_leader(self, partition: TopicPartition) -> None:
        state = self._world.state(partition)
        if state is not None:
            self._led.setdefault(partition, set()).add(state.leader)

    def _deleted(self, topic: str) -> None:
        """Expect no target of a topic that is gone: a later one may have its name."""
        gone = tuple(sorted(p for p in {*self.owed, *self._been} if p.topic == topic))
        for partition in gone:
            self.owed.pop(partition, None)
        for taken in self.takers:
            taken(gone)

    def _requested_as(self, request: RequestId, znode: Znode) -> RequestedEntry:
        return self.requested.setdefault(request, RequestedEntry(Zxid(znode.czxid)))

    def _submitted(self, name: str, znode: Znode) -> None:
        version, czxid = ZkVersion(znode.version), Zxid(znode.czxid)
        read: Submission = decode_submission(name, znode.data, version, czxid, 0)
        if read.unreadable is not None:
            self._requested_as(RequestId(name), znode).total += 1
            return
        requested = self._requested_as(read.request, znode)
        requested.total += len(read.entries) + len(read.refused)
        requested.elects_leaders = read.options.elect_leaders
        for partition, target in read.entries.items():
            requested.targets.setdefault(partition, set()).add(target)

    def _queued(self, znode: Znode | None) -> None:
        if znode is None:
            return
        plan = decode_legacy_plan(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
        requested = self._requested_as(RequestId(f"queue-{znode.czxid:016x}"), znode)
        requested.total = 1 if plan.unreadable else len(plan.entries) + len(plan.refused)
        requested.targets = {partition: {target} for partition, target in plan.entries.items()}

    def _drained(self, written: Written) -> None:
        drains = None if written.after is None else drains_of(written.after)
        if isinstance(drains, Drains) and written.after is not None:
            self._requested_as(drains.request, written.after).is_drain = True

    def _cancelled(self, znode: Znode) -> None:
        read = cancellation_of(znode)
        requested = self._requested_as(read.request, znode)
        requested.selections[znode.version] = read

    def _kept(self, request: RequestId, child: str, znode: Znode) -> None:
        shard = paths.parse_shard(child)
        requested = self.requested.get(request)
        if shard is None:
            # The summary is judged in the end.
            return
        if requested is None:
            if shard.kind == "ended":
                self._legacy_ended(request, child, znode)
            return
        if shard.kind == "accepted":
            requested.total += shard.rows if requested.is_drain else 0
            rows = decode_accepted(znode.data)
            if isinstance(rows, str):
                self._judge.fail(f"{request}/{child} cannot be read: {rows}")
            recorded = Zxid(znode.czxid)
            requested.accepted.update(
                {row.partition: replace(row, recorded_in=recorded) for row in rows}
            )
            return
        refused, endings = self._rows(request, child, znode)
        for ending in endings:
            if ending.fate is OutcomeKind.CANCELLED:
                self.cancels.ended_by(request, ending)
        requested.refused += refused
        requested.endings.update({ending.partition: ending for ending in endings})

    def _rows(
        self, request: RequestId, child: str, znode: Znode
    ) -> tuple[Sequence[Refusal], Sequence[PartitionOutcome]]:
        ended = decode_ended(request, znode.data)
        if isinstance(ended, str):
            self._judge.fail(f"{request}/{child} cannot be read: {ended}")
        return ended

    def _legacy_ended(self, request: RequestId, child: str, znode: Znode) -> None:
        """Expect no target of a legacy entry that was refused, or cancelled before it began."""
        refused, endings = self._rows(request, child, znode)
        for refusal in refused:
            for refuser in self.refusers:
                refuser(refusal)
        for ending in endings:
            if ending.fate is OutcomeKind.CANCELLED:
                spec = self.spec(ending.partition)
                self.cancels.ended_before_it_began(ending, spec)
                if spec is not None:
                    for ended in self.enders:
                        ended(ending.partition, spec.target)

    # --- specs ---------------------------------------------------------------------------------

    def _spec_written(
        self, transaction: Transaction, partition: TopicPartition, written: Written
    ) -> None:
        before = self._specs.pop(partition, None)
        self._stepped.difference_update((partition,) if before is None else ())
        if written.after is None:
            if before is not None and transaction.session != NO_SESSION:
                self._ended(partition, before.spec)
            return
        spec = decode_spec(written.after.data, ZkVersion(written.after.version))
        if isinstance(spec, str):
            self._judge.ensure(transaction.session == NO_SESSION, f"{written.path}: {spec}")
            return
        self._specs[partition] = Standing(spec, Zxid(written.after.czxid))
        self._led.pop(partition, None)
        self._note_leader(partition)
        self._from_where_it_was(partition, before, spec)
        requested = self.requested.get(spec.request)
        is_drain = requested is not None and requested.is_drain
        if (
            requested is not None
            and is_drain
            and (before is None or before.spec.request != spec.request)
        ):
            # A former entry of the partition is over.
            requested.endings.pop(partition, None)
        if spec.original is not None:
            self._originals.setdefault(partition, set()).add(spec.original)
        if spec.rolls_back:
            self.cancels.rolled_back(partition, before, spec)
        elif spec.route is Route.REQUEST and not is_drain:
            self._check_requested(partition, spec)
        if spec.route is Route.REQUEST or spec.rolls_back:
            self.owed[partition] = spec.target
            for taken in self.takers:
                taken((partition,))
        else:
            self.owed.pop(partition, None)

    def _from_where_it_was(
        self, partition: TopicPartition, before: Standing | None, spec: ReassignmentSpec
    ) -> None:
        """
        Judge that the original is the assignment before the reassignment, and does not change.

        A daemon that saw a foreign reassignment begin knows the former assignment, in order; one
        that took over in the middle knows only the former replicas, which the topic znode showed
        before some of them were deleted.
        """
        if before is not None and not _is_of_former_topic(before.spec, spec):
            known = before.spec.original
            self._judge.ensure(
                known is None or spec.original == known,
                f"{partition}: the original was {known} and is {spec.original} now",
                Rule.ORIGINAL_KEPT,
            )
            return
        topic = self._world.zookeeper.get(paths.topic_path(partition.topic))
        if topic is None or spec.original is None:
            return
        assignment = self._world.assignment(partition)
        self._judge.ensure(
            spec.original == self._stood.get(partition)
            or frozenset(spec.original) in self._origins.get(partition, ()),
            f"{partition}: the original is said to be {spec.original}, it is {assignment}",
            Rule.ORIGINAL_IS_WHERE_IT_WAS,
        )

    def _check_requested(self, partition: TopicPartition, spec: ReassignmentSpec) -> None:
        requested = self.requested.get(spec.request)
        if requested is None:
            self._judge.fail(f"{partition}: request {spec.request} is unknown")
        if requested.selections:
            self._judge.ensure(
                any(s.scope is CancelScope.ALL for s in requested.selections.values())
                and spec.target in self._originals.get(partition, ()),
                f"{partition}: {spec.target} is no original that {spec.request} leads back to",
                Rule.UNDOES_TO_AN_ORIGINAL,
            )
            return
        self._judge.ensure(
            spec.target in requested.targets.get(partition, ()),
            f"{partition}: {spec.request} did not ask for {spec.target}",
            Rule.TARGET_REQUESTED,
        )

    def _ended(self, partition: TopicPartition, spec: ReassignmentSpec) -> None:
        """Judge that a spec ended at its target, or where the rows of its request say."""
        requested = self.requested.get(spec.request)
        fate = None
        if requested is not None and partition in requested.endings:
            fate = requested.endings[partition].fate
        is_refused = requested is not None and any(
            r.partition == partition for r in requested.refused
        )
        # Of a topic that is being deleted, it ends when live brokers have no replica any more.
        is_doomed = self._world.zookeeper.get(paths.deletion_path(partition.topic)) is not None
        # What was accepted for a topic that was deleted ends wherever another of its name is.
        is_known = self._world.concerns_present_topic(partition, spec) and not is_doomed
        if not is_known or is_refused or (requested is None and not spec.rolls_back):
            self.owed.pop(partition, None)
            return
        assignment = self._world.assignment(partition)
        wanted = spec.original if fate is OutcomeKind.CANCELLED else spec.target
        if requested is not None and fate is OutcomeKind.CANCELLED:
            by = RequestId(requested.endings[partition].detail.removeprefix("by "))
            if by in self._world.quiesced:
                # Where another client moved it before it began.
                wanted = assignment.replicas
        if fate is OutcomeKind.CANCELLED and wanted is not None:
            self.owed[partition] = wanted
        self._judge.ensure(
            assignment.replicas == wanted and not assignment.is_reassigning,
            f"{partition}: {spec} ended ({fate or 'done'}) while the topic znode says {assignment}",
            Rule.ENDED_WHERE_IT_LED,
        )
        is_order_alone = {*(spec.original or ())} == {*spec.target}
        is_order_alone = is_order_alone and partition not in self._stepped
        is_elected = spec.target[0] in self._led.get(partition, ())
        elects = requested is not None and requested.elects_leaders and fate is None
        self._judge.ensure(
            is_elected or spec.rolls_back or not (elects and is_order_alone),
            f"{partition}: {spec} is done, and {spec.target[0]} did not lead",
            Rule.DONE_WHEN_IT_LEADS,
        )
        self._judge.ensure(
            spec.rolls_back == (fate is OutcomeKind.ROLLED_BACK) or requested is None,
            f"{partition}: {spec} ended, the outcome says {fate or 'done'}",
            Rule.ROLLBACK_REPORTED,
        )

    # --- the end -------------------------------------------------------------------------------

    def judge_end(self) -> None:
        """Judge the outcome of every request."""
        self.drains.judge_end()
        for request, requested in self.requested.items():
            is_seen = bool(self._world.zookeeper.children(paths.history_path(request)))
            if requested.is_drain and (self.drains.is_standing(request) or not is_seen):
                continue
            znode = self._world.zookeeper.get(paths.outcome_path(request))
            read = "there is none" if znode is None else decode_outcome(znode.data)
            if isinstance(read, str):
                self._judge.fail(f"the outcome of {request}: {read}")
            self._adds_up(request, requested, read)
            if not requested.selections:
                self._is_true(request, requested)

    def _adds_up(self, request: RequestId, requested: RequestedEntry, summary: Summary) -> None:
        fates = dict(summary.fates)
        refused = sum(r.entries for r in summary.refused) + summary.refused_left_out
        if requested.selections and not refused:
            # The total of a cancellation does not count what it stopped.
            for fate in (OutcomeKind.CANCELLED, OutcomeKind.ROLLED_BACK):
                fates.pop(fate, None)
        self._judge.ensure(
            summary.total == summary.done + refused + sum(fates.values()),
            f"{request} does not add up: {summary}",
            Rule.OUTCOME_ADDS_UP,
        )
        if requested.selections:
            return
        rows = [ending.fate for ending in requested.endings.values()]
        # A partition counts once; one that was drained again may have had another row.
        self._judge.ensure(
            summary.total == requested.total
            and (
                requested.is_drain
                or all(summary.fates.get(fate, 0) == rows.count(fate) for fate in OutcomeKind)
            ),
            f"{request}: {requested.total} entries, ended as {rows}: {summary}",
            Rule.OUTCOME_BY_ROWS,
        )

    def _is_true(self, request: RequestId, requested: RequestedEntry) -> None:
        """Judge that every entry without a row reached its target."""
        dropped = {r.partition for r in requested.refused if r.was_accepted}
        done = set(requested.targets) - set(requested.endings) - dropped
        refused = {r.entry for r in requested.refused}
        whole = sum(r.entries for r in requested.refused if r.partition is None)
        missing = [
            entry_text(partition, target)
            for partition in done
            for target in requested.targets[partition]
            if target not in self._been.get(partition, ())
            and entry_text(partition, target) not in refused
        ]
        self._judge.ensure(
            len(missing) <= whole,
            f"{request}: {missing} are neither done nor in the outcome",
            Rule.DONE_OR_REPORTED,
        )

    def unmet(self) -> Iterator[tuple[TopicPartition, Replicas]]:
        """Yield the targets of the last specs that are not reached."""
        known = set(self._world.partitions())
        for partition, target in self.owed.items():
            if partition in known and self._world.assignment(partition).replicas != target:
                yield partition, target


def _is_of_former_topic(before: ReassignmentSpec, spec: ReassignmentSpec) -> bool:
    """Return whether a record replaces one that outlived its topic."""
    return before.topic_czxid is not None and before.topic_czxid != spec.topic_czxid
