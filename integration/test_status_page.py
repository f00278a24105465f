"""
The status page, ``/status``, the metrics and the journal during a real move, and after it.

What they say of bytes is held against the brokers' disks; the page is read by a browser.
"""

from __future__ import annotations

import http.client
import re
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from docs.generate.journal_events import EVENTS, RECORDS
from docs.generate.journal_kinds import LIFE
from integration.conftest import MakeTopic
from integration.rigs.browsers import Browser, Page
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import OUTCOMES, Daemons, Targets, await_end, children, outcome
from integration.rigs.requests import submit_request
from integration.rigs.reserved_ports import LOCALHOST
from integration.rigs.waiting import eventually
from integration.shown_moves import (
    THROTTLE,
    TOKEN,
    await_request,
    configured,
    has_no_faults,
    journal,
    metric,
    status_of_request,
    with_tokens,
    write,
)

PARTITIONS = 4


@pytest.fixture
def moved(make_topic: MakeTopic, cluster: Cluster) -> tuple[str, Targets, int]:
    """Give a topic, where it is to go, and the bytes of values in each partition."""
    topic = make_topic(dict.fromkeys(range(PARTITIONS), (1, 2)))
    written = write(cluster, topic, PARTITIONS)
    return topic, {(topic, n): (1, 3 + n % 3) for n in range(PARTITIONS)}, written


class Counted(HTMLParser):
    """Counts tags by name and class."""

    def __init__(self, html: str) -> None:
        """Read a page."""
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """Return the tags with these attributes; ``class_`` is ``class``."""
        wanted = {k.rstrip("_"): v for k, v in attributes.items()}
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]


def test_page_shows_a_move_and_what_became_of_it(
    cluster: Cluster, moved: tuple[str, Targets, int], daemons: Daemons
) -> None:
    """Progress in bytes with a range for the end, copies, phases; then history and timeline."""
    browser = Browser.required()
    topic, targets, written = moved
    daemon = daemons.start("--copy-refresh", "1")
    request = submit_request(cluster, targets, throttle=THROTTLE, reason="<i>drain</i>")
    during = await_request(daemon, request, lambda r: r["eta_s"] is not None, within_s=90)
    low, high = during["eta_s"]
    assert 0 <= low <= high
    with browser.window() as window:
        window.show(f"{daemon.url}/?topic={topic}&phase=in_flight&still=1")
        page = Counted(window.html)
        assert page.of("progress"), window.html
        assert page.of("rect", class_="route"), window.html
        assert f"{topic}-0" in window.words
        assert "<i>drain</i>" in window.words, "shown as text, not as markup"
        assert "of 24 MB" in window.words or "of 24." in window.words, window.words
        found = re.search(r"\d+ %\s+\S+ \w*B of 6(\.\d+)? MB", window.words)
        assert found, window.words  # each copy has its bytes
        has_no_faults(window)
        _refreshes_in_place(window, f"{daemon.url}/?topic={topic}")
        await_end(cluster, targets, within_s=240)
        await_request(daemon, request, lambda r: r["state"] == "done", within_s=20)
        history = Counted(window.show(f"{daemon.url}/history?request={request}").html)
        assert len(history.of("rect", class_="span")) >= 2 * PARTITIONS
        has_no_faults(window)
        assert f"/history?request={request}" in window.show(f"{daemon.url}/?still=1").html
    assert written > 0


def _refreshes_in_place(window: Page, url: str) -> None:
    """Check that the page changes without being loaded again, and keeps what is typed."""
    window.show(url)
    window.run("window.kept = true")
    before = window.html
    eventually(lambda: window.html != before, within_s=30, every_s=0.5, what="the page changes")
    assert window.run("return window.kept")


