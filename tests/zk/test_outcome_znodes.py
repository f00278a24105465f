"""Reading what is kept of requests."""

from __future__ import annotations

from controller.core.model import RequestId
from controller.core.outcomes import Part
from controller.zk.outcome_znodes import OutcomeZnodes
from controller.zk.readers import Reader
from controller.znodes import paths
from controller.znodes.outcome_parts import encode_part
from tests.zk.fakes import FakeClient, connected_session

CANCELLATION = RequestId("cancel-00000000000000ad")
REQUEST = RequestId("request_0000000001")


def _open_parts(client: FakeClient, request: RequestId) -> dict[str, Part]:
    history = OutcomeZnodes(Reader(connected_session(client))).history()
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
