"""
A broker's answers to a controller (kafka-facts 3.3): the same tests for model and Kafka.

``BrokerContract`` is a base class. A test of brokers derives from it and provides a fixture
``rig``. The rig is the controller: it holds the newest controller epoch, and it made a topic of one
partition that is led by ``ONE``, its only replica; ``TWO`` knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pytest

from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import (
    FENCED_LEADER_EPOCH,
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
)

ONE: Final = BrokerId(1)
TWO: Final = BrokerId(2)
STRANGER: Final = BrokerId(77)
"""No broker has this id."""

NO_EPOCH: Final = LeaderEpoch(-1)
DELETED_EPOCH: Final = LeaderEpoch(-2)

Answered = LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered


class BrokerRig(Protocol):
    """A controller made by hand, and brokers."""

    @property
    def epoch(self) -> ControllerEpoch:
        """The newest controller epoch any broker has heard of from the rig."""
        ...

    @epoch.setter
    def epoch(self, epoch: ControllerEpoch) -> None: ...

    @property
    def partition(self) -> TopicPartition:
        """The partition with one replica, on ``ONE``."""
        ...

    def live(self) -> tuple[LiveBroker, ...]:
        """Return the registered brokers."""
        ...

    def send(self, broker: BrokerId, request: BrokerRequest, *, former: bool = False) -> Answered:
        """Send a request, if ``former`` to the former registration of the broker; wait."""
        ...

    def state(self) -> PartitionState:
        """Return the partition's state as ZooKeeper has it."""
        ...

    def change(self, leader: BrokerId, isr: Replicas) -> PartitionState:
        """Compare and set the state, leader epoch bumped, in the name of ``epoch``."""
        ...

    def has_log(self, broker: BrokerId) -> bool:
        """Return whether the broker has a directory of the partition."""
        ...

    def write(self) -> None:
        """Have ``ONE`` append a record to the partition it leads, waiting for no follower."""
        ...

    def notified(self) -> bool:
        """Return whether an ISR change notification names the partition."""
        ...

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        ...


@dataclass(frozen=True, slots=True)
class Controller:
    """Shortcuts for the requests of tests through a rig."""

    rig: BrokerRig

    def metadata(self, live: tuple[LiveBroker, ...] | None = None) -> UpdateMetadata:
        """Return live brokers without partitions."""
        return UpdateMetadata(self.rig.epoch, (), self.rig.live() if live is None else live)

    def request_of(self, state: PartitionState, replicas: Replicas) -> LeaderAndIsr:
        """Return the LeaderAndIsr request with a state."""
        sent = LeaderAndIsrState(
            partition=self.rig.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.version,
            replicas=replicas,
            adding_replicas=(),
            removing_replicas=(),
            is_new=True,
            topic_id=None,
        )
        leaders = tuple(b for b in self.rig.live() if b.id == state.leader)
        return LeaderAndIsr(self.rig.epoch, (sent,), leaders)

    def send_state(self, broker: BrokerId, state: PartitionState, replicas: Replicas) -> int:
        """Send a state to a broker; return the error of its partition."""
        answer = self.rig.send(broker, self.request_of(state, replicas))
        assert isinstance(answer, LeaderAndIsrAnswered)
        assert answer.error == NONE
        return answer.results[0].error

    def stop(self, broker: BrokerId, leader_epoch: LeaderEpoch, *, delete: bool) -> int:
        """Stop a replica; return the error of its partition."""
        state = StopReplicaState(self.rig.partition, leader_epoch, delete)
        answer = self.rig.send(broker, StopReplica(self.rig.epoch, (state,)))
        assert isinstance(answer, StopReplicaAnswered)
        assert answer.error == NONE
        return answer.results[0].error


class ControlledContract:
    """The base of contracts of brokers: a controller that every broker knows."""

    @pytest.fixture
    def controller(self, rig: BrokerRig) -> Controller:
        """Return the controller, which every broker knows."""
        controller = Controller(rig)
        for broker in rig.live():
            assert rig.send(broker.id, controller.metadata()).error == NONE
        return controller


