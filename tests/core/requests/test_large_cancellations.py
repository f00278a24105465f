"""The cost of cancellations of very many partitions: a cycle examines only those that are left."""

from __future__ import annotations

from controller.core.core_settings import Options
from controller.core.model import OutcomeKind, RequestId, ZkVersion, Zxid
from controller.core.records import Decision
from controller.core.requests.cancellation import follow_cancellation
from controller.core.requests.records import AcceptedRead, CancellationRead
from controller.core.requests.submissions import AcceptedEntry, Cancellation, CancelScope
from controller.core.requests.undo import undo_finished
from tests.core.builders import Driver, replicas, tp
from tests.core.counting_dicts import Looked, watch_reassignments
from tests.core.requests.test_submitted import outcomes, submission, submit

NAME = RequestId("request_0000000000")
COUNT = 30
ALL_AT_ONCE = Options(
    max_partitions_in_flight=COUNT, max_incoming_per_broker=COUNT, max_outgoing_per_broker=COUNT
)


def moving() -> Driver:
    """Return a request whose partitions are all being copied."""
    driver = Driver({tp(n): (0, 1) for n in range(COUNT)}, options=ALL_AT_ONCE)
    submit(driver, submission(NAME, {tp(n): (0, 2) for n in range(COUNT)}))
    assert driver.view.pacing.in_flight == COUNT
    return driver


def test_whether_anything_is_on_its_way_back_is_known_without_looking_for_it() -> None:
    """The one that is cancelled may be the last of 100,000, and every turn asks."""
    driver = moving()
    driver.acknowledges = False
    driver.observe(
        CancellationRead(Cancellation(ZkVersion(0), Zxid(100), 0, partitions=frozenset({tp(29)})))
    )
    reassignments = watch_reassignments(driver.view)
    assert follow_cancellation(driver.view, driver.now) == Decision()
    assert reassignments.walked == 0
    driver.acknowledges = True
    driver.acknowledge(tp(29), replicas(0, 1, 2))
    driver.settle()
    driver.run(tp(29))
    assert driver.view.requests.cancellation is None
    assert len(driver.view.reassignments.by_partition) == COUNT - 1


def test_what_became_of_each_partition_is_kept_no_longer_than_it_is_added_up() -> None:
    """A plan may end while the cancellation that counts what it stopped leads others back."""
    driver = Driver({tp(n): (0, 1) for n in range(COUNT)}, options=ALL_AT_ONCE)
    driver.submit({tp(n): (0, 2) for n in range(10)})
    submit(driver, submission(NAME, {tp(n): (0, 2) for n in range(10, COUNT)}))
    driver.acknowledges = False
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(100), 0)))
    driver.acknowledges = True
    for n in range(COUNT):
        if n == 10:
            (plan_ended,) = outcomes(driver).values()
            assert (plan_ended.kind, driver.view.requests.cancellation is None) == ("legacy", False)
        driver.acknowledge(tp(n), replicas(0, 1, 2))
        driver.settle()
        driver.run(tp(n))
    fates = {s.kind: s.fates for s in outcomes(driver).values()}
    assert fates == {
        "legacy": {OutcomeKind.ROLLED_BACK: 10},
        "request": {OutcomeKind.ROLLED_BACK: COUNT - 10},
        "cancel": {OutcomeKind.ROLLED_BACK: COUNT},
    }
    requests = {r.kind: r for r in driver.view.requests.by_id.values()}
    assert requests["request"].fates == fates["request"]
    assert not any(r.endings for r in requests.values())


def test_what_goes_back_already_is_not_gathered_again_for_the_next_chunk() -> None:
    """Else undoing a large request would cost its square."""
    driver = moving()
    for n in range(COUNT):
        driver.run(tp(n))
    read = Cancellation(
        ZkVersion(0), Zxid(100), 0, requests=frozenset({NAME}), scope=CancelScope.ALL
    )
    driver.observe(CancellationRead(read))
    driver.acknowledges = False
    entries = (AcceptedEntry(tp(n), replicas(0, 1), replicas(0, 2)) for n in range(COUNT))
    driver.observe(AcceptedRead(NAME, tuple(entries)))
    request = driver.view.requests.by_id[NAME]
    assert all(
        r.spec.target == replicas(0, 1) for r in driver.view.reassignments.by_partition.values()
    )
    gathered = request.endings = Looked(request.endings)
    assert undo_finished(driver.view, read, COUNT, driver.now) == ([], (), True)
    assert gathered.looked == 0
