"""Reading what is kept of requests."""

from __future__ import annotations

from dataclasses import replace

from controller.core.model import BrokerId, RequestId, TopicPartition, Zxid
from controller.core.requests.outcomes import Part
from controller.core.requests.submissions import AcceptedEntry
from controller.zk.event_reads import RecordReads
from controller.zk.session_reads import Reader
from controller.znodes import paths
from controller.znodes.histories import encode_accepted, encode_part
from tests.zk.fakes import FakeClient, connected_session

CANCELLATION = RequestId("cancel-00000000000000ad")
REQUEST = RequestId("request_0000000001")


def _open_parts(client: FakeClient, request: RequestId) -> dict[str, Part]:
    history = RecordReads(Reader(connected_session(client))).history()
    return dict(history.open[request].parts)


def test_a_cancellation_is_known_to_be_chosen() -> None:
    """Its part is named by the version of its znode."""
    client = FakeClient()
    part = Part("0", 0, 17)
    client.put(f"{paths.history_path(CANCELLATION)}/part-0", encode_part(part))
    assert _open_parts(client, CANCELLATION) == {"0": part}


def test_a_part_that_cannot_be_understood_is_known_to_be_there() -> None:
    """Else it would be created again and again, and every time be refused."""
    client = FakeClient()
    client.put(f"{paths.history_path(REQUEST)}/part-{REQUEST}", b"nonsense")
    client.put(f"{paths.history_path(REQUEST)}/part-nobody", b"nonsense")
    assert _open_parts(client, REQUEST) == {REQUEST: Part(REQUEST, 0, 0)}


def test_accepted_entries_are_read_with_the_czxid_of_their_shard() -> None:
    """A cancellation of scope ``all`` does not undo what was completed in a former topic."""
    client = FakeClient()
    entry = AcceptedEntry(TopicPartition("t", 0), (BrokerId(1),), (BrokerId(2),))
    path = paths.shard_path(REQUEST, paths.Shard("accepted", 7, 0, 1))
    client.put(path, encode_accepted([entry]))
    read = RecordReads(Reader(connected_session(client))).accepted_of(REQUEST)
    assert read.entries == (replace(entry, recorded_in=Zxid(client.nodes[path][1].czxid)),)