def test_bytes_agree_with_the_disks(
    cluster: Cluster, moved: tuple[str, Targets, int], daemons: Daemons
) -> None:
    """In the status, the metrics and the journal, which holds nothing that is not documented."""
    topic, targets, written = moved
    daemon = daemons.start("--copy-refresh", "1")
    request = submit_request(cluster, targets, throttle=4 * THROTTLE)
    during = await_request(
        daemon,
        request,
        lambda r: bool(r["bytes"] and r["bytes"]["moved"] > 0 and not r["sizes_unknown"]),
        within_s=60,
    )
    total = during["bytes"]["total"]
    on_disk = sum(_size(cluster, topic, n, 1) for n in range(PARTITIONS))
    assert written * PARTITIONS <= total
    assert total == on_disk
    assert during["bytes"]["moved"] + during["bytes"]["remaining"] == total
    await_end(cluster, targets, within_s=240)
    after = await_request(daemon, request, lambda r: r["state"] == "done", within_s=20)
    assert after["bytes"] == {"total": total, "moved": total, "remaining": 0}
    assert metric(daemon, "reassigner_copied_bytes_total") == total
    assert metric(daemon, "reassigner_broker_served_bytes_total", broker="1") == total
    for broker in (3, 4, 5):
        size = sum(_size(cluster, topic, n, broker) for n in range(broker - 3, PARTITIONS, 3))
        labels = {"broker": str(broker)}
        assert metric(daemon, "reassigner_broker_received_bytes_total", **labels) == size
    assert metric(daemon, "reassigner_replica_copy_seconds_count") == PARTITIONS
    assert metric(daemon, "reassigner_zookeeper_seconds_count", operation="commit") > 0
    assert metric(daemon, "reassigner_zookeeper_seconds_count", operation="ping") > 0
    daemon.stop(within_s=20)
    lines = journal(daemon)
    kinds = {**LIFE, **RECORDS, **EVENTS}
    unknown = {line["kind"] for line in lines} - kinds.keys()
    assert not unknown
    copies = [line for line in lines if line["kind"] == "copied"]
    assert {(c["partition"], c["leader"], c["replica"], c["bytes"]) for c in copies} == {
        (n, 1, 3 + n % 3, _size(cluster, topic, n, 3 + n % 3)) for n in range(PARTITIONS)
    }
    (ended,) = (line for line in lines if line["kind"] == "request_ended")
    assert (ended["request"], ended["state"], ended["bytes_moved"]) == (request, "done", total)


def test_token_pauses_resumes_and_cancels(
    cluster: Cluster, moved: tuple[str, Targets, int], daemons: Daemons, tmp_path: Path
) -> None:
    """On the page of the leader, as the command line would; journal and outcome say who did."""
    topic, targets, _ = moved
    options = with_tokens(tmp_path)
    daemon = daemons.make(*options, "--max-partitions-in-flight", "1")
    daemon.token = TOKEN
    daemon.start()
    request = submit_request(cluster, targets, throttle=THROTTLE)
    await_request(daemon, request, lambda r: r["state"] == "in_flight", within_s=60)
    assert press(daemon, "pause", request, token="wrong" * 5) == http.HTTPStatus.UNAUTHORIZED
    assert press(daemon, "pause", request) == http.HTTPStatus.SEE_OTHER
    await_request(daemon, request, lambda r: r["reason"] is not None, within_s=20)
    pause = daemon.status()["controls"]["paused"]["requests"][request]
    assert pause["by"] == "alice, on the status page"
    assert press(daemon, "resume", request) == http.HTTPStatus.SEE_OTHER
    await_request(daemon, request, lambda r: r["reason"] is None, within_s=20)
    assert press(daemon, "cancel", request) == http.HTTPStatus.SEE_OTHER
    await_end(cluster, {(topic, n): (1, 2) for n in range(PARTITIONS)}, within_s=120)
    await_request(daemon, request, lambda r: r["state"] == "cancelled", within_s=20)
    assert press(daemon, "pause", "request_9999999999") == http.HTTPStatus.CONFLICT
    steered = [
        (x["action"], x["by"], x["result"]) for x in journal(daemon) if x["kind"] == "steered"
    ]
    assert steered[:3] == [
        ("pause", "alice", "done"),
        ("resume", "alice", "done"),
        ("cancel", "alice", "done"),
    ]
    assert status_of_request(daemon, request)["partitions"]["cancelled"] == PARTITIONS
    ends = [outcome(cluster, name) or {} for name in children(cluster, OUTCOMES)]
    authors = {end.get("requested_by") for end in ends}
    assert "alice, on the status page" in authors


