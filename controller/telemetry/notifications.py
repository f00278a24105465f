"""
Announcements to the outside: a webhook, a Slack channel, a program.

Each has a thread and a bounded queue of its own: one that does not answer delays neither the others
nor the loop, and what does not fit is dropped, counted and logged. Nothing here ends the daemon.
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
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final, Protocol

import structlog
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_random_exponential,
)

from controller.errors import RefusedError, TransientError
from controller.settings import ENVIRONMENT_PREFIX
from controller.telemetry.announcements import Announcement

QUEUE_MAX: Final = 1000
TIMEOUT_S: Final = 10.0
"""For one try."""
TRIES: Final = 4
FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 20.0
CLOSE_S: Final = 2.0
ANSWER_MAX: Final = 10_000
"""Bytes of an answer that are read, so that the connection ends in order."""

Counted = Callable[[str, str], None]
"""Told of each announcement's fate: target and result."""


class UndeliverableError(RefusedError):
    """It was refused for good: trying again would change nothing."""


class PassingError(TransientError):
    """It may work another time."""


class Target(Protocol):
    """Somewhere to deliver to."""

    @property
    def name(self) -> str:
        """What logs and metrics call it."""
        ...

    def deliver(self, announcement: Announcement) -> None:
        """
        Deliver, within a time.

        Raises:
            PassingError: another try may help.
            UndeliverableError: none will.

        """
        ...


class Webhook:
    """Posts a JSON document; any answer of the 200s means that it arrived."""

    name = "webhook"

    def __init__(self, url: str, cluster: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Post to this address."""
        self._url = url
        self._cluster = cluster
        self._timeout_s = timeout_s

    def deliver(self, announcement: Announcement) -> None:
        """Post it."""
        post(self._url, announcement.document(self._cluster), self._timeout_s)


class Slack:
    """Posts to an incoming webhook of Slack, or of whatever takes the same."""

    name = "slack"

    def __init__(self, url: str, cluster: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Post to this address."""
        self._url = url
        self._cluster = cluster
        self._timeout_s = timeout_s

    def deliver(self, announcement: Announcement) -> None:
        """Post it as text; what Slack would take for markup is escaped as Slack asks."""
        words = f"[{announcement.occasion.value}] {announcement.text} ({self._cluster})"
        escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        post(self._url, {"text": escaped}, self._timeout_s)


class Program:
    """Runs a program with the event's name as its argument and the document on standard input."""

    name = "exec"

    def __init__(self, path: Path, cluster: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Run this program."""
        self._path = path
        self._cluster = cluster
        self._timeout_s = timeout_s

    def deliver(self, announcement: Announcement) -> None:
        """Run it; our secrets are not in its environment."""
        document = json.dumps(announcement.document(self._cluster))
        try:
            done = subprocess.run(  # noqa: S603 - what the operator configured
                [str(self._path), announcement.occasion.value],
                input=document.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)},
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PassingError(f"it ran for more than {self._timeout_s:g} s") from error
        except OSError as error:
            raise UndeliverableError(f"{self._path}: {error.strerror or error}") from error
        if done.returncode:
            raise PassingError(f"it ended with exit code {done.returncode}")


def post(url: str, document: Mapping[str, object], timeout_s: float) -> None:
    """
    Post a JSON document.

    Raises:
        PassingError: nobody answers, or the answer is of the 500s, or "too many requests".
        UndeliverableError: any other answer but of the 200s.

    """
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "kafka-reassigner"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - http or https: see settings
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 - as above
            answer.read(ANSWER_MAX)
    except urllib.error.HTTPError as error:
        error.close()
        words = f"it answered {error.code}"
        is_passing = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_passing or error.code == HTTPStatus.TOO_MANY_REQUESTS:
            raise PassingError(words) from error
        raise UndeliverableError(words) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise PassingError(f"no answer: {reason}") from error


class Courier:
    """One target's thread and queue."""

    def __init__(
        self,
        target: Target,
        counted: Counted,
        *,
        queue_max: int = QUEUE_MAX,
        tries: int = TRIES,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """
        Prepare; nothing is delivered before ``start``.

        Args:
            target: Where to.
            counted: Told of each announcement's fate.
            queue_max: Announcements that may wait.
            tries: How often one is tried.
            first_pause_s: At most, before the second try; later ones double it.

        """
        self._target = target
        self._counted = counted
        self._queue: queue.Queue[Announcement | None] = queue.Queue(queue_max)
        self._closed = threading.Event()
        self._log = structlog.stdlib.get_logger(__name__)
        self._retrying = Retrying(
            stop=stop_after_attempt(tries),
            wait=wait_random_exponential(first_pause_s, PAUSE_MAX_S),
            retry=retry_if_exception_type(PassingError),
            sleep=sleep_using_event(self._closed),
        )
        name = f"notifications {target.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def put(self, announcement: Announcement) -> None:
        """Deliver it some time; never waits."""
        try:
            self._queue.put_nowait(announcement)
        except queue.Full:
            self._counted(self._target.name, "dropped")

    def close(self) -> None:
        """Deliver no more but what is under way, and do not wait long for that."""
        self._closed.set()
        # Where it is full the thread finds the flag when it has emptied it.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while True:
            announcement = self._queue.get()
            if announcement is None:
                return
            if self._closed.is_set():
                self._counted(self._target.name, "dropped")
            else:
                self._deliver(announcement)
            if self._closed.is_set() and self._queue.empty():
                return

    def _deliver(self, announcement: Announcement) -> None:
        name, why = self._target.name, ""
        try:
            self._retrying(self._target.deliver, announcement)
        except RetryError as error:
            why = str(error.last_attempt.exception())
        except UndeliverableError as error:
            why = str(error)
        if why:
            event = announcement.occasion.value
            self._log.warning("notification_failed", target=name, event_name=event, reason=why)
        self._counted(name, "failed" if why else "delivered")


class Notifications:
    """Hands announcements to every target that wants them."""

    def __init__(self, couriers: tuple[Courier, ...], occasions: frozenset[str]) -> None:
        """
        Start the couriers.

        Args:
            couriers: One for each target; there may be none.
            occasions: What is announced; anything else is not.

        """
        self._couriers = couriers
        self._occasions = occasions
        for courier in couriers:
            courier.start()

    def __call__(self, announcement: Announcement) -> None:
        """Hand an announcement over; never waits."""
        if announcement.occasion.value in self._occasions:
            for courier in self._couriers:
                courier.put(announcement)

    def close(self) -> None:
        """End the couriers."""
        for courier in self._couriers:
            courier.close()
