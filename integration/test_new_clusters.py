"""A daemon that is started before the first broker of a new cluster waits for it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.plans import Daemons, Targets, await_end
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.scratch_directories import scratch_directory
from integration.rigs.waiting import eventually

ROWS: Final = (
    Row("native", KAFKA_3_9, "2.6"),
    Row("native", KAFKA_3_9, None, wanted="native", endpoint=True),
    Row("delegated", KAFKA_3_9, None),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_daemon_waits_for_the_brokers_of_a_new_cluster(row: Row, tmp_path: Path) -> None:
    """It says what is missing, creates nothing, and carries plans out when brokers are there."""
    with ExitStack() as cleaning:
        cluster = Cluster(cleaning.enter_context(scratch_directory()), row.options)
        cleaning.callback(cluster.close)
        cluster.daemon_options = row.arguments
        cluster.start_zookeepers()
        daemons = Daemons(cluster, tmp_path)
        daemon = daemons.make()
        cleaning.callback(daemon.port.close)
        cleaning.callback(daemon.kill)
        daemon.spawn()

        def is_awaited(what: str) -> bool:
            try:
                code, text = daemon.get("/readyz")
            except OSError:
                return False
            return code == 503 and what in text

        eventually(lambda: is_awaited("the chroot /kafka"), within_s=30)
        cluster.zookeeper.make_path("/kafka")
        cluster.zk.start(timeout=30)
        eventually(lambda: is_awaited("/brokers/ids"), within_s=30)
        assert cluster.zk.get_children("/") == []
        cluster.start()
        daemon.await_ready()
        topic = cluster.create_topic("first", {0: (1, 2), 1: (2, 3)})
        targets: Targets = {(topic, 0): (3, 4), (topic, 1): (5, 1)}
        request = submit_request(cluster, targets)
        await_end(cluster, targets, within_s=90)
        assert await_outcome(cluster, request, within_s=30)["done"] == 2
        assert daemon.is_alive
        daemons.close()
