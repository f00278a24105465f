"""Atomic requests larger than a chunk: judged once, and again where something changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.cycle import take_due
from controller.core.decide import decide
from controller.core.deletions.records import DeletionsRead
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    RefusalReason,
    RequestId,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.records import SpecRecord, SpecsRead
from controller.core.records import Event
from controller.core.requests.records import (
    AtomicCheckedRecord,
    LegacyPlanRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import Submission
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicConfigsRead, TopicsRead
from tests.core.builders import Driver, broker, plan, replicas, tp
from tests.core.counting_dicts import Looked
from tests.core.requests.test_submitted import outcomes, submission

REQUEST = RequestId("request_0000000001")
CHUNK = 50
LAST = "t3"
"""The topic whose entries are accepted last."""
TOPICS = ("t0", "t1", "t2", LAST)
EACH = 50


def whole() -> tuple[TopicPartition, ...]:
    """Return the partitions of the request, in the order of its entries."""
    return tuple(tp(n, topic) for topic in TOPICS for n in range(EACH))


def entries() -> dict[TopicPartition, tuple[int, ...]]:
    """Return where the request wants them; only what is accepted last leads to broker 4."""
    return {p: (1, 4) if p.topic == LAST else (1, 5) for p in whole()}


def submitted(wanted: Mapping[TopicPartition, Sequence[int]]) -> Driver:
    """Return a cluster where an atomic request of several chunks was just read."""
    driver = Driver(
        dict.fromkeys(whole(), (1, 2, 3)),
        brokers=range(1, 6),
        options=Options(acceptance_chunk=CHUNK, tenure=TenurePolicy.PERMANENT),
    )
    read: Submission = submission(REQUEST, wanted, atomic=True)
    driver.fold(SubmissionsListed(frozenset({read.name})))
    driver.fold(SubmissionsRead({read.name: read}))
    return driver


def turn(driver: Driver) -> None:
    """Decide once and commit that."""
    for change in decide(driver.view, take_due(driver.view), driver.now).changes:
        driver.commit(change)


def accepted_in_part() -> Driver:
    """Return the same with the first chunk accepted, and the others not."""
    driver = submitted(entries())
    while not driver.view.reassignments.by_partition:
        turn(driver)
    assert len(driver.view.reassignments.by_partition) == CHUNK
    return driver


def taken(driver: Driver) -> set[str]:
    """Return the topics of the entries that were ever accepted."""
    specs = (r for c in driver.changes for r in c.records if isinstance(r, SpecRecord))
    return {r.partition.topic for r in specs if r.spec.request == REQUEST}


def read_anew(topic: str, numbers: Iterable[int]) -> TopicsRead:
    """Return a topic znode that was changed from outside."""
    partitions = {n: PartitionAssignment(replicas(1, 2, 3)) for n in numbers}
    return TopicsRead({topic: TopicAssignment(partitions, ZkVersion(1), Zxid(9))})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            BrokersRead({BrokerId(n): broker(n) for n in (1, 2, 3, 5)}),
            RefusalReason.UNKNOWN_BROKER,
        ),
        (DeletionsRead(frozenset({LAST})), RefusalReason.TOPIC_BEING_DELETED),
        (TopicConfigsRead({LAST: TopicConfig(3, False)}), RefusalReason.BELOW_MIN_ISR),  # noqa: FBT003 - as in the builders
        (read_anew(LAST, range(EACH - 1)), RefusalReason.UNKNOWN_PARTITION),
        (TopicsRead({LAST: "not understood"}), RefusalReason.UNREADABLE),
        (TopicsRead({LAST: None}), RefusalReason.UNKNOWN_PARTITION),
        (
            SpecsRead({}, {f"/admin/reassignments/{LAST}/7": "not understood"}),
            RefusalReason.UNREADABLE,
        ),
        (LegacyPlanRead(plan({tp(7, LAST): (1, 5)})), RefusalReason.OTHER_ROUTE),
    ],
    ids=[
        "broker dies",
        "topic is deleted",
        "min.insync.replicas grows",
        "partition is gone",
        "topic cannot be decoded",
        "topic is gone",
        "record cannot be decoded",
        "the legacy plan has it",
    ],
)
def test_what_turns_bad_after_the_whole_was_found_good_refuses_the_whole(
    change: Event, reason: RefusalReason
) -> None:
    """An entry of the last chunk cannot be had: no more are accepted, and none begins."""
    driver = accepted_in_part()
    if isinstance(change, SpecsRead):
        change = SpecsRead(
            {p: r.spec for p, r in driver.view.reassignments.by_partition.items()},
            change.unreadable,
        )
    driver.observe(change)
    # The plan is accepted in a turn of its own, and the next chunk with it.
    assert taken(driver) <= ({"t0", "t1"} if isinstance(change, LegacyPlanRead) else {"t0"})
    assert not any(
        r.spec.request == REQUEST for r in driver.view.reassignments.by_partition.values()
    )
    assert not any(driver.history[p] for p in whole() if p != tp(7, LAST))
    summary = outcomes(driver)[REQUEST]
    assert summary.done == 0
    assert {r.reason for r in summary.refused} == {reason, RefusalReason.ATOMIC}


def test_what_a_client_changes_after_the_whole_was_found_good_is_judged_as_it_stands_now() -> None:
    """Another version of the znode has another entry."""
    driver = accepted_in_part()
    changed = submission(REQUEST, {**entries(), tp(7, LAST): (1, 9)}, atomic=True)
    changed = Submission(
        changed.name,
        changed.entries,
        ZkVersion(1),
        changed.czxid,
        changed.created_ms,
        changed.options,
    )
    driver.observe(SubmissionsRead({changed.name: changed}))
    assert taken(driver) == {"t0"}
    assert driver.view.reassignments.by_partition == {}
    assert outcomes(driver)[REQUEST].done == 0


def test_the_whole_is_judged_once_however_many_chunks_it_is_accepted_in() -> None:
    """An entry is judged with the whole and when it is accepted, not again with each chunk."""
    driver = submitted(entries())
    judged = driver.view.topics.unreadable = Looked(driver.view.topics.unreadable)
    driver.settle()
    assert driver.view.reassignments.by_partition.keys() == set(whole())
    turns = len(whole()) // CHUNK + 2
    assert judged.looked <= 2 * len(whole()) + turns * len(TOPICS)


def test_work_on_a_topic_beside_has_only_its_entries_judged_again() -> None:
    """Other requests go on while a large one is being accepted."""
    driver = accepted_in_part()
    driver.fold(read_anew(LAST, range(EACH + 1)))
    judged = driver.view.topics.unreadable = Looked(driver.view.topics.unreadable)
    turn(driver)
    assert len(driver.view.reassignments.by_partition) == 2 * CHUNK
    assert judged.looked <= EACH + CHUNK + 2 * len(TOPICS)


def test_what_the_whole_was_found_good_by_is_forgotten_with_its_end() -> None:
    """A later request of the name is judged by what is then."""
    driver = submitted(dict.fromkeys(whole(), (1, 2, 3)))
    driver.settle()
    assert REQUEST in outcomes(driver)
    found = [r for c in driver.changes for r in c.records if isinstance(r, AtomicCheckedRecord)]
    assert [r.request for r in found] == [REQUEST]
    assert driver.view.requests_session.atomic_checks == {}
