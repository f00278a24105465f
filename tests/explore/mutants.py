"""
Defects written by hand: each changes one rule of the protocol in the production code.

A mutant replaces a text in a module. The functions that differ get the code of the changed module,
in place, so that every importer runs them; leaving the context restores them. ``findings`` are the
repairs of defects that were once in the code, taken back.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Final, NamedTuple

from tests.explore.search import explore, readable, stuck
from tests.explore.shapes import shape_named


class Mutant(NamedTuple):
    """One changed rule."""

    name: str
    module: str
    old: str
    new: str
    shapes: tuple[str, ...] = ()
    """The shapes that show it, the quickest first; none means those of ``DEFAULT``."""


REASSIGNMENTS: Final = "controller.core.reassignments"
LEADERSHIP: Final = "controller.core.leadership"
NATIVE: Final = f"{REASSIGNMENTS}.native"
DELEGATED: Final = f"{REASSIGNMENTS}.delegated"
STEP: Final = f"{REASSIGNMENTS}.step_start"
CONTEXT: Final = f"{REASSIGNMENTS}.partition_context"
GATES: Final = f"{REASSIGNMENTS}.gates"
ISR_CHANGES: Final = f"{LEADERSHIP}.isr_changes"
ORPHANS: Final = f"{REASSIGNMENTS}.orphans"
RESPONSES: Final = f"{LEADERSHIP}.fold"
DUTIES: Final = f"{LEADERSHIP}.duties"
DELETIONS: Final = "controller.core.deletions"
OUTBOX: Final = "controller.reactor.outbox"

DRAINED: Final = "controller.core.pacing.drained_replicas"
DRAINS: Final = "controller.core.requests.drains"

JOINS_LATE: Final = "an excluded replica joins late, news late"

MUTANTS: Final = (
    # drains
    Mutant(
        "let reassignments reach drained brokers",
        DRAINED,
        "return running.spec.target",
        "return running.spec.original",
        ("drain of the added broker",),
    ),
    Mutant(
        "give no partition on a drained broker a target",
        DRAINS,
        "for entry in DrainTargets(view).entries():",
        "for entry in ():",
        ("drain of the added broker",),
    ),
    Mutant(
        "drain only what is being reassigned",
        DRAINED,
        "for partition in (*view.topics.partitions(), *view.reassignments.by_partition):",
        "for partition in view.reassignments.by_partition:",
        ("drain of the added broker",),
    ),
    # deletions
    Mutant(
        "delete without acknowledgement",
        NATIVE,
        "if self.view.leadership.is_acknowledged(self.partition) and present >= epoch:",
        "if True:",
    ),
    Mutant(
        "delete by an ISR that the leader changed since",
        NATIVE,
        "return replace(change, records=(relied, *change.records))",
        "return change",
        (JOINS_LATE,),
    ),
    Mutant(
        "delete while a last fetch may be handled",
        NATIVE,
        "may_join = leaders_write_isr(self.view) and not phase.is_led_anew",
        "may_join = False",
        (JOINS_LATE,),
    ),
    Mutant(
        "leave an excluded replica in the ISR",
        f"{LEADERSHIP}.leader_selection",
        " and r not in excluded)",
        ")",
        (JOINS_LATE,),
    ),
    Mutant(
        "take any acknowledgement of the tenure",
        f"{LEADERSHIP}.model",
        "return state is not None and self.acked.get(partition) == "
        "(state.leader, state.leader_epoch)",
        "return state is not None and partition in self.acked",
        ("move",),
    ),
    Mutant(
        "await no deletion",
        NATIVE,
        "waiting=live,",
        "waiting=frozenset(),",
    ),
    Mutant(
        "forget the orphans",
        NATIVE,
        "orphans = self.orphans(given_up)",
        "orphans = self.orphans(frozenset())",
        ("move, broker 1 dies", "move, broker 3 dies", "move, broker 2 dies"),
    ),
    Mutant(
        "record only orphans of dead brokers",
        NATIVE,
        "orphans = self.orphans(given_up)",
        "orphans = self.orphans(phase.given_up)",
        ("move, broker 1 hangs",),
    ),
    Mutant(
        "end the record of an orphan before its deletion",
        ORPHANS,
        "            if _is_obsolete(view, orphan):",
        "            if True:",
        ("move, broker 1 dies", "move, broker 3 dies", "move, broker 2 dies"),
    ),
    # the ISR and the leader
    Mutant(
        "drop before the target is in sync",
        NATIVE,
        """        blocked = self.in_sync_gate(target)
        if blocked is not None:
            return blocked
        if self.assignment.removing_replicas:""",
        """        if self.assignment.removing_replicas:""",
    ),
    Mutant(
        "give up a copy for a tolerated replica",
        CONTEXT,
        "copies = min(len(original) - lacking, len(target))",
        "copies = min(len(original), len(target)) - lacking",
        ("RF 3 to 2, a tolerated follower lags",),
    ),
    Mutant(
        "complete a step before it is in sync",
        GATES,
        "    if not awaited:\n        return None\n    assignment",
        "    if awaited or not awaited:\n        return None\n    assignment",
    ),
    Mutant(
        "name the dropped replicas to the leader",
        "controller.core.view",
        "            return assignment.target_replicas\n        return assignment.replicas",
        "            return assignment.replicas\n        return assignment.replicas",
    ),
    Mutant(
        "add all replicas at once",
        f"{REASSIGNMENTS}.steps",
        "adding = missing[:step_size]",
        "adding = missing",
        ("swap",),
    ),
    Mutant(
        "write a state without a rise",
        f"{LEADERSHIP}.leader_selection",
        "leader_epoch=model.LeaderEpoch(state.leader_epoch + 1),",
        "leader_epoch=state.leader_epoch,",
    ),
    Mutant(
        "raise the leader epoch by two",
        f"{LEADERSHIP}.leader_selection",
        "leader_epoch=model.LeaderEpoch(state.leader_epoch + 1),",
        "leader_epoch=model.LeaderEpoch(state.leader_epoch + 2),",
    ),
    Mutant(
        "write a state whatever its version",
        f"{LEADERSHIP}.leader_selection",
        "expected_version=state.version,",
        "expected_version=model.ZkVersion(-1),",
        ("move, a follower lags", "move, late"),
    ),
    Mutant(
        "write a state with the controller epoch of its last writer",
        f"{LEADERSHIP}.leader_selection",
        "controller_epoch=view.tenure.held.epoch,",
        "controller_epoch=state.controller_epoch,",
    ),
    Mutant(
        "elect uncleanly",
        DUTIES,
        "unclean=leader_selection.is_unclean_requested(view, partition)",
        "unclean=True or leader_selection.is_unclean_requested(view, partition)",
        ("RF 1 moves, broker 1 dies",),
    ),
    Mutant(
        "empty the ISR of a partition without a leader",
        DUTIES,
        "return _write(view, partition, state, model.NO_LEADER, state.isr)",
        "return _write(view, partition, state, model.NO_LEADER, ())",
        ("RF 1 moves, broker 1 dies",),
    ),
    Mutant(
        "keep dead brokers in the ISR",
        DUTIES,
        "[r for r in state.isr if r == leader or (stays(r, partition) and r not in bounced)]",
        "state.isr",
        ("move, broker 2 loses its log", "move, broker 1 loses its log"),
    ),
    Mutant(
        "elect no leader for a dead one",
        DUTIES,
        "    if not view.is_live(state.leader, partition) or state.leader in bounced:\n",
        "    if False:\n",
        ("move, broker 1 dies",),
    ),
    Mutant(
        "let a restarted leader lead on",
        DUTIES,
        "    if not view.is_live(state.leader, partition) or state.leader in bounced:\n",
        "    if not view.is_live(state.leader, partition):\n",
        ("move, broker 1 loses its log", "move, broker 2 loses its log"),
    ),
    Mutant(
        "elect a restarted broker",
        DUTIES,
        "lambda r: view.is_staying(r, partition) and r not in bounced,",
        "lambda r: view.is_staying(r, partition),",
        ("move, broker 1 loses its log", "move, broker 2 loses its log"),
    ),
    Mutant(
        "raise no epoch for a replica that restarted",
        DUTIES,
        """        or _may_lack_a_log(view, partition, state)
        or may_have_requested_before(view, partition, state)""",
        "",
        ("RF 1 moves, late write of a lost log",),
    ),
    Mutant(
        "elect a leader outside the ISR",
        f"{LEADERSHIP}.leader_selection",
        "        if replica in isr and is_live(replica):",
        "        if is_live(replica):",
        ("RF 1 moves, broker 1 dies",),
    ),
    Mutant(
        "elect a dead leader",
        f"{LEADERSHIP}.leader_selection",
        "        if replica in isr and is_live(replica):",
        "        if replica in isr:",
        ("move, broker 1 dies",),
    ),
    # responses
    Mutant(
        "take the answer to a former epoch",
        RESPONSES,
        "        if state.leader == event.broker and state.leader_epoch == epoch:\n"
        "            leadership.acked[partition] = (event.broker, epoch)",
        "        if state.leader == event.broker:\n"
        "            leadership.acked[partition] = (event.broker, state.leader_epoch)",
        ("move, late",),
    ),
    Mutant(
        "take the answer of a follower",
        RESPONSES,
        "        if state.leader == event.broker and state.leader_epoch == epoch:\n"
        "            leadership.acked[partition] = (event.broker, epoch)",
        "        if state.leader_epoch == epoch:\n"
        "            leadership.acked[partition] = (state.leader, epoch)",
        ("move, late",),
    ),
    Mutant(
        "acknowledge nothing",
        RESPONSES,
        "            leadership.acked[partition] = (event.broker, epoch)",
        "            pass",
    ),
    # requests
    Mutant(
        "announce no live brokers",
        OUTBOX,
        "if batch.live_brokers and (batch.leader_and_isr or not batch.metadata):",
        "if False:",
        ("move",),
    ),
    Mutant(
        "send LeaderAndIsr of the step before",
        OUTBOX,
        "leader_epoch=state.leader_epoch,\n        isr=state.isr,",
        "leader_epoch=model.LeaderEpoch(state.leader_epoch - 1),\n        isr=state.isr,",
    ),
    Mutant(
        "send a leader epoch that is not written",
        OUTBOX,
        "leader_epoch=state.leader_epoch,\n        isr=state.isr,",
        "leader_epoch=model.LeaderEpoch(state.leader_epoch + 1),\n        isr=state.isr,",
    ),
    Mutant(
        "call members of the ISR new",
        OUTBOX,
        "    if broker not in state.isr:\n        return is_added or",
        "    if True:\n        return True or",
    ),
    Mutant(
        "drop what is queued for a busy broker",
        OUTBOX,
        "            if queue.busy:\n                continue",
        "            if queue.busy:\n                queue.batches.clear()\n"
        "                continue",
    ),
    # writes
    Mutant(
        "take rejected writes for durable",
        "controller.reactor.commits",
        "results = [outcome.get(id(b), ports.Committed()) for b in group]",
        "results = [ports.Committed() for b in group]",
        ("move, daemon dies or breaks",),
    ),
    Mutant(
        "read no state after a rejected write",
        "controller.core.role.invalidation",
        "following.append(effects.ReadStates(tuple(states), effects.ReadPurpose.CONFLICT))",
        "pass",
        ("move, the leader dies unannounced",),
    ),
    Mutant(
        "retry no refused write",
        "controller.core.role.invalidation",
        "    view.due.add(partitions)\n    wakeups.wake(view.due, wakeups.Trigger.WRITES_RETRIED)",
        "    pass",
        ("move, daemon dies or breaks",),
    ),
    Mutant(
        "expect the version before one's own write",
        f"{LEADERSHIP}.fold",
        "version=model.ZkVersion(record.expected_version + 1),",
        "version=record.expected_version,",
        ("move, daemon dies or breaks",),
    ),
    # the begin and the end of a reassignment
    Mutant(
        "end the record and leave the topic znode",
        NATIVE,
        "        if target == self.spec.target:\n"
        "            written = () if self.assignment == plain else "
        "(AssignmentRecord(self.partition, plain),)",
        "        if target == self.spec.target:\n"
        "            written = (AssignmentRecord(self.partition, self.assignment),)",
    ),
    Mutant(
        "end with another order and the former leader",
        NATIVE,
        "        leader = self.awaited_leader\n        if leader is None:",
        "        leader = self.awaited_leader\n        if leader or not leader:",
        ("leadership moves",),
    ),
    Mutant(
        "end after the first step",
        NATIVE,
        "        if target == self.spec.target:\n            written = ()",
        "        if True:\n            written = ()",
        ("swap",),
    ),
    Mutant(
        "resume a step as if nothing were unknown",
        NATIVE,
        'return self.shrink("found in sync", budget)',
        "return self.change(self.phase(phases.Shrinking(self.state.leader_epoch, "
        'self.assignment.removing_replicas), "found in sync"))',
        ("move, daemon dies or breaks",),
    ),
    Mutant(
        "end no request",
        "controller.core.requests.completion",
        "if request.open or request.has_ended or not (request.total or request.parts):",
        "if True:",
    ),
    # another target
    Mutant(
        "forget the added replica that another target does not want",
        STEP,
        "        return self._start(assignment, leader, (), cause, budget)",
        "        return self._start(\n            PartitionAssignment(assignment.target_replicas),"
        " leader, (), cause, budget\n        )",
        ("another target at any instant",),
    ),
    # what the delegated engine asks of Kafka's controller
    Mutant(
        "end a reassignment while a request is in doubt",
        DELEGATED,
        "            return self.take_back(budget)\n"
        "        return self.answer_gate() or self.change(\n"
        "            self.phase(phases.Ended(), cause),",
        "            pass\n        return self.answer_gate() or self.change(\n"
        "            self.phase(phases.Ended(), cause),",
        ("delegated cancel, late request",),
    ),
    Mutant(
        "forget that a request was not answered",
        f"{REASSIGNMENTS}.fold",
        "            reassignment.in_doubt = True\n        if reassignment.is_requested",
        "            pass\n        if reassignment.is_requested",
        ("delegated cancel, late request",),
    ),
    Mutant(
        "end a delegated reassignment after any step",
        DELEGATED,
        "        if self.assignment.replicas == self.spec.target:\n"
        "            if self.spec.has_directories:\n                return self.change(",
        "        if True:\n"
        "            if self.spec.has_directories:\n                return self.change(",
        ("delegated move",),
    ),
    # topics that are deleted and created again
    Mutant(
        "drive the reassignment of a former topic",
        "controller.core.view",
        "        return topic.czxid > reassignment.spec.topic_czxid",
        "        return False",
        ("topic replaced, a fault",),
    ),
    Mutant(
        "delete the znodes of a topic before its logs",
        f"{DELETIONS}.topic_deletions",
        "            if not awaited and not deletion.informing:",
        "            if True:",
        ("topic created again",),
    ),
    Mutant(
        "delete a topic that is newer than its marker",
        f"{DELETIONS}.model",
        "self.marker.czxid < self.czxid",
        "self.marker is None",
        ("topic created again",),
    ),
    Mutant(
        "delete a topic whose replicas move",
        f"{DELETIONS}.topic_deletions",
        "    if not moving:\n        return None",
        "    if moving or not moving:\n        return None",
        ("topic created again",),
    ),
    Mutant(
        "leave the marker of a deleted topic",
        "controller.reactor.znode_operations",
        "        *settings,\n        ports.Delete(paths.deletion_path(topic), None),\n",
        "        *settings,\n",
        ("topic created again",),
    ),
    # the end of a tenure
    Mutant(
        "give the role back while a repair awaits a read",
        "controller.core.role.claims_and_resignations",
        "    if view.is_native and _is_repair_awaited(view):\n",
        "    if False:\n",
        ("nothing to move, an ISR read late and the leader's log lost",),
    ),
    # what leaders ask for
    Mutant(
        "take a request of a former leader epoch",
        ISR_CHANGES,
        "if change.leader_epoch < state.leader_epoch or request.broker != state.leader:",
        "if request.broker != state.leader:",
        ("RF 1 to 2, ISR asked, log lost", "move, ISR asked, log lost"),
    ),
    Mutant(
        "admit a replica whose broker is dead",
        ISR_CHANGES,
        "return is_staying and broker in view.serving_replicas(partition)",
        "return broker in view.serving_replicas(partition)",
        ("RF 1 to 2, ISR asked with ids, log lost", "RF 1 to 2, ISR asked, log lost"),
    ),
    Mutant(
        "take a request of a former state",
        ISR_CHANGES,
        "    if change.partition_epoch < state.version:\n",
        "    if False:\n",
        ("order alone, ISR asked with ids, lags and log lost",),
    ),
    Mutant(
        "confirm an ISR that is not written",
        ISR_CHANGES,
        "if set(change.isr) == set(state.isr) and recovery",
        "if set(change.isr) >= set(state.isr) and recovery",
        ("move, ISR asked", "RF 1 to 2, ISR asked with ids, log lost"),
    ),
    Mutant(
        "answer a request of a former leader epoch as confirmed",
        ISR_CHANGES,
        "        return kafka_errors.FENCED_LEADER_EPOCH",
        "        return kafka_errors.NONE",
        ("RF 1 to 2, ISR asked with ids, log lost", "RF 1 to 2, ISR asked, log lost"),
    ),
    Mutant(
        "fence what a leader asks for",
        ISR_CHANGES,
        "if change.leader_epoch < state.leader_epoch or request.broker != state.leader:",
        "if change.leader_epoch <= state.leader_epoch or request.broker != state.leader:",
        ("move, ISR asked with ids",),
    ),
    Mutant(
        "expect the version before an ISR that was written",
        f"{LEADERSHIP}.fold",
        "                version=model.ZkVersion(before.version + 1),\n            )\n"
        "            _state_written(view, partition, written, now)\n            dead",
        "                version=before.version,\n            )\n"
        "            _state_written(view, partition, written, now)\n            dead",
        ("move, ISR asked",),
    ),
    # a queue of several entries
    Mutant(
        "send a request whose preconditions changed",
        "controller.reactor.alter_queue",
        "if preconditions is None or preconditions != preconditions_of(view, partition)",
        "if preconditions is None and preconditions is not None",
        ("delegated RF 1 moves, topic replaced while requests wait",),
    ),
)
EQUIVALENT: Final = (
    # Each registration that is read is compared with the state, which then has or is read: where
    # no controller wrote it since, the broker counts as restarted (``role.fold._note_untreated``).
    # A deletion relies on the state as well.
    Mutant(
        "forget restarts while a partition cannot be judged",
        "controller.core.cycle",
        "    _keep_bounces(view, due)",
        "    pass",
        ("RF 3 to 2, topic rewritten, leader's log lost",),
    ),
    # The next cycle finds an excluded replica in the ISR and excludes it: nothing is deleted before
    # the leader acknowledged that (``leader_selection.without_strangers``).
    Mutant(
        "keep the dropped replicas in the ISR",
        NATIVE,
        "isr = tuple(r for r in self.state.isr if r in target)",
        "isr = self.state.isr",
        ("jump",),
    ),
    Mutant(
        "keep the dropped replicas in the ISR at the start",
        STEP,
        "isr = tuple(r for r in self.state.isr if r not in assignment.removing_replicas)",
        "isr = self.state.isr",
        ("swap",),
    ),
    # A leader epoch has one leader, and whoever asks under another name is of a former epoch.
    Mutant(
        "take a request of a broker that does not lead",
        ISR_CHANGES,
        "if change.leader_epoch < state.leader_epoch or request.broker != state.leader:",
        "if change.leader_epoch < state.leader_epoch:",
        ("RF 1 to 2, ISR asked, log lost", "move, ISR asked, log lost"),
    ),
    # The leader epoch of a drop names the remaining replicas: later requests name no other, and
    # earlier ones are of a former epoch.
    Mutant(
        "admit a replica that leaves",
        ISR_CHANGES,
        "return is_staying and broker in view.serving_replicas(partition)",
        "return is_staying",
        ("move, ISR asked with ids", "move, ISR asked, log lost"),
    ),
    # The cycle that reads a registration raises the leader epoch, before requests are judged; where
    # ZooKeeper refuses that, ``may_have_requested_before`` keeps them waiting.
    Mutant(
        "take a request of a former registration",
        "controller.core.calls.broker_calls",
        "    if broker is None or broker.epoch != request.broker_epoch:\n",
        "    if broker is None:\n",
        ("RF 1 to 2, ISR asked, log lost", "RF 1 to 2, ISR asked with ids, log lost"),
    ),
    # The end of a step is read from the topic znode, and from nothing else: what is taken for
    # carried out too early is requested again.
    Mutant(
        "take the acceptance of a request for its effect",
        DELEGATED,
        "        if self.now < phase.since + phases.SEEN_S:\n            waits",
        "        if self.now < phase.since:\n            waits",
        ("delegated move, late request", "delegated cancel, late request"),
    ),
    # The phase waits for the answer of its request. Another phase was reached because the topic
    # znode shows the step, and the controller carries requests out in their order.
    Mutant(
        "send a second request before the answer to the first",
        DELEGATED,
        "        return UNANSWERED if self.reassignment.is_requested else None",
        "        return None",
        ("delegated move, late request", "delegated cancel, late request"),
    ),
    # Whatever step the topic znode shows is judged again in the next phase, and corrected there.
    Mutant(
        "take a step of a former request for that of the present one",
        DELEGATED,
        "            if assignment.target_replicas == phase.target:\n",
        "            if True:\n",
        ("delegated move, late request", "delegated cancel, late request"),
    ),
)
"""Changes that no history shows, as another rule holds what this one does, with that rule."""
FINDINGS: Final = (
    Mutant(
        "forget a topic that a late list lacks",
        "controller.core.topics.fold",
        "    view.due.overtaken_topics |= topics.missing\n",
        "    topics.listed = event.topics\n"
        "    for name in topics.missing:\n        deletion_fold.forget_topic(view, name)\n",
        ("topic created again, late lists",),
    ),
    Mutant(
        "a restart that the ISR shows after a rejected write",
        f"{LEADERSHIP}.fold",
        "        note_untreated(view, partition, read)\n\n\ndef _record_read",
        "        if is_first:\n            note_untreated(view, partition, read)\n\n\n"
        "def _record_read",
        ("RF 1 moves, broker 2 loses its log",),
    ),
    Mutant(
        "a request of a leader that is older than the restart of a replica",
        DUTIES,
        "        or may_have_requested_before(view, partition, state)\n    ):",
        "    ):",
        ("leadership moves, lags, late write of a lost log",),
    ),
    Mutant(
        "claim the role every ten minutes for an orphan that cannot be deleted",
        "controller.core.role.tenure_reset",
        "min(2 * reassignments.orphans_retry_s, ORPHAN_RETRY_MOST_S)",
        "min(2 * reassignments.orphans_retry_s, 600.0)",
        ("move, broker 1 hangs",),
    ),
)
DEFAULT: Final = ("move", "swap", "RF 1 to 2")


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Run with a mutant; raises ``LookupError`` if its text is not found exactly once."""
    module = importlib.import_module(mutant.module)
    source = inspect.getsource(module)
    if source.count(mutant.old) != 1:
        raise LookupError(f"{mutant.name}: {source.count(mutant.old)} times in {mutant.module}")
    changed = ModuleType(module.__name__)
    changed.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    code = compile(source.replace(mutant.old, mutant.new), str(module.__file__), "exec")
    exec(code, changed.__dict__)  # noqa: S102 - the project's own code, one text changed
    kept: list[tuple[FunctionType, CodeType]] = []
    for original, other in _pairs(module.__dict__, changed.__dict__, module.__name__):
        if _differ(original.__code__, other.__code__):
            kept.append((original, original.__code__))
            original.__code__ = other.__code__
    if not kept:
        raise LookupError(f"{mutant.name} changes nothing")
    try:
        yield
    finally:
        for function, code in kept:
            function.__code__ = code


