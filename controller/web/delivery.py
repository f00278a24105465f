"""
Delivery of notifications to a webhook, a Slack channel and a program.

Each target has a thread and a bounded queue, so that a slow one delays neither the others nor the
loop. What does not fit, or fails, is counted and logged; it never ends the daemon. See
``docs/decisions/0030``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final, Protocol

import structlog
import tenacity

from controller.core.model import Instant
from controller.errors import RefusedError, TransientError
from controller.settings import ENVIRONMENT_PREFIX
from controller.telemetry.log_events import LogEvent
from controller.web.notifications import Coalescer, Notification

QUEUE_MAX: Final = 1000
TIMEOUT_S: Final = 10.0
"""For one attempt."""
TRIES: Final = 4
FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 20.0
CLOSE_S: Final = 2.0
RESPONSE_MAX: Final = 10_000
"""Bytes of a response that are read, so that the connection ends in order."""

CountResult = Callable[[str, str], None]
"""Called for every notification with the target's name and the result."""


class PermanentDeliveryError(RefusedError):
    """The target refused a notification; another attempt would not help."""


class TemporaryDeliveryError(TransientError):
    """A delivery failed that may succeed at another attempt."""


class Target(Protocol):
    """A destination of notifications."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""

    def deliver(self, notification: Notification) -> None:
        """Deliver within ``TIMEOUT_S``, or raise one of the errors above."""


class Webhook:
    """Posts the JSON document; any 2xx status counts as delivered."""

    name = "webhook"

    def __init__(self, url: str, cluster: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._cluster = cluster
        self._timeout_s = timeout_s

    def deliver(self, notification: Notification) -> None:
        """Post the document."""
        post(self._url, self._body(notification), self._timeout_s)

    def _body(self, notification: Notification) -> Mapping[str, object]:
        return notification.document(self._cluster)


class Slack(Webhook):
    """Posts the text to an incoming webhook of Slack, or of a server that takes the same."""

    name = "slack"

    def _body(self, notification: Notification) -> Mapping[str, object]:
        """Return the text; what Slack takes for markup is escaped as its API requires."""
        text = f"[{notification.kind.value}] {notification.text} ({self._cluster})"
        return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


class ExecHook:
    """Runs a program with the event as its argument and the document on standard input."""

    name = "exec"

    def __init__(self, path: Path, cluster: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._cluster = cluster
        self._timeout_s = timeout_s

    def deliver(self, notification: Notification) -> None:
        """Run the program, without the daemon's settings in its environment: they hold secrets."""
        document = json.dumps(notification.document(self._cluster))
        try:
            done = subprocess.run(  # noqa: S603 - what the operator configured
                [str(self._path), notification.kind.value],
                input=document.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)},
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TemporaryDeliveryError(f"it ran for more than {self._timeout_s:g} s") from error
        except OSError as error:
            raise PermanentDeliveryError(f"{self._path}: {error.strerror or error}") from error
        if done.returncode:
            raise TemporaryDeliveryError(f"it ended with exit code {done.returncode}")


def post(url: str, document: Mapping[str, object], timeout_s: float) -> None:
    """Post a JSON document; only 5xx, 429 and no response are temporary failures."""
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "kafka-reassigner"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - http or https: see settings
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - as above
            response.read(RESPONSE_MAX)
    except urllib.error.HTTPError as error:
        error.close()
        words = f"it answered {error.code}"
        is_temporary = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_temporary or error.code == HTTPStatus.TOO_MANY_REQUESTS:
            raise TemporaryDeliveryError(words) from error
        raise PermanentDeliveryError(words) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise TemporaryDeliveryError(f"no answer: {reason}") from error


class DeliveryQueue:
    """
    The thread and the queue of one target; nothing is delivered before ``start``.

    ``first_pause_s`` is the longest pause before the second attempt; later pauses double it.
    """

    def __init__(
        self,
        target: Target,
        count: CountResult,
        *,
        queue_max: int = QUEUE_MAX,
        tries: int = TRIES,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._target = target
        self._count = count
        self._queue: queue.Queue[Notification | None] = queue.Queue(queue_max)
        self._closed = threading.Event()
        self._log = structlog.stdlib.get_logger(__name__)
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(tries),
            wait=tenacity.wait_random_exponential(first_pause_s, PAUSE_MAX_S),
            retry=tenacity.retry_if_exception_type(TemporaryDeliveryError),
            sleep=tenacity.sleep_using_event(self._closed),
        )
        name = f"notifications {target.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to deliver."""
        self._thread.start()

    def put(self, notification: Notification) -> None:
        """Queue a notification; never waits."""
        try:
            self._queue.put_nowait(notification)
        except queue.Full:
            self._count(self._target.name, "dropped")

    def close(self) -> None:
        """Deliver nothing more but what is under way, and wait at most ``CLOSE_S`` for that."""
        self._closed.set()
        # If the queue is full the thread sees the flag once it has emptied it.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while True:
            notification = self._queue.get()
            if notification is None:
                return
            if self._closed.is_set():
                self._count(self._target.name, "dropped")
            else:
                self._deliver(notification)
            if self._closed.is_set() and self._queue.empty():
                return

    def _deliver(self, notification: Notification) -> None:
        name, why = self._target.name, ""
        try:
            self._retrying(self._target.deliver, notification)
        except tenacity.RetryError as error:
            why = str(error.last_attempt.exception())
        except PermanentDeliveryError as error:
            why = str(error)
        if why:
            event = notification.kind.value
            self._log.warning("notification_failed", target=name, event_name=event, reason=why)
        self._count(name, "failed" if why else "delivered")


class Delivery:
    """Implements ``telemetry.observer.Notifier``: sends every target the wanted ``kinds``."""

    def __init__(self, queues: Sequence[DeliveryQueue], kinds: frozenset[str]) -> None:
        self._queues = queues
        self._kinds = kinds
        self._coalescer = Coalescer()
        for target in queues:
            target.start()

    def take(self, event: LogEvent, at: datetime) -> None:
        """Add an event; it is sent when ``send_due`` is called and it is time."""
        self._coalescer.take(event, at)

    def send_due(self, now: Instant, at: datetime) -> None:
        """Send what is due; never waits."""
        for notification in self._coalescer.due(now, at):
            self.send(notification)

    def send(self, notification: Notification) -> None:
        """Send a notification if its kind is wanted; never waits."""
        if notification.kind.value in self._kinds:
            for target in self._queues:
                target.put(notification)

    def close(self) -> None:
        """End the queues."""
        for target in self._queues:
            target.close()
