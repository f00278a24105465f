"""
The rules about what brokers ask of their controller, and about its answers.

An ISR that a leader is sent as committed is what ZooKeeper says, at the version that it is told. A
controller writes an ISR without a new leader epoch only as the leader asked for it. No block of
producer ids is handed out twice. A broker that was promised that it leads nothing does not.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from controller.core.calls.broker_requests import (
    AlterPartitionAnswer,
    BrokerAnswer,
    ControlledShutdownAnswer,
    IsrChange,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.model import BrokerId, PartitionState, TopicAssignment, TopicPartition
from controller.znodes import paths
from tests.sim.decoded import read_state, read_topic
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric
    from tests.sim.judges import Judge


class EndpointRule(StrEnum):
    """The rules of histories in which brokers ask."""

    COMMITTED_IS_DURABLE = "a leader is told an ISR only as ZooKeeper has it at that version"
    ISR_AS_REQUESTED = "a controller writes an ISR without a new epoch only as its leader asked"
    PRODUCER_IDS_ONCE = "no producer id is handed out twice"
    NOTHING_LEFT = "a broker that was told so leads nothing that another replica could lead"


class EndpointRules:
    """The witness of all that brokers ask."""

    def __init__(self, fabric: Fabric, judge: Judge) -> None:
        self._fabric = fabric
        self._judge = judge
        self.applied: Counter[EndpointRule] = Counter()
        self._states: dict[TopicPartition, dict[int, PartitionState]] = {}
        """Every state of the present topic, by version."""
        self._names: dict[str | None, str] = {}
        """The topic of each id, also of a deleted one."""
        self._wanted: set[tuple[TopicPartition, int, int, frozenset[BrokerId]]] = set()
        """ISRs that leaders asked for, with their leader epoch and the version they replace."""
        self._blocks: dict[int, BrokerId] = {}
        """The first id of each block, and its broker."""
        fabric.endpoint_witnesses.append(self)
        fabric.zookeeper.listeners.append(self.transacted)

    def _ensure(self, condition: bool, why: str, rule: EndpointRule) -> None:  # noqa: FBT001
        self.applied[rule] += 1
        self._judge.ensure(condition, why)

    # --- ISRs ----------------------------------------------------------------------------------

    def isr_wanted(self, broker: BrokerId, partition: TopicPartition, change: IsrChange) -> None:
        """Note what a leader asks for."""
        del broker
        wanted = (partition, change.leader_epoch, change.partition_epoch, frozenset(change.isr))
        self._wanted.add(wanted)

    def transacted(self, transaction: Transaction) -> None:
        """Note the ids of topics, and every state."""
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", topic] if written.after is not None:
                    read = read_topic(written.after)
                    if isinstance(read, TopicAssignment) and read.topic_id is not None:
                        self._names[read.topic_id] = topic
                case ["brokers", "topics", topic, "partitions", number, "state"]:
                    partition = TopicPartition(topic, int(number))
                    state = None if written.after is None else read_state(written.after)
                    if not isinstance(state, PartitionState):
                        self._states.pop(partition, None)
                        continue
                    if written.before is None:
                        self._states[partition] = {}
                    self._states.setdefault(partition, {})[state.version] = state
                case _:
                    pass

    def is_as_requested(
        self, partition: TopicPartition, before: PartitionState, after: PartitionState
    ) -> bool:
        """Judge a state without a new leader epoch."""
        kept = (after.leader, after.leader_epoch, after.controller_epoch)
        if kept != (before.leader, before.leader_epoch, before.controller_epoch):
            return False
        wanted = (partition, after.leader_epoch, before.version, frozenset(after.isr))
        self._ensure(
            wanted in self._wanted,
            f"{partition}: a controller wrote {after} over {before}, which no leader asked for",
            EndpointRule.ISR_AS_REQUESTED,
        )
        return True

    def daemon_answers(
        self, session: int, request: RequestFromBroker, answer: BrokerAnswer
    ) -> None:
        """Judge what the daemon with a session is about to answer."""
        if isinstance(answer, ControlledShutdownAnswer) and not answer.error:
            self._nothing_left(session, request.broker, answer)
        if isinstance(answer, ProducerIdsAnswer) and not answer.error:
            self._handed_out(answer)
        for result in answer.results if isinstance(answer, AlterPartitionAnswer) else ():
            name = result.topic or self._names.get(result.topic_id, "")
            partition = TopicPartition(name, result.partition)
            known = self._states.get(partition, {}).get(result.partition_epoch)
            told = (result.leader, result.leader_epoch, result.isr)
            if result.error == 0:
                self._ensure(
                    known is not None and told == (known.leader, known.leader_epoch, known.isr),
                    f"{partition}: a leader is told {result}, ZooKeeper had {known}",
                    EndpointRule.COMMITTED_IS_DURABLE,
                )

    # --- producer ids --------------------------------------------------------------------------

    def _handed_out(self, answer: ProducerIdsAnswer) -> None:
        znode = self._fabric.zookeeper.get(paths.PRODUCER_IDS)
        is_new = answer.first % answer.length == 0 and answer.first not in self._blocks
        self._ensure(
            is_new and znode is not None,
            f"{answer} was handed out before",
            EndpointRule.PRODUCER_IDS_ONCE,
        )
        self._blocks[answer.first] = BrokerId(-1)

    def ids_received(self, broker: BrokerId, answer: ProducerIdsAnswer) -> None:
        """Judge that no other broker received the block, from whichever controller."""
        owner = self._blocks.get(answer.first, BrokerId(-1))
        self._ensure(
            owner == -1,
            f"brokers {owner} and {broker} received {answer}",
            EndpointRule.PRODUCER_IDS_ONCE,
        )
        self._blocks[answer.first] = broker

    # --- controlled shutdown -------------------------------------------------------------------

    def _nothing_left(
        self, session: int, broker: BrokerId, answer: ControlledShutdownAnswer
    ) -> None:
        """
        Judge that the broker leads only what is named, or what no other replica can lead.

        A step that begins in the cycle of the answer may give the partition a second replica.
        """
        self.applied[EndpointRule.NOTHING_LEFT] += 1
        controller = self._fabric.zookeeper.get(paths.CONTROLLER)
        if controller is None or controller.ephemeral_owner != session:
            return  # Another controller may have elected it again.
        deletions = self._fabric.zookeeper.children(paths.DELETIONS) or ()
        for partition, versions in self._states.items():
            state = versions[max(versions)]
            znode = self._fabric.zookeeper.get(paths.topic_path(partition.topic))
            topic = None if znode is None else read_topic(znode)
            if state.leader != broker or not isinstance(topic, TopicAssignment):
                continue
            assignment = topic.partitions.get(partition.partition)
            is_spared = assignment is None or state.isr == (broker,)
            self._ensure(
                is_spared or partition.topic in deletions or partition in answer.remaining,
                f"{partition}: broker {broker} leads, and hears {answer}: {state}",
                EndpointRule.NOTHING_LEFT,
            )
