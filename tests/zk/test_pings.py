"""The response time of ZooKeeper is measured, also without writes."""

from __future__ import annotations

import queue

from kazoo.exceptions import ConnectionLoss

from controller.zk.workers import Pings
from controller.znodes import paths
from tests.zk.fakes import WITHIN_S, FakeClient, connected_session


def test_ping_is_timed_again_and_again() -> None:
    """Each response is reported with its seconds; a failure is left to the session."""
    client, answers = FakeClient(), queue.Queue[tuple[str, float]]()
    pings = Pings(
        connected_session(client), lambda what, took: answers.put((what, took)), every_s=0.001
    )
    client.put(paths.BROKER_IDS, b"")
    client.failures.append(ConnectionLoss())
    pings.start()
    try:
        found = [answers.get(timeout=WITHIN_S) for _ in range(3)]
    finally:
        pings.stop()
    assert not pings.is_alive
    assert not client.failures
    assert {what for what, _ in found} == {"ping"}
    assert all(0 <= took < WITHIN_S for _, took in found)
