"""Metadata of very many partitions is encoded once for all brokers, and stays bounded."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.model import LEADER_DURING_DELETE
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import SendUpdateMetadata
from controller.core.leadership.records import StatesRead
from controller.core.model import BrokerId, ControllerEpoch, Instant, TopicPartition
from controller.core.role.records import ControllerClaimed, Deposed
from controller.reactor import outbox as outboxes
from controller.reactor import shared_metadata
from controller.reactor.outbox import METADATA_EVERY_S, NEW_REPLICAS_CHUNK, Outbox
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    UpdateMetadata,
    UpdateMetadataState,
)
from controller.reactor.shared_metadata import (
    MANY,
    STATES_EACH,
    UPDATE_METADATA_CHUNK,
    SharedMetadata,
    queue_with,
    update_metadata_state,
    updates_of,
)
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.sim.brokers import DELETED_LEADER

ONE, TWO = BrokerId(1), BrokerId(2)
NOW = Instant(100.0)


def opened(partitions: int) -> tuple[Driver, Outbox]:
    """Return a view with so many partitions, and an outbox to two brokers."""
    driver = Driver({tp(n): (1, 2) for n in range(partitions)}, brokers=(1, 2))
    outbox = Outbox()
    outbox.open(ONE)
    outbox.open(TWO)
    return driver, outbox


def sent_by(outbox: Outbox, driver: Driver, *, but: BrokerId | None = None) -> list[BrokerRequest]:
    """Return what goes out until nothing is left, with one broker that never answers."""
    sent: list[BrokerRequest] = []
    now = NOW
    for _ in range(1000):
        now = Instant(now + METADATA_EVERY_S)
        taken = list(outbox.take(driver.view, now))
        if not taken:
            return sent
        for to, request in taken:
            sent.append(request)
            if to != but:
                outbox.note_answer(to)
    raise AssertionError("the outbox does not run dry")


def states_of(requests: list[BrokerRequest]) -> list[tuple[UpdateMetadataState, ...]]:
    """Return the states of each UpdateMetadata."""
    return [r.states for r in requests if isinstance(r, UpdateMetadata)]


def test_brokers_that_are_free_at_other_times_get_the_same_parts() -> None:
    """Encoding each part anew for each of a hundred brokers took most of the processor."""
    driver, outbox = opened(UPDATE_METADATA_CHUNK + 2 * MANY)
    everything = list(driver.assignments)
    outbox.add_update_metadata(driver.view, everything[:MANY], None)
    first = dict(outbox.take(driver.view, NOW))
    outbox.note_answer(ONE)
    outbox.add_update_metadata(driver.view, everything[MANY : 2 * MANY], None)
    second = dict(outbox.take(driver.view, Instant(NOW + METADATA_EVERY_S)))
    assert list(second) == [ONE]
    outbox.add_update_metadata(driver.view, everything[2 * MANY :], None)
    outbox.note_answer(ONE)
    outbox.note_answer(TWO)
    later = states_of(sent_by(outbox, driver))
    parts = [*states_of([*first.values(), *second.values()]), *later]
    assert {len(p) for p in parts} == {MANY, UPDATE_METADATA_CHUNK}
    assert sorted(s.partition for p in {id(p): p for p in parts}.values() for s in p) == sorted(
        everything
    )
    assert len(parts) == 2 * len({id(p) for p in parts})


def test_the_newest_state_of_a_partition_is_sent_last() -> None:
    """A broker keeps the state that it receives last."""
    driver, outbox = opened(MANY)
    dict(outbox.take(driver.view, NOW))
    for isr in ((1,), (1, 2), (2,)):
        outbox.add_update_metadata(driver.view, list(driver.assignments), None)
        list(outbox.take(driver.view, NOW))
        driver.change_isr(tp(0), replicas(*isr))
        outbox.add_update_metadata(driver.view, [tp(0)], None)
        list(outbox.take(driver.view, NOW))
    outbox.note_answer(ONE)
    outbox.note_answer(TWO)
    seen = [
        s.isr for part in states_of(sent_by(outbox, driver)) for s in part if s.partition == tp(0)
    ]
    assert seen[-1] == replicas(2)


def news_of(driver: Driver, partitions: Iterable[TopicPartition]) -> SharedMetadata:
    """Return the news of partitions, as they are now."""
    states = [update_metadata_state(driver.view, p) for p in partitions]
    return SharedMetadata({s.partition: s for s in states if s is not None})


@pytest.mark.parametrize("each", [1, MANY])
def test_what_waits_is_bounded_by_the_partitions(each: int) -> None:
    """The bound holds however often and however many change while a broker does not answer."""
    driver, _ = opened(2 * MANY)
    everything = list(driver.assignments)
    waiting: list[SharedMetadata] = []
    for n in range(100):
        news = news_of(driver, [everything[(n * each + k) % len(everything)] for k in range(each)])
        waiting = queue_with(waiting, news, len(everything))
        held = sum(len(n.states) for n in waiting)
        assert held <= STATES_EACH * len(everything)
    queued_for = [s.partition for part in updates_of(waiting) for s in part]
    assert len(queued_for) == held
    assert len(set(queued_for)) == min(100 * each, len(everything))


def test_a_broker_that_was_silent_gets_the_newest_state_once() -> None:
    """The states in between are outdated."""
    driver, outbox = opened(3)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    assert len(dict(outbox.take(driver.view, NOW))) == 2
    for n in range(2 * MANY + 1):
        driver.change_isr(tp(1), replicas(1, 2) if n % 2 else replicas(1))
        outbox.add_update_metadata(driver.view, [tp(1)], None)
        assert list(outbox.take(driver.view, NOW)) == []
    outbox.note_answer(TWO)
    ((state,),) = states_of(sent_by(outbox, driver, but=ONE))
    assert (state.partition, state.isr) == (tp(1), replicas(1))


def test_the_live_brokers_are_sent_without_known_partitions() -> None:
    """A broker that joins an empty cluster still needs the live brokers."""
    driver, outbox = opened(1)
    outbox.add_live_brokers()
    outbox.add_update_metadata(driver.view, [tp(7)], [ONE])
    sent = dict(outbox.take(driver.view, NOW))
    assert [(to, type(r)) for to, r in sent.items()] == [
        (ONE, UpdateMetadata),
        (TWO, UpdateMetadata),
    ]


def test_metadata_that_waits_for_a_replica_is_not_sent_after_newer_metadata() -> None:
    """The broker would believe the older one; many at once wait for no replica."""
    driver, outbox = opened(MANY + NEW_REPLICAS_CHUNK)
    late = tp(MANY)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    for partition in driver.assignments:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], [ONE])
    list(outbox.take(driver.view, NOW))
    outbox.add_update_metadata(driver.view, [late], None)
    list(outbox.take(driver.view, NOW))
    driver.change_isr(late, replicas(1))
    outbox.add_update_metadata(driver.view, list(driver.assignments), None)
    list(outbox.take(driver.view, NOW))
    outbox.note_answer(ONE)
    sent = sent_by(outbox, driver, but=TWO)
    assert sum(isinstance(r, LeaderAndIsr) for r in sent) > 1
    seen = [s.isr for part in states_of(sent) for s in part if s.partition == late]
    assert seen == [replicas(1)]


class Trial:
    """Random additions and answers, and what brokers believe of it."""

    def __init__(self, dice: random.Random) -> None:
        """Begin with six partitions."""
        self.dice = dice
        self.driver, self.outbox = opened(6)
        self.now = NOW
        self.sent: dict[tuple[BrokerId, TopicPartition], int] = {}
        self.believed: dict[tuple[BrokerId, TopicPartition], int] = {}

    def act(self) -> None:
        """Do one thing."""
        some = self.dice.sample(list(self.driver.assignments), self.dice.randint(1, 6))
        self.dice.choice(
            (self.change, self.send_to_both, self.send_to_one, self.order, self.go, self.go)
        )(some)

    def change(self, some: list[TopicPartition]) -> None:
        """Have a partition in another state."""
        isr = self.dice.choice(((1,), (2,), (1, 2)))
        self.driver.change_isr(some[0], replicas(*isr))

    def send_to_both(self, some: list[TopicPartition]) -> None:
        """Send to both brokers."""
        self.outbox.add_update_metadata(self.driver.view, some, None)
        self.expect(some, ONE, TWO)

    def send_to_one(self, some: list[TopicPartition]) -> None:
        """Send to one of them."""
        broker = self.dice.choice((ONE, TWO))
        self.outbox.add_update_metadata(self.driver.view, some, [broker])
        self.expect(some, broker)

    def expect(self, some: list[TopicPartition], *brokers: BrokerId) -> None:
        """Queue the present metadata of partitions for brokers."""
        versions = {p: self.driver.view.leadership.states[p].version for p in some}
        self.sent |= {(b, p): version for b in brokers for p, version in versions.items()}

    def order(self, some: list[TopicPartition]) -> None:
        """Have a replica created or changed: of these there are as many as wait."""
        new = self.dice.choice(([], [ONE]))
        self.outbox.add_leader_and_isr(self.driver.view, some[0], [ONE, TWO], new)

    def go(self, _: list[TopicPartition]) -> None:
        """Send, and have one broker answer or none."""
        self.now = Instant(self.now + self.dice.choice((0.0, METADATA_EVERY_S)))
        self.take()
        self.outbox.note_answer(self.dice.choice((ONE, TWO, BrokerId(3))))

    def take(self) -> int:
        """Send; no metadata may be older than what was sent before."""
        taken = list(self.outbox.take(self.driver.view, self.now))
        for to, request in taken:
            for state in request.states if isinstance(request, UpdateMetadata) else ():
                assert state.partition_epoch >= self.believed.get((to, state.partition), -1)
                self.believed[to, state.partition] = state.partition_epoch
        return len(taken)

    def end(self) -> None:
        """Have everything answered."""
        while True:
            self.now = Instant(self.now + METADATA_EVERY_S)
            self.outbox.note_answer(ONE)
            self.outbox.note_answer(TWO)
            if not self.take():
                return


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_merged_and_parted_a_broker_never_hears_of_an_older_state_last(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are so small that everything happens."""
    dice = random.Random(seed)
    for module, name, most in (
        (shared_metadata, "MANY", 6),
        (shared_metadata, "UPDATE_METADATA_CHUNK", 4),
        (outboxes, "LEADER_AND_ISR_CHUNK", 3),
        (outboxes, "NEW_REPLICAS_CHUNK", 2),
    ):
        monkeypatch.setattr(module, name, dice.randint(1, most))
    trial = Trial(dice)
    for _ in range(60):
        trial.act()
    trial.end()
    assert all(trial.believed.get(key, -1) >= version for key, version in trial.sent.items())


