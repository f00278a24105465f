"""The queue of alter entries: one call at a time, and no outdated entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from controller.core.cluster.model import LiveBroker
from controller.core.core_settings import Options
from controller.core.effects import AlterReassignment, ElectPreferred, ProbeReassignments
from controller.core.leadership.records import StateChanged, StatesRead
from controller.core.model import BrokerId, Instant, TopicConfig, TopicPartition, ZkVersion
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicConfigsRead
from controller.core.topics.topic_configs import forget_old_configs
from controller.core.view import ClusterView
from controller.errors import InvariantError
from controller.reactor.alter_queue import AlterQueue
from controller.reactor.ports import AlterEntry
from tests.core.builders import broker, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_cancellation import cancel
from tests.core.requests.test_submitted import submission, submit


class Kept:
    """A controller that only records its calls."""

    def __init__(self) -> None:
        """Start empty."""
        self.calls: list[tuple[AlterEntry, ...]] = []
        self.elected: list[TopicPartition] = []
        self.probes = 0
        self.forgotten = 0
        self.vouched = 0

    def alter(self, entries: Sequence[AlterEntry]) -> None:
        """Keep a call."""
        self.calls.append(tuple(entries))

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep an election."""
        self.elected += partitions

    def probe(self) -> None:
        """Count."""
        self.probes += 1

    def vouch(self) -> None:
        """Count."""
        self.vouched += 1

    def forget(self) -> None:
        """Count."""
        self.forgotten += 1


def under_way() -> DelegatedDriver:
    """Return two partitions whose first entries are sent and not answered."""
    driver = DelegatedDriver({tp(0): (0, 1), tp(1): (0, 1)}, answers=False)
    submit(driver, submission("request_0000000000", {tp(0): (1, 2), tp(1): (1, 3)}))
    return driver


VIEW = under_way().view
"""A view whose entries stay under way."""


def test_while_a_call_is_out_the_rest_merges() -> None:
    """The newest entry of a partition counts."""
    kept = Kept()
    queue = AlterQueue(kept)
    queue.add(VIEW, AlterReassignment(tp(0), replicas(1, 2)))
    queue.send()
    queue.add(VIEW, AlterReassignment(tp(1), replicas(1, 3)))
    queue.add(VIEW, AlterReassignment(tp(0), replicas(0, 1), cancels=True))
    queue.add(VIEW, AlterReassignment(tp(1), replicas(1, 4)))
    queue.send()
    assert len(kept.calls) == 1
    queue.note_answer()
    queue.send()
    assert kept.calls[1] == (
        AlterEntry(tp(0), replicas(0, 1), cancels=True),
        AlterEntry(tp(1), replicas(1, 4)),
    )


def _isr_shrinks(driver: DelegatedDriver) -> None:
    state = driver.view.leadership.states[tp(0)]
    version = ZkVersion(state.version + 1)
    driver.fold(StatesRead({tp(0): replace(state, isr=replicas(1), version=version)}))


def _live(driver: DelegatedDriver, **registered: LiveBroker) -> None:
    brokers = {b: broker(b) for b in range(7)} | {r.id: r for r in registered.values()}
    driver.fold(BrokersRead({BrokerId(b): r for b, r in brokers.items()}))


def _a_broker_dies(driver: DelegatedDriver) -> None:
    driver.fold(BrokersRead({BrokerId(b): broker(b) for b in range(1, 7)}))


def _settings_change(driver: DelegatedDriver) -> None:
    driver.fold(TopicConfigsRead({"t": TopicConfig(2, False)}))  # noqa: FBT003 - its fields in order


def _time_passes(driver: DelegatedDriver) -> None:
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    forget_old_configs(driver.view, driver.now)


FACTS: dict[str, Callable[[DelegatedDriver], None]] = {
    "the ISR changed": _isr_shrinks,
    "the state may have changed": lambda driver: driver.fold(StateChanged(tp(0))),
    "a broker died": _a_broker_dies,
    "a broker was restarted": lambda driver: _live(driver, one=broker(1, epoch=500)),
    "others moved it": lambda driver: driver.order(tp(0), replicas(0, 1, 5)),
    "another target is wanted": cancel,
    "the settings changed": _settings_change,
    "the settings grew old": _time_passes,
}


@pytest.mark.parametrize("fact", FACTS)
def test_an_entry_is_withdrawn_when_its_preconditions_changed(fact: str) -> None:
    """The controller does not check the ISR: only entries decided on the present state go out."""
    kept, driver = Kept(), under_way()
    queue = AlterQueue(kept)
    queue.add(driver.view, AlterReassignment(tp(0), replicas(0, 1, 2)))
    FACTS[fact](driver)
    assert queue.withdraw(driver.view) == (tp(0),)
    queue.send()
    assert kept.calls == []


def test_an_entry_whose_preconditions_hold_waits() -> None:
    """Changes of other partitions and of brokers without a replica do not matter."""
    kept, driver = Kept(), under_way()
    queue = AlterQueue(kept)
    queue.add(driver.view, AlterReassignment(tp(1), replicas(0, 1, 3)))
    _isr_shrinks(driver)
    _live(driver, six=broker(6, epoch=500))
    assert queue.withdraw(driver.view) == ()
    queue.send()
    assert kept.calls == [(AlterEntry(tp(1), replicas(0, 1, 3)),)]


def test_an_entry_of_an_unknown_topic_is_withdrawn() -> None:
    """Its topic may have been stale when the entry was queued."""
    view, queue = ClusterView(Options()), AlterQueue(Kept())
    queue.add(view, AlterReassignment(tp(0), replicas(0, 1, 2)))
    assert queue.withdraw(view) == (tp(0),)


def test_while_a_call_is_out_every_turn_vouches_for_it() -> None:
    """A paused process does not vouch; its adapter then sends nothing more."""
    kept = Kept()
    queue = AlterQueue(kept)
    queue.send()
    assert kept.vouched == 0
    queue.add(VIEW, AlterReassignment(tp(0), replicas(1, 2)))
    queue.send()
    queue.send()
    assert kept.vouched == 1
    queue.note_answer()
    queue.send()
    assert kept.vouched == 1


def test_elections_and_probes_do_not_wait_for_an_answer() -> None:
    """Each election and each probe is sent once, at once."""
    kept = Kept()
    queue = AlterQueue(kept)
    queue.add(VIEW, ElectPreferred((tp(0), tp(1))))
    queue.add(VIEW, ProbeReassignments())
    queue.send()
    queue.send()
    assert (kept.elected, kept.probes) == ([tp(0), tp(1)], 1)


def test_a_former_leader_sends_no_entry() -> None:
    """Queued entries and those that the adapter holds are dropped."""
    kept = Kept()
    queue = AlterQueue(kept)
    queue.add(VIEW, AlterReassignment(tp(0), replicas(1, 2)))
    queue.clear()
    queue.send()
    assert (kept.calls, kept.forgotten) == ([], 1)


def test_an_entry_without_an_adapter_is_a_bug() -> None:
    """It would be lost in silence."""
    queue = AlterQueue(None)
    queue.send()
    queue.add(VIEW, AlterReassignment(tp(0), replicas(1, 2)))
    with pytest.raises(InvariantError):
        queue.send()
