"""Notifications reach webhook, Slack and program; one that hangs delays no other."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.setting_values import NotificationKind
from controller.settings import ENVIRONMENT_PREFIX
from controller.web.notifications import (
    Delivery,
    DeliveryQueue,
    ExecHook,
    Notification,
    PermanentDeliveryError,
    Slack,
    Target,
    TemporaryDeliveryError,
    Webhook,
)
from tests.telemetry.builders import START

WITHIN_S = 20.0
HELLO = Notification(NotificationKind.ENDED, START, "r has <ended> & more", {"request": "r"})


class Listener:
    """A real HTTP server that answers with the queued status codes, then with 200."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.answers: queue.Queue[int | None] = queue.Queue()
        """Status codes; None hangs until the end."""
        self.received: queue.Queue[dict[str, Any]] = queue.Queue()
        self.ending = threading.Event()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            """Records the posted documents."""

            def do_POST(self) -> None:
                """Answer."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.received.put(json.loads(body))
                code = 200 if listener.answers.empty() else listener.answers.get()
                if code is None:
                    listener.ending.wait(WITHIN_S)
                    return
                self.send_response(code)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def next(self) -> dict[str, Any]:
        """Return the next document."""
        return self.received.get(timeout=WITHIN_S)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Return a server."""
    made = Listener()
    yield made
    made.ending.set()
    made.server.shutdown()
    made.server.server_close()


class Results:
    """Counts the results of deliveries, and lets tests wait for them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counted: queue.Queue[tuple[str, str]] = queue.Queue()

    def __call__(self, target: str, result: str) -> None:
        """Count."""
        self._counted.put((target, result))

    def next(self, count: int = 1) -> Counter[tuple[str, str]]:
        """Return the next ones."""
        return Counter(self._counted.get(timeout=WITHIN_S) for _ in range(count))


def running(target: Target, results: Results, **options: Any) -> DeliveryQueue:  # noqa: ANN401 - of a queue
    """Return a started queue with short pauses between its attempts."""
    target_queue = DeliveryQueue(target, results, first_pause_s=0.001, **options)
    target_queue.start()
    return target_queue


def test_webhook_gets_the_document(listener: Listener) -> None:
    """JSON with the cluster's name."""
    Webhook(listener.url, "zk:2181").deliver(HELLO)
    assert listener.next() == {
        "v": 1,
        "event": "ended",
        "at": "2026-01-02T03:04:05.000Z",
        "cluster": "zk:2181",
        "text": "r has <ended> & more",
        "request": "r",
    }


def test_slack_gets_escaped_text(listener: Listener) -> None:
    """As Slack's API requires."""
    Slack(listener.url, "zk:2181").deliver(HELLO)
    assert listener.next() == {"text": "[ended] r has &lt;ended&gt; &amp; more (zk:2181)"}


