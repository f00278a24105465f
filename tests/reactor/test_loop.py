"""The order of reads and writes in a cycle of the loop."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.cluster.model import LiveBroker
from controller.core.core_settings import Options, TenurePolicy
from controller.core.model import BrokerId, ControllerEpoch, Instant, TopicPartition
from controller.core.pacing.records import AppliedThrottlesRead
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.records import Change, Event
from controller.core.requests.records import HistoryRead, SubmissionsListed
from controller.core.role.records import (
    BrokersRead,
    ControllerClaimed,
    Deposed,
    UpdateMetadataAnswered,
)
from controller.core.topics.model import ConfigRequest
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.reactor.ports import BrokerRequest, Check, Committed, Operation, Rejected
from controller.znodes import paths
from tests.core.builders import EPOCH, Driver, broker, tp
from tests.reactor.stores import NotingStore
from tests.sim.histories import SilentObserver


class Still:
    """No request is answered, and no time passes."""

    def now(self) -> Instant:
        """Return the one instant there is."""
        return Instant(0.0)

    def open(self, broker: LiveBroker) -> None:
        """Do nothing."""

    def close(self, broker: BrokerId) -> None:
        """Do nothing."""

    def close_all(self) -> None:
        """Do nothing."""

    def send(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Do nothing."""

    def describe(self, topics: Sequence[str], requested: ConfigRequest) -> None:
        """Do nothing."""


class Order(NotingStore, SilentObserver):
    """Notes reads and durable writes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Accept everything."""
        written = (op for multi in multis for op in multi if not isinstance(op, Check))
        self.noted += [f"write {op.path}" for op in written]
        return super().commit(multis)

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Note them."""
        del read_generation
        self.noted += [f"read {topic}" for topic in topics]

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """Do nothing: no test needs it."""
        raise NotImplementedError

    def read_submissions(self, names: Sequence[str]) -> None:
        """Note them."""
        self.noted += [f"read {name}" for name in names]

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Note them."""
        del watch, read_generation
        self.noted += [f"read {partition}" for partition in partitions]

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """Note the records without a partition."""
        del view
        if change.partition is None:
            self.noted += [f"note {type(r).__name__}" for r in change.records]


class Passing(Still):
    """Every look at the clock takes a tenth of a second."""

    def __init__(self) -> None:
        self._at = 0.0

    def now(self) -> Instant:
        """Return one instant after the other."""
        self._at += 0.1
        return Instant(self._at)


class Turning:
    """A loop that took over a cluster on which everything is known."""

    def __init__(self, driver: Driver, still: Still | None = None) -> None:
        self.order = Order()
        still = still or Still()
        self.reactor = Reactor(
            view=driver.view,
            store=self.order,
            channels=still,
            configs=still,
            clock=still,
            observer=self.order,
        )

    def turn(self, *events: Event) -> list[str]:
        """Fold events, and return the effects that follow."""
        self.order.noted.clear()
        for event in events:
            self.reactor.put(event)
        self.reactor.run_cycle()
        return self.order.noted


def test_what_a_claim_makes_unknown_is_requested_and_no_wait_for_it_noted() -> None:
    """With tens of thousands of reassignments, notes would delay the first reads."""
    partitions = {tp(n): (0, 1) for n in range(3)}
    driver = Driver(partitions, options=Options(max_partitions_in_flight=0))
    driver.submit(dict.fromkeys(partitions, (0, 2)))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    turning = Turning(driver)
    turning.turn(Deposed("a new process"))
    noted = turning.turn(
        SpecsRead(specs, {}),
        OrphansRead(frozenset()),
        HistoryRead({}, {}),
        AppliedThrottlesRead({}),
        ControllerClaimed(ControllerEpoch(EPOCH + 1)),
    )
    assert noted[0] == "read t"
    assert not any(n.startswith("read t-") for n in noted)
    assert "note BlockedRecord" not in noted
    noted = turning.turn(UpdateMetadataAnswered(BrokerId(1), driver.epoch(BrokerId(1)), 0))
    assert noted[:3] == [f"read {p}" for p in partitions]


def test_a_state_that_is_written_is_read_after_that() -> None:
    """A read that began before the write would be stale."""
    driver = Driver({tp(0): (0, 1)})
    turning = Turning(driver)
    bounced = {b: broker(b, 100 if b else 200) for b in driver.view.cluster.brokers}
    noted = turning.turn(BrokersRead(bounced))
    written = f"write {paths.state_path(tp(0))}"
    assert [n for n in noted if not n.startswith("note")] == [written, f"read {tp(0)}"]


def test_a_request_is_read_before_what_others_want_is_written() -> None:
    """The request is not examined yet, and the writes of the cycle may take a while."""
    driver = Driver({tp(0): (0, 1)})
    turning = Turning(driver)
    bounced = {b: broker(b, 100 if b else 200) for b in driver.view.cluster.brokers}
    noted = turning.turn(SubmissionsListed(frozenset({"request_1"})), BrokersRead(bounced))
    assert noted.index("read request_1") < noted.index(f"write {paths.state_path(tp(0))}")


def test_a_turn_that_takes_long_leaves_the_rest_to_the_next_one() -> None:
    """A status request for very many reassignments is answered in between."""
    partitions = {tp(n): (0, 1) for n in range(6)}
    driver = Driver(partitions, options=Options(look_chunk=1, tenure=TenurePolicy.PERMANENT))
    turning = Turning(driver, Passing())
    bounced = {b: broker(b, 100 if b else 200) for b in driver.view.cluster.brokers}
    written = [n for n in turning.turn(BrokersRead(bounced)) if n.startswith("write")]
    assert 0 < len(written) < len(partitions)
    for _ in partitions:
        assert turning.reactor.view.due
        assert turning.reactor.wakes_at() is not None
        written += [n for n in turning.turn() if n.startswith("write")]
        if len(written) == len(partitions):
            break
    assert sorted(written) == sorted(f"write {paths.state_path(p)}" for p in partitions)