def claimed_with(deletions: frozenset[str]) -> Driver:
    """Return a view whose tenure began while these topics were to be deleted."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2), options=Options(tenure=TenurePolicy.PERMANENT))
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records(), DeletionsRead(deletions))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(known))
    return driver


def leader_sent(driver: Driver) -> int:
    """Return the leader that brokers are sent of the partition."""
    sent = update_metadata_state(driver.view, tp())
    assert sent is not None
    return sent.leader


def test_a_topic_whose_deletion_was_pending_at_the_claim_stays_away_from_clients() -> None:
    """A Kafka controller may have begun it, and removed the topic from the brokers' metadata."""
    driver = claimed_with(frozenset({"t"}))
    assert leader_sent(driver) == LEADER_DURING_DELETE == DELETED_LEADER
    assert driver.view.leadership.states[tp()].leader == 1


def test_a_topic_whose_deletion_cannot_have_begun_keeps_its_clients() -> None:
    """Only a Kafka controller begins a topic deletion, after the tenure."""
    driver = claimed_with(frozenset())
    driver.observe(DeletionsRead(frozenset({"t"})))
    assert leader_sent(driver) == 1


def test_a_topic_whose_deletion_is_taken_back_is_sent_as_it_is_again() -> None:
    """Brokers have forgotten it, and nothing else would remind them."""
    driver = claimed_with(frozenset({"t"}))
    driver.sent.clear()
    driver.observe(DeletionsRead(frozenset()))
    assert SendUpdateMetadata((tp(),)) in driver.sent
    assert leader_sent(driver) == 1
    driver.observe(DeletionsRead(frozenset({"t"})))
    assert leader_sent(driver) == 1
