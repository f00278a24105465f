"""What is told of very many partitions is put together once for all brokers, and stays bounded."""

from __future__ import annotations

from controller.core.model import BrokerId, Instant
from controller.reactor.metadata import (
    MANY,
    NEWS_MAX,
    UPDATE_METADATA_CHUNK,
    News,
    added,
    told_together,
    update_metadata_state,
)
from controller.reactor.outbox import METADATA_EVERY_S, NEW_REPLICAS_CHUNK, Outbox
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    UpdateMetadata,
    UpdateMetadataState,
)
from tests.core.builders import Driver, replicas, tp

ONE, TWO = BrokerId(1), BrokerId(2)
NOW = Instant(100.0)


def opened(partitions: int) -> tuple[Driver, Outbox]:
    """Return a view with so many partitions, and an outbox to two brokers."""
    driver = Driver({tp(n): (1, 2) for n in range(partitions)}, brokers=(1, 2))
    outbox = Outbox()
    outbox.open(ONE)
    outbox.open(TWO)
    return driver, outbox


def told(outbox: Outbox, driver: Driver, *, but: BrokerId | None = None) -> list[BrokerRequest]:
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
                outbox.answered(to)
    raise AssertionError("the outbox does not run dry")


def states_of(requests: list[BrokerRequest]) -> list[tuple[UpdateMetadataState, ...]]:
    """Return the states of each UpdateMetadata."""
    return [r.states for r in requests if isinstance(r, UpdateMetadata)]


def test_brokers_that_are_free_at_other_times_are_told_the_same_parts() -> None:
    """Encoding each part anew for each of a hundred brokers took most of the processor."""
    driver, outbox = opened(UPDATE_METADATA_CHUNK + 2 * MANY)
    everything = list(driver.assignments)
    outbox.add_update_metadata(driver.view, everything[:MANY], None)
    first = dict(outbox.take(driver.view, NOW))
    outbox.answered(ONE)
    outbox.add_update_metadata(driver.view, everything[MANY : 2 * MANY], None)
    second = dict(outbox.take(driver.view, Instant(NOW + METADATA_EVERY_S)))
    assert list(second) == [ONE]
    outbox.add_update_metadata(driver.view, everything[2 * MANY :], None)
    outbox.answered(ONE)
    outbox.answered(TWO)
    later = states_of(told(outbox, driver))
    parts = [*states_of([*first.values(), *second.values()]), *later]
    assert {len(p) for p in parts} == {MANY, UPDATE_METADATA_CHUNK}
    assert sorted(s.partition for p in {id(p): p for p in parts}.values() for s in p) == sorted(
        everything
    )
    assert len(parts) == 2 * len({id(p) for p in parts})


def test_the_newest_state_of_a_partition_is_told_last() -> None:
    """A broker believes what it hears last, however it was put together."""
    driver, outbox = opened(MANY)
    dict(outbox.take(driver.view, NOW))
    for isr in ((1,), (1, 2), (2,)):
        outbox.add_update_metadata(driver.view, list(driver.assignments), None)
        list(outbox.take(driver.view, NOW))
        driver.change_isr(tp(0), replicas(*isr))
        outbox.add_update_metadata(driver.view, [tp(0)], None)
        list(outbox.take(driver.view, NOW))
    outbox.answered(ONE)
    outbox.answered(TWO)
    seen = [s.isr for part in states_of(told(outbox, driver)) for s in part if s.partition == tp(0)]
    assert seen[-1] == replicas(2)


def test_what_waits_is_bounded_by_the_partitions() -> None:
    """Of each partition one state waits in the end, however often it changed."""
    driver, _ = opened(2)
    waiting: list[News] = []
    for n in range(10 * NEWS_MAX):
        state = update_metadata_state(driver.view, tp(n % 2))
        assert state is not None
        waiting = added(waiting, News({state.partition: state}))
        assert sum(len(news.states) for news in waiting) <= NEWS_MAX + 1
    assert [len(part) for part in told_together(waiting)] == [2]


def test_a_broker_that_was_silent_is_told_the_newest_state_once() -> None:
    """What it did not hear of in between is of no use any more."""
    driver, outbox = opened(3)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    assert len(dict(outbox.take(driver.view, NOW))) == 2
    for round_ in range(10 * NEWS_MAX):
        driver.change_isr(tp(1), replicas(1, 2) if round_ % 2 else replicas(1))
        outbox.add_update_metadata(driver.view, [tp(1)], None)
        assert list(outbox.take(driver.view, NOW)) == []
    outbox.answered(TWO)
    ((state,),) = states_of(told(outbox, driver, but=ONE))
    assert (state.partition, state.isr) == (tp(1), replicas(1, 2))


def test_nothing_known_of_what_is_told_leaves_the_live_brokers_to_be_told() -> None:
    """A newcomer to an empty cluster still has to hear who is there."""
    driver, outbox = opened(1)
    outbox.add_live_brokers()
    outbox.add_update_metadata(driver.view, [tp(7)], [ONE])
    sent = dict(outbox.take(driver.view, NOW))
    assert [(to, type(r)) for to, r in sent.items()] == [
        (ONE, UpdateMetadata),
        (TWO, UpdateMetadata),
    ]


def test_what_waits_for_its_replica_is_not_told_after_something_newer() -> None:
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
    outbox.answered(ONE)
    sent = told(outbox, driver, but=TWO)
    assert sum(isinstance(r, LeaderAndIsr) for r in sent) > 1
    seen = [s.isr for part in states_of(sent) for s in part if s.partition == late]
    assert seen == [replicas(1)]
