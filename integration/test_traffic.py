"""The proof that nothing was lost can fail, and does not fail for what the client did itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka.record.default_records import DefaultRecordBatchBuilder

from integration.rigs.audits import UNKNOWN_OFFSET, Record, audit, read_everything, record_of
from integration.rigs.cluster import QUIET
from integration.rigs.mock_brokers import MockBroker, NoMockBrokerError
from integration.rigs.replica_logs import Batch, ReplicaLog
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

FIRST, SECOND = Record("t", 0, 0, 10), Record("t", 0, 1, 11)
REFUSED: Final = KafkaError.NOT_ENOUGH_REPLICAS
"""As while the ISR is too small; a broker that does not know yet that it leads refuses as well."""
PARTITIONS: Final = 6

pytestmark = pytest.mark.acceptance


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    """Give a broker that refuses on request."""
    try:
        with MockBroker.running("t", PARTITIONS) as broker:
            yield broker
    except NoMockBrokerError as error:
        pytest.skip(str(error))


def test_what_is_where_it_was_acknowledged_is_clean() -> None:
    """Unacknowledged records may be there, too."""
    found = audit([FIRST], [FIRST, SECOND])
    assert found.is_clean
    assert (found.acknowledged, found.readable) == (1, 2)


def test_what_is_elsewhere_or_gone_is_missing() -> None:
    """The offset is part of what was acknowledged."""
    moved = FIRST._replace(offset=7)
    assert audit([FIRST, SECOND], [moved]).missing == (FIRST, SECOND)


def test_what_was_acknowledged_without_an_offset_may_be_anywhere_in_its_partition() -> None:
    """The client concluded it from the acknowledgement of a later batch, which has one."""
    unacknowledged = FIRST._replace(offset=UNKNOWN_OFFSET)
    assert audit([unacknowledged], [FIRST]).is_clean
    assert audit([unacknowledged], [SECOND]).missing == (unacknowledged,)
    assert audit([unacknowledged], [FIRST._replace(partition=1)]).missing == (unacknowledged,)


def test_what_is_there_twice_is_excused_only_by_a_new_epoch_of_the_producer() -> None:
    """Then what was in flight is sent again under another number."""
    again = FIRST._replace(offset=1)
    assert not audit([FIRST], [FIRST, again]).is_clean
    assert audit([FIRST], [FIRST, again], restarts=1).is_clean
    assert not audit([FIRST], [FIRST, again], restarts=1).is_exact
    assert not audit([FIRST, SECOND], [FIRST, again], restarts=1).is_clean


def test_an_idempotent_producer_can_lose_its_first_records_and_say_that_they_are_there(
    broker: MockBroker,
) -> None:
    """
    Why ``Traffic`` begins each partition with a single record (KAFKA-15591).

    The first batch is refused, the second is in flight and taken; the client takes that for an
    acknowledgement of both. Once this fails, the client was corrected.
    """
    acknowledged: list[Record] = []
    in_flight: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        acknowledged.append(record_of(message, default_offset=UNKNOWN_OFFSET))

    def on_statistics(statistics: str) -> None:
        for of_topic in json.loads(statistics)["topics"].values():
            in_flight.extend(of["msgs_inflight"] for of in of_topic["partitions"].values())

    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "statistics.interval.ms": 100,
            "stats_cb": on_statistics,
            **QUIET,
        }
    )

    def first_batch_is_sent() -> bool:
        producer.poll(0.05)
        return 2 in in_flight

    broker.refuse_produce_requests(1, REFUSED, after_ms=3000)
    for key in (0, 1):
        producer.produce("t", b"x", str(key), 0, on_delivery=on_delivery)
    eventually(first_batch_is_sent, within_s=20, every_s=0)
    producer.produce("t", b"x", "2", 0, on_delivery=on_delivery)
    assert producer.flush(20) == 0
    nowhere = (Record("t", 0, UNKNOWN_OFFSET, 0), Record("t", 0, UNKNOWN_OFFSET, 1))
    assert acknowledged == [*nowhere, Record("t", 0, 0, 2)]
    readable = read_everything(broker.address, {"t": 1})
    assert audit(acknowledged, readable).missing == nowhere


def test_traffic_does_not_lose_its_first_records_where_they_are_refused_at_first(
    broker: MockBroker,
) -> None:
    """At this rate a partition has one or two records when the client may begin to send."""
    broker.refuse_produce_requests(PARTITIONS, REFUSED, after_ms=900)
    with Traffic(broker.address, {"t": PARTITIONS}, records_per_s=24) as traffic:
        traffic.await_flow(within_s=30)
        traffic.stop()
    assert traffic.failed == {}
    found = traffic.audited()
    assert found.is_exact, str(found)
    assert found.acknowledged == found.readable > 0
    assert found.evidence == ()


def test_a_new_epoch_in_the_last_second_is_counted(broker: MockBroker) -> None:
    """The client counts epochs once a second, and what began it may send records twice."""
    with Traffic(broker.address, {"t": PARTITIONS}) as traffic:
        traffic.await_flow(within_s=30)
        assert traffic.restarts == 0
        broker.refuse_produce_requests(1, KafkaError.UNKNOWN_PRODUCER_ID, after_ms=0)
        traffic.stop()
    found = traffic.audited()
    assert found.restarts == 1
    assert found.evidence == ()


def test_what_is_there_twice_is_reported_with_what_everyone_knows_of_it(
    broker: MockBroker,
) -> None:
    """Another producer wrote the same keys: no epoch of this one explains them."""
    with Traffic(broker.address, {"t": PARTITIONS}) as traffic:
        traffic.await_flow(within_s=30)
        traffic.stop()
    again = Producer({"bootstrap.servers": broker.address, **QUIET})
    again.produce("t", b"x", "2", 2)
    assert again.flush(20) == 0
    found = traffic.audited()
    assert [(record.partition, record.key) for record in found.duplicates] == [(2, 2)]
    report = str(found)
    for expected in ("t-2: 1 of ", "leaders of the client: 1 from ", "leader 1, replicas [1]"):
        assert expected in report, report


def test_what_is_missing_is_reported_with_what_everyone_knows_of_it(broker: MockBroker) -> None:
    """The acknowledgements, the client, the reader, the cluster; keys go on after another's."""
    first_key = 600
    with Traffic(broker.address, {"t": PARTITIONS}, first_key=first_key) as traffic:
        eventually(lambda: len(traffic.acknowledged) > 1000, within_s=30)
        traffic.stop()
    broker.delete_records(4, before=2)
    found = traffic.audited()
    lost = [record for record in traffic.acknowledged if record.partition == 4][:2]
    assert [record.offset for record in lost] == [0, 1]
    assert lost[0].key == first_key + 4
    assert found.missing == tuple(lost)
    report = str(found)
    for expected in (
        "t-4: 2 of ",
        f"key {lost[0].key}: 0, acknowledged ",
        f"key {lost[1].key}: 1, acknowledged ",
        "leaders of the client: 1 from ",
        "the reader was given offsets 2 to ",
        "t [4] changed PID{Invalid} -> ",
        "leader 1, replicas [1], ISR [1]",
    ):
        assert expected in report, report


