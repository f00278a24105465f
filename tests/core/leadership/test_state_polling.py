"""The polling of the delegated engine, which gets no notification of leaders and brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.disks.records import LogDirsDescribed
from controller.core.effects import (
    DescribeLogDirs,
    DescribePurpose,
    ElectPreferred,
    ReadPurpose,
    ReadStates,
    SetTimer,
)
from controller.core.leadership.cluster_loading import (
    ROUND_EVERY_S,
    ROUND_STATES,
    ROUND_TIMER,
    poll_states,
)
from controller.core.leadership.records import PreferredElectionEndedRecord, PreferredElectionRead
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Instant,
    LogDir,
    PartitionAssignment,
    PlacedReplica,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import OrphanEndedRecord, OrphansRead
from controller.core.role.records import BrokersRead, StatesPolledRecord
from controller.core.topics.records import TopicsRead
from controller.core.worklist import Worklist
from tests.core.builders import broker, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver, delegated
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
    assert list(driver.view.reassignments.orphans.values()) == [left]


@pytest.mark.parametrize("is_listed", [False, True])
def test_record_of_an_orphan_is_judged_by_the_topic_as_read_in_the_tenure(
    is_listed: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    """The former leader may have recorded a drop that this daemon had not read."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    topic = driver.view.topics.by_name["t"]
    topic.invalidate(driver.view.role.read_generation + 1)
    left = Orphan(BrokerId(1), tp(0), Zxid(9), "its broker was dead")
    driver.observe(OrphansRead(frozenset({left})))
    assert list(driver.view.reassignments.orphans.values()) == [left]
    now = {0: PartitionAssignment(replicas(0, 1) if is_listed else replicas(0))}
    version = topic.version if is_listed else ZkVersion(topic.version + 1)
    read = TopicAssignment(now, version, topic.czxid)
    driver.view.role.read_generation += 1
    driver.observe(TopicsRead({"t": read}, driver.view.role.read_generation))
    assert list(driver.view.reassignments.orphans.values()) == ([] if is_listed else [left])


WANTED = ((tp(0),), frozenset({BrokerId(5)}), True)
ORPHAN = Orphan(BrokerId(5), tp(0), Zxid(9), "its broker was dead")


def with_an_orphan() -> DelegatedDriver:
    """Return a daemon that knows of a log that may be left on broker 5, which is live."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    driver.observe(OrphansRead(frozenset({ORPHAN})))
    return driver


def report(driver: DelegatedDriver, *dirs: LogDir, **parts: object) -> bool:
    """Let broker 5 list these directories; return whether the record ended."""
    five = BrokerId(5)
    epoch = driver.view.cluster.brokers[five].epoch
    empty = LogDirsDescribed(five, epoch, driver.now, frozenset({tp(0)}), dirs)
    driver.observe(replace(empty, **parts))  # type: ignore[arg-type] # fields by name
    ended = [r for c in driver.changes for r in c.records if isinstance(r, OrphanEndedRecord)]
    return [r.orphan for r in ended] == [ORPHAN]


def test_brokers_are_queried_for_the_logs_of_orphans() -> None:
    """At once, again from time to time, and when a broker is back."""
    driver = with_an_orphan()

    def queries() -> int:
        queries = [e for e in driver.sent if isinstance(e, DescribeLogDirs)]
        found = [q for q in queries if q.purpose is DescribePurpose.ORPHANS]
        assert all((q.partitions, q.brokers, q.is_whole) == WANTED for q in found)
        return len(found)

    assert queries() == 1
    driver.pass_time(59.0)
    assert queries() == 1
    driver.pass_time(1.0)
    assert queries() == 2
    live = driver.view.cluster.brokers
    driver.observe(BrokersRead({b: known for b, known in live.items() if b != 5}))
    driver.pass_time(60.0)
    assert queries() == 2
    back = {BrokerId(5): broker(5, epoch=500)}
    driver.observe(BrokersRead({**driver.view.cluster.brokers, **back}))
    assert queries() == 3


def test_orphan_whose_log_is_gone_is_none() -> None:
    """An operator deleted it, or the controller did after all."""
    driver = with_an_orphan()
    assert report(driver, LogDir("/a"))
    assert driver.view.reassignments.orphans == {}


def test_log_of_an_orphan_is_named_with_its_directory() -> None:
    """No request of Kafka deletes it."""
    driver, one, other = with_an_orphan(), LogDir("/a"), LogDir("/b")
    assert not report(driver, one, replicas={tp(0): PlacedReplica("/a", 7)})
    assert driver.view.reassignments_tenure.orphan_logs == {(5, tp(0)): "/a"}
    assert not report(driver, one, other, replicas={tp(0): PlacedReplica("/b", 7)})
    assert driver.view.reassignments_tenure.orphan_logs == {(5, tp(0)): "/b"}
    assert report(driver, one, other)


@pytest.mark.parametrize(
    "because",
    [
        "another registration",
        "failed directory",
        "error",
        "not its broker",
        "not asked",
        "topic in doubt",
        "before the claim",
    ],
)
def test_record_of_an_orphan_is_kept_where_its_log_may_be(because: str) -> None:
    """A failed directory may have it, and a broker that restarted may list it later."""
    driver = with_an_orphan()
    match because:
        case "another registration":
            assert not report(driver, LogDir("/a"), broker_epoch=BrokerEpoch(1))
        case "failed directory":
            assert not report(driver, LogDir("/a"), LogDir("/b", is_failed=True))
        case "error":
            assert not report(driver, LogDir("/a"), problem="no")
        case "not its broker":
            assert not report(driver, LogDir("/a"), broker=BrokerId(4))
        case "not asked":
            assert not report(driver, LogDir("/a"), partitions=frozenset({tp(3)}))
        case "before the claim":
            assert not report(driver, LogDir("/a"), at=Instant(driver.now - 1000.0))
        case "topic in doubt":
            driver.view.topics.by_name["t"].invalidate(driver.view.role.read_generation + 1)
            assert not report(driver, LogDir("/a"))


def test_elections_are_requested_so_many_a_second() -> None:
    """Each makes clients look for their leader again."""
    options = Options(engine=delegated().engine, step_size=None, preferred_elections_per_second=2)
    driver = DelegatedDriver({tp(n): (0, 1) for n in range(3)}, options=options)
    submit(driver, submission("request_0000000000", {tp(n): (1, 0) for n in range(3)}))
    elected = [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)]
    assert [len(e) for e in elected] == [2]
    driver.pass_time(1.0)
    elected = [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)]
    assert [len(e) for e in elected] == [2, 1]


def test_elections_that_operators_request_of_a_controller_are_not_ours() -> None:
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
    known = list(driver.view.leadership.states)
    begins = known.index(first[0])
    order = [*known[begins:], *known[:begins]] * 2
    assert [*first, *second, *third] == order[: 3 * ROUND_STATES]


def test_a_round_without_a_known_state_reads_nothing_and_is_repeated() -> None:
    """All topics were created a moment ago: the first states follow."""
    driver = DelegatedDriver({tp(0): (0, 1)})
    submit(driver, submission("request_0000000000", {tp(0): (1, 3)}))
    driver.view.leadership.states.clear()
    now = Instant(driver.now + ROUND_EVERY_S)
    again = Instant(now + ROUND_EVERY_S)
    decision = poll_states(driver.view, Worklist(timer=True), now)
    assert [c.records for c in decision.changes] == [(StatesPolledRecord(again, 0),)]
    assert decision.effects == (SetTimer(ROUND_TIMER, again),)