def test_commands_query_a_daemon_with_tls_and_tokens(
    cluster: Cluster, daemons: Daemons, tmp_path: Path
) -> None:
    """Whose certificate changes while it runs; without the token they say what is missing."""
    certificate = _certificate(tmp_path)
    settings = {
        "http_tls_certfile": str(certificate),
        "http_tls_keyfile": str(tmp_path / "key.pem"),
        "http_tls_cafile": str(certificate),
        "zookeeper": cluster.zookeeper_connect,
    }
    options = configured(tmp_path, http_token=TOKEN, **settings)
    daemon = daemons.make(*options)
    daemon.token, daemon.tls = TOKEN, ssl.create_default_context(cafile=certificate)
    daemon.start()
    assert run_reassigner("status", *options).code == 0
    direct = run_reassigner("watch", *options, "--http", daemon.url, "--until-idle")
    assert direct.code == 0, direct.stdout
    _certificate(tmp_path)
    renewed = run_reassigner("status", *options)
    assert renewed.code == 0, renewed.stdout
    anonymous = run_reassigner("status", *configured(tmp_path, **settings))
    assert "401" in anonymous.stdout
    assert "http_token" in anonymous.stdout
    assert TOKEN not in daemon.log.read_text()


def test_a_standby_links_the_leader_and_takes_over_in_the_same_window(
    cluster: Cluster, moved: tuple[str, Targets, int], daemons: Daemons
) -> None:
    """The leader is killed; meanwhile ``status`` says what it waits for, and ends with the work."""
    browser = Browser.required()
    topic, targets, _ = moved
    leader = daemons.start("--copy-refresh", "1")
    standby = daemons.start("--copy-refresh", "1")
    where = ("--zookeeper", cluster.zookeeper_connect)
    request = submit_request(cluster, targets, throttle=THROTTLE)
    await_request(leader, request, lambda r: r["state"] == "in_flight", within_s=60)
    assert standby.status()["role"] == "standby"
    assert standby.status()["leader"] == leader.port.address
    with browser.window() as window:
        window.show(f"{standby.url}/")
        assert "This daemon is a standby" in window.words
        assert topic not in window.words
        has_no_faults(window)
        window.follow(leader.url)
        assert topic in window.words
        window.show(f"{standby.url}/")
        leader.kill()
        said = run_reassigner("status", *where)
        assert said.code == 2, said.stdout
        assert "a standby takes over when its session with ZooKeeper ends" in said.stdout
        assert f"{topic}-0: " in said.stdout
        assert standby.status()["role"] == "leader"
        eventually(
            lambda: topic in window.words, within_s=30, every_s=1, what="the page shows the work"
        )
    await_end(cluster, targets, within_s=240)


def _certificate(directory: Path) -> Path:
    """Make a new certificate for the loopback interface; return its file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate = directory / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=test"),
            *("-addext", f"subjectAltName=IP:{LOCALHOST}"),
            *("-out", str(certificate), "-keyout", str(directory / "key.pem")),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


def press(daemon: Daemon, action: str, request: str, *, token: str = TOKEN) -> int:
    """Send the form that a button of the page sends."""
    form = urlencode({"action": action, "request": request})
    headers: Mapping[str, str] = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Authorization": f"Bearer {token}",
    }
    connection = http.client.HTTPConnection(LOCALHOST, daemon.port.number, timeout=20)
    try:
        connection.request("POST", "/control", form, dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def _size(cluster: Cluster, topic: str, partition: int, broker: int) -> int:
    """Return the bytes of a replica's segments on disk."""
    (log_dir,) = cluster.brokers[broker].log_dirs
    segments = (log_dir / f"{topic}-{partition}").glob("*.log")
    return sum(segment.stat().st_size for segment in segments)
