"""
A move that is slow enough to be looked at: data on real brokers, a throttle, the daemon's page.

Run as a program it makes the picture of the documentation:
``python -m integration.shown_moves docs/images/status-page.png``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from integration.rigs.browsers import Browser
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import Daemons
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually

RECORD_BYTES: Final = 100_000
RECORDS: Final = 60
THROTTLE: Final = 400_000
"""Bytes per second and broker."""
TOKEN: Final = "a token for tests only"  # noqa: S105 - of a cluster that lives for minutes


def write(cluster: Cluster, topic: str, partitions: int, *, records: int = RECORDS) -> int:
    """Write the same into every partition; return how many bytes of values that were for each."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for partition in range(partitions):
        for _ in range(records):
            producer.produce(topic, b"x" * RECORD_BYTES, partition=partition)
        producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{left} records are not written"
    return records * RECORD_BYTES


def status_of_request(daemon: Daemon, request: str) -> Mapping[str, Any]:
    """Return what ``/status`` says of a request."""
    found = [r for r in daemon.status()["requests"] if r["id"] == request]
    return found[0] if found else {"state": "unknown", "bytes": None, "eta_s": None}


def await_request(
    daemon: Daemon, request: str, is_so: Callable[[Mapping[str, Any]], bool], *, within_s: float
) -> Mapping[str, Any]:
    """Wait until what ``/status`` says of a request is as wanted; return it."""
    latest: dict[str, Mapping[str, Any]] = {}

    def looks() -> bool:
        latest["shown"] = status_of_request(daemon, request)
        return is_so(latest["shown"])

    eventually(
        looks,
        within_s=within_s,
        every_s=0.5,
        what=lambda: f"request {request} is as wanted; it is {latest.get('shown')}",
        tolerating=(OSError,),
    )
    return latest["shown"]


def configured(directory: Path, **settings: object) -> tuple[str, str]:
    """Write a configuration file; return the options that name it."""
    path = directory / "reassigner.toml"
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items()))
    return ("--config", str(path))


def main() -> None:
    """Make the picture."""
    picture = Path(sys.argv[1]).resolve()
    picture.parent.mkdir(parents=True, exist_ok=True)
    browser = Browser.found()
    if browser is None:
        raise SystemExit("there is no headless Chromium")
    with Cluster.running() as cluster, tempfile.TemporaryDirectory() as name:
        daemons = Daemons(cluster, Path(name))
        try:
            _portray(cluster, daemons, browser, picture)
        finally:
            daemons.close()


def _portray(cluster: Cluster, daemons: Daemons, browser: Browser, picture: Path) -> None:
    brokers = sorted(cluster.brokers)
    names = ("orders", "payments")
    for name in names:
        cluster.create_topic(name, {n: _around(brokers, n, 2) for n in range(6)})
        write(cluster, name, 6, records=80)
    daemon = daemons.start("--max-partitions-in-flight", "6", "--copy-refresh", "2")
    small = {(names[1], n): _around(brokers, n + 1, 2) for n in range(2)}
    await_request(
        daemon, submit_request(cluster, small, reason="make room"), _is_done, within_s=120
    )
    targets = {(name, n): _around(brokers, n + 2, 2) for name in names for n in range(len(brokers))}
    request = submit_request(cluster, targets, throttle=THROTTLE, reason="drain the old disks")
    await_request(daemon, request, lambda r: r["eta_s"] is not None, within_s=120)
    time.sleep(20)
    browser.screenshot(f"{daemon.url}/?phase=in_flight", picture, height=1500)


def _is_done(request: Mapping[str, Any]) -> bool:
    return bool(request["state"] == "done")


def _around(brokers: list[int], first: int, count: int) -> list[int]:
    return [brokers[(first + n) % len(brokers)] for n in range(count)]


if __name__ == "__main__":
    main()
