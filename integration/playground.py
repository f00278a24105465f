"""
``make cluster``: a real ZooKeeper and five brokers with some data, until Ctrl-C.

For trying the commands by hand where there is no Docker. Runs no daemon: starting one is the first
thing to try. Everything is on this machine's loopback interface and gone at the end.
``build/cluster.env`` has what a shell exports to find commands and cluster.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from integration.demo import TOPICS, preload, spread
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.kafka_jars import JarsUnavailableError, jars_directory
from integration.rigs.processes import exit_on_sigterm
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import GaveUpError

RACKS: Final = ("a", "b", "c")
ROOT: Final = Path(__file__).resolve().parent.parent
EXPORTS: Final = ROOT / "build" / "cluster.env"

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Bring the cluster up, say where it is, and wait."""
    parser = argparse.ArgumentParser(prog="python -m integration.playground")
    parser.add_argument(
        "--protocol",
        default="2.6",
        help="inter-broker protocol: 2.6 is for the native engine, 3.9 for the delegated one",
    )
    requested = parser.parse_args()
    exit_on_sigterm()
    broker = replace(BrokerOptions(), inter_broker_protocol=requested.protocol)
    try:
        jars_directory(report=lambda text: console.print(f"Kafka's jars: {text}"))
        console.print("starting ZooKeeper and five brokers")
        with Cluster.running(ClusterOptions(racks=RACKS, broker=broker)) as cluster:
            for topic, partitions in spread(TOPICS, tuple(cluster.brokers)).items():
                cluster.create_topic(topic, partitions, {"min.insync.replicas": "2"})
            preload(cluster, console.print)
            _write_exports(cluster)
            console.print(_welcome(cluster))
            try:
                with suppress(KeyboardInterrupt):
                    signal.pause()
            finally:
                EXPORTS.unlink(missing_ok=True)
    except KeyboardInterrupt:
        console.print("interrupted")
    except (JarsUnavailableError, GaveUpError) as error:
        console.print(f"[red]the cluster did not come up:[/] {error}")
        return 1
    return 0


def _write_exports(cluster: Cluster) -> None:
    """Write what another terminal sources."""
    path = f"{Path(sys.executable).parent}{os.pathsep}$PATH"
    EXPORTS.parent.mkdir(exist_ok=True)
    EXPORTS.write_text(
        f'export PATH="{path}"\n'
        f"export REASSIGNER_ZOOKEEPER={shlex.quote(cluster.zookeeper_connect)}\n",
        encoding="utf-8",
    )


def _welcome(cluster: Cluster) -> str:
    topics = ", ".join(f"{name} ({count} partitions)" for name, count in TOPICS.items())
    return f"""
brokers   {cluster.bootstrap_servers}
topics    {topics}; three replicas each
logs      {cluster.directory}

In another terminal, in this directory:

  . {EXPORTS.relative_to(ROOT)}
  reassigner run --journal-dir build/journal

The variable REASSIGNER_ZOOKEEPER is then {cluster.zookeeper_connect}.

Ctrl-C here ends the cluster and removes its data."""


if __name__ == "__main__":
    sys.exit(main())