def test_program_gets_the_document_and_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is its argument, the document its standard input."""
    monkeypatch.setenv(f"{ENVIRONMENT_PREFIX}SASL_PASSWORD", "secret")
    program, output = tmp_path / "hook", tmp_path / "output"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"found = [sys.argv[1:], json.load(sys.stdin), dict(os.environ)]\n"
        f"open({str(output)!r}, 'w').write(json.dumps(found))\n"
    )
    program.chmod(0o755)
    ExecHook(program, "zk:2181").deliver(HELLO)
    arguments, document, environment = json.loads(output.read_text())
    assert arguments == ["ended"]
    assert document["request"] == "r"
    assert not [name for name in environment if name.startswith(ENVIRONMENT_PREFIX)]
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("exit 3", TemporaryDeliveryError, "it ended with exit code 3"),
        ("exec sleep 60", TemporaryDeliveryError, "it ran for more than 0.2 s"),
        (None, PermanentDeliveryError, "No such file"),
    ],
)
def test_program_that_fails_or_hangs_raises(
    tmp_path: Path, script: str | None, error: type[Exception], words: str
) -> None:
    """A hanging one is killed after its time; a missing one is not tried again."""
    program = tmp_path / "hook"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    # Only the one that hangs is to reach it, however busy the machine is.
    timeout_s = 0.2 if script == "exec sleep 60" else 60.0
    with pytest.raises(error, match=words):
        ExecHook(program, "zk", timeout_s=timeout_s).deliver(HELLO)


@pytest.mark.parametrize("codes", [(500,), (503, 429, 502)])
def test_temporary_failure_is_retried(listener: Listener, codes: tuple[int, ...]) -> None:
    """Until it is delivered."""
    results = Results()
    for code in codes:
        listener.answers.put(code)
    target_queue = running(Webhook(listener.url, "zk"), results)
    target_queue.put(HELLO)
    assert results.next() == {("webhook", "delivered"): 1}
    assert listener.received.qsize() == len(codes) + 1
    target_queue.close()


@pytest.mark.parametrize(("codes", "tries"), [((500,) * 9, 3), ((404,), 1), ((301,), 1)])
def test_failure_is_counted_after_the_last_attempt(
    listener: Listener, codes: tuple[int, ...], tries: int
) -> None:
    """A permanent one after the first attempt; the next notification is delivered."""
    results = Results()
    for code in codes:
        listener.answers.put(code)
    target_queue = running(Webhook(listener.url, "zk"), results, tries=3)
    target_queue.put(HELLO)
    assert results.next() == {("webhook", "failed"): 1}
    assert listener.received.qsize() == tries
    listener.answers.queue.clear()
    target_queue.put(HELLO)
    assert results.next() == {("webhook", "delivered"): 1}
    target_queue.close()


def test_refused_connection_is_a_temporary_failure() -> None:
    """A port without a listener, a name without an address."""
    for url in ("http://127.0.0.1:1/", "http://nowhere.invalid/"):
        with pytest.raises(TemporaryDeliveryError, match="no answer"):
            Webhook(url, "zk", timeout_s=5).deliver(HELLO)


def test_hanging_listener_delays_neither_others_nor_the_loop(listener: Listener) -> None:
    """What does not fit into its queue is dropped and counted."""
    other, hung, well = Listener(), Results(), Results()
    listener.answers.put(None)
    slow = DeliveryQueue(Webhook(listener.url, "zk", timeout_s=WITHIN_S), hung, queue_max=2)
    fast = DeliveryQueue(Slack(other.url, "zk"), well)
    delivery = Delivery((slow, fast), frozenset({"ended"}))
    delivery.send(HELLO)
    listener.next()
    for _ in range(5):
        delivery.send(HELLO)
    assert hung.next(3) == {("webhook", "dropped"): 3}
    assert well.next(6) == {("slack", "delivered"): 6}
    listener.ending.set()
    delivery.close()
    other.server.shutdown()
    other.server.server_close()


def test_only_wanted_kinds_are_sent(listener: Listener) -> None:
    """As in the setting notify_on."""
    results = Results()
    delivery = Delivery(
        (DeliveryQueue(Webhook(listener.url, "zk"), results),), frozenset({"stalled"})
    )
    delivery.send(HELLO)
    delivery.send(Notification(NotificationKind.STALLED, START, "t-0"))
    assert results.next() == {("webhook", "delivered"): 1}
    assert listener.next()["event"] == "stalled"
    delivery.close()


def test_nothing_is_delivered_after_close(listener: Listener) -> None:
    """Waiting notifications count as dropped, and closing does not wait for them."""
    results = Results()
    target_queue = DeliveryQueue(Webhook(listener.url, "zk"), results, queue_max=2)
    target_queue.put(HELLO)
    target_queue.put(HELLO)
    target_queue.close()
    target_queue.start()
    assert results.next(2) == {("webhook", "dropped"): 2}
    target_queue._thread.join(WITHIN_S)
    assert not target_queue._thread.is_alive()
    assert listener.received.empty()
