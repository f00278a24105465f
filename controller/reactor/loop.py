"""
The loop that owns all state.

A cycle drains the inbox, updates the view from the events, decides, commits the records as few
fenced multis, applies them, and carries out the effects, with one request per broker. It repeats
while its own writes make more work due, up to limits on rounds and time. No other thread touches
the view.

Errors carry their verdict (``errors.verdict_of``). A failed fence ends the tenure at once: channels
are closed before anything else happens, and no queued request is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import assert_never

from controller.core import effects
from controller.core.cluster.model import LiveBroker
from controller.core.cycle import observe, record_effect, take_due
from controller.core.decide import decide
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import Instant
from controller.core.reassignments.records import (
    AlterationsWithdrawn,
    ReassignmentsAltered,
    StopReplicaAnswered,
)
from controller.core.records import Event, TimerFired
from controller.core.role import records as role
from controller.core.topics.topic_configs import forget_old_configs
from controller.core.view import ClusterView
from controller.errors import FencedError
from controller.reactor import ports
from controller.reactor.alter_queue import AlterQueue, PlacementQueue
from controller.reactor.commits import RETRY_TIMER, Commits
from controller.reactor.outbox import Outbox
from controller.reactor.reads import Reads, reread_own_records

ROUNDS_MAX = 50
"""Decisions per cycle, after which the host does its other work."""
CYCLE_S = 0.5
"""Seconds after which a cycle makes no further decision."""


class Reactor:
    """Owns the view and runs cycles; the host supplies events and sleeps in between."""

    def __init__(  # noqa: PLR0913 - the parts it is composed of, by name
        self,
        *,
        view: ClusterView,
        store: ports.Store,
        channels: ports.Channels,
        configs: ports.TopicConfigs,
        clock: ports.Clock,
        observer: ports.Observer,
        broker_settings: ports.BrokerSettings | None = None,
        log_dirs: ports.LogDirs | None = None,
        reassignments: ports.Reassignments | None = None,
        endpoint: ports.ControllerEndpoint | None = None,
        submissions: ports.Submissions | None = None,
        failpoints: ports.Failpoints | None = None,
        lease: ports.SessionLease | None = None,
        latencies: ports.Latencies | None = None,
    ) -> None:
        """
        Build the loop around a view, which nothing else may change afterwards.

        Without ``broker_settings`` it stays unknown whether brokers permit to delete topics;
        without ``log_dirs`` no entry that names a log directory is accepted. ``reassignments``
        serves the delegated engine. ``lease`` is how long the claim outlives a suspension of the
        process or silence of ZooKeeper; None: for ever. Without ``latencies`` a throttle ``auto``
        follows the signals that need no probe.
        """
        self.view = view
        self.finished = False
        self.changes = 0
        """The number of changes that the last cycle decided."""
        self._store = store
        self._channels = channels
        self._configs = configs
        self._clock = clock
        self._observer = observer
        self._broker_settings = broker_settings
        self._log_dirs = log_dirs
        self._alter_queue = AlterQueue(reassignments)
        self._placements = PlacementQueue(log_dirs)
        self._endpoint = endpoint
        self._submissions = submissions
        self._failpoints = failpoints or ports.Failpoints()
        self._lease = lease
        self._latencies = latencies
        self._awake_at = clock.now()
        self._inbox: deque[Event] = deque()
        self._outbox = Outbox()
        self._reads = Reads(store)
        self._timers: dict[str, Instant] = {}
        """When each fires; their names are few."""
        self._commits = Commits(view, store, observer, self._failpoints, self._carry_out)

    # --- the host's side -----------------------------------------------------------------------

    def start(self) -> None:
        """Request the reads that the first decision needs."""
        for znode in ports.ZnodeFamily:
            if znode is not ports.ZnodeFamily.PRODUCER_IDS:
                self._store.read(znode)

    def put(self, event: Event) -> None:
        """Add an event; safe from any thread (``deque.append`` is atomic)."""
        self._inbox.append(event)

    def wakes_at(self) -> Instant | None:
        """Return when the next cycle is due without further events; None: never."""
        if self.view.due:
            return self._clock.now()
        held_back = () if self._outbox.due is None else (self._outbox.due,)
        return min((*self._timers.values(), *held_back), default=None)

    def run_cycle(self) -> None:
        """Run rounds until nothing is left to do without waiting."""
        started = self._clock.now()
        self.changes = 0
        self._check_session(started)
        self._drain(started)
        for _ in range(ROUNDS_MAX):
            self._withdraw()
            if not self.view.due or self.finished:
                break
            try:
                self._round()
            finally:  # also after a failure: earlier multis may be written
                self._reads.send(self.view.role.read_generation)
            if self._alter_queue:
                # An alter request has to take every event so far into account.
                self._drain(self._clock.now())
            self._flush()
            now = self._clock.now()
            self._drain(now)
            if now >= started + CYCLE_S:
                break
        self._flush()

    def _check_session(self, now: Instant) -> None:
        """
        Give up the claim if the session may have expired.

        A process that was stopped between a write and a send would otherwise resume and send
        requests with an outdated controller epoch. A broker rejects them only if it has received a
        later one.
        """
        slept, self._awake_at = now - self._awake_at, now
        if self.view.tenure.held is None or self._lease is None:
            return
        if slept > self._lease.timeout_s:
            reason = f"the daemon stood still for {slept:.0f} s"
        elif now >= self._lease.ends:
            reason = f"no answer from ZooKeeper for {self._lease.timeout_s:g} s"
        else:
            return
        self._fold(role.Deposed(reason), now)
        self._store.resign_controller()

    # --- one round -----------------------------------------------------------------------------

    def _drain(self, now: Instant) -> None:
        while self._inbox:
            self._fold(self._inbox.popleft(), now)
        while self._timers:
            at, name = min((at, name) for name, at in self._timers.items())
            if at > now:
                break
            del self._timers[name]
            self._fold(TimerFired(name), now)
        forget_old_configs(self.view, now)

    def _fold(self, event: Event, now: Instant) -> None:
        match event:
            case LeaderAndIsrAnswered() | StopReplicaAnswered() | role.UpdateMetadataAnswered():
                broker = self.view.cluster.brokers.get(event.broker)
                if broker is not None and broker.epoch == event.broker_epoch:
                    self._outbox.note_answer(event.broker)
            case ReassignmentsAltered():
                self._alter_queue.note_answer()
            case role.Deposed():
                self._silence()
                reread_own_records(self._store)
            case role.LeadershipLost():
                self._silence()
                self.start()
            case role.LeadershipGained():
                reread_own_records(self._store)
            case role.ControllerClaimed():
                # The last changes of the previous controller may not have been reported yet.
                self._store.read(ports.ZnodeFamily.LEGACY_PLAN)
                self._store.read(ports.ZnodeFamily.PREFERRED_ELECTION)
                if self._endpoint is not None:
                    self._store.read(ports.ZnodeFamily.PRODUCER_IDS)
            case TimerFired(name=name) if name == RETRY_TIMER:
                self._commits.try_again()
            case _:
                pass
        observe(self.view, event, now)
        self._serve(event)
        self._observer.on_event(event, self.view)

    def _withdraw(self) -> None:
        withdrawn = self._alter_queue.withdraw(self.view)
        if withdrawn:
            self._fold(AlterationsWithdrawn(withdrawn), self._clock.now())

    def _silence(self) -> None:
        """Close channels and drop requests: the claim is lost, and nothing may be sent under it."""
        self._channels.close_all()
        self._drop_requests()

    def _serve(self, event: Event) -> None:
        """Answer brokers and clients as the controller, once a claim succeeded and stands."""
        if self._endpoint is None or not isinstance(event, role.ControllerClaimed):
            return
        if self.view.tenure.held is not None and self.view.is_native:
            self._endpoint.serve(self.view.tenure.held.epoch)

    def _drop_requests(self) -> None:
        """Drop queued requests, and refuse brokers and clients that wait for the controller."""
        self._outbox.clear()
        self._alter_queue.clear()
        self._placements.clear()
        if self._endpoint is not None:
            self._endpoint.refuse_all()
        if self._submissions is not None:
            self._submissions.forget()

    def _round(self) -> None:
        now = self._clock.now()
        due = take_due(self.view)
        decision = decide(self.view, due, now)
        decided = self._clock.now()
        self.changes += len(decision.changes)
        for effect in decision.effects:
            if _goes_first(effect):
                self._carry_out(effect, now)
        self._reads.send(self.view.role.read_generation)
        try:
            self._commits.commit(decision.changes, now)
        except FencedError as error:
            self._fold(role.Deposed(str(error)), now)
            self._store.resign_controller()
            return
        committed = self._clock.now()
        for effect in decision.effects:
            if not _goes_first(effect):
                self._carry_out(effect, now)
        self._observer.on_cycle(
            decision,
            self.view,
            {
                "decide": decided - now,
                "commit": committed - decided,
                "send": self._clock.now() - committed,
            },
        )

    # --- effects -------------------------------------------------------------------------------

    def _carry_out(  # noqa: C901, PLR0912, PLR0915 - one arm per effect
        self, effect: effects.Effect, now: Instant
    ) -> None:
        record_effect(self.view, effect, now)
        match effect:
            case effects.SendLeaderAndIsr(partition=partition, brokers=brokers, new=new):
                self._outbox.add_leader_and_isr(self.view, partition, brokers, new)
            case effects.SendUpdateMetadata(partitions=partitions, brokers=to):
                self._outbox.add_update_metadata(self.view, partitions, to)
            case effects.SendLiveBrokers():
                self._outbox.add_live_brokers()
            case effects.SendStopReplica(partition=partition, broker=broker, leader_epoch=epoch):
                self._outbox.add_stop_replica(
                    self.view, partition, broker, epoch, delete=effect.delete
                )
            case effects.OpenChannel(broker=live):
                self._outbox.open(live.id)
                self._channels.open(live)
            case effects.CloseChannel(broker=broker):
                self._outbox.close(broker)
                self._channels.close(broker)
            case effects.ReadStates() | effects.ReadTopics():
                self._reads.add(effect)
            case effects.DescribeTopicConfigs(topics=topics):
                self._configs.describe(topics, self.view.topics_process.config_request)
            case effects.DescribeBrokerSettings(brokers=brokers):
                self._describe_brokers(brokers)
            case effects.ReadTopicTrees(topics=topics):
                self._store.read_topic_trees(topics)
            case effects.ReadSubmissions(names=names):
                self._store.read_submissions(names)
            case effects.ReadAccepted(request=request):
                self._store.read_accepted(request)
            case effects.ReadEntityConfigs(entities=entities):
                self._store.read_entity_configs(entities)
            case effects.MeasureLatency(until=until, hosts=hosts):
                if self._latencies is not None:
                    self._latencies.measure(until, hosts)
            case effects.DescribeLogDirs():
                self._describe_log_dirs(effect)
            case effects.PlaceReplica():
                self._placements.add(self.view, effect)
            case (
                effects.AlterReassignment()
                | effects.ElectPreferred()
                | effects.ProbeReassignments()
            ):
                self._alter_queue.add(self.view, effect)
            case effects.BeginTenure():
                self._store.begin_tenure()
            case effects.ClaimController(at_once=at_once):
                self._store.claim_controller(at_once=at_once)
            case effects.ResignController():
                # Requests that were handed over may complete; no other is sent under this claim.
                self._drop_requests()
                self._store.resign_controller()
            case effects.SubmitReassignments():
                if self._submissions is not None:
                    self._submissions.submit(effect)
            case effects.Respond(ticket=ticket, response=response):
                self._check_session(self._clock.now())
                if self._endpoint is not None:
                    self._endpoint.respond(ticket, response)
            case effects.SetTimer(name=name, at=at):
                # The earlier time counts: a decision that is too early sets the timer again.
                if name not in self._timers or at < self._timers[name]:
                    self._timers[name] = at
            case effects.Stop():
                self.finished = True
            case _:
                assert_never(effect)

    def _describe_log_dirs(self, query: effects.DescribeLogDirs) -> None:
        live = self.view.cluster.brokers
        brokers = [live[b] for b in sorted(query.brokers) if b in live]
        if self._log_dirs is not None and brokers:
            self._log_dirs.describe(brokers, query.partitions, is_whole=query.is_whole)

    def _describe_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        if self._broker_settings is not None:
            self._broker_settings.describe_brokers(tuple(brokers))
            return
        why = "its settings are not read"
        for broker in brokers:
            self.put(role.BrokerSettingsRead(broker.id, broker.epoch, None, why))

    def _flush(self) -> None:
        now = self._clock.now()
        self._check_session(now)
        self._withdraw()
        if self._alter_queue:
            self._failpoints.altering()
            self._alter_queue.send()
            self._failpoints.altering()
        else:
            self._alter_queue.send()
        if self._placements:
            self._failpoints.placing()
            self._placements.send()
            self._failpoints.placed()
        for broker, request in self._outbox.take(self.view, now):
            self._failpoints.sending(request)
            self._check_session(self._clock.now())
            if self.view.tenure.held is None:
                break
            self._channels.send(broker, request)
            self._observer.on_request_sent(broker, request)
            self._failpoints.sent(broker, request)


def _goes_first(effect: effects.Effect) -> bool:
    """
    Return whether an effect of a decision is carried out before its changes are written.

    Channels are opened and closed first: a request to a broker that just joined needs its queue.
    Timers are set first: they do not depend on the result of the writes. Reads go first if no
    change of the same cycle writes what they read: znodes that are unknown in this tenure or
    invalidated, new requests, and topic settings. With very many changes, as after a claim, those
    reads proceed while the changes are written. Other reads may be of what is being written.
    """
    match effect:
        case (
            effects.OpenChannel()
            | effects.CloseChannel()
            | effects.SendLiveBrokers()
            | effects.SetTimer()
            | effects.ReadTopics()
            | effects.ReadSubmissions()
            | effects.DescribeTopicConfigs()
        ):
            return True
        case effects.ReadStates(purpose=purpose):
            return purpose is effects.ReadPurpose.SEED
        case _:
            return False
