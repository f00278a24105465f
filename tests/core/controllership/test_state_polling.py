"""The polling of the delegated engine, which gets no notification of leaders and brokers."""

from __future__ import annotations

from controller.core.controllership.state_polling import (
    ROUND_EVERY_S,
    ROUND_STATES,
    ROUND_TIMER,
    poll_states,
)
from controller.core.effects import ElectPreferred, ReadPurpose, ReadStates, SetTimer
from controller.core.events import Orphan, OrphansRead, PreferredElectionRead
from controller.core.model import BrokerId, Instant, ZkVersion, Zxid
from controller.core.options import Options
from controller.core.records import (
    OrphanEndedRecord,
    PreferredElectionEndedRecord,
    StatesPolledRecord,
)
from controller.core.worklist import Worklist
from tests.core.builders import replicas, tp
from tests.core.partition.delegated_rigs import DelegatedDriver, delegated
from tests.core.requests.test_submitted import submission, submit


def rounds(driver: DelegatedDriver) -> list[ReadStates]:
    """Return what was read in rounds so far."""
    reads = (e for e in driver.sent if isinstance(e, ReadStates))
    return [r for r in reads if r.purpose is ReadPurpose.ROUND]


def test_states_of_others_are_read_anew_while_there_is_work() -> None:
    """Every few seconds, those out of sync among the first; an idle daemon reads nothing."""
    driver = DelegatedDriver({tp(0): (0, 1), tp(1): (1, 2)})
    driver.pass_time(ROUND_EVERY_S)
    assert rounds(driver) == []
    submit(driver, submission("request_0000000000", {tp(0): (1, 3)}))
    driver.change_isr(tp(1), replicas(1))
    driver.pass_time(ROUND_EVERY_S)
    driver.pass_time(ROUND_EVERY_S)
    last = rounds(driver)[-1]
    assert last.partitions[0] == tp(1)
    assert set(last.partitions) == {tp(0), tp(1)}


def test_an_orphan_whose_broker_is_a_replica_again_is_none() -> None:
    """Its old copy is a replica again; the record of another one stays, as it is not deleted."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    taken, left = (Orphan(BrokerId(b), tp(0), Zxid(9), "its broker was dead") for b in (1, 5))
    driver.observe(OrphansRead(frozenset({taken, left})))
    ended = [
        r.orphan for c in driver.changes for r in c.records if isinstance(r, OrphanEndedRecord)
    ]
    assert ended == [taken]
    assert list(driver.view.work.orphans.values()) == [left]


def test_elections_are_ordered_so_many_a_second() -> None:
    """Each makes clients look for their leader again."""
    options = Options(engine=delegated().engine, step_size=None, preferred_elections_per_second=2)
    driver = DelegatedDriver({tp(n): (0, 1) for n in range(3)}, options=options)
    submit(driver, submission("request_0000000000", {tp(n): (1, 0) for n in range(3)}))
    elected = [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)]
    assert [len(e) for e in elected] == [2]
    driver.pass_time(1.0)
    elected = [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)]
    assert [len(e) for e in elected] == [2, 1]


def test_elections_that_operators_ask_a_controller_for_are_not_ours() -> None:
    """The cluster's own holds them, and deletes their znode."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    driver.observe(PreferredElectionRead(frozenset({tp(0)}), ZkVersion(0)))
    driver.pass_time(5.0)
    assert not [e for e in driver.sent if isinstance(e, ElectPreferred)]
    records = [r for c in driver.changes for r in c.records]
    assert not [r for r in records if isinstance(r, PreferredElectionEndedRecord)]


def test_a_round_of_a_large_cluster_begins_where_the_last_one_ended() -> None:
    """Each state is read in turn, however many there are."""
    driver = DelegatedDriver({tp(n): (0, 1) for n in range(ROUND_STATES + 500)})
    submit(driver, submission("request_0000000000", {tp(0): (1, 3)}))
    for _ in range(3):
        driver.pass_time(ROUND_EVERY_S)
    first, second, third = (r.partitions for r in rounds(driver)[-3:])
    assert [len(r) for r in (first, second, third)] == [ROUND_STATES] * 3
    known = list(driver.view.tenure.states)
    begins = known.index(first[0])
    order = [*known[begins:], *known[:begins]] * 2
    assert [*first, *second, *third] == order[: 3 * ROUND_STATES]


def test_a_round_without_a_known_state_reads_nothing_and_is_repeated() -> None:
    """All topics were created a moment ago: the first states follow."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    submit(driver, submission("request_0000000000", {tp(0): (1, 3)}))
    driver.view.tenure.states.clear()
    now = Instant(driver.now + ROUND_EVERY_S)
    again = Instant(now + ROUND_EVERY_S)
    decision = poll_states(driver.view, Worklist(timer=True), now)
    assert [c.records for c in decision.changes] == [(StatesPolledRecord(again, 0),)]
    assert decision.effects == (SetTimer(ROUND_TIMER, again),)
