"""
Replication: fetching, high watermarks, and the ISR that leaders grow and shrink.

The rules are those of Kafka's ``Partition`` with inter-broker protocols below 2.7: the leader
changes the ISR by a compare-and-set of the state znode and keeps the controller epoch and leader
epoch of its last LeaderAndIsr. A write that fails is not repeated with another version: only a
LeaderAndIsr brings one. A fetch takes one event; the leader learns the follower's new log end with
it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from controller import kafka_errors
from controller.core.model import BrokerId, LeaderEpoch, TopicPartition, ZkVersion
from controller.core.model import ControllerEpoch as Epoch
from controller.reactor.ports import SetData
from controller.znodes import paths
from controller.znodes.topics import encode_state
from tests.sim.logs import Record
from tests.sim.zookeeper import Make, SessionExpiredError, TransactionFailedError

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric
    from tests.sim.replicas import Answer, HostedReplica

FETCH_S: Final = (0.002, 0.03)
JOIN_ISR_S: Final = (0.0, 0.05)
JOIN_LATE_S: Final = (0.0, 0.01)
"""How long after the exclusion: a thread waits for a lock, and writes then."""
BATCH_RECORDS: Final = 200
"""Records one fetch copies; a new replica needs many."""


class Replication:
    """The replication of one broker, as leader of some partitions and follower of others."""

    def __init__(self, broker: SimBroker, fabric: Fabric) -> None:
        self._broker = broker
        self._fabric = fabric
        self._dirty: dict[TopicPartition, None] = {}
        """Partitions whose ISR changed since the last notification."""
        self.extra_fetch_s = 0.0
        """A fault: every fetch of this broker takes so much longer."""

    # --- followers -----------------------------------------------------------------------------

    def schedule_fetch(self, partition: TopicPartition) -> None:
        """Let a follower fetch soon, unless it is about to."""
        replica = self._broker.hosted.get(partition)
        if replica is None or not replica.is_fetching or replica.fetch_due:
            return
        replica.fetch_due = True
        incarnation = self._broker.incarnation

        def fetch() -> None:
            if incarnation == self._broker.incarnation:
                replica.fetch_due = False
                if self._broker.hosted.get(partition) is replica:
                    self._fetch(partition, replica)

        low, high = FETCH_S
        extra = self.extra_fetch_s
        if extra:
            self._fabric.strike("fetches_slow")
        self._fabric.schedule.call_between(low + extra, high + extra, fetch)

    def _fetch(self, partition: TopicPartition, replica: HostedReplica) -> None:
        """Copy from the leader; a refused fetch is scheduled again when it becomes possible."""
        if not replica.is_fetching or not replica.log.is_online:
            return
        leader = self._fabric.brokers.get(replica.leader)
        source = leader.hosted.get(partition) if leader is not None and leader.is_alive else None
        if (
            leader is None
            or source is None
            or not source.leads(leader.id)
            or not source.log.is_online
            or source.leader_epoch != replica.leader_epoch
            or self._broker.id not in source.replicas
        ):
            return
        log = replica.log
        end = log.end
        common = log.common_end(source.log)
        if common < end:
            log.truncate(common)
            end = common
            for witness in self._fabric.witnesses:
                witness.truncated(self._broker.id, partition)
        log.records += source.log.records[end : end + BATCH_RECORDS]
        if self._fabric.disks is not None and self._broker.id not in source.isr:
            self._fabric.disks.copied(self._broker, log)
        end = log.end
        log.high_watermark = max(log.high_watermark, min(source.log.high_watermark, end))
        leader.replication.follower_fetched(partition, source, self._broker.id, end)
        if end < source.log.end:
            self.schedule_fetch(partition)

    # --- leaders -------------------------------------------------------------------------------

    def begin_leading(self, partition: TopicPartition, replica: HostedReplica) -> None:
        """Start a leader epoch: what followers hold has to be learnt anew."""
        now = self._fabric.schedule.now()
        if self._fabric.joins_late and self._fabric.is_of_daemon(replica.controller_epoch):
            self._fabric.joined_late -= {(partition, follower) for follower in replica.replicas}
            for follower, end in replica.ends.items():
                if follower not in replica.replicas and end == replica.log.end:
                    self._schedule_late_join(partition, replica, follower, end)
        replica.is_fetching = False
        replica.epoch_start = replica.log.end
        replica.ends = {}
        replica.joining = set()
        replica.caught_up_at = dict.fromkeys(replica.isr, now)
        self._advance(partition, replica)
        self.wake_followers(partition, replica)

    def wake_followers(self, partition: TopicPartition, replica: HostedReplica) -> None:
        """Let the followers fetch."""
        for follower in replica.replicas:
            if follower != self._broker.id and follower in self._fabric.brokers:
                self._fabric.brokers[follower].replication.schedule_fetch(partition)

    def append(self, partition: TopicPartition, value: int, answer: Answer) -> None:
        """Append a record for a producer with acks=all."""
        replica = self._broker.hosted.get(partition)
        if replica is None or not replica.leads(self._broker.id) or not replica.log.is_online:
            answer(kafka_errors.NOT_LEADER_OR_FOLLOWER)
            return
        if len(replica.isr) < self._min_isr(partition):
            answer(kafka_errors.NOT_ENOUGH_REPLICAS)
            return
        now = self._fabric.schedule.now()
        offset = replica.log.end
        for follower, end in replica.ends.items():
            if end == offset:
                replica.caught_up_at[follower] = now
        replica.log.records.append(Record(replica.leader_epoch, value))
        replica.waiting.append((offset, answer))
        self._advance(partition, replica)
        self.wake_followers(partition, replica)

    def follower_fetched(
        self, partition: TopicPartition, replica: HostedReplica, follower: BrokerId, end: int
    ) -> None:
        """Take note of what a follower holds now."""
        replica.ends[follower] = end
        if end == replica.log.end:
            replica.caught_up_at[follower] = self._fabric.schedule.now()
        self._advance(partition, replica)
        if follower not in replica.joining and self._may_join(replica, follower):
            self._schedule_join(partition, replica, follower)

    def tick(self) -> None:
        """Do the periodic work: shrink ISRs, retry to grow them, notify the controller."""
        for partition, replica in list(self._broker.hosted.items()):
            if replica.leads(self._broker.id) and replica.log.is_online:
                self._maybe_shrink(partition, replica)
                for follower, end in replica.ends.items():
                    if (
                        follower not in replica.joining
                        and self._may_join(replica, follower)
                        and self._fetches_at(partition, follower, end)
                    ):
                        self._schedule_join(partition, replica, follower)
        self._notify_controller()

    def _advance(self, partition: TopicPartition, replica: HostedReplica) -> None:
        log, own, ends = replica.log, self._broker.id, replica.ends
        committed = len(log.records)
        for member in replica.isr if replica.wanted is None else {*replica.isr, *replica.wanted}:
            if member != own and (end := ends.get(member, -1)) < committed:
                committed = end
        if committed <= log.high_watermark:
            return
        log.high_watermark = committed
        enough = len(replica.isr) >= self._min_isr(partition)
        while replica.waiting and replica.waiting[0][0] < committed:
            offset, answer = replica.waiting.popleft()
            if enough:
                for witness in self._fabric.witnesses:
                    witness.acknowledged(partition, log, offset, replica.leader_epoch)
            answer(kafka_errors.NONE if enough else kafka_errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _may_join(self, replica: HostedReplica, follower: BrokerId) -> bool:
        """Kafka's ``isFollowerInSync``, for the replicas the controller last named."""
        end = replica.ends.get(follower, -1)
        return (
            follower in replica.replicas
            and follower not in replica.isr
            and replica.wanted is None
            and end >= replica.log.high_watermark
            and end >= replica.epoch_start
        )

    def _fetches_at(self, partition: TopicPartition, follower: BrokerId, end: int) -> bool:
        """Whether the next fetch has the last one's log end: only a fetch makes an ISR grow."""
        hosted = self._fabric.brokers[follower].hosted.get(partition)
        return hosted is not None and hosted.is_fetching and hosted.log.end == end

    def _schedule_join(
        self, partition: TopicPartition, replica: HostedReplica, follower: BrokerId
    ) -> None:
        replica.joining.add(follower)
        epoch, incarnation = replica.leader_epoch, self._broker.incarnation

        def join() -> None:
            if incarnation != self._broker.incarnation or replica.leader_epoch != epoch:
                return
            replica.joining.discard(follower)
            if (
                self._broker.hosted.get(partition) is replica
                and replica.leads(self._broker.id)
                and replica.log.is_online
                and self._may_join(replica, follower)
            ):
                self._write_isr(partition, replica, (*replica.isr, follower))

        self._fabric.schedule.call_between(*JOIN_ISR_S, join)

    def _schedule_late_join(
        self, partition: TopicPartition, replica: HostedReplica, follower: BrokerId, end: int
    ) -> None:
        """
        Add a replica that the controller excluded, by a fetch that was being handled.

        Kafka's ``Partition.maybeExpandIsr`` has looked the replica up before the lock is taken with
        which a LeaderAndIsr is applied, and does not look again.
        """
        epoch, incarnation = replica.leader_epoch, self._broker.incarnation

        def join() -> None:
            if incarnation != self._broker.incarnation or replica.leader_epoch != epoch:
                return
            is_leading = self._broker.hosted.get(partition) is replica and replica.log.is_online
            hosted = self._fabric.brokers[follower].hosted.get(partition)
            if hosted is None or not hosted.is_fetching:
                return  # It fetches no more, and its last fetch was handled.
            if is_leading and follower not in replica.isr and replica.log.high_watermark <= end:
                self._fabric.strike("excluded_joins")
                self._fabric.joined_late.add((partition, follower))
                self._write_isr(partition, replica, (*replica.isr, follower))

        self._fabric.schedule.call_between(*JOIN_LATE_S, join)

    def _maybe_shrink(self, partition: TopicPartition, replica: HostedReplica) -> None:
        now, lag = self._fabric.schedule.now(), self._fabric.replica_lag_s
        slow = {
            member
            for member in replica.isr
            if member != self._broker.id
            and replica.ends.get(member, -1) != replica.log.end
            and now - replica.caught_up_at.get(member, 0.0) > lag
        }
        if slow and replica.wanted is None:
            kept = tuple(member for member in replica.isr if member not in slow)
            self._write_isr(partition, replica, kept)

    def _write_isr(
        self, partition: TopicPartition, replica: HostedReplica, isr: tuple[BrokerId, ...]
    ) -> None:
        if self._broker.to_controller is not None:
            if self._broker.to_controller.change_isr(partition, isr):
                replica.wanted = isr
            return
        data = encode_state(
            leader=self._broker.id,
            leader_epoch=LeaderEpoch(replica.leader_epoch),
            isr=isr,
            controller_epoch=Epoch(replica.controller_epoch),
            leader_recovery_state=0,
        )
        version = ZkVersion(replica.partition_epoch)
        write = SetData(paths.state_path(partition), data, version)
        session, network = self._broker.session_id, self._fabric.network

        def send() -> None:
            try:
                self._fabric.zookeeper.transact(session, [write])
            except (TransactionFailedError, SessionExpiredError):
                return
            replica.isr = isr
            replica.partition_epoch = version + 1
            self._dirty[partition] = None
            self._advance(partition, replica)

        if self._broker.is_connected:
            send()
        elif self._broker.id in network.cut:
            network.held.append(send)
        # Kafka waits for its connection; otherwise here the next look tries again.

    def isr_settled(self, partition: TopicPartition, replica: HostedReplica) -> None:
        """Go on with an ISR that the controller wrote."""
        self._advance(partition, replica)

    def _notify_controller(self) -> None:
        """Write an ISR change notification (Kafka: ``maybePropagateIsrChanges``)."""
        if not self._dirty or not self._broker.is_connected:
            return
        listed = [{"topic": p.topic, "partition": p.partition} for p in self._dirty]
        data = json.dumps({"version": 1, "partitions": listed}).encode()
        path = f"{paths.ISR_NOTIFICATIONS}/isr_change_"
        try:
            self._fabric.zookeeper.transact(
                self._broker.session_id, [Make(path, data, sequential=True)]
            )
        except (TransactionFailedError, SessionExpiredError):
            return
        self._dirty.clear()

    def _min_isr(self, partition: TopicPartition) -> int:
        return self._fabric.config(partition.topic).min_insync_replicas
