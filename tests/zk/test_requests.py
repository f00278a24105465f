"""Reading what operators ask for."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.protocol.states import WatchedEvent

from controller.core.events import CancellationRead
from controller.zk.readers import Reader, watch
from controller.zk.requests import Requests
from controller.znodes import paths
from tests.zk.fakes import Answered, FakeClient, connected_session

FIRST, SECOND = "request_0000000001", "request_0000000002"


def _cancellation(client: FakeClient) -> CancellationRead:
    requests = Requests(Reader(connected_session(client)))
    return requests.cancellation(watch(lambda: None))


class _Overtaken(FakeClient):
    """A ZooKeeper in which a request is written just before the first znode is read."""

    def get_async(self, path: str, watch: Callable[[WatchedEvent], None] | None = None) -> Answered:
        """Write it and answer."""
        self.put(paths.submission_path(SECOND), b"")
        return super().get_async(path, watch)


def test_the_requests_are_listed_after_the_cancellation_was_read() -> None:
    """A list from before could lack a request that is older than the cancellation."""
    client = _Overtaken()
    client.put(paths.submission_path(FIRST), b"")
    client.put(f"{paths.REQUESTS}/other", b"")
    client.put(paths.CANCEL, b"")
    assert _cancellation(client).listed == frozenset({FIRST, SECOND})


def test_a_cancellation_without_any_request_is_read_as_such() -> None:
    """Nobody made their directory yet."""
    client = FakeClient()
    client.put(paths.CANCEL, b"")
    read = _cancellation(client)
    assert read.cancellation is not None
    assert read.listed == frozenset()
