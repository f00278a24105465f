"""
Replicas in the log directories that an entry names (KIP-113), for both engines.

Before a step adds a replica, its broker notes the directory in which the log is to be created; that
it noted it is a gate of the step. A broker that restarts in between forgets it. So, when the topic
znode is at the target, all named replicas are looked up, and those that are elsewhere are moved by
their brokers: phase ``Placing``. There, too, a move is stopped that an earlier target wanted: by
naming the directory where the replica is.

Nothing is inferred from what was sent before: an answer may be lost, and a request without an
answer may be carried out later. In the phase, each replica is judged by a report that is newer than
the last answer of its broker:

* It moves to its directory: wait, unless the move stalls or has no room.
* It moves otherwise: stop that.
* It is elsewhere: move it, as soon as directory, throttle and room permit.
* It is there: done, once a move that an earlier target may have requested is known to be stopped.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.core import effects, model
from controller.core.disks import disk_space
from controller.core.disks.known_directories import directories_of
from controller.core.disks.placements import NamedReplica
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


class _Next(NamedTuple):
    """What is next for a replica that is not known to be in its directory."""

    blocked: Blocked
    moves_to: str | None = None
    """The directory to which it may be moving, where that takes room."""
    request: str | None = None
    """The directory to request now."""
    is_soon: bool = False
    """Whether it waits for an answer or a report only."""


class ReplicaPlacement(StepStart):
    """A context that can place replicas in directories."""

    to_place: tuple[effects.PlaceReplica, ...] = ()
    """The requests without which the step does not begin."""
    is_answered_soon = False
    """Whether the step waits only for answers that come at once: it keeps its slot."""

    def _named_replica(self, broker: BrokerId) -> NamedReplica:
        """Return what the broker, in its present registration, said of its replica."""
        epoch = self.view.registration_of(broker)
        return self.view.disks.placements.known(broker, self.partition, epoch)

    # --- before a step ---------------------------------------------------------------------------

    def placement_gate(self, adding: Replicas) -> Blocked | None:
        """Return what keeps added replicas from being created in their directories."""
        blocked: Blocked | None = None
        requests = []
        self.is_answered_soon = True
        for broker in adding:
            directory, known = self.spec.directory_of(broker), self._named_replica(broker)
            if directory is None or known.is_accepted(directory):
                continue
            waits = _pending(broker, known) or _refusal(broker, known, directory, self.now)
            if waits is None:
                requests.append(effects.PlaceReplica(self.partition, broker, directory))
                waits = _acknowledgement_hold(broker, directory)
            elif known.request is None or self.now >= known.request.at + SOON_S:
                self.is_answered_soon = False
            blocked = blocked or waits
        self.to_place = tuple(requests)
        return blocked

    def placements(self, blocked: Blocked) -> Change | Blocked:
        """Return the requests of a step that waits for them; else what it waits for."""
        if not self.to_place:
            return blocked
        noted = records.BlockedRecord(self.partition, blocked, self.now)
        return self.change(noted, effects=self.to_place)

    # --- the phase -------------------------------------------------------------------------------

    def begin_placing(self, budget: Budget) -> Change | Blocked:
        """Look where the replicas are: the topic znode is at the target."""
        before = self.reassignment.phase
        if isinstance(before, phases.Pending) and self.now < (before.not_before or self.now):
            return self.reassignment.blocked or Blocked(BlockedBy.LOG_DIR, before.why)
        dead = [b for b in self.spec.placed_brokers if b not in self.view.cluster.brokers]
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
        named = ((b, n.request) for b, n in left.items() if n.request is not None)
        requests = tuple(effects.PlaceReplica(self.partition, b, path) for b, path in named)
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

    def _next_of(self, broker: BrokerId, phase: phases.Placing, budget: Budget) -> _Next | None:
        known, moves_to = self._named_replica(broker), dict(phase.moving).get(broker)
        if self._is_left_out(broker, known):
            return None
        unknown, here = self._unknown(broker, known), known.placed.directory
        if unknown is not None or here is None:
            return (unknown or self._being_read(broker))._replace(moves_to=moves_to)
        wanted = self.spec.directory_of(broker) or here
        if known.placed.future is not None:
            return self._follow_move(broker, known, here, wanted, moves_to)
        if wanted != here:
            return self._move(broker, known, wanted, moves_to, budget)
        if broker in self.spec.unplaced and not known.is_stopped:
            return self._stop(broker, known, here, None)
        return None

    def _is_left_out(self, broker: BrokerId, known: NamedReplica) -> bool:
        """Return whether nothing depends on where a replica is."""
        if broker not in self.view.cluster.brokers:
            # A dead broker does not delay a rollback: it may never return.
            return self.spec.rolls_back
        is_named = self.spec.directory_of(broker) is not None
        is_silent = self._silence_of(broker) is not None
        return not is_named and not is_silent and known.is_missing

    def _unknown(self, broker: BrokerId, known: NamedReplica) -> _Next | None:
        """Return why it is not known where a replica is, or what became of the last request."""
        silence = self._silence_of(broker)
        if broker not in self.view.cluster.brokers:
            return _Next(self._waits(broker, f"broker {broker} is not live"))
        if silence is not None:
            return _Next(self._waits(broker, f"broker {broker} reports no directories: {silence}"))
        if known.is_missing:
            why = f"broker {broker} reports no replica: its log directory may be offline"
            return _Next(self._waits(broker, why))
        pending = None if known.report is None else _pending(broker, known)
        if pending is not None:
            return _Next(pending, is_soon=True)
        return None if known.is_up_to_date else self._being_read(broker)

    def _silence_of(self, broker: BrokerId) -> str | None:
        silence = self.view.disks.silence_of(broker, self.view.registration_of(broker))
        return None if silence is None else silence.why

    def _being_read(self, broker: BrokerId) -> _Next:
        why = f"the log directories of broker {broker} are being read"
        return _Next(self._waits(broker, why), is_soon=True)

    def _waits(self, broker: BrokerId, why: str) -> Blocked:
        named = self.spec.directory_of(broker)
        to = "" if named is None else f" (its replica is to be in {named})"
        return Blocked(BlockedBy.LOG_DIR, f"{why}{to}")

    def _follow_move(
        self, broker: BrokerId, known: NamedReplica, here: str, wanted: str, moves_to: str | None
    ) -> _Next:
        """Let a move continue that leads to the right directory; stop any other."""
        if disk_space.has_no_room(self.view, broker, self.partition):
            return self._stop(broker, known, here, None)
        if known.placed.future != wanted or known.is_stalled(self.now):
            return self._stop(broker, known, here, moves_to if moves_to == wanted else None)
        size = self.view.disks_process.sizes.get(self.partition)
        share = f" ({min(100, 100 * known.placed.future_size // size)}%)" if size else ""
        detail = f"broker {broker} moves its replica to {wanted}{share}"
        return _Next(Blocked(BlockedBy.LOG_DIR, detail, is_copying=True), wanted)

    def _stop(
        self, broker: BrokerId, known: NamedReplica, here: str, moves_to: str | None
    ) -> _Next:
        """Request the present directory, which ends a move; another one begins after that."""
        refusal = _refusal(broker, known, here, self.now)
        if refusal is not None:
            return _Next(refusal, moves_to, is_soon=True)
        return _Next(_acknowledgement_hold(broker, here), moves_to, here)

    def _move(
        self,
        broker: BrokerId,
        known: NamedReplica,
        wanted: str,
        moves_to: str | None,
        budget: Budget,
    ) -> _Next:
        """Request a directory to which nothing moves yet, or return what that waits for."""
        answer = known.answer
        refusal = _refusal(broker, known, wanted, self.now)
        if refusal is not None and answer is not None:
            # Without an answer, the broker may have begun.
            kept = moves_to if answer.is_lost and answer.directory == moves_to else None
            return _Next(refusal, kept, is_soon=answer.is_lost)
        if directories_of(self.view, broker) is None or moves_to not in {None, wanted}:
            return self._being_read(broker)
        blocked = self._move_gate(broker, wanted, budget, is_moving=moves_to == wanted)
        if blocked is not None:
            return _Next(blocked)
        return _Next(_acknowledgement_hold(broker, wanted), wanted, wanted)

    def _move_gate(
        self, broker: BrokerId, directory: str, budget: Budget, *, is_moving: bool
    ) -> Blocked | None:
        """Return what keeps a broker from beginning to move its replica."""
        known = directories_of(self.view, broker) or {}
        if known.get(directory) is not False:
            what = "is offline" if directory in known else "does not exist"
            detail = f"log directory {directory} of broker {broker} {what}"
            return Blocked(BlockedBy.LOG_DIR, detail)
        blocked = move_throttle_gate(self.view, broker, self.spec)
        if blocked is None and not is_moving:
            blocked = budget.move_gate(self.partition, self.reassignment, broker)
        return blocked


def _acknowledgement_hold(broker: BrokerId, directory: str) -> Blocked:
    detail = f"broker {broker} has not acknowledged the log directory {directory} yet"
    return Blocked(BlockedBy.LOG_DIR, detail)


def _pending(broker: BrokerId, known: NamedReplica) -> Blocked | None:
    return None if known.request is None else _acknowledgement_hold(broker, known.request.directory)


def _refusal(broker: BrokerId, known: NamedReplica, directory: str, now: Instant) -> Blocked | None:
    """Block for a while after a directory was refused, or the answer about it was lost."""
    answer = known.answer
    if answer is None or answer.directory != directory or answer.why is None:
        return None
    detail = f"broker {broker}, {directory}: {answer.why}"
    return Blocked(BlockedBy.LOG_DIR, detail) if now < answer.at + RETRY_S else None
