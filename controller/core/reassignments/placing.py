"""
Replicas in the log directories that an entry names (KIP-113), for both engines.

Before a step adds a replica, its broker notes the directory in which the log is to be created; that
it noted it is a gate of the step. A broker that restarts in between forgets it. So, when the topic
znode is at the target, all named replicas are looked up, and those that are elsewhere are moved by
their brokers: phase ``Placing``. There, too, a move is stopped that an earlier target wanted: by
naming the directory where the replica is.

The truth is the record and what brokers report. Nothing is inferred from what was sent before: an
answer may be lost, and a request without an answer may be carried out later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.core import effects, model
from controller.core.disks import disk_space
from controller.core.disks.directory_ledger import Answer, BrokerDirs
from controller.core.disks.log_directories import epoch_of
from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, Replicas
from controller.core.pacing.budget import Budget
from controller.core.pacing.throttles import move_throttle_gate
from controller.core.reassignments import phases, records
from controller.core.reassignments.step_start import StepStart
from controller.core.records import Change, Record

RETRY_S: Final = 10.0
"""How soon a directory is requested again that a broker refused, in seconds."""
SOON_S: Final = 2.0
"""How long a step that waits for brokers keeps its slot, in seconds: they answer at once."""
PUT_OFF_S: Final = 15.0
"""The time after which it is seen again whether moves may begin, in seconds."""
PUT_OFF_TIMER: Final = "moves_put_off"


class ReplicaPlacement(StepStart):
    """A context that can place replicas in directories."""

    to_place: tuple[effects.PlaceReplica, ...] = ()
    """The requests without which the step does not begin."""
    is_answered_soon = False
    """Whether the step waits only for answers that come at once: it keeps its slot."""

    def placement_gate(self, adding: Replicas) -> Blocked | None:
        """Return what keeps added replicas from being created in their directories."""
        ledger = self.view.tenure.directories
        blocked: Blocked | None = None
        requests = []
        self.is_answered_soon = True
        for broker in adding:
            directory = self.spec.directory_of(broker)
            if directory is None or self._is_noted(broker, directory):
                continue
            waits = self._answer_gate(broker, directory)
            if waits is None:
                requests.append(effects.PlaceReplica(self.partition, broker, directory))
                waits = _unanswered(broker, directory)
            else:
                request = ledger.requests.get((broker, self.partition))
                is_young = request is not None and self.now < request.at + SOON_S
                self.is_answered_soon = self.is_answered_soon and is_young
            blocked = blocked or waits
        self.to_place = tuple(requests)
        return blocked

    def placements(self, blocked: Blocked) -> Change | Blocked:
        """Return the requests of a step that waits for them; else what it waits for."""
        if not self.to_place:
            return blocked
        noted = records.BlockedRecord(self.partition, blocked, self.now)
        return self.change(noted, effects=self.to_place)

    def _is_noted(self, broker: BrokerId, directory: str) -> bool:
        ledger = self.view.tenure.directories
        epoch = epoch_of(self.view, broker)
        answer = ledger.answer_of((broker, self.partition), epoch, directory)
        return answer is not None and answer.why is None

    def _answer_gate(self, broker: BrokerId, directory: str) -> Blocked | None:
        """Return that a request is under way, or was refused a moment ago."""
        ledger, replica = self.view.tenure.directories, (broker, self.partition)
        epoch = epoch_of(self.view, broker)
        request = ledger.requests.get(replica)
        if request is not None and request.epoch == epoch:
            return _unanswered(broker, request.directory)
        answer = ledger.answer_of(replica, epoch, directory)
        if answer is None or answer.why is None or self.now >= answer.at + RETRY_S:
            return None
        return Blocked(BlockedBy.LOG_DIR, f"broker {broker}, {directory}: {answer.why}")

    # --- the phase -----------------------------------------------------------------------------

    def begin_placing(self, budget: Budget) -> Change | Blocked:
        """Look where the replicas are: the topic znode is at the target."""
        before = self.reassignment.phase
        if isinstance(before, phases.Pending) and self.now < (before.not_before or self.now):
            return self.reassignment.blocked or Blocked(BlockedBy.LOG_DIR, before.why)
        dead = [b for b in self.spec.placed_brokers if epoch_of(self.view, b) is None]
        if dead and not self.spec.rolls_back:
            return self._waits(dead[0], f"broker {dead[0]} is not live")
        blocked = budget.gate(self.partition, self.reassignment, (), self.state.leader)
        if blocked is not None:
            return blocked
        budget.take(self.partition, self.spec.request, (), self.state.leader)
        phase = self.phase(phases.Placing(), "its replicas are as requested")
        return self.change(*self.approval_used(), phase)

    def placing(self, phase: phases.Placing, budget: Budget) -> Change | Blocked | None:
        """Have replicas moved that are not in their directories; None: all are."""
        is_there = self.assignment == model.PartitionAssignment(self.spec.target)
        if not is_there or not self.spec.has_directories:
            return self.change(self.phase(phases.Pending(), "the target changed"))
        found = {b: self._next_of(b, phase, budget) for b in self.spec.placed_brokers}
        left = {broker: n for broker, n in found.items() if n is not None}
        if not left:
            return None
        # What only copies is shown where nothing else is waited for.
        blocked = min((n.blocked for n in left.values()), key=lambda b: b.is_copying)
        before = dict(phase.moving)
        # The space of a move to another directory is given up first.
        moving = tuple(
            (b, n.moves_to)
            for b, n in left.items()
            if n.moves_to is not None and before.get(b, n.moves_to) == n.moves_to
        )
        requests = tuple(
            effects.PlaceReplica(self.partition, b, n.request)
            for b, n in left.items()
            if n.request is not None
        )
        if not requests and not moving and not any(n.is_soon for n in left.values()):
            return self._put_off(blocked)
        if not requests and moving == phase.moving:
            return blocked
        entered: tuple[Record, ...] = ()
        if moving != phase.moving:
            entered = (self.phase(phases.Placing(moving), "moves between directories"),)
        noted = records.BlockedRecord(self.partition, blocked, self.now)
        return self.change(*entered, noted, effects=requests)

    def _put_off(self, blocked: Blocked) -> Change:
        """Give the slot back while moves may not begin: others may make room meanwhile."""
        until = Instant(self.now + PUT_OFF_S)
        return self.change(
            self.phase(phases.Pending(until, blocked.detail), f"moves wait: {blocked.detail}"),
            records.BlockedRecord(self.partition, blocked, self.now),
            effects=(effects.SetTimer(PUT_OFF_TIMER, until),),
        )

    def _next_of(  # noqa: PLR0911 - one return per case
        self, broker: BrokerId, phase: phases.Placing, budget: Budget
    ) -> _Next | None:
        """
        Return what is next for a replica; None: it is there.

        Only a report from after the last answer shows what became of that request.
        """
        ledger, replica = self.view.tenure.directories, (broker, self.partition)
        moves_to = dict(phase.moving).get(broker)
        found = self._found(broker)
        if not isinstance(found, _Found):
            return found and found._replace(moves_to=moves_to)
        placed, here = found.placed, found.directory
        wanted = self.spec.directory_of(broker) or here
        epoch = epoch_of(self.view, broker)
        if ledger.is_under_way(replica, epoch):
            under_way = ledger.requests[replica].directory
            return _Next(_unanswered(broker, under_way), moves_to, is_soon=True)
        answer = ledger.answers.get(replica)
        if answer is None or answer.epoch != epoch:
            answer = None
        elif found.at < answer.at:
            return self._being_read(broker)._replace(moves_to=moves_to)
        is_stopped = answer is not None and answer.directory == here and not answer.is_lost
        if placed == model.PlacedReplica(wanted) and (
            is_stopped or broker not in self.spec.unplaced
        ):
            return None
        if placed.future is not None and disk_space.has_no_room(self.view, broker, self.partition):
            wanted = here
        if placed.future == wanted and not ledger.is_stalled(replica, self.now):
            detail = f"broker {broker} moves its replica to {wanted}{self._share(placed)}"
            return _Next(Blocked(BlockedBy.LOG_DIR, detail, is_copying=True), wanted)
        if placed.future is None and wanted != here:
            return self._move(broker, wanted, answer, moves_to, budget)
        # Naming the present directory ends a move; one to another directory begins after that.
        moves_to = moves_to if moves_to == wanted != here else None
        refused = _refused(broker, here, answer, self.now, moves_to)
        if refused is not None:
            return refused._replace(is_soon=True)
        return _Next(_unanswered(broker, here), moves_to, here)

    def _move(
        self,
        broker: BrokerId,
        wanted: str,
        answer: Answer | None,
        moves_to: str | None,
        budget: Budget,
    ) -> _Next:
        """Return the request for a directory to which nothing moves yet, or what it waits for."""
        is_lost = answer is not None and answer.is_lost and answer.directory == moves_to
        refused = _refused(broker, wanted, answer, self.now, moves_to if is_lost else None)
        if refused is not None:
            return refused
        known = self.view.tenure.directories.brokers.get(broker)
        if known is None or moves_to not in {None, wanted}:
            return self._being_read(broker)
        blocked = self._move_gate(broker, known, wanted, budget, is_moving=moves_to == wanted)
        if blocked is not None:
            return _Next(blocked)
        return _Next(_unanswered(broker, wanted), wanted, wanted)

    def _share(self, placed: model.PlacedReplica) -> str:
        """Return how much of a move is done, as far as the partition's size is known."""
        size = self.view.work.sizes.get(self.partition)
        return f" ({min(100, 100 * placed.future_bytes // size)}%)" if size else ""

    def _found(  # noqa: PLR0911 - one return per case
        self, broker: BrokerId
    ) -> _Found | _Next | None:
        """Return where a replica is, why that is not known; None: it does not matter."""
        ledger, epoch = self.view.tenure.directories, epoch_of(self.view, broker)
        if epoch is None:
            if self.spec.rolls_back:
                # A dead broker does not delay a rollback: it may never return.
                return None
            return _Next(self._waits(broker, f"broker {broker} is not live"))
        silence = ledger.silence_of(broker, epoch)
        if silence is not None:
            why = f"broker {broker} reports no directories: {silence.why}"
            return _Next(self._waits(broker, why))
        report = ledger.report_of((broker, self.partition), epoch)
        if report is None:
            return self._being_read(broker)
        placed = report.placed
        if placed is not None and placed.directory is not None:
            return _Found(report.at, placed, placed.directory)
        if self.spec.directory_of(broker) is None:
            return None
        why = f"broker {broker} reports no replica: its log directory may be offline"
        return _Next(self._waits(broker, why))

    def _being_read(self, broker: BrokerId) -> _Next:
        why = f"the log directories of broker {broker} are being read"
        return _Next(self._waits(broker, why), is_soon=True)

    def _waits(self, broker: BrokerId, why: str) -> Blocked:
        named = self.spec.directory_of(broker)
        to = "" if named is None else f" (its replica is to be in {named})"
        return Blocked(BlockedBy.LOG_DIR, f"{why}{to}")

    def _move_gate(
        self,
        broker: BrokerId,
        known: BrokerDirs,
        directory: str,
        budget: Budget,
        *,
        is_moving: bool,
    ) -> Blocked | None:
        """Return what keeps a broker from beginning to move its replica."""
        if known.dirs.get(directory) is not False:
            what = "is offline" if directory in known.dirs else "does not exist"
            return Blocked(
                BlockedBy.LOG_DIR, f"log directory {directory} of broker {broker} {what}"
            )
        blocked = move_throttle_gate(self.view, broker, self.spec)
        if blocked is None and not is_moving:
            blocked = budget.move_gate(self.partition, self.reassignment, broker)
        return blocked


class _Found(NamedTuple):
    """A replica as its broker reported it."""

    at: Instant
    placed: model.PlacedReplica
    directory: str


class _Next(NamedTuple):
    """What is next for a replica that is not known to be in its directory."""

    blocked: Blocked
    moves_to: str | None = None
    """The directory to which it may be moving, where that takes room."""
    request: str | None = None
    """The directory to request now."""
    is_soon: bool = False
    """Whether it waits for an answer or a report only."""


def _unanswered(broker: BrokerId, directory: str) -> Blocked:
    detail = f"broker {broker} has not acknowledged the log directory {directory} yet"
    return Blocked(BlockedBy.LOG_DIR, detail)


def _refused(
    broker: BrokerId, directory: str, answer: Answer | None, now: Instant, moves_to: str | None
) -> _Next | None:
    """Return that the request was refused, or its answer lost, a moment ago."""
    if answer is None or answer.directory != directory or answer.why is None:
        return None
    if now >= answer.at + RETRY_S:
        return None
    blocked = Blocked(BlockedBy.LOG_DIR, f"broker {broker}, {directory}: {answer.why}")
    return _Next(blocked, moves_to, is_soon=answer.is_lost)