def test_a_replicas_log_shows_what_a_producer_skipped(tmp_path: Path) -> None:
    """The first batch begins at sequence 2: the leader never had 0 and 1."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{3:020}.log").write_bytes(
        _batch(3, sequence=2, keys=(b"4", b"10")) + _batch(7, sequence=4, keys=(b"16",))
    )
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 3\n5 7\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    log = ReplicaLog.read(directory, {10, 22})
    assert log.start_offset == 4
    assert log.high_watermark is None
    assert log.leader_epochs == ((0, 3), (5, 7))
    assert log.batches == (Batch(3, 4, 0, 9, 1, 2, 3), Batch(7, 7, 0, 9, 1, 4, 4))
    assert log.offsets == {10: 4}
    assert list(log.gaps()) == [
        (
            "before offset 3 sequence 0 of producer 9 epoch 1 was due, and 2 came: "
            "its first batch is not there"
        ),
        "offsets 5 to 6 are in no batch",
    ]
    assert list(log.describe({10: 4, 22: 5}))[-1] == "keys: 10 at 4, 22 nowhere"


def _batch(base_offset: int, *, sequence: int, keys: tuple[bytes, ...]) -> bytes:
    """Return a batch as brokers store it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=9,
        producer_epoch=1,
        base_sequence=sequence,
        batch_size=1000,
    )
    for n, key in enumerate(keys):
        builder.append(n, timestamp=1, key=key, value=b"x", headers=[])
    return base_offset.to_bytes(8, "big") + bytes(builder.build())[8:]
