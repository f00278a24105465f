"""Announcements reach webhook, Slack and program; what hangs or fails delays and ends nothing."""

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

from controller.settings import ENVIRONMENT_PREFIX
from controller.web.delivery import (
    Delivery,
    DeliveryQueue,
    ExecHook,
    PermanentDeliveryError,
    Slack,
    Target,
    TemporaryDeliveryError,
    Webhook,
)
from controller.web.notifications import Notification, NotificationKind
from tests.telemetry.builders import START

WITHIN_S = 20.0
HELLO = Notification(NotificationKind.ENDED, START, "r has <ended> & more", {"request": "r"})


class Listener:
    """A real HTTP server that answers as it is told, one after the other, at last with 200."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.answers: queue.Queue[int | None] = queue.Queue()
        """Status codes; None hangs until the end."""
        self.received: queue.Queue[dict[str, Any]] = queue.Queue()
        self.ending = threading.Event()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            """Keeps what was posted."""

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


class Fates:
    """Counts what became of announcements, and lets tests wait for it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._told: queue.Queue[tuple[str, str]] = queue.Queue()

    def __call__(self, target: str, result: str) -> None:
        """Count."""
        self._told.put((target, result))

    def next(self, count: int = 1) -> Counter[tuple[str, str]]:
        """Return the next ones."""
        return Counter(self._told.get(timeout=WITHIN_S) for _ in range(count))


def running(target: Target, fates: Fates, **options: Any) -> DeliveryQueue:  # noqa: ANN401 - of a courier
    """Return a courier that hardly pauses between its tries."""
    courier = DeliveryQueue(target, fates, first_pause_s=0.001, **options)
    courier.start()
    return courier


def test_webhook_gets_the_document(listener: Listener) -> None:
    """As JSON, with which cluster it is about."""
    Webhook(listener.url, "zk:2181").deliver(HELLO)
    assert listener.next() == {
        "v": 1,
        "event": "ended",
        "at": "2026-01-02T03:04:05.000Z",
        "cluster": "zk:2181",
        "text": "r has <ended> & more",
        "request": "r",
    }


def test_slack_gets_a_text_that_is_no_markup(listener: Listener) -> None:
    """Escaped as Slack asks."""
    Slack(listener.url, "zk:2181").deliver(HELLO)
    assert listener.next() == {"text": "[ended] r has &lt;ended&gt; &amp; more (zk:2181)"}


def test_program_gets_the_document_and_none_of_our_secrets(
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
def test_program_that_fails_or_hangs_is_told(
    tmp_path: Path, script: str | None, error: type[Exception], words: str
) -> None:
    """It is ended after its time; one that is not there is not tried again."""
    program = tmp_path / "hook"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    with pytest.raises(error, match=words):
        ExecHook(program, "zk", timeout_s=0.2).deliver(HELLO)


@pytest.mark.parametrize("codes", [(500,), (503, 429, 502)])
def test_passing_failure_is_tried_again(listener: Listener, codes: tuple[int, ...]) -> None:
    """Until it arrives."""
    fates = Fates()
    for code in codes:
        listener.answers.put(code)
    courier = running(Webhook(listener.url, "zk"), fates)
    courier.put(HELLO)
    assert fates.next() == {("webhook", "delivered"): 1}
    assert listener.received.qsize() == len(codes) + 1
    courier.close()


@pytest.mark.parametrize(("codes", "tries"), [((500,) * 9, 3), ((404,), 1), ((301,), 1)])
def test_failure_is_given_up(listener: Listener, codes: tuple[int, ...], tries: int) -> None:
    """After a few tries, or at once where another would change nothing; the next one goes on."""
    fates = Fates()
    for code in codes:
        listener.answers.put(code)
    courier = running(Webhook(listener.url, "zk"), fates, tries=3)
    courier.put(HELLO)
    assert fates.next() == {("webhook", "failed"): 1}
    assert listener.received.qsize() == tries
    listener.answers.queue.clear()
    courier.put(HELLO)
    assert fates.next() == {("webhook", "delivered"): 1}
    courier.close()


def test_nobody_that_listens_is_a_passing_failure() -> None:
    """A port without a listener, a name without an address."""
    for url in ("http://127.0.0.1:1/", "http://nowhere.invalid/"):
        with pytest.raises(TemporaryDeliveryError, match="no answer"):
            Webhook(url, "zk", timeout_s=5).deliver(HELLO)


def test_listener_that_hangs_delays_neither_the_others_nor_the_loop(listener: Listener) -> None:
    """What does not fit into its queue is dropped and counted."""
    other, hung, well = Listener(), Fates(), Fates()
    listener.answers.put(None)
    slow = DeliveryQueue(Webhook(listener.url, "zk", timeout_s=WITHIN_S), hung, queue_max=2)
    fast = DeliveryQueue(Slack(other.url, "zk"), well)
    announce = Delivery((slow, fast), frozenset({"ended"}))
    announce.send(HELLO)
    listener.next()
    for _ in range(5):
        announce.send(HELLO)
    assert hung.next(3) == {("webhook", "dropped"): 3}
    assert well.next(6) == {("slack", "delivered"): 6}
    listener.ending.set()
    announce.close()
    other.server.shutdown()
    other.server.server_close()


def test_only_what_is_wanted_is_announced(listener: Listener) -> None:
    """By the name of the occasion."""
    fates = Fates()
    announce = Delivery(
        (DeliveryQueue(Webhook(listener.url, "zk"), fates),), frozenset({"stalled"})
    )
    announce.send(HELLO)
    announce.send(Notification(NotificationKind.STALLED, START, "t-0"))
    assert fates.next() == {("webhook", "delivered"): 1}
    assert listener.next()["event"] == "stalled"
    announce.close()


def test_nothing_is_delivered_after_the_end(listener: Listener) -> None:
    """What waits is counted as dropped, and closing does not wait for it."""
    fates = Fates()
    courier = DeliveryQueue(Webhook(listener.url, "zk"), fates, queue_max=2)
    courier.put(HELLO)
    courier.put(HELLO)
    courier.close()
    courier.start()
    assert fates.next(2) == {("webhook", "dropped"): 2}
    courier._thread.join(WITHIN_S)
    assert not courier._thread.is_alive()
    assert listener.received.empty()
