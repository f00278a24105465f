"""Znodes that ZooKeeper refuses to show: reported as such, and nothing else waits for them."""

from __future__ import annotations

import pytest
from kazoo.exceptions import SystemZookeeperError

from controller.core.disks.records import LogDirEventsRead
from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.core.reassignments.records import SpecsRead
from controller.core.requests.outcomes import Part
from controller.core.requests.records import HistoryRead
from controller.core.role.records import BrokersRead
from controller.reactor.ports import ZnodeFamily
from controller.zk.event_reads import RecordReads
from controller.zk.readers import ANY_VERSION
from controller.zk.request_znodes import RequestZnodes
from controller.zk.session_reads import Reader, watch
from controller.zk.watches import read_level
from controller.znodes import paths
from controller.znodes.histories import encode_part
from tests.zk.fakes import FakeClient, connected_session

WHY = "ZooKeeper does not show it: NoAuthError"
REQUESTS = [RequestId(f"request_000000000{n}") for n in (1, 2)]


@pytest.fixture
def client() -> FakeClient:
    """Give a client that was refused nothing yet."""
    return FakeClient()


@pytest.fixture
def reader(client: FakeClient) -> Reader:
    """Give what reads through it."""
    return Reader(connected_session(client))


def _read(reader: Reader, znode: ZnodeFamily) -> object:
    return read_level(reader, znode, watch(lambda: None))


def test_a_request_that_is_hidden_holds_up_no_other(client: FakeClient, reader: Reader) -> None:
    """Its stat, which ZooKeeper does show, suffices to delete it."""
    hidden, shown = (paths.submission_path(name) for name in REQUESTS)
    for path in (hidden, hidden, shown):
        client.put(path, b'{"version":1,"assignments":{"t":{"0":[1]}}}')
    client.hidden.add(hidden)
    first, second = RequestZnodes(reader).submissions(REQUESTS).values()
    assert first is not None
    assert second is not None
    assert (first.unreadable, first.version, first.czxid) == (WHY, 1, 1)
    assert second.entries.keys() == {TopicPartition("t", 0)}


def test_a_request_with_a_hidden_version_is_refused_too(client: FakeClient, reader: Reader) -> None:
    """Some servers ask for permission before they say that something exists."""
    path = paths.submission_path(REQUESTS[0])
    client.put(path, b"")
    client.hidden.add(path)
    client.mute.add(path)
    client.last_zxid = 9
    (read,) = RequestZnodes(reader).submissions(REQUESTS[:1]).values()
    assert read is not None
    assert (read.unreadable, read.version, read.czxid) == (WHY, ANY_VERSION, 9)


def test_a_hidden_request_that_went_meanwhile_is_gone(client: FakeClient, reader: Reader) -> None:
    """Its client took it back."""
    client.hidden.add(paths.submission_path(REQUESTS[0]))
    assert RequestZnodes(reader).submissions(REQUESTS[:1]) == {REQUESTS[0]: None}


def test_a_fault_of_the_server_is_no_answer(client: FakeClient, reader: Reader) -> None:
    """A request is refused for what it is, not for what befell who read it."""
    client.put(paths.submission_path(REQUESTS[0]), b"")
    client.failures.append(SystemZookeeperError())
    with pytest.raises(SystemZookeeperError):
        RequestZnodes(reader).submissions(REQUESTS[:1])


def test_a_hidden_registration_is_a_live_broker(client: FakeClient, reader: Reader) -> None:
    """It counts as one that forbids being its controller, and its change is heard of."""
    path = paths.broker_path(BrokerId(1))
    client.put(path, b"")
    client.hidden.add(path)
    read = _read(reader, ZnodeFamily.BROKERS)
    assert isinstance(read, BrokersRead)
    assert read.brokers[BrokerId(1)].has_features
    assert client.watches[path]
    client.mute.add(path)
    client.last_zxid = 9
    mute = _read(reader, ZnodeFamily.BROKERS)
    client.last_zxid = 10
    assert _read(reader, ZnodeFamily.BROKERS) == mute, "it did not register anew"


def test_a_hidden_directory_of_records_is_reported_as_unreadable(
    client: FakeClient, reader: Reader
) -> None:
    """What is in it is not known, which is not the same as nothing."""
    client.put(paths.reassignment_path(TopicPartition("t", 0)), b"")
    client.hidden.add(paths.reassignment_topic_path("t"))
    assert _read(reader, ZnodeFamily.SPECS) == SpecsRead(
        {}, {paths.reassignment_topic_path("t"): WHY}
    )


def test_a_hidden_history_holds_up_no_other(client: FakeClient, reader: Reader) -> None:
    """The request it is of cannot be begun anew: its name is taken."""
    for request in REQUESTS:
        client.put(paths.part_path(request, request), encode_part(Part(request, 1, 7)))
    client.hidden.add(paths.history_path(REQUESTS[0]))
    read = RecordReads(reader).history()
    assert isinstance(read, HistoryRead)
    assert read.open.keys() == {REQUESTS[1]}


def test_hidden_notifications_are_listed(client: FakeClient, reader: Reader) -> None:
    """So that they can be deleted."""
    for name in ("a", "b"):
        client.put(f"{paths.LOG_DIR_EVENTS}/{name}", b'{"version":1,"broker":3,"event":1}')
    client.hidden.add(f"{paths.LOG_DIR_EVENTS}/a")
    read = _read(reader, ZnodeFamily.LOG_DIR_EVENTS)
    assert read == LogDirEventsRead(("a", "b"), frozenset({BrokerId(3)}))