class BrokerContract(ControlledContract):
    """Derive from this, with a fixture ``rig``."""

    # --- whole requests ------------------------------------------------------------------------

    def test_metadata_without_partitions_raises_the_controller_epoch(
        self, controller: Controller
    ) -> None:
        """A broker refuses any request of an older controller as a whole from then on."""
        rig = controller.rig
        former = rig.epoch
        rig.epoch = ControllerEpoch(former + 1)
        assert rig.send(ONE, controller.metadata()).error == NONE
        state = StopReplicaState(rig.partition, NO_EPOCH, delete=True)
        for request in (
            UpdateMetadata(former, (), rig.live()),
            replace(controller.request_of(rig.state(), (ONE,)), controller_epoch=former),
            StopReplica(former, (state,)),
        ):
            assert rig.send(ONE, request).error == STALE_CONTROLLER_EPOCH
        assert rig.has_log(ONE)

    def test_a_request_for_a_former_registration_is_refused(self, controller: Controller) -> None:
        """Its broker epoch is older than the broker's own."""
        answer = controller.rig.send(ONE, controller.metadata(), former=True)
        assert answer.error == STALE_BROKER_EPOCH

    # --- LeaderAndIsr --------------------------------------------------------------------------

    @pytest.mark.parametrize("older_by", [0, 1])
    def test_a_leader_epoch_that_is_no_news_is_refused(
        self, controller: Controller, older_by: int
    ) -> None:
        """The error is that of the partition, and has a misleading name."""
        state = controller.rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == NONE
        again = replace(state, leader_epoch=LeaderEpoch(state.leader_epoch - older_by))
        assert controller.send_state(ONE, again, (ONE,)) == STALE_CONTROLLER_EPOCH

    def test_a_broker_that_is_no_replica_says_so(self, controller: Controller) -> None:
        """A broker creates no log for a partition of which it is no replica."""
        state = controller.rig.change(ONE, (ONE,))
        assert controller.send_state(TWO, state, (ONE,)) == UNKNOWN_TOPIC_OR_PARTITION
        assert not controller.rig.has_log(TWO)

    def test_following_an_unknown_leader_is_passed_over(self, controller: Controller) -> None:
        """The broker answers no error and creates a log, but does not keep the epoch."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        astray = replace(state, leader=STRANGER)
        assert controller.send_state(TWO, astray, (ONE, TWO)) == NONE
        rig.wait_until(lambda: rig.has_log(TWO))
        assert controller.send_state(TWO, state, (ONE, TWO)) == NONE
        assert controller.send_state(TWO, state, (ONE, TWO)) == STALE_CONTROLLER_EPOCH

    def test_an_older_partition_epoch_is_passed_over(self, controller: Controller) -> None:
        """The broker answers no error; the leader keeps its version and can still write."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == NONE
        older = replace(
            state,
            leader=TWO,
            leader_epoch=LeaderEpoch(state.leader_epoch + 1),
            version=ZkVersion(state.version - 1),
        )
        assert controller.send_state(ONE, older, (ONE, TWO)) == NONE
        assert controller.send_state(ONE, older, (ONE, TWO)) == NONE

    def test_a_leader_takes_a_follower_into_the_isr_by_itself(self, controller: Controller) -> None:
        """The leader writes with the version and the epochs of its last LeaderAndIsr."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE, TWO)) == NONE
        assert controller.send_state(TWO, state, (ONE, TWO)) == NONE
        rig.wait_until(lambda: set(rig.state().isr) == {ONE, TWO})
        grown = rig.state()
        assert replace(grown, isr=state.isr, version=state.version) == state
        assert grown.version == state.version + 1

    def test_a_leader_takes_a_follower_that_lags_out_of_the_isr_by_itself(
        self, controller: Controller
    ) -> None:
        """The write raises the version and keeps the epochs, as when the ISR grows."""
        rig = controller.rig
        grown = _grow(controller)
        assert controller.stop(TWO, grown.leader_epoch, delete=False) == NONE
        rig.write()
        rig.wait_until(lambda: rig.state().isr == (ONE,))
        shrunk = rig.state()
        assert replace(shrunk, isr=grown.isr, version=grown.version) == grown
        assert shrunk.version == grown.version + 1

    def test_a_leader_without_the_newest_version_cannot_shrink_the_isr(
        self, controller: Controller
    ) -> None:
        """The follower stays in the ISR until the leader knows the version again."""
        rig = controller.rig
        grown = _grow(controller)
        unsent = rig.change(ONE, (ONE, TWO))
        assert controller.stop(TWO, grown.leader_epoch, delete=False) == NONE
        rig.write()
        assert rig.state() == unsent
        assert controller.send_state(ONE, unsent, (ONE, TWO)) == NONE
        rig.wait_until(lambda: rig.state().isr == (ONE,))
        assert rig.state().version == unsent.version + 1

    def test_a_leader_notifies_the_controller_of_its_isr_changes(
        self, controller: Controller
    ) -> None:
        """The notification is a znode that names the partition, not its new ISR."""
        assert not controller.rig.notified()
        _grow(controller)
        controller.rig.wait_until(controller.rig.notified)

    def test_a_leader_without_the_newest_version_cannot_grow_the_isr(
        self, controller: Controller
    ) -> None:
        """Its version is not the present one; only the next LeaderAndIsr brings another."""
        rig = controller.rig
        known = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, known, (ONE, TWO)) == NONE
        unsent = rig.change(ONE, (ONE,))
        assert controller.send_state(TWO, known, (ONE, TWO)) == NONE
        assert rig.state() == unsent
        assert controller.send_state(ONE, unsent, (ONE, TWO)) == NONE
        assert controller.send_state(TWO, unsent, (ONE, TWO)) == NONE
        rig.wait_until(lambda: set(rig.state().isr) == {ONE, TWO})

    # --- StopReplica ---------------------------------------------------------------------------

    def test_an_older_leader_epoch_stops_nothing(self, controller: Controller) -> None:
        """The broker fences the request and keeps the log."""
        state = controller.rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == NONE
        older = LeaderEpoch(state.leader_epoch - 1)
        assert controller.stop(ONE, older, delete=True) == FENCED_LEADER_EPOCH
        assert controller.rig.has_log(ONE)

    @pytest.mark.parametrize("newer_by", [0, 1])
    def test_the_present_leader_epoch_deletes(self, controller: Controller, newer_by: int) -> None:
        """A StopReplica with the present leader epoch or a newer one deletes the log."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == NONE
        epoch = LeaderEpoch(state.leader_epoch + newer_by)
        assert controller.stop(ONE, epoch, delete=True) == NONE
        rig.wait_until(lambda: not rig.has_log(ONE))

    @pytest.mark.parametrize("epoch", [NO_EPOCH, DELETED_EPOCH])
    def test_an_epoch_that_is_none_is_not_fenced(
        self, controller: Controller, epoch: LeaderEpoch
    ) -> None:
        """The epoch is unknown, or is that of a topic being deleted."""
        rig = controller.rig
        assert controller.stop(ONE, epoch, delete=True) == NONE
        rig.wait_until(lambda: not rig.has_log(ONE))

    def test_stopping_without_deletion_keeps_the_log(self, controller: Controller) -> None:
        """The replica continues after the next LeaderAndIsr."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE,)) == NONE
        assert controller.stop(ONE, state.leader_epoch, delete=False) == NONE
        assert rig.has_log(ONE)
        assert controller.send_state(ONE, rig.change(ONE, (ONE,)), (ONE,)) == NONE

    def test_a_replica_that_is_not_there_can_be_deleted(self, controller: Controller) -> None:
        """The sender need not know whether it was deleted before."""
        state = controller.rig.state()
        for _ in range(2):
            assert controller.stop(TWO, state.leader_epoch, delete=True) == NONE

    def test_a_deleted_replica_may_come_back_at_the_same_epoch(
        self, controller: Controller
    ) -> None:
        """The broker forgot the epoch together with the log."""
        rig = controller.rig
        state = rig.change(ONE, (ONE,))
        assert controller.send_state(ONE, state, (ONE, TWO)) == NONE
        assert controller.send_state(TWO, state, (ONE, TWO)) == NONE
        assert controller.stop(TWO, state.leader_epoch, delete=True) == NONE
        rig.wait_until(lambda: not rig.has_log(TWO))
        assert controller.send_state(TWO, state, (ONE, TWO)) == NONE
        rig.wait_until(lambda: rig.has_log(TWO))


def _grow(controller: Controller) -> PartitionState:
    """Have ``TWO`` follow ``ONE`` until it is in the ISR; return the state after that."""
    rig = controller.rig
    state = rig.change(ONE, (ONE,))
    assert controller.send_state(ONE, state, (ONE, TWO)) == NONE
    assert controller.send_state(TWO, state, (ONE, TWO)) == NONE
    rig.wait_until(lambda: set(rig.state().isr) == {ONE, TWO})
    return rig.state()
