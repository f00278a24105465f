"""
The rules about holds: the kill switch, quiesces, pauses and throttles.

A daemon hears of a change with a delay, which is longer if the daemon was paused. So a hold counts
only once it has existed for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Drains, Pauses
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    broker_entity,
    topic_entity,
)
from controller.core.requests.outcomes import Part
from controller.core.requests.submissions import RequestOptions, StepSize
from controller.core.requests.undo import UNDO_PART
from controller.znodes import paths
from controller.znodes.histories import decode_part
from controller.znodes.operator_controls import decode_limits, decode_pauses
from controller.znodes.plans import decode_submission
from controller.znodes.reassignments import decode_spec
from tests.sim.decoded import drains_of
from tests.sim.rules import Rule
from tests.sim.zookeeper import Transaction, Written

if TYPE_CHECKING:
    from controller.core.model import ReassignmentSpec
    from tests.sim.ledgers import Ledger
    from tests.sim.settings import Settings
    from tests.sim.world import World

EVERY_REPLICA: Final = "*"


class ControlRules:
    """The holds over time; judges that no step begins against them."""

    def __init__(self, world: World, ledger: Ledger, settings: Settings) -> None:
        self._world = world
        self._ledger = ledger
        self._settings = settings
        self._disabled_since: float | None = None
        self._quiesced_since: float | None = None
        self._paused_since: dict[object, float] = {}
        self._limits: set[StepSize] = set()
        """Step sizes that the limits ever contained for all requests."""
        self._turned: dict[RequestId, set[StepSize]] = {}
        """Step sizes that the limits ever contained for a request."""
        self._options: dict[RequestId, RequestOptions] = {}
        self._begun: set[TopicPartition] = set()
        """Partitions whose assignment has changed since their spec was created."""
        self._assignments: dict[TopicPartition, PartitionAssignment] = {}
        world.invariants.records.step_size_of = self._step_size_of
        # Before the ledger: a spec that a step's write deletes is still known here.
        listeners = world.zookeeper.listeners
        listeners.insert(listeners.index(world.invariants.transacted) + 1, self._transacted)

    def _transacted(self, transaction: Transaction) -> None:  # noqa: C901, PLR0912 - an arm per znode
        now = self._world.now
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["admin", "reassign_cancel"]:
                    self._disabled_since = now if written.after is not None else None
                case ["reassigner", "control", "pauses"]:
                    self._pauses_written(written)
                case ["reassigner", "control", "drains"] if written.after is not None:
                    drains = drains_of(written.after)
                    if isinstance(drains, Drains):
                        self._options[drains.request] = drains.options
                case ["reassigner", "control", "limits"] if written.after is not None:
                    self._limits_written(written.after.data)
                case ["admin", "reassignment_requests", name] if written.after is not None:
                    read = decode_submission(
                        name, written.after.data, ZkVersion(0), Zxid(0), created_ms=0
                    )
                    self._options[read.request] = read.options
                case ["reassigner", "outcomes", name, part] if written.after is not None:
                    self._part_written(RequestId(name), part, written.after.data)
                case ["brokers", "topics", topic]:
                    self._topic_written(transaction, topic, written)
                case ["admin", "reassignments", topic, number]:
                    partition = TopicPartition(topic, int(number))
                    if written.before is None:
                        self._begun.discard(partition)
                    elif written.after is not None:
                        self._spec_changed(partition, written.after.data)
                case _:
                    pass

    def _spec_changed(self, partition: TopicPartition, data: bytes) -> None:
        """Judge that a quiesce rolls back what has begun only when its deadline has passed."""
        spec = decode_spec(data, ZkVersion(0))
        if isinstance(spec, str) or spec.cancelled_by not in self._world.quiesced:
            return
        deadlines = [q.deadline_ms for q in self._world.quiesced[spec.cancelled_by]]
        now_ms = 1000 * self._world.schedule.unix_s()
        self._world.invariants.judge.ensure(
            partition not in self._begun or any(d is not None and d <= now_ms for d in deadlines),
            f"{partition}: {spec.cancelled_by} rolls it back, the deadlines are {deadlines}",
            Rule.QUIESCE_LETS_END,
        )

    def _part_written(self, request: RequestId, name: str, data: bytes) -> None:
        """Note the options with which a cancellation undoes completed reassignments."""
        if name == f"{paths.PART}{UNDO_PART}":
            read = decode_part(name, data)
            if isinstance(read, Part):
                self._options[request] = read.options

    def _limits_written(self, data: bytes) -> None:
        read = decode_limits(data)
        if isinstance(read, str):
            return
        if read.step_size is not None:
            self._limits.add(read.step_size)
        for request, limits in read.requests.items():
            if limits.step_size is not None:
                self._turned.setdefault(request, set()).add(limits.step_size)

    def _step_size_of(self, spec: ReassignmentSpec) -> int | None:
        """Return the largest step size that may apply to a spec; None: all at once."""
        options = self._options.get(spec.request)
        own = None if options is None else options.step_size
        sizes: set[StepSize] = set(self._turned.get(spec.request, ()))
        sizes |= {own} if own is not None else self._limits
        default = self._world.invariants.records.step_size
        if own is None:
            sizes.add("all" if default is None else default)
        return max((n for n in sizes if n != "all"), default=None) if "all" not in sizes else None

    def _pauses_written(self, written: Written) -> None:
        read = Pauses() if written.after is None else decode_pauses(written.after.data)
        if isinstance(read, str):
            # The daemon may keep the former pauses, or apply none.
            read = Pauses()
        held = {*read.requests, *read.brokers}
        keys: set[object] = set(held) | ({None} if read.everything is not None else set())
        since = self._paused_since
        self._paused_since = {key: since.get(key, self._world.now) for key in keys}
        if read.quiesce is None:
            self._quiesced_since = None
        elif self._quiesced_since is None:
            self._quiesced_since = self._world.now

    def _is_paused(self, session: int, key: object) -> bool:
        since = self._paused_since.get(key)
        return since is not None and self._world.invariants.had_to_hear(session, since)

    def _topic_written(self, transaction: Transaction, topic: str, written: Written) -> None:
        if written.after is None:
            for partition in [p for p in self._assignments if p.topic == topic]:
                del self._assignments[partition]
            return
        is_daemon = self._world.invariants.is_daemon(transaction.session)
        for number, new in self._world.invariants.assignments(topic).items():
            partition = TopicPartition(topic, number)
            old = self._assignments.get(partition)
            self._assignments[partition] = new
            if old is None or old == new:
                continue
            spec = self._ledger.spec(partition)
            if is_daemon and spec is not None and spec.route is not Route.FOREIGN:
                self._step_written(transaction.session, partition, spec, old, new)
                self._not_given_up(transaction, partition, old, new)
            self._begun.add(partition)

    def _step_written(
        self,
        session: int,
        partition: TopicPartition,
        spec: ReassignmentSpec,
        old: PartitionAssignment,
        new: PartitionAssignment,
    ) -> None:
        judge = self._world.invariants.judge
        begins = not old.is_reassigning and new.is_reassigning and partition not in self._begun
        for since in (self._disabled_since, self._quiesced_since):
            if since is not None and self._world.invariants.had_to_hear(session, since):
                judge.ensure(
                    not begins or spec.rolls_back,
                    f"{partition}: {spec} begins though reassignments are disabled since {since} s",
                    Rule.DISABLED_BEGINS_NOTHING,
                )
        added = [r for r in new.adding_replicas if r not in old.replicas]
        if not added:
            return
        held = [None, *added] if spec.rolls_back else [None, spec.request, *added]
        if any(self._is_paused(session, key) for key in self._paused_since):
            paused = [key for key in held if self._is_paused(session, key)]
            judge.ensure(
                not paused,
                f"{partition}: {added} are added though {paused} are paused: {new}",
                Rule.PAUSED_ADDS_NOTHING,
            )
        for broker in added:
            self._is_throttled(partition, spec, broker)

    def _not_given_up(
        self,
        transaction: Transaction,
        partition: TopicPartition,
        old: PartitionAssignment,
        new: PartitionAssignment,
    ) -> None:
        """Judge that no transaction adds replicas and replaces the spec."""
        if set(new.replicas) <= set(old.replicas):
            return
        path = paths.reassignment_path(partition)
        replaced = any(w.path == path and w.after is not None for w in transaction.written)
        self._world.invariants.judge.ensure(
            not replaced,
            f"{partition}: {new} begins in the write that replaces its spec",
            Rule.NO_STEP_GIVEN_UP,
        )

    def _is_throttled(
        self, partition: TopicPartition, spec: ReassignmentSpec, broker: BrokerId
    ) -> None:
        """Judge that a replica of a request with a throttle is throttled before it copies."""
        options = self._options.get(spec.request)
        if options is None or options.throttle is None:
            return
        topic, receiver = topic_entity(partition.topic), broker_entity(broker)
        if self._settings.is_touched(topic) or self._settings.is_touched(receiver):
            return
        listed = self._settings.values(topic).get(FOLLOWER_REPLICAS, "").split(",")
        is_live = self._world.zookeeper.get(paths.broker_path(broker)) is not None
        self._world.invariants.judge.ensure(
            (EVERY_REPLICA in listed or f"{partition.partition}:{broker}" in listed)
            and (not is_live or FOLLOWER_RATE in self._settings.values(receiver)),
            f"{partition}: broker {broker} copies for {spec.request}, which has a throttle; "
            f"listed are {listed}, the broker's settings are {self._settings.values(receiver)}",
            Rule.THROTTLED_FIRST,
        )
