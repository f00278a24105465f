"""
The one loop that owns all state.

A turn: drain the inbox, fold the events into the view, decide, commit the records as few fenced
multis, apply them, send the effects as one request per broker. What became due by its own writes is
decided in the same call, until nothing is left to do or the turn has lasted long enough for the
inbox to be looked at again. No other thread touches the view.

Errors carry their verdict (``errors.verdict_of``). A fence that did not hold ends the tenure at
once: channels are closed before anything else happens, and nothing that was queued is sent.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Final, assert_never

from controller.core.apply import apply, issued, versions_moved
from controller.core.decide import decide
from controller.core.effects import (
    AlterReassignment,
    BeginTenure,
    ClaimController,
    CloseChannel,
    DescribeTopicConfigs,
    Effect,
    ElectPreferred,
    MeasureSizes,
    OpenChannel,
    ProbeReassignments,
    ReadAccepted,
    ReadEntityConfigs,
    ReadPurpose,
    ReadStates,
    ReadSubmissions,
    ReadTopics,
    ResignController,
    SendLeaderAndIsr,
    SendLiveBrokers,
    SendStopReplica,
    SendUpdateMetadata,
    SetTimer,
    Stop,
)
from controller.core.events import (
    ControllerClaimed,
    Deposed,
    Event,
    LeaderAndIsrAnswered,
    LeadershipGained,
    LeadershipLost,
    OrdersWithdrawn,
    ReassignmentsAltered,
    StopReplicaAnswered,
    TimerFired,
    UpdateMetadataAnswered,
)
from controller.core.model import Instant, TopicPartition, ZkVersion
from controller.core.observe import observe
from controller.core.records import Change
from controller.core.role.doubts import invalidate
from controller.core.throttling.lease_books import leases_refused
from controller.core.view import ClusterView
from controller.errors import FencedError
from controller.reactor.batches import Batch, Batcher, changes_of, independent
from controller.reactor.boundaries import Boundaries
from controller.reactor.orders import Orders
from controller.reactor.outbox import Outbox
from controller.reactor.ports import (
    Channels,
    Clock,
    Committed,
    Observer,
    Reassignments,
    Rejected,
    Sizes,
    Store,
    TopicConfigs,
    WriteError,
    Znode,
)
from controller.reactor.rereads import (
    RaceCounts,
    reread_concerned,
    reread_own_records,
    reread_stale,
)
from controller.znodes import paths

ROUNDS_MAX = 50
"""Decisions per turn before the inbox is looked at again."""


RETRY_TIMER: Final = "refused_writes"
RETRY_S: Final = 5.0
RACES: Final = frozenset({WriteError.BAD_VERSION, WriteError.NO_NODE, WriteError.NODE_EXISTS})
"""Refusals that only say that somebody else was faster."""

CHANNEL_EFFECTS: Final = (OpenChannel, CloseChannel, SendLiveBrokers)


class Reactor:
    """Owns the view and runs turns; its host knows where events come from and how long to sleep."""

    def __init__(  # noqa: PLR0913 - the parts it is composed of, by name
        self,
        *,
        view: ClusterView,
        store: Store,
        channels: Channels,
        configs: TopicConfigs,
        clock: Clock,
        observer: Observer,
        sizes: Sizes | None = None,
        reassignments: Reassignments | None = None,
        boundaries: Boundaries | None = None,
        lease_s: float = math.inf,
    ) -> None:
        """
        Build the loop around a view.

        Args:
            view: The view to own; nobody else may change it afterwards.
            store: ZooKeeper.
            channels: The brokers.
            configs: Effective topic settings.
            clock: Monotonic time.
            observer: Sees everything.
            sizes: How large replicas are; None where nobody can tell: they stay unknown.
            reassignments: The cluster's own controller, for the engine that tells it what to move.
            boundaries: Told of every instant between two writes or sends, so that the proof of
                recovery can die exactly there.
            lease_s: How long we may stand still and still believe in our claim: the ZooKeeper
                session's timeout.

        """
        self.view = view
        self.finished = False
        self._store = store
        self._channels = channels
        self._configs = configs
        self._clock = clock
        self._observer = observer
        self._sizes = sizes
        self._orders = Orders(reassignments)
        self._boundaries = boundaries
        self._lease_s = lease_s
        self._awake_at = clock.now()
        self._inbox: deque[Event] = deque()
        self._outbox = Outbox()
        self._timers: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []
        self._refused: dict[TopicPartition, None] = {}
        """Partitions whose writes are refused for another reason than a race."""
        self._races = RaceCounts()

    # --- the host's side -----------------------------------------------------------------------

    def start(self) -> None:
        """Ask for everything that has to be known before anything can be decided."""
        for znode in Znode:
            self._store.read(znode)

    def put(self, event: Event) -> None:
        """Add an event; safe from any thread (``deque.append`` is atomic)."""
        self._inbox.append(event)

    def next_timer(self) -> Instant | None:
        """Return when the next timer is due, None when there is none."""
        while self._heap and self._timers.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def turn(self) -> None:
        """
        Work until nothing is left to do without waiting.

        Raises:
            InvariantError: a bug of ours; the process must end so that a standby takes over.

        """
        started = self._clock.now()
        self._check_lease(started)
        self._drain(started)
        for _ in range(ROUNDS_MAX):
            self._withdraw()
            if not self.view.due or self.finished:
                break
            self._round()
            if self._orders:
                # No order goes out on less than everything that is known by now.
                self._drain(self._clock.now())
            self._flush()
            self._drain(self._clock.now())
        self._flush()

    def _check_lease(self, now: Instant) -> None:
        """
        Give the claim up where we stood still for longer than it lasts without us.

        A process that was stopped between a write and a send would else wake up and send in the
        name of an epoch that is over. Brokers refuse it only if they heard of the next one.
        """
        slept, self._awake_at = now - self._awake_at, now
        if self.view.tenure is not None and slept > self._lease_s:
            self._fold(Deposed(f"the daemon stood still for {slept:.0f} s"), now)
            self._store.resign_controller()

    # --- one round -----------------------------------------------------------------------------

    def _drain(self, now: Instant) -> None:
        while self._inbox:
            self._fold(self._inbox.popleft(), now)
        due = self.next_timer()
        while due is not None and due <= now:
            _, name = heapq.heappop(self._heap)
            del self._timers[name]
            self._fold(TimerFired(name), now)
            due = self.next_timer()

    def _fold(self, event: Event, now: Instant) -> None:
        match event:
            case LeaderAndIsrAnswered() | StopReplicaAnswered() | UpdateMetadataAnswered():
                broker = self.view.brokers.get(event.broker)
                if broker is not None and broker.epoch == event.broker_epoch:
                    self._outbox.answered(event.broker)
            case ReassignmentsAltered():
                self._orders.answered()
            case Deposed():
                self._silence()
                reread_own_records(self._store)
            case LeadershipLost():
                self._silence()
                self.start()
            case LeadershipGained():
                reread_own_records(self._store)
            case ControllerClaimed():
                # What the controller before us changed last may not have been told yet.
                self._store.read(Znode.LEGACY_PLAN)
                self._store.read(Znode.PREFERRED_ELECTION)
            case TimerFired(name=name) if name == RETRY_TIMER:
                self.view.due.add(self._refused)
                self.view.due.plan = self.view.due.queue = True
                self._refused.clear()
                for path in self._races.take_stubborn():
                    reread_concerned(self._store, path)
                reread_stale(self._store, self.view)
            case _:
                pass
        observe(self.view, event, now)
        self._observer.on_event(event, self.view)

    def _withdraw(self) -> None:
        """Take back the orders that do not stand on what is known any more."""
        withdrawn = self._orders.withdraw(self.view)
        if withdrawn:
            self._fold(OrdersWithdrawn(withdrawn), self._clock.now())

    def _silence(self) -> None:
        """Nothing may reach a broker in the name of a claim that is gone."""
        self._outbox.clear()
        self._orders.clear()
        self._channels.close_all()

    def _round(self) -> None:
        now = self._clock.now()
        due = self.view.take_due()
        decision = decide(self.view, due, now)
        decided = self._clock.now()
        # Channels first: what a change sends to a broker that just joined needs its queue.
        for effect in decision.effects:
            if isinstance(effect, CHANNEL_EFFECTS):
                self._carry_out(effect, now)
        try:
            self._commit(decision.changes, now)
        except FencedError as error:
            self._fold(Deposed(str(error)), now)
            self._store.resign_controller()
            return
        committed = self._clock.now()
        for effect in decision.effects:
            if not isinstance(effect, CHANNEL_EFFECTS):
                self._carry_out(effect, now)
        self._observer.on_turn(
            decision,
            self.view,
            {
                "decide": decided - now,
                "commit": committed - decided,
                "send": self._clock.now() - committed,
            },
        )

    def _commit(self, changes: Sequence[Change], now: Instant) -> None:
        """Write what has to be durable; what is refused is split off and the rest tried again."""
        left = list(changes)
        while left:
            batches = list(Batcher(self.view).batches(left))
            cut = independent(batches)
            later, batches = changes_of(batches[cut:]), batches[:cut]
            written = [b for b in batches if b.operations]
            if self._boundaries is not None:
                self._boundaries.committing(self.view, changes_of(batches))
            results = self._store.commit([b.operations for b in written]) if written else []
            outcome = dict(zip(map(id, written), results, strict=True))
            results = [outcome.get(id(b), Committed()) for b in batches]
            if self._boundaries is not None:
                durable = zip(batches, results, strict=True)
                self._boundaries.committed(
                    self.view,
                    [c for b, r in durable if isinstance(r, Committed) for c in b.changes],
                )
            left = []
            for batch, result in zip(batches, results, strict=True):
                if isinstance(result, Rejected):
                    left += self._rejected(batch, result, now)
                else:
                    self._committed(batch, now)
            left += [change for change in later if not self._is_doubtful(change)]

    def _committed(self, batch: Batch, now: Instant) -> None:
        versions_moved(self.view, batch.topics, legacy=batch.legacy)
        self._races.written(batch.operations)
        if batch.queue and self.view.queue is not None:
            self.view.queue.version = ZkVersion(self.view.queue.version + 1)
        self.view.shards = max(self.view.shards, batch.shards)
        for change in batch.changes:
            for record in change.records:
                apply(self.view, record, now)
            self._observer.on_committed(change, self.view)
            for effect in change.effects:
                self._carry_out(effect, now)

    def _rejected(self, batch: Batch, result: Rejected, now: Instant) -> list[Change]:
        """Set aside the changes that were refused; return those that only shared their multi."""
        path = batch.operations[result.index].path
        if self._passes_over_shard(path, result.error):
            return batch.changes
        guilty = batch.owners[result.index]
        if not guilty:
            guilty = tuple(batch.changes)
        refused = {id(c) for c in guilty}
        is_race = result.error in RACES
        # Refused for another reason it is still as we know it: it will not be read again.
        if is_race and path == paths.LEGACY_PLAN and self.view.legacy is not None:
            self.view.legacy.stale = True
        if is_race and path == paths.QUEUE and self.view.queue is not None:
            self.view.queue.stale = True
        if not is_race:
            # Trying again at once would fail again: permissions, sizes.
            self._refused.update(dict.fromkeys(c.partition for c in guilty if c.partition))
            self._carry_out(SetTimer(RETRY_TIMER, Instant(now + RETRY_S)), now)
            for change in guilty:
                leases_refused(self.view, change, result.error.value, now)
        for change in guilty:
            self._observer.on_rejected(change, result.error, self.view)
            for effect in invalidate(self.view, change) if is_race else ():
                self._carry_out(effect, now)
        if is_race or result.error is WriteError.NOT_EMPTY:
            self._read_again(path, now)
        # The others are decided anew as well when what they build on is distrusted now.
        return [c for c in batch.changes if id(c) not in refused and not self._is_doubtful(c)]

    def _read_again(self, path: str, now: Instant) -> None:
        """Read what a refused write was about, unless that has not helped time and again."""
        if self._races.is_stubborn(path):
            self._carry_out(SetTimer(RETRY_TIMER, Instant(now + RETRY_S)), now)
        else:
            reread_concerned(self._store, path)

    def _passes_over_shard(self, path: str, error: WriteError) -> bool:
        """Leave out the number of a shard that exists: outside a tenure it may have been used."""
        shard = paths.parse_shard(path.rpartition("/")[2])
        if shard is None or error is not WriteError.NODE_EXISTS:
            return False
        self.view.shards = max(self.view.shards, shard.number + 1)
        return True

    def _is_doubtful(self, change: Change) -> bool:
        if change.partition is None:
            return False
        topic = self.view.topics.get(change.partition.topic)
        return topic is None or topic.stale

    # --- effects -------------------------------------------------------------------------------

    def _carry_out(  # noqa: C901, PLR0912 - one arm per effect
        self, effect: Effect, now: Instant
    ) -> None:
        issued(self.view, effect, now)
        match effect:
            case SendLeaderAndIsr(partition=partition, brokers=brokers, new=new):
                self._outbox.add_leader_and_isr(self.view, partition, brokers, new)
            case SendUpdateMetadata(partitions=partitions, brokers=to):
                self._outbox.add_update_metadata(self.view, partitions, to)
            case SendLiveBrokers():
                self._outbox.add_live_brokers()
            case SendStopReplica(partition=partition, broker=broker, leader_epoch=epoch):
                self._outbox.add_stop_replica(
                    self.view, partition, broker, epoch, delete=effect.delete
                )
            case OpenChannel(broker=live):
                self._outbox.open(live.id)
                self._channels.open(live)
            case CloseChannel(broker=broker):
                self._outbox.close(broker)
                self._channels.close(broker)
            case ReadStates(partitions=partitions, purpose=purpose):
                is_watch = purpose is ReadPurpose.WATCH
                self._store.read_states(partitions, watch=is_watch, doubts=self.view.doubts)
            case ReadTopics(topics=topics):
                self._store.read_topics(topics, doubts=self.view.doubts)
            case DescribeTopicConfigs(topics=topics):
                self._configs.describe(topics)
            case ReadSubmissions(names=names):
                self._store.read_submissions(names)
            case ReadAccepted(request=request):
                self._store.read_accepted(request)
            case ReadEntityConfigs(entities=entities):
                self._store.read_entity_configs(entities)
            case MeasureSizes(partitions=partitions):
                if self._sizes is not None:
                    self._sizes.measure(partitions)
            case AlterReassignment() | ElectPreferred() | ProbeReassignments():
                self._orders.add(self.view, effect)
            case BeginTenure():
                self._store.begin_tenure()
            case ClaimController(at_once=at_once):
                self._store.claim_controller(at_once=at_once)
            case ResignController():
                # Requests already handed over may end; nothing new goes out under this claim.
                self._outbox.clear()
                self._orders.clear()
                self._store.resign_controller()
            case SetTimer(name=name, at=at):
                # The earlier time counts: who is woken too early looks again and asks anew.
                if name not in self._timers or at < self._timers[name]:
                    self._timers[name] = at
                    heapq.heappush(self._heap, (at, name))
            case Stop():
                self.finished = True
            case _:
                assert_never(effect)

    def _flush(self) -> None:
        self._check_lease(self._clock.now())
        self._withdraw()
        if self._boundaries is not None and self._orders:
            self._boundaries.ordering()
            self._orders.send()
            self._boundaries.ordering()
        self._orders.send()
        for broker, request in self._outbox.take(self.view):
            if self._boundaries is not None:
                self._boundaries.sending(request)
            self._channels.send(broker, request)
            self._observer.on_request_sent(broker, request)
            if self._boundaries is not None:
                self._boundaries.sent(broker, request)
