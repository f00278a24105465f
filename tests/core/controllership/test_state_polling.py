"""What the delegated engine looks at by itself, as no leader and no broker announces it to us."""

from __future__ import annotations

from controller.core.controllership.state_polling import ROUND_EVERY_S
from controller.core.effects import ElectPreferred, ReadPurpose, ReadStates
from controller.core.events import Orphan, OrphansRead, PreferredElectionRead
from controller.core.model import BrokerId, ZkVersion, Zxid
from controller.core.options import Options
from controller.core.records import OrphanEndedRecord, PreferredElectionEndedRecord
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
    """Its old copy was taken up; the record of another one stays, as nobody deletes it."""
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
