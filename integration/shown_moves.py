"""
A move that is slow enough to be looked at: data on real brokers, a throttle, the daemon's page.

Run as a program it makes the pictures of the documentation:
``python -m integration.shown_moves docs/images``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from integration.rigs.browsers import Browser, Page
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import Daemons, Targets
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually

RECORD_BYTES: Final = 100_000
RECORDS: Final = 60
THROTTLE: Final = 400_000
"""Bytes per second and broker."""
TOKEN: Final = "a token for tests only"  # noqa: S105 - of a cluster that lives for minutes
WIDE: Final = 1600
NARROW: Final = 800
PHONE: Final = 400
STALLED_AFTER_S: Final = 40


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


def await_status(
    daemon: Daemon, is_so: Callable[[Mapping[str, Any]], bool], *, within_s: float, what: str
) -> None:
    """Wait until ``/status`` is as wanted."""
    eventually(
        lambda: is_so(daemon.status()),
        within_s=within_s,
        every_s=0.5,
        what=what,
        tolerating=(OSError,),
    )


def metric(daemon: Daemon, name: str, **labels: str) -> float:
    """Return a sample of ``/metrics``."""
    wanted = {f'{k}="{v}"' for k, v in labels.items()}
    for line in daemon.get("/metrics")[1].splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and match[1] == name and set((match[2] or "").split(",")) - {""} == wanted:
            return float(match[3])
    raise AssertionError(f"there is no {name} {labels}")


def journal(daemon: Daemon) -> list[dict[str, Any]]:
    """Return the lines of its journal."""
    text = (daemon.journal_directory / "journal.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def configured(directory: Path, **settings: object) -> tuple[str, str]:
    """Write a configuration file; return the options that name it."""
    path = directory / "reassigner.toml"
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items()))
    return ("--config", str(path))


def with_tokens(directory: Path, **settings: object) -> tuple[str, str]:
    """Write a configuration file with ``TOKEN`` for the operator alice; return the options."""
    tokens = directory / "tokens.toml"
    tokens.write_text(f'[alice]\nrole = "operate"\ntoken = "{TOKEN}"\n')
    return configured(directory, http_tokens=str(tokens), **settings)


def has_no_faults(window: Page) -> None:
    """Check with axe, in light and dark, and that nothing is cut in any width."""
    for width in (PHONE, NARROW, WIDE):
        wider, cut = window.overflow(width=width), window.cut(width=width)
        assert wider <= 0, f"{wider} pixels wider than {width}"
        assert not cut, f"cut at {width}: {cut}"
    for width in (NARROW, WIDE):
        for is_dark in (False, True):
            faults = window.faults(width=width, is_dark=is_dark)
            assert not faults, faults


def main() -> None:
    """Make the pictures."""
    directory = Path(sys.argv[1]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    browser = Browser.found()
    if browser is None:
        raise SystemExit("there is no headless Chromium, or no chromedriver")
    with Cluster.running() as cluster, tempfile.TemporaryDirectory() as name:
        daemons = Daemons(cluster, Path(name))
        try:
            with browser.window() as page:
                Portrait(cluster, daemons, page, directory).paint(Path(name))
        finally:
            daemons.close()


class Portrait:
    """The pictures of a daemon: idle, after a move, busy, its forms, stalled; and of a standby."""

    def __init__(self, cluster: Cluster, daemons: Daemons, page: Page, directory: Path) -> None:
        """Write the pictures into this directory."""
        self._cluster = cluster
        self._daemons = daemons
        self._page = page
        self._directory = directory
        self._brokers: Sequence[int] = sorted(cluster.brokers)

    def paint(self, scratch: Path) -> None:
        """Make all pictures."""
        names = ("orders", "payments", "sessions")
        for name in names:
            self._cluster.create_topic(name, {n: self._around(n, 2) for n in range(6)})
            write(self._cluster, name, 6, records=80)
        daemon = self._daemons.make(
            *with_tokens(scratch, stalled_after=STALLED_AFTER_S, copy_refresh=2),
            "--max-partitions-in-flight",
            "8",
        )
        daemon.token = TOKEN
        daemon.start()
        self._page.log_in(daemon.url, TOKEN)
        time.sleep(25)
        self._take(daemon, "idle", "/")
        first = self._submit(names[:2], 1, throttle=3_000_000, reason="balance the new disks")
        await_request(daemon, first, lambda r: bool(r["state"] == "done"), within_s=180)
        self._take(daemon, "history", f"/history?request={first}")
        self._preview(daemon)
        second = self._submit(names, 3, throttle=THROTTLE, reason="drain the old disks")
        await_request(daemon, second, lambda r: r["eta_s"] is not None, within_s=120)
        time.sleep(30)
        self._take(daemon, "busy", "/", dark=(WIDE, NARROW))
        self._stall(daemon)

    def _preview(self, daemon: Daemon) -> None:
        self._page.show(f"{daemon.url}/plan")
        self._page.check(f"broker-{self._brokers[0]}")
        self._page.fill("reason", "replace the machine")
        self._page.fill("throttle", "50MB")
        self._shoot("forms")
        self._page.press("Preview")
        self._shoot("preview")

    def _stall(self, daemon: Daemon) -> None:
        """Kill a broker that copies, and wait until its partitions count as stalled."""
        dead = daemon.status()["routes"][0]["to"]
        self._cluster.brokers[dead].kill()
        await_status(
            daemon, lambda s: bool(s["stalled"]), within_s=120, what="a partition is stalled"
        )
        time.sleep(10)
        self._take(daemon, "stalled", "/", dark=(WIDE,))
        stalled = next(p for p in daemon.status()["in_flight"] if p["stalled"])
        name = f"{stalled['topic']}-{stalled['partition']}"
        self._take(daemon, "partition", f"/partition?partition={name}")
        standby = self._daemons.start()
        self._take(standby, "standby", "/")
        self._cluster.start_brokers(dead)

    def _submit(self, names: Sequence[str], first: int, **options: object) -> str:
        targets: Targets = {(t, n): self._around(n + first, 2) for t in names for n in range(6)}
        return submit_request(self._cluster, targets, **options)

    def _take(self, daemon: Daemon, name: str, path: str, *, dark: Sequence[int] = ()) -> None:
        self._page.show(f"{daemon.url}{path}")
        self._shoot(name, dark=dark)

    def _shoot(self, name: str, *, dark: Sequence[int] = ()) -> None:
        """Make the pictures of the present page: light in two widths, and dark in some."""
        for width, is_dark in ((WIDE, False), (NARROW, False), *((w, True) for w in dark)):
            file = f"status-page-{name}-{width}{'-dark' if is_dark else ''}.png"
            to = self._directory / file
            self._page.picture(to, width=width, is_dark=is_dark)

    def _around(self, first: int, count: int) -> list[int]:
        return [self._brokers[(first + n) % len(self._brokers)] for n in range(count)]


if __name__ == "__main__":
    main()
