"""The explorer's ZooKeeper does what the simulator's does, and copies share nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.explore import production as p
from tests.explore.zookeeper import ZooKeeper
from tests.sim.zookeeper import SimZooKeeper, Watch

PATHS = ("/a", "/a/b", "/a/c", "/d")


class Client:
    """A session of the simulator that only notes which watches fired."""

    def __init__(self, session: int) -> None:
        self.id = session
        self.heard: list[str] = []

    def notify(self, callback: Callable[[], None]) -> None:
        """Note a watch."""
        callback()


def operation(chance: Random) -> p.AnyOperation:
    """Return any operation."""
    path, version = chance.choice(PATHS), p.ZkVersion(chance.choice((-1, 0, 0, 1, 2)))
    return chance.choice(
        (
            p.Make(path, b"x", ephemeral=chance.random() < 0.3),
            p.Make(f"{path}/s", b"x", sequential=True),
            p.SetData(path, b"y", version),
            p.Delete(path, version),
            p.Delete(path, None),
            p.Check(path, version),
            p.Put(path, b"z"),
        )
    )


@pytest.mark.parametrize("seed", range(30))
def test_a_multi_does_what_it_does_in_the_simulator(seed: int) -> None:
    """Results, contents, versions, children and fired watches are the same."""
    chance = Random(seed)
    ours, theirs = ZooKeeper(), SimZooKeeper()
    session, client = ours.open_session(), Client(theirs.open_session())
    for _ in range(60):
        watched = chance.choice(PATHS)
        if chance.random() < 0.5:
            ours.exists(watched, (session, "w"))
            theirs.exists(watched, Watch(client, "w", lambda w=watched: client.heard.append(w)))  # type: ignore[misc]
        multi = [operation(chance) for _ in range(chance.randint(1, 3))]
        outcomes: list[object] = []
        for zookeeper, owner in ((ours, session), (theirs, client.id)):
            try:
                outcomes.append(zookeeper.transact(owner, multi))
            except p.TransactionFailedError as error:
                outcomes.append((error.index, error.error))
        assert outcomes[0] == outcomes[1]
        for path in PATHS:
            one, other = ours.get(path), theirs.get(path)
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert (one.data, one.version) == (other.data, other.version)
                assert (one.ephemeral_owner == session) == (other.ephemeral_owner == client.id)
                assert set(one.children) == set(theirs.children(path) or ())
        assert sorted(w.path for w in ours.fired) == sorted(client.heard)
        ours.fired.clear()
        client.heard.clear()


def test_a_copy_is_independent() -> None:
    """A write to one does not show in the other."""
    zookeeper = ZooKeeper()
    zookeeper.ensure("/a", b"1")
    copy = zookeeper.copy()
    copy.put("/a", b"2")
    copy.exists("/b", (1, "w"))
    node = zookeeper.get("/a")
    assert node is not None
    assert node.data == b"1"
    assert not zookeeper.watches
