"""Sessions: order, suspension and expiry as a client sees them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.schedule import Schedule
from tests.sim.seeds import seeds
from tests.sim.sessions import SimSession
from tests.sim.zookeeper import NO_SESSION, Make, Put, SimZooKeeper


class _Bench:
    """A server, a session, and the messages that its client received."""

    def __init__(self, seed: int = 1, timeout_s: float = 10.0) -> None:
        self.schedule = Schedule(seed)
        self.zookeeper = SimZooKeeper()
        self.zookeeper.transact(NO_SESSION, [Make("/a", b"0")])
        self.heard: list[str] = []
        self.session = SimSession(
            self.zookeeper,
            self.schedule,
            timeout_s=timeout_s,
            expired=lambda: self.heard.append("expired"),
        )

    def read(self) -> Callable[[], None]:
        znode = self.zookeeper.get("/a", self.session.watch("a", lambda: self.heard.append("!")))
        text = "" if znode is None else znode.data.decode()
        return lambda: self.heard.append(text)

    def run(self, seconds: float = 1.0) -> list[str]:
        end = self.schedule.now() + seconds
        while (at := self.schedule.next_at()) is not None and at <= end:
            self.schedule.step()
        self.schedule.skip_to(end)
        return self.heard


@pytest.mark.parametrize("seed", seeds(range(20), first=5))
def test_a_client_hears_things_in_the_servers_order(seed: int) -> None:
    """An answer, the watch that it set and the next answer arrive in this order."""
    bench = _Bench(seed)
    bench.session.send(bench.read)
    bench.run()
    bench.zookeeper.transact(NO_SESSION, [Put("/a", b"1")])
    bench.session.send(bench.read)
    assert bench.run() == ["0", "!", "1"]


@pytest.mark.parametrize("seed", seeds(range(20), first=5))
def test_requests_are_answered_after_a_suspension(seed: int) -> None:
    """A request under way is repeated, and shows the znodes at that time."""
    bench = _Bench(seed)
    bench.session.send(bench.read)
    bench.run(seconds=bench.schedule.random.uniform(0.0, 0.007))
    was_heard = list(bench.heard)
    bench.session.suspend()
    bench.zookeeper.transact(NO_SESSION, [Put("/a", b"1")])
    assert bench.run() == was_heard
    bench.session.resume()
    heard = bench.run()
    assert [h for h in heard if h != "!"] == (["0"] if was_heard else ["1"])


def test_every_watch_fires_when_the_connection_is_back() -> None:
    """Missed events are unknown, so everything has to be read again."""
    bench = _Bench()
    bench.session.send(bench.read)
    bench.run()
    bench.session.suspend()
    bench.run()
    bench.session.resume()
    assert bench.run() == ["0", "!"]


def test_a_session_suspended_for_too_long_expires() -> None:
    """The client learns of it when it is connected again, and hears nothing else."""
    bench = _Bench(timeout_s=3.0)
    bench.session.send(bench.read)
    bench.run()
    bench.session.suspend()
    assert bench.run(4.0) == ["0"]
    assert not bench.session.is_open
    bench.session.resume()
    assert bench.run(2.0) == ["0", "expired"]


def test_a_suspension_within_the_timeout_is_survived() -> None:
    """A second suspension starts a new timeout."""
    bench = _Bench(timeout_s=3.0)
    for _ in range(3):
        bench.session.suspend()
        bench.run(2.0)
        bench.session.resume()
        bench.run(0.5)
    assert bench.session.is_open
    assert "expired" not in bench.heard


def test_expiry_is_noticed_late_and_once() -> None:
    """Until then the client believes that its session exists."""
    bench = _Bench()
    bench.session.expire()
    assert not bench.session.is_open
    assert bench.heard == []
    bench.session.expire()
    assert bench.run(2.0) == ["expired"]


def test_an_abandoned_session_lasts_until_its_timeout() -> None:
    """A killed client's ephemerals stay for so long, and it hears nothing more."""
    bench = _Bench(timeout_s=3.0)
    bench.zookeeper.transact(bench.session.id, [Make("/e", ephemeral=True)])
    bench.session.send(bench.read)
    bench.session.abandon()
    bench.run(2.9)
    assert bench.zookeeper.get("/e") is not None
    assert bench.run(0.2) == []
    assert bench.zookeeper.get("/e") is None
