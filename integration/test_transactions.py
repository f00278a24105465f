"""ZooKeeper's history as it is read from disk: all that ever stood, and nothing else."""

from __future__ import annotations

import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from integration.rigs.servers import ZooKeeperServer
from integration.rigs.transaction_log import writes_of


def test_what_stood_is_read_in_its_order_over_a_restart(zookeeper: ZooKeeperServer) -> None:
    """A new server begins a new file; the parts of a multi share their zxid."""
    chroot = f"/history-{uuid.uuid4().hex[:8]}"
    client = KazooClient(zookeeper.address, timeout=10.0)
    client.start(timeout=30)
    client.create(chroot)
    client.create(f"{chroot}/a", b"1")
    zookeeper.kill()
    zookeeper.start()
    multi = client.transaction()
    multi.set_data(f"{chroot}/a", b"2")
    multi.delete(f"{chroot}/a")
    assert multi.commit()[1] is True
    client.stop()
    history = writes_of([zookeeper], chroot)
    assert [(write.path, write.data) for write in history] == [
        ("/a", b"1"),
        ("/a", b"2"),
        ("/a", None),
    ]
    assert history[0].zxid < history[1].zxid == history[2].zxid
    client.close()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_multi_that_failed_never_stood(zookeeper: ZooKeeperServer, failing: int) -> None:
    """Not even those of its parts that come before the one that failed."""
    chroot = f"/history-{uuid.uuid4().hex[:8]}"
    client = KazooClient(zookeeper.address, timeout=10.0)
    client.start(timeout=30)
    client.create(chroot)
    client.create(f"{chroot}/a", b"1")
    multi = client.transaction()
    for part in range(3):
        multi.set_data(f"{chroot}/nowhere" if part == failing else f"{chroot}/a", b"2")
    assert isinstance(multi.commit()[failing], NoNodeError)
    client.stop()
    client.close()
    assert [write.data for write in writes_of([zookeeper], chroot)] == [b"1"]