def _differ(one: CodeType, other: CodeType) -> bool:
    """Return whether two functions do something else; line numbers do not matter."""
    return (
        one.co_code != other.co_code
        or any(
            _differ(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else a != b
            for a, b in zip(one.co_consts, other.co_consts, strict=False)
        )
        or len(one.co_consts) != len(other.co_consts)
        or one.co_names != other.co_names
    )


def _pairs(
    one: dict[str, object], other: dict[str, object], module: str
) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Yield the functions and methods of a module with those of its changed copy."""
    for name, value in one.items():
        changed = other.get(name)
        if isinstance(value, FunctionType) and isinstance(changed, FunctionType):
            if value.__module__ == module:
                yield value, changed
        elif isinstance(value, type) and isinstance(changed, type) and value.__module__ == module:
            for attribute, member in vars(value).items():
                twin = vars(changed).get(attribute)
                if isinstance(member, property) and isinstance(twin, property):
                    member, twin = member.fget, twin.fget  # noqa: PLW2901 - what it calls
                if isinstance(member, FunctionType) and isinstance(twin, FunctionType):
                    yield member, twin


class Showing(NamedTuple):
    """How a mutant shows."""

    shape: str | None = None
    law: str | None = None
    """What is broken; None: nothing was found."""
    steps: int = 0
    """The length of the shortest history."""
    seconds: float = 0.0
    is_complete: bool = False
    """Whether its shapes were explored to the end."""

    @property
    def not_found(self) -> str:
        """What to say where nothing is broken."""
        return f"NOT FOUND, {'to the end' if self.is_complete else 'within the limit'}"


def shown_by(mutant: Mutant, seconds: float = 60.0) -> Showing:
    """
    Return how a mutant shows.

    Args:
        mutant: The changed rule.
        seconds: The most for each shape.

    """
    spent, is_complete = 0.0, True
    with applied(mutant):
        for name in mutant.shapes or DEFAULT:
            result = explore(shape_named(name), seconds=seconds)
            spent += result.seconds
            if result.violation is not None:
                steps = len(result.history(result.at))
                return Showing(name, readable(result.violation.splitlines()[0]), steps, spent)
            is_complete &= result.is_complete
            lost = stuck(result) if result.is_complete else []
            if lost:
                steps = len(result.history(lost[0]))
                return Showing(name, "the plan does not end", steps, spent)
    return Showing(seconds=spent, is_complete=is_complete)
