"""
Notifications of starts, ends, stalls, cancellations and refusals, made of log events.

Stalls and refusals are coalesced: for one request, or one reason, at most one notification in ten
seconds. Each target, a webhook, a Slack channel or a program, has a thread and a bounded queue, so
that a slow one delays neither the others nor the loop. What does not fit, or fails, is counted and
logged; it never ends the daemon. See ``docs/decisions/0030``.
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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import structlog
import tenacity

from controller.core.model import Instant, count_text
from controller.core.requests.submissions import CancelScope
from controller.errors import RefusedError, TransientError
from controller.setting_values import NotificationKind
from controller.settings import ENVIRONMENT_PREFIX
from controller.telemetry.json_values import iso_time
from controller.telemetry.log_events import LogEvent
from controller.units import show_bytes, show_duration

EVERY_S: Final = 10.0
SAMPLE_MAX: Final = 5
CANCELLATIONS_KEPT: Final = 50


@dataclass(frozen=True, slots=True)
class Notification:
    """One message, for people as ``text`` and for programs as ``document``."""

    kind: NotificationKind
    at: datetime
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def document(self, cluster: str) -> dict[str, Any]:
        """Return the JSON document for webhooks and the exec hook."""
        return {
            "v": 1,
            "event": self.kind.value,
            "at": iso_time(self.at),
            "cluster": cluster,
            "text": self.text,
            **self.fields,
        }


@dataclass(slots=True)
class _Gathered:
    """Events of one kind that wait to be sent together."""

    count: int = 0
    sample: list[str] = field(default_factory=list)


class Coalescer:
    """Makes notifications of log events."""

    def __init__(self) -> None:
        self._once: list[Notification] = []
        self._gathered: dict[tuple[NotificationKind, str], _Gathered] = {}
        self._sent_at: dict[tuple[NotificationKind, str], Instant] = {}
        self._cancellations: deque[str] = deque(maxlen=CANCELLATIONS_KEPT)

    def take(self, event: LogEvent, at: datetime) -> None:
        """Add an event, most kinds of which are ignored."""
        # The fields of most events are never needed, and computing them takes time.
        match event.kind:
            case "request_begun":
                self._add(NotificationKind.STARTED, at, _start_text(event.fields), event)
            case "request_ended":
                self._add(NotificationKind.ENDED, at, _end_text(event.fields), event)
            case "cancellation_seen" if event.fields["request"] not in self._cancellations:
                self._cancellations.append(event.fields["request"])
                self._add(NotificationKind.CANCELLED, at, _cancellation_text(event.fields), event)
            case "refused":
                refused = event.fields
                self._gather(NotificationKind.REFUSED, refused["request"], 1, _refusal(refused))
            case "refused_more":
                refused = event.fields
                self._gather(NotificationKind.REFUSED, refused["request"], refused["entries"])
            case "stalled":
                stalled = event.fields
                name = f"{stalled['topic']}-{stalled['partition']}"
                self._gather(NotificationKind.STALLED, stalled["by"], 1, name)
            case "stalled_more":
                for by, count in event.fields["by"].items():
                    self._gather(NotificationKind.STALLED, by, count)
            case _:
                pass

    def due(self, now: Instant, at: datetime) -> Iterator[Notification]:
        """Return the notifications to be sent now."""
        yield from self._once
        self._once.clear()
        for key in list(self._gathered):
            sent = self._sent_at.get(key)
            if sent is None or now >= sent + EVERY_S:
                self._sent_at[key] = now
                yield _together(*key, self._gathered.pop(key), at)
        for key in [k for k, sent in self._sent_at.items() if now >= sent + EVERY_S]:
            if key not in self._gathered:
                del self._sent_at[key]

    def _add(self, kind: NotificationKind, at: datetime, text: str, event: LogEvent) -> None:
        self._once.append(Notification(kind, at, text, event.fields))

    def _gather(self, kind: NotificationKind, key: str, count: int, name: str = "") -> None:
        gathered = self._gathered.setdefault((kind, key), _Gathered())
        gathered.count += count
        if name and len(gathered.sample) < SAMPLE_MAX:
            gathered.sample.append(name)


def _start_text(fields: Mapping[str, Any]) -> str:
    cause = _cause(fields["requested_by"], fields["asked_for"])
    return f"{fields['request']} has started, {count_text(fields['entries'], 'partition')}{cause}"


def _end_text(fields: Mapping[str, Any]) -> str:
    moved, took = fields["bytes_moved"], show_duration(fields["seconds"])
    words = [
        f"{fields['request']} has ended ({fields['state']}) after {took}",
        f"{fields['done']} of {fields['entries']} done",
    ]
    words += [
        f"{fields[state]} {state}"
        for state in ("refused", "cancelled", "superseded", "skipped")
        if fields[state]
    ]
    if moved is not None:
        words.append(f"{show_bytes(moved)} copied")
    return ", ".join(words)


def _cancellation_text(fields: Mapping[str, Any]) -> str:
    if fields["unreadable"] is not None:
        return f"a cancellation is not readable: {fields['unreadable']}"
    what = "everything in progress" if fields["everything"] else "a selection"
    done = "undone" if fields["scope"] == CancelScope.ALL else "cancelled"
    return f"{what} is being {done}{_cause(fields['requested_by'], fields['reason'])}"


def _cause(by: str | None, why: str | None) -> str:
    return (f" by {by}" if by else "") + (f": {why}" if why else "")


def _refusal(fields: Mapping[str, Any]) -> str:
    return f"{fields['entry']} ({fields['reason']}: {fields['detail']})"


def _together(kind: NotificationKind, key: str, gathered: _Gathered, at: datetime) -> Notification:
    more = "" if gathered.count <= len(gathered.sample) else ", ..."
    named = "; ".join(gathered.sample) + more
    if kind is NotificationKind.STALLED:
        text = f"{count_text(gathered.count, 'partition')} stalled ({key}): {named}"
        about: dict[str, Any] = {"by": key, "partitions": gathered.count}
    else:
        text = f"{count_text(gathered.count, 'entry', 'entries')} of {key} refused: {named}"
        about = {"request": key, "entries": gathered.count}
    return Notification(kind, at, text, {**about, "sample": list(gathered.sample)})


# --- delivery -------------------------------------------------------------------------------------

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


class Webhook:
    """Posts the JSON document within ``timeout_s``; any 2xx status counts as delivered."""

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


Target = Webhook | ExecHook


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
            reraise=True,
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
        except (PermanentDeliveryError, TemporaryDeliveryError) as error:
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
