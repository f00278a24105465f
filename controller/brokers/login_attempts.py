"""
The pace of logins to brokers after one was refused, for all connections of a process.

Directories behind brokers lock accounts after a few wrong passwords. Each daemon has several
connections to each broker, and each of them retries. So a password that was never accepted, or was
refused last, is tried by one connection at a time, and after a refusal only when a pause has
passed. The pause grows with each further refusal. A password that another broker accepts ends it
for all but the brokers that refuse it. Another password is tried at once. The same holds for a
Kerberos key table: without a ticket, each attempt asks the key distribution centre.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from tenacity import wait_exponential, wait_random
from tenacity.wait import wait_base

from controller.clocks import pause_s

FIRST_S: Final = 5.0
MOST_S: Final = 300.0
"""The first pause, and the longest."""
REFUSED: Final = wait_exponential(multiplier=FIRST_S, max=MOST_S) + wait_random(0, 1)
PROVEN_S: Final = 30.0
"""The longest pause, after refusals elsewhere, for a broker that has accepted the password."""


def _kerberos_error() -> type[Exception]:
    """Return what a login without a ticket raises; without the extra ``kerberos``, nothing does."""
    try:
        found: type[Exception] = import_module("gssapi.exceptions").GSSError
    except (ImportError, OSError):  # its library may be missing
        return type("GSSError", (Exception,), {})
    return found


GSSError: Final = _kerberos_error()


@dataclass(slots=True)
class _Refusals:
    """Consecutive refusals, of one broker or of all."""

    count: int = 0
    last: float = 0.0
    pause_s: float = 0.0

    def add(self, now: float, wait: wait_base) -> None:
        self.count, self.last = self.count + 1, now
        self.pause_s = pause_s(wait, self.count)

    def end(self, most_s: float = math.inf) -> float:
        """Return when the pause ends."""
        return self.last + min(most_s, self.pause_s)


class LoginAttempts:
    """Admits logins; safe from any thread."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, refused: wait_base = REFUSED
    ) -> None:
        """
        Begin without a verdict on any password.

        Args:
            now: Returns the time in seconds.
            refused: The pauses after refusals.

        """
        self._now = now
        self._wait = refused
        self._lock = threading.Lock()
        self._password: str | None = None
        self._forget()

    def _forget(self) -> None:
        self._trusted = False
        """Whether the last verdict on the password was its acceptance."""
        self._is_tried = False
        """Whether a connection tries the password, while it is not trusted."""
        self._proven: set[str] = set()
        self._refused: dict[str, _Refusals] = {}
        self._all = _Refusals()
        self._why = ""

    def check(self, where: str, password: str | None) -> None:
        """
        Return unless a pause has to pass first.

        Args:
            where: ``host:port`` of the broker.
            password: The password for it.

        Raises:
            ConnectionError: there is a pause; the message has its length.

        """
        with self._lock:
            self._check(where, password)

    def _check(self, where: str, password: str | None) -> None:
        if password != self._password:
            self._password = password
            self._forget()
        here = self._refused.get(where, _Refusals())
        end = here.end()
        if not self._trusted:
            end = max(end, self._all.end(PROVEN_S if where in self._proven else math.inf))
        left_s = end - self._now()
        if left_s > 0:
            times = max(here.count, self._all.count)
            raise ConnectionError(
                f"logins were refused {times} times in a row ({self._why}); the next attempt is "
                f"in {left_s:.0f} s, or when the password changes"
            )

    def begin(self, where: str, password: str | None) -> bool:
        """
        Return True to try a login, which ``verdict`` surrounds, and False to ask again soon.

        Raises:
            ConnectionError: as ``check``.

        """
        with self._lock:
            self._check(where, password)
            if self._trusted:
                return True
            if self._is_tried:
                return False
            self._is_tried = True
            return True

    @contextmanager
    def verdict(self, where: str, password: str | None) -> Iterator[None]:
        """Note the verdict on the password: accepted, unless an exception says otherwise."""
        try:
            yield
        except (SaslAuthenticationFailedError, GSSError) as refusal:
            self._note(where, password, is_accepted=False)
            self._why = f"{where}: {refusal}"
            raise
        except KafkaConnectionError as lost:
            # A reset discards the refusal that the broker sent before it; until Kafka 1.0, brokers
            # sent none (KIP-152).
            is_doubtful = not self._trusted
            self._note(where, password, is_accepted=False if is_doubtful else None)
            if is_doubtful:
                self._why = f"{where}: the connection ended during the login ({lost})"
            raise
        except BaseException:
            self._note(where, password, is_accepted=None)
            raise
        self._note(where, password, is_accepted=True)

    def _note(self, where: str, password: str | None, *, is_accepted: bool | None) -> None:
        with self._lock:
            if password != self._password:
                return
            self._is_tried = False
            if is_accepted:
                self._trusted = True
                self._all = _Refusals()
                self._refused.pop(where, None)
                self._proven.add(where)
            elif is_accepted is False:
                self._trusted = False
                self._all.add(self._now(), self._wait)
                self._refused.setdefault(where, _Refusals()).add(self._now(), self._wait)
