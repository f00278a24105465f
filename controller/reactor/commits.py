"""
The writes of a cycle: many changes in few multis, and the handling of rejected ones.

A durable change is applied to the view and its effects are carried out. A rejected change is set
aside, the znodes it was decided from are invalidated and read again, and the other changes are
written again. After a second rejection, all stale operations of the rejected multis are found at
once with multis that only check (``stale_checks``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controller.core.cycle import apply, observe, versions_moved
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import Effect, SetTimer
from controller.core.model import Instant, TopicPartition
from controller.core.records import Change
from controller.core.role import invalidation
from controller.core.view import ClusterView
from controller.reactor import ports
from controller.reactor.group_commit import Batch, Batcher, changes_of, in_groups
from controller.reactor.reads import RaceCounts, reread_concerned, reread_stale
from controller.znodes import paths

RETRY_TIMER: Final = "refused_writes"
RETRY_S: Final = 5.0
RACES: Final = frozenset(
    {ports.WriteError.BAD_VERSION, ports.WriteError.NO_NODE, ports.WriteError.NODE_EXISTS}
)
"""Errors that mean that another client wrote the znode first."""


class Commits:
    """Writes changes, and counts the writes that are rejected repeatedly."""

    def __init__(
        self,
        view: ClusterView,
        store: ports.Store,
        observer: ports.Observer,
        failpoints: ports.Failpoints,
        carry_out: Callable[[Effect, Instant], None],
    ) -> None:
        self._view = view
        self._store = store
        self._observer = observer
        self._failpoints = failpoints
        self._carry_out = carry_out
        self._refused: dict[TopicPartition, None] = {}
        """Partitions whose writes were rejected for another reason than a race."""
        self._races = RaceCounts()

    def try_again(self) -> None:
        """Queue what was rejected for another decision, after ``RETRY_S``."""
        invalidation.retry_refused(self._view, self._refused)
        self._refused.clear()
        for path in self._races.take_stubborn():
            reread_concerned(self._store, path)
        reread_stale(self._store, self._view)

    def commit(self, changes: Sequence[Change], now: Instant) -> None:
        """Write changes; set rejected ones aside and write the others again."""
        if not changes:
            return
        first, entries = Batcher(self._view).split_large_ends(changes)
        self._write_all(first, now)
        self._write_all(
            [c for c in entries if c.partition not in self._view.reassignments.by_partition], now
        )

    def _write_all(self, changes: list[Change], now: Instant) -> None:
        left = self._write(changes, now, is_retry=False)
        while left:
            left = self._write(left, now, is_retry=True)

    def _write(self, changes: Sequence[Change], now: Instant, *, is_retry: bool) -> list[Change]:
        """
        Write group after group until one is rejected; return the changes to be written again.

        The expected versions of a group are those that the groups before it leave, so they hold
        only while those are written. A single lost race is common. After a second one there may be
        many, so a retry checks for all of them (``is_retry``).
        """
        left = {id(change): change for change in changes}
        for group in in_groups(Batcher(self._view).batches(changes)):
            refused: list[tuple[Batch, ports.Rejected]] = []
            moved: set[str] = set()
            for batch, result in zip(group, self._results(group), strict=True):
                if isinstance(result, ports.Rejected):
                    refused.append((batch, result))
                    self._set_aside_rejected(batch, result, left, now)
                else:
                    moved.update(
                        op.path for op in batch.operations if not isinstance(op, ports.Check)
                    )
                    self._record_commit(batch, now)
                    for change in batch.changes:
                        del left[id(change)]
            if refused:
                if is_retry:
                    self._set_aside_overtaken(refused, moved, left, now)
                for change in left.values():
                    if self._is_being_read(change):
                        invalidation.keep_bounces(self._view, change)
                return [c for c in left.values() if not self._is_being_read(c)]
        return []

    def _set_aside_overtaken(
        self,
        refused: Sequence[tuple[Batch, ports.Rejected]],
        moved: set[str],
        left: dict[int, Change],
        now: Instant,
    ) -> None:
        """Set aside all changes with a stale operation in rejected multis."""
        unchecked = [
            check
            for batch, result in refused
            if result.error in RACES
            for check in stale_checks(batch, result, moved)
            if any(id(c) in left and not self._is_being_read(c) for c in check.owners)
        ]
        for together in CHECKS_TOGETHER:
            groups = [unchecked[n : n + together] for n in range(0, len(unchecked), together)]
            checks = [[check.check for check in group] for group in groups]
            answers = self._store.commit(checks) if checks else []
            unchecked = []
            for group, answer in zip(groups, answers, strict=True):
                if isinstance(answer, ports.Rejected):
                    lost = group[answer.index]
                    self._set_aside_rejected(
                        lost.batch, ports.Rejected(lost.index, answer.error), left, now
                    )
                    unchecked += group[answer.index + 1 :]

    def _results(self, group: Sequence[Batch]) -> list[ports.Committed | ports.Rejected]:
        """Write batches that do not depend on each other; return the result of each."""
        self._failpoints.committing(self._view, changes_of(group))
        written = [b for b in group if b.operations]
        answers = self._store.commit([b.operations for b in written]) if written else []
        outcome = dict(zip(map(id, written), answers, strict=True))
        results = [outcome.get(id(b), ports.Committed()) for b in group]
        durable = [b for b, r in zip(group, results, strict=True) if isinstance(r, ports.Committed)]
        self._failpoints.committed(self._view, changes_of(durable))
        return results

    def _record_commit(self, batch: Batch, now: Instant) -> None:
        versions_moved(
            self._view, batch.topics, legacy=batch.legacy, queue=batch.queue, shards=batch.shards
        )
        self._races.reset_counts(batch.operations)
        for change in batch.changes:
            for record in change.records:
                apply(self._view, record, now)
            self._observer.on_committed(change, self._view)
            for effect in change.effects:
                self._carry_out(effect, now)

    def _set_aside_rejected(
        self, batch: Batch, result: ports.Rejected, left: dict[int, Change], now: Instant
    ) -> None:
        """Set aside the changes that own the rejected operation; others of the multi stay left."""
        path = batch.operations[result.index].path
        if self._passes_over_shard(path, result.error):
            return
        owners = batch.owners[result.index] or batch.changes
        owning = [left.pop(id(change)) for change in owners if id(change) in left]
        is_race, topic = result.error in RACES, paths.parse_topic(path)
        # After another error the znode is still as the view has it: it is not read again.
        if is_race:
            invalidation.invalidate_plans(
                self._view,
                legacy=path == paths.LEGACY_PLAN,
                queue=path == paths.QUEUE,
                cancellation=path == paths.CANCEL,
            )
            self._note_marker(path, result.error, now)
        else:
            # An immediate retry would fail again: permissions, sizes.
            self._refused.update(dict.fromkeys(c.partition for c in owning if c.partition))
            self._carry_out(SetTimer(RETRY_TIMER, Instant(now + RETRY_S)), now)
            for change in owning:
                for effect in invalidation.set_aside(
                    self._view, change, path, result.error.value, now
                ):
                    self._carry_out(effect, now)
        for change in owning:
            self._observer.on_rejected(change, result.error, self._view)
            for effect in invalidation.invalidate(self._view, change, topic) if is_race else ():
                self._carry_out(effect, now)
        if not is_race and result.error is not ports.WriteError.NOT_EMPTY:
            return
        # Reading it again has not helped where it is rejected repeatedly.
        if self._races.is_stubborn(path):
            self._carry_out(SetTimer(RETRY_TIMER, Instant(now + RETRY_S)), now)
        else:
            reread_concerned(self._store, path)

    def _note_marker(self, path: str, error: ports.WriteError, now: Instant) -> None:
        """
        Note that the marker of a topic exists, or is gone, as a read of the markers would.

        That read may come long after the one of the topic. Until then the same write would be
        decided and rejected again and again, and nothing else of the topic be written.
        """
        topic = paths.parse_deletion(path)
        if topic is None:
            return
        markers = self._view.deletions_session.markers or frozenset()
        exists = error is ports.WriteError.NODE_EXISTS
        markers = markers | {topic} if exists else markers - {topic}
        observe(self._view, DeletionsRead(markers), now)

    def _passes_over_shard(self, path: str, error: ports.WriteError) -> bool:
        """Return whether a rejected write was of a shard that exists; the next takes its place."""
        shard = paths.parse_shard(path.rpartition("/")[2])
        if shard is None or error is not ports.WriteError.NODE_EXISTS:
            return False
        invalidation.pass_over_shard(self._view, shard.number)
        return True

    def _is_being_read(self, change: Change) -> bool:
        """
        Return whether the topic of a change is being read again, after which it is decided anew.

        False for a deleted topic, which is not read again.
        """
        if change.partition is None:
            return False
        topic = self._view.topics.by_name.get(change.partition.topic)
        return topic is not None and topic.stale


CHECKS_TOGETHER: Final = (20, 1)
"""Checks in one multi, in the first and in the second round: most of them hold."""


@dataclass(frozen=True, slots=True)
class StaleCheck:
    """An operation of a rejected multi, and the version check for it."""

    batch: Batch
    index: int
    check: ports.Check

    @property
    def owners(self) -> tuple[Change, ...]:
        """Return the changes that own the operation."""
        return self.batch.owners[self.index]


def stale_checks(
    batch: Batch, refused: ports.Rejected, moved: Collection[str]
) -> Iterator[StaleCheck]:
    """
    Yield version checks for the operations of a rejected multi that may be stale, too.

    ZooKeeper reports the first operation that fails and looks no further. Where another client
    wrote many of the znodes, as leaders do when their followers come back, a retry per rejected
    operation would be a round trip each. So the remaining ones are checked in multis that write
    nothing: a few operations together, then, after a rejection, each of the rest alone.

    Operations before the first failed one are not stale. The paths in ``moved`` were written since
    by this cycle, so they are not at the version that the multi expects.
    """
    seen = set(moved)
    for index, operation in enumerate(batch.operations):
        if operation.path in seen:
            continue  # It expects the version that another operation would have left.
        seen.add(operation.path)
        if index <= refused.index or not isinstance(
            operation, ports.Check | ports.SetData | ports.Delete
        ):
            continue
        if operation.version is not None:
            yield StaleCheck(batch, index, ports.Check(operation.path, operation.version))
